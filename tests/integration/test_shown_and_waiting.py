"""A text may have a few words of an observation that it was shown and that waits on: they go when that goes."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest

from memory_sql.config import Settings
from memory_sql.domain.selection import Selection
from memory_sql.memory import Memory
from tests.database import rows
from tests.factories import MONDAY
from tests.fakes import Scripted

ADA: dict[str, Any] = {"agent_id": "ada"}
MIA: dict[str, Any] = {**ADA, "user_id": "mia"}
OLD = (
    "Mia works as a nurse at the Kramer clinic in Linz.",
    "She lives with her partner Tom and two cats.",
    "She is allergic to peanuts and eats no meat.",
    "On Tuesdays she rows with the crew of the red boat.",
    "She prefers green tea to coffee in the morning.",
)
NEW = "Mia bought a new bicycle for the way to work."
LONG = (
    "Mia is expecting twins in spring, as her doctor Brunner told her last Thursday after a long examination, and she asked"
    " the assistant to help her plan maternity leave, childcare and the move to a larger flat."
)
SHORTENED = {
    "in a sentence of its own": f"{' '.join(OLD)} {NEW[:-1]}, before the twins come.",
    "in one of the old text": f"{' '.join(OLD[:-1])} She prefers green tea to coffee in the morning, for the twins. {NEW}",
    "in the middle": f"{' '.join(OLD)} Mia, who is expecting twins, bought a new bicycle for the way to work.",
}
Goes = Callable[[Memory, str], Awaitable[Any]]
GOES: dict[str, Goes] = {
    "forgotten": lambda memory, one: memory.forget(Selection(observation_id=one), **ADA),
    "found and forgotten": lambda memory, one: memory.forget(Selection(query="twins maternity"), **ADA),
    "quarantined": lambda memory, one: memory.observations.quarantine(one, **MIA),
}


@pytest.fixture
def settings() -> Settings:
    return Settings(llm="offline", consolidation_threshold=1_000)


async def told(memory: Memory, llm: Scripted, text: str) -> tuple[str, str]:
    """A text with some words of an observation that waits on: the ids of its scope and of that observation."""
    for fact in OLD:
        one = await memory.observe(fact, **MIA, observed_at=MONDAY)
    llm.then(" ".join(OLD))
    await memory.scopes.consolidate(**ADA, scope_id=one.scope.id)
    await memory.observe(NEW, **MIA, observed_at=MONDAY + timedelta(days=1))
    waits = await memory.observe(LONG, **MIA, observed_at=MONDAY + timedelta(days=1, minutes=1))
    llm.then(json.dumps({"text": text}))
    made = await memory.scopes.consolidate(**ADA, scope_id=one.scope.id)
    assert (made.absorbed, "twins" in (made.content or "")) == (1, True)
    return one.scope.id, waits.id


@pytest.mark.parametrize("text", SHORTENED.values(), ids=SHORTENED)
@pytest.mark.parametrize("goes", GOES.values(), ids=GOES)
async def test_words_of_what_waits_go_with_it(memory: Memory, llm: Scripted, text: str, goes: Goes) -> None:
    _, waits = await told(memory, llm, text)
    llm.then(f"{' '.join(OLD)} {NEW}")
    await goes(memory, waits)
    assert "twins" not in str(await memory.context(**MIA))
    assert await rows(memory, "SELECT version FROM memory.consolidations WHERE live AND content ~ 'twins'") == []


async def test_forgotten_after_it_was_told_at_last(memory: Memory, llm: Scripted) -> None:
    """The version that was shown it goes too, though a later one tells it in full."""
    scope_id, waits = await told(memory, llm, SHORTENED["in the middle"])
    llm.then(f"{' '.join(OLD)} {NEW} {LONG}")
    await memory.observe("Mia has sold her car.", **MIA, observed_at=MONDAY + timedelta(days=3))
    await memory.scopes.consolidate(**ADA, scope_id=scope_id)
    llm.then(f"{' '.join(OLD)} {NEW}")
    await memory.forget(Selection(observation_id=waits), **ADA)
    assert await rows(memory, "SELECT version FROM memory.consolidations WHERE content ~ 'twins'") == []
    assert list(await memory.admin.verify()) == []


async def test_what_was_set_aside_before_it_was_shown_takes_no_text_along(memory: Memory, llm: Scripted) -> None:
    kept = await memory.observe(OLD[0], **MIA)
    other = await memory.observe(LONG, **MIA)
    await memory.observations.quarantine(other.id, **MIA)
    llm.then(OLD[0])
    await memory.scopes.consolidate(**ADA, scope_id=kept.scope.id)
    await memory.forget(Selection(observation_id=other.id), **ADA)
    assert await rows(memory, "SELECT version, live FROM memory.consolidations") == [(1, True)]
