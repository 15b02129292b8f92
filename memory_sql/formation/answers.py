"""What is asked for in an extraction, and what comes back: for each scope the observations that the model finds.

And what people ask of the memory itself: to forget or to correct something.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, datetime
from functools import cached_property, lru_cache
from typing import Any, ClassVar, Literal, Self, TypeVar, get_args

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

from memory_sql.config.kinds import CATEGORIES, EXTRA_CATEGORIES, Lane
from memory_sql.domain.prompts import OwnWords
from memory_sql.llm.answers import AlsoRead

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Turn:
    """`n` counts from 1 within the call; it is the only name by which the model can point at a message.

    `person` is who spoke, by a name of ours for this call; None where only one person speaks, who is P1 then.
    `conversation`: in which one, where a call shows several. `signals`: it asks to be remembered, by the rules.
    """

    n: int
    role: str
    speaker: str
    said_at: datetime
    text: str
    person: str | None = None
    conversation: int = 0
    signals: bool = False


def handles_of(turns: Iterable[Turn]) -> list[str]:
    """By what the prompt calls who spoke."""
    others = {"user": "", "tool": "T", "function": "T"}
    return [others.get(turn.role, "A") or turn.person or "P1" for turn in turns]


@dataclass(frozen=True, slots=True)
class OfferedScope:
    """A scope that the model may choose, by its alias; `knows` is what it holds already.

    An `isolated` one is asked about in a call of its own, which shows the text of no other scope, nor others this one's.
    `words`: what it says to the model itself, and `told`, how a run names that; `model`: which one it is asked of. `name`: of
    one beside its owner's main scope; `handle`: by what the prompt calls whose it is.
    """

    alias: str
    kind: str
    knows: tuple[str, ...] = ()
    words: OwnWords | None = None
    told: str = ""
    min_items: int = 0
    max_items: int | None = None
    max_words: int | None = None
    display_name: str | None = None
    isolated: bool = False
    model: str | None = None
    lane: Lane = "absorb"
    name: str = ""
    handle: str = ""


Private = Literal["no", "confidence", "personal"]
PRIVATE: tuple[Private, ...] = get_args(Private)
Sure = Literal["said", "implied", "guessed"]
_DAY = re.compile(r"\d{4}-\d\d-\d\d")
_UNTIL = re.compile(rf"(?<!not )\buntil\W+({_DAY.pattern})(?![\w:-])")


def _said_by(label: str) -> dict[str, str]:
    """What a label like "implied commitment until 2026-12-24" says, in any order. What it says twice is unclear."""
    words = re.findall(r"\w+", label.casefold())
    known = {"category": (*CATEGORIES, *EXTRA_CATEGORIES), "sure": get_args(Sure)}
    found = {name: {*words} & {*values} for name, values in known.items()}
    found["until"] = {*_UNTIL.findall(label.casefold())} and {*_DAY.findall(label)}
    return {name: values.pop() for name, values in found.items() if len(values) == 1}


def _one_of(value: object, known: Collection[str]) -> object:
    said = value.strip().casefold() if isinstance(value, str) else None
    return said if said in known else None


class Finding(BaseModel):  # no docstring: it would go into the schema, and so to the model
    # How important an observation is and who may see it isn't the model's to say.
    model_config = ConfigDict(extra="ignore")

    content: str
    sources: list[int] = Field(default_factory=list)
    about: list[str] = Field(default_factory=list)
    private: Private | None = None
    terms: list[str] = Field(default_factory=list)

    @field_validator("private", mode="before")
    @classmethod
    def _only_known(cls, value: object) -> object:
        said = value.strip().casefold() if isinstance(value, str) else value
        if isinstance(said, bool):
            return "personal" if said else "no"
        return said if said in PRIVATE else None

    @field_validator("sources", mode="before")
    @classmethod
    def _only_numbers(cls, value: object) -> object:
        return _numbers(value)

    @field_validator("about", "terms", mode="before")
    @classmethod
    def _only_texts(cls, value: object) -> object:
        return [text for text in value if isinstance(text, str)] if isinstance(value, list) else []


class Labelled(Finding):
    # As it is asked for: one field, since each name costs as much as what it says.
    label: str = ""


class ClassifiedFinding(Finding):
    # As it is read. What can't be read is as if it weren't there: nobody may take a default for knowledge.
    category: str | None = None
    sure: Sure | None = None
    until: str | None = None
    topics: list[str] = Field(default_factory=list)

    @model_validator(mode="before")
    @classmethod
    def _by_label(cls, value: object) -> object:
        # What has the three fields of their own was stored so, or answers an older prompt.
        label = value.get("label") if isinstance(value, dict) else None
        return _said_by(label) | value if isinstance(label, str) and isinstance(value, dict) else value

    @field_validator("topics", mode="before")
    @classmethod
    def _only_topics(cls, value: object) -> object:
        return [text for text in value if isinstance(text, str)] if isinstance(value, list) else []

    @field_validator("category", mode="before")
    @classmethod
    def _only_categories(cls, value: object) -> object:
        return _one_of(value, (*CATEGORIES, *EXTRA_CATEGORIES))

    @field_validator("sure", mode="before")
    @classmethod
    def _only_degrees(cls, value: object) -> object:
        return _one_of(value, get_args(Sure))

    @field_validator("until", mode="before")
    @classmethod
    def _only_days(cls, value: object) -> object:
        said = value.strip() if isinstance(value, str) else ""
        with suppress(ValueError):
            return date.fromisoformat(said).isoformat() if _DAY.fullmatch(said) else None
        return None


class ExtractedObservation(ClassifiedFinding):
    """`scope`: an alias, or what the model wrote in its place."""

    scope: str | None = None


class Asking(BaseModel):  # no docstring: it would go into the schema, and so to the model
    # A person asks the memory itself. Whose it may touch isn't the model's to say.
    model_config = ConfigDict(extra="ignore")

    kind: Literal["forget", "correct"]
    what: str
    sources: list[int]

    @field_validator("sources", mode="before")
    @classmethod
    def _only_numbers(cls, value: object) -> object:
        return _numbers(value)


def _numbers(value: object) -> list[int]:
    return [n for n in value if isinstance(n, int) and not isinstance(n, bool)] if isinstance(value, list) else []


@dataclass(frozen=True, slots=True)
class Extraction:
    """What an answer says. `missing`: the offered scopes that it has no list for; `unknown`: what was for no such scope.

    `garbled`: those of the missing ones for which it has something else than a list of observations.
    """

    observations: tuple[ExtractedObservation, ...] = ()
    missing: tuple[str, ...] = ()
    unknown: int = 0
    garbled: tuple[str, ...] = ()
    requests: tuple[Asking, ...] = ()

    def __add__(self, other: Extraction) -> Extraction:
        """What two calls brought together; nothing is missing."""
        return Extraction(
            self.observations + other.observations,
            unknown=self.unknown + other.unknown,
            requests=self.requests + other.requests,
        )

    def only(self, keep: Callable[[ExtractedObservation], bool]) -> Extraction:
        """Without the others, which are counted as unknown."""
        kept = tuple(filter(keep, self.observations))
        unknown = self.unknown + len(self.observations) - len(kept)
        return Extraction(kept, self.missing, unknown, requests=self.requests)

    @property
    def as_json(self) -> str:
        """An answer that reads as this again: the flat list, and a key without meaning for each that was unknown."""
        lists = {FLAT: [item.model_dump(exclude=None if item.topics else {"topics"}) for item in self.observations]}
        if self.requests:
            lists[REQUESTS] = [one.model_dump() for one in self.requests]
        return json.dumps(lists | {f"?{n}": None for n in range(self.unknown)}, ensure_ascii=False)


FLAT, REQUESTS = "observations", "requests"
_FINDINGS = TypeAdapter(list[ClassifiedFinding])
_FLAT_LIST = TypeAdapter(list[ExtractedObservation])


class ExtractionAnswer(RootModel[dict[str, Any]], AlsoRead):
    """An object that has, under the alias of each scope that was offered, the list of its observations.

    Models write other things all the same. One flat list in which each observation names its scope is as good. A scope
    whose list is absent or malformed is missing and harms no other; where there is no list at all, the answer is wrong.
    """

    offered: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def in_form(cls, value: object) -> object:
        """Findings alone, in a list or under a name of the model's; whose they are is then decided by who said it."""
        asked = {name: value[name] for name in (REQUESTS,) if name in value} if isinstance(value, dict) else {}
        if isinstance(value, dict) and len(value) == 1 + len(asked):
            (value,) = (one for name, one in value.items() if name not in asked)
        items = [value] if _is_finding(value) else value
        if not isinstance(items, list) or not items or not all(map(_is_finding, items)):
            return None
        whose = items if len(cls.offered) > 1 else [{"scope": alias} | one for one in items for alias in cls.offered]
        return {FLAT: whose, **asked}

    @cached_property
    def extraction(self) -> Extraction:
        flat = _read(_FLAT_LIST, self.root.get(FLAT))
        empty = {alias for alias in self.offered if self.root.get(alias, ...) is None}
        lists = {alias: [] if alias in empty else _read(_FINDINGS, self.root.get(alias)) for alias in self.offered}
        listed = [
            ExtractedObservation.model_construct(scope=alias, **vars(item))
            for alias, items in lists.items()
            for item in items or ()
        ]
        missing = [alias for alias, items in lists.items() if items is None and flat is None]
        garbled = tuple(alias for alias in missing if alias in self.root)
        unknown = len(self.root.keys() - {FLAT, REQUESTS, *self.offered})
        asked = tuple(_requests(self.root.get(REQUESTS)))
        return Extraction((*(flat or ()), *listed), tuple(missing), unknown, garbled, asked)

    @model_validator(mode="after")
    def _has_a_list(self) -> Self:
        if self.extraction.missing == self.offered:
            raise PydanticCustomError("no_list_of_observations", "no scope has a list of observations")
        return self


def _is_finding(value: object) -> bool:
    return isinstance(value, dict) and isinstance(value.get("content"), str)


def _read(shape: TypeAdapter[T], value: object) -> T | None:
    """None where it has another shape: what that means is for the whole answer to say."""
    try:
        return shape.validate_python([value] if _is_finding(value) else value)
    except ValidationError:
        return None


def _requests(value: object) -> Iterator[Asking]:
    """Those that can be read: one that can't harms nothing else."""
    for one in value if isinstance(value, list) else ():
        with suppress(ValidationError):
            yield Asking.model_validate(one)


@lru_cache(maxsize=256)
def answer_for(aliases: tuple[str, ...], *, classified: bool = False, topics: bool = False) -> type[ExtractionAnswer]:
    """The answer that offers these scopes; its schema has one list for each, one of requests, and nothing else.

    `classified`: what an observation is, is asked for as well; `topics`: what it is about.
    """
    finding: type[Finding] = Labelled if classified else Finding
    if topics:
        finding = create_model(finding.__name__, __base__=finding, topics=(list[str], Field(default_factory=list)))
    lists: dict[str, Any] = {**dict.fromkeys(aliases, (list[finding], ...)), REQUESTS: (list[Asking], ...)}
    shape = create_model("Extraction", **lists)

    class Extraction(ExtractionAnswer):
        offered = aliases

        @classmethod
        def model_json_schema(cls, *args: Any, **options: Any) -> dict[str, Any]:
            return shape.model_json_schema(*args, **options)

    return Extraction
