"""A folder that mongodump wrote: one file of BSON for each collection, packed by gzip or not, and its metadata."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from memory_sql.errors import SourceError
from memory_sql.importers.mongo.sources.decoding import from_bson
from memory_sql.importers.mongo.sources.files import GZIP, BrokenError, Folder, only_folder, readable, skip
from memory_sql.importers.mongo.sources.source import MOST_DOCUMENT_BYTES, Damaged, Found, Part, Place, Read, given_out

_LENGTH = 4
_LEAST = 5  # the length and a zero byte
_MOST_METADATA = 1 << 22


class DumpSource:
    """`names` gives the collection of files that are called otherwise: `{"memory_user_stage": "memory_user"}`."""

    def __init__(self, path: Path, *, names: Mapping[str, str] | None = None, keep_going: bool = False) -> None:
        self._folder = only_folder(path, (".bson",), names or {})
        self._keep_going = keep_going

    @property
    def name(self) -> str:
        return self._folder.path.name

    async def parts(self) -> tuple[Part, ...]:
        found = self._folder.parts()
        return tuple(part for part in found if not _is_view(self._folder, part.name))

    async def read(self, part: Part, after: str | None = None) -> AsyncIterator[Read]:
        with self._folder.opened(part.name) as file:
            for item in _documents(file, part.name, int(after or 0)):
                yield item if isinstance(item, Found) else given_out(item, keep_going=self._keep_going)

    async def close(self) -> None:
        """Files are closed as soon as they have been read."""


def _documents(file: IO[bytes], name: str, offset: int) -> Iterator[Read]:
    number = 0
    while True:
        number += 1
        frame = b""
        try:
            if number == 1 and offset:
                skip(file, offset)
            frame = _frame(file)
            if not frame:
                return
            document = from_bson(frame)
        except BrokenError as broken:
            place = Place(name, number, offset, str(offset + len(frame)))
            yield Damaged(place, SourceError(name, offset, broken.reason), broken.ends_part)
            if broken.ends_part:
                return
        else:
            yield Found(Place(name, number, offset, str(offset + len(frame))), document)
        offset += len(frame)


def _frame(file: IO[bytes]) -> bytes:
    """The bytes of the next document; none at the end of the file. Raises `BrokenError`."""
    with readable():
        head = file.read(_LENGTH)
        if not head:
            return b""
        length = int.from_bytes(head, "little", signed=True)
        if len(head) < _LENGTH:
            raise BrokenError("it is truncated", ends_part=True)
        if not _LEAST <= length <= MOST_DOCUMENT_BYTES:
            raise BrokenError(f"a document of {length:,} bytes; the limit is {MOST_DOCUMENT_BYTES:,}", ends_part=True)
        frame = head + file.read(length - _LENGTH)
    if len(frame) < length:
        raise BrokenError(f"it is truncated: {len(frame):,} of {length:,} bytes", ends_part=True)
    if frame[-1]:
        raise BrokenError("the length of a document is wrong", ends_part=True)
    return frame


def _is_view(folder: Folder, name: str) -> bool:
    """A view has no documents of its own. Raises `SourceError` for metadata that is damaged or of something else."""
    stem = name.removesuffix(GZIP).removesuffix(".bson")
    beside = [
        f"{stem}.metadata.json{packed}"
        for packed in (GZIP, "")
        if (folder.path / f"{stem}.metadata.json{packed}").is_symlink()
        or (folder.path / f"{stem}.metadata.json{packed}").exists()
    ]
    return any(_metadata(folder, one, stem).get("type") == "view" for one in beside)


def _metadata(folder: Folder, name: str, stem: str) -> dict[str, Any]:
    try:
        with folder.opened(name) as file, readable():
            found = json.loads(file.read(_MOST_METADATA))
    except (BrokenError, ValueError, RecursionError) as error:
        raise SourceError(name, 0, "it isn't the metadata of a collection") from error
    if not isinstance(found, dict) or found.get("collectionName", stem) != stem:
        raise SourceError(name, 0, "it is the metadata of something else")
    return found
