"""Code written for mem0, with another import: `python examples/from_mem0.py USER`, with OPENAI_API_KEY, a line a turn."""

import sys

from openai import OpenAI

from memory_sql.integrations.mem0 import Memory  # instead of: from mem0 import Memory


def reply(model: OpenAI, memory: Memory, user: str, said: str) -> str:
    known = memory.search(said, filters={"user_id": user}, top_k=3)["results"]
    facts = "\n".join(f"- {item['memory']}" for item in known)
    messages = [
        {"role": "system", "content": f"You are a helpful assistant. You know of the user:\n{facts}"},
        {"role": "user", "content": said},
    ]
    response = model.chat.completions.create(model="gpt-5-mini", messages=messages)
    answer = response.choices[0].message.content
    memory.add([*messages, {"role": "assistant", "content": answer}], user_id=user)
    return answer


def main(user: str) -> None:
    with Memory() as memory, OpenAI() as model:
        for line in sys.stdin:
            print(reply(model, memory, user, line.strip()))


if __name__ == "__main__":
    main(sys.argv[1])
