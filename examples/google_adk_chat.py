"""A chat whose agent, of Google's ADK, has memory: `python examples/google_adk_chat.py`, with GOOGLE_API_KEY."""

import asyncio
import sys

from google.adk.agents import Agent
from google.adk.apps import App
from google.adk.runners import InMemoryRunner
from google.genai import types

from memory_sql import Memory
from memory_sql.integrations.google_adk import MemoryPlugin


async def main() -> None:
    agent = Agent(name="ada", model="gemini-3.5-flash", instruction="You are Ada, Mia's assistant.")
    async with Memory() as memory:
        runner = InMemoryRunner(app=App(name="ada", root_agent=agent, plugins=[MemoryPlugin(memory)]))
        session = await runner.session_service.create_session(app_name="ada", user_id="mia")
        for line in sys.stdin:
            said = types.UserContent(line.strip())
            async for event in runner.run_async(user_id="mia", session_id=session.id, new_message=said):
                if event.is_final_response():
                    print(event.content.parts[0].text)
        await memory.run_due()  # what a worker does otherwise


if __name__ == "__main__":
    asyncio.run(main())
