"""The concurrent life calls everything that is public, and its model tells each of its lies."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Any

import pytest

from memory_sql.errors import DatabaseError, MemorySQLError, MovedAgentError
from tests.loopback import ShownTurn
from tests.prove import concurrent_life
from tests.prove.concurrent_life import liar
from tests.prove.concurrent_life.calls import NOT_CALLED, public_calls
from tests.prove.concurrent_life.clients import WEIGHTS, Client
from tests.prove.concurrent_life.doors import DOORS
from tests.prove.concurrent_life.world import REFUSALS

CALL = re.compile(r"\bmemory\.(\w+(?:\.\w+)?)\(|\b(work|admin)\.(\w+)\(")
SAID = [f"Release 77.10000{n} is deployed to staging." for n in range(3)]
OFFERED = ["individual", "group_1"]
SHOWN: dict[str, tuple[Any, Any]] = {
    "observations": ([(text, "individual", [n]) for n, text in enumerate(SAID, 1)], OFFERED),
    "texts": ({"text": "\n".join(SAID), "contradictions": []}, ("word " * 61, SAID)),
    "decisions": (
        [{"n": n, "to": "group_1", "text": text} for n, text in enumerate(SAID, 1)],
        [{"n": n, "to": ["group_1"], "text": text} for n, text in enumerate(SAID, 1)],
    ),
}
KINDS: dict[str, Any] = {"observations": liar.OBSERVATIONS, "texts": liar.TEXTS, "decisions": liar.DECISIONS}
LIES = {name: (lie, SHOWN[of]) for of, lies in KINDS.items() for name, lie in lies.items()}


def test_every_public_call_is_made_or_it_is_said_why_not() -> None:
    sources = [path.read_text() for path in Path(concurrent_life.__path__[0]).glob("*.py")]
    called = {call[0] or f"{call[1]}.{call[2]}" for source in sources for call in CALL.findall(source)}
    assert "observations.update" in called
    assert public_calls() - called == NOT_CALLED.keys() - called
    assert NOT_CALLED.keys() <= public_calls()


def test_every_operation_is_one_of_a_client() -> None:
    assert all(callable(getattr(Client, name)) and weight > 0 for name, weight in WEIGHTS.items())
    assert {"Plain", "OfEngine", "Joined", "Blocking"} == set(DOORS)


def test_only_what_refuses_for_a_reason_is_no_finding() -> None:
    ours = {*REFUSALS} - {MovedAgentError}  # which a life over shards meets
    assert all(issubclass(error, MemorySQLError) and not issubclass(error, DatabaseError) for error in ours)


@pytest.mark.parametrize("name", LIES)
def test_each_lie_is_told_and_is_none_of_the_others(name: str) -> None:
    lie, (true, shown) = LIES[name]
    told = lie(random.Random(1), true, shown)
    assert told is not None
    assert told != true
    others = [
        other(random.Random(1), true, shown) for of, (other, (same, _)) in LIES.items() if of != name and same is true
    ]
    assert told not in others


def test_without_anything_to_lie_about_it_tells_the_truth() -> None:
    nothing: list[tuple[Any, Any, Any]] = [
        (liar.OBSERVATIONS, [], []),
        (liar.TEXTS, {"text": "a"}, ("a", [])),
        (liar.DECISIONS, [], []),
    ]
    for lies, true, shown in nothing:
        assert [lie(random.Random(1), true, shown) for lie in lies.values()] == [None] * len(lies)


def test_the_truth_is_what_was_said() -> None:
    turn = ShownTurn(1, "P1", SAID[0])
    assert liar.facts([turn], ["individual"]) == [(SAID[0], "individual", [1])]
