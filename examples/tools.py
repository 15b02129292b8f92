"""A chat whose model has memory as tools: `python examples/tools.py`, with OPENAI_API_KEY, a line for each turn."""

import asyncio
import sys

from openai import AsyncOpenAI

from memory_sql import Memory
from memory_sql.tools import MemoryTools, Policy

INSTRUCTIONS = "You are Ada, Mia's assistant. Use your tools to remember what she tells you, and to recall it."


async def turn(model: AsyncOpenAI, tools: MemoryTools, said: list) -> str:
    tools.turn()  # from now on, what an earlier turn has shown may be forgotten
    while True:
        response = await model.responses.create(
            model="gpt-5-mini", instructions=INSTRUCTIONS, input=said, tools=tools.openai()
        )
        said += response.output
        calls = [item for item in response.output if item.type == "function_call"]
        for call in calls:
            answer = await tools.call(call.name, call.arguments)
            said.append({"type": "function_call_output", "call_id": call.call_id, "output": answer.text})
        if not calls:
            return response.output_text


async def main() -> None:
    async with Memory() as memory, AsyncOpenAI() as model:
        tools = MemoryTools(memory, agent_id="ada", user_id="mia", policy=Policy(forget="hide"))
        said = []
        for line in sys.stdin:
            said.append({"role": "user", "content": line.strip()})
            print(await turn(model, tools, said))


if __name__ == "__main__":
    asyncio.run(main())
