"""A chat whose agent, of Agent Framework, has memory: `python examples/agent_framework_chat.py`, with OPENAI_API_KEY."""

import asyncio
import sys

from agent_framework import Agent
from agent_framework.openai import OpenAIChatCompletionClient

from memory_sql import Memory
from memory_sql.integrations.agent_framework import MemoryProvider


async def main() -> None:
    async with Memory() as memory:
        agent = Agent(
            OpenAIChatCompletionClient("gpt-5-mini"),
            instructions="You are Ada, Mia's assistant.",
            context_providers=[MemoryProvider(memory, agent_id="ada", user_id="mia")],
        )
        session = agent.create_session()  # each start of the program is a conversation
        for line in sys.stdin:
            print(await agent.run(line.strip(), session=session))
        await memory.run_due()  # what a worker does otherwise


if __name__ == "__main__":
    asyncio.run(main())
