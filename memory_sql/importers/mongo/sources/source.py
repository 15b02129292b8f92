"""What every source is: parts, each a stream of documents in a stable order, with the place of each.

A document is a dict of plain Python values; an ObjectId is an `ObjectKey`, what Python has no type for stays as `bson` has
it. One document is in memory at a time, and what the reader has read ahead. Reading goes on after any place.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from memory_sql.errors import SourceError

MOST_DOCUMENT_BYTES = 16 * 1024 * 1024 + 16 * 1024  # what a server lets into a document, and what it adds itself

COLLECTIONS: Mapping[str, tuple[str, ...]] = {
    "users3": ("users3",),
    "sessions": ("sessions",),
    "memory_user": ("memory_user",),
    "memory_agent": ("memory_agent",),
    "memory2_consolidated": ("memory2_consolidated",),
    "memory_sessions": ("session_memories", "memory_sessions"),
    "memory2_reflections": ("memory2_reflections",),
    "memory2_facts": ("memory2_facts",),
    "messages": ("messages",),
}
"""The collections that an import knows, by the name that they have now, with all names that they have had, oldest first."""


@dataclass(frozen=True, slots=True)
class Part:
    """A file or collection. `collection` is a key of `COLLECTIONS`; `size` in bytes, `documents` about; 0: not known.

    `error`: why it can't be read at all.
    """

    collection: str
    name: str
    size: int = 0
    documents: int = 0
    error: SourceError | None = None

    @property
    def extent(self) -> int:
        """Of what there is to read, in bytes of a file or documents of a server."""
        return self.size or self.documents


@dataclass(frozen=True, slots=True)
class Place:
    """Where a document stands. `number` counts from 1 in its part, of one that was begun in the middle from there.

    `offset` is in bytes, of what was unpacked; 0 on a server. `cursor` is where reading goes on behind it.
    """

    part: str
    number: int
    offset: int
    cursor: str

    def __str__(self) -> str:
        return f"{self.part}, document {self.number:,}, byte {self.offset:,}"


@dataclass(frozen=True, slots=True)
class Found:
    """A document where it stands."""

    place: Place
    document: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Damaged:
    """What can't be read. `ends_part`: nor what stands behind it, however much that is."""

    place: Place
    error: SourceError
    ends_part: bool = False


Read = Found | Damaged


class Source(Protocol):
    """`position`: how much of the extent of the part that is being read has been read.

    `parts` are in the order of `COLLECTIONS`. `read` goes on behind `after`, the cursor of a place of the same part.

    Both raise `SourceError`. With `keep_going` what is damaged is given out instead, and reading goes on where it can.
    """

    @property
    def name(self) -> str: ...

    @property
    def position(self) -> int: ...

    async def parts(self) -> tuple[Part, ...]: ...

    def read(self, part: Part, after: str | None = None) -> AsyncIterator[Read]: ...

    async def close(self) -> None: ...


def known_names(names: Mapping[str, str]) -> dict[str, str]:
    """The collection for each name that one may have; `names` are more of them."""
    return {name: collection for collection, all_names in COLLECTIONS.items() for name in all_names} | dict(names)


def in_order(parts: Iterator[Part]) -> tuple[Part, ...]:
    """As they have to be read: what others need comes first, and older names before newer ones."""
    order = list(COLLECTIONS)
    return tuple(sorted(parts, key=lambda part: (order.index(part.collection), _age(part), part.name)))


def _age(part: Part) -> int:
    names = COLLECTIONS[part.collection]
    stem = part.name.rpartition("/")[2].partition(".")[0]
    return names.index(stem) if stem in names else len(names)


def given_out(damaged: Damaged, *, keep_going: bool) -> Damaged:
    """What is damaged, or its error."""
    if keep_going:
        return damaged
    raise damaged.error
