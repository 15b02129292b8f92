"""What a propagation asks a language model: for each claim and wider scope, whether the claim should be known there.

The model can only refuse a claim. Rules decide what may be shown to it, and what may be stored of its answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from pydantic import BaseModel, ConfigDict, ValidationError, field_validator

from memory_sql.llm.answers import AlsoRead


class Decision(BaseModel):  # no docstring: it would go into the schema, and so to the model
    model_config = ConfigDict(extra="ignore", strict=True)

    n: int
    to: str
    personal: bool
    general: bool
    valuable: bool
    text: str = ""

    @property
    def refusal(self) -> str | None:
        """The first of the three criteria that isn't met."""
        if self.personal:
            return "personal"
        if not self.general:
            return "not_general"
        return None if self.valuable and self.text.strip() else "not_valuable"


class PropagationAnswer(AlsoRead):
    model_config = ConfigDict(extra="ignore")

    decisions: Sequence[Decision]

    @classmethod
    def in_form(cls, value: object) -> object:
        """Decisions alone, in a list or one of them."""
        items = [value] if _is_decision(value) else value
        is_list = isinstance(items, list) and bool(items) and all(map(_is_decision, items))
        return {"decisions": items} if is_list else None

    @field_validator("decisions", mode="before")
    @classmethod
    def _as_far_as_they_can_be_read(cls, value: object) -> object:
        """Ignores decisions that can't be read: their claims stay where they are."""
        read = (_read(item) for item in value) if isinstance(value, list) else ()
        return [item for item in read if item is not None]


def _is_decision(value: object) -> bool:
    return isinstance(value, dict) and {"n", "to"} <= value.keys()


def _read(item: object) -> Decision | None:
    try:
        return Decision.model_validate(item)
    except ValidationError:
        return None


@dataclass(frozen=True, slots=True)
class OfferedTarget:
    """A wider scope, by its alias in the call."""

    alias: str
    kind: str
    display_name: str | None = None


@dataclass(frozen=True, slots=True)
class Claim:
    """`n` counts from 1 within the call. `also`: other people's statements that claim the same."""

    n: int
    text: str
    observed_at: datetime
    to: tuple[str, ...]
    also: tuple[str, ...] = ()
