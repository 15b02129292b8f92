"""What a search and an `observe` take with links, beside the same without, as the links of a scope grow to a million.

    python -m benchmarks.links [--sizes 1000,100000,1000000]

Each observation leads to one of three hubs, to the one before it and to two of the thousand before that. A query finds the
hubs and ten others; what is observed names one of them. Only the ratios of one line count, and how they grow.
"""

from __future__ import annotations

import argparse
import asyncio
from typing import Any

import asyncpg  # type: ignore[import-untyped]

from benchmarks.server import fresh_database, plain_url
from benchmarks.walls import medians_ms
from memory_sql.config import Settings
from memory_sql.memory import Memory

SIZES = (1_000, 100_000, 1_000_000)  # links
EACH = 4  # of an observation
QUERY = "Where was the kangoo seen?"
MIA: dict[str, Any] = {"agent_id": "ada", "user_id": "mia"}
SETTINGS = Settings(llm="offline", embedding="off")
PLACES = ("mill", "lake", "church", "station", "market", "forest", "bridge", "school", "quarry", "airport")
FILL = (
    """
    INSERT INTO memory.observations (agent_key, scope_id, seq, content, observed_at, source_kind, hash_version)
    SELECT agent_key, scope_id, n, coalesce('The kangoo was seen at the ' || place, 'A rope of metres: ' || n), now(),
           'observe', 2
    FROM memory.scopes CROSS JOIN generate_series(4, $1) n
    LEFT JOIN unnest($2::text[]) WITH ORDINALITY p (place, k) ON n = k * $1 / 11
    """,
    """
    INSERT INTO memory.links (agent_key, scope_id, seq, to_seq, kind, label)
    SELECT s.agent_key, s.scope_id, n, t.to_seq, 'entity', t.label
    FROM memory.scopes s CROSS JOIN generate_series(4, $1) n
    CROSS JOIN LATERAL (
        VALUES (1 + n % 3, 'hub'), (n - 1, 'rope'), (greatest(n - 1 - n * 7 % 997, 1), 'knot'),
               (greatest(n - 2 - n * 13 % 991, 1), 'bend')
    ) t (to_seq, label)
    WHERE $2::text[] IS NOT NULL
    ON CONFLICT DO NOTHING
    """,
)


async def measured(links: int) -> str:
    async with fresh_database() as url, Memory(url, settings=SETTINGS) as plain:
        for place in ("harbour", "shed", "yard"):
            await plain.observe(f"The kangoo stands in the {place}.", **MIA)
        connection = await asyncpg.connect(plain_url(url))
        for statement in FILL:
            await connection.execute(statement, links // EACH, PLACES)
        await connection.execute("UPDATE memory.scopes SET last_seq = $1", links // EACH)
        await connection.execute("ANALYZE")
        there = await connection.fetchval("SELECT count(*) FROM memory.links")
        await connection.close()
        async with Memory(url, settings=SETTINGS.model_copy(update={"graph": True})) as linked:
            found = [len((await one.search(QUERY, **MIA)).results) for one in (plain, linked)]
            searches = await medians_ms(lambda _: plain.search(QUERY, **MIA), lambda _: linked.search(QUERY, **MIA))
            stored = await medians_ms(
                lambda n: plain.observe(said(n, "off"), **MIA), lambda n: linked.observe(said(n, "on"), **MIA)
            )
    columns = (
        f"{without:7.2f} {with_links:7.2f} {with_links / without:5.2f}" for without, with_links in (searches, stored)
    )
    return f"{there:>9,}  {'   '.join(columns)}   {found[0]} → {found[1]}"


def said(n: int, which: str) -> str:
    return f"With links {which}, she has driven the Kangoo {n + 100} times to the {PLACES[n % len(PLACES)]}."


async def main(sizes: list[int]) -> None:
    print("    links  a search: with ratio   an observe: with ratio   results")
    for links in sizes:
        print(await measured(links))


if __name__ == "__main__":
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--sizes", default=",".join(map(str, SIZES)))
    asyncio.run(main([int(size) for size in asked.parse_args().sizes.split(",")]))
