"""How many conversations workers form in a second, with a model that answers at once: one process, then two.

Also what a formation costs its process and the server, compared with `SELECT 1`. Only ratios within one run count.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time

from benchmarks.server import fresh_database
from benchmarks.wire import counted
from memory_sql.config import Settings
from memory_sql.llm.offline import Offline
from memory_sql.memory import Memory
from memory_sql.worker import Worker

CONVERSATIONS = 400
SETTINGS = Settings(llm="offline", embedding="off", formation_messages=2)


async def fill(memory: Memory, agent_id: str, conversations: int) -> None:
    for n in range(conversations):
        said = [f"I live in harbour town {n} and drink tea number {n}.", f"We decided that the deadline is day {n}."]
        await memory.add(
            [{"role": "user", "content": text} for text in said],
            agent_id=agent_id,
            user_id=f"u{n}",
            conversation_id=f"s{n}",
        )


async def work(url: str, agent_id: str) -> None:
    """Prints how many conversations it formed, and the CPU seconds of the process for that."""
    async with Memory(url, Offline(), SETTINGS) as memory:
        await Worker(memory, agent_id="warm").run_once()
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        used = time.process_time()
        done = await Worker(memory, agent_id=agent_id).run_once()
        print(done.formed, time.process_time() - used, flush=True)


async def rate(url: str, agent_id: str, processes: int) -> tuple[float, float]:
    """Formations in a second, and the CPU milliseconds of each in the processes that form."""
    async with Memory(url, Offline(), SETTINGS) as memory:
        await fill(memory, "warm", 2 * processes)
        await fill(memory, agent_id, CONVERSATIONS)
    workers = [await _worker(url, agent_id) for _ in range(processes)]
    started = time.perf_counter()
    told = await asyncio.gather(*(worker.communicate(b"\n") for worker in workers))
    seconds = time.perf_counter() - started
    formed, used = (sum(float(out.split()[place]) for out, _ in told) for place in (0, 1))
    assert formed == CONVERSATIONS
    return formed / seconds, 1000 * used / formed


async def _worker(url: str, agent_id: str) -> asyncio.subprocess.Process:
    worker = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        "import asyncio, sys; from benchmarks.working import work; asyncio.run(work(*sys.argv[1:]))",
        url,
        agent_id,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert worker.stdout is not None
    assert (await worker.stdout.readline()) == b"ready\n"
    return worker


async def trips(url: str) -> int:
    async with counted(url) as wire, Memory(wire.url, Offline(), SETTINGS) as memory:
        await fill(memory, "trips", 3)
        for n in range(3):
            wire.types.clear()
            await memory.conversations.form(agent_id="trips", conversation_id=f"s{n}")
        return wire.round_trips


async def main() -> None:
    async with fresh_database() as url:
        print(f"round trips of one formation: {await trips(url)}")
        alone, cost = await rate(url, "one", 1)
        together, _ = await rate(url, "two", 2)
        print(f"one process      {alone:8.1f} formations/s   {cost:.1f} ms of its CPU each")
        print(f"two processes    {together:8.1f} formations/s   {together / alone:.2f} x")
