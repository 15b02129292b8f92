"""A text that loses in the versions of a week what no single one may lose waits for a person."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from memory_sql.errors import GuardError
from memory_sql.languages.text import sentences
from memory_sql.memory import Memory
from tests.database import rows
from tests.factories import Clock
from tests.fakes import Scripted

MIA: dict[str, Any] = {"agent_id": "ada", "user_id": "mia"}
SYLLABLES = "bar tel mon gri sul vek dop fal hin jur kez lap nis pov rut".split()
WORDS = ["".join(two) for two in product(SYLLABLES, repeat=2)]
FACTS = [" ".join(WORDS[n * 10 : n * 10 + 10]).capitalize() + "." for n in range(20)]


def cut(words: int) -> str:
    """Each fact by its first words."""
    return " ".join(" ".join(fact.rstrip(".").split()[:words]) + "." for fact in FACTS)


@pytest.fixture
async def place(timed: Memory, llm: Scripted, clock: Clock) -> dict[str, Any]:
    """A scope whose text was rewritten once, an hour ago, with six words of ten of each sentence."""
    for fact in FACTS:
        said = await timed.observe(fact, **MIA, observed_at=clock.now)
    place = {"agent_id": "ada", "scope_id": said.scope.id}
    llm.then(" ".join(FACTS))
    await timed.scopes.consolidate(**place)
    await rewritten(timed, llm, clock, place, 6)
    return place


async def rewritten(memory: Memory, llm: Scripted, clock: Clock, place: dict[str, Any], words: int) -> str:
    """The next version, an hour later, with so many words of each."""
    clock.goes_on(hours=1)
    new = f"Mia bought tree number {words}."
    await memory.observe(new, **MIA, observed_at=clock.now)
    llm.then(f"{cut(words)} {new} She bought it on the market of the village with the others.")
    done = await memory.scopes.consolidate(**place)
    assert done.content is not None
    return done.content


@pytest.mark.slow
async def test_what_is_cut_in_two_versions_waits_for_a_person(
    timed: Memory, llm: Scripted, clock: Clock, place: dict[str, Any]
) -> None:
    with pytest.raises(GuardError, match="of the text of a week ago have no counterpart"):
        await rewritten(timed, llm, clock, place, 3)
    (review,) = await timed.work.reviews(agent_id="ada")
    assert review.kind == "text"
    assert "Mia bought tree number 3." in (await timed.context(**MIA)).xml
    await timed.work.decide(review.id, agent_id="ada", accept=True)
    ((text,),) = await rows(timed, "SELECT content FROM memory.consolidations ORDER BY version DESC LIMIT 1")
    assert sentences(text)[0] == " ".join(FACTS[0].split()[:3]) + "."
    assert list(await timed.admin.verify()) == []


@pytest.mark.slow
async def test_a_week_later_it_is_compared_with_what_it_was_then(
    timed: Memory, llm: Scripted, clock: Clock, place: dict[str, Any]
) -> None:
    clock.goes_on(days=8)
    assert cut(3) in await rewritten(timed, llm, clock, place, 3)


async def test_what_is_in_use_no_more_may_go(timed: Memory, llm: Scripted, clock: Clock, place: dict[str, Any]) -> None:
    """A person corrected it meanwhile, and the text still tells it."""
    await rows(
        timed,
        "INSERT INTO memory.observation_states (agent_key, scope_id, seq, status)"
        " SELECT agent_key, scope_id, seq, 'archived' FROM memory.observations WHERE seq <= 15",
    )
    assert cut(3) in await rewritten(timed, llm, clock, place, 3)
