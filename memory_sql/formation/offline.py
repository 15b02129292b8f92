"""Observations found by rule: sentences in which a user states something that is worth keeping. English only."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from memory_sql.formation.answers import REQUESTS, ExtractionAnswer, OfferedScope, Turn, answer_for
from memory_sql.languages.requests import FoundRequest, requests_in
from memory_sql.languages.text import normal_form, one_line
from memory_sql.llm.offline import PERSONAL, SHARED, first_words

MIN_WORDS = 4

_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")
_KEEP = re.compile(
    r"\bi(?:'m| am) (allergic|vegetarian|vegan|married|based|learning|responsible)\b"
    r"|\bi (?:always |never |usually |really )?(prefer|like|love|hate|dislike|use|drink|eat|work|live|play|study|speak|"
    r"own|want|don't (?:like|eat|drink|want|use))\b"
    r"|\bi(?:'ve| have) (stopped|started|switched|moved|decided|quit|got|been|just)\b"
    r"|\bi (stopped|started|switched|moved|decided|quit|joined|got|went|bought|read|finished|adopted|signed)\b"
    r"|\bmy (?:\w+ ){1,3}(is|are|was|has|will)\b"
    r"|\b(please|always|must) remember\b|\bfrom now on\b|\bgoing forward\b|\bfor the record\b|\bdeadline\b"
    r"|\bwe(?:'ve| have)? ?(decided|agreed|chose|picked|moved|use|ship|keep|settled)\b|\bthe decision (is|was)\b"
    r"|\b(in general|as a rule|generally)\b"
    r"|\bkeep (this|that|it) (to yourself|private|between us)\b",
    re.IGNORECASE,
)
_REQUEST = re.compile(r"^(can|could|would|will) you\b|^(what|how|why|when|where|who)\b", re.IGNORECASE)
_GENERAL = re.compile(r"\b(in general|as a rule|generally)\b", re.IGNORECASE)


def extract(
    turns: Sequence[Turn], scopes: Sequence[OfferedScope], max_items: int, max_words: int, *, requests: bool = False
) -> ExtractionAnswer:
    """Sentences in which a user states a preference, a fact about themselves, a decision or a general lesson.

    With `requests`, what users ask memory to forget or to correct is listed as that, and what they ask to forget isn't kept.
    """
    found: dict[str, list[dict[str, Any]]] = {scope.alias: [] for scope in scopes}
    known = {scope.alias: {normal_form(text) for text in scope.knows} for scope in scopes}
    asked = {turn.n: requests_in(turn.text) if requests and turn.role == "user" else [] for turn in turns}
    for turn in turns:
        for sentence in _statements(turn, asked[turn.n]):
            content = first_words(f"{turn.speaker} said: {sentence}", max_words)
            form = normal_form(content)
            for scope in _scopes(sentence, turn, scopes):
                limit = max_items if scope.max_items is None else scope.max_items
                if len(found[scope.alias]) < limit and form not in known[scope.alias]:
                    known[scope.alias].add(form)
                    found[scope.alias].append({"content": content, "sources": [turn.n]})
    wanted = [
        {"kind": one.kind, "what": one.what, "sources": [n]} for n, some in asked.items() for one in some if one.what
    ]
    return answer_for(tuple(found))(found | ({REQUESTS: wanted} if wanted else {}))


def _statements(turn: Turn, asked: Sequence[FoundRequest]) -> list[str]:
    if turn.role != "user":
        return []
    text = turn.text
    for one in reversed([one for one in asked if one.kind == "forget"]):
        text = f"{text[: one.start]}\n{text[one.end :].lstrip(',; ')}"
    sentences = (one_line(part) for part in _SENTENCE.split(text))
    return [
        s
        for s in sentences
        if len(s.split()) >= MIN_WORDS and not s.endswith("?") and not _REQUEST.match(s) and _KEEP.search(s)
    ]


def _scopes(sentence: str, turn: Turn, offered: Sequence[OfferedScope]) -> list[OfferedScope]:
    """Whose it is, and the conversation's own."""
    own = [scope for scope in offered if scope.kind == "conversation" and not scope.name]
    return [scope for scope in (_scope(sentence, turn, offered), *own[:1]) if scope is not None]


def _scope(sentence: str, turn: Turn, offered: Sequence[OfferedScope]) -> OfferedScope | None:
    groups = [scope for scope in offered if scope.kind == "group"]
    shared = [scope for scope in offered if scope.kind == "collective"]
    personal = PERSONAL.search(sentence)
    if shared and _GENERAL.search(sentence) and not personal:
        return shared[0]
    if groups and SHARED.search(sentence) and not personal:
        return groups[0]
    own = f"individual_{turn.person}" if turn.person else "individual"
    return next((scope for scope in offered if scope.alias == own), None)
