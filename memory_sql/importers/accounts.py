"""Counts the documents and what became of them: source = migrated + merged + skipped + rejected."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from memory_sql.errors import SourceError
from memory_sql.importers.drafts import Outcome

MOST_NAMED = 50
OUTCOMES: tuple[Outcome, ...] = ("migrated", "merged", "skipped", "rejected")


@dataclass(slots=True)
class Accounts:
    """`outcomes`: by collection, outcome and reason (empty for migrated documents). `anomalies`: by code.

    `cut_off`: the parts that ended early, with an unknown number of documents left. `unreadable`: the first of the single
    documents that can't be read.
    """

    source: Counter[str] = field(default_factory=Counter)
    outcomes: Counter[tuple[str, Outcome, str]] = field(default_factory=Counter)
    anomalies: Counter[str] = field(default_factory=Counter)
    cut_off: list[SourceError] = field(default_factory=list)
    unreadable: list[SourceError] = field(default_factory=list)

    def note(self, codes: Iterable[str]) -> None:
        self.anomalies.update(codes)

    def cannot_read(self, error: SourceError) -> None:
        if len(self.unreadable) < MOST_NAMED:
            self.unreadable.append(error)

    def collections(self) -> dict[str, dict[str, int]]:
        """By collection: the counts of `source` and of each outcome."""
        return {
            collection: {"source": count, **{outcome: self.of(collection, outcome) for outcome in OUTCOMES}}
            for collection, count in self.source.items()
        }

    def of(self, collection: str, outcome: Outcome) -> int:
        return sum(n for (where, what, _), n in self.outcomes.items() if (where, what) == (collection, outcome))

    def unaccounted(self) -> Iterator[str]:
        """The collections whose sums differ. If there are any, the importer has a bug."""
        for collection, counts in self.collections().items():
            if counts["source"] != sum(counts[outcome] for outcome in OUTCOMES):
                yield collection
