"""How many observations would be in each stage week by week: what maintenance would leave, without changing anything."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator, Mapping
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any, get_args

import pytest

from memory_sql.config import Settings
from memory_sql.domain.observations import Stage
from memory_sql.domain.results import LifecycleWeek
from memory_sql.errors import InputError, NotFoundError
from memory_sql.memory import Memory
from tests.commands import memory_sql
from tests.database import rows, statements
from tests.factories import MONDAY, Clock
from tests.fakes import Scripted

ADA: dict[str, Any] = {"agent_id": "ada"}
MIA: dict[str, Any] = {**ADA, "user_id": "mia"}
ON: dict[str, Any] = {"llm": "offline", "classification": "off", "lifecycle": True, "commitment_days": 40}
WEEKS = 20


@pytest.fixture
async def alive(
    database_url: str, llm: Scripted, clock: Clock, request: pytest.FixtureRequest
) -> AsyncIterator[Memory]:
    settings = Settings(**ON, archival=getattr(request, "param", False))
    async with Memory(database_url, llm, settings, clock=clock) as memory:
        yield memory
        assert await memory.admin.verify() == []


async def remembered(memory: Memory, clock: Clock) -> None:
    """One observation for each way that something may go; half of them are seven months old."""
    fields: list[Mapping[str, Any]] = [
        {"confidence": 0.95, "importance": 0.9},
        {"confidence": 0.8, "importance": 0.2, "category": "fact"},
        {"confidence": 0.5, "importance": 0.1},
        {"importance": 0.25, "category": "moment"},
        {"confidence": 0.5, "importance": 0.1, "category": "preference"},
        {"confidence": 0.3},
        {"confidence": 0.3, "importance": 0.1, "category": "commitment"},
    ]
    for ago in (210, 0):
        clock.now = MONDAY - timedelta(days=ago)
        ids = [(await memory.observe(f"Boat {n} of {ago}.", **MIA, **more)).id for n, more in enumerate(fields)]
        held = await memory.observe(f"A held boat of {ago}.", **MIA, confidence=0.2, importance=0.1)
        await memory.holds.place(**ADA, observation_id=held.id)
        protected = await memory.observe(f"A safe boat of {ago}.", **MIA, confidence=0.2, importance=0.1)
        await memory.observations.mark(protected.id, **MIA, policy="protected")
        await memory.observations.confirm(ids[0], **MIA)
        disputed = await memory.observe(f"A boat of {ago} or none.", **MIA, confidence=0.9)
        await memory.observations.dispute(disputed.id, **MIA)
        done = await memory.observe(f"A boat of {ago} was painted.", **MIA, confidence=0.9)
        await memory.observations.resolve(done.id, "fulfilled", **MIA)
        for day in (4, 75):
            await memory.observe(f"A boat of {ago} for {day} days.", **MIA, confidence=0.7, importance=0.1 + day / 100)
        await memory.observe(f"A boat of {ago} on loan.", **MIA, confidence=0.9, importance=0.1)
    await rows(  # a time of its own, after archival has come
        memory,
        "INSERT INTO memory.observation_states (agent_key, scope_id, seq, expires_at)"
        " SELECT agent_key, scope_id, seq, cast(:day AS timestamptz) + interval '110 days' FROM memory.observations"
        " WHERE content LIKE '% on loan.'",
        day=MONDAY,
    )
    await rows(
        memory,
        "UPDATE memory.observations SET until = cast(:day AS date)"
        " + cast(substring(content FROM 'for ([0-9]+) days') AS integer) WHERE content LIKE '% for % days.'",
        day=MONDAY.date(),
    )
    await rows(  # five are used, two of them until today, and three are thought something of
        memory,
        "INSERT INTO memory.observation_retrievals (agent_key, scope_id, seq, day, surface, times)"
        " SELECT agent_key, scope_id, seq, cast(:day AS date) - 15 * (seq % 5), 'search', 2 * seq"
        " FROM memory.observations WHERE seq IN (1, 2, 3, 10, 15, 17)",
        day=MONDAY.date(),
    )
    await rows(
        memory,
        "INSERT INTO memory.observation_feedback (agent_key, scope_id, seq, day, total, times)"
        " SELECT agent_key, scope_id, seq, cast(:day AS date) - 30, (seq % 3) - 1, 1"
        " FROM memory.observations WHERE seq IN (2, 3, 15, 16, 18)",
        day=MONDAY.date(),
    )


async def left(memory: Memory) -> dict[str, Any]:
    """What maintenance has left, by what is stored."""
    found = await rows(
        memory,
        "SELECT CASE WHEN o.standing = 'archived' THEN 'archived' ELSE coalesce(t.stage, 'candidate') END, count(*)"
        " FROM memory.observations o LEFT JOIN memory.observation_states t USING (agent_key, scope_id, seq)"
        " WHERE o.standing IN ('active', 'archived') GROUP BY 1",
    )
    told = await rows(memory, "SELECT detail->>'why', count(*) FROM memory.events WHERE kind = 'status' GROUP BY 1")
    whys = dict(told)
    return {
        "stages": dict.fromkeys(get_args(Stage), 0) | dict(found),
        "aged": whys.get("age", 0),
        "resolved": whys.get("expired", 0),
        "evicted": whys.get("speculative", 0) + whys.get("resolved", 0),
    }


@pytest.mark.slow
@pytest.mark.parametrize("alive", [False, True], indirect=True)
async def test_forecast_is_what_maintenance_leaves_week_by_week(alive: Memory, clock: Clock) -> None:
    """With uses and feedback that end with `count_days`. Archival tells what it would take also where it is off."""
    await remembered(alive, clock)
    forecast = await alive.work.lifecycle(**ADA, days=7 * WEEKS + 6)
    assert [week.at for week in forecast] == [MONDAY + timedelta(days=7 * n) for n in range(WEEKS + 1)]
    reached = set[str]()
    for week in forecast:
        clock.now = week.at
        await alive.work.maintain()
        expected = await left(alive)
        if not alive.settings.archival:
            del expected["aged"]
        assert week.model_dump(include={*expected}) == expected, week.at
        reached |= {stage for stage, count in week.stages.items() if count}
    assert reached == {*get_args(Stage)}
    last = forecast[-1]
    assert min(last.aged, last.resolved, last.evicted, last.protected) > 0
    assert forecast[0].aged <= last.aged


@pytest.mark.parametrize("archival", [False, True])
async def test_at_the_very_moment_it_is_what_maintenance_leaves(
    database_url: str, llm: Scripted, clock: Clock, archival: bool
) -> None:
    """A day is over at its end; a guess and what is resolved go only after theirs (C28)."""
    days: dict[str, Any] = {"speculative_days": 7, "commitment_days": 14, "archival_days": 7}
    async with Memory(database_url, llm, Settings(**{**ON, **days}, archival=archival), clock=clock) as memory:
        clock.now = MONDAY.replace(hour=0)
        await memory.observe("Mia might fly.", **MIA, confidence=0.3, importance=0.1)
        await memory.observe("Mia will row.", **MIA, confidence=0.9, until=(clock.now + timedelta(days=6)).date())
        forecast = await memory.work.lifecycle(**ADA, days=28)
        for week in forecast:
            clock.now = week.at
            await memory.work.maintain()
            expected = await left(memory)
            if not archival:
                del expected["aged"]
            assert week.model_dump(include={*expected}) == expected, week.at
        assert [week.resolved for week in forecast] == [0, 1, 1, 1, 1]
        assert [week.evicted for week in forecast] == ([0, 0, 0, 0, 1] if archival else [0, 0, 1, 1, 2])


async def test_it_changes_nothing_and_is_one_statement_however_far_it_looks(alive: Memory, clock: Clock) -> None:
    await alive.observe("Mia rows.", **MIA, confidence=0.95)
    before = await rows(alive, "SELECT * FROM memory.observation_states")
    with statements(alive) as few:
        (now,) = await alive.work.lifecycle(**ADA, days=0)
    with statements(alive) as many:
        year = await alive.work.lifecycle(**ADA)
    assert len(few) == len(many)
    assert (len(year), year[0]) == (53, now)
    assert now == LifecycleWeek(
        at=MONDAY, stages={"candidate": 0, "validated": 1, "active": 0, "stale": 0, "archived": 0}
    )
    assert year[-1].at == MONDAY + timedelta(days=364)
    assert await rows(alive, "SELECT * FROM memory.observation_states") == before


async def test_it_refuses_what_it_cannot_do(alive: Memory) -> None:
    with pytest.raises(NotFoundError):
        await alive.work.lifecycle(agent_id="nobody")
    await alive.observe("Mia rows.", **MIA)
    for days in (-1, 3661):
        with pytest.raises(InputError):
            await alive.work.lifecycle(**ADA, days=days)


@pytest.mark.slow
def test_command_prints_a_table_with_a_chart(database_url: str, tmp_path: Path) -> None:
    at = ("--url", database_url)
    for text, sure in (("Mia rows.", "0.95"), ("Mia swims.", "0.5"), ("Mia might fly.", "0.3")):
        known = ("--confidence", sure, "--importance", "0.5")
        memory_sql("observe", text, "--agent", "ada", "--user", "mia", *known, *at)
    told = memory_sql("lifecycle", "--agent", "ada", "--days", "70", *at).out.splitlines()
    today = datetime.now(UTC).date()
    assert told[0].split() == [
        *("day", "candidate", "validated", "active", "stale", "archived"),
        *("protected", "aged", "resolved", "evicted"),
    ]
    assert len(told) == 1 + 11 + 2
    assert told[1].split()[:10] == [f"{today}", "2", "1", "0", "0", "0", "0", "0", "0", "0"]
    assert told[11].split()[0] == f"{today + timedelta(days=70)}"
    assert told[11].split()[9] == "1"  # the guess has gone
    assert {len(line.split()[10]) for line in told[1:12]} == {30, 20}  # a bar, shorter by what has gone
    assert "lifecycle is off" in told[-1]
    weeks = memory_sql("lifecycle", "--agent", "ada", "--days", "70", "--json", *at).rows
    assert [date.fromisoformat(week["at"][:10]) for week in weeks] == [today + timedelta(days=7 * n) for n in range(11)]
    assert weeks[0]["stages"] == {"candidate": 2, "validated": 1, "active": 0, "stale": 0, "archived": 0}
    assert weeks[-1]["evicted"] == 1
    assert "nobody" in memory_sql("lifecycle", "--agent", "nobody", *at, code=1).err


@pytest.mark.slow
def test_command_draws_a_picture_where_it_can(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at, picture = ("--url", database_url), tmp_path / "stages.png"
    memory_sql("observe", "Mia rows.", "--agent", "ada", "--user", "mia", *at)
    ran = memory_sql("lifecycle", "--agent", "ada", "--days", "7", "--png", picture, "--json", *at)
    assert picture.read_bytes().startswith(b"\x89PNG\r\n")
    assert len([json.loads(line) for line in ran.out.splitlines()]) == 2
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    ran = memory_sql("lifecycle", "--agent", "ada", "--png", picture, *at, code=1)
    assert 'pip install "memory-sql[plots]"' in ran.err
