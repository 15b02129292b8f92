"""A chat whose agent, of Pydantic AI, has memory: `python examples/pydantic_ai_chat.py`, with OPENAI_API_KEY."""

import asyncio
import sys

from pydantic_ai import Agent

from memory_sql import Memory
from memory_sql.integrations.pydantic_ai import MemoryCapability


async def main() -> None:
    async with Memory() as memory:
        agent = Agent(
            "openai:gpt-5-mini",
            instructions="You are Ada, Mia's assistant.",
            capabilities=[MemoryCapability(memory, agent_id="ada", user_id="mia")],
        )
        said = []  # each start of the program is a conversation, whose id is in its history
        for line in sys.stdin:
            result = await agent.run(line.strip(), message_history=said)
            said = result.all_messages()
            print(result.output)
        await memory.run_due()  # what a worker does otherwise


if __name__ == "__main__":
    asyncio.run(main())
