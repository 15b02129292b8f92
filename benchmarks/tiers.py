"""How a search grows with one scope, and what tiers make of that: nine of ten observations are cold.

Scopes of 1,000, 10,000 and 100,000 observations are asked in turns, with `tiering` off and on, by words alone and with
vectors. In these the cold ones lie between the hot ones, which is worst; in one more of the last size they are the oldest.
Only ratios within one run count.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import random
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from functools import partial
from typing import Any

import asyncpg  # type: ignore[import-untyped]

from benchmarks.context import medians_us
from benchmarks.crowd import AGENT, SEED, Crowd, Person, commonest, vocabulary, words
from benchmarks.scale import QUERY_WORDS, buffers, check, sent, settle
from benchmarks.server import fresh_database, plain_url
from memory_sql.config import Settings
from memory_sql.db.engine import SERVER_SETTINGS
from memory_sql.llm.offline import Offline
from memory_sql.memory import Memory

SIZES = (1_000, 10_000, 100_000)
OTHERS, EACH = 300, 100  # other users, so that the planner knows of many scopes
RARE = 15_000  # from this rank on a word stands in about one text of 10,000
ROUNDS, WARM_UP = 40, 8
OFF = Settings(llm="offline", embedding="off")
ON = OFF.model_copy(update={"tiering": True})

Ask = Callable[[random.Random], str]
Call = Callable[[], Awaitable[object]]

_VECTORS = """
    INSERT INTO memory.observation_vectors (agent_key, scope_id, seq, model, bits)
    SELECT o.agent_key, o.scope_id, o.seq, 'random:512', (
        SELECT string_agg(('x' || md5(o.scope_id || ' ' || o.seq || ' ' || n))::bit(128)::text, '')::varbit
        FROM generate_series(1, 4) n
    ) FROM memory.observations o WHERE o.scope_id = ANY ($1::bigint[])
"""
_BETWEEN = "UPDATE memory.observations SET cold = true WHERE scope_id = $1 AND seq % 10 <> 7"
_OLDEST = "UPDATE memory.observations SET cold = true WHERE scope_id = $1 AND seq <= $2"


class Randoms:
    """An embedding model that takes no time: a text's vector is its hash."""

    name, dimensions, local = "random", 512, True

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        return [[1.0 if bit == "1" else -1.0 for bit in _bits(text)] for text in texts]


def _bits(text: str) -> str:
    return f"{int.from_bytes(hashlib.sha512(text.encode()).digest()):0512b}"


QUERIES: dict[str, Ask] = {
    "common words": lambda _: commonest(QUERY_WORDS),
    "words as they come": lambda source: words(source, QUERY_WORDS),
    "rare words": lambda source: " ".join(source.choices(vocabulary()[RARE:], k=QUERY_WORDS)),
}


async def main(sizes: Sequence[int] = SIZES) -> None:
    async with fresh_database() as url:
        connection = await asyncpg.connect(plain_url(url), server_settings=SERVER_SETTINGS)
        try:
            people = await filled(connection, sizes)
            async with AsyncExitStack() as opened:
                memories = {
                    f"{how}, {tiers}": await opened.enter_async_context(
                        Memory(url, Offline(), settings, embeddings=model)
                    )
                    for how, model in (("words alone", None), ("with vectors", Randoms()))
                    for tiers, settings in (("off", OFF), ("on", ON))
                }
                await check(memories["words alone, on"])
                await compared(memories, people, connection)
        finally:
            await connection.close()


async def filled(connection: asyncpg.Connection, sizes: Sequence[int]) -> list[Person]:
    """A person for each size, and one more whose cold observations are the oldest."""
    crowd = await Crowd.of(connection)
    await connection.execute(
        _VECTORS, [other.scope_id for other in await crowd.add("other", OTHERS, EACH)], timeout=None
    )
    people = [(await crowd.add(f"tiered{n}-", 1, size))[0] for n, size in enumerate((*sizes, sizes[-1]))]
    await connection.execute(_VECTORS, [person.scope_id for person in people], timeout=None)
    for person in people[:-1]:
        await connection.execute(_BETWEEN, person.scope_id, timeout=None)
    oldest = people[-1]
    await connection.execute(_OLDEST, oldest.scope_id, oldest.observations * 9 // 10, timeout=None)
    await settle(connection)
    return people


async def compared(memories: dict[str, Memory], people: Sequence[Person], connection: asyncpg.Connection) -> None:
    for how in ("words alone", "with vectors"):
        for name, ask in QUERIES.items():
            await report(f"search, {name}, {how}", "search", ask, how, memories, people, connection)
        await report(
            f"context with a message, {how}",
            "context",
            QUERIES["words as they come"],
            how,
            memories,
            people,
            connection,
        )


async def report(
    title: str,
    kind: str,
    ask: Ask,
    how: str,
    memories: dict[str, Memory],
    people: Sequence[Person],
    connection: asyncpg.Connection,
) -> None:
    """p50 and pages of each scope, off and on, and times the smallest scope with tiering off."""
    calls = {
        (person.scope_id, tiers): asked(memories[f"{how}, {tiers}"], kind, ask, person)
        for person in people
        for tiers in ("off", "on")
    }
    took = dict(zip(calls, await medians_us(*calls.values(), rounds=ROUNDS, warm=WARM_UP), strict=True))
    first = took[people[0].scope_id, "off"]
    print(f"\n{title}", flush=True)
    for number, person in enumerate(people):
        told = []
        for tiers in ("off", "on"):
            with sent(memories[f"{how}, {tiers}"]) as seen:
                await asked(memories[f"{how}, {tiers}"], kind, ask, person)()
            pages = [await buffers(connection, item) for _ in range(2) for item in seen][len(seen) :]
            us = took[person.scope_id, tiers]
            told.append(f"{tiers} {us / 1000:7.2f} ms {us / first:6.2f} x {sum(pages):8,} pages")
        where = ", oldest cold" if number == len(people) - 1 else ""
        print(f"  {f'{person.observations:,}{where}':22} {'   '.join(told)}", flush=True)


def asked(memory: Memory, kind: str, ask: Ask, person: Person) -> Call:
    """Each asks the same questions, one after another."""
    source = random.Random(SEED)
    whose: dict[str, Any] = {"agent_id": AGENT, "user_id": person.user_id}
    if kind == "search":
        return lambda: memory.search(ask(source), **whose)
    return lambda: memory.context(**whose, message=ask(source), retrieve=True)


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tiers", description=__doc__)
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)), help="observations of a scope, step by step")
    return parser.parse_args(given)


if __name__ == "__main__":
    asyncio.run(partial(main, [int(size) for size in arguments().sizes.split(",")])())
