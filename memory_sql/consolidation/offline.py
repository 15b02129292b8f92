"""Builds a scope's text by rule: one quote a line. English only."""

from __future__ import annotations

import re
from collections.abc import Sequence

from memory_sql.consolidation.answers import ConsolidatedText, NamedContradiction, NumberedText
from memory_sql.languages.text import count_words, one_line, words_of
from memory_sql.llm.offline import first_words

NOTICE = "[Offline: quotes put together by rules, not by a language model.]"

_CHANGE = re.compile(
    r"\b(actually|no longer|instead|stopped|switched|moved|changed|correction|any ?more)\b", re.IGNORECASE
)
_COMMON = frozenset(
    "about actually after also been before correction could date decided every from have instead into just like "
    "longer make more moved need never only prefer please really remember said stopped switched than that their "
    "them then there they this want what when will with would your".split()
)


def consolidate(current: str | None, observations: Sequence[NumberedText], max_words: int) -> ConsolidatedText:
    """The old and new quotes, one a line. A quote that states a change replaces the most similar one."""
    lines = [line for line in (current or "").splitlines() if line.strip() and line != NOTICE]
    numbers: dict[str, str] = {}
    contradictions = []
    for observation in observations:
        text = one_line(observation.text)
        if text in lines:
            continue
        if _CHANGE.search(text) and (old := _closest(text, lines)) is not None:
            lines.remove(old)
            contradictions.append(
                NamedContradiction(newer=f"n{observation.n}", older=numbers.get(old), was=old, now=text)
            )
        lines.append(text)
        numbers[text] = f"n{observation.n}"
    return ConsolidatedText(text=_within(max_words, lines), contradictions=contradictions)


def _within(max_words: int, lines: list[str]) -> str:
    while len(lines) > 1 and count_words("\n".join((NOTICE, *lines))) > max_words:
        lines.pop(0)
    lines[-1:] = [first_words(line, max_words - count_words(NOTICE)) for line in lines[-1:]]
    return "\n".join((NOTICE, *lines))


def _closest(text: str, lines: Sequence[str]) -> str | None:
    """The line that shares the most telling words with the text; None: none shares any."""
    mine = _telling(text)
    shared = {line: len(mine & _telling(line)) for line in lines}
    best = max(shared, key=lambda line: shared[line], default=None)
    return best if best is not None and shared[best] else None


def _telling(text: str) -> frozenset[str]:
    said = text.partition(" said: ")[2] or text
    return frozenset(word for word in words_of(said) if len(word) >= 4 and word not in _COMMON)
