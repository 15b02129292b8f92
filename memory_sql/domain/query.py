"""A query as the search statement takes it, and the weight of each reason for a match."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import date
from functools import lru_cache
from types import MappingProxyType
from typing import Any, NamedTuple

from memory_sql.languages.days import Days
from memory_sql.languages.words import Term


@dataclass(frozen=True, slots=True)
class Bounds:
    """How far a search looks, for observations and for messages.

    In a scope of more than `large` items, only the rarest words are looked up, as long as together they are found at most
    that often. For a time, and without words, the `newest` items of each scope are searched. If only words are asked for,
    the `best` matching messages are scored.
    """

    large: int = 2000
    newest: int = 1000
    best: int = 300


@dataclass(frozen=True, slots=True)
class Stages:
    """What share of its score an observation in use gains by its stage; below 0 it loses (B.4).

    One that no sweep has looked at gains nothing. `hidden`: what is stale or archived, and not protected, isn't found.
    """

    active: float = 0.05
    validated: float = 0.03
    candidate: float = -0.01
    stale: float = -0.06
    archived: float = -0.08
    hidden: bool = False


@dataclass(frozen=True, slots=True)
class Weights:
    """The weights of a score. 0 turns a reason off.

    A text's own words count by BM25: `k1` bounds what one word can count for, `b` how much a long text loses.

    For observations: `terms` is the share that a word counts if it is only in the search cues. `vector` is points for each
    standard deviation by which an observation is nearer in meaning than the farthest of the nearest. `date` is points for an
    observation from the time that the query names, or about it. `disputed` and `archived` are shares that the score loses
    (B.4). `stages` None: stages don't count. `hot_first`: what is cold is ranked only if the rest doesn't fill the result.
    `graph`: what is linked with the best hits is ranked too.

    For messages: `asked` and `near` are shares of the score of the words in other messages: in the turn before, if that
    asks; in the second turn before and after. `window` is the share of the rarity (IDF) of words within five turns.
    `speaker` is points if the query names the speaker, `said_on` points if the message is from the time that the query
    names. `source`: the share of the score of an observation that the message it was made of inherits.
    """

    k1: float = 0.6
    b: float = 0.4
    terms: float = 0.8
    vector: float = 1.2
    date: float = 2.0
    disputed: float = 0.12
    archived: float = 0.08
    asked: float = 0.7
    near: float = 0.4
    window: float = 0.4
    speaker: float = 6.0
    said_on: float = 8.0
    source: float = 0.5
    bounds: Bounds = Bounds()
    stages: Stages | None = None
    hot_first: bool = False
    graph: bool = False


class Query(NamedTuple):
    """A parsed query. `left_out` says which words are not looked for, and why.

    `names`: every word, because speakers of messages may be among them. `spans`: the days that it names. A text must contain
    `phrases` and must not contain `without`; `said_by`, `after`, `before` (exclusive) and `tags` must match. Messages come
    from outside the conversation `outside`; with `elsewhere`, observations too. `unformed`: only messages that formation
    hasn't read. `text`: the query without operators, for a search by meaning. `superseded`: also superseded observations;
    else at most `overtaken` of those that a consolidation found overtaken are listed separately. `scope`: only that scope.
    `absorbed`: only what is active there and in its text. `episode`: only what belongs to the episode with this key.
    """

    text: str = ""
    terms: tuple[Term, ...] = ()
    names: tuple[str, ...] = ()
    spans: tuple[Days, ...] = ()
    phrases: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    said_by: str | None = None
    after: date | None = None
    before: date | None = None
    tags: tuple[str, ...] = ()
    outside: str | None = None
    elsewhere: bool = False
    unformed: bool = False
    scope: int | None = None
    absorbed: bool = False
    superseded: bool = False
    overtaken: int = 0
    episode: int | None = None
    left_out: Mapping[str, str] = MappingProxyType({})

    @property
    def words(self) -> tuple[str, ...]:
        return tuple(term.text for term in self.terms)

    def __bool__(self) -> bool:
        """Whether there is anything to look for. Only exclusions are not a search."""
        named = self.said_by or self.tags or self.after or self.before or self.episode
        return bool(self.terms or self.spans or self.phrases or named)

    def to_json(self, weights: Weights) -> str:
        """The parameter of memory.search."""
        return json.dumps(
            {
                "terms": [{"words": term.words, "extra": term.extra} for term in self.terms],
                "names": self.names,
                "spans": multirange(self.spans),
                "phrases": self.phrases,
                "without": self.without,
                "said_by": self.said_by,
                "after": None if self.after is None else f"{self.after}",
                "before": None if self.before is None else f"{self.before}",
                "tags": self.tags,
                "outside": self.outside,
                "elsewhere": self.elsewhere,
                "unformed": self.unformed,
                "scope": self.scope,
                "absorbed": self.absorbed,
                "superseded": self.superseded,
                "overtaken": self.overtaken,
                **({} if self.episode is None else {"episode": self.episode}),
                "weights": _numbers(weights),
            }
        )


@lru_cache(maxsize=8)
def _numbers(weights: Weights) -> dict[str, Any]:
    numbers = asdict(weights)
    bounds, stages = numbers.pop("bounds"), numbers.pop("stages")
    for name in ("hot_first", "graph"):
        if not numbers[name]:
            del numbers[name]
    if stages is not None:
        numbers |= {"stale_hidden": stages.pop("hidden"), "stages": stages}
    return {**numbers, **bounds}


def multirange(spans: Iterable[Days]) -> str:
    return "{" + ",".join(f"[{days.first},{days.last}]" for days in spans) + "}"
