"""Asks a loaded system every question, and scores the answers."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from benchmarks.recall.data import Dataset, Form, Question
from benchmarks.recall.metrics import Scores, scores
from benchmarks.recall.systems import Ask, Corpus, System

WARM_UP = 10  # questions asked before measuring, to fill caches, plan statements and load models


@dataclass(frozen=True, slots=True)
class Answers:
    """`found` and `milliseconds` are in the order of the questions."""

    found: tuple[tuple[str, ...], ...]
    milliseconds: tuple[float, ...]

    @property
    def is_empty(self) -> bool:
        return not any(self.found)


@dataclass(frozen=True, slots=True)
class Measured:
    """One system on one form of the texts. `scores` are in the order of the questions."""

    system: str
    form: Form
    load_seconds: float
    answers: Answers
    scores: tuple[Scores, ...]

    def of(self, questions: Sequence[Question], categories: Collection[int]) -> tuple[Scores, ...]:
        pairs = zip(questions, self.scores, strict=True)
        return tuple(score for question, score in pairs if question.category in categories)


async def ask_all(ask: Ask, questions: Sequence[Question]) -> Answers:
    """One after the other, so that each call's time is its own."""
    for question in questions[:WARM_UP]:
        await ask(question)
    found, milliseconds = [], []
    for question in questions:
        started = time.perf_counter()
        turns = await ask(question)
        milliseconds.append((time.perf_counter() - started) * 1000)
        found.append(tuple(turns))
    return Answers(tuple(found), tuple(milliseconds))


def score_all(answers: Answers, dataset: Dataset) -> tuple[Scores, ...]:
    session_of = dataset.sessions
    pairs = zip(answers.found, dataset.questions, strict=True)
    return tuple(scores(found, question.evidence, session_of) for found, question in pairs)


async def measure(name: str, system: System, form: Form, dataset: Dataset, server: str) -> Measured:
    """Raises `ModuleNotFoundError` if something that the system needs isn't installed."""
    opener, started = system.load(), time.perf_counter()
    async with opener(Corpus(dataset.turns, form), server) as ask:
        loaded = time.perf_counter() - started
        answers = await ask_all(ask, dataset.questions)
    return Measured(name, form, loaded, answers, score_all(answers, dataset))
