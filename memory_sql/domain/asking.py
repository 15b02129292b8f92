"""Validated requests to context, digest and search."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Any, NamedTuple

from memory_sql.config import ContextFormat

Who = Mapping[str, Any]  # agent_id, user_id and conversation_id


class Turn(NamedTuple):
    """A turn of a conversation that needs context; `text` is its message, or the query of a digest.

    `as_of`: what was known at that moment. `retrieve` None: show what was found if it answers the message. `layout` and
    `max_tokens` None: as the settings say. `own`: settings of this call, which override those of the agent. `after`: the
    position of the database up to which the answer has to know everything.
    """

    principal: Who
    text: str
    now: datetime
    as_of: datetime | None = None
    retrieve: bool | None = None
    layout: ContextFormat | None = None
    max_tokens: int | None = None
    own: Mapping[str, Any] = MappingProxyType({})
    after: int | None = None


class Question(NamedTuple):
    """A search for at most that many observations and messages (0: none), in what was known at `as_of`.

    `semantic` None: also by meaning if vectors are on. `superseded`: also superseded observations. `explain`: with an
    explanation of each hit; `plan`: with the query plan. `after` as for a turn.
    """

    principal: Who
    text: str
    now: datetime
    as_of: datetime | None = None
    observations: int = 0
    messages: int = 0
    semantic: bool | None = None
    superseded: bool = False
    explain: bool = False
    plan: bool = False
    after: int | None = None
