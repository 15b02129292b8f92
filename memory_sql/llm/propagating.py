"""What is asked of a language model in a propagation: for each claim and wider scope whether it should be known there.

The model's word only counts against a claim: what may be shown to it, and what of its answer may be stored, is for rules.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from memory_sql.llm import Request, prompts
from memory_sql.llm.tasks import as_data, as_line, minute_of


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
        """Which of the three criteria isn't met."""
        if self.personal:
            return "personal"
        if not self.general:
            return "not_general"
        return None if self.valuable and self.text.strip() else "not_valuable"


class PropagationAnswer(BaseModel):
    model_config = ConfigDict(extra="ignore")

    decisions: Sequence[Decision] = Field(default_factory=list)

    @field_validator("decisions", mode="before")
    @classmethod
    def _as_far_as_they_can_be_read(cls, value: object) -> object:
        """One that can't be read decides nothing, and so what it is about stays where it is."""
        read = (_read(item) for item in value) if isinstance(value, list) else ()
        return [item for item in read if item is not None]


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
    """`n` counts from 1 within the call. `also`: what others say that claims the same."""

    n: int
    text: str
    observed_at: datetime
    to: tuple[str, ...]
    also: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PropagationTask:
    claims: tuple[Claim, ...]
    targets: tuple[OfferedTarget, ...]
    now: datetime

    def request(self, model: str, wrong: str | None = None) -> Request[PropagationAnswer]:
        """`wrong`: why the answer can't be used that is asked for again."""
        prompt, boundary = prompts.load("propagation"), secrets.token_hex(16)
        instructions, text = prompt.render(
            targets="\n".join(map(_target, self.targets)),
            claims="\n".join(map(_claim, self.claims)),
            boundary=boundary,
            now=minute_of(self.now),
            repair=f"A first answer could not be used: {wrong}. Answer again, in that form." if wrong else "",
        )
        return Request("propagation", model, instructions, text, PropagationAnswer, self, prompt.version, boundary)


def _target(target: OfferedTarget) -> str:
    if target.kind == "group":
        return f"- {target.alias}: the shared work of the group {as_data(target.display_name or 'without a name')}"
    return f"- {target.alias}: lessons that help anybody, in any group"


def _claim(claim: Claim) -> str:
    also = {"also": list(claim.also)} if claim.also else {}
    return as_line(
        {"n": claim.n, "to": list(claim.to), "observed_at": minute_of(claim.observed_at), "text": claim.text, **also}
    )
