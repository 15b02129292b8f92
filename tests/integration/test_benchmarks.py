"""The benchmarks put into a database what the library would have left there, and their queries get answers."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import asyncpg  # type: ignore[import-untyped]
import pytest

from benchmarks.crowd import AGENT, Crowd, commonest
from benchmarks.recall.ablation import ablate
from benchmarks.recall.data import Dataset, Question, Turn
from benchmarks.recall.ours import AGENT as OWN_AGENT
from benchmarks.recall.ours import add_turns
from benchmarks.recall.recorded import recorded
from benchmarks.recall.run import measure as measure_system
from benchmarks.recall.systems import SYSTEMS
from benchmarks.recall.whole_path import WAYS, measure
from benchmarks.server import fresh_database, plain_url
from benchmarks.wire import counted
from memory_sql.config import Settings
from memory_sql.db.queries.search import Matches
from memory_sql.llm.offline import Offline
from memory_sql.memory import Memory
from memory_sql.retrieval import search as search_module

SAID = (
    "I planted tomatoes behind the shed.",
    "The ferry to the island is late again.",
    "My sister plays the cello in an orchestra.",
)


@pytest.fixture
def dataset() -> Dataset:
    at = datetime(2026, 3, 1, 9, tzinfo=UTC)
    turns = tuple(
        Turn(f"{name}/{n}", name, f"{name}/1", "user", "Mia", text, at + timedelta(minutes=n))
        for name in ("conv-1", "conv-2")
        for n, text in enumerate(SAID)
    )
    asked = (
        Question("q1", "conv-1", 4, "Who plays the cello?", frozenset({"conv-1/2"})),
        Question("q2", "conv-2", 4, "When does the ferry leave?", frozenset({"conv-2/1"})),
    )
    return Dataset(turns, asked)


@pytest.mark.slow
@pytest.mark.skipif("config.getoption('--schema')", reason="a benchmark makes databases of its own, by the defaults")
@pytest.mark.parametrize("name", ["ours", "tsrank"])
async def test_turns_are_found_in_their_own_conversation(name: str, dataset: Dataset, server_url: str) -> None:
    found = await measure_system(name, SYSTEMS[name], "plain", dataset, server_url)
    assert [turns[0] for turns in found.answers.found] == ["conv-1/2", "conv-2/1"]
    assert [{turn.split("/")[0] for turn in turns} for turns in found.answers.found] == [{"conv-1"}, {"conv-2"}]
    assert [score.recall_5 for score in found.scores] == [1, 1]


async def test_turns_are_added_as_messages_of_their_conversations(dataset: Dataset, memory: Memory) -> None:
    await add_turns(memory, dataset.of("conv-1"))
    again = await memory.add(
        [{"id": "conv-1/2", "role": "user", "name": "Mia", "content": SAID[2], "created_at": dataset.turns[2].said_at}],
        agent_id=OWN_AGENT, user_id="conv-1", conversation_id="conv-1/1",
    )  # fmt: skip
    assert (again.accepted, again.duplicates) == (0, 1)
    assert (await memory.admin.stats(agent_id=OWN_AGENT)).messages == 3


@dataclass(frozen=True)
class Weights:
    words: float = 1.5


@pytest.mark.slow
async def test_ablation_asks_the_search_of_memory_without_one_weight(
    dataset: Dataset, server_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = vars(search_module)["search"]

    async def search(*arguments: Any, weights: Weights, **named: Any) -> Any:
        return await original(*arguments, **named) if weights.words else Matches([], [])

    monkeypatch.setattr(search_module, "search", search)
    monkeypatch.setitem(sys.modules, "memory_sql.domain.query", SimpleNamespace(Weights=Weights))
    (found,) = await ablate("ours", ["all"], dataset, server_url)
    assert (found.field, found.value, found.neutral) == ("words", 1.5, 0)
    assert {change.points for change in found.changes.values()} == {-100}


@pytest.mark.slow
async def test_crowd_is_as_the_library_would_have_left_it(server_url: str) -> None:
    async with fresh_database(server_url) as url, Memory(url, Offline(), Settings(llm="offline")) as memory:
        connection = await asyncpg.connect(plain_url(url))
        crowd = await Crowd.of(connection)
        people = [*await crowd.add("user", 2, 30), *await crowd.add("giant", 1, 60)]
        await connection.close()
        assert list(await memory.admin.verify()) == []
        scopes = await memory.scopes.list(agent_id=AGENT, user_id=people[1].user_id)
        assert [(s.ref.key, s.observations, s.pending) for s in scopes] == [(people[1].scope_id, 30, 5)]
        found = await memory.search(commonest(4), agent_id=AGENT, user_id=people[2].user_id)
        assert {hit.observation.scope.key for hit in found.results} == {people[2].scope_id}


async def test_wire_counts_what_a_client_sends(server_url: str) -> None:
    async with counted(server_url) as wire:
        connection = await asyncpg.connect(plain_url(wire.url))
        await connection.fetchval("SELECT $1::int", 1)
        wire.types.clear()
        assert await connection.fetchval("SELECT $1::int", 2) == 2
        prepared = (wire.statements, wire.round_trips)
        async with connection.transaction():
            await connection.fetchval("SELECT $1::int", 3)
        await connection.close()
    assert prepared == (1, 1)
    assert (wire.statements, wire.round_trips) == (4, 4)  # BEGIN and COMMIT as well


@pytest.mark.prove
@pytest.mark.parametrize("name", [one.name for one in recorded()])
async def test_the_invented_conversations_go_the_whole_path_and_nobody_is_shown_what_is_anothers(
    server_url: str, name: str
) -> None:
    ways = [way for way in WAYS if way.name in ("texts", "cues and messages")]
    (conversations,) = (one for one in recorded() if one.name == name)
    texts, whole = await measure(conversations, server_url, ways)
    assert not any(one.lines for one in texts.shown)
    assert sum(one.is_answered for one in whole.shown) > sum(one.is_answered for one in texts.shown)
    assert not whole.leaked
    assert not any(one.is_forbidden for one in whole.shown)
