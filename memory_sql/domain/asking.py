"""What context, digest and search are asked for, checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from memory_sql.config import ContextFormat

Who = Mapping[str, Any]  # agent_id, user_id and conversation_id


@dataclass(frozen=True, slots=True)
class _Asking:
    """Who asks for what, now; `as_of`: of what was known at that moment."""

    principal: Who
    text: str
    now: datetime
    as_of: datetime | None = None


@dataclass(frozen=True, slots=True)
class Turn(_Asking):
    """A turn of a conversation that needs its part of the prompt; `text` is its message, or a digest's query.

    `retrieve` None: where what was found answers the message. `layout` and `max_tokens` None: as the settings say. `own`:
    settings of this call, which go before those of the agent.
    """

    retrieve: bool | None = None
    layout: ContextFormat | None = None
    max_tokens: int | None = None
    own: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Question(_Asking):
    """A search for at most so many observations and messages (0: none).

    `semantic` None: by meaning as well where vectors are on. `superseded`: also what was superseded. `explain`: with what
    speaks for each; `plan`: with how the database goes about it.
    """

    observations: int = 0
    messages: int = 0
    semantic: bool | None = None
    superseded: bool = False
    explain: bool = False
    plan: bool = False
