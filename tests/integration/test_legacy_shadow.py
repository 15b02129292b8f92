"""From the legacy database by an import to agents on `engine = shadow`, which differ only as docs/switching.md says."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from memory_sql.backends import LegacyMongoBackend, RoutingBackend, ShadowCounts, SqlBackend
from memory_sql.importers.mongo.options import ImportOptions
from memory_sql.memory import Memory
from tests.legacy.cases import CASES
from tests.legacy.formats import load
from tests.legacy.generator import Legacy
from tests.legacy.homes import Home
from tests.legacy.server import stand_in

KEY = b"k" * 32
MEANT = {
    "A9": (0, 1),  # the texts of both documents
    "A10": (0, 1),
    "A11": (2, 0),  # a user who is gone
    "A12": (2, 0),  # an agent that is gone
    "A12 missing": (2, 0),
    "A17": (0, 1),  # what no text holds is told
    "absorbed_without_text": (0, 1),
    "A18": (0, 1),  # a shard that doesn't say whether it is active
    "later": (2, 3),  # the later system's memory
}
"""By case how many statements the old memory tells alone, and this one: the table of docs/switching.md."""


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with stand_in() as url:
        yield url


@asynccontextmanager
async def switched(
    memory: Memory, server: str, name: str, legacy: Legacy, **options: Any
) -> AsyncIterator[RoutingBackend]:
    """The database of that name is written, imported from the server, and each of its agents is on `shadow`."""
    await load(server, name, legacy.collections())
    report = await memory.imports.mongo(
        mongo_url=f"{server.rstrip('/')}/{name}", key=KEY, options=ImportOptions(**options)
    )
    assert report.unaccounted == ()
    async with LegacyMongoBackend.at(server, database=name) as old:
        sql = SqlBackend(memory, read_session=old.read_session)
        async with RoutingBackend(memory, old, sql=sql) as routing:
            yield routing


async def compared(
    memory: Memory, routing: RoutingBackend, agent: str, users: Sequence[str], session: str | None
) -> ShadowCounts:
    await memory.configure(agent_id=agent, engine="shadow")
    for user in users:
        await routing.assemble_memory_context(session, agent, user)
    await routing.settle()
    counts = routing.counts(agent)
    assert (counts.contexts, counts.failed, counts.dropped) == (len(users), {}, 0)
    return counts


@pytest.mark.slow
async def test_after_an_import_both_memories_tell_the_same(memory: Memory, server: str) -> None:
    async with switched(memory, server, "same", Legacy(agents=2, cases=())) as routing:
        for home in (Home((1, "agent", n)) for n in range(2)):
            users = [str(home.key("user", n)) for n in range(3)]
            counts = await compared(memory, routing, str(home.agent), users, None)
            assert (counts.common, counts.differing, counts.only_legacy, counts.only_sql) == (66, 0, 0, 0)


async def test_episodes_are_told_where_they_are_kept(memory: Memory, server: str) -> None:
    """Of a session that has gone on here: before, nobody is known to take part in it."""
    legacy, home = Legacy(agents=1, cases=(), messages=True), Home((1, "agent", 0))
    agent, session = str(home.agent), str(home.session)
    async with switched(memory, server, "episodes", legacy, episodes="conversation") as routing:
        await memory.configure(agent_id=agent, engine="shadow")
        await routing.maybe_form_memories(agent, session, agent)
        await routing.settle()
        counts = await compared(memory, routing, agent, [str(home.user)], session)
    assert (counts.common, counts.only_legacy, counts.only_sql) == (22 + 4, 0, 0)


@pytest.mark.slow
async def test_odd_data_differs_as_it_is_meant_to(memory: Memory, server: str) -> None:
    cases = [name for name, case in CASES.items() if not case.of_messages]
    found: dict[str, tuple[int, int]] = {}
    async with switched(memory, server, "odd", Legacy(cases=tuple(cases))) as routing:
        for case in cases:
            home = Home((1, case, 0))
            users = [str(user) for user in (home.user, home.other, home.key("user", "missing"))]
            users = users if case == "A11" else users[:1]
            counts = await compared(memory, routing, str(home.agent), users, None)
            found[case] = counts.only_legacy, counts.only_sql
    assert {case: count for case, count in found.items() if count != (0, 0)} == MEANT
