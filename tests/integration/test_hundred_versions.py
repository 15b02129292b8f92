"""An obedient and several lying models against a group of ten, for a hundred versions within a week.

Of what others said a bounded part is superseded, and of their text a bounded part is lost; the rest is in a review.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any, TypeVar

import pytest
from pydantic import BaseModel

from memory_sql.config import Settings
from memory_sql.consolidation.draining import lost
from memory_sql.consolidation.task import ConsolidationTask
from memory_sql.errors import GuardError
from memory_sql.languages.text import count_words, sentences
from memory_sql.llm import Answer, Request, Usage
from memory_sql.llm.answers import read
from memory_sql.memory import Memory
from tests.database import rows
from tests.factories import Clock
from tests.sizes import few_in_ci

T = TypeVar("T", bound=BaseModel | str)
ADA: dict[str, Any] = {"agent_id": "ada"}
CREW: dict[str, Any] = {**ADA, "group_id": "crew"}
TEN = [f"member{n}" for n in range(10)]
EVE = TEN[-1]  # who has the model do it
BOUND, A_DAY = 3, timedelta(days=1)  # rows of others that one person's words overtake in a day
WHAT = "anchor barge compass dinghy ensign ferry galley hatch jib keel lantern mast oar pulley quay rudder sail tent".split()
WHERE = "north south east west inner outer upper lower old new".split()
SAID = [
    f"The {thing} of the {WHERE[n % 10]} boathouse was repaired by the crew of dock {n + 11} for {n * 7 + 100} euros."
    for n, thing in enumerate(WHAT + [f"spare {thing}" for thing in WHAT])
]

Reply = Callable[[ConsolidationTask, Sequence[str], int], dict[str, Any]]


class Model:
    """Answers consolidations by that rule, of the task, the sentences of its text, and the number of the version."""

    def __init__(self, reply: Reply) -> None:
        self.reply, self.version = reply, 0

    async def generate(self, request: Request[T]) -> Answer[T]:
        task = request.material
        assert isinstance(task, ConsolidationTask)
        raw = json.dumps(self.reply(task, sentences(task.current or ""), self.version))
        return Answer(read(raw, request.output), raw, Usage("adversary", 100, 10, 0.01))


def telling(task: ConsolidationTask, kept: Sequence[str], **more: Any) -> dict[str, Any]:
    return {"text": " ".join([*kept, *(item.text for item in task.observations)]), **more}


def obedient(task: ConsolidationTask, told: Sequence[str], _: int) -> dict[str, Any]:
    """What is new overtakes three of what it is shown, in their own words, and their sentences go."""
    given_way = [
        {"newer": "n1", "older": f"k{item.n}", "was": item.text.strip("."), "now": "no longer"}
        for item in task.known[:3]
    ]
    gone = {item.text for item in task.known[:3]}
    listed = [{"what": f"s{n}", "why": "overtaken", "by": "n1"} for n, text in enumerate(told, 1) if text in gone]
    return telling(task, [text for text in told if text not in gone], contradictions=given_way, left_out=listed)


def slight(task: ConsolidationTask, told: Sequence[str], _: int) -> dict[str, Any]:
    """A quarter of the text in every version, listed honestly."""
    gone = len(told) // 4
    listed = [{"what": f"s{n}", "why": "slight"} for n in range(1, gone + 1)]
    return telling(task, told[gone:], left_out=listed)


def silent(task: ConsolidationTask, told: Sequence[str], version: int) -> dict[str, Any]:
    """Half of the text, and nothing listed."""
    return telling(task, told[version % 2 :: 2])


def overtaken(task: ConsolidationTask, told: Sequence[str], _: int) -> dict[str, Any]:
    """All of the text, as if the one new sentence overtook it."""
    return telling(
        task, [], left_out=[{"what": f"s{n}", "why": "overtaken", "by": "n1"} for n in range(1, len(told) + 1)]
    )


def repeated(task: ConsolidationTask, told: Sequence[str], _: int) -> dict[str, Any]:
    """All of the text, as if something that it was shown said it again."""
    return telling(
        task, [], left_out=[{"what": f"s{n}", "why": "repeated", "by": "k1"} for n in range(1, len(told) + 1)]
    )


def unknown(task: ConsolidationTask, told: Sequence[str], _: int) -> dict[str, Any]:
    """All of the text, by contradictions of what it wasn't shown."""
    named = [{"newer": "n1", "older": "k900", "was": text, "now": "no longer"} for text in told]
    return telling(task, [], contradictions=named)


def one_quote(task: ConsolidationTask, told: Sequence[str], _: int) -> dict[str, Any]:
    """All of the text, by words of one observation that stand in every sentence."""
    named = [{"newer": "n1", "older": "k1", "was": "repaired by the crew", "now": "no longer"}]
    return telling(task, [], contradictions=named)


def of_the_text(task: ConsolidationTask, told: Sequence[str], _: int) -> dict[str, Any]:
    """All of the text, by contradictions of its words that name no observation."""
    named = [{"newer": "n1", "older": None, "was": text[:60], "now": "no longer"} for text in told]
    return telling(task, [], contradictions=named)


def whittling(task: ConsolidationTask, told: Sequence[str], _: int) -> dict[str, Any]:
    """A fifth of each sentence's words in every version."""
    shorter = [
        " ".join(words[: max(len(words) * 4 // 5, 4)]).strip(".") + "." for text in told if (words := text.split())
    ]
    return telling(task, shorter)


LIES: dict[str, Reply] = {
    reply.__name__: reply for reply in (slight, silent, overtaken, repeated, unknown, one_quote, of_the_text, whittling)
}


def by_turns(task: ConsolidationTask, told: Sequence[str], version: int) -> dict[str, Any]:
    """Each of the models in turn."""
    every = [obedient, *LIES.values()]
    return every[version % len(every)](task, told, version)


def honest(task: ConsolidationTask, told: Sequence[str], _: int) -> dict[str, Any]:
    return telling(task, told)


async def against(memory: Memory, model: Model, reply: Reply, clock: Clock, versions: int) -> None:
    """Ten people say what they know, then Eve something every hour and a half, and the model does that."""
    start = clock.now
    for n, text in enumerate(SAID):
        said = await memory.observe(text, **CREW, user_id=TEN[n % 9], observed_at=start + timedelta(minutes=n))
    place: dict[str, Any] = {**ADA, "scope_id": said.scope.id}
    model.reply = honest
    first = await memory.scopes.consolidate(**place)
    assert first.content is not None
    model.reply = reply
    for model.version in range(versions):
        clock.goes_on(minutes=90)
        text = f"Eve painted boathouse door {model.version + 1000} with the crew, for the {WHAT[model.version % 18]}."
        await memory.observe(text, **CREW, user_id=EVE, observed_at=clock.now)
        with suppress(GuardError):
            await memory.scopes.consolidate(**place)
        most = 1 / 2 if reply in (whittling, by_turns) else 1 / 4  # of the text, where what is rewritten counts too
        await nothing_is_lost(memory, first.content, said.scope.key, most, days=(clock.now - start) / A_DAY)
    assert list(await memory.admin.verify()) == []


async def nothing_is_lost(memory: Memory, first: str, scope: int, most: float, days: float) -> None:
    """Beyond the bounds, nothing that isn't in a review."""
    found = await rows(
        memory, "SELECT seq FROM memory.observation_states WHERE status = 'superseded' AND seq <= :n", n=len(SAID)
    )
    superseded = {seq for (seq,) in found}
    assert len(superseded) <= BOUND * (int(days) + 1)
    reviews = await memory.work.reviews(**ADA, limit=1000)
    asked = {review.instead_of for review in reviews if review.kind == "contradiction"}
    excused = asked | {SAID[seq - 1] for seq in superseded}
    texts = await rows(
        memory, "SELECT content FROM memory.consolidations WHERE scope_id = :s ORDER BY version DESC", s=scope
    )
    ((text,), *_) = texts
    largest = max(count_words(content) for (content,) in texts)
    gone = [part for part in lost(first, sentences(text), "crew") if part not in excused]
    assert count_words(" ".join(gone)) <= most * largest


async def lived(database_url: str, clock: Clock, reply: Reply, versions: int, max_words: int = 1000) -> None:
    model, settings = Model(honest), Settings(llm="offline", consolidation_max_words=max_words)
    async with Memory(database_url, model, settings, clock=clock) as memory:
        await against(memory, model, reply, clock, versions)


@pytest.mark.parametrize("reply", [obedient, by_turns])
async def test_a_few_versions_of_a_bad_model_lose_a_bounded_part(database_url: str, clock: Clock, reply: Reply) -> None:
    await lived(database_url, clock, reply, 9)


@pytest.mark.slow
@pytest.mark.parametrize("reply", few_in_ci([*LIES.values()], [whittling]))
async def test_a_dozen_versions_of_one_lie_lose_a_bounded_part(database_url: str, clock: Clock, reply: Reply) -> None:
    await lived(database_url, clock, reply, 12)


@pytest.mark.prove
@pytest.mark.parametrize("reply", [obedient, slight, by_turns])
async def test_a_hundred_versions_of_a_bad_model_lose_a_bounded_part(
    database_url: str, clock: Clock, reply: Reply
) -> None:
    await lived(database_url, clock, reply, 100, 2500)
