"""How many items a list that comes in may have."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import TypeVar

from memory_sql.errors import TooManyError

MOST_MESSAGES = 10_000  # of one call of `add`
MOST_GROUPS = 100
MOST_TAGS = 100
MOST_PARTS = 1_000  # of the content of a message, or of its calls of tools

T = TypeVar("T")


def limited(what: str, items: Iterable[T], most: int) -> list[T]:
    """The items; raises `TooManyError`, having looked at one too many."""
    taken = list(islice(items, most + 1))
    if len(taken) > most:
        raise TooManyError(what, most)
    return taken
