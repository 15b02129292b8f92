"""A query as the search statement takes it, and how much each reason to find something counts."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import date
from functools import lru_cache

from memory_sql.languages.days import Days
from memory_sql.languages.words import Term


@dataclass(frozen=True, slots=True)
class Bounds:
    """How far a search looks, in either arm.

    In a scope of more than `large` only the rarest words are looked up, as long as all of them together are found at most
    so often. For a time, and where there are no words, the `newest` of each scope are looked at. Of messages the `best`
    matches are scored where only words are asked for.
    """

    large: int = 2000
    newest: int = 1000
    best: int = 300


@dataclass(frozen=True, slots=True)
class Weights:
    """Reasons to find something. 0 takes one out of the score.

    A text's own words count by BM25: `k1` bounds what one can count for, `b` says how much a long text takes off.

    Of observations: `terms` is the share that a word counts for which stands only in the search cues; `vector` are points
    for each standard deviation by which one is nearer in meaning than the farthest of the nearest; `date` are points for
    what was said in the time that is named, or speaks of it. `disputed` and `archived` are shares of the score that are
    taken off (B.4).

    Of messages: `asked` and `near` are shares of what the words of others count for: of the turn before, if that asks; of
    the second turn before and behind. `window` is the share of the rarity (IDF) of what stands within five turns. The next
    are points: for who is named in the query and said it, for what was said in the time that is named. `source`: what a
    message inherits of the score of an observation made of it.
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


@dataclass(frozen=True, slots=True)
class Query:
    """What was asked for. `left_out` says which words are not looked for, and why.

    `names`: every word of it, for the speakers of messages that may be among them. `spans` are the days that it names.
    `phrases` must stand in a text, `without` must not; `said_by`, `after`, `before` (not included) and `tags` have to hold.
    Messages come from `outside` that conversation, with `elsewhere` observations as well; `unformed`: only messages that no
    formation has read; `language` is theirs, where the agent's own settings name none. `text`: what was asked, without
    operators, for those who don't read it word by word. `superseded` observations are found as well, or apart at most so
    many that were `overtaken`, as a consolidation found; with `scope` only that one is searched, with `absorbed` only what
    is in use there and in its text.
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
    left_out: Mapping[str, str] = field(default_factory=dict)
    language: str = "english"

    @property
    def words(self) -> tuple[str, ...]:
        return tuple(term.text for term in self.terms)

    def __bool__(self) -> bool:
        """False: there is nothing to look for. Only to leave things out is not a search."""
        return bool(self.terms or self.spans or self.phrases or self.said_by or self.tags or self.after or self.before)

    def to_json(self, weights: Weights) -> str:
        """As memory.search takes it."""
        return json.dumps(
            {
                "terms": [{"words": term.words, "extra": term.extra} for term in self.terms],
                "names": self.names,
                "spans": _multirange(self.spans),
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
                "language": self.language,
                "weights": _numbers(weights),
            }
        )


@lru_cache(maxsize=8)
def _numbers(weights: Weights) -> dict[str, float]:
    numbers = asdict(weights)
    bounds = numbers.pop("bounds")
    return {**numbers, **bounds}


def _multirange(spans: Iterable[Days]) -> str:
    return "{" + ",".join(f"[{days.first},{days.last}]" for days in spans) + "}"
