"""A folder written by mongodump: a BSON file for each collection, gzipped or not, and its metadata."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import IO, Any

from memory_sql.errors import SourceError
from memory_sql.importers.mongo.sources.decoding import from_bson
from memory_sql.importers.mongo.sources.files import GZIP, BrokenError, Folder, readable, skip
from memory_sql.importers.mongo.sources.folder import FolderSource
from memory_sql.importers.mongo.sources.source import MOST_DOCUMENT_BYTES, Damaged, Found, Place, Read

_LENGTH = 4
_LEAST = 5  # the length and a zero byte
_MOST_METADATA = 1 << 22


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
    """The bytes of the next document; empty at the end of the file. Raises `BrokenError`."""
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
    """Views have no documents of their own. Raises `SourceError` if the metadata is damaged or belongs to something else."""
    stem = name.removesuffix(GZIP).removesuffix(".bson")
    beside = [f"{stem}.metadata.json{packed}" for packed in (GZIP, "")]
    there = [one for one in beside if os.path.lexists(folder.path / one)]
    return any(_metadata(folder, one, stem).get("type") == "view" for one in there)


def _metadata(folder: Folder, name: str, stem: str) -> dict[str, Any]:
    try:
        with folder.opened(name) as file, readable():
            found = json.loads(file.read(_MOST_METADATA))
    except (BrokenError, ValueError, RecursionError) as error:
        raise SourceError(name, 0, "it isn't the metadata of a collection") from error
    if not isinstance(found, dict) or found.get("collectionName", stem) != stem:
        raise SourceError(name, 0, "it is the metadata of something else")
    return found


class DumpSource(FolderSource):
    endings = (".bson",)
    documents = staticmethod(_documents)

    def has_documents(self, folder: Folder, name: str) -> bool:
        return not _is_view(folder, name)
