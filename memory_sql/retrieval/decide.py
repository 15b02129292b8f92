"""Whether what a search found for a message is shown in its context, and what of it. A pure function of few numbers.

The logarithm of the odds that memory answers the message: whether it asks, how well the best hit matches, and how much of
what is asked it holds. Fitted on conversations by `python -m benchmarks.recall.decision`; docs/retrieval.md has the curve.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from operator import attrgetter
from typing import Any, NamedTuple, TypeVar

from memory_sql.domain.reading import Decision, Hit, MessageHit
from memory_sql.retrieval.asking import Asking

LEAST = 0.15  # the logarithm of the odds from which on lines are shown: a little better than even
ALIKE = 0.5  # from which share of a score on another matches about as well
OVERTAKEN = 3  # how many of what was superseded are shown at most


class Fit(NamedTuple):
    """What each counts for."""

    constant: float
    asks: float
    strength: float
    covered: float

    def odds(self, asks: bool, strength: float, covered: float) -> float:
        return self.constant + self.asks * asks + self.strength * strength + self.covered * covered


BY_WORDS = Fit(constant=-2.69, asks=2.71, strength=0.45, covered=1.55)
BY_MEANING = Fit(constant=-4.67, asks=2.92, strength=1.01, covered=1.78)


def decide(asking: Asking, hits: Sequence[Hit], messages: Sequence[MessageHit]) -> Decision:
    """`hits` and `messages` best first; without any nothing is shown.

    A message that asks for what was said is shown whatever was found. Messages are found by words alone.
    """
    near = any(hit.near for hit in hits)
    fit = BY_MEANING if near else BY_WORDS
    holding = [hit for hit in hits if hit.observation.status != "superseded"]
    best = [(fit, hit.strength, hit.covered) for hit in holding[:1]]
    best += [(BY_WORDS, message.strength, message.covered) for message in messages[:1]]
    odds, strength, covered = max(
        ((fit.odds(asking.asks, strength, covered), strength, covered) for fit, strength, covered in best),
        default=(fit.odds(asking.asks, 0, 0), 0.0, 0.0),
    )
    return Decision(
        asks=asking.asks,
        recalls=asking.recalls,
        strength=strength,
        covered=covered,
        near=near,
        odds=odds,
        shown=bool(best) and (bool(asking.recalls) or odds >= LEAST),
    )


def chosen(hits: Sequence[Hit], most: int, *, past: bool) -> list[Hit]:
    """The first `most` of what holds, and behind them what was overtaken and matches no worse than the last of these.

    Of what stands in one scope the newer comes first if it matches about as well, unless the `past` is asked for.
    """
    holding = [hit for hit in hits if hit.observation.status != "superseded"][:most]
    least = holding[-1].score if holding else 0.0
    overtaken = [hit for hit in hits if hit.observation.status == "superseded" and hit.score >= least]
    if past:
        return [*holding, *overtaken]
    of_hit = attrgetter("observation.scope", "observation.observed_at")
    return [*_newest_first(holding, of_hit), *_newest_first(overtaken, of_hit)]


def chosen_messages(messages: Sequence[MessageHit], *, past: bool) -> list[MessageHit]:
    """In their order, but that the newer of two that match about as well comes first, as of observations."""
    return list(messages) if past else _newest_first(messages, lambda hit: (None, hit.message.said_at))


Scored = TypeVar("Scored", Hit, MessageHit)


def _newest_first(hits: Sequence[Scored], place: Callable[[Scored], tuple[Any, datetime]]) -> list[Scored]:
    """`place`: where something stands, and since when. Nothing goes before what matches much better."""
    ordered = list[Scored]()
    for hit in hits:
        scope, said = place(hit)
        at = len(ordered)
        while at:
            its_scope, its_time = place(ordered[at - 1])
            if its_scope != scope or its_time >= said or hit.score < ALIKE * ordered[at - 1].score:
                break
            at -= 1
        ordered.insert(at, hit)
    return ordered
