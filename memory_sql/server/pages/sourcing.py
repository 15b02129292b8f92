"""Which memories a sentence of a text comes from, judged by the words that they share.

Nothing stores it: a text is written from many observations at once. So pages say that it is likely, not that it is known.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from memory_sql.domain.observations import Observation
from memory_sql.languages.text import sentences
from memory_sql.languages.wording import pieces, telling

LEAST = 0.5  # of the telling words of the sentence or of the observation, whichever has fewer
MOST_SOURCES = 3
MOST_SENTENCES = 80  # of a page, with their sources; what follows is in one piece


class Sentence(NamedTuple):
    """A sentence with the observations that it likely comes from, best first."""

    text: str
    sources: tuple[Observation, ...]


def sourced(text: str, observations: Sequence[Observation], most: int = MOST_SENTENCES) -> list[Sentence]:
    """The sentences of the text in order, each with its sources; the last one has what is left of a very long text."""
    told = [(one, telling(one.content), pieces(one.content)) for one in observations]
    found = []
    parts = sentences(text)
    for part in parts[:most]:
        words, folded = telling(part), pieces(part)
        likely = sorted(
            ((_share(words, folded, own, theirs), one) for one, own, theirs in told), key=lambda pair: -pair[0]
        )
        found.append(Sentence(part, tuple(one for share, one in likely[:MOST_SOURCES] if share >= LEAST)))
    rest = parts[most:]
    return [*found, Sentence(" ".join(rest), ())] if rest else found


def _share(words: frozenset[str], folded: frozenset[str], own: frozenset[str], theirs: frozenset[str]) -> float:
    if not words or not own:
        return 0.0
    return max(len(words & theirs) / len(words), len(own & folded) / len(own))
