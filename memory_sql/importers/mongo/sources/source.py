"""What all sources have in common: parts, each of which is a stream of documents with their places, in a stable order.

A document is a dict of plain Python values. An ObjectId is an `ObjectKey`; types that Python lacks stay as `bson` has
them. Only one document, and what the reader has read ahead, is in memory at a time. Reading can continue after any place.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from memory_sql.errors import SourceError

MOST_DOCUMENT_BYTES = 16 * 1024 * 1024 + 16 * 1024  # a server's limit for a document, and what the server adds itself

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
"""The collections that an import knows, by current name. The values are all their names, oldest first."""


@dataclass(frozen=True, slots=True)
class Part:
    """A file or collection. `collection` is a key of `COLLECTIONS`.

    `size`: bytes; `documents`: an estimate; each is 0 if unknown. `error`: why the part can't be read at all.
    """

    collection: str
    name: str
    size: int = 0
    documents: int = 0
    error: SourceError | None = None

    @property
    def extent(self) -> int:
        """How much there is to read: bytes of a file, or documents of a server."""
        return self.size or self.documents


@dataclass(frozen=True, slots=True)
class Place:
    """The place of a document. `number` counts from 1 in its part, or from where reading was resumed.

    `offset` is in bytes of the uncompressed file; 0 on a server. `cursor`: where reading continues after the document.
    """

    part: str
    number: int
    offset: int
    cursor: str

    def __str__(self) -> str:
        return f"{self.part}, document {self.number:,}, byte {self.offset:,}"


@dataclass(frozen=True, slots=True)
class Found:
    """A document and its place."""

    place: Place
    document: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Damaged:
    """What can't be read. `ends_part`: nothing after it in the part can be read either, however much that is."""

    place: Place
    error: SourceError
    ends_part: bool = False


Read = Found | Damaged


class Source(Protocol):
    """`position`: how much of the current part's extent has been read.

    `parts` are in the order of `COLLECTIONS`. `read` continues after `after`, the cursor of a place in the same part.

    Both raise `SourceError`. With `keep_going`, damaged documents are yielded instead, and reading continues where
    possible.
    """

    @property
    def name(self) -> str: ...

    @property
    def position(self) -> int: ...

    async def parts(self) -> tuple[Part, ...]: ...

    def read(self, part: Part, after: str | None = None) -> AsyncIterator[Read]: ...

    async def close(self) -> None: ...


def known_names(names: Mapping[str, str]) -> dict[str, str]:
    """The collection for each of its names. `names` adds further names."""
    return {name: collection for collection, all_names in COLLECTIONS.items() for name in all_names} | dict(names)


def in_order(parts: Iterator[Part]) -> tuple[Part, ...]:
    """Sorts parts so that collections that others depend on come first, and newer names before older ones.

    A document may be in both, where the collection was copied as it got its new name: the newer one has gone on to change.
    """
    order = list(COLLECTIONS)
    return tuple(sorted(parts, key=lambda part: (order.index(part.collection), -_rank(part), part.name)))


def _rank(part: Part) -> int:
    names = COLLECTIONS[part.collection]
    stem = part.name.rpartition("/")[2].partition(".")[0]
    return names.index(stem) if stem in names else len(names)


def given_out(damaged: Damaged, *, keep_going: bool) -> Damaged:
    """Returns the damage, or raises its error."""
    if keep_going:
        return damaged
    raise damaged.error
