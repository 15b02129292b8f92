"""A chat whose agent, of LangChain, has memory: `python examples/langchain_chat.py`, with OPENAI_API_KEY, a line a turn."""

import sys
import uuid

from langchain.agents import create_agent
from langgraph.checkpoint.memory import InMemorySaver

from memory_sql.integrations.langchain import MemoryMiddleware
from memory_sql.sync import Memory


def main() -> None:
    with Memory() as memory:
        agent = create_agent(
            "openai:gpt-5-mini",
            system_prompt="You are Ada, Mia's assistant.",
            middleware=[MemoryMiddleware(memory, agent_id="ada", user_id="mia")],
            checkpointer=InMemorySaver(),
        )
        thread = {"configurable": {"thread_id": uuid.uuid4().hex}}  # each start of the program is a conversation
        for line in sys.stdin:
            state = agent.invoke({"messages": [{"role": "user", "content": line.strip()}]}, thread)
            print(state["messages"][-1].text)
        memory.run_due()  # what a worker does otherwise


if __name__ == "__main__":
    main()
