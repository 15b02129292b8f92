"""How many items a list in an argument may have."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import TypeVar

from memory_sql.errors import TooManyError

MOST_MESSAGES = 10_000  # of one call of `add`
MOST_GROUPS = 100
MOST_DAYS = 3660  # back or ahead, of what is counted by day, and of a key
MOST_TAGS = 100
MOST_PARTS = 1_000  # of a message's content, or of its tool calls

T = TypeVar("T")


def limited(what: str, items: Iterable[T], most: int) -> list[T]:
    """The items. Raises `TooManyError`, having read at most one item too many."""
    taken = list(islice(items, most + 1))
    if len(taken) > most:
        raise TooManyError(what, most)
    return taken
