"""A folder that mongoexport wrote: extended JSON, canonical or relaxed, one document a line or all in an array.

Documents that stand on several lines (`--pretty`) are found as those of an array are: by their brackets.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path
from typing import IO

from memory_sql.errors import SourceError
from memory_sql.importers.mongo.sources.decoding import from_json
from memory_sql.importers.mongo.sources.files import BrokenError, only_folder, readable, skip
from memory_sql.importers.mongo.sources.source import Damaged, Found, Part, Place, Read, given_out

MOST_JSON_BYTES = 64 * 1024 * 1024  # of a document: canonical JSON takes up to four times the bytes of BSON
_AHEAD = 1 << 16
_MARK = b"\xef\xbb\xbf"  # that a text is UTF-8
_BETWEEN = re.compile(rb"[\s,]*")
_TOKEN = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"|["{}\[\]]', re.DOTALL)

Piece = tuple[int, bytes | BrokenError, int]
"""Where it begins, the bytes of a document or what is wrong there, and where reading goes on."""


class ExtendedJsonSource:
    """`names` gives the collection of files that are called otherwise: `{"memory_user_stage": "memory_user"}`."""

    def __init__(self, path: Path, *, names: Mapping[str, str] | None = None, keep_going: bool = False) -> None:
        endings = (".metadata.json", ".json", ".jsonl", ".ndjson")
        self._folder = only_folder(path, endings[1:], names or {})
        self._keep_going = keep_going

    @property
    def name(self) -> str:
        return self._folder.path.name

    async def parts(self) -> tuple[Part, ...]:
        return self._folder.parts()

    async def read(self, part: Part, after: str | None = None) -> AsyncIterator[Read]:
        with self._folder.opened(part.name) as file:
            for item in _documents(file, part.name, int(after or 0)):
                yield item if isinstance(item, Found) else given_out(item, keep_going=self._keep_going)

    async def close(self) -> None:
        """Files are closed as soon as they have been read."""


def _documents(file: IO[bytes], name: str, after: int) -> Iterator[Read]:
    for number, (offset, text, end) in enumerate(_pieces(file, after), start=1):
        place = Place(name, number, offset, str(end))
        try:
            if isinstance(text, BrokenError):
                raise text
            document = from_json(text)
        except BrokenError as broken:
            yield Damaged(place, SourceError(name, offset, broken.reason), broken.ends_part)
        else:
            yield Found(place, document)


def _pieces(file: IO[bytes], after: int) -> Iterator[Piece]:
    """Each is broken at most once, and what ends the part comes last."""
    offset = 0
    try:
        with readable():
            head = file.read(_AHEAD)
        by_brackets, begin = _form(head)
        if after > len(head):
            skip(file, after - len(head))
        offset = max(after, begin)
        held = head[offset:]
        yield from _bracketed(file, held, offset) if by_brackets else _lines(file, held, offset)
    except BrokenError as broken:
        yield offset, broken, offset


def _form(head: bytes) -> tuple[bool, int]:
    """Whether documents are to be found by their brackets, and where the first may begin."""
    begin = len(_MARK) if head.startswith(_MARK) else 0
    begin += len(head[begin:]) - len(head[begin:].lstrip())
    if head[begin : begin + 1] == b"[":
        return True, begin + 1
    first, _, rest = head[begin:].partition(b"\n")
    return bool(rest) and first.strip() == b"{", begin


def _lines(file: IO[bytes], held: bytes, offset: int) -> Iterator[Piece]:
    while True:
        line, held = _line(file, held)
        if not line:
            return
        end = offset + len(line)
        if len(line) > MOST_JSON_BYTES:
            yield offset, BrokenError(f"a line over {MOST_JSON_BYTES:,} bytes", ends_part=True), end
            return
        if line.strip():
            yield offset, line, end
        offset = end


def _line(file: IO[bytes], held: bytes) -> tuple[bytes, bytes]:
    """The next line with its end, and what is held behind it."""
    cut = held.find(b"\n") + 1
    if cut:
        return held[:cut], held[cut:]
    with readable():
        return held + file.readline(MOST_JSON_BYTES + 1), b""


def _bracketed(file: IO[bytes], held: bytes, offset: int) -> Iterator[Piece]:
    """The documents of an array, or those that stand one after another on several lines."""
    while True:
        between = _BETWEEN.match(held)
        cut = between.end() if between else 0
        held, offset = held[cut:], offset + cut
        if not held:
            held = _more(file, held)
            if not held:
                return
            continue
        if held[:1] == b"]":
            return
        try:
            length, held = _length(file, held)
        except BrokenError as broken:
            yield offset, broken, offset
            return
        yield offset, held[:length], offset + length
        held, offset = held[length:], offset + length


def _length(file: IO[bytes], held: bytes) -> tuple[int, bytes]:
    """Of the document with which `held` begins, and more of the file if it took that. Raises `BrokenError`."""
    if held[:1] != b"{":
        raise BrokenError("a document was to begin here", ends_part=True)
    depth, place = 0, 0
    while True:
        for token in _TOKEN.finditer(held, place):
            mark = held[token.start() : token.start() + 1]
            if mark == b'"' and token.end() - token.start() == 1:
                break  # a text that goes on behind what is held
            place = token.end()
            depth += 1 if mark in b"{[" else -1 if mark in b"}]" else 0
            if depth == 0:
                return place, held
        more = _more(file, held)
        if not more:
            raise BrokenError("it is truncated: a document has no end", ends_part=True)
        held += more


def _more(file: IO[bytes], held: bytes) -> bytes:
    """As much again, so that a long text isn't looked through too often."""
    if len(held) > MOST_JSON_BYTES:
        raise BrokenError(f"a document over {MOST_JSON_BYTES:,} bytes", ends_part=True)
    with readable():
        return file.read(max(_AHEAD, len(held)))
