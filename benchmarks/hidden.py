"""Whether time tells what a user may not know: requests for what is another's beside requests for what isn't there.

    python -m benchmarks.hidden

In turns, by a user's key, over HTTP within this process. The ratio of the medians should be 1; what it is by chance is shown
by the same request against itself.
"""

from __future__ import annotations

import asyncio
from statistics import median
from time import perf_counter

from benchmarks.server import analyze, fresh_database
from memory_sql import Memory
from memory_sql.server import create_app
from tests.asgi import Client, lived

OTHERS, EACH, TURNS = 40, 50, 300
BASE = "/v1/agents/bench"


async def main() -> None:
    async with fresh_database() as url, Memory(url) as memory:
        theirs = await _filled(memory)
        await analyze(url)
        key = await memory.keys.create("hers", rights=["read", "write"], agents=["bench"], user_id="mia")
        async with lived(create_app(memory, mcp=False, requests_per_minute=10**9)) as nobody:
            await _compare(nobody.with_key(key.secret), theirs)


async def _filled(memory: Memory) -> str:
    """The id of an observation that Mia may not see."""
    for user in range(OTHERS):
        for n in range(EACH):
            found = await memory.observe(f"Note {n} of the harbour.", agent_id="bench", user_id=f"u{user}")
            said = [{"role": "user", "content": f"Note {n}."}]
            await memory.add(said, agent_id="bench", user_id=f"u{user}", conversation_id=f"c{user}")
    await memory.groups.create("theirs", agent_id="bench")
    await memory.groups.add_member("theirs", "u1", agent_id="bench")
    for n in range(EACH):
        await memory.observe(f"Mia's note {n}.", agent_id="bench", user_id="mia")
    return found.id


async def _compare(mia: Client, theirs: str) -> None:
    said = {"messages": [{"role": "user", "content": "Hi."}]}
    asked = [
        ("GET", "observations/{}", theirs, "o999-1", None),
        ("GET", "observations/{}/sources", theirs, "o999-1", None),
        ("PATCH", "observations/{}", theirs, "o999-1", {"text": "It isn't so."}),
        ("POST", "observations/{}/quarantine", theirs, "o999-1", {}),
        ("POST", "conversations/{}/messages", "c1", "c999", said),
        ("GET", "conversations/{}/messages", "c1", "c999", None),
        ("GET", "groups/{}/members", "theirs", "nobodys", None),
    ]
    print(f"medians of {TURNS}; by chance: isn't there against itself")
    for method, path, one, nothing, body in asked:
        spent = {"isn't yours": list[float](), "isn't there": list[float](), "by chance": list[float]()}
        for turn in range(TURNS):
            order = [(name, key) for name, key in zip(spent, (one, nothing, nothing), strict=True)]
            for name, key in order if turn % 2 else reversed(order):
                since = perf_counter()
                await mia(method, f"{BASE}/{path.format(key)}", body)
                spent[name].append(perf_counter() - since)
        yours, there, chance = (1000 * median(one) for one in spent.values())
        print(
            f"{method:<5} {path:<28} {yours:6.2f} ms  {there:6.2f} ms  {yours / there:.2f}x   by chance {chance / there:.2f}x"
        )


if __name__ == "__main__":
    asyncio.run(main())
