"""When an episode ends, which trace it goes on with, and what it is about: the rules of B.4 of the sources, in SQL.

`Model` says them once more, without a database: the two are compared on random conversations.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memory_sql.config import Settings
from memory_sql.db.repositories.episodes import episode_rules
from memory_sql.domain.episodes import topics_of
from memory_sql.memory import Memory
from tests.database import rows
from tests.factories import MONDAY
from tests.sizes import share

RULES = episode_rules(Settings())
GAP = timedelta(minutes=30)


def test_thresholds_are_those_of_the_sources() -> None:
    assert RULES == {"most": 50, "shift": 0.35, "gap": 1800.0, "trace": 0.4, "trace_days": 7}


async def one(memory: Memory, sql: str, **given: Any) -> Any:
    ((value,),) = await rows(memory, f"SELECT {sql}", **given)
    return value


@pytest.mark.parametrize(
    ("these", "those", "likeness"),
    [
        ([], [], 0.0),
        (["boat"], [], 0.0),
        (["boat"], ["boat"], 1.0),
        (["boat", "tea"], ["boat"], 0.5),
        (["boat", "tea"], ["boat", "mast"], 1 / 3),
        (["boat", "boat", "tea"], ["tea", "boat"], 1.0),
        (["a1", "a2", "a3"], ["b1", "b2", "b3"], 0.0),
    ],
)
async def test_likeness_of_topics(memory: Memory, these: list[str], those: list[str], likeness: float) -> None:
    found = "memory.jaccard(CAST(:these AS text[]), CAST(:those AS text[]))"
    assert await one(memory, found, these=these, those=those) == pytest.approx(likeness)
    assert await one(memory, found, these=those, those=these) == pytest.approx(likeness)


BOAT, TEA = ["boat", "mast", "sail"], ["tea", "cake"]


@pytest.mark.parametrize(
    ("held", "new", "topics", "minutes", "reason"),
    [
        (49, 1, BOAT, 0, None),  # 50 are not too many
        (50, 1, BOAT, 0, "max_memories"),
        (50, 1, TEA, 90, "max_memories"),  # before all else
        (3, 1, TEA, 90, "topic_shift"),  # before the gap
        (3, 1, TEA, 0, "topic_shift"),
        (3, 1, ["boat", "tea"], 0, "topic_shift"),  # 1 of 4: below .35
        (3, 1, ["boat", "mast", "tea"], 0, None),  # 2 of 4
        (3, 1, [], 0, None),  # what has no topics says nothing of a shift
        (3, 1, [], 30, "time_gap"),
        (3, 1, BOAT, 30, "time_gap"),
        (3, 1, BOAT, 29.99, None),
        (3, 1, BOAT, -600, None),  # what was said before, and formed late
    ],
)
async def test_reasons_in_the_order_of_the_sources(
    memory: Memory, held: int, new: int, topics: list[str], minutes: float, reason: str | None
) -> None:
    call = "memory.seal_reason(CAST(:box AS text[]), :held, :last, CAST(:topics AS text[]), :new, :at, CAST(:rules AS jsonb))"
    at = MONDAY + timedelta(minutes=minutes)
    given = {
        "box": BOAT,
        "held": held,
        "last": MONDAY,
        "topics": topics,
        "new": new,
        "at": at,
        "rules": json.dumps(RULES),
    }
    assert await one(memory, call, **given) == reason


async def test_what_most_are_about_comes_first_and_sixteen_at_most(memory: Memory) -> None:
    call = "memory.best_topics(CAST(:lists AS jsonb))"
    assert await one(memory, call, lists="[]") == []
    lists = [["tea", "boat"], ["cake", "boat"], ["boat", "boat"], ["cake"]]
    assert await one(memory, call, lists=json.dumps(lists)) == ["boat", "cake", "tea"]
    many = [[f"w{n:02}"] for n in range(20)]
    assert await one(memory, call, lists=json.dumps(many)) == [f"w{n:02}" for n in range(16)]


def test_topics_of_an_observation() -> None:
    assert topics_of(["Kitchen.", "hip  Operation"], ["Family"], "fact") == ("kitchen", "hip operation", "family")
    assert topics_of([], [], "fact") == ("fact",)
    assert topics_of(["a", "one two three four", "x" * 41], [], None) == ()
    assert topics_of(["Ärzte", "ärzte"], [], None) == ("ärzte",)
    assert len(topics_of([f"topic {n}" for n in range(9)], [], None)) == 6


# Whole conversations


@dataclass
class Box:
    opened: datetime
    last: datetime
    topics: list[list[str]]
    reason: str | None = None
    trace: int | None = None
    sealed: datetime | None = None

    @property
    def about(self) -> list[str]:
        times: dict[str, int] = {}
        for one in self.topics:
            for topic in dict.fromkeys(one):
                times[topic] = times.get(topic, 0) + 1
        return sorted(times, key=lambda topic: (-times[topic], list(times).index(topic)))[:16]


def jaccard(these: Sequence[str], those: Sequence[str]) -> float:
    either = {*these, *those}
    return len({*these} & {*those}) / len(either) if either else 0.0


@dataclass
class Model:
    """The rules, in Python: boxes in the order in which they were opened."""

    most: int
    boxes: list[Box] = field(default_factory=list)

    def seal(self, number: int, reason: str, at: datetime) -> None:
        box = self.boxes[number]
        box.reason, box.sealed = reason, max(at, box.last)
        traces: dict[int, tuple[set[str], datetime]] = {}
        for other in self.boxes[:number]:
            if (
                other.sealed
                and other.trace is not None
                and at - timedelta(days=7) <= other.sealed <= at
                and other.last <= at
            ):
                topics, latest = traces.get(other.trace, (set(), other.sealed))
                traces[other.trace] = (topics | set(other.about), max(latest, other.sealed))
        liked = [(jaccard(box.about, list(topics)), latest, trace) for trace, (topics, latest) in traces.items()]
        box.trace = max((one for one in liked if one[0] >= 0.4), default=(0.0, at, number))[2]

    def keep(self, said: Sequence[tuple[datetime, list[str]]]) -> None:
        stretch: list[tuple[datetime, list[str]]] = []
        for one in sorted(said, key=lambda one: one[0]):
            if stretch and one[0] - stretch[-1][0] >= GAP:
                self.append(stretch)
                stretch = []
            stretch.append(one)
        if stretch:
            self.append(stretch)

    def append(self, stretch: Sequence[tuple[datetime, list[str]]]) -> None:
        first, last = stretch[0][0], stretch[-1][0]
        new = Box(first, last, [topics for _, topics in stretch])
        number = next((n for n, box in enumerate(self.boxes) if box.reason is None), None)
        full = len(stretch) > self.most
        if number is not None:
            box = self.boxes[number]
            full = len(box.topics) + len(stretch) > self.most
            if not full and new.about and jaccard(box.about, new.about) < 0.35:
                self.seal(number, "topic_shift", min(box.last + GAP, first))
                number, full = None, False
            elif not full and first - box.last >= GAP:
                self.seal(number, "time_gap", min(box.last + GAP, first))
                number, full = None, False
        if number is None:
            full = len(stretch) > self.most
            self.boxes.append(new)
            number = len(self.boxes) - 1
        else:
            box = self.boxes[number]
            box.opened, box.last = min(box.opened, first), max(box.last, last)
            box.topics += new.topics
        if full:
            self.seal(number, "max_memories", last)


WORDS = ("boat", "mast", "tea", "cake", "hip")
SAID = st.tuples(st.integers(0, 120), st.lists(st.sampled_from(WORDS), max_size=3, unique=True))
FORMATIONS = st.lists(
    st.tuples(st.sampled_from([0, 5, 40, 3000, 11_000]), st.lists(SAID, min_size=1, max_size=6)), min_size=1, max_size=6
)


TABLES = ("observation_episodes", "episodes", "observations", "scopes", "conversations", "agents")
AGENT = "INSERT INTO memory.agents (agent_id) VALUES ('ada') RETURNING agent_key"
CONVERSATION = """
    INSERT INTO memory.conversations (agent_key, conversation_id, user_id, participants) VALUES (:agent, 's', 'mia', '{mia}')
    RETURNING 1
"""
SCOPE = "INSERT INTO memory.scopes (agent_key, kind, owner) VALUES (:agent, 'individual', 'u:mia') RETURNING scope_id"
OBSERVATION = """
    INSERT INTO memory.observations (
        agent_key, scope_id, seq, content, observed_at, source_kind, conversation_id, hash_version
    ) VALUES (:agent, :scope, :seq, 'It is so.', :at, 'formation', 's', 3) RETURNING 1
"""
KEEP = "SELECT memory.keep_episodes(:agent, 's', CAST(:stored AS jsonb), CAST(:rules AS jsonb))"
FOUND = """
    SELECT e.opened_at, e.last_at, e.seal_reason, e.sealed_at, CASE WHEN e.trace_id IS NOT NULL THEN (
        SELECT count(*) FROM memory.episodes b WHERE b.episode_id < e.trace_id
    ) END, memory.episode_topics(e.agent_key, e.episode_id)
    FROM memory.episodes e ORDER BY e.episode_id
"""


async def kept(memory: Memory, formations: Any, rules: dict[str, Any]) -> tuple[Model, list[tuple[Any, ...]]]:
    """What the model and the database make of them, from empty tables. Pauses and times are in minutes."""
    model, at, seq = Model(rules["most"]), MONDAY, 0
    for table in TABLES:
        await rows(memory, f"DELETE FROM memory.{table} RETURNING 1")  # noqa: S608
    ((agent,),) = await rows(memory, AGENT)
    await rows(memory, CONVERSATION, agent=agent)
    ((scope,),) = await rows(memory, SCOPE, agent=agent)
    for pause, said in formations:
        at += timedelta(minutes=pause)
        told = [(at + timedelta(minutes=minutes), topics) for minutes, topics in said]
        model.keep(told)
        stored = []
        for then, topics in told:
            seq += 1
            await rows(memory, OBSERVATION, agent=agent, scope=scope, seq=seq, at=then)
            stored.append({"scope_id": scope, "seq": seq, "observed_at": then.isoformat(), "topics": topics})
        await rows(memory, KEEP, agent=agent, stored=json.dumps(stored), rules=json.dumps(rules))
        at = max(then for then, _ in told)
    return model, await rows(memory, FOUND)


@pytest.mark.open
@pytest.mark.slow
@settings(max_examples=share(100), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(formations=FORMATIONS, most=st.sampled_from([3, 8, 50]))
async def test_the_database_does_what_the_rules_say(memory: Memory, formations: Any, most: int) -> None:
    model, found = await kept(memory, formations, {**RULES, "most": most})
    told = [(box.opened, box.last, box.reason, box.sealed, box.trace, box.about) for box in model.boxes]
    assert [row[:5] for row in found] == [row[:5] for row in told]
    assert [sorted(row[5]) for row in found] == [sorted(row[5]) for row in told]
    assert sum(row[2] is None for row in found) <= 1
