"""The example, and the quickstart of mem0's README with another import, as a reader would run them."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import pytest

from tests.fakes import extracted
from tests.loopback import Loopback, Received, loopback

EXAMPLE = Path(__file__).parents[2] / "examples" / "from_mem0.py"
QUICKSTART = """
from openai import OpenAI
from memory_sql.integrations.mem0 import Memory

openai_client = OpenAI()
memory = Memory()

def chat_with_memories(message: str, user_id: str = "default_user") -> str:
    # Retrieve relevant memories
    relevant_memories = memory.search(query=message, filters={"user_id": user_id}, top_k=3)
    memories_str = "\\n".join(f"- {entry['memory']}" for entry in relevant_memories["results"])

    # Generate Assistant response
    system_prompt = f"You are a helpful AI. Answer the question based on query and memories.\\nUser Memories:\\n{memories_str}"
    messages = [{"role": "system", "content": system_prompt}, {"role": "user", "content": message}]
    response = openai_client.chat.completions.create(model="gpt-5-mini", messages=messages)
    assistant_response = response.choices[0].message.content

    # Create new memories from the conversation
    messages.append({"role": "assistant", "content": assistant_response})
    memory.add(messages, user_id=user_id)

    return assistant_response

def main():
    print("Chat with AI (type 'exit' to quit)")
    while True:
        user_input = input("You: ").strip()
        if user_input.lower() == 'exit':
            print("Goodbye!")
            break
        print(f"AI: {chat_with_memories(user_input)}")

if __name__ == "__main__":
    main()
"""  # noqa: E501
"""Of mem0ai 2.2.1 (Apache 2.0), with one line changed."""


def answer(received: Received) -> str:
    """Of the chat, whose system prompt begins like this, and of formation."""
    if received.instructions.startswith("You are a helpful"):
        return f"I know: {received.instructions.rpartition(':')[2].strip() or 'nothing'}"
    return extracted(("Prefers green tea.", "individual")) if "green tea" in received.prompt else extracted()


async def run(server: Loopback, database_url: str, script: Path, *args: str, said: str) -> list[str]:
    own = {"MEMORY_SQL_URL": database_url, "OPENAI_API_KEY": "test", "OPENAI_BASE_URL": server.base_url}
    environment = {name: value for name, value in os.environ.items() if name != "MEMORY_SQL_LLM"}
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-W", "error", str(script), *args, env=environment | own, stdin=pipe, stdout=pipe, stderr=pipe
    )
    out, error = await process.communicate(said.encode())
    assert (process.returncode, error.decode()) == (0, "")
    return out.decode().splitlines()


@pytest.mark.prove
async def test_the_example_knows_in_a_second_process_what_was_said_in_the_first(database_url: str) -> None:
    async with loopback(answer) as server:
        assert await run(server, database_url, EXAMPLE, "mia", said="I prefer green tea.\n") == ["I know: nothing"]
        assert await run(server, database_url, EXAMPLE, "mia", said="Which tea?\n") == ["I know: - Prefers green tea."]
        assert await run(server, database_url, EXAMPLE, "jonas", said="Which tea?\n") == ["I know: nothing"]


@pytest.mark.slow
async def test_the_quickstart_of_mem0_runs_by_changing_its_import(database_url: str, tmp_path: Path) -> None:
    script = tmp_path / "quickstart.py"
    script.write_text(QUICKSTART, "utf-8")
    async with loopback(answer) as server:
        told = await run(server, database_url, script, said="I prefer green tea.\nWhich tea?\nexit\n")
    assert told == [
        "Chat with AI (type 'exit' to quit)",
        "You: AI: I know: nothing",
        "You: AI: I know: - Prefers green tea.",
        "You: Goodbye!",
    ]
