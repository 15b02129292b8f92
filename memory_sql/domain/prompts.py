"""A scope's own prompts."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from memory_sql.config.kinds import PromptMode, PromptName
from memory_sql.domain.ids import Value
from memory_sql.domain.layer import ScopeRef


class ScopePrompt(Value):
    """A version of a scope's own prompt; the newest of each name applies. `body` None: the base prompt alone."""

    scope: ScopeRef
    name: PromptName
    version: int
    mode: PromptMode
    body: str | None
    created_at: datetime


@dataclass(frozen=True, slots=True)
class OwnWords:
    """The version that applies: guidance beside the base prompt, or instructions that replace the base prompt's."""

    version: int
    guidance: str | None = None
    instructions: str | None = None

    def told(self, scope_id: int) -> str:
        """The name in runs and versions of texts, beside the version of the base prompt."""
        return f"s{scope_id}.{self.version}"


def own_words(newest: dict[str, Any] | None) -> OwnWords | None:
    """From the newest version as stored; None if there is none, or it goes back to the base prompt."""
    if newest is None or newest["mode"] == "base":
        return None
    is_override = newest["mode"] == "override"
    return OwnWords(
        newest["version"],
        guidance=None if is_override else newest["body"],
        instructions=newest["body"] if is_override else None,
    )
