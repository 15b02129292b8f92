"""How good a ranking is, given the ids that should be found. Pure; every share is between 0 and 1."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, fields

SEED = 20_240_227
RESAMPLES = 2000


@dataclass(frozen=True, slots=True)
class Interval:
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Scores:
    """The scores of one question, or their means over several."""

    recall_5: float
    recall_10: float
    recall_20: float
    hit_5: float
    mrr: float
    ndcg_10: float
    session_5: float


def recall(found: Sequence[str], evidence: AbstractSet[str], k: int) -> float:
    """The share of the evidence among the first k."""
    return len(evidence & set(found[:k])) / len(evidence)


def hit(found: Sequence[str], evidence: AbstractSet[str], k: int) -> float:
    """1 if any of the evidence is among the first k."""
    return float(not evidence.isdisjoint(found[:k]))


def reciprocal_rank(found: Sequence[str], evidence: AbstractSet[str]) -> float:
    """1 / the rank of the first piece of evidence; 0 if none was found."""
    return next((1 / place for place, item in enumerate(found, 1) if item in evidence), 0.0)


def ndcg(found: Sequence[str], evidence: AbstractSet[str], k: int) -> float:
    """Discounted gain of the first k over that of the best order (Järvelin and Kekäläinen 2002), each piece worth 1."""
    best = sum(_discount(place) for place in range(1, min(k, len(evidence)) + 1))
    return sum(_discount(place) for place, item in enumerate(found[:k], 1) if item in evidence) / best


def _discount(place: int) -> float:
    return 1 / math.log2(place + 1)


def scores(found: Iterable[str], evidence: AbstractSet[str], session_of: Mapping[str, str]) -> Scores:
    """The scores of one question's answer, best first. An id that occurs twice counts at its first position.

    Raises `ValueError` for a question without evidence.
    """
    if not evidence:
        raise ValueError("a question without evidence can't be scored")
    ranked = list(dict.fromkeys(found))
    return Scores(
        recall_5=recall(ranked, evidence, 5),
        recall_10=recall(ranked, evidence, 10),
        recall_20=recall(ranked, evidence, 20),
        hit_5=hit(ranked, evidence, 5),
        mrr=reciprocal_rank(ranked, evidence),
        ndcg_10=ndcg(ranked, evidence, 10),
        session_5=hit([session_of[item] for item in ranked[:5]], {session_of[item] for item in evidence}, 5),
    )


def mean_scores(each: Sequence[Scores]) -> Scores:
    """Raises `ValueError` if there are none."""
    return Scores(**{field.name: mean([getattr(item, field.name) for item in each]) for field in fields(Scores)})


def mean(values: Sequence[float]) -> float:
    if not values:
        raise ValueError("no values, no mean")
    return math.fsum(values) / len(values)


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that is at least as large as that share of the values (nearest rank)."""
    if not values:
        raise ValueError("no values, no percentile")
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


def bootstrap(values: Sequence[float], resamples: int = RESAMPLES, seed: int = SEED) -> Interval:
    """The 95 % percentile interval of the mean (Efron 1979); the same values give the same interval."""
    draw: Callable[..., list[float]] = random.Random(seed).choices
    means = [mean(draw(values, k=len(values))) for _ in range(resamples)]
    return Interval(percentile(means, 0.025), percentile(means, 0.975))


def paired(before: Sequence[float], after: Sequence[float], seed: int = SEED) -> tuple[float, Interval]:
    """How much the mean rises from `before` to `after`, and the interval.

    Differences are drawn, since the questions are the same.
    """
    differences = [new - old for old, new in zip(before, after, strict=True)]
    return mean(differences), bootstrap(differences, seed=seed)
