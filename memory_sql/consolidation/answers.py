"""What a consolidation asks for: a scope's new text, and what became of the rest."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from memory_sql.llm.answers import SaidInProse

_REFERENCE = re.compile(r"\s*([snk]?)\s*(\d{1,6})\s*", re.IGNORECASE)


def _reference(value: object) -> object:
    """`n3`; a bare number refers to a new observation."""
    if isinstance(value, int) and not isinstance(value, bool):
        return f"n{value}"
    found = _REFERENCE.fullmatch(value) if isinstance(value, str) else None
    return f"{found[1].lower() or 'n'}{int(found[2])}" if found else value


Reference = Annotated[str, BeforeValidator(_reference)]
"""An item of the prompt by its number there: `s1` a sentence of the text, `n1` a new observation, `k1` a known one."""


@dataclass(frozen=True, slots=True)
class NumberedText:
    n: int
    observed_at: datetime
    text: str


class Named(BaseModel):
    model_config = ConfigDict(extra="ignore")


def stated(value: object) -> object:
    """None for what small models write in the place of null; it costs no contradiction."""
    text = value.strip() if isinstance(value, str) else ""
    return text if text.casefold() not in ("", "null", "none") else None


class NamedContradiction(Named):
    """Observation `newer` says otherwise than `older`, a new or a known one, or (None) than the text so far.

    `still`: what else `older` says and still holds.
    """

    newer: Reference
    older: Reference | None = None
    was: str | None = None
    now: str = ""
    still: Annotated[str | None, BeforeValidator(stated)] = None


class NamedRepetition(Named):
    """Observation `n` says nothing beyond `same_as`, a new or a known one."""

    n: Reference
    same_as: Reference


class NamedLeftOut(Named):
    """`what`, a sentence of the text or a new observation, isn't kept; `by` is what overtakes or repeats it."""

    what: Reference
    why: Literal["overtaken", "repeated", "over", "slight"]
    by: Reference | None = None


class NamedFigure(Named):
    """A figure of the text that stands in one of these as the words `was`, or (None) a sum or rest of one figure of each."""

    figure: Annotated[str, BeforeValidator(lambda value: str(value) if isinstance(value, int | float) else value)]
    of: Sequence[Reference] = ()
    was: str | None = None


class ConsolidatedText(SaidInProse):
    """A scope's new text, what in it replaces or repeats something that was said before, and what it doesn't keep."""

    model_config = ConfigDict(extra="ignore")

    contradictions: Annotated[
        Sequence[NamedContradiction], BeforeValidator(lambda value: _readable(value, NamedContradiction))
    ] = Field(default_factory=list)
    same_as: Annotated[Sequence[NamedRepetition], BeforeValidator(lambda value: _readable(value, NamedRepetition))] = (
        Field(default_factory=list)
    )
    left_out: Annotated[Sequence[NamedLeftOut], BeforeValidator(lambda value: _readable(value, NamedLeftOut))] = Field(
        default_factory=list
    )
    figures: Annotated[Sequence[NamedFigure], BeforeValidator(lambda value: _readable(value, NamedFigure))] = Field(
        default_factory=list
    )


NOBODY = "n0"
_UNREADABLE: dict[type[Named], Named] = {
    NamedContradiction: NamedContradiction(newer=NOBODY),
    NamedRepetition: NamedRepetition(n=NOBODY, same_as=NOBODY),
    NamedLeftOut: NamedLeftOut(what=NOBODY, why="slight"),
    NamedFigure: NamedFigure(figure=""),
}
_Item = TypeVar("_Item", bound=Named)


def _readable(value: object, kind: type[_Item]) -> object:
    """Keeps a good text although a list is bad: an unreadable item refers to no observation and is refused for that."""
    return [_read(item, kind) for item in value] if isinstance(value, list | tuple) else []


def _read(item: object, kind: type[_Item]) -> object:
    try:
        return kind.model_validate(item)
    except ValidationError:
        return _UNREADABLE[kind]
