"""The round trips of listing, reading one observation and adding, including BEGIN and COMMIT."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from benchmarks.wire import Wire, counted
from memory_sql.config import Settings
from memory_sql.db.roles import Roles
from memory_sql.domain.ids import parse_observation_id
from memory_sql.domain.observations import Observation
from memory_sql.errors import InvalidMessageError
from memory_sql.llm.offline import Offline
from memory_sql.memory import Memory
from tests.conftest import as_login
from tests.database import rows
from tests.factories import message

pytestmark = [  # behind a pooler each statement is a transaction, and says again what it is
    pytest.mark.direct,
    pytest.mark.open,
]
MIA: dict[str, Any] = {"agent_id": "ada", "user_id": "mia"}
WARM_UP = 2  # a statement is prepared once on each connection
Wired = tuple[Memory, Wire]


@pytest.fixture(params=["open", "walled"])
async def wired(
    request: pytest.FixtureRequest, database_url: str, walled_database: str, roles: Roles
) -> AsyncIterator[Wired]:
    """A memory on one connection, and what goes over it."""
    url = database_url if request.param == "open" else as_login(walled_database, roles)
    settings = Settings(llm="offline", pool_size=1, embedding="off")
    async with counted(url) as wire, Memory(wire.url, Offline(), settings) as memory:
        yield memory, wire


async def trips(wire: Wire, call: Callable[[int], Awaitable[object]]) -> int:
    """Of a call once its statements are prepared; it is told which time it is."""
    for time in range(WARM_UP):
        await call(time)
    wire.types.clear()
    await call(WARM_UP)
    return wire.round_trips


async def test_observations_are_listed_and_read_in_one(wired: Wired) -> None:
    memory, wire = wired
    known = await memory.observe("The ferry leaves at nine.", **MIA)
    assert await trips(wire, lambda _: memory.observations.list(**MIA)) == 1
    assert await trips(wire, lambda _: memory.observations.list(**MIA, before=known)) == 1
    assert await trips(wire, lambda _: memory.observations.get(known.id, **MIA)) == 1


async def test_messages_are_added_in_one(wired: Wired) -> None:
    memory, wire = wired
    said = [message("The ferry leaves at nine.", n=n) for n in range(10)]
    assert await trips(wire, lambda n: memory.add([said[n]], **MIA, conversation_id="s")) == 1
    assert await trips(wire, lambda n: memory.add(said[3 * n : 3 * n + 2], **MIA, conversation_id="t")) == 1


FAR = "ORDER BY created_at, seq DESC OFFSET 100 LIMIT 1"
FILL = """
    INSERT INTO memory.observations (agent_key, scope_id, seq, content, observed_at, created_at, source_kind, hash_version)
    SELECT agent_key, scope_id, n, 'Tea.', now(), now() - interval '1 hour' * (n % 7), 'observe', 1
    FROM memory.scopes CROSS JOIN generate_series(last_seq + 1, {size}) n
"""


@pytest.mark.slow
async def test_page_is_read_as_quickly_of_a_large_scope(memory: Memory) -> None:
    """What the database's buffers are asked for, of the first page and of one far behind."""
    first = await memory.observe("Tea.", **MIA)
    pages = []
    for size in (1000, 10_000):
        await rows(memory, FILL.format(size=size))
        await rows(memory, "UPDATE memory.scopes SET last_seq = :size", size=size)
        await rows(memory, "ANALYZE memory.observations")
        ((far, key),) = await rows(
            memory, "SELECT created_at, seq FROM memory.observations ORDER BY 1, 2 DESC OFFSET 100 LIMIT 1"
        )
        behind = [("NULL", "NULL", "NULL"), (f"'{far}'", first.scope.key, key)]
        pages.append([await buffers(memory, LISTED.format(*before)) for before in behind])
    (small, small_far), (large, large_far) = pages
    assert large <= 1.3 * small
    assert large_far <= 1.3 * small_far


@pytest.mark.slow
async def test_of_what_waits_no_more_is_read_than_is_shown(memory: Memory) -> None:
    await memory.observe("Tea.", **MIA)
    pages = []
    for size in (1000, 10_000):
        await rows(memory, FILL.format(size=size))
        await rows(memory, "UPDATE memory.scopes SET last_seq = :size", size=size)
        await rows(memory, "ANALYZE memory.observations")
        pages.append(await buffers(memory, WAITING))
    assert pages[1] <= 1.3 * pages[0]


WAITING = """
    SELECT p.seq FROM memory.scopes s
    CROSS JOIN LATERAL memory.pending_observations(s.agent_key, s.scope_id, s.done_seq, 40) p
"""
LISTED = "SELECT * FROM memory.listed('ada', 'mia', NULL, NULL, NULL, 50, {}, {}, {})"


async def buffers(memory: Memory, sql: str) -> int:
    (((told,),),) = await rows(memory, f"EXPLAIN (ANALYZE, BUFFERS, FORMAT json) {sql}")
    return int(told["Plan"]["Shared Hit Blocks"] + told["Plan"]["Shared Read Blocks"])


@pytest.mark.slow
async def test_pages_of_several_scopes_hold_all_once_in_order(memory: Memory) -> None:
    """Also where a scope didn't come to know them in the order of their numbers, and several some at one moment."""
    for group in ("harbor", "ferry"):
        await memory.groups.create(group_id=group, agent_id="ada")
        await memory.groups.add_member(group_id=group, agent_id="ada", user_id="mia")
        await memory.observe("Boats.", agent_id="ada", group_id=group)
    await memory.observe("Tea.", **MIA)
    await rows(memory, FILL.format(size=20))
    shown, before = list[Observation](), None
    while page := await memory.observations.list(**MIA, limit=7, before=before):
        shown += page
        before = page[-1]
    assert len(shown) == 60
    assert shown == sorted(shown, key=lambda one: (one.created_at, *parse_observation_id(one.id)), reverse=True)
    assert shown[:30] == list(await memory.observations.list(**MIA, limit=30))
    one = next(found for found in shown if found.scope.kind == "group")
    own = await memory.observations.list(**MIA, scope_id=one.scope.id)
    assert own == [found for found in shown if found.scope == one.scope]


async def test_secret_is_masked_in_one(wired: Wired) -> None:
    """What the agent does with secrets is asked for only where it does otherwise than the process."""
    memory, wire = wired
    secret = [{"role": "user", "content": "My password is hunter2xZ"}]
    assert await trips(wire, lambda _: memory.add(secret, **MIA, conversation_id="s")) == 1
    shown = await memory.conversations.messages(**MIA, conversation_id="s")
    assert {one.content for one in shown} == {"My password is [secret: password]"}
    await memory.configure(agent_id="ada", secrets="keep")
    await memory.add(secret, **MIA, conversation_id="t")
    (kept,) = await memory.conversations.messages(**MIA, conversation_id="t")
    assert kept.content == secret[0]["content"]
    await memory.configure(agent_id="ada", secrets="refuse")
    with pytest.raises(InvalidMessageError):
        await memory.add(secret, **MIA, conversation_id="u")
