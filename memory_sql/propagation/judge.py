"""Asks the model that judges claims. Each call contains decoys, whose answers are known, to test whether it is reliable."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from memory_sql.domain.results import Usage
from memory_sql.errors import AnswerError, JudgeError, LanguageModelError, TruncatedError
from memory_sql.llm import LanguageModel, ask
from memory_sql.propagation import decoys
from memory_sql.propagation.answers import Decision
from memory_sql.propagation.task import PropagationTask


@dataclass(frozen=True, slots=True)
class Ruling:
    """`numbers`: the number of each claim in the answer. `missed`: earlier answers with a wrongly judged decoy."""

    decisions: Sequence[Decision]
    numbers: Mapping[int, int]
    usage: Usage
    prompt_version: str
    missed: int = 0


async def ask_judge(llm: LanguageModel, model: str, task: PropagationTask, *, wary: bool) -> Ruling:
    """Returns an answer that judges every decoy correctly. After a wrong one, asks once more with other and more decoys.

    `wary`: the model has failed before. Raises `JudgeError`, or what the last call raised, with the usage of all calls.
    """
    first, wrong_first = await _ask_twice(llm, model, task, decoys.AFTER_A_MISS if wary else decoys.LEAST)
    if not wrong_first:
        return first
    try:
        second, wrong_second = await _ask_twice(llm, model, task, decoys.AFTER_A_MISS)
    except LanguageModelError as error:
        error.usage = first.usage + (error.usage if isinstance(error.usage, Usage) else Usage(""))
        raise
    usage = first.usage + second.usage
    if wrong_second:
        wrong = JudgeError(
            f"{usage.model} judged {wrong_first} and {wrong_second} claims wrongly whose right answer is known"
        )
        wrong.usage = usage
        raise wrong
    return replace(second, usage=usage, missed=1)


async def _ask_twice(llm: LanguageModel, model: str, task: PropagationTask, each: int) -> tuple[Ruling, int]:
    """Asks again if the answer can't be used. Returns the ruling and the number of wrongly judged decoys."""
    mixed = decoys.mixed(task, each)
    request, spent = mixed.task.request(model), Usage("", calls=0)
    try:
        answer = await ask(llm, request)
    except (AnswerError, TruncatedError) as error:
        spent = error.usage if isinstance(error.usage, Usage) else Usage("")
        request = mixed.task.request(model, str(error))
        answer = await ask(llm, request)
    decisions = answer.value.decisions
    ruling = Ruling(decisions, mixed.numbers, spent + answer.usage, request.prompt_version)
    return ruling, decoys.missed(mixed.task, decisions)
