"""Where a page ends, as text that the next request gives back as `before`."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Generic, TypeVar

from memory_sql.domain.ids import Value
from memory_sql.domain.messages import RetainedMessage
from memory_sql.domain.observations import Observation
from memory_sql.errors import InputError

T = TypeVar("T")
MAX_CHARACTERS = 2048


class Page(Value, Generic[T]):
    """Some of a list. `next`: pass it as `before` or `after` to go on; null: there is no more."""

    items: list[T]
    next: str | None = None


def position_of(item: Observation | RetainedMessage) -> str:
    """It works also after the item was forgotten."""
    if isinstance(item, Observation):
        return _packed(item.created_at.isoformat(), item.id)
    return _packed(item.said_at.isoformat(), item.conversation_id, item.number)


def observation_at(position: str) -> Observation:
    """Only the fields that a page goes by. Raises `InputError`."""
    created_at, key = _unpacked(position, str, str)
    fields: dict[str, Any] = {"created_at": _moment(created_at), "id": key}
    return Observation.model_construct(**fields)


def message_at(position: str) -> RetainedMessage:
    """Only the fields that a page goes by. Raises `InputError`."""
    said_at, conversation_id, number = _unpacked(position, str, str, int)
    fields: dict[str, Any] = {"said_at": _moment(said_at), "conversation_id": conversation_id, "number": number}
    return RetainedMessage.model_construct(**fields)


def next_of(items: Sequence[Any], limit: int | None) -> str | None:
    """None: the page isn't full, or the list has no pages."""
    if limit is None or len(items) < limit or not items:
        return None
    last = items[-1]
    return position_of(last) if isinstance(last, Observation | RetainedMessage) else None


def _packed(*parts: str | int) -> str:
    return base64.urlsafe_b64encode(json.dumps(parts, separators=(",", ":")).encode()).decode().rstrip("=")


def _unpacked(position: str, *kinds: type) -> list[Any]:
    try:
        parts = json.loads(base64.b64decode(position + "=" * (-len(position) % 4), b"-_", validate=True))
    except (ValueError, RecursionError):
        raise _unknown() from None
    if not isinstance(parts, list) or [type(part) for part in parts] != [*kinds]:
        raise _unknown()
    return parts


def _moment(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise _unknown() from None


def _unknown() -> InputError:
    return InputError("before must be the `next` of a page")
