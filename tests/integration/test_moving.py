"""An agent that moves to another shard: nothing of it is lost, doubled or changed, whatever happens meanwhile."""

from __future__ import annotations

import asyncio
import io
import os
import re
from collections.abc import AsyncIterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import make_url, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine

from memory_sql.config import Settings
from memory_sql.db import moving as moving_rows
from memory_sql.db.direct import has_unread
from memory_sql.db.moving import TABLES, End, Moving
from memory_sql.db.principals import SERVICE
from memory_sql.db.repositories import shards
from memory_sql.db.roles import Roles
from memory_sql.domain.selection import Selection
from memory_sql.errors import (
    BusyError,
    ConfigurationError,
    DatabaseError,
    DividedAgentError,
    InputError,
    LockTimeoutError,
    MovedAgentError,
    NotFoundError,
    RestoredError,
)
from memory_sql.lifecycle import journal
from memory_sql.memory import Memory
from memory_sql.resources.admin import Admin
from memory_sql.shards import combining, moving, working
from memory_sql.worker import Worker
from tests.commands import memory_sql
from tests.conftest import as_login
from tests.fakes import Meanings, Scripted, extracted
from tests.integration.test_forgetting import aclosing_of
from tests.integration.test_shards import placed
from tests.migrations.test_round_trip import fill
from tests.recycling import administer, copy
from tests.sharding import asked, clean, joined
from tests.sizes import few_in_ci
from tests.warm import Engines

MIA: dict[str, Any] = {"agent_id": "ada", "user_id": "mia"}
REQUESTED = """
    UPDATE memory.events SET created_at = created_at - interval '90 days',
        detail = detail || jsonb_build_object('request', format('o%s-%s', scope_id, seq))
    WHERE kind = 'status' AND reason = 'Forget it.'
"""


@pytest.fixture(scope="module")
async def two(server_url: str, template: str, engines: Engines) -> AsyncIterator[dict[str, str]]:
    async with joined(server_url, template, "a", "b") as made:
        yield made
        await engines.drop(made.values())


@pytest.fixture
async def urls(two: dict[str, str], engines: Engines) -> AsyncIterator[dict[str, str]]:
    """Two shards that have joined and hold nothing."""
    async with engines.kept(two.values()):
        yield two
    for url in two.values():
        await asked(url, "SELECT memory.drop_fence(agent_id) FROM memory.moved_agents, generate_series(1, 100)")
    await clean(two)


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memory_sql.shards.places.LOOK_SECONDS", 0.0)
    monkeypatch.setattr(moving, "LATE_SECONDS", 0.0)
    monkeypatch.setattr(moving, "PAUSE_SECONDS", 0.05)
    monkeypatch.setattr(combining, "PAUSE_SECONDS", 0.05)


@pytest.fixture
async def memory(urls: dict[str, str], settings: Settings) -> AsyncIterator[Memory]:
    async with Memory(None, Scripted(), settings, shards=urls) as opened:
        yield opened


async def rows_of(url: str, agent_id: str = "ada") -> dict[str, list[tuple[Any, ...]]]:
    """Every row of the agent, as text, but for the times until when somebody works on something."""
    of_each = []
    for table in TABLES:
        columns = ", ".join(f"t.{column.name}" for column in table.columns if column.name != "lease_until")
        its = "agent_key = (SELECT agent_key FROM memory.agents WHERE agent_id = :agent)"
        row = f"ROW({columns})::text"
        of_each.append(f"SELECT '{table.name}', {row} FROM memory.{table.name} t WHERE {its}")  # noqa: S608 — names of ours
    found: dict[str, list[tuple[Any, ...]]] = {}
    for name, row in sorted(await asked(url, " UNION ALL ".join(of_each), agent=agent_id)):
        found.setdefault(name, []).append((row,))
    return found


async def holders(urls: dict[str, str], agent_id: str = "ada") -> list[str]:
    known = "SELECT count(*) FROM memory.agents WHERE agent_id = :agent"
    return [name for name, url in urls.items() if (await asked(url, known, agent=agent_id))[0][0]]


async def traces(urls: dict[str, str]) -> list[Any]:
    """What no move may leave: triggers, and a mark in the map."""
    found: list[Any] = []
    for url in urls.values():
        found += await asked(url, "SELECT tgname FROM pg_trigger WHERE tgname LIKE 'a\\_moved\\_%'".replace(":", "\\:"))
    return found + await asked(urls["a"], "SELECT * FROM memory.agent_shards WHERE moving_to IS NOT NULL")


async def lived(memory: Memory) -> str:
    """A conversation, a text, corrections and a group; the id of an observation."""
    llm: Any = memory._runtime.llm
    llm.then(extracted(("Mia likes the berth near the crane.", "individual"), ("Mia is called Mia.", "individual")))
    said = [{"role": "user", "content": "I'm Mia, I like the berth near the crane.", "id": "m1"}]
    await memory.add(said, **MIA, conversation_id="monday")
    formed = await memory.conversations.form(agent_id="ada", conversation_id="monday")
    llm.then("Mia likes the berth near the crane.")
    await memory.scopes.consolidate(agent_id="ada", scope_id=formed.observations[0].scope.id)
    tea = await memory.observe("Mia drinks tea.", **MIA, fact_key="drink", tags=["taste"])
    await memory.observations.confirm(tea.id, **MIA)
    await memory.observe("Mia drinks coffee.", **MIA, fact_key="drink")
    await memory.groups.create("harbor", agent_id="ada")
    await memory.groups.add_member(agent_id="ada", group_id="harbor", user_id="mia")
    await memory.observe("The boat needs paint.", agent_id="ada", group_id="harbor")
    await memory.holds.place(agent_id="ada", group_id="harbor")
    await memory.forget(formed.observations[1].id, agent_id="ada", wait=False)
    return tea.id


async def shown(memory: Memory) -> list[str]:
    told = [
        str(await memory.context(**MIA, message="What does Mia like?", assembly=assembly, retrieve=True))
        for assembly in ("eden", "digest")
    ]
    return [*told, str([one.observation.id for one in (await memory.search("coffee berth", **MIA)).results])]


@pytest.mark.slow
async def test_every_row_of_every_table_goes_along(urls: dict[str, str], settings: Settings) -> None:
    await fill(urls["b"])
    await asked(urls["b"], "DELETE FROM memory.agent_shards")
    await asked(urls["b"], "DELETE FROM memory.shards")
    before = await rows_of(urls["b"])
    assert set(before) == {table.name for table in TABLES}
    async with Memory(shards=urls, settings=settings) as memory:
        moved = await memory.admin.move(agent_id="ada", to="a")
    assert (moved.source, moved.target) == ("b", "a")
    assert moved.rows == {name: len(rows) for name, rows in before.items()}
    assert await rows_of(urls["a"]) == before
    assert await rows_of(urls["b"]) == {}
    assert await placed(urls) == {"ada": "a"}
    assert dict(await asked(urls["a"], "SELECT shard, agents FROM memory.shards")) == {"a": 1, "b": 0}
    assert await traces(urls) == []


@pytest.mark.slow
async def test_context_is_the_same_before_and_after_there_and_back(memory: Memory, urls: dict[str, str]) -> None:
    tea = await lived(memory)
    before = await shown(memory)
    for to in ("b", "a", "b"):
        assert (await memory.admin.move(agent_id="ada", to=to)).target == to
        assert await shown(memory) == before
        assert await holders(urls) == [to]
        assert await memory.admin.verify(hashes=True) == []
        assert [one.id for one in await memory.admin.agents()].count("ada") == 1
        await memory.observe(f"Mia has been in {to}, says {before[0][:9]}.", agent_id="bob", user_id="mia")
    assert (await memory.observations.get(tea, **MIA)).content == "Mia drinks tea."
    assert (await memory.admin.move(agent_id="ada", to="b")).rows == {}
    assert await traces(urls) == []


@pytest.mark.slow
async def test_what_is_new_gets_ids_that_nothing_has(memory: Memory, urls: dict[str, str]) -> None:
    """Though the target has counted for its own agents alone."""
    for number in range(5):
        await memory.observe("Likes tea.", agent_id="ada", user_id=f"user-{number}")
    await memory.admin.move(agent_id="ada", to="b")
    for number in range(5, 10):
        await memory.observe("Likes tea.", agent_id="ada", user_id=f"user-{number}")
    found = [await memory.observations.list(agent_id="ada", user_id=f"user-{number}") for number in range(10)]
    assert len({one.id for (one,) in found}) == 10
    assert await memory.admin.verify() == []


@pytest.mark.slow
async def test_who_writes_meanwhile_loses_and_doubles_nothing(memory: Memory, urls: dict[str, str]) -> None:
    await lived(memory)
    stored: list[str] = []
    stop = asyncio.Event()

    async def write(worker: int) -> None:
        number = 0
        while not stop.is_set():
            number += 1
            name = f"{worker}-{number}"
            if number % 3:
                said = [{"role": "user", "content": f"My number is {name}.", "id": f"m{name}"}]
                await memory.add(said, **MIA, conversation_id=f"c{worker}")
            else:
                one = await memory.observe(f"Number {name} is Mia's.", **MIA)
                if number % 2:
                    await memory.forget(one.id, agent_id="ada")
                    continue
            stored.append(name)
            assert str(await memory.context(**MIA))

    writing = [asyncio.create_task(write(worker)) for worker in range(4)]
    for to in ("b", "a", "b"):
        await memory.admin.move(agent_id="ada", to=to)
        await asyncio.sleep(0.2)
    stop.set()
    await asyncio.gather(*writing)
    said = await asked(urls["b"], "SELECT message_id FROM memory.messages WHERE content LIKE 'My number%'")
    noted = await asked(urls["b"], "SELECT content FROM memory.observations WHERE content LIKE 'Number %'")
    found = [key.removeprefix("m") for (key,) in said] + [content.split()[1] for (content,) in noted]
    assert sorted(found) == sorted(stored)
    assert len(stored) > 30
    assert await holders(urls) == ["b"]
    assert await memory.admin.verify(hashes=True) == []


@pytest.mark.slow
async def test_workers_of_both_shards_go_on_and_finish_what_was_due(urls: dict[str, str], settings: Settings) -> None:
    llm = Scripted(*(extracted(("Mia keeps bees.", "individual")) for _ in range(40)))
    async with Memory(None, llm, settings, shards=urls) as memory:
        worker = Worker(memory, poll_seconds=0.05)
        stop = asyncio.Event()
        working = asyncio.create_task(worker.run(stop))
        for number in range(20):
            for agent in ("ada", "bob"):
                said = [{"role": "user", "content": "I keep bees. Please remember that."}]
                await memory.add(said, agent_id=agent, user_id="mia", conversation_id=f"c{number}")
            if number in (5, 15):
                await memory.admin.move(agent_id="ada", to="b" if number == 5 else "a")
        async with asyncio.timeout(60):
            while (await memory.work.backlog()).due_conversations:  # noqa: ASYNC110 — the worker's, in the database
                await asyncio.sleep(0.05)
        stop.set()
        await working
        assert await memory.admin.verify() == []
        for agent in ("ada", "bob"):
            (bees,) = await memory.observations.list(agent_id=agent, user_id="mia")
            assert bees.content == "Mia keeps bees."


@pytest.mark.slow
async def test_who_comes_late_changes_nothing_where_it_was(
    memory: Memory, urls: dict[str, str], settings: Settings
) -> None:
    await lived(memory)
    await memory.admin.move(agent_id="ada", to="b")
    async with Memory(urls["a"], Scripted(), settings) as late:
        for call in (
            lambda: late.observe("Likes tea.", **MIA),
            lambda: late.add([{"role": "user", "content": "Hello."}], **MIA, conversation_id="late"),
            lambda: late.configure(agent_id="ada", consolidation_threshold=3),
            lambda: late.groups.create("port", agent_id="ada"),
        ):
            with pytest.raises(MovedAgentError, match="call again"):
                await call()
    assert await holders(urls) == ["b"]


async def fenced(urls: dict[str, str], to: str = "b") -> None:
    """As a move leaves it that is killed before its last moment is over."""
    await asked(urls["a"], "UPDATE memory.agent_shards SET moving_to = :to WHERE agent_id = 'ada'", to=to)
    await asked(urls["a"], "SELECT memory.fence_agent('ada', :to)", to=to)


async def refusal(url: str, sql: str) -> str:
    """What the database says against it; "" where it says nothing."""
    try:
        await asked(url, sql)
    except DBAPIError as error:
        return str(error.orig)
    return ""


@pytest.mark.slow
async def test_fence_keeps_every_table_as_it_is(urls: dict[str, str]) -> None:
    """What is passed over in silence is what counts reads, or can be made again."""
    await fill(urls["b"])
    await asked(urls["b"], "SELECT memory.fence_agent('ada', 'a')")
    before, refused = await rows_of(urls["b"]), set()
    for table in before:
        for sql in ("UPDATE memory.{} SET agent_key = agent_key", "DELETE FROM memory.{}"):
            if "the agent is moving to another shard" in await refusal(urls["b"], sql.format(table)):
                refused.add((sql[:6], table))
    assert await rows_of(urls["b"]) == before
    passed_over = {(command, table) for table in before for command in ("UPDATE", "DELETE")} - refused
    counters = {"retrievals", "observation_retrievals", "observation_vectors"}
    assert {table for _, table in passed_over} == counters | {"observation_feedback", "links"}


@pytest.mark.slow
async def test_fence_lets_other_agents_be(memory: Memory, urls: dict[str, str]) -> None:
    await lived(memory)
    before = await shown(memory)
    await memory.groups.create("port", agent_id="bob")
    await memory.admin.move(agent_id="bob", to="a")
    await fenced(urls)
    await memory.observe("Likes tea.", agent_id="bob", user_id="mia")
    await memory.forget(Selection(user_id="mia"), agent_id="bob")
    assert await shown(memory) == before  # and ada can be read


@pytest.mark.slow
async def test_move_that_was_killed_before_it_came_is_taken_back(memory: Memory, urls: dict[str, str]) -> None:
    await lived(memory)
    before = await rows_of(urls["a"])
    await fenced(urls)
    with pytest.raises(MovedAgentError):
        async with Memory(urls["a"]) as alone:
            await alone.observe("Likes jam.", **MIA)
    await moving.settle_all(memory._spread, set())
    assert await rows_of(urls["a"]) == before
    assert await traces(urls) == []
    await memory.observe("Likes jam.", **MIA)
    assert await placed(urls) == {"ada": "a"}


@pytest.mark.slow
async def test_worker_ends_what_a_killed_move_has_left(
    memory: Memory, urls: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(working, "SETTLE_SECONDS", 0.2)
    await lived(memory)
    memory._runtime.llm.may_run_out = True  # type: ignore[attr-defined]  # a text is due as well
    await fenced(urls)
    stop = asyncio.Event()
    worker = asyncio.create_task(Worker(memory, poll_seconds=0.05).run(stop))
    async with asyncio.timeout(20):
        while await traces(urls):  # noqa: ASYNC110 — they are in the databases
            await asyncio.sleep(0.1)
    stop.set()
    await worker
    await memory.observe("Likes jam.", **MIA)


@pytest.mark.slow
async def test_shard_that_isnt_named_is_told_once_and_stops_no_other(
    memory: Memory, urls: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    await lived(memory)
    await memory.observe("Likes tea.", agent_id="zoe", user_id="mia")
    await memory.admin.move(agent_id="zoe", to="a")
    await asked(urls["a"], "INSERT INTO memory.shards (shard, number, agents, version) VALUES ('z', 9, 0, 1)")
    await asked(urls["a"], "UPDATE memory.agent_shards SET moving_to = 'z' WHERE agent_id = 'ada'")
    await asked(urls["a"], "UPDATE memory.agent_shards SET moving_to = 'b' WHERE agent_id = 'zoe'")
    told = set[str]()
    for _ in range(2):
        await moving.settle_all(memory._spread, told)
    assert told == {"ada"}
    assert caplog.text.count("the map also has z, which isn't named") == 1
    assert await asked(urls["a"], "SELECT agent_id FROM memory.agent_shards WHERE moving_to IS NOT NULL") == [("ada",)]
    await asked(urls["a"], "UPDATE memory.agent_shards SET moving_to = NULL")
    await asked(urls["a"], "DELETE FROM memory.shards WHERE shard = 'z'")


@pytest.mark.slow
async def test_map_from_an_older_backup_is_corrected(memory: Memory, urls: dict[str, str]) -> None:
    """By the next move."""
    await lived(memory)
    before = await shown(memory)
    await memory.admin.move(agent_id="ada", to="b")
    await asked(urls["a"], "UPDATE memory.agent_shards SET shard = 'a'")
    await asked(urls["a"], "UPDATE memory.shards SET agents = 1 - agents, version = version + 1")
    assert (await memory.admin.move(agent_id="ada", to="b")).rows == {}
    assert await placed(urls) == {"ada": "b"}
    assert await shown(memory) == before
    assert dict(await asked(urls["a"], "SELECT shard, agents FROM memory.shards")) == {"a": 0, "b": 1}


@pytest.mark.slow
async def test_copy_in_a_shard_from_an_older_backup_is_cleared_away(
    memory: Memory, urls: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the page says."""
    await lived(memory)
    with monkeypatch.context() as patched:
        patched.setattr(moving, "delete_all", lambda *_: asyncio.sleep(0))
        await memory.admin.move(agent_id="ada", to="b")
    await asked(urls["a"], "DELETE FROM memory.moved_agents")
    before = await rows_of(urls["b"])
    assert await rows_of(urls["a"])
    await moving.settle_all(memory._spread, set())
    assert await rows_of(urls["a"])  # nothing is taken away that nobody has named
    await asked(urls["a"], "SELECT memory.fence_agent('ada', 'b')")
    await memory.admin.move(agent_id="ada", to="b")
    assert await holders(urls) == ["b"]
    assert await rows_of(urls["b"]) == before
    assert await traces(urls) == []


@pytest.mark.slow
async def test_call_waits_for_a_move_that_ends(memory: Memory, urls: dict[str, str]) -> None:
    await lived(memory)
    await fenced(urls)
    calling = asyncio.create_task(memory.observe("Likes jam.", **MIA))
    await asyncio.sleep(0.2)
    assert not calling.done()
    await moving.settle_all(memory._spread, set())
    assert (await calling).content == "Likes jam."


@pytest.mark.slow
async def test_person_is_forgotten_once_an_agent_has_left(memory: Memory, urls: dict[str, str]) -> None:
    """What went in the other shards meanwhile is in the receipt."""
    await memory.observe("Mia likes tea.", **MIA)
    await memory.observe("Mia likes cake.", agent_id="bob", user_id="mia")
    await fenced(urls)
    forgetting = asyncio.create_task(memory.people.forget("mia"))
    while await holds_any(urls["b"]):
        assert not forgetting.done()
        await asyncio.sleep(0.05)
    await asyncio.sleep(0.1)
    assert not forgetting.done()
    await moving.settle_all(memory._spread, set())
    receipt = await forgetting
    assert {agent: len(one.observations) for agent, one in receipt.agents.items()} == {"ada": 1, "bob": 1}
    assert not await holds_any(urls["a"])


@pytest.mark.slow
async def test_person_is_forgotten_where_an_agent_comes_meanwhile(
    memory: Memory, urls: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """b was asked before the agent came, a when it had left."""
    await memory.observe("Mia likes tea.", **MIA)
    home, moved = memory._spread.shards["a"].memory.people, list[str]()
    forget = home.forget

    async def late(*given: Any, **named: Any) -> Any:
        if not moved:
            moved.append((await memory.admin.move(agent_id="ada", to="b")).target)
        return await forget(*given, **named)

    monkeypatch.setattr(home, "forget", late)
    assert list((await memory.people.forget("mia")).agents) == ["ada"]
    assert moved == ["b"]
    assert not await holds_any(urls["b"])


@pytest.mark.slow
async def test_export_is_refused_while_an_agent_moves(
    memory: Memory, urls: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    await memory.observe("Mia likes tea.", **MIA)
    await memory.observe("Mia likes cake.", agent_id="bob", user_id="mia")
    home, export = memory._spread.shards["a"].memory.admin, Admin.export

    async def moved(view: str, to: Any, **named: Any) -> int:
        """bob comes to a when that has been read."""
        rows = await export(home, view, to, **named)
        await memory.admin.move(agent_id="bob", to="a")
        return rows

    with monkeypatch.context() as patch:
        patch.setattr(home, "export", moved)
        with pytest.raises(BusyError, match="the move of an agent"):
            await memory.admin.export("v_observations", io.BytesIO())
    await fenced(urls)
    to = io.BytesIO()
    with pytest.raises(BusyError, match="the move of agent ada"):
        await memory.admin.export("v_observations", to)
    assert to.getvalue() == b""
    await moving.settle_all(memory._spread, set())
    assert await memory.admin.export("v_observations", to) == 2


@pytest.mark.slow
async def test_export_has_an_agent_once_whose_rows_are_still_where_it_was(
    memory: Memory, urls: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    await memory.observe("Mia likes tea.", **MIA)
    monkeypatch.setattr(moving.Move, "_clear", nothing)
    await memory.admin.move(agent_id="ada", to="b")
    assert await holders(urls) == ["a", "b"]
    assert await memory.admin.export("v_observations", io.BytesIO()) == 1


async def nothing(*_: Any) -> None:
    """Does nothing."""


async def holds_any(url: str) -> bool:
    return bool(await asked(url, "SELECT FROM memory.observations"))


@pytest.mark.slow
async def test_call_of_which_a_part_is_done_is_not_repeated(memory: Memory, urls: dict[str, str]) -> None:
    """The message is stored when the model is asked; the error says so."""
    await lived(memory)
    llm: Any = memory._runtime.llm

    async def meanwhile(_: Any) -> str:
        await fenced(urls)
        return extracted(("Mia keeps bees.", "individual"))

    llm.then(meanwhile)
    said = [{"role": "user", "content": "I keep bees. Please remember that."}]
    with pytest.raises(MovedAgentError) as raised:
        await memory.add(said, **MIA, conversation_id="due", wait=True)
    assert raised.value.added is not None
    assert raised.value.added.accepted == 1
    await moving.settle_all(memory._spread, set())
    told = await memory.conversations.messages(**MIA, conversation_id="due")
    assert [one.content for one in told] == [said[0]["content"]]


@pytest.mark.slow
async def test_what_somebody_works_on_is_free_where_it_arrives(memory: Memory, urls: dict[str, str]) -> None:
    """Who has the lease can store nothing any more."""
    await lived(memory)
    said = [{"role": "user", "content": "I keep bees."}]
    await memory.add(said, **MIA, conversation_id="due")
    for table in ("conversations", "scopes"):
        leased = f"UPDATE memory.{table} SET lease_until = now() + interval '1 hour', fence = fence + 1"  # noqa: S608
        await asked(urls["a"], leased)
    await memory.admin.move(agent_id="ada", to="b")
    llm: Any = memory._runtime.llm
    llm.then(extracted(("Mia keeps bees.", "individual")))
    formed = await memory.conversations.form(agent_id="ada", conversation_id="due")
    assert [one.content for one in formed.observations] == ["Mia keeps bees."]
    held = "SELECT count(*) FROM memory.{} WHERE lease_until > clock_timestamp()"
    assert [await asked(urls["b"], held.format(table)) for table in ("conversations", "scopes")] == [[(0,)], [(0,)]]


@pytest.mark.slow
async def test_transaction_of_the_host_is_told(memory: Memory, urls: dict[str, str]) -> None:
    await lived(memory)
    await fenced(urls)
    engine = create_async_engine(urls["a"].replace("postgresql://", "postgresql+asyncpg://"))
    async with AsyncSession(engine) as session:
        with pytest.raises(MovedAgentError):
            await memory.observe("Likes jam.", **MIA, session=session)
    await engine.dispose()


@pytest.mark.slow
async def test_transaction_that_keeps_hold_of_it_stops_the_move(
    memory: Memory, urls: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(moving, "TRY_SECONDS", 0.5)
    await lived(memory)
    engine = create_async_engine(urls["a"].replace("postgresql://", "postgresql+asyncpg://"))
    async with AsyncSession(engine) as session:
        await memory.observe("Likes jam.", **MIA, session=session)
        with pytest.raises(LockTimeoutError):
            await memory.admin.move(agent_id="ada", to="b")
        await session.commit()
    await engine.dispose()
    assert await traces(urls) == []
    assert await holders(urls) == ["a"]
    await memory.admin.move(agent_id="ada", to="b")
    assert "Likes jam." in [one.content for one in await memory.observations.list(**MIA)]


async def given_up(memory: Memory, urls: dict[str, str], halfway: asyncio.Future[None]) -> None:
    """Whoever gives up a move once it has come so far is told nothing else, and the agent stays as it is."""
    before = await rows_of(urls["a"])
    doing = asyncio.create_task(memory.admin.move(agent_id="ada", to="b"))
    halfway.add_done_callback(lambda _: doing.cancel())
    async with asyncio.timeout(30):
        with pytest.raises(asyncio.CancelledError):
            await doing
    assert halfway.done()
    assert await rows_of(urls["a"]) == before
    assert await holders(urls) == ["a"]
    assert await traces(urls) == []


@pytest.mark.slow
@pytest.mark.parametrize("slower", ["a", "b"])
async def test_move_is_given_up_while_both_are_compared(
    memory: Memory, urls: dict[str, str], monkeypatch: pytest.MonkeyPatch, slower: str
) -> None:
    await lived(memory)
    both = asyncio.get_running_loop().create_future()
    summed, asking = moving_rows._summed, 0

    async def slowly(end: End, *given: Any) -> Any:
        nonlocal asking
        asking += 1
        if asking == 2:
            both.set_result(None)
        name = make_url(urls[slower]).database
        await end.run("SELECT current_database() = :name AND pg_sleep(10) IS NULL", name=name)
        return await summed(end, *given)

    monkeypatch.setattr(moving_rows, "_summed", slowly)
    await given_up(memory, urls, both)


@pytest.mark.slow
@pytest.mark.parametrize("messages", [4, 5, 8, 100])
async def test_move_is_given_up_as_rows_come_in(
    memory: Memory,
    urls: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    messages: int,
) -> None:
    """The driver doesn't ask the server to stop then, and closes the connection at the next rows."""
    named, loop = End.named, asyncio.get_running_loop()
    came: asyncio.Future[None] = loop.create_future()

    def looked_at(end: End, sql: str) -> str:
        if "memory.messages" in sql and not came.done():
            pooled: Any = end.connection.sync_connection
            look(pooled.connection.driver_connection)
        return named(end, sql)

    def look(driver: Any) -> None:
        """Ends once what is there has been read, and before whoever waits for it goes on."""
        if has_unread(driver):
            loop.call_soon(came.set_result, None)
        else:
            loop.call_soon(look, driver)

    said = [{"role": "user", "content": "tea " * 20_000, "id": f"m{n}"} for n in range(messages)]
    await memory.add(said, **MIA, conversation_id="monday")
    monkeypatch.setattr(End, "named", looked_at)
    await given_up(memory, urls, came)
    assert caplog.messages == []


@pytest.mark.slow
async def test_only_one_moves_an_agent(memory: Memory, urls: dict[str, str]) -> None:
    await lived(memory)
    first, second = await asyncio.gather(
        memory.admin.move(agent_id="ada", to="b"), memory.admin.move(agent_id="ada", to="b"), return_exceptions=True
    )
    ended = [one for one in (first, second) if not isinstance(one, BaseException)]
    assert ended
    assert all(isinstance(one, BusyError) for one in (first, second) if isinstance(one, BaseException))
    assert await holders(urls) == ["b"]
    assert await traces(urls) == []


@pytest.mark.slow
async def test_two_that_changed_names_meanwhile_arrive_with_them(
    memory: Memory, urls: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rows of one stand in the way of the other's in the copy."""
    await memory.observe("Likes tea.", agent_id="ada", user_id="mia")
    await memory.observe("Likes jam.", agent_id="ada", user_id="jonas")
    copied = moving.Move._copy

    async def and_then_rename(self: Any, source: Any, under_way: Any) -> int:
        seen = await copied(self, source, under_way)
        for old, new in (("mia", "nobody"), ("jonas", "mia"), ("nobody", "jonas")):
            await memory.people.rename(agent_id="ada", kind="user", old=old, new=new)
        return seen

    monkeypatch.setattr(moving.Move, "_copy", and_then_rename)
    await memory.admin.move(agent_id="ada", to="b")
    for user, likes in (("mia", "Likes jam."), ("jonas", "Likes tea.")):
        (one,) = await memory.observations.list(agent_id="ada", user_id=user)
        assert one.content == likes


@pytest.mark.slow
async def test_copy_that_isnt_the_same_stops_the_move(
    memory: Memory, urls: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    await lived(memory)
    before = await rows_of(urls["a"])
    compared = Moving.compare

    async def after_a_change(self: Any, source: Any) -> Any:
        await self.target.run(
            "UPDATE memory.messages SET speaker = 'somebody else' WHERE agent_key = :k", k=self.agent_key
        )
        return await compared(self, source)

    monkeypatch.setattr(Moving, "compare", after_a_change)
    with pytest.raises(DatabaseError, match="the copy of table messages isn't the same"):
        await memory.admin.move(agent_id="ada", to="b")
    assert await rows_of(urls["a"]) == before
    assert await holders(urls) == ["a"]
    assert await traces(urls) == []


@pytest.mark.slow
async def test_what_cant_be_moved_is_said(
    memory: Memory, urls: dict[str, str], database_url: str, settings: Settings
) -> None:
    with pytest.raises(NotFoundError, match="ada"):
        await memory.admin.move(agent_id="ada", to="b")
    await memory.observe("Likes tea.", **MIA)
    with pytest.raises(TypeError, match="to"):
        await memory.admin.move(agent_id="ada")  # type: ignore[call-arg]
    with pytest.raises(InputError, match="there is no shard 'z'; there are a, b"):
        await memory.admin.move(agent_id="ada", to="z")
    async with Memory(urls["b"], settings=settings) as alone:
        await alone.observe("Likes tea.", **MIA)
    with pytest.raises(DividedAgentError, match="a and b both hold agent ada"):
        await memory.admin.move(agent_id="ada", to="b")
    assert await traces(urls) == []
    assert await placed(urls) == {"ada": "a"}
    await asked(
        urls["a"], "UPDATE memory.agent_shards SET moving_to = 'b'"
    )  # as if it had been created there meanwhile
    await asked(urls["a"], "SELECT memory.fence_agent('ada', 'b')")
    await moving.settle_all(memory._spread, set())
    assert await placed(urls) == {"ada": "a"}
    assert await traces(urls) == []
    async with Memory(database_url, settings=settings) as one:
        await one.observe("Likes tea.", **MIA)
        with pytest.raises(ConfigurationError, match="no shards"):
            await one.admin.move(agent_id="ada", to="b")


@pytest.mark.slow
async def test_only_the_owner_moves_an_agent(
    server_url: str, walled_template: str, roles: Roles, settings: Settings
) -> None:
    async with joined(server_url, walled_template, "a", "b") as urls:
        as_app = {name: as_login(url, roles) for name, url in urls.items()}
        async with Memory(None, Scripted(), shards=as_app, settings=settings) as memory:
            await lived(memory)
            before = await shown(memory)
            with pytest.raises(ConfigurationError, match="only the owner"):
                await memory.admin.move(agent_id="ada", to="b")
            assert await traces(urls) == []
            async with Memory(shards=urls, settings=settings) as owners:
                await owners.admin.move(agent_id="ada", to="b")
            assert await shown(memory) == before
            assert await memory.admin.verify(hashes=True) == []
            await memory.observe("Likes jam.", **MIA)
            await moving.settle_all(memory._spread, set())
        async with Memory(as_app["a"], settings=settings) as late:
            with pytest.raises(MovedAgentError):
                await late.observe("Likes tea.", **MIA)


@pytest.mark.slow
def test_command_moves_an_agent(two: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMORY_SQL_SHARDS", " ".join(f"{name}={url}" for name, url in two.items()))
    memory_sql("observe", "Likes tea.", "--agent", "zoe", "--user", "mia")
    told = memory_sql("agent", "move", "zoe", "--to", "b").out
    assert re.fullmatch(r"zoe has moved from a to b: \d+ rows in [\d.]+ s, [\d.]+ s without changes\n", told)
    assert memory_sql("agent", "move", "zoe", "--to", "b").out == "zoe is in b\n"


# What is beside the rows of the agent


@pytest.mark.slow
async def test_journal_of_forgetting_is_whole_after_moves(
    urls: dict[str, str], settings: Settings, tmp_path: Path
) -> None:
    """What a shard has forgotten of an agent is known where the agent is now."""
    kept = settings.model_copy(update={"forget_journal": tmp_path / "journal"})
    async with Memory(None, Scripted(), kept, shards=urls) as memory:
        await lived(memory)
        await memory.admin.move(agent_id="ada", to="b")
        await memory.forget((await memory.observe("Likes jam.", **MIA)).id, agent_id="ada")
        await memory.admin.move(agent_id="ada", to="a")
        await memory.forget((await memory.observe("Likes jam.", **MIA)).id, agent_id="ada")
        await memory.admin.move(agent_id="ada", to="b")
        assert (await memory.admin.journal_status()).missing == ()
        before = await shown(memory)
    async with Memory(None, Scripted(), kept, shards=urls) as memory:
        assert await memory.admin.restore_check(tmp_path / "journal") == []
        assert await shown(memory) == before


@pytest.mark.slow
async def test_agent_with_rows_in_every_table_moves_behind_walls(
    server_url: str, walled_template: str, settings: Settings
) -> None:
    async with joined(server_url, walled_template, "a", "b") as urls:
        await fill(urls["b"])
        for table in ("agent_shards", "shards", "moved_agents"):
            await asked(urls["b"], f"DELETE FROM memory.{table}")  # noqa: S608 — names of ours
        before = await rows_of(urls["b"])
        async with Memory(shards=urls, settings=settings) as memory:
            await memory.admin.move(agent_id="ada", to="a")
        assert await rows_of(urls["a"]) == before
        assert await holders(urls) == ["a"]
        assert await traces(urls) == []


@pytest.mark.slow
async def test_fence_that_was_left_stops_no_work_of_others(memory: Memory, urls: dict[str, str]) -> None:
    """Formation, catching up with settings, vectors, and maintenance with requests and guidelines."""
    llm: Any = memory._runtime.llm
    await lived(memory)
    said = [{"role": "user", "content": "I keep bees. Please remember that."}]
    await memory.add(said, **MIA, conversation_id="due")
    await memory.add(said, agent_id="zoe", user_id="mia", conversation_id="due")
    if (await placed(urls))["zoe"] != "a":
        await memory.admin.move(agent_id="zoe", to="a")
    gone = await memory.observe("Mia is allergic to nuts.", **MIA)
    await memory.observations.quarantine(gone.id, **MIA, reason="Forget it.")
    for _ in range(30):
        await memory.work.note_action("store_note", "applied", agent_id="ada", good=False)
    await asked(urls["a"], REQUESTED)
    await memory.add([{"role": "user", "content": "It rains."}], **MIA, conversation_id="waits")  # for more to be said
    await fenced(urls)
    before = await rows_of(urls["a"])
    llm.then(extracted(("Mia keeps bees.", "individual")))
    more = {"formation_min_messages": 1, "spoken_erase_days": 1, "guidelines": True, "episodes": True, "tiering": True}
    soon = datetime.now(UTC) + timedelta(days=40)
    settings = memory.settings.model_copy(update={**more, "shards": None})
    model = Meanings()
    async with Memory(urls["a"], llm, settings, embeddings=model, clock=lambda: soon) as alone:
        await alone.work.catch_up()
        done = await alone.run_due()
        assert [one.conversation_id for one in done.formed] == ["due"]
        assert not done.failed
        maintained = await alone.work.maintain()
        assert (maintained.complete, maintained.unlearned) == (True, 0)
        async with asyncio.timeout(20):
            assert (await alone.work.embed(whole=True)).complete
        found = [one.content for one in await alone.observations.list(agent_id="zoe", user_id="mia")]
    assert found == ["Mia keeps bees."]
    assert {text for text in model.texts if "bees" not in text} == set()  # nothing of the other is sent to a model
    assert await rows_of(urls["a"]) == before
    await moving.settle_all(memory._spread, set())


@pytest.mark.slow
async def test_callers_wait_no_longer_than_the_last_moment(
    memory: Memory, urls: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not until the rows are deleted where they were."""
    monkeypatch.setattr(moving, "LATE_SECONDS", 6.0)
    await lived(memory)
    under_way = asyncio.create_task(memory.admin.move(agent_id="ada", to="b"))
    number = 0
    while not under_way.done():
        number += 1
        await memory.observe(f"Number {number}.", **MIA)
        await asyncio.sleep(0.05)
    await under_way
    assert number > 20
    assert await holders(urls) == ["b"]


@pytest.mark.slow
async def test_reader_of_the_target_is_in_nobodys_way(memory: Memory, urls: dict[str, str]) -> None:
    """As a backup of it is, which reads every table."""
    await memory.observe("Likes tea.", agent_id="ada", user_id="mia")
    for number in range(5):
        await memory.observe("Likes tea.", agent_id="ada", user_id=f"user-{number}")
    engine = create_async_engine(urls["b"].replace("postgresql://", "postgresql+asyncpg://"))
    async with engine.connect() as reader:
        for table in TABLES:
            await reader.execute(text(f"SELECT count(*) FROM memory.{table.name}"))  # noqa: S608 — names of ours
        await memory.admin.move(agent_id="ada", to="b")
        await memory.observe("Likes jam.", **MIA)
    await engine.dispose()


@pytest.mark.slow
async def test_ids_that_were_forgotten_are_not_given_again(memory: Memory) -> None:
    first = [await memory.observe("Likes tea.", agent_id="ada", user_id=f"user-{number}") for number in range(6)]
    await memory.forget(Selection(everything=True), agent_id="ada")
    await memory.admin.move(agent_id="ada", to="b")
    again = await memory.observe("Likes tea.", agent_id="ada", user_id="user-0")
    assert again.id not in {one.id for one in first}


@pytest.mark.slow
async def test_who_settles_late_takes_nothing_away(
    memory: Memory, urls: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One who has looked at the map before others moved the agent there and back."""
    await lived(memory)
    await memory.admin.move(agent_id="ada", to="b")
    before = await rows_of(urls["b"])
    late = moving.Move(memory._spread, "ada")
    where, asked_for = late.where, 0
    old = await late.where()
    await memory.admin.move(agent_id="ada", to="a")
    await asked(urls["a"], "UPDATE memory.agent_shards SET moving_to = 'b'")
    await asked(urls["a"], "SELECT memory.fence_agent('ada', 'b')")  # a move back that was killed

    async def as_it_was(self: moving.Move) -> Any:
        nonlocal asked_for
        asked_for += 1
        return old if asked_for <= 2 else await where()

    monkeypatch.setattr(moving.Move, "where", as_it_was)
    with suppress(BusyError):
        await late.settle()
    monkeypatch.undo()
    assert await rows_of(urls["a"]) == before
    await moving.settle_all(memory._spread, set())
    assert await rows_of(urls["a"]) == before
    assert await traces(urls) == []


@pytest.mark.slow
async def test_fence_of_an_earlier_move_is_none_to_who_comes_back(
    memory: Memory, urls: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A long reader has kept it from being taken away, and settling from looking."""
    await lived(memory)
    with monkeypatch.context() as patched:
        patched.setattr(moving.Move, "_drop_fence", lambda *_: asyncio.sleep(0))
        await memory.admin.move(agent_id="ada", to="b")
    monkeypatch.setattr(moving.Move, "settle", lambda *_: asyncio.sleep(0))
    await memory.admin.move(agent_id="ada", to="a")
    monkeypatch.undo()
    await memory.observe("Likes jam.", **MIA)
    assert await holders(urls) == ["a"]


@pytest.mark.slow
async def test_agent_that_has_left_just_now_comes_back_later(
    memory: Memory, urls: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    await lived(memory)
    monkeypatch.setattr(moving, "LATE_SECONDS", 4.0)
    under_way = asyncio.create_task(memory.admin.move(agent_id="ada", to="b"))
    async with asyncio.timeout(20):
        while await placed(urls) != {"ada": "b"}:  # noqa: ASYNC110 — the map is in the database
            await asyncio.sleep(0.05)
    with pytest.raises(BusyError):
        await memory.admin.move(agent_id="ada", to="a")
    await under_way
    monkeypatch.setattr(moving, "LATE_SECONDS", 0.0)
    await memory.admin.move(agent_id="ada", to="a")
    assert await holders(urls) == ["a"]


async def test_what_a_map_says_meanwhile_is_not_overwritten(memory: Memory, urls: dict[str, str]) -> None:
    await memory.observe("Likes tea.", **MIA)
    database = memory._spread.home_database
    async with database.transaction(principal=SERVICE) as unit:
        await shards.announce(unit, "ada", "a", "b")
        await shards.stay(unit, "ada", "a")  # another move than that
        assert await shards.placed(unit, "ada") == shards.Placed("a", "b")
        with pytest.raises(BusyError):
            await shards.switch(unit, "ada", "a")
        with pytest.raises(BusyError):
            await shards.correct(unit, "ada", "a", "b")
        await shards.switch(unit, "ada", "b")
        await shards.switch(unit, "ada", "b")
        assert await shards.placed(unit, "ada") == shards.Placed("b", None)


@pytest.mark.slow
async def test_application_behind_walls_marks_nobody_as_moved(
    server_url: str, walled_template: str, roles: Roles, settings: Settings
) -> None:
    async with joined(server_url, walled_template, "a", "b") as urls, Memory(shards=urls, settings=settings) as memory:
        await memory.observe("Likes tea.", **MIA)
        for sql in (
            "INSERT INTO memory.moved_agents (agent_id, moved_key, shard) VALUES ('ada', 1, 'b')",
            "UPDATE memory.moved_agents SET shard = 'b'",
            "SELECT memory.fence_agent('ada', 'b')",
        ):
            with pytest.raises(DBAPIError, match="permission denied"):
                await asked(as_login(urls["a"], roles), sql)
        await asked(urls["a"], "UPDATE memory.agent_shards SET shard = 'b'")
        await asked(urls["a"], "SELECT memory.fence_agent('ada', 'b')")
        with suppress(DatabaseError):
            await moving.settle_all(memory._spread, set())
        assert await holders(urls) == ["a"]  # nothing goes that isn't elsewhere


@pytest.mark.slow
@pytest.mark.parametrize("case", few_in_ci(["", "killed", "unwritten"], ["killed", "unwritten"]))
async def test_what_was_forgotten_elsewhere_does_not_come_back_with_a_shard_from_before(
    server_url: str, template: str, settings: Settings, tmp_path: Path, case: str
) -> None:
    """It was in b when the backup of b was made, forgotten in a, and in b again by the time that b is lost."""
    path = tmp_path / "journal"
    kept = settings.model_copy(update={"forget_journal": path})
    async with joined(server_url, template, "a", "b") as urls:
        name, backup = str(make_url(urls["b"]).database), f"backup_{os.getpid()}_{case}"
        async with Memory(shards=urls, settings=kept) as memory:
            seen = [await memory.observe(f"Mia likes {what}.", **MIA) for what in ("rubies", "tea", "rum")]
            await memory.forget(seen[2].id, agent_id="ada")
            await memory.admin.move(agent_id="ada", to="b")
        await copy(server_url, name, backup)
        async with Memory(shards=urls, settings=kept) as memory:
            await memory.admin.move(agent_id="ada", to="a")
            forgotten = await memory.forget(seen[0].id, agent_id="ada")
            if case == "unwritten":  # the disk was full; the database knows what is to be said
                path.write_text("".join(path.read_text().splitlines(keepends=True)[:-2]))
            if case == "killed":
                with pytest.MonkeyPatch.context() as patch:
                    patch.setattr(moving.Move, "tell_journal", _die)
                    patch.setattr(moving.Move, "end_after_failure", _die)
                    with pytest.raises(KeyboardInterrupt):
                        await memory.admin.move(agent_id="ada", to="b")
                await moving.settle_all(memory._spread, set())
            else:
                await memory.admin.move(agent_id="ada", to="b")
            assert await holders(urls) == ["b"]
            assert (await memory.admin.journal_status()).missing == ()
        async with Memory(shards=urls, settings=kept) as memory:  # it knows all that the journal says
            assert await memory.admin.restore_check(path) == []
        again = f"CREATE DATABASE {name} TEMPLATE {backup}"
        await administer(server_url, f"DROP DATABASE {name} WITH (FORCE)", again, f"DROP DATABASE {backup}")
        with pytest.raises(RestoredError):
            await Memory(shards=urls, settings=kept).open()
        restored = Memory(shards=urls, settings=kept)
        await restored.open(restoring=True)
        async with aclosing_of(restored):
            (incarnation,) = (await restored.admin.journal_status()).copied_from
            done = await restored.admin.restore_check(path, incarnation=incarnation)
            assert [one.id for one in done] == [forgotten.id]
            assert [one.content for one in await restored.observations.list(**MIA)] == ["Mia likes tea."]
            assert await restored.admin.verify() == []
            assert (await restored.admin.journal_status()).missing == ()
        async with Memory(shards=urls, settings=kept) as memory:
            assert "rubies" not in str(await memory.context(**MIA))


@pytest.mark.slow
@pytest.mark.parametrize(("was", "went"), few_in_ci([("a", "b"), ("b", "a"), ("a", "bc")], [("b", "a"), ("a", "bc")]))
async def test_what_was_forgotten_after_a_move_does_not_come_back_where_the_agent_was(
    server_url: str, template: str, settings: Settings, tmp_path: Path, was: str, went: str
) -> None:
    """The shard from which it moved, the home too, is restored from a backup from before."""
    path = tmp_path / "journal"
    kept = settings.model_copy(update={"forget_journal": path})
    async with joined(server_url, template, "a", "b", "c") as urls:
        name, backup = str(make_url(urls[was]).database), f"backup_{os.getpid()}_{was}{went}"
        async with Memory(shards=urls, settings=kept) as memory:
            seen = await memory.observe("Mia likes rubies.", **MIA)
            await memory.observe("Mia likes tea.", **MIA)
            await memory.admin.move(agent_id="ada", to=was)
        await copy(server_url, name, backup)
        async with Memory(shards=urls, settings=kept) as memory:
            for to in went:
                await memory.admin.move(agent_id="ada", to=to)
            await memory.forget(seen.id, agent_id="ada")
        async with Memory(shards=urls, settings=kept) as memory:
            assert (await memory.admin.journal_status()).missing == ()
        again = f"CREATE DATABASE {name} TEMPLATE {backup}"
        await administer(server_url, f"DROP DATABASE {name} WITH (FORCE)", again, f"DROP DATABASE {backup}")
        with pytest.raises(RestoredError):
            await Memory(shards=urls, settings=kept).open()
        restored = Memory(shards=urls, settings=kept)
        await restored.open(restoring=True)
        async with aclosing_of(restored):
            assert await restored.admin.restore_check(path) == []  # it may be a copy: nobody has said that it isn't
            (incarnation,) = (await restored.admin.journal_status()).copied_from
            assert await restored.admin.restore_check(path, incarnation=incarnation) == []
        async with Memory(shards=urls, settings=kept) as memory:
            assert await placed(urls) == {"ada": went[-1]}
            assert "rubies" not in str(await memory.context(**MIA))
            assert await memory.admin.export("v_observations", io.BytesIO()) == 1
            await moving.settle_all(memory._spread, set())
            assert await holders(urls) == [went[-1]]
            assert await traces(urls) == []


@pytest.mark.slow
async def test_agent_that_has_come_back_is_not_closed_out(
    server_url: str, template: str, settings: Settings, tmp_path: Path
) -> None:
    """Neither in the shard itself, though the journal doesn't say so yet, nor in one from before it left, which is all."""
    path = tmp_path / "journal"
    kept = settings.model_copy(update={"forget_journal": path})
    async with joined(server_url, template, "a", "b") as urls:
        name, backup = str(make_url(urls["a"]).database), f"backup_{os.getpid()}_back"
        async with Memory(shards=urls, settings=kept) as memory:
            await memory.observe("Mia likes tea.", **MIA)
        await copy(server_url, name, backup)
        async with Memory(shards=urls, settings=kept) as memory:
            await memory.admin.move(agent_id="ada", to="b")
            said = path.read_text()
            await memory.admin.move(agent_id="ada", to="a")
        whole = path.read_text()
        path.write_text(said)
        async with Memory(shards=urls, settings=kept) as memory:
            assert (await memory.admin.journal_status()).missing == ()
            await memory.admin.move(agent_id="ada", to="a")
        assert path.read_text() == whole
        again = f"CREATE DATABASE {name} TEMPLATE {backup}"
        await administer(server_url, f"DROP DATABASE {name} WITH (FORCE)", again, f"DROP DATABASE {backup}")
        async with Memory(shards=urls, settings=kept) as memory:
            assert "tea" in str(await memory.context(**MIA))


@pytest.mark.slow
async def test_journal_that_cannot_be_read_stops_no_move(
    urls: dict[str, str], settings: Settings, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Once it can be read, a move to where the agent is says what is missing."""
    path = tmp_path / "journal"
    async with Memory(shards=urls, settings=settings.model_copy(update={"forget_journal": path})) as memory:
        await memory.forget((await memory.observe("Mia likes tea.", **MIA)).id, agent_id="ada")
        kept = path.rename(tmp_path / "kept")
        path.mkdir()
        await memory.admin.move(agent_id="ada", to="b")
        assert await holders(urls) == ["b"]
        assert "an older backup of b, or of where it was, may bring back what is forgotten of it" in caplog.text
        path.rmdir()
        kept.rename(path)
        assert len(journal.read(path).entries) == 1
        await memory.admin.move(agent_id="ada", to="b")
        told = [entry for entry, _ in journal.read(path).entries]
        assert [entry.moved_to for entry in told] == [None, "b", None]
        assert told[0].forgetting == told[2].forgetting
        assert told[0].database == told[1].database != told[2].database


async def _die(*_: Any) -> None:
    raise KeyboardInterrupt
