"""Reads conversations and the questions about them from a folder: `conv-*.jsonl` and `questions.jsonl`.

A line of a conversation is a message: `id`, `role`, `name` (the speaker), `content`, `created_at`, `session` (a number).
A line of the questions: `id`, `conv`, `category`, `question`, `evidence` (the ids of the messages that contain the
answer).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, get_args

CATEGORIES: Mapping[int, str] = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop", 5: "adversarial"}
ANSWERABLE = (1, 2, 3, 4)

Form = Literal["plain", "speaker", "date"]
FORMS: tuple[Form, ...] = get_args(Form)


class DataError(Exception):
    """The folder lacks something or has wrong contents."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One message. `session` is unique over all conversations."""

    id: str
    conversation: str
    session: str
    role: str
    speaker: str
    content: str
    said_at: datetime

    def text(self, form: Form) -> str:
        """The text for a store that keeps nothing else: the plain text, with its speaker, or also with the day."""
        if form == "plain":
            return self.content
        named = f"{self.speaker}: {self.content}"
        return named if form == "speaker" else f"[{self.said_at:%d %B %Y}] {named}"


@dataclass(frozen=True, slots=True)
class Question:
    id: str
    conversation: str
    category: int
    text: str
    evidence: frozenset[str]


@dataclass(frozen=True, slots=True)
class Dataset:
    """The turns of a conversation are in order. All questions have evidence."""

    turns: tuple[Turn, ...]
    questions: tuple[Question, ...]

    @property
    def conversations(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(turn.conversation for turn in self.turns))

    @property
    def sessions(self) -> Mapping[str, str]:
        """The session of each turn, by id."""
        return {turn.id: turn.session for turn in self.turns}

    def of(self, conversation: str) -> tuple[Turn, ...]:
        return tuple(turn for turn in self.turns if turn.conversation == conversation)


def read(folder: Path, limit: int | None = None) -> Dataset:
    """All turns, and the questions that have evidence; with `limit` only so many, evenly spread.

    Raises `DataError` if no question can be answered, or if evidence names a turn that doesn't exist.
    """
    turns = tuple(turn for path in sorted(folder.glob("conv-*.jsonl")) for turn in _turns(path))
    if not turns:
        raise DataError("the folder holds no turns (conv-*.jsonl)")
    questions = [_question(line) for line in _lines(folder / "questions.jsonl")]
    asked = spread([question for question in questions if question.evidence], limit)
    if not any(question.category in ANSWERABLE for question in asked):
        raise DataError("none of the questions can be answered")
    missing = {item for question in asked for item in question.evidence} - {turn.id for turn in turns}
    if missing:
        raise DataError(f"{len(missing)} pieces of evidence name no turn")
    return Dataset(turns, asked)


def spread(questions: Sequence[Question], limit: int | None) -> tuple[Question, ...]:
    """At most `limit` questions at even distances, so that every conversation keeps its share."""
    if limit is None or limit >= len(questions):
        return tuple(questions)
    return tuple(questions[n * len(questions) // limit] for n in range(limit))


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    if not path.is_file():
        raise DataError(f"the folder has no {path.name}")
    for line in path.read_text("utf-8").splitlines():
        yield json.loads(line)


def _turns(path: Path) -> Iterator[Turn]:
    for line in _lines(path):
        yield Turn(
            id=line["id"],
            conversation=path.stem,
            session=f"{path.stem}/{line['session']}",
            role=line["role"],
            speaker=line["name"],
            content=line["content"],
            said_at=datetime.fromisoformat(line["created_at"]),
        )


def _question(line: Mapping[str, Any]) -> Question:
    return Question(line["id"], line["conv"], line["category"], line["question"], frozenset(line["evidence"]))
