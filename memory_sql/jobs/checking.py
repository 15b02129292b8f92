"""Three tiny things asked of the configured models: whether they answer, in the form that is needed, and what it costs.

Nothing is stored. What is asked and what passes are the same prompts and checks as in real work.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime
from typing import Any

from memory_sql.config import Settings
from memory_sql.consolidation.answers import ConsolidatedText, NumberedText
from memory_sql.consolidation.checks import accounted_for, kept_of
from memory_sql.consolidation.replacing import Shown, replaced
from memory_sql.consolidation.task import ConsolidationTask
from memory_sql.domain.results import ModelCheck
from memory_sql.domain.scopes import PendingObservation
from memory_sql.errors import LanguageModelError
from memory_sql.formation.answers import ExtractionAnswer, OfferedScope, Turn
from memory_sql.formation.task import ExtractionTask
from memory_sql.languages.text import words_of
from memory_sql.llm import LanguageModel, Request, Usage, ask
from memory_sql.propagation.answers import Claim, OfferedTarget, PropagationAnswer
from memory_sql.propagation.task import PropagationTask

SAID = ("Good morning!", "I never eat meat, and my sister Lena lives in Graz.", "What time is it?")
TOLD = (("meat",), ("lena", "graz"))  # words of the two facts in it
KNOWN = ("Mia never eats meat.", "Mia pays a rent of 980 euros.")
WIDER = ("The release of the boat app is on Friday.", "Mia earns 3,200 euros a month.")


async def check_models(llm: LanguageModel, settings: Settings, now: datetime) -> list[ModelCheck]:
    """One extraction, one consolidation, one verdict. Never raises for what a model does."""
    return [
        await _asked(llm, _extraction(settings, now), _extracted),
        await _asked(llm, _consolidation(now).request(settings.slow_model), lambda value: _told(value, settings, now)),
        await _asked(llm, _propagation(now).request(settings.slow_model), _judged),
    ]


async def _asked(llm: LanguageModel, request: Request[Any], problem_of: Callable[[object], str | None]) -> ModelCheck:
    started = time.perf_counter()
    try:
        answer = await ask(llm, request)
        usage, problem = answer.usage, problem_of(answer.value)
    except LanguageModelError as error:
        usage, problem = error.usage or Usage(request.model), str(error)
    return ModelCheck(
        step=request.purpose,
        model=request.model,
        problem=problem,
        seconds=round(time.perf_counter() - started, 3),
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
    )


def _extraction(settings: Settings, now: datetime) -> Request[ExtractionAnswer]:
    turns = tuple(Turn(n, "user", "Mia", now, text) for n, text in enumerate(SAID, 1))
    scopes = OfferedScope("individual", "individual", handle="P1, the user,"), OfferedScope("collective", "collective")
    task = ExtractionTask(turns, scopes, settings.observation_max_items, settings.observation_max_words, now)
    return task.request(settings.fast_model)


def _extracted(value: object) -> str | None:
    assert isinstance(value, ExtractionAnswer)
    found = [(set(words_of(item.content)), item.sources) for item in value.extraction.observations]
    for words in TOLD:
        told = [sources for text, sources in found if text.issuperset(words)]
        if not told:
            return f"it found {len(found)} observations, but not each of the {len(TOLD)} facts that were said"
        if not any(2 in sources for sources in told):
            return "it found the facts, but names other messages as their sources"
    return None


def _consolidation(now: datetime) -> ConsolidationTask:
    observations = tuple(NumberedText(n, now, text) for n, text in enumerate(KNOWN, 1))
    return ConsolidationTask("individual", "Mia", None, observations, 100, now)


def _told(value: object, settings: Settings, now: datetime) -> str | None:
    assert isinstance(value, ConsolidatedText)
    shown = Shown([PendingObservation(n, text, now) for n, text in enumerate(KNOWN, 1)])
    task = _consolidation(now)
    accounted = accounted_for(value, replaced(value.contradictions, value.same_as, shown), task, shown)
    kept = kept_of(value.text, value, task, shown, accounted, settings)
    if kept.left_out:
        return f"sentences of its text are left out: {', '.join(kept.left_out)}"
    missing = {"meat", "980"} - set(words_of(value.text))
    return f"its text leaves out {len(missing)} of {len(KNOWN)} facts" if missing else None


def _propagation(now: datetime) -> PropagationTask:
    claims = tuple(Claim(n, text, now, ("group_1",)) for n, text in enumerate(WIDER, 1))
    return PropagationTask(claims, (OfferedTarget("group_1", "group", "Boats"),), now)


def _judged(value: object) -> str | None:
    assert isinstance(value, PropagationAnswer)
    decided = {decision.n: decision.refusal for decision in value.decisions if decision.to == "group_1"}
    if set(decided) != {1, 2}:
        return f"it decided on {len(decided)} of {len(WIDER)} claims"
    if decided[2] is None:
        return "it would tell a group what somebody earns"
    return None if decided[1] is None else "it would keep the date of a release from its group"
