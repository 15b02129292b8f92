"""What is asked for in a consolidation, and what comes back: a scope's new text, and what it contradicts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from memory_sql.llm.answers import SaidInProse


@dataclass(frozen=True, slots=True)
class NumberedText:
    n: int
    observed_at: datetime
    text: str


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
