"""A town as one agent knows it: 10⁵ observations, 10⁴ people, 10³ scopes. One person has said 20 times as much as others.

Rows are written straight into the tables, as the library would have left them: `Memory.admin.verify` finds nothing wrong.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import asyncpg  # type: ignore[import-untyped]

from benchmarks.server import plain_url

AGENT = "ada"
PERSON = "mia"
GROUP = "g1"  # everybody is a member of it
SIZES: Mapping[str, int] = {"people": 10_000, "own": 2_000, "each": 96, "individuals": 799, "groups": 200, "days": 90}


async def fill(url: str, sizes: Mapping[str, int] = SIZES) -> dict[str, str]:
    """Into an empty database; returns ids for the addresses of pages. Takes some seconds."""
    script = Path(__file__).with_name("town.sql").read_text()
    for name, value in sizes.items():
        script = script.replace(f":{name}", str(value))
    connection = await asyncpg.connect(plain_url(url))
    try:
        async with connection.transaction():
            await connection.execute(script, timeout=None)
        await connection.execute("ANALYZE")
    finally:
        await connection.close()
    return {"tea": "o1000-5", "scope": "s1000", "group": GROUP}
