"""Measures what each part of our ranking is worth: the same questions with one weight at a time removed.

The weights are the frozen dataclass `memory_sql.domain.query.Weights`, which the search statement's function takes as
`weights`. Nothing here knows which fields it has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from importlib import import_module
from inspect import signature
from typing import Any

from benchmarks.recall.data import ANSWERABLE, Dataset
from benchmarks.recall.metrics import Interval, Scores, paired
from benchmarks.recall.run import ask_all, score_all
from benchmarks.recall.systems import OWN, Corpus

ALL = "all"
MEASURES = ("recall_5", "recall_10", "ndcg_10")
POINTS = 100


class AblationError(Exception):
    """The weights can't be removed."""


@dataclass(frozen=True, slots=True)
class Change:
    """The change against the whole ranking, in points (hundredths). Below zero: the part helps."""

    points: float
    interval: Interval


@dataclass(frozen=True, slots=True)
class Ablated:
    """`neutral`: the value that replaced `value`. Changes by measure, over the answerable questions."""

    system: str
    field: str
    value: float
    neutral: float
    changes: Mapping[str, Change]


def variants(weights: Any, chosen: Sequence[str] = (ALL,)) -> Iterator[tuple[str, Any]]:
    """Yields the weights with one of the chosen numbers neutral at a time. Numbers that are already neutral are left out.

    A field's metadata says what is neutral (`neutral`), else it is zero. Raises `AblationError` for names that aren't
    numbers.
    """
    numbers = [field for field in fields(weights) if isinstance(getattr(weights, field.name), int | float)]
    unknown = set(chosen) - {field.name for field in numbers} - {ALL}
    if unknown:
        raise AblationError(f"no numeric weights of these names: {', '.join(sorted(unknown))}")
    for field in numbers:
        value = getattr(weights, field.name)
        neutral = field.metadata.get("neutral", type(value)())
        if value != neutral and (ALL in chosen or field.name in chosen):
            yield field.name, replace(weights, **{field.name: neutral})


def default_weights() -> Any:
    """Raises `AblationError` if this release has no weights."""
    try:
        return import_module("memory_sql.domain.query").Weights()
    except (ModuleNotFoundError, AttributeError) as error:
        raise AblationError(
            "this release's ranking has no weights to take out (memory_sql.domain.query.Weights)"
        ) from error


def check(chosen: Sequence[str]) -> None:
    """Raises `AblationError` if these can't be removed. To be called before anything is measured."""
    list(variants(default_weights(), chosen))
    _takes_weights(import_module("memory_sql.retrieval.search").search)


def _takes_weights(search: Callable[..., Any]) -> None:
    if "weights" not in signature(search).parameters:
        raise AblationError("this release's search takes no weights")


@contextmanager
def weighted(weights: Any) -> Iterator[None]:
    """While this is open, every search of a `Memory` uses these weights.

    Raises `AblationError` if the search takes no weights, or if no search was made: its figures would be those of the
    whole ranking.
    """
    module: Any = import_module("memory_sql.retrieval.search")
    search, calls = module.search, 0
    _takes_weights(search)

    async def with_weights(*arguments: Any, **named: Any) -> Any:
        nonlocal calls
        calls += 1
        return await search(*arguments, **{**named, "weights": weights})

    module.search = with_weights
    try:
        yield
    finally:
        module.search = search
    if not calls:
        raise AblationError("no search went by the weights")


async def ablate(name: str, chosen: Sequence[str], dataset: Dataset, server: str) -> list[Ablated]:
    """Measures one of our own systems, loaded once. Raises `AblationError`."""
    weights = default_weights()
    answerable = replace(dataset, questions=tuple(q for q in dataset.questions if q.category in ANSWERABLE))
    ablated = []
    async with OWN[name].load()(Corpus(dataset.turns, "plain"), server) as ask:
        with weighted(weights):
            whole = score_all(await ask_all(ask, answerable.questions), answerable)
        for field, variant in variants(weights, chosen):
            with weighted(variant):
                without = score_all(await ask_all(ask, answerable.questions), answerable)
            value, neutral = getattr(weights, field), getattr(variant, field)
            ablated.append(Ablated(name, field, value, neutral, changes(whole, without)))
    return ablated


def changes(whole: Sequence[Scores], without: Sequence[Scores]) -> dict[str, Change]:
    """The changes by measure, paired by question."""
    return {
        measure: _change([_of(s, measure) for s in whole], [_of(s, measure) for s in without]) for measure in MEASURES
    }


def _of(scores: Scores, measure: str) -> float:
    return float(getattr(scores, measure)) * POINTS


def _change(whole: Sequence[float], without: Sequence[float]) -> Change:
    return Change(*paired(whole, without))
