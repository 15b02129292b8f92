"""The two things asked of a language model, extraction and consolidation: what goes in, what comes out, how it is put.

What people wrote is data: turns go in as JSON, between marks that nobody can guess, so that a text can neither pose
as a turn nor end its own fence.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property, lru_cache
from typing import Any, ClassVar, Self, TypeVar

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    RootModel,
    TypeAdapter,
    ValidationError,
    create_model,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticCustomError

from memory_sql.languages.text import one_line
from memory_sql.llm import Request, prompts
from memory_sql.llm.answers import SaidInProse

T = TypeVar("T")

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


class Finding(BaseModel):  # no docstring: it would go into the schema, and so to the model
    # What an observation is worth and who may see it isn't the model's to say.
    model_config = ConfigDict(extra="ignore")

    content: str
    sources: list[int] = Field(default_factory=list)

    @field_validator("sources", mode="before")
    @classmethod
    def _only_numbers(cls, value: object) -> object:
        return [n for n in value if isinstance(n, int) and not isinstance(n, bool)] if isinstance(value, list) else []


class ExtractedObservation(Finding):
    """`scope`: an alias, or what the model wrote in its place."""

    scope: str | None = None


@dataclass(frozen=True, slots=True)
class Extraction:
    """What an answer says. `missing`: the offered scopes that it has no list for; `unknown`: what was for no such scope."""

    observations: tuple[ExtractedObservation, ...] = ()
    missing: tuple[str, ...] = ()
    unknown: int = 0

    def __add__(self, other: Extraction) -> Extraction:
        """What two calls brought together; nothing is missing."""
        return Extraction(self.observations + other.observations, unknown=self.unknown + other.unknown)

    def only(self, keep: Callable[[ExtractedObservation], bool]) -> Extraction:
        """Without the others, which are counted as unknown."""
        kept = tuple(filter(keep, self.observations))
        return Extraction(kept, self.missing, self.unknown + len(self.observations) - len(kept))

    @property
    def as_json(self) -> str:
        """An answer that reads as this again: the flat list, and a key without meaning for each that was unknown."""
        items = [item.model_dump() for item in self.observations]
        return json.dumps({FLAT: items} | {f"?{n}": None for n in range(self.unknown)}, ensure_ascii=False)


FLAT = "observations"
_FINDINGS = TypeAdapter(list[Finding])
_FLAT_LIST = TypeAdapter(list[ExtractedObservation])


class ExtractionAnswer(RootModel[dict[str, Any]]):
    """An object that has, under the alias of each scope that was offered, the list of its observations.

    Models write other things all the same. One flat list in which each observation names its scope is as good. A scope
    whose list is absent or malformed is missing and harms no other; where there is no list at all, the answer is wrong.
    """

    offered: ClassVar[tuple[str, ...]] = ()

    @cached_property
    def extraction(self) -> Extraction:
        flat = _read(_FLAT_LIST, self.root.get(FLAT))
        lists = {alias: _read(_FINDINGS, self.root.get(alias)) for alias in self.offered}
        listed = [
            ExtractedObservation(content=item.content, sources=item.sources, scope=alias)
            for alias, items in lists.items()
            for item in items or ()
        ]
        missing = [alias for alias, items in lists.items() if items is None and flat is None]
        return Extraction((*(flat or ()), *listed), tuple(missing), len(self.root.keys() - {FLAT, *self.offered}))

    @model_validator(mode="after")
    def _has_a_list(self) -> Self:
        if self.extraction.missing == self.offered:
            raise PydanticCustomError("no_list_of_observations", "no scope has a list of observations")
        return self


def _read(shape: TypeAdapter[T], value: object) -> T | None:
    """None where it has another shape: what that means is for the whole answer to say."""
    try:
        return shape.validate_python(value)
    except ValidationError:
        return None


@lru_cache(maxsize=256)
def answer_for(aliases: tuple[str, ...]) -> type[ExtractionAnswer]:
    """The answer that offers these scopes; its schema has one list for each and nothing else."""
    lists: dict[str, Any] = dict.fromkeys(aliases, (list[Finding], ...))
    shape = create_model("Extraction", **lists)

    class Extraction(ExtractionAnswer):
        offered = aliases

        @classmethod
        def model_json_schema(cls, *args: Any, **options: Any) -> dict[str, Any]:
            return shape.model_json_schema(*args, **options)

    return Extraction


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

    contradictions: Sequence[NamedContradiction] = Field(default_factory=list)

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
    """A scope that the model may choose, by its alias; `knows` is what it holds already.

    An `isolated` one is asked about in a call of its own, which shows the text of no other scope, nor others this one's.
    """

    alias: str
    kind: str
    knows: tuple[str, ...] = ()
    guidance: str | None = None
    max_items: int | None = None
    max_words: int | None = None
    display_name: str | None = None
    isolated: bool = False


@dataclass(frozen=True, slots=True)
class ExtractionTask:
    turns: tuple[Turn, ...]
    scopes: tuple[OfferedScope, ...]
    max_items: int
    max_words: int
    now: datetime

    def request(self, model: str, wrong: str | None = None) -> Request[ExtractionAnswer]:
        """`wrong`: why the answer can't be used that is asked for again."""
        aliases = tuple(scope.alias for scope in self.scopes)
        prompt, boundary = prompts.load("extraction"), secrets.token_hex(16)
        instructions, text = prompt.render(
            scopes="\n".join(map(_offer, self.scopes)),
            memory="\n".join(_known(scope) for scope in self.scopes if scope.knows) or NOTHING_YET,
            conversation="\n".join(map(_turn, self.turns)),
            boundary=boundary,
            max_items=self.max_items,
            max_words=self.max_words,
            now=minute_of(self.now),
            nothing=json.dumps({alias: [] for alias in aliases}),
            repair=f"A first answer could not be used: {wrong}. Answer again, in that form, and briefly."
            if wrong
            else "",
        )
        return Request("extraction", model, instructions, text, answer_for(aliases), self, prompt.version, boundary)


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
            current=as_data(self.current) if self.current else NOTHING_YET,
            observations="\n".join(
                [as_line({"whose": self.whose or "everybody"}), *map(_observation, self.observations)]
            ),
            max_words=self.max_words,
            boundary=boundary,
            now=minute_of(self.now),
            guidance="\n".join(filter(None, (self.guidance, shorter))),
        )
        return Request("consolidation", model, instructions, text, ConsolidatedText, self, prompt.version, boundary)


def _offer(scope: OfferedScope) -> str:
    limits = [f"at most {scope.max_items} observations"] if scope.max_items is not None else []
    limits += [f"at most {scope.max_words} words each"] if scope.max_words is not None else []
    limit = f" ({', '.join(limits)})" if limits else ""
    guidance = f" What to look for: {one_line(scope.guidance)}" if scope.guidance else ""
    return f"- {scope.alias}: {_concern(scope)}{limit}.{guidance}"


def _concern(scope: OfferedScope) -> str:
    if scope.kind == "individual":
        return f"what concerns {scope.alias.partition('_')[2] or 'the user'} alone"
    if scope.kind == "group" and scope.display_name:
        return f"the shared work of the group {as_data(scope.display_name)}"
    return KINDS[scope.kind]


def _known(scope: OfferedScope) -> str:
    return as_line({"scope": scope.alias, "known": list(scope.knows)})


def _turn(turn: Turn) -> str:
    who = {"role": turn.role, "speaker": turn.speaker} | ({"person": turn.person} if turn.person else {})
    return as_line({"n": turn.n, **who, "at": minute_of(turn.said_at), "text": turn.text})


def _observation(item: NumberedText) -> str:
    return as_line({"n": item.n, "observed_at": minute_of(item.observed_at), "text": item.text})


def minute_of(moment: datetime) -> str:
    """With the offset of the zone that it is in, so that a day is the speaker's."""
    return f"{moment.isoformat(timespec='minutes').replace('+00:00', 'Z')} ({moment:%A})"


_MARKUP = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"})


def as_written(text: str) -> str:
    """The text without the escapes that are ours: models copy them where they write no JSON, or twice where they do."""
    for mark, escape in (("<", "\\u003c"), (">", "\\u003e"), ("&", "\\u0026")):
        text = text.replace(escape, mark)
    return text


def as_line(value: Mapping[str, Any]) -> str:
    """One JSON object in one line, in which nothing looks like markup."""
    return json.dumps(value, ensure_ascii=False).translate(_MARKUP)


def as_data(text: str) -> str:
    """A JSON string: no text of people's ends or begins anything around it."""
    return json.dumps(text, ensure_ascii=False).translate(_MARKUP)
