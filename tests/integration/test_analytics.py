"""Analytics: the questions of docs/analytics.md and their answers, and each view compared with what `Memory` says."""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from datetime import UTC, date, datetime, timedelta
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import func, select, update
from sqlalchemy.dialects.postgresql import insert as upsert

from memory_sql.config import Settings
from memory_sql.db.models import AgentRow, ConsolidationRow, ObservationStateRow, ScopeRow
from memory_sql.db.roles import Roles, drop, make
from memory_sql.domain.observations import Observation
from memory_sql.domain.scopes import Consolidation, Scope
from memory_sql.errors import UnavailableError
from memory_sql.llm.offline import Offline
from memory_sql.memory import Memory
from tests import recycling
from tests.conftest import administer, named
from tests.database import connect_once
from tests.fakes import Scripted

CHECKOUT = Path(__file__).parents[2]
TURNS = [json.loads(line) for line in (CHECKOUT / "examples/team.jsonl").read_text().splitlines()]
SESSIONS = {name: list(turns) for name, turns in groupby(TURNS, lambda turn: turn["conversation"])}
UNFORMED = "mia-2026-03-23"
USERS = ("mia", "jonas")
VIEWS = {"v_observations": "observation_id", "v_scope_timeline": "scope_id, version", "v_pending": "scope_id"}

Row = Mapping[str, Any]


def blocks(markdown: str) -> list[tuple[str, str]]:
    """Each fenced sql block, with the heading above it."""
    _, *parts = re.split(r"^#+ (.+)$", markdown, flags=re.MULTILINE)
    sections = zip(parts[::2], parts[1::2], strict=True)
    return [(heading, sql) for heading, body in sections for sql in re.findall(r"```sql\n(.+?)```", body, re.DOTALL)]


BLOCKS = blocks((CHECKOUT / "docs/analytics.md").read_text())
QUESTIONS = dict(BLOCKS)


async def query(url: str, sql: str) -> list[Row]:
    """The rows, as somebody gets them who may only read and finds only what is named with its schema."""
    async with connect_once(url) as connection:
        await connection.exec_driver_sql("SET TRANSACTION READ ONLY")
        await connection.exec_driver_sql("SET LOCAL search_path = ''")
        await connection.exec_driver_sql("SET LOCAL timezone = 'America/New_York'")
        return [dict(row) for row in (await connection.exec_driver_sql(sql)).mappings()]


class Team:
    """The conversations of examples/team.jsonl, told to the agent on the days when they were."""

    def __init__(self, url: str) -> None:
        self.now = datetime(2026, 3, 1, tzinfo=UTC)
        self.memory = self.opened_on(url)

    def opened_on(self, url: str, llm: Any = None) -> Memory:
        return Memory(url, llm or Offline(), Settings(llm="offline", episodes=True), clock=lambda: self.now)

    async def talk(self, name: str) -> None:
        turns = SESSIONS[name]
        self.now = datetime.fromisoformat(turns[-1]["created_at"]) + timedelta(minutes=10)
        groups = turns[0].get("group_ids", ())
        await self.memory.add(
            turns, agent_id="ada", user_id=turns[0]["user_id"], conversation_id=name, group_ids=groups
        )

    async def form(self, *names: str) -> None:
        for name in names:
            await self.talk(name)
            await self.memory.conversations.form(agent_id="ada", conversation_id=name)

    async def consolidate(self, user: str, kind: str) -> None:
        await self.memory.scopes.consolidate(agent_id="ada", scope_id=f"s{await scope_id(self.memory, user, kind)}")


async def fill(url: str) -> None:
    """Two versions of Mia's text, one of the group's, none of Jonas's; a last conversation that could not be formed."""
    team = Team(url)
    async with team.memory as memory:
        await team.form("mia-2026-03-02", "harbor-2026-03-03", "jonas-2026-03-04")
        await team.consolidate("mia", "individual")
        await team.consolidate("mia", "group")
        await team.form("mia-2026-03-09", "harbor-2026-03-17", "jonas-2026-03-18")
        await team.consolidate("mia", "individual")
        for user in USERS:
            demo = await memory.observe("The demo is on 20 April.", agent_id="ada", group_id="harbor", user_id=user)
        await memory.observations.dispute(demo.id, agent_id="ada", user_id="mia", actor="mia")
        await memory.observations.feedback(demo.id, -1, agent_id="ada", user_id="mia")
        for day in ("Friday", "Monday"):
            await memory.observe(f"The office is shut on {day}.", agent_id="ada", collective=True, fact_key="office")
        await memory.observe("Mia talks to another agent as well.", agent_id="bob", user_id="mia")
        await memory.scopes.propagate(agent_id="ada")
        await memory.search("demo", agent_id="ada", user_id="mia")
        for said in ("Where did I say the boats are?", "Thank you."):
            await memory.context(agent_id="ada", user_id="mia", message=said)
        await team.talk(UNFORMED)
    async with team.opened_on(url, Scripted(UnavailableError("timeout", "no answer in 60 s"))) as memory:
        with pytest.raises(UnavailableError):
            await memory.conversations.form(agent_id="ada", conversation_id=UNFORMED)


@pytest.fixture(scope="module")
def filled(server_url: str, template: str) -> Iterator[str]:
    """The URL of a database that nobody writes to."""
    name = f"memory_sql_analytics_{os.getpid()}"
    asyncio.run(administer(server_url, f"CREATE DATABASE {name} TEMPLATE {template}"))
    asyncio.run(fill(named(server_url, name)))
    yield named(server_url, name)
    asyncio.run(administer(server_url, f"DROP DATABASE {name} WITH (FORCE)"))


@pytest.fixture
async def copy(server_url: str, filled: str) -> AsyncIterator[str]:
    """The URL of a copy that the test may write to."""
    name = f"memory_sql_analytics_{os.getpid()}_copy"
    await administer(server_url, f"CREATE DATABASE {name} TEMPLATE memory_sql_analytics_{os.getpid()}")
    yield named(server_url, name)
    await administer(server_url, f"DROP DATABASE {name} WITH (FORCE)")


async def scope_id(memory: Memory, user: str, kind: str) -> int:
    scopes = await memory.scopes.list(agent_id="ada", user_id=user)
    return next(scope.ref.key for scope in scopes if scope.ref.kind == kind)


async def all_scopes(memory: Memory) -> dict[int, Scope]:
    found = [await memory.scopes.list(agent_id="ada", user_id=user) for user in USERS]
    return {scope.ref.key: scope for scopes in found for scope in scopes}


async def all_observations(memory: Memory) -> dict[str, Observation]:
    """The active ones."""
    found = [await memory.observations.list(agent_id="ada", user_id=user, limit=1000) for user in USERS]
    return {observation.id: observation for observations in found for observation in observations}


async def all_versions(memory: Memory) -> dict[tuple[int, int], Consolidation]:
    found = [await memory.scopes.history(agent_id="ada", user_id=user, limit=1000) for user in USERS]
    return {(version.scope.key, version.version): version for versions in found for version in versions}


@pytest.fixture
async def told(filled: str) -> AsyncIterator[Memory]:
    async with Team(filled).memory as memory:
        yield memory


# The questions


def test_each_question_has_one_heading_and_one_statement() -> None:
    assert len(QUESTIONS) == len(BLOCKS) >= 20
    assert all(heading.endswith("?") for heading in QUESTIONS)
    assert all(sql.startswith("SELECT") and sql.count(";") == 1 for sql in QUESTIONS.values())


@pytest.mark.parametrize("question", QUESTIONS)
async def test_question_has_an_answer(filled: str, question: str) -> None:
    assert await query(filled, QUESTIONS[question])


@pytest.mark.slow
async def test_analyst_of_content_may_ask_every_question(filled: str, copy: str) -> None:
    roles = Roles.of(f"crew_owner_{os.getpid()}", f"crew_app_{os.getpid()}", f"crew_analyst_{os.getpid()}")
    await make(copy, roles, recycling.SCHEMA)
    async with connect_once(copy) as connection:
        await connection.exec_driver_sql(f"SET LOCAL ROLE {roles.content}")
        for sql in QUESTIONS.values():
            assert (await connection.exec_driver_sql(sql)).all()
    async with connect_once(copy) as connection:  # who may read all data passes no wall
        await connection.exec_driver_sql("SET LOCAL ROLE pg_read_all_data")
        for view in VIEWS:
            assert (await connection.exec_driver_sql(f"TABLE memory.{view}")).all() == []
    assert await drop(copy, roles, recycling.SCHEMA) == []


async def ask(url: str, words: str) -> list[Row]:
    return await query(url, next(sql for question, sql in QUESTIONS.items() if words in question))


async def test_knowledge_about_a_user(filled: str, told: Memory) -> None:
    rows = await ask(filled, "know about a user")
    own = {o.id: o for o in (await all_observations(told)).values() if o.scope.owner_id == "mia"}
    assert [row["observation_id"] for row in rows] == sorted(own, key=lambda id: own[id].observed_at)
    assert all(row["observed_at"] == own[row["observation_id"]].observed_at < row["created_at"] for row in rows)
    assert {row["absorbed_by"] for row in rows} == {1, 2}


async def test_contributions_of_a_user(filled: str, told: Memory) -> None:
    rows = await ask(filled, "contributed")
    said = Counter(o.scope.kind for o in (await all_observations(told)).values() if "Mia said" in o.content)
    assert said["group"] >= 2
    assert Counter(row["scope_kind"] for row in rows) == said + Counter({"group": 1})  # the demo, stated by the host


async def test_texts_now(filled: str, told: Memory) -> None:
    rows = await ask(filled, "text say now")
    texts = {(s.ref.kind, s.ref.owner_id): s.consolidation for s in (await all_scopes(told)).values() if s.version}
    assert {(row["scope_kind"], row["owner_id"]): row["content"] for row in rows} == texts


async def test_changes_of_a_text(filled: str, told: Memory) -> None:
    rows = await ask(filled, "text change")
    first, second = sorted(
        (v for v in (await all_versions(told)).values() if v.scope.owner_id == "mia"), key=lambda v: v.version
    )
    scope = first.scope.key
    assert [(row["version"], row["words_before"], row["words"]) for row in rows] == [
        (1, 0, first.words),
        (2, first.words, second.words),
    ]
    assert rows[0]["absorbed"] == [f"o{scope}-{seq}" for seq in range(1, first.to_seq + 1)]
    assert rows[1]["absorbed"] == [f"o{scope}-{seq}" for seq in range(first.to_seq + 1, second.to_seq + 1)]


async def test_backlog(filled: str, told: Memory) -> None:
    rows = await ask(filled, "waits for a consolidation")
    waiting = {(s.ref.kind, s.ref.owner_id): s.pending for s in (await all_scopes(told)).values() if s.pending}
    assert {(row["scope_kind"], row["owner_id"]): row["pending"] for row in rows} == waiting
    assert ("individual", "mia") not in waiting
    assert not any(row["in_progress"] or row["due"] for row in rows)
    assert rows[0]["oldest_age"] > rows[-1]["oldest_age"] > timedelta(0)


async def test_source_of_a_sentence(filled: str) -> None:
    [row] = await ask(filled, "sentence come from")
    [turn] = [turn for turn in TURNS if turn["id"] == row["message_id"]]
    assert "flat white" in row["content"]
    assert row["said"] == turn["content"]
    assert row["speaker"] == "Mia"
    assert row["said_at"] == datetime.fromisoformat(turn["created_at"])


async def test_observations_of_a_message(filled: str, told: Memory) -> None:
    rows = await ask(filled, "came from one message")
    observations = (await all_observations(told)).values()
    assert {row["observation_id"] for row in rows} == {
        o.id for o in observations if "jonas-2026-03-04-07" in o.source.message_ids
    }
    assert len(rows) == 2


async def test_what_was_said_more_than_once(filled: str) -> None:
    [row] = await ask(filled, "more than once")
    assert (row["content"], row["times"], row["users"]) == ("The demo is on 20 April.", 2, ["jonas", "mia"])


async def test_observations_per_week(filled: str, told: Memory) -> None:
    rows = await ask(filled, "per week")
    found = {(row["week"], row["scope_kind"]): row["observations"] for row in rows}
    active = [(monday(o.observed_at.date()), o.scope.kind) for o in (await all_observations(told)).values()]
    superseded = next(key for key in active if key[1] == "collective"), (date(2026, 3, 2), "individual")
    assert found == Counter([*active, *superseded])
    assert sum(found.values()) == (await told.admin.stats(agent_id="ada")).observations


def monday(day: date) -> date:
    return day - timedelta(days=day.weekday())


async def test_yield_of_each_conversation(filled: str, told: Memory) -> None:
    rows = await ask(filled, "each conversation")
    formed = [o for o in (await all_observations(told)).values() if o.source.kind == "formation"]
    overtaken = dict.fromkeys(SESSIONS, 0) | {"mia-2026-03-02": 1}  # that she prefers coffee
    expected = [
        (
            session,
            len(turns),
            len({id for o in formed if o.source.conversation_id == session for id in o.source.message_ids})
            + overtaken[session],
            len([o for o in formed if o.source.conversation_id == session]) + overtaken[session],
        )
        for session, turns in SESSIONS.items()
    ]
    assert [tuple(row.values()) for row in rows] == expected


async def test_conversations_that_nothing_was_formed_from(filled: str) -> None:
    [row] = await ask(filled, "nothing has been formed")
    assert (row["conversation_id"], row["user_id"]) == (UNFORMED, "mia")
    assert row["unformed_messages"] == len(SESSIONS[UNFORMED])
    assert row["due_reason"] == "cold"


async def test_cost_and_failures_per_day(filled: str, told: Memory) -> None:
    rows = await ask(filled, "cost per day")
    by_kind: Counter[str] = Counter()
    for row in rows:
        by_kind[row["kind"]] += row["runs"]
    stats = await told.admin.stats(agent_id="ada")
    assert by_kind.total() == sum(stats.runs.values())
    assert by_kind["consolidation"] == stats.consolidations
    assert [(row["day"], row["kind"]) for row in rows if row["failed"]] == [(date(2026, 3, 23), "formation")]


async def test_reasons_of_failures(filled: str) -> None:
    [row] = await ask(filled, "fail, and for which")
    assert (row["kind"], row["target"], row["error_code"], row["runs"]) == ("formation", UNFORMED, "timeout", 1)


async def test_flow_to_wider_scopes(filled: str, told: Memory) -> None:
    rows = await ask(filled, "wider scopes")
    judged = await query(filled, "SELECT outcome, count(*) AS n FROM memory.judged GROUP BY outcome")
    by_outcome: Counter[str] = Counter()
    for row in rows:
        by_outcome[row["outcome"]] += int(row["observations"])
    assert by_outcome == {row["outcome"]: row["n"] for row in judged}
    assert by_outcome["refused"] > 0
    stats = await told.admin.stats(agent_id="ada")
    assert sum(row["stored"] for row in rows) == stats.propagated


async def test_users(filled: str, told: Memory) -> None:
    rows = {row["user_id"]: row for row in await ask(filled, "Which users are there")}
    written = {user: [turn for turn in TURNS if turn["role"] == "user" and turn["user_id"] == user] for user in USERS}
    assert {user: row["messages"] for user, row in rows.items()} == {user: len(w) for user, w in written.items()}
    own = Counter(o.scope.owner_id for o in (await all_observations(told)).values() if o.scope.kind == "individual")
    assert {user: row["observations"] for user, row in rows.items()} == own


async def test_events(filled: str) -> None:
    rows = await ask(filled, "happened to memory")
    assert [row["created_at"] for row in rows] == sorted((row["created_at"] for row in rows), reverse=True)
    (disputed,) = [row for row in rows if row["kind"] == "verification"]
    assert (disputed["actor"], disputed["owner_id"], disputed["detail"]["to"]) == ("mia", "harbor", "disputed")
    assert disputed["observation_id"] in {row["observation_id"] for row in await ask(filled, "confirmed or disputed")}


async def test_successors(filled: str) -> None:
    coffee, office = await ask(filled, "superseded, and by which")
    assert "prefer coffee" in coffee["content"]
    assert "stopped drinking coffee" in coffee["newer"]
    assert (office["content"], office["newer"]) == ("The office is shut on Friday.", "The office is shut on Monday.")


async def test_observations_that_speak_of_a_day(filled: str) -> None:
    assert all("last Friday" in row["content"] for row in await ask(filled, "mention a given day"))


async def test_latency(filled: str) -> None:
    rows = await ask(filled, "take to become memory")
    items: Counter[str] = Counter()
    for row in rows:
        items[row["step"]] += row["items"]
        assert row["p50_seconds"] <= row["p90_seconds"] <= row["slowest_seconds"]
    formed = await query(filled, "SELECT sum(formed) AS n FROM memory.v_formation_funnel")
    absorbed = await query(filled, "SELECT count(absorbed_by) AS n FROM memory.v_observations")
    assert items == {"formation": formed[0]["n"], "consolidation": absorbed[0]["n"]}


async def test_members_of_a_group(filled: str) -> None:
    assert {row["user_id"] for row in await ask(filled, "belongs to a group")} == set(USERS)


# The views


@pytest.fixture
async def changing(copy: str) -> AsyncIterator[Memory]:
    """On the copy."""
    async with Team(copy).memory as memory:
        yield memory


async def set_state(url: str, scope: int, seq: int, **state: Any) -> None:
    """By hand what later releases do."""
    agent = select(AgentRow.agent_key).where(AgentRow.agent_id == "ada").scalar_subquery()
    row = {"agent_key": agent, "scope_id": scope, "seq": seq, "status": "active", "repend": False, **state}
    async with connect_once(url) as connection:
        await connection.execute(
            upsert(ObservationStateRow)
            .values(row)
            .on_conflict_do_update(constraint="observation_states_pkey", set_=state)
        )


async def rows_of(url: str, view: str) -> list[Row]:
    return await query(url, f"SELECT * FROM memory.{view} WHERE agent_id = 'ada'")  # noqa: S608


async def observation(url: str, scope: int, seq: int) -> Row:
    return next(row for row in await rows_of(url, "v_observations") if (row["scope_id"], row["seq"]) == (scope, seq))


async def assert_grain(url: str) -> None:
    for view, key in VIEWS.items():
        found = await query(url, f"SELECT count(*), count(DISTINCT ({key})) AS keys FROM memory.{view}")  # noqa: S608
        assert found[0]["count"] == found[0]["keys"] > 0


async def assert_views_agree_with(memory: Memory, url: str, **absorbed_by: int | None) -> None:
    """`absorbed_by` are observations that aren't in the version whose range holds them, and where they are."""
    await assert_grain(url)
    await assert_v_observations_agrees_with(memory, url, absorbed_by)
    await assert_v_scope_timeline_agrees_with(memory, url)
    waiting = {scope.ref.key: scope.pending for scope in (await all_scopes(memory)).values() if scope.pending}
    assert {row["scope_id"]: row["pending"] for row in await rows_of(url, "v_pending")} == waiting


async def assert_v_observations_agrees_with(memory: Memory, url: str, absorbed_by: Mapping[str, int | None]) -> None:
    rows = {row["observation_id"]: row for row in await rows_of(url, "v_observations")}
    listed, versions = await all_observations(memory), await all_versions(memory)
    assert {id: row["pending"] for id, row in rows.items() if row["status"] == "active"} == {
        id: o.pending for id, o in listed.items()
    }
    assert {id: row["content"] for id, row in rows.items() if id in listed} == {
        id: o.content for id, o in listed.items()
    }
    assert {id: row["absorbed_by"] for id, row in rows.items()} == {
        id: absorbed_by[id] if id in absorbed_by else covering(versions.values(), row) for id, row in rows.items()
    }


def covering(versions: Iterable[Consolidation], row: Row) -> int | None:
    """The live version whose range holds the observation."""
    found = [v for v in versions if v.scope.key == row["scope_id"] and v.live and v.from_seq < row["seq"] <= v.to_seq]
    assert len(found) <= 1
    return found[0].version if found else None


async def assert_v_scope_timeline_agrees_with(memory: Memory, url: str) -> None:
    rows = {(row["scope_id"], row["version"]): row for row in await rows_of(url, "v_scope_timeline")}
    versions, scopes = await all_versions(memory), await all_scopes(memory)
    assert rows.keys() == versions.keys()
    for key, row in rows.items():
        told = versions[key].model_dump()
        assert {name: row[name] for name in row.keys() & told.keys()} == {
            name: told[name] for name in row.keys() & told.keys()
        }
        assert row["is_head"] == (row["version"] == scopes[key[0]].version)
        assert row["words_before"] == (rows[key[0], row["base"]]["words"] if row["base"] else 0)


async def test_views_agree_with_what_memory_says(filled: str, told: Memory) -> None:
    await assert_views_agree_with(told, filled)


async def test_views_of_an_agent_hold_nothing_of_another(filled: str) -> None:
    found = await query(
        filled, "SELECT agent_id, content FROM memory.v_observations WHERE content LIKE '%another agent%'"
    )
    assert [row["agent_id"] for row in found] == ["bob"]


@pytest.mark.slow
async def test_observation_that_waits_again_is_pending_until_a_later_version_takes_it(
    copy: str, changing: Memory
) -> None:
    scope = await scope_id(changing, "mia", "individual")
    await set_state(copy, scope, 2, repend=True)
    again = await observation(copy, scope, 2)
    assert (again["pending"], again["absorbed_by"], again["absorbed_at"]) == (True, None, None)
    await assert_views_agree_with(changing, copy, **{f"o{scope}-2": None})

    written = await changing.scopes.consolidate(agent_id="ada", scope_id=f"s{scope}")
    taken = await observation(copy, scope, 2)
    assert (taken["pending"], taken["absorbed_by"]) == (False, 3)
    await assert_views_agree_with(changing, copy, **{f"o{scope}-2": written.version})
    [head] = [row for row in await rows_of(copy, "v_scope_timeline") if row["scope_id"] == scope and row["is_head"]]
    assert (head["extra_seqs"], head["absorbed"], head["from_seq"]) == ([2], 1, head["to_seq"])


async def test_superseded_observation_stays_in_the_version_that_read_it(copy: str, changing: Memory) -> None:
    scope = await scope_id(changing, "mia", "individual")
    await set_state(copy, scope, 2, status="superseded")
    row = await observation(copy, scope, 2)
    assert (row["status"], row["pending"], row["absorbed_by"]) == ("superseded", False, 1)
    await assert_views_agree_with(changing, copy)


@pytest.mark.slow
async def test_superseded_observation_that_was_passed_over_is_in_no_version(copy: str, changing: Memory) -> None:
    scope = await scope_id(changing, "jonas", "individual")
    await set_state(copy, scope, 2, status="superseded")
    before = await observation(copy, scope, 2)
    assert (before["status"], before["pending"], before["absorbed_by"]) == ("superseded", False, None)
    await assert_views_agree_with(changing, copy)

    written = await changing.scopes.consolidate(agent_id="ada", scope_id=f"s{scope}")
    assert (await observation(copy, scope, 2))["absorbed_by"] is None
    await assert_views_agree_with(changing, copy, **{f"o{scope}-2": None})
    [head] = [row for row in await rows_of(copy, "v_scope_timeline") if row["scope_id"] == scope]
    assert head["absorbed"] == written.absorbed == head["to_seq"] - 1

    await set_state(copy, scope, 2, status="active")
    assert (await observation(copy, scope, 2))["pending"]
    await assert_views_agree_with(changing, copy, **{f"o{scope}-2": None})


@pytest.mark.slow
async def test_observations_of_a_version_that_was_undone_are_pending(copy: str, changing: Memory) -> None:
    scope = await scope_id(changing, "mia", "individual")
    second = (await all_versions(changing))[scope, 2]
    async with connect_once(copy) as connection:
        mine = (ConsolidationRow.scope_id == scope, ConsolidationRow.version == 2)
        await connection.execute(update(ConsolidationRow).where(*mine).values(live=False, live_until=func.now()))
        await connection.execute(update(ScopeRow).where(ScopeRow.scope_id == scope).values(done_seq=second.from_seq))
    rows = [row for row in await rows_of(copy, "v_observations") if row["scope_id"] == scope]
    assert {row["seq"]: row["absorbed_by"] for row in rows} == {
        seq: 1 if seq <= second.from_seq else None for seq in range(1, second.to_seq + 1)
    }
    assert [row["seq"] for row in rows if row["pending"]] == list(range(second.from_seq + 1, second.to_seq + 1))
    await assert_views_agree_with(changing, copy)


async def test_scope_that_somebody_works_on_is_in_progress(copy: str, changing: Memory) -> None:
    scope = await scope_id(changing, "jonas", "individual")
    async with connect_once(copy) as connection:
        lease = func.clock_timestamp() + timedelta(minutes=3)
        await connection.execute(update(ScopeRow).where(ScopeRow.scope_id == scope).values(lease_until=lease))
    assert [row["scope_id"] for row in await rows_of(copy, "v_pending") if row["in_progress"]] == [scope]


async def test_backlog_says_since_when_a_scope_is_due(copy: str, changing: Memory) -> None:
    scope = await scope_id(changing, "jonas", "individual")
    waiting = next(row["pending"] for row in await rows_of(copy, "v_pending") if row["scope_id"] == scope)
    for n in range(changing.settings.consolidation_threshold - waiting):
        assert all(row["due_at"] is None for row in await rows_of(copy, "v_pending"))
        await changing.observe(f"Jonas won game {n}.", agent_id="ada", user_id="jonas")
    assert [row["scope_id"] for row in await rows_of(copy, "v_pending") if row["due_at"]] == [scope]
