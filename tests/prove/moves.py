"""Kills the move of an agent to another shard at every step, while others write: it is whole in one, and nothing is lost.

    python -m tests.prove.moves --a URL --b URL [--kills 12]

Without `--kills` at every step; else half of them in the last 200, where the agent is kept from changing, comes and goes.

A step is a statement, a commit, or a change of the map; a child process dies before or after one of them. Then whoever comes
next ends the move. Every message and observation that was acknowledged is there once, and what was forgotten is not.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from multiprocessing.connection import Connection
from typing import Any

from memory_sql.config import Settings
from memory_sql.db.moving import End, owner
from memory_sql.memory import Memory
from memory_sql.shards import moving, places
from tests.fakes import Scripted
from tests.integration.test_moving import holders, lived, shown, traces
from tests.sharding import asked

SETTINGS = Settings(llm="offline", pool_size=3)
DIED = 137
LATE_STEPS = 200
SETTING = "SELECT set_config("  # which begins a transaction, so nothing is lost by it
WHO: dict[str, Any] = {"agent_id": "ada", "user_id": "mia"}


def hurry() -> None:
    places.LOOK_SECONDS = moving.LATE_SECONDS = 0.0
    moving.PAUSE_SECONDS = 0.05


class Fuse:
    def __init__(self, dies_at: int) -> None:
        self._dies_at = dies_at
        self.steps = 0

    def burn(self) -> None:
        self.steps += 1
        if self.steps == self._dies_at:
            os._exit(DIED)

    def lay(self) -> None:
        """At every statement of the move, every end of a transaction, and every change of the map."""
        ran, changed = End.run, moving.Move._change

        async def run(end: End, sql: str, **given: Any) -> Any:
            if not sql.startswith(SETTING):
                self.burn()
            return await ran(end, sql, **given)

        async def change(move: moving.Move, *given: Any) -> None:
            self.burn()
            await changed(move, *given)
            self.burn()

        @asynccontextmanager
        async def ending(*given: Any, **named: Any) -> AsyncIterator[End]:
            async with owner(*given, **named) as end:
                yield end
                self.burn()
            self.burn()

        for place, name, step in ((End, "run", run), (moving.Move, "_change", change), (moving, "owner", ending)):
            setattr(place, name, step)


async def move(urls: dict[str, str], to: str, dies_at: int) -> int:
    """In the child: the number of steps, if it lives."""
    hurry()
    fuse = Fuse(dies_at)
    async with Memory(shards=urls, settings=SETTINGS) as memory:
        fuse.lay()
        await memory.admin.move(agent_id="ada", to=to)
    return fuse.steps


def child(urls: dict[str, str], to: str, dies_at: int, said: Connection) -> None:
    said.send(asyncio.run(move(urls, to, dies_at)))


async def in_child(urls: dict[str, str], to: str, dies_at: int) -> tuple[int, int]:
    """Its exit code and how many steps it took."""
    server = multiprocessing.get_context("forkserver")  # importing everything again would take longer than the move
    server.set_forkserver_preload([lived.__module__])
    heard, said = server.Pipe(duplex=False)
    process = server.Process(target=child, args=(urls, to, dies_at, said))
    process.start()
    said.close()
    await asyncio.to_thread(process.join)
    assert process.exitcode is not None
    return process.exitcode, heard.recv() if process.exitcode == 0 else 0


class Writer:
    """Adds, observes and forgets without a pause, and keeps what was acknowledged."""

    def __init__(self, memory: Memory, name: str) -> None:
        self._memory = memory
        self._name = name
        self.said: list[str] = []
        self.noted: list[str] = []
        self.slowest = 0.0

    async def write(self, stop: asyncio.Event) -> None:
        number = 0
        while not stop.is_set():
            number += 1
            key, began = f"{self._name}-{number}", time.monotonic()
            said = [{"role": "user", "content": f"My number is {key}.", "id": f"m{key}"}]
            await self._memory.add(said, **WHO, conversation_id=f"c{self._name}")
            self.said.append(key)
            one = await self._memory.observe(f"Number {key} is Mia's.", **WHO)
            if number % 2:
                await self._memory.forget(one.id, agent_id="ada")
            else:
                self.noted.append(key)
            self.slowest = max(self.slowest, time.monotonic() - began)
            await asyncio.sleep(0.1)


def chosen(steps: int, kills: int) -> list[int]:
    """In order."""
    if not kills:
        return list(range(1, steps + 1))
    half, late = kills // 2, max(1, steps - LATE_STEPS)
    spread = [1 + (late - 1) * n // half for n in range(half)]
    return sorted({*spread, *(late + (steps - late) * n // (kills - half) for n in range(kills - half)), steps})


async def prove(urls: dict[str, str], kills: int) -> None:
    hurry()
    async with (
        Memory(None, Scripted(), SETTINGS, shards=urls) as memory,
        Memory(shards=urls, settings=SETTINGS) as other,
    ):
        await lived(memory)
        before = await shown(memory)
        code, _ = await in_child(urls, "b", 0)
        assert code == 0, code
        assert await shown(memory) == before
        stop, writers = asyncio.Event(), [Writer(memory, "w"), Writer(other, "x")]
        writing = [asyncio.create_task(writer.write(stop)) for writer in writers]
        code, steps = await in_child(urls, "a", 0)
        assert code == 0, code
        print(f"{steps} steps of a move", flush=True)
        at, stayed, went = "a", 0, 0
        for dies_at in chosen(steps, kills):
            to, began = "a" if at == "b" else "b", time.monotonic()
            code, _ = await in_child(urls, to, dies_at)
            assert code in (0, DIED), code  # with more to copy there are more steps, with less fewer
            assert not any(one.done() for one in writing), [one.exception() for one in writing if one.done()]
            await settled(memory, urls)
            (now,) = await holders(urls)
            stayed, went, at = stayed + (now == at), went + (now == to), now
            print(f"step {dies_at}: {now} after {time.monotonic() - began:.1f} s", flush=True)
        stop.set()
        await asyncio.gather(*writing)
        await judge(memory, urls[at], writers)
        slowest = max(writer.slowest for writer in writers)
        print(f"{stayed} stayed, {went} went; {sum(len(w.said) for w in writers)} rounds, the slowest {slowest:.1f} s")
        assert stayed
        assert went


async def settled(memory: Memory, urls: dict[str, str]) -> None:
    """Once the server has noticed who died in the middle of a statement, which holds its locks until then."""
    async with asyncio.timeout(30):
        await moving.settle_all(memory._spread, set())
        while left := await traces(urls):
            print(f"left: {left[:3]}", flush=True)
            await asyncio.sleep(0.5)
            await moving.settle_all(memory._spread, set())


async def judge(memory: Memory, url: str, writers: list[Writer]) -> None:
    said = await asked(url, "SELECT message_id FROM memory.messages WHERE content LIKE 'My number%'")
    noted = await asked(url, "SELECT content FROM memory.observations WHERE content LIKE 'Number %'")
    assert sorted(key.removeprefix("m") for (key,) in said) == sorted(key for w in writers for key in w.said)
    assert sorted(content.split()[1] for (content,) in noted) == sorted(key for w in writers for key in w.noted)
    assert list(await memory.admin.verify(hashes=True)) == []


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--a", required=True)
    parser.add_argument("--b", required=True)
    parser.add_argument("--kills", type=int, default=0)
    given = parser.parse_args()
    asyncio.run(prove({"a": given.a, "b": given.b}, given.kills))


if __name__ == "__main__":
    main()
