"""A language model that isn't one: rules, no network, the same answer every time.

It keeps the system running without a key. It quotes instead of understanding, English only, and says so: in the model's
name and in the first line of every text that it puts together.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, TypeVar, cast

from pydantic import BaseModel

from memory_sql.errors import UnavailableError
from memory_sql.languages.text import count_words, normal_form, one_line, words_of
from memory_sql.llm import Answer, Request, Usage
from memory_sql.llm.propagating import Claim, Decision, PropagationAnswer, PropagationTask
from memory_sql.llm.tasks import (
    ConsolidatedText,
    ConsolidationTask,
    ExtractionAnswer,
    ExtractionTask,
    NamedContradiction,
    OfferedScope,
    Turn,
    answer_for,
)

T = TypeVar("T", bound=BaseModel | str)

NAME = "offline-rules-1"
NOTICE = "[Offline: quotes put together by rules, not by a language model.]"
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
_SHARED = re.compile(r"\b(we|our|the team|deadline|every|everybody|everyone|the decision)\b", re.IGNORECASE)
_PERSONAL = re.compile(r"\b(i|i'm|i've|my|me)\b", re.IGNORECASE)
_CHANGE = re.compile(
    r"\b(actually|no longer|instead|stopped|switched|moved|changed|correction|any ?more)\b", re.IGNORECASE
)
_COMMON = frozenset(
    "about actually after also been before correction could date decided every from have instead into just like "
    "longer make more moved need never only prefer please really remember said stopped switched than that their "
    "them then there they this want what when will with would your".split()
)


class Offline:
    """Answers each of the three questions from the task itself; it reads no prompt."""

    async def generate(self, request: Request[T]) -> Answer[T]:
        value: BaseModel
        match request.material:
            case ExtractionTask() as task:
                value = extract(task)
            case ConsolidationTask() as task:
                value = consolidate(task)
            case PropagationTask() as task:
                value = propagate(task)
            case _:
                raise UnavailableError("offline", f"the offline rules can't do {request.purpose}")
        return Answer(cast(T, value), value.model_dump_json(), Usage(NAME, input_tokens=0, output_tokens=0))

    async def close(self) -> None:
        """There is nothing to close."""


def extract(task: ExtractionTask) -> ExtractionAnswer:
    """Sentences in which a user states a preference, a fact about themselves, a decision or a general lesson."""
    found: dict[str, list[dict[str, Any]]] = {scope.alias: [] for scope in task.scopes}
    known = {scope.alias: {normal_form(text) for text in scope.knows} for scope in task.scopes}
    for turn in task.turns:
        for sentence in _statements(turn):
            scope = _scope(sentence, turn, task.scopes)
            if scope is None:
                continue
            content = _shortened(f"{turn.speaker} said: {sentence}", task.max_words)
            limit = task.max_items if scope.max_items is None else scope.max_items
            if len(found[scope.alias]) < limit and normal_form(content) not in known[scope.alias]:
                known[scope.alias].add(normal_form(content))
                found[scope.alias].append({"content": content, "sources": [turn.n]})
    return answer_for(tuple(found))(found)


def _statements(turn: Turn) -> list[str]:
    if turn.role != "user":
        return []
    sentences = (one_line(part) for part in _SENTENCE.split(turn.text))
    return [
        s
        for s in sentences
        if len(s.split()) >= MIN_WORDS and not s.endswith("?") and not _REQUEST.match(s) and _KEEP.search(s)
    ]


def _scope(sentence: str, turn: Turn, offered: Sequence[OfferedScope]) -> OfferedScope | None:
    groups = [scope for scope in offered if scope.kind == "group"]
    shared = [scope for scope in offered if scope.kind == "collective"]
    personal = _PERSONAL.search(sentence)
    if shared and _GENERAL.search(sentence) and not personal:
        return shared[0]
    if groups and _SHARED.search(sentence) and not personal:
        return groups[0]
    own = f"individual_{turn.person}" if turn.person else "individual"
    return next((scope for scope in offered if scope.alias == own), None)


def _shortened(text: str, max_words: int) -> str:
    words = text.split()
    return text if len(words) <= max_words else " ".join(words[: max_words - 1]) + " …"


def consolidate(task: ConsolidationTask) -> ConsolidatedText:
    """The quotes so far and the new ones, a line each; one that changes something replaces the quote closest to it."""
    lines = [line for line in (task.current or "").splitlines() if line.strip() and line != NOTICE]
    numbers: dict[str, int] = {}
    contradictions = []
    for observation in task.observations:
        text = one_line(observation.text)
        if text in lines:
            continue
        if _CHANGE.search(text) and (old := _closest(text, lines)) is not None:
            lines.remove(old)
            contradictions.append(NamedContradiction(newer=observation.n, older=numbers.get(old), was=old, now=text))
        lines.append(text)
        numbers[text] = observation.n
    return ConsolidatedText(text=_within(task.max_words, lines), contradictions=contradictions)


def _within(max_words: int, lines: list[str]) -> str:
    while len(lines) > 1 and count_words("\n".join((NOTICE, *lines))) > max_words:
        lines.pop(0)
    lines[-1:] = [_shortened(line, max_words - count_words(NOTICE)) for line in lines[-1:]]
    return "\n".join((NOTICE, *lines))


def _closest(text: str, lines: Sequence[str]) -> str | None:
    """The line that shares most telling words with the text; None when none shares any."""
    mine = _telling(text)
    shared = {line: len(mine & _telling(line)) for line in lines}
    best = max(shared, key=lambda line: shared[line], default=None)
    return best if best is not None and shared[best] else None


def _telling(text: str) -> frozenset[str]:
    said = text.partition(" said: ")[2] or text
    return frozenset(word for word in words_of(said) if len(word) >= 4 and word not in _COMMON)


def propagate(task: PropagationTask) -> PropagationAnswer:
    """What is said of shared matters and of no person goes on, without the name of who said it."""
    kinds = {target.alias: target.kind for target in task.targets}
    return PropagationAnswer(decisions=[_decision(claim, to, kinds[to]) for claim in task.claims for to in claim.to])


def _decision(claim: Claim, to: str, kind: str) -> Decision:
    said = claim.text.partition(" said: ")[2] or claim.text
    personal = bool(_PERSONAL.search(said))
    general = bool(_SHARED.search(said)) if kind == "group" else bool(claim.also)
    return Decision(n=claim.n, to=to, personal=personal, general=general, valuable=True, text=said)
