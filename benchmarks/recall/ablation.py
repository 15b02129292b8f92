"""What each part of our ranking is worth: the same questions with one weight at a time taken out.

The weights are a frozen dataclass, `memory_sql.domain.query.Weights`, which the search
statement's function takes as `weights`. Which fields there are isn't known here.
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
    """The weights can't be taken out."""


@dataclass(frozen=True, slots=True)
class Change:
    """In points (hundredths) against the whole ranking; below zero: the part helps."""

    points: float
    interval: Interval


@dataclass(frozen=True, slots=True)
class Ablated:
    """`neutral` is the value that stood in for `value`; changes by measure, over the answerable questions."""

    system: str
    field: str
    value: float
    neutral: float
    changes: Mapping[str, Change]


def variants(weights: Any, chosen: Sequence[str] = (ALL,)) -> Iterator[tuple[str, Any]]:
    """The weights with one number, of those chosen, neutral at a time; what is neutral already is left out.

    Neutral is what the field's metadata says (`neutral`), else zero. Raises `AblationError` for names of no number.
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
    """Raises `AblationError` where this release has none."""
    try:
        return import_module("memory_sql.domain.query").Weights()
    except (ModuleNotFoundError, AttributeError) as error:
        raise AblationError(
            "this release's ranking has no weights to take out (memory_sql.domain.query.Weights)"
        ) from error


def check(chosen: Sequence[str]) -> None:
    """Raises `AblationError` where these can't be taken out: to be asked before anything is measured."""
    list(variants(default_weights(), chosen))
    _takes_weights(import_module("memory_sql.retrieval.search").search)


def _takes_weights(search: Callable[..., Any]) -> None:
    if "weights" not in signature(search).parameters:
        raise AblationError("this release's search takes no weights")


@contextmanager
def weighted(weights: Any) -> Iterator[None]:
    """Meanwhile every search of a `Memory` goes by these weights.

    Raises `AblationError` where the search takes none, or where none was made: its figures would be those of the whole.
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
    """One of our own shapes, loaded once. Raises `AblationError`."""
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
    """By measure, question against question."""
    return {
        measure: _change([_of(s, measure) for s in whole], [_of(s, measure) for s in without]) for measure in MEASURES
    }


def _of(scores: Scores, measure: str) -> float:
    return float(getattr(scores, measure)) * POINTS


def _change(whole: Sequence[float], without: Sequence[float]) -> Change:
    return Change(*paired(whole, without))
