"""Whether a message asks for single observations, and which words to look for. Pure rules, no model call.

R078–R085 as C7 settles them: on word boundaries, one rule set, two unknown names. English; other languages fall back to
names and to being asked.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from memory_sql.text import words_of

MAX_CHARACTERS = 512
UNKNOWN_NAMES = 2

_RECALL = re.compile(
    r"\b(remember|recall|remind me|what did i (say|tell you)|did i (mention|say|tell)|what was that|you told me|"
    r"i told you|we (discussed|talked about|agreed on)|last time (we|i))\b",
    re.IGNORECASE,
)
_TO_STORE = re.compile(r"\b(please|always|must|to) remember (that|to|this)\b|\bremember:", re.IGNORECASE)
_QUESTION = re.compile(r"\b(what|when|where|who|whom|whose|which|why|how)\b", re.IGNORECASE)
_PAST = re.compile(r"\b(was|were|did|had|said|told|mentioned|decided|agreed|used to)\b", re.IGNORECASE)
_SENTENCE = re.compile(r"(?<=[.!?:])\s+|\n+")
_NAME = re.compile(r"\b[^\W\d_a-z]\w+(?:['’]\w+)?")  # a capital, then at least one more character


@dataclass(frozen=True, slots=True)
class Fired:
    """Why observations are retrieved: `asked`, `recall phrase`, `question about the past` or `unknown names`."""

    reason: str


def should_retrieve(message: str, static_context: str) -> Fired | None:
    """None when the static layer is enough. `static_context` is what the prompt holds anyway."""
    text = message[:MAX_CHARACTERS]
    if _RECALL.search(text) and not _TO_STORE.search(text):
        return Fired("recall phrase")
    if any(
        _QUESTION.search(part) and _PAST.search(part) for part in _SENTENCE.split(text) if part.rstrip().endswith("?")
    ):
        return Fired("question about the past")
    if len(unknown_names(text, static_context)) >= UNKNOWN_NAMES:
        return Fired("unknown names")
    return None


def unknown_names(message: str, static_context: str) -> frozenset[str]:
    """Capitalised words inside a sentence (its first proves nothing, nor does "I") that the context doesn't hold."""
    known = set(words_of(static_context))
    found = set()
    for sentence in _SENTENCE.split(message):
        first = re.search(r"\w", sentence)
        for name in _NAME.finditer(sentence):
            if first is None or name.start() > first.start():
                found.add(" ".join(words_of(re.sub(r"['’]s$", "", name[0]))))
    return frozenset(name for name in found if name and not set(name.split()) <= known)
