from __future__ import annotations

import random
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_sql.config import Settings
from memory_sql.db.queries.evictable import Amount, Stored
from memory_sql.domain.results import Trimmed
from memory_sql.lifecycle.eviction import ORDER, added, over, plan
from tests.factories import MONDAY
from tests.sizes import examples

PLAIN = Settings(retention="budget")


def kept(**limits: int) -> Settings:
    return PLAIN.model_copy(update={f"store_{name}": most for name, most in limits.items()})


def one(seq: int, kind: str = "note", characters: int = 10, **more: Any) -> Stored:
    return Stored(**{
        "seq": seq, "kind": kind, "fact_key": None, "characters": characters, "confidence": None,
        "observed_at": MONDAY + timedelta(hours=seq), "sensitivity": "private", "is_protected": False, **more,
    })  # fmt: skip


def going(stored: list[Stored], settings: Settings) -> list[int]:
    return [gone.seq for gone in plan(stored, settings)[0]]


def test_nothing_goes_without_a_budget() -> None:
    stored = [one(n) for n in range(9)]
    assert plan(stored, PLAIN) == ([], False)
    assert plan(stored, kept(items=3).model_copy(update={"retention": "none"})) == ([], False)
    assert over([Amount(1, "note", 9, 90)], Settings(store_items=3)) == []


def test_episodes_go_first_then_notes_procedures_facts() -> None:
    stored = [one(n, kind) for n, kind in enumerate(reversed(ORDER), 1)]
    assert going(stored, kept(items=0)) == [4, 3, 2, 1]
    assert going(stored, kept(items=2)) == [4, 3]


def test_of_a_kind_the_least_sure_goes_first_then_the_oldest() -> None:
    stored = [one(1), one(2, confidence=0.9), one(3, confidence=0.1), one(4), one(5, confidence=0.4)]
    assert going(stored, kept(note_items=0)) == [3, 5, 1, 4, 2]
    assert going(stored, kept(episode_items=0)) == []


def test_where_characters_are_too_many_the_biggest_goes_first() -> None:
    stored = [one(1, characters=10), one(2, characters=90), one(3, characters=30)]
    assert going(stored, kept(characters=129)) == [2]
    assert going(stored, kept(note_characters=40)) == [2]
    assert going(stored, kept(note_characters=9)) == [2, 3, 1]
    assert going(stored, kept(note_characters=60, note_items=2)) == [1, 2]


def test_what_a_fact_was_before_goes_first() -> None:
    """The strictest stands for the fact, else the surest, else the newest."""
    facts = [
        one(1, "fact", fact_key="home", sensitivity="sensitive", confidence=0.1),
        one(2, "fact", fact_key="home", confidence=0.9),
        one(3, "fact", fact_key="diet", confidence=0.4),
        one(4, "fact", fact_key="diet", confidence=0.4),
    ]
    assert going([*facts, one(5, "episode")], kept(items=3)) == [3, 2]
    assert going(facts, kept(fact_items=2)) == [3, 2]
    assert going(facts, kept(fact_items=3)) == [3]


def test_what_is_protected_stays_and_is_told() -> None:
    stored = [one(1, is_protected=True), one(2, is_protected=True), one(3)]
    gone, is_over = plan(stored, kept(items=1))
    assert ([each.seq for each in gone], is_over) == ([3], True)
    assert plan(stored, kept(items=2))[1] is False


def test_scopes_over_are_those_beyond_any_budget() -> None:
    amounts = [Amount(1, "note", 3, 30), Amount(1, "note", 3, 30), Amount(2, "note", 5, 50), Amount(3, "fact", 1, 90)]
    assert over(amounts, kept(note_items=5)) == [1]
    assert over(amounts, kept(characters=50)) == [1, 3]
    assert over(amounts, kept(fact_items=0)) == [3]
    assert over(amounts, PLAIN) == []


def test_trimmings_add_up() -> None:
    first = Trimmed(evicted={"note": 2}, scopes=(1,), over=(1,))
    assert added(first, Trimmed(evicted={"note": 1, "fact": 1}, scopes=(1, 2))) == Trimmed(
        evicted={"note": 3, "fact": 1}, scopes=(1, 2), over=(1,)
    )


def some(pick: random.Random, seq: int) -> Stored:
    kind = pick.choice(ORDER)
    return one(
        seq, kind, pick.choice((1, 10, 10, 50)), confidence=pick.choice((None, 0.2, 0.8)),
        fact_key=pick.choice((None, "home", "diet")) if kind == "fact" else None,
        observed_at=MONDAY + timedelta(hours=pick.randrange(3)), is_protected=pick.random() < 0.15,
        sensitivity=pick.choice(("public", "private", "sensitive")),
    )  # fmt: skip


@pytest.mark.slow
@examples(2000)
@given(st.integers(0, 2**64))
def test_budgets_hold_afterwards_or_only_what_is_protected_is_left(seed: int) -> None:
    pick = random.Random(seed)
    stored = [some(pick, seq) for seq in range(pick.randrange(25))]
    prefixes = ("", *(f"{kind}_" for kind in ORDER))
    limits = {f"{p}{d}": pick.choice((0, 2, 5, 40, 100)) for p in prefixes for d in ("items", "characters")}
    settings = kept(**{name: most for name, most in limits.items() if pick.random() < 0.4})
    gone, is_over = plan(stored, settings)
    assert plan(pick.sample(stored, len(stored)), settings) == (gone, is_over)
    assert not any(each.is_protected for each in gone)
    assert len({each.seq for each in gone}) == len(gone)
    left = [each for each in stored if each not in gone]
    exceeded = [p for p in prefixes if exceeds(left, p, settings)]
    assert is_over == bool(exceeded)
    for prefix in exceeded:
        assert all(each.is_protected for each in of(left, prefix))
    if gone:  # nor without need
        assert any(exceeds([*left, gone[-1]], p, settings) for p in prefixes)


def of(stored: list[Stored], prefix: str) -> list[Stored]:
    return [each for each in stored if not prefix or f"{each.kind}_" == prefix]


def exceeds(stored: list[Stored], prefix: str, settings: Settings) -> bool:
    items, characters = (getattr(settings, f"store_{prefix}{d}") for d in ("items", "characters"))
    counted = of(stored, prefix)
    return (items is not None and len(counted) > items) or (
        characters is not None and sum(each.characters for each in counted) > characters
    )
