"""Conversations that were played with a team, and a model with handwritten answers for them.

They are beside the checkout (`../shared/data/played`): `team-1`, `private-nadia` and `team-2`, in this order, and what a
strong model once answered to an older prompt (`answers.jsonl`), in fewer and longer observations.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel

from memory_sql.errors import LanguageModelError
from memory_sql.formation.task import ExtractionTask
from memory_sql.languages.text import count_tokens
from memory_sql.llm import Answer, LanguageModel, Request, Usage
from memory_sql.llm.answers import read

T = TypeVar("T", bound=BaseModel | str)
FOLDER = Path(__file__).parents[2] / "shared" / "data" / "played"
WRITTEN = Path(__file__).with_name("extraction_modes.jsonl")
WRITTEN_FOR = "extraction@4+e4999b14"  # the prompt that the author of the answers read
CONVERSATIONS = ("team-1", "private-nadia", "team-2")

Messages = Sequence[Mapping[str, Any]]
Answers = Mapping[tuple[str, frozenset[str]], str]


class PlayedError(Exception):
    """There are no conversations, or a call has no written answer."""


def conversations_of(folder: Path) -> dict[str, Messages]:
    """By name, in order. Raises `PlayedError`."""
    try:
        return {name: lines(folder / f"{name}.jsonl") for name in CONVERSATIONS}
    except FileNotFoundError as error:
        raise PlayedError(
            f"{Path(error.filename).name} isn't there: it needs the material beside the checkout"
        ) from error


def written(path: Path = WRITTEN) -> Answers:
    """By conversation and the scopes that a call offers."""
    return {(row["of"], frozenset(row["answer"])): json.dumps(row["answer"], ensure_ascii=False) for row in lines(path)}


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


@dataclass(frozen=True, slots=True)
class Call:
    """One call: the scopes that it offered, the texts that it showed of each, and what was sent."""

    conversation: str
    knows: Mapping[str, Sequence[str]]
    sent: str
    instructions_tokens: int
    prompt_version: str
    usage: Usage

    @property
    def foreign(self) -> int:
        """How many of other scopes' remembered texts the model saw while writing for a scope, summed over the scopes."""
        shown = sum(map(len, self.knows.values()))
        return sum(shown - len(own) for own in self.knows.values())


@dataclass(slots=True)
class Recording:
    """Wraps a model and records each call."""

    model: LanguageModel
    conversations: Mapping[str, Messages]
    calls: list[Call] = field(default_factory=list)

    async def generate(self, request: Request[T]) -> Answer[T]:
        try:
            answer = await self.model.generate(request)
        except LanguageModelError as error:  # it was paid for nevertheless
            self._note(request, error.usage if isinstance(error.usage, Usage) else Usage(""))
            raise
        self._note(request, answer.usage)
        return answer

    def _note(self, request: Request[Any], usage: Usage) -> None:
        asked = task_of(request)
        knows = {scope.alias: scope.knows for scope in asked.scopes}
        sent, ours = f"{request.instructions}\n{request.prompt}", count_tokens(request.instructions)
        self.calls.append(Call(_name(asked, self.conversations), knows, sent, ours, request.prompt_version, usage))


@dataclass(frozen=True, slots=True)
class Written:
    """Tokens are estimated, as wherever no provider counts them."""

    conversations: Mapping[str, Messages]
    answers: Answers

    async def generate(self, request: Request[T]) -> Answer[T]:
        asked = task_of(request)
        name, offered = _name(asked, self.conversations), [scope.alias for scope in asked.scopes]
        raw = self.answers.get((name, frozenset(offered)))
        if raw is None:
            raise PlayedError(f"nobody has written an answer for {name}, {', '.join(offered)}")
        sent = count_tokens(request.instructions) + count_tokens(request.prompt)
        return Answer(read(raw, request.output), raw, Usage("written", sent, count_tokens(raw)))


def task_of(request: Request[Any]) -> ExtractionTask:
    assert isinstance(request.material, ExtractionTask)
    return request.material


def _name(asked: ExtractionTask, conversations: Mapping[str, Messages]) -> str:
    return next(name for name, said in conversations.items() if said[0]["content"] == asked.turns[0].text)


# Results


@dataclass(frozen=True, slots=True)
class Stored:
    """A stored observation: its scope, and the numbers of the messages of a conversation that it was made from.

    What an extraction assigned to other scopes is `… (proposed)` in the scope of whoever said it.
    """

    conversation: str
    place: str
    content: str
    numbers: frozenset[int]


@dataclass(frozen=True, slots=True)
class Fact:
    """Something worth keeping in a message, identified by a word, and where it belongs: judged by hand."""

    conversation: str
    number: int
    word: str
    places: frozenset[str]

    def is_in(self, stored: Stored) -> bool:
        here = self.conversation == stored.conversation and self.number in stored.numbers
        return here and self.word in stored.content.casefold()


def _facts(conversation: str, *said: tuple[int, str, str]) -> list[Fact]:
    return [Fact(conversation, number, word, frozenset(places.split("/"))) for number, word, places in said]


FACTS = (
    *_facts(
        "team-1",
        (1, "lead", "nadia/tern"), (1, "backend", "tern/piet"), (3, "ship", "tern"), (3, "marketing", "tern"),
        (4, "rest", "tern"), (4, "plan", "tern/piet"), (4, "postgres", "tern, infra"), (5, "surgery", "lena"),
        (7, "freeze", "tern"), (8, "friday", "tern, infra"), (9, "figma", "tern"), (9, "icon", "tern"),
        (10, "table-driven", "piet"), (10, "repeat", "piet"), (12, "bullet", "nadia"), (13, "joost", "tern"),
        (13, "offline", "tern"), (14, "50 mb", "tern"), (14, "wal", "piet (proposed)"), (15, "vegetarian", "lena"),
        (17, "utrecht", "tern"), (17, "budget", "tern"), (23, "ingest", "piet/tern"), (23, "design system", "tern"),
        (23, "sign", "tern"), (24, "six", "lena (proposed)"), (25, "meeting", "tern"),
    ),
    *_facts(
        "private-nadia",
        (1, "ship", "nadia (proposed)/nadia"), (1, "marketing", "nadia (proposed)/nadia"), (3, "friendly", "nadia"),
        (3, "wiki", "nadia (proposed)/nadia"), (3, "knee", "nadia, health"), (5, "vpn", "nadia (proposed)/nadia"),
    ),
    *_facts(
        "team-2",
        (1, "05-08", "tern"), (1, "freeze", "tern"), (1, "harbour", "tern"), (2, "subtest", "piet"),
        (3, "12-14", "lena"), (5, "postgres", "tern, infra"), (5, "friday", "tern, infra"), (6, "sentences", "nadia"),
    ),
)  # fmt: skip


def earlier(folder: Path) -> list[Stored]:
    """The answers to the older prompt, each in the scope by its name there."""
    answers = {row["of"]: row["answer"] for row in lines(folder / "answers.jsonl") if row["kind"] == "formation"}
    return [
        Stored(name, alias, item["content"], frozenset(item["sources"]))
        for name, lists in answers.items()
        for alias, items in lists.items()
        for item in items
    ]
