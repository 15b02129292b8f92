"""A chat whose agent, of the OpenAI Agents SDK, has memory: `python examples/openai_agents_chat.py`, with OPENAI_API_KEY."""

import asyncio
import sys
import uuid

from agents import Agent, Runner, SQLiteSession

from memory_sql import Memory
from memory_sql.integrations.openai_agents import AgentMemory


async def main() -> None:
    agent = Agent(name="Ada", instructions="You are Ada, Mia's assistant.", model="gpt-5-mini")
    async with Memory() as memory:
        ada = AgentMemory(memory, agent_id="ada")
        session = ada.session(SQLiteSession(uuid.uuid4().hex), user_id="mia")  # each start is a conversation
        for line in sys.stdin:
            result = await Runner.run(session.remembering(agent), line.strip(), session=session)
            print(result.final_output)
        await memory.run_due()  # what a worker does otherwise


if __name__ == "__main__":
    asyncio.run(main())
