"""Conversations with recorded observations and texts, and a model that answers with these.

A folder holds NAME.jsonl (messages), formed/NAME.obs.jsonl (`scope`, `content`, `terms`, `sources`, and `overtakes`: the
lines that no longer hold because of it), formed/texts.json (the last text of each scope), questions.jsonl, tasks.jsonl (what
somebody wants done for which a fact is needed, in the same form), translated.jsonl (questions in other languages), and
in_texts.json: whether the texts that the asker sees contain the answer to a question (true, "part", false).
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel

from benchmarks.recall.formed import lines
from memory_sql.consolidation.accounting import SLIGHT_INPUTS
from memory_sql.consolidation.comparing import RecheckTask
from memory_sql.consolidation.figures import Source
from memory_sql.consolidation.grounding import ungrounded_in
from memory_sql.consolidation.task import ConsolidationTask
from memory_sql.formation.answers import OfferedScope, handles_of
from memory_sql.formation.task import ExtractionTask
from memory_sql.languages.text import sentences, words_of
from memory_sql.llm import Answer, Request, Usage
from memory_sql.llm.answers import read
from memory_sql.privacy.contact import without_contact

T = TypeVar("T", bound=BaseModel | str)
INVENTED = Path(__file__).with_name("invented")
Row = Mapping[str, Any]
UNHEARD = 0.25  # of the words of a sentence: those that join what was heard


class RecordedError(Exception):
    """Nothing is recorded for what the model is asked."""


@dataclass(frozen=True, slots=True)
class Question:
    """`stale`: messages that said what no longer holds. `in_text`: the texts alone answer it completely.

    `translations`: the text by language.
    """

    id: str
    asker: str
    kind: str
    text: str
    evidence: frozenset[str]
    stale: frozenset[str]
    in_text: bool
    translations: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Conversations:
    """The conversations of one agent. `observations` are in the order of their lines."""

    name: str
    messages: Sequence[Row]
    observations: Sequence[Row]
    texts: Mapping[str, str]
    questions: Sequence[Question]

    @cached_property
    def by_session(self) -> Mapping[str, Sequence[Row]]:
        """In the order in which the sessions began."""
        ordered = sorted(self.messages, key=lambda message: said_at(message))
        began = {session: n for n, session in enumerate(dict.fromkeys(m["session_id"] for m in ordered))}
        together = sorted(ordered, key=lambda message: began[message["session_id"]])
        return {session: list(said) for session, said in groupby(together, key=lambda m: m["session_id"])}

    @cached_property
    def by_time(self) -> Mapping[datetime, Row]:
        return {said_at(message): message for message in self.messages}

    @cached_property
    def numbers(self) -> Mapping[str, int]:
        """The line of each observation by its text, also in the form shown to others than its author."""
        texts = [row["content"] for row in self.observations]
        return {form: n for n, text in enumerate(texts) for form in (text, without_contact(text))}

    @cached_property
    def overtaken(self) -> frozenset[int]:
        return frozenset(n for row in self.observations for n in row["overtakes"])

    def holds(self, content: str) -> bool:
        """Whether nothing has overtaken the observation with this text."""
        return self.numbers[content] not in self.overtaken


def said_at(message: Row) -> datetime:
    return datetime.fromisoformat(message["created_at"])


def recorded(folder: Path = INVENTED) -> list[Conversations]:
    texts = json.loads((folder / "formed" / "texts.json").read_text("utf-8"))
    in_texts = json.loads((folder / "in_texts.json").read_text("utf-8"))
    asked = [row for name in ("questions", "tasks") for row in lines(folder / f"{name}.jsonl")]
    translated = {row["id"]: {"de": row["de"], "es": row["es"]} for row in lines(folder / "translated.jsonl")}
    return [
        Conversations(
            name,
            lines(folder / f"{name}.jsonl"),
            lines(folder / "formed" / f"{name}.obs.jsonl"),
            texts[name],
            [_question(row, in_texts, translated) for row in asked if row["file"] == name],
        )
        for name in texts
    ]


def _question(row: Row, in_texts: Mapping[str, Any], translated: Mapping[str, Mapping[str, str]]) -> Question:
    return Question(
        id=row["id"],
        asker=row["asker"],
        kind=row["kind"],
        text=row["question"],
        evidence=frozenset(row["evidence"]),
        stale=frozenset(row["stale"]),
        in_text=in_texts.get(row["id"]) is True,
        translations=translated.get(row["id"], {}),
    )


@dataclass(slots=True)
class RecordedModel:
    """Answers with what is recorded for the material, whatever the prompt says. Raises `RecordedError` otherwise."""

    conversations: Conversations
    unplaced: list[int] = field(default_factory=list)  # lines that overtake what they aren't shown beside
    compared: list[tuple[int, int]] = field(default_factory=list)  # earlier and later lines, in rechecks
    _heard: defaultdict[str, set[int]] = field(
        default_factory=lambda: defaultdict(set)
    )  # by scope, what was shown as new

    async def generate(self, request: Request[T]) -> Answer[T]:
        if isinstance(request.material, ExtractionTask):
            answer: Row = self._formed(request.material)
        elif isinstance(request.material, ConsolidationTask):
            answer = self._consolidated(request.material)
        elif isinstance(request.material, RecheckTask):
            answer = self._compared(request.material)
        else:
            raise RecordedError(f"nothing is recorded for a {request.purpose}")
        raw = json.dumps(answer, ensure_ascii=False)
        return Answer(read(raw, request.output), raw, Usage("recorded"))

    def _formed(self, asked: ExtractionTask) -> Row:
        """The recorded observations of these messages, in lists by offered scope."""
        heard = [self._message(turn.said_at) for turn in asked.turns]
        turn_of = {message["id"]: turn.n for message, turn in zip(heard, asked.turns, strict=True)}
        handles = {
            message["user_id"]: handle
            for message, handle in zip(heard, handles_of(asked.turns), strict=True)
            if "user_id" in message
        }
        found: dict[str, list[Row]] = {scope.alias: [] for scope in asked.scopes}
        for row in self.conversations.observations:
            if turn_of.keys() >= set(row["sources"]):
                alias = _alias(row["scope"], asked.scopes, handles)
                found[alias].append(
                    {
                        "content": row["content"],
                        "sources": [turn_of[source] for source in row["sources"]],
                        "about": [handles[name] for name in row["about"] if name in handles],
                        "terms": row["terms"],
                    }
                )
        return found

    def _message(self, at: datetime) -> Row:
        if at not in self.conversations.by_time:
            raise RecordedError(f"nothing was said at {at}")
        return self.conversations.by_time[at]

    def _consolidated(self, asked: ConsolidationTask) -> Row:
        """What of the scope's last text is known by now, and which of the observations shown are superseded."""
        scope = f"{asked.kind}:{(asked.whose or '').casefold()}"
        if scope not in self.conversations.texts:
            raise RecordedError(f"no text of {scope} is recorded")
        new = {self._number(item.text): f"n{item.n}" for item in asked.observations}
        self._heard[scope].update(new)
        known = {self._number(item.text): f"k{item.n}" for item in asked.known}
        text = self._text(scope, asked) or asked.by_rule().text
        return {
            "text": text,
            "contradictions": list(self._contradictions(new, {**known, **new})),
            "left_out": list(_left_out(text, asked)),
        }

    def _text(self, scope: str, asked: ConsolidationTask) -> str:
        """Of the last text what can be known by now.

        These are the sentences of which nearly all words have been heard and whose figures are shown; for a figure of the
        others, what holds it until they can be written.
        """
        last = sentences(self.conversations.texts[scope])
        heard = {word for n in self._heard[scope] for word in words_of(self.conversations.observations[n]["content"])}
        material = [*sentences(asked.current or ""), *(item.text for item in (*asked.known, *asked.observations))]
        shown = [Source(item.text, item.observed_at) for item in (*asked.observations, *asked.known)]
        shown = [Source(asked.current or ""), *shown, Source(asked.whose or "")]  # as they are checked
        known = [
            part
            for part in last
            if _is_heard(part, heard) and ungrounded_in([part], shown, (), asked.now, UTC) == [([], 0)]
        ]
        waiting = {word for part in last if part not in known for word in figures_of(part)}
        kept = list(known)
        for text in material:
            if waiting & figures_of(text) and len(" ".join((*kept, text)).split()) <= asked.max_words:
                kept.append(text)
                waiting -= figures_of(text)
        return " ".join(kept)

    def _contradictions(self, new: Mapping[int, str], shown: Mapping[int, str]) -> Iterator[Row]:
        for newer, reference in new.items():
            for older in self.conversations.observations[newer]["overtakes"]:
                if older in shown:
                    was = self.conversations.observations[older]["content"]
                    yield {"newer": reference, "older": shown[older], "was": was}
                else:
                    self.unplaced.append(newer)

    def _compared(self, asked: RecheckTask) -> Row:
        """Which of the pairs are of an observation and one that it overtakes."""
        pairs = list[Row]()
        for n, pair in enumerate(asked.pairs, 1):
            later, earlier = self._number(pair.later.content), self._number(pair.earlier.content)
            self.compared.append((earlier, later))
            if earlier in self.conversations.observations[later]["overtakes"]:
                pairs.append({"pair": n, "is": "contradicts", "was": pair.earlier.content, "now": pair.later.content})
        return {"pairs": pairs}

    def _number(self, content: str) -> int:
        if content not in self.conversations.numbers:
            raise RecordedError("an observation isn't one of those recorded")
        return self.conversations.numbers[content]


def _left_out(text: str, asked: ConsolidationTask) -> Iterator[Row]:
    """The new observations that the text doesn't tell; those that it tells in other words are said to be repeated.

    What is more than may be slight at a time waits for the next text.
    """
    words = set(words_of(text))
    room = SLIGHT_INPUTS * sum(len(item.text.split()) for item in asked.observations)
    for item in asked.observations:
        if item.text.rstrip(".") in text:
            continue
        is_slight = not _is_heard(item.text, words)
        room -= len(item.text.split()) if is_slight else 0
        if room > 0 or not is_slight:
            yield {"what": f"n{item.n}", "why": "slight" if is_slight else "repeated"}


def figures_of(text: str) -> set[str]:
    return {word for word in words_of(text) if any(char.isdigit() for char in word)}


def _is_heard(sentence: str, heard: Collection[str]) -> bool:
    words = words_of(sentence)
    return sum(word not in heard for word in words) <= UNHEARD * len(words)


def _alias(scope: str, offered: Sequence[OfferedScope], handles: Mapping[str, str]) -> str:
    """The alias under which a scope (`individual:ID`, `group:ID`) is offered."""
    kind, _, owner = scope.partition(":")
    aliases = {one.alias for one in offered if one.kind == kind}
    for alias in (kind, f"{kind}_{handles.get(owner)}", f"{kind}_1"):
        if alias in aliases:
            return alias
    raise RecordedError(f"{scope} isn't among the scopes offered")
