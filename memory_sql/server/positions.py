"""Pages of a list."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Generic, TypeVar

from memory_sql.domain.ids import Value
from memory_sql.domain.messages import RetainedMessage
from memory_sql.domain.observations import Observation

T = TypeVar("T")
MAX_CHARACTERS = 2048


class Page(Value, Generic[T]):
    """Some of a list. `next`: pass it as `before` or `after` to go on; null: there is no more."""

    items: list[T]
    next: str | None = None


def next_of(items: Sequence[Any], limit: int | None) -> str | None:
    """None: the page isn't full, or the list has no pages."""
    if limit is None or len(items) < limit or not items:
        return None
    last = items[-1]
    return last.position if isinstance(last, Observation | RetainedMessage) else None
