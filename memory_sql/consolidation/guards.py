"""What a new text must not do to the old one, and which contradictions can be. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from memory_sql.consolidation.answers import NamedContradiction
from memory_sql.domain.scopes import Contradiction, PendingObservation
from memory_sql.languages.invisible import cut_before
from memory_sql.languages.text import clean, count_words, one_line
from memory_sql.llm.notation import as_written

SHORT_WORDS, SHORT_CHARACTERS = 40, 240  # below that a text may shrink as it likes
LONGEST_WORD = 12  # characters that a word may take on average
QUOTE_CHARACTERS = 200  # of what a contradiction quotes


def without_marks(text: str, boundary: str) -> str:
    """Small models copy the lines around the material that they are shown; those lines are ours, and no text."""
    return as_written("\n".join(line for line in clean(text)[0].splitlines() if boundary not in line).strip())


def contradictions_among(
    named: Sequence[NamedContradiction], ordered: Sequence[PendingObservation], current: str | None
) -> tuple[tuple[Contradiction, ...], Counter[str]]:
    """Those that can be, by the scope's numbers, and how many can't, by reason. `ordered`: as the model was shown them.

    Only what was observed later can contradict (at the same time: what has the higher number). So nothing contradicts
    itself, there is no circle, and whatever a model names, the last of the inputs is left.
    """
    kept, refused = list[Contradiction](), Counter[str]()
    gave_way: set[int] = set()
    for item in named:
        problem = _problem_with(item, len(ordered), gave_way, current)
        if problem is not None:
            refused[problem] += 1
            continue
        gave_way |= {item.older} if item.older is not None else set()
        older = None if item.older is None else ordered[item.older - 1].seq
        kept.append(
            Contradiction(newer=ordered[item.newer - 1].seq, older=older, was=_quote(item.was), now=_quote(item.now))
        )
    return tuple(kept), refused


def _problem_with(item: NamedContradiction, inputs: int, gave_way: set[int], current: str | None) -> str | None:
    if not 1 <= item.newer <= inputs or not (item.older is None or 1 <= item.older <= inputs):
        return "unknown_observation"
    if item.older is None:
        return None if current else "no_text_to_contradict"
    if item.older >= item.newer:
        return "contradicted_by_older"
    return "contradicted_twice" if item.older in gave_way else None


def _quote(text: str | None) -> str | None:
    quote = as_written(one_line(clean(text or "")[0]))
    return quote[: cut_before(quote, QUOTE_CHARACTERS)] or None


def harm_in(text: str, current: str | None, max_words: int, min_ratio: float) -> str | None:
    """Why the text must not replace the old one; None when it may."""
    old = current or ""
    words, before = count_words(text), count_words(old)
    if not words:
        return "the new text is empty"
    if words > max_words:
        return f"the new text has {words} words, {max_words} are allowed"
    if len(text) > max_words * LONGEST_WORD:  # scripts without spaces between words
        return f"the new text has {len(text):,} characters, {max_words * LONGEST_WORD:,} are allowed"
    if before > SHORT_WORDS and words < before * min_ratio:
        return f"the new text has {words} words where the old one has {before}"
    if len(old) > SHORT_CHARACTERS and len(text) < len(old) * min_ratio:
        return f"the new text has {len(text):,} characters where the old one has {len(old):,}"
    return None
