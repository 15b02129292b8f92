"""How much of what a search found is shown in a context. Pure, of the scores alone: the form of the message doesn't count.

The best hits are shown as far as they match well beside the very best. What matches no better than chance is noise, and not
shown; each further line has to match better than that. Fitted on conversations by `python -m benchmarks.recall.decision`;
docs/retrieval.md has the figures.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from datetime import datetime
from operator import attrgetter
from typing import Any, NamedTuple, TypeVar

from memory_sql.domain.reading import Decision, Hit, MessageHit
from memory_sql.retrieval.asking import Asking

ALIKE = 0.5  # from which share of a score on another matches about as well
OVERTAKEN = 3  # how many of what was superseded are shown at most
FIRST, WORDS = 3, 0.08  # where so many hits have less of the message's words, only their meaning speaks for them


class Limits(NamedTuple):
    """`few`: so many are shown however far they are apart. Behind them, none with less than a `share` of the best score.

    No hit is shown that isn't stronger than chance, which reaches so much `by_words` alone, with vectors (`by_both`), and
    with vectors where the words don't match (`by_meaning`), as across languages; and a share `more` of that for each line
    before it.
    """

    few: int = 3
    share: float = 0.4
    by_words: float = 0.6
    by_both: float = 1.0
    by_meaning: float = 0.6
    more: float = 0.1

    def noise(self, hits: Sequence[Hit], *, near: bool) -> float:
        if not near:
            return self.by_words
        return self.by_both if any(hit.covered >= WORDS for hit in hits[:FIRST]) else self.by_meaning


LIMITS = Limits()


class Decided(NamedTuple):
    decision: Decision
    hits: list[Hit]
    messages: list[MessageHit]


def decide(
    asking: Asking,
    hits: Sequence[Hit],
    messages: Sequence[MessageHit],
    most: int,
    *,
    past: bool,
    everything: bool = False,
    told: Collection[str] = (),
    limits: Limits = LIMITS,
) -> Decided:
    """What is shown of `hits` and of `messages`, which are best first: at most so many of each. Messages are found by words.

    A message that asks for what was said is shown whatever was found, and so is `everything`. `past`: as in `arranged`.
    `told`: the ids of hits that stand in the context already; another takes the place of each, if it matches as well.
    """

    def is_new(hit: Hit) -> bool:
        return hit.observation.id not in told

    holding = [hit for hit in hits if hit.observation.status != "superseded"]
    near = any(hit.near for hit in hits)
    noise = limits.noise(holding, near=near)
    if asking.recalls or everything:
        some, said, clear = [hit for hit in holding if is_new(hit)][:most], list(messages), len(holding)
    else:
        top = max((hit.score for hit in hits), default=0.0)
        some, clear = _clear(holding, most, noise, limits, top, is_new)
        said, _ = _clear(messages, most, limits.by_words, limits, messages[0].score if messages else 0.0)
    best = [(hit.strength, hit.covered) for hit in holding[:1]] + [(hit.strength, hit.covered) for hit in messages[:1]]
    strength, covered = max(best, default=(0.0, 0.0))
    decision = Decision(
        recalls=asking.recalls,
        strength=strength,
        covered=covered,
        near=near,
        noise=noise,
        lines=min(clear, most) + len(said),
    )
    return Decided(decision, arranged(some, list(filter(is_new, hits)), past=past), arranged_messages(said, past=past))


def arranged(holding: Sequence[Hit], hits: Sequence[Hit], *, past: bool) -> list[Hit]:
    """These, and behind them what of the hits was overtaken and matches no worse than the last of these.

    Of what stands in one scope the newer comes first if it matches about as well, unless the `past` is asked for.
    """
    if not holding:
        return []
    overtaken = [hit for hit in hits if hit.observation.status == "superseded" and hit.score >= holding[-1].score]
    if past:
        return [*holding, *overtaken]
    of_hit = attrgetter("observation.scope", "observation.said_at")
    return [*_newest_first(holding, of_hit), *_newest_first(overtaken, of_hit)]


def arranged_messages(messages: Sequence[MessageHit], *, past: bool) -> list[MessageHit]:
    """In their order, but that the newer of two that match about as well comes first, as of observations."""
    return list(messages) if past else _newest_first(messages, lambda hit: (None, hit.message.said_at))


Scored = TypeVar("Scored", Hit, MessageHit)


def _clear(
    hits: Sequence[Scored],
    most: int,
    noise: float,
    limits: Limits,
    best: float,
    is_new: Callable[[Scored], bool] = lambda hit: True,
) -> tuple[list[Scored], int]:
    """The first new ones, to where one is noise or its score is low beside the best one.

    And how many these are with those that aren't new.
    """
    shown, passed = list[Scored](), 0
    for hit in hits:
        is_far = passed >= limits.few and hit.score < limits.share * best
        if len(shown) == most or is_far or hit.strength < noise * (1 + limits.more * passed):
            break
        passed += 1
        if is_new(hit):
            shown.append(hit)
    return shown, passed


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
