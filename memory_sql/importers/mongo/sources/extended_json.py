"""A folder written by mongoexport: extended JSON, canonical or relaxed, one document a line or all in an array.

Documents that span several lines (`--pretty`) are found like those of an array, by their brackets.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO

from memory_sql.errors import SourceError
from memory_sql.importers.mongo.sources.decoding import from_json
from memory_sql.importers.mongo.sources.files import BrokenError, readable, skip
from memory_sql.importers.mongo.sources.folder import FolderSource
from memory_sql.importers.mongo.sources.source import Damaged, Found, Place, Read

MOST_JSON_BYTES = 64 * 1024 * 1024  # of a document: canonical JSON takes up to four times as many bytes as BSON
_AHEAD = 1 << 16
_MARK = b"\xef\xbb\xbf"  # the byte order mark of UTF-8
_BETWEEN = re.compile(rb"[\s,]*")
_TOKEN = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"|["{}\[\]]', re.DOTALL)

_QUOTE = ord('"')
_DEPTHS = {ord("{"): 1, ord("["): 1, ord("}"): -1, ord("]"): -1}

Piece = tuple[int, bytes | BrokenError, int]
"""The offset of a document, its bytes or its error, and the offset at which reading continues."""


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
    """The documents, and errors in their place. An error that ends the part comes last."""
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
    """Whether documents are found by their brackets, and where the first one may begin."""
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
    """The next line with its end, and the bytes left after it."""
    cut = held.find(b"\n") + 1
    if cut:
        return held[:cut], held[cut:]
    with readable():
        return held + file.readline(MOST_JSON_BYTES + 1), b""


@dataclass(slots=True)
class _Held:
    """Bytes read ahead from a file. `base`: their offset in the file. `place`: the current position within them."""

    file: IO[bytes]
    data: bytes
    base: int
    place: int = 0

    @property
    def offset(self) -> int:
        return self.base + self.place

    def more(self) -> bool:
        """Reads at least as many bytes again, so that a long document isn't scanned too often. Raises `BrokenError`."""
        self.data, self.base, self.place = self.data[self.place :], self.offset, 0
        if len(self.data) > MOST_JSON_BYTES:
            raise BrokenError(f"a document over {MOST_JSON_BYTES:,} bytes", ends_part=True)
        with readable():
            read = self.file.read(max(_AHEAD, len(self.data)))
        self.data += read
        return bool(read)

    def mark(self) -> bytes:
        return self.data[self.place : self.place + 1]


def _bracketed(file: IO[bytes], data: bytes, offset: int) -> Iterator[Piece]:
    """The documents of an array, or consecutive documents that span several lines."""
    held = _Held(file, data, offset)
    try:
        while _is_before_document(held):
            begin = held.offset
            length = _length(held)
            document = held.data[held.place : held.place + length]
            held.place += length
            yield begin, document, held.offset
    except BrokenError as broken:
        yield held.offset, broken, held.offset


def _is_before_document(held: _Held) -> bool:
    """Skips commas and white space between documents. Returns False at the end of the array or file."""
    while True:
        between = _BETWEEN.match(held.data, held.place)
        held.place = between.end() if between else held.place
        if held.mark():
            return held.mark() != b"]"
        if not held.more():
            return False


def _length(held: _Held) -> int:
    """The length of the document that begins here. Raises `BrokenError`."""
    if held.mark() != b"{":
        raise BrokenError("a document should begin here", ends_part=True)
    depth, length = 0, 0
    while True:
        for token in _TOKEN.finditer(held.data, held.place + length):
            mark = held.data[token.start()]
            if mark == _QUOTE and token.end() - token.start() == 1:
                break  # a string that continues beyond what has been read
            length = token.end() - held.place
            depth += _DEPTHS.get(mark, 0)
            if depth == 0:
                return length
        if not held.more():
            raise BrokenError("it is truncated: a document has no end", ends_part=True)


class ExtendedJsonSource(FolderSource):
    endings = (".json", ".jsonl", ".ndjson")
    documents = staticmethod(_documents)
