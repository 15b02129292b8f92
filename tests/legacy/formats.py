"""Writes legacy collections as MongoDB's tools do: mongodump, mongoexport, or through a client into a server.

No driver can encode a text with lone surrogates, but real databases contain some: it is inserted as bytes.
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import IO, Any, cast

import bson
from bson import json_util
from bson.raw_bson import RawBSONDocument
from pymongo import AsyncMongoClient

Document = Mapping[str, Any]
Collections = Iterable[tuple[str, Iterable[Document]]]
"""Each collection by its name, with its documents; they are read once, in order."""

_BATCH = 1000
_SURROGATE = re.compile("[\ud800-\udfff]")
_STANDS_FOR = "\ue000"  # as many bytes as a surrogate


def as_bson(document: Document) -> bytes:
    found: list[str] = []

    def hidden(value: Any) -> Any:
        if isinstance(value, str):
            found.extend(_SURROGATE.findall(value))
            return _SURROGATE.sub(_STANDS_FOR, value)
        return value

    if "content" not in document or not isinstance(document["content"], str):
        return bson.encode(document)
    data = bson.encode({**document, "content": hidden(document["content"])})
    for surrogate in found:
        data = data.replace(_STANDS_FOR.encode(), surrogate.encode("utf-8", "surrogatepass"), 1)
    return data


def as_json(document: Document, options: json_util.JSONOptions) -> str:
    return json_util.dumps(document, json_options=options)


def dump(folder: Path, collections: Collections, *, packed: bool = False) -> None:
    for name, documents in collections:
        with opened(folder, f"{name}.bson", packed=packed) as file:
            for document in documents:
                file.write(as_bson(document))
        with opened(folder, f"{name}.metadata.json", packed=packed) as file:
            file.write(json.dumps({"indexes": [], "collectionName": name, "type": "collection"}).encode())


def export(folder: Path, collections: Collections, *, canonical: bool, array: bool, packed: bool = False) -> None:
    options = json_util.CANONICAL_JSON_OPTIONS if canonical else json_util.RELAXED_JSON_OPTIONS
    for name, documents in collections:
        with opened(folder, f"{name}.json", packed=packed) as file:
            between = b"["
            for document in documents:
                text = as_json(document, options).encode()
                file.write(between + text if array else text + b"\n")
                between = b",\n"
            if array:
                file.write((between if between == b"[" else b"") + b"]\n")


async def load(url: str, database: str, collections: Collections) -> None:
    """Through the official client. Where a text has a surrogate it gets a NUL: servers take no surrogates from clients."""
    async with AsyncMongoClient[dict[str, Any]](url) as client:
        for name, documents in collections:
            batches = iter(documents)
            while batch := [RawBSONDocument(_sendable(d)) for d in islice(batches, _BATCH)]:
                await client[database][name].insert_many(cast("Any", batch), ordered=True)


def _sendable(document: Document) -> bytes:
    text = document.get("content")
    return bson.encode({**document, "content": _SURROGATE.sub("\0", text)} if isinstance(text, str) else document)


@contextmanager
def opened(folder: Path, name: str, *, packed: bool) -> Iterator[IO[bytes]]:
    folder.mkdir(parents=True, exist_ok=True)
    with gzip.open(folder / f"{name}.gz", "wb", 1) if packed else (folder / name).open("wb") as file:
        yield cast("IO[bytes]", file)


Writer = Callable[[Path, Collections], None]
FORMATS: Mapping[str, Writer] = {
    "dump": dump,
    "packed dump": lambda folder, collections: dump(folder, collections, packed=True),
    "canonical lines": lambda folder, collections: export(folder, collections, canonical=True, array=False),
    "relaxed lines": lambda folder, collections: export(folder, collections, canonical=False, array=False),
    "canonical array": lambda folder, collections: export(folder, collections, canonical=True, array=True),
    "relaxed array": lambda folder, collections: export(folder, collections, canonical=False, array=True),
    "packed lines": lambda folder, collections: export(folder, collections, canonical=False, array=False, packed=True),
}
"""What a folder may be written as."""
