"""The two things asked of a language model, extraction and consolidation: what goes in, what comes out, how it is put.

What people wrote is data: turns go in as JSON, between marks that nobody can guess, so that a text can neither pose
as a turn nor end its own fence.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, WithJsonSchema, create_model, field_validator

from memory_sql.llm import Request, prompts
from memory_sql.llm.answers import SaidInProse
from memory_sql.text import one_line

NOTHING_YET = "(nothing yet)"
KINDS = {
    "individual": "what concerns one person alone",
    "group": "the shared work of that group",
    "collective": "lessons that help anybody",
    "session": "what matters in this conversation",
    "entity": "what is known about one thing or person",
    "agent": "what the agent has learnt about itself",
    "guideline": "how the agent should work",
}


class ExtractedObservation(BaseModel):
    """Other keys are ignored: what an observation is worth and who may see it isn't the model's to say."""

    model_config = ConfigDict(extra="ignore")

    content: str
    scope: str | None = None
    sources: list[int] = Field(default_factory=list)

    @field_validator("sources", mode="before")
    @classmethod
    def _only_numbers(cls, value: object) -> object:
        return [n for n in value if isinstance(n, int) and not isinstance(n, bool)] if isinstance(value, list) else []


class Extraction(BaseModel):
    model_config = ConfigDict(extra="ignore")

    observations: Sequence[ExtractedObservation]


@lru_cache(maxsize=256)
def _choosing(aliases: tuple[str, ...]) -> type[Extraction]:
    """`Extraction` whose schema lets the model choose among these scopes only; another one is still read, and refused."""
    scope = Annotated[str | None, WithJsonSchema({"type": "string", "enum": list(aliases)})]
    item = create_model("ExtractedObservation", __base__=ExtractedObservation, scope=(scope, None))
    return create_model("Extraction", __base__=Extraction, observations=(list[item], ...))


class NamedContradiction(BaseModel):
    """Observation `newer` says otherwise than observation `older`, or (None) than the text so far, by their numbers."""

    model_config = ConfigDict(extra="ignore")

    newer: int
    older: int | None = None
    was: str | None = None
    now: str = ""


class ConsolidatedText(SaidInProse):
    """A scope's new text, and what in it replaces something that was said before."""

    model_config = ConfigDict(extra="ignore")

    text: str
    contradictions: Sequence[NamedContradiction] = Field(default_factory=list)

    @classmethod
    def of_prose(cls, text: str) -> Self:
        return cls(text=text)

    @field_validator("contradictions", mode="before")
    @classmethod
    def _as_far_as_they_can_be_read(cls, value: object) -> object:
        """A good text isn't lost over them: what can't be read names no observation, and is refused as such."""
        return [_read_contradiction(item) for item in value] if isinstance(value, list) else []


def _read_contradiction(item: object) -> object:
    try:
        return NamedContradiction.model_validate(item)
    except ValidationError:
        return NamedContradiction(newer=0)


@dataclass(frozen=True, slots=True)
class Turn:
    """`n` counts from 1 within the call; it is the only name by which the model can point at a message.

    `person` is who spoke, by a name of ours for this call; None where only one person speaks.
    """

    n: int
    role: str
    speaker: str
    said_at: datetime
    text: str
    person: str | None = None


@dataclass(frozen=True, slots=True)
class OfferedScope:
    """A scope that the model may choose, by its alias; `knows` is what it holds already."""

    alias: str
    kind: str
    knows: tuple[str, ...] = ()
    guidance: str | None = None
    max_items: int | None = None
    max_words: int | None = None


@dataclass(frozen=True, slots=True)
class ExtractionTask:
    turns: tuple[Turn, ...]
    scopes: tuple[OfferedScope, ...]
    max_items: int
    max_words: int
    now: datetime

    def request(self, model: str) -> Request[Extraction]:
        prompt, boundary = prompts.load("extraction"), secrets.token_hex(16)
        instructions, text = prompt.render(
            scopes="\n".join(map(_offer, self.scopes)),
            memory="\n".join(_known(scope) for scope in self.scopes if scope.knows) or NOTHING_YET,
            conversation="\n".join(map(_turn, self.turns)),
            boundary=boundary,
            max_items=self.max_items,
            max_words=self.max_words,
            now=_minute(self.now),
        )
        output = _choosing(tuple(scope.alias for scope in self.scopes))
        return Request("extraction", model, instructions, text, output, self, prompt.version, boundary)


@dataclass(frozen=True, slots=True)
class NumberedText:
    n: int
    observed_at: datetime
    text: str


@dataclass(frozen=True, slots=True)
class ConsolidationTask:
    """`observations` are in the order in which they were observed. `limit` is in words."""

    kind: str
    whose: str | None
    current: str | None
    observations: tuple[NumberedText, ...]
    max_words: int
    now: datetime
    guidance: str | None = None

    def request(self, model: str, too_long: int | None = None) -> Request[ConsolidatedText]:
        """`too_long`: how many words the answer had that is asked for again."""
        prompt, boundary = prompts.load("consolidation"), secrets.token_hex(16)
        shorter = f"A first version had {too_long} words: too many. Keep what matters most." if too_long else ""
        instructions, text = prompt.render(
            scope=KINDS[self.kind],
            current=_data(self.current) if self.current else NOTHING_YET,
            observations="\n".join(
                [_json({"whose": self.whose or "everybody"}), *map(_observation, self.observations)]
            ),
            max_words=self.max_words,
            boundary=boundary,
            now=_minute(self.now),
            guidance="\n".join(filter(None, (self.guidance, shorter))),
        )
        return Request("consolidation", model, instructions, text, ConsolidatedText, self, prompt.version, boundary)


def _offer(scope: OfferedScope) -> str:
    limits = [f"at most {scope.max_items} observations"] if scope.max_items is not None else []
    limits += [f"at most {scope.max_words} words each"] if scope.max_words is not None else []
    limit = f" ({', '.join(limits)})" if limits else ""
    guidance = f" What to look for: {one_line(scope.guidance)}" if scope.guidance else ""
    person = scope.alias.partition(":")[2] or "the user"
    who = f"what concerns {person} alone" if scope.kind == "individual" else KINDS[scope.kind]
    return f"- {scope.alias}: {who}{limit}.{guidance}"


def _known(scope: OfferedScope) -> str:
    return _json({"scope": scope.alias, "known": list(scope.knows)})


def _turn(turn: Turn) -> str:
    who = {"role": turn.role, "speaker": turn.speaker} | ({"person": turn.person} if turn.person else {})
    return _json({"n": turn.n, **who, "at": _minute(turn.said_at), "text": turn.text})


def _observation(item: NumberedText) -> str:
    return _json({"n": item.n, "observed_at": _minute(item.observed_at), "text": item.text})


def _minute(moment: datetime) -> str:
    return f"{moment:%Y-%m-%dT%H:%MZ (%A)}"


_MARKUP = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"})


def as_written(text: str) -> str:
    """The text without the escapes that are ours: models copy them where they write no JSON, or twice where they do."""
    for mark, escape in (("<", "\\u003c"), (">", "\\u003e"), ("&", "\\u0026")):
        text = text.replace(escape, mark)
    return text


def _json(value: Mapping[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False).translate(_MARKUP)


def _data(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).translate(_MARKUP)
