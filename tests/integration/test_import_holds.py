"""Imports, rollbacks, forgettings and legal holds, in any order: what is held stays, what is forgotten doesn't come back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine

from memory_sql.cli.importing import _rolled_back_text
from memory_sql.db.urls import asyncpg_url
from memory_sql.domain.selection import Selection
from memory_sql.importers.mongo.options import ImportOptions
from memory_sql.memory import Memory
from tests.database import are_waiting, owners_url, rows
from tests.legacy.formats import dump
from tests.legacy.homes import Home, at
from tests.sizes import few_in_every_run

KEY = b"k" * 32
HOME = Home(("held",))
AGENT, MIA, JONAS, TALK = str(HOME.agent), str(HOME.user), str(HOME.other), str(HOME.session)
ADA: dict[str, Any] = {"agent_id": AGENT}
RUBY = "She hides the ruby under the mast."
WITH_MESSAGES = {"messages": True}
HELD: Mapping[str, Mapping[str, Any]] = {
    "user": {"user_id": MIA},
    "conversation": {"conversation_id": TALK},
}
REMEMBERED = """
    SELECT o.content, t.status FROM memory.observations o
    LEFT JOIN memory.observation_states t USING (agent_key, scope_id, seq) ORDER BY 1
"""
SPOKEN = "SELECT number, content, withdrawn_by IS NOT NULL FROM memory.messages ORDER BY number"
Bring = Callable[..., Any]


@pytest.fixture
async def memory(memory: Memory) -> AsyncIterator[Memory]:
    yield memory
    assert await memory.admin.verify() == []


def collections(*, jonas: bool = True) -> dict[str, list[Any]]:
    """Mia and Jonas have talked; something was made of what each said; both of Mia's documents are about her ruby."""
    said = [
        HOME.message(n, sender=sender, role=role, content=content, createdAt=at(n))
        for n, (sender, role, content) in enumerate(
            [
                (HOME.user, "user", "I hide the ruby under the mast."),
                (HOME.agent, "assistant", "Under the mast, the ruby."),
                (HOME.other, "user", "I sail a sloop."),
            ]
        )
    ]
    mia = {"source_message_ids": [said[0]["_id"]], "related_users": [HOME.user]}
    them = {"source_message_ids": [said[2]["_id"]], "related_users": [HOME.other]}
    context = {"last_memory_message_id": said[2]["_id"], "messages_since_memory_formation": 0}
    records = [
        HOME.directive("ruby", content=RUBY, **mia),
        HOME.directive("pearl", content="She hides no ruby, but a pearl.", **mia),
    ]
    if jonas:
        records.append(HOME.directive("sloop", content="He sails a sloop.", **them))
    users = [HOME.user, HOME.other] if jonas else [HOME.user]
    return {
        "users3": [HOME.person(HOME.user), HOME.person(HOME.other, "jonas"), HOME.agent_document()],
        "sessions": [HOME.session_document(users=users, memory_context=context)],
        "memory_sessions": records,
        "messages": said,
    }


@pytest.fixture
def bring(memory: Memory, tmp_path: Path) -> Bring:
    async def bring(found: Mapping[str, list[Any]] | None = None, **options: Any) -> int:
        await asyncio.to_thread(tmp_path.mkdir, exist_ok=True)
        dump(tmp_path, (found or collections()).items())
        report = await memory.imports.mongo(
            dump=tmp_path, key=KEY, options=ImportOptions(**{"groups": "crew"} | WITH_MESSAGES | options)
        )
        assert report.unaccounted == ()
        return report.run or 0

    return bring


async def everything(memory: Memory) -> str:
    """All that is remembered or was said, as text."""
    tables = ("observations", "messages", "consolidations", "scopes")
    found = [await rows(memory, f"SELECT t::text FROM memory.{table} t ORDER BY 1") for table in tables]  # noqa: S608
    return "\n".join(row for rows_of_table in found for (row,) in rows_of_table)


BROUGHT = """
    SELECT 1, count(*) FROM memory.imported WHERE seq IS NOT NULL
    UNION ALL SELECT 2, count(*) FROM memory.imported_messages ORDER BY 1
"""
WITHDRAWN = """
    SELECT format('o%s-%s', scope_id, seq) FROM memory.observation_states WHERE status = 'withdrawn' ORDER BY scope_id, seq
"""
KEPT = """
    SELECT 'observations', count(*) FROM memory.observation_states WHERE status = 'withdrawn'
    UNION ALL SELECT 'messages', count(*) FROM memory.messages WHERE withdrawn_by IS NOT NULL
"""


@pytest.mark.slow
@pytest.mark.parametrize("kind", HELD)
async def test_rollback_withdraws_what_is_held(memory: Memory, bring: Bring, kind: str) -> None:
    run = await bring()
    before = [count for _, count in await rows(memory, BROUGHT)]
    hold = await memory.holds.place(**ADA, **HELD[kind])
    planned = await memory.imports.rollback(run, dry_run=True)
    done = await memory.imports.rollback(run)
    assert done.model_copy(update={"dry_run": True}) == planned
    assert await rows(memory, WITHDRAWN) == [(one,) for one in done.withdrawn]
    assert done.held == {name: count for name, count in await rows(memory, KEPT) if count}
    assert (done.observations, done.messages) == (
        before[0] - done.held["observations"],
        before[1] - done.held["messages"],
    )
    kept = ", ".join(f"{count} {name}" for name, count in done.held.items())
    assert _rolled_back_text(done).endswith(f"removed; kept by legal holds, out of use: {kept}")
    held = dict(await rows(memory, REMEMBERED))
    assert held[RUBY] == "withdrawn"
    assert "I hide the ruby under the mast." in {content for _, content, _ in await rows(memory, SPOKEN) if content}
    assert all(withdrawn for _, content, withdrawn in await rows(memory, SPOKEN) if content)
    for user in (MIA, JONAS):
        found = await memory.search("ruby", **ADA, user_id=user, messages=5)
        assert (found.results, found.messages) == ((), ())
    assert list(await memory.admin.verify()) == []
    await memory.holds.release(hold.hold_id, **ADA)
    assert await rows(memory, REMEMBERED) == []
    for table in ("messages", "conversations", "scopes", "members", "imported", "imported_messages"):
        assert await rows(memory, f"SELECT count(*) FROM memory.{table}") == [(0,)], table  # noqa: S608
    await bring()
    assert RUBY in dict(await rows(memory, REMEMBERED))


@pytest.mark.slow
async def test_word_of_a_held_user_waits_where_another_has_said_the_same(memory: Memory, bring: Bring) -> None:
    run = await bring()
    await memory.observations.confirm(await ruby(memory), **ADA, user_id=MIA)
    confirmed = "SELECT e.run_id IS NULL, e.withdrawn_by IS NOT NULL FROM memory.evidence e JOIN memory.observations o"
    confirmed += " USING (agent_key, scope_id, seq) WHERE o.content = :content ORDER BY 1"
    hold = await memory.holds.place(**ADA, user_id=MIA)
    await memory.imports.rollback(run)
    assert await rows(memory, confirmed, content=RUBY) == [(False, True), (True, False)]
    assert dict(await rows(memory, REMEMBERED))[RUBY] in (None, "active")
    await memory.holds.release(hold.hold_id, **ADA)
    assert await rows(memory, confirmed, content=RUBY) == [(True, False)]


async def ruby(memory: Memory) -> str:
    found = "SELECT format('o%s-%s', scope_id, seq) FROM memory.observations WHERE content = :content"
    ((observation_id,),) = await rows(memory, found, content=RUBY)
    return str(observation_id)


FORGET: Mapping[str, Mapping[str, Any]] = {
    "user": {"user_id": MIA},
    "conversation": {"conversation_id": TALK},
    "query": {"query": "ruby"},
}
STEPS = ("rollback", "forget", "hold", "release", "import")
ORDERS = [
    order
    for order in permutations(STEPS)
    if order.index("hold") < order.index("release") and order.index("forget") < order.index("import")
]


def is_there(order: tuple[str, ...]) -> bool:
    """Whether there is anything left when it is forgotten: by words nothing is forgotten that was rolled back for good."""
    hold, release, rollback, forget = (order.index(step) for step in ("hold", "release", "rollback", "forget"))
    return forget < rollback or hold < rollback < forget < release


@pytest.mark.slow
@pytest.mark.parametrize(
    ("what", "order"),
    few_in_every_run(
        [(what, order) for what in FORGET for order in ORDERS if what != "query" or is_there(order)],
        [
            ("user", ("hold", "rollback", "forget", "release", "import")),
            ("conversation", ("hold", "forget", "rollback", "import", "release")),
        ],
    ),
)
async def test_what_is_forgotten_does_not_come_back_in_any_order(
    memory: Memory, bring: Bring, what: str, order: tuple[str, ...]
) -> None:
    run = await bring()
    hold_id = 0
    for step in order:
        match step:
            case "hold":
                hold_id = (await memory.holds.place(**ADA, user_id=MIA)).hold_id
            case "release":
                await memory.holds.release(hold_id, **ADA)
            case "rollback":
                await memory.imports.rollback(run)
            case "forget":
                await memory.forget(Selection(**FORGET[what]), **ADA)
            case _:
                await bring()
        assert list(await memory.admin.verify()) == [], step
    assert "ruby" not in (await everything(memory)).casefold()


@pytest.mark.slow
@pytest.mark.parametrize("rolled_back", [False, True])
@pytest.mark.parametrize("what", ["user", "conversation"])
async def test_what_an_earlier_import_had_not_taken_does_not_come(
    memory: Memory, bring: Bring, what: str, rolled_back: bool
) -> None:
    """First without messages and one document, then all: whoever was forgotten stays forgotten; what others said comes."""
    first = collections()
    first["memory_sessions"] = first["memory_sessions"][1:]
    run = await bring(first, messages=False)
    if rolled_back:
        await memory.imports.rollback(run)
    await memory.forget(Selection(**FORGET[what]), **ADA)
    await bring()
    told = (await everything(memory)).casefold()
    assert "ruby" not in told
    assert ("sloop" in told) is (what == "user")
    if what == "user":
        assert await rows(memory, "SELECT 1 FROM memory.members WHERE user_id = :user", user=MIA) == []


@pytest.mark.slow
async def test_forgotten_group_is_not_made_again(memory: Memory, bring: Bring) -> None:
    run = await bring()
    await memory.imports.rollback(run)
    await memory.groups.create("crew", **ADA)
    await memory.forget(Selection(group_id="crew"), **ADA)
    await bring()
    assert await rows(memory, "SELECT 1 FROM memory.members") == []


@pytest.mark.slow
async def test_who_comes_back_after_it_is_imported_from_then_on(memory: Memory, bring: Bring) -> None:
    await bring()
    await memory.forget(Selection(user_id=MIA), **ADA)
    later = collections()
    later["memory_sessions"] = [
        HOME.directive("boat", content="She has a boat.", createdAt=at(9_000_000), updatedAt=at(9_000_000))
    ]
    await bring(later)
    assert "She has a boat." in dict(await rows(memory, REMEMBERED))


async def test_claim_judged_for_an_imported_group_leaves_the_rollback_possible(memory: Memory, bring: Bring) -> None:
    run = await bring()
    told = await memory.observe("The harbour opens at six.", **ADA, user_id=MIA)
    await memory.observe("The harbour opens at six.", **ADA, user_id=JONAS)
    for outcome in ("refused", "waiting"):
        await rows(
            memory,
            "INSERT INTO memory.judged (agent_key, source_scope_id, source_seq, target_scope_id, outcome, reason)"
            " SELECT o.agent_key, o.scope_id, o.seq, g.scope_id, :outcome, 'name' FROM memory.observations o"
            " JOIN memory.scopes g ON g.agent_key = o.agent_key AND g.kind = 'group'"
            " WHERE o.content LIKE 'The harbour%' ON CONFLICT DO NOTHING",
            outcome=outcome,
        )
    await memory.imports.rollback(run)
    assert await rows(memory, "SELECT 1 FROM memory.scopes WHERE kind = 'group'") == []
    assert await rows(memory, "SELECT 1 FROM memory.judged") == []
    assert told.content in dict(await rows(memory, REMEMBERED))


@pytest.mark.slow
async def test_rollback_under_a_hold_is_asked_for_twice(memory: Memory, bring: Bring) -> None:
    run = await bring()
    await memory.holds.place(**ADA, user_id=MIA)
    await memory.imports.rollback(run)
    before = [await rows(memory, REMEMBERED), await rows(memory, SPOKEN)]
    await memory.imports.rollback(run)
    assert [await rows(memory, REMEMBERED), await rows(memory, SPOKEN)] == before


@pytest.mark.slow
async def test_rollback_takes_back_the_texts_that_are_left_when_its_turn_comes(
    memory: Memory, bring: Bring, database_url: str
) -> None:
    """Mia is forgotten in a transaction of the host's, which takes back the text that the rollback has seen."""
    run = await bring({**collections(), "memory_user": [HOME.blob(content=RUBY)]})
    engine = create_async_engine(asyncpg_url(owners_url(database_url)))
    async with AsyncSession(engine) as host:
        await memory.forget(Selection(user_id=MIA), **ADA, session=host)
        rolling_back = asyncio.ensure_future(memory.imports.rollback(run))
        await are_waiting(memory, 1)
        await host.commit()
        await asyncio.wait_for(rolling_back, 30)
    await engine.dispose()
    assert await rows(memory, REMEMBERED) == []
    assert await rows(memory, "SELECT count(*) FROM memory.consolidations WHERE live") == [(0,)]


@pytest.mark.slow
async def test_rollback_takes_what_an_earlier_import_has_heard_again(memory: Memory, bring: Bring) -> None:
    """The second import says in other messages what the first has remembered, and is evidence for it."""
    first, second = collections(), collections()
    first["messages"], first["memory_sessions"] = first["messages"][:2], first["memory_sessions"][:1]
    again = HOME.message("again", content="Have I said? The ruby is under the mast.", createdAt=at(9))
    second["messages"] = [*second["messages"], again]
    second["memory_sessions"] = [
        *first["memory_sessions"],
        HOME.directive("again", content=RUBY, source_message_ids=[again["_id"]], related_users=[HOME.user]),
    ]
    await bring(first)
    known, said = await rows(memory, REMEMBERED), await rows(memory, SPOKEN)
    run = await bring(second)
    assert len(await rows(memory, SPOKEN)) == 4
    await memory.imports.rollback(run)
    assert await rows(memory, REMEMBERED) == known
    assert [message for message in await rows(memory, SPOKEN) if message[1]] == said
    await bring(second)
    assert len([message for message in await rows(memory, SPOKEN) if message[1]]) == 4
