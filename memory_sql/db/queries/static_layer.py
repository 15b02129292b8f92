"""The contents of the static layer of a context, in one statement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import bindparam, column, func, select
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.types import BigInteger, DateTime, Text

from memory_sql.config import Settings
from memory_sql.db.direct import Reader
from memory_sql.db.scope_rows import scope_texts
from memory_sql.domain.layer import StaticLayer

_WHOSE = (
    *(bindparam(name, type_=Text) for name in ("agent_id", "user_id", "conversation_id")),
    bindparam("pending_max", type_=BigInteger),
    bindparam("scopes_max", type_=BigInteger),
)
COLUMNS = (
    "scope_id",
    "kind",
    "owner",
    "name",
    "display_name",
    "consolidation",
    "version",
    "pending_seqs",
    "pending_contents",
    "pending_times",
    "pending_more",
    "disputed_seqs",
    "disputed_contents",
    "disputed_times",
    "buffer_seqs",
    "buffer_contents",
    "buffer_times",
    "speakers",
    "scopes_more",
)
LAYER = func.memory.static_layer(*_WHOSE).table_valued(*COLUMNS, column("settings", JSONB), name="layer")
_moment = bindparam("as_of", type_=DateTime(timezone=True))
_layer_at = func.memory.static_layer_at(*_WHOSE, _moment).table_valued(
    *COLUMNS, column("settings", JSONB), name="layer"
)
_STATIC_LAYER_AT = select(_layer_at)


def limits_of(settings: Settings) -> dict[str, int]:
    """How much is read per scope, and from how many scopes, unless the agent's own settings say otherwise."""
    return {"pending_max": settings.pending_max, "scopes_max": settings.context_scopes_max}


async def static_layer_at(
    reader: Reader, principal: Mapping[str, Any], settings: Settings, as_of: datetime
) -> StaticLayer:
    """The scopes that are visible now, as they were at a past moment."""
    given = {**principal, **limits_of(settings), "as_of": as_of}
    return layer_of(list(await reader.execute(_STATIC_LAYER_AT, given)))


def layer_of(rows: Sequence[Any]) -> StaticLayer:
    """The layer in the rows of memory.static_layer.

    A scope has at most the `pending_max` newest pending observations, or as many as the agent's own setting allows; the
    others are only counted, as are the scopes beyond `context_scopes_max`.
    """
    more = sum(row.scopes_more for row in rows if row.scopes_more)
    is_known = all(row.scopes_more != 0 for row in rows)
    return StaticLayer(scope_texts(rows), (rows[0].settings or {}) if rows else {}, more, is_known)
