"""Some at a time."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TypeVar

T = TypeVar("T")


def some_of(items: Iterator[T], most: int) -> Iterator[list[T]]:
    while chunk := list(islice(items, most)):
        yield chunk
