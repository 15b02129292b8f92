"""Validated requests to context, digest and search."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from memory_sql.config import ContextFormat

Who = Mapping[str, Any]  # agent_id, user_id and conversation_id


@dataclass(frozen=True, slots=True)
class _Asking:
    """Who asks for what, and when. `as_of`: what was known at that moment."""

    principal: Who
    text: str
    now: datetime
    as_of: datetime | None = None


@dataclass(frozen=True, slots=True)
class Turn(_Asking):
    """A turn of a conversation that needs context; `text` is its message, or the query of a digest.

    `retrieve` None: show what was found if it answers the message. `layout` and `max_tokens` None: as the settings say.
    `own`: settings of this call, which override those of the agent.
    """

    retrieve: bool | None = None
    layout: ContextFormat | None = None
    max_tokens: int | None = None
    own: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Question(_Asking):
    """A search for at most that many observations and messages (0: none).

    `semantic` None: also by meaning if vectors are on. `superseded`: also superseded observations. `explain`: with an
    explanation of each hit; `plan`: with the query plan.
    """

    observations: int = 0
    messages: int = 0
    semantic: bool | None = None
    superseded: bool = False
    explain: bool = False
    plan: bool = False
