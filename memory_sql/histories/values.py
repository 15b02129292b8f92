"""Lines and JSON values of a stream, one after another: at most a piece and one of them is held."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from memory_sql.domain.json_input import DECODER, parsed
from memory_sql.errors import InputError

MOST_OF_ONE = 128 * 1024**2  # characters of a line or a value: some ten times as many bytes while it is read
_LONGEST_TOKEN = 12  # of JSON beside strings and numbers: two halves of a character, escaped
_SPACE = re.compile(r"[ \t\n\r]*")


class Value(NamedTuple):
    """`place` and `inside` are for people, `mark` tells it from the others of its file."""

    value: Any
    place: str
    inside: str
    mark: str


def texts(pieces: Iterable[bytes]) -> Iterator[str]:
    """The pieces, decoded. Raises `InputError` with the line where it isn't UTF-8."""
    line, offset, held = 1, 0, b""
    for piece in pieces:
        data = held + piece
        text, used = _decoded(data, line, offset, last=False)
        line, held = line + data.count(b"\n", 0, used), data[used:]
        yield text.removeprefix("\ufeff") if offset == 0 else text
        offset += used
    _decoded(held, line, offset, last=True)


def _decoded(data: bytes, line: int, offset: int, *, last: bool) -> tuple[str, int]:
    try:
        return codecs.utf_8_decode(data, "strict", last)
    except UnicodeDecodeError as error:
        at, byte = offset + error.start, data[error.start]
        line += data.count(b"\n", 0, error.start)
        other = (
            " (it looks like UTF-16: save it as UTF-8)" if at == 0 and data[:2] in (b"\xff\xfe", b"\xfe\xff") else ""
        )
        raise InputError(f"line {line}: not UTF-8: byte 0x{byte:02x} at offset {at}{other}") from None


def lines(pieces: Iterable[str]) -> Iterator[tuple[int, str]]:
    """The lines with their numbers, from 1, without their ends."""
    number, held, size = 1, list[str](), 0
    for piece in pieces:
        *ended, rest = piece.split("\n")
        for line in ended:
            yield number, "".join((*held, line)).removesuffix("\r")
            number, size = number + 1, 0
            held.clear()
        size += len(rest)
        held.append(rest)
        if size > MOST_OF_ONE:
            raise InputError(f"line {number}: over {MOST_OF_ONE:,} characters")
    yield number, "".join(held).removesuffix("\r")


def values(pieces: Iterable[str], *, by_line: bool) -> Iterator[Value]:
    """JSON Lines if asked for, or if the first of several lines is an object; else the items of a list, or one value."""
    window = _Window(pieces)
    first = window.skip()
    if not first:
        return
    if by_line or (first == "{" and window.is_of_lines()):
        for number, line in window.lines():
            if line.strip():
                yield Value(_of_line(line, number), f"line {number}", f"line {number}, ", str(number))
    elif first == "[":
        for number, value in enumerate(window.items(), 1):
            yield Value(value, f"message {number}", f"item {number}, ", str(number))
    else:
        yield Value(window.value(), "message 1", "", "1")
        window.end()


def _of_line(text: str, number: int) -> Any:
    try:
        return parsed(text)
    except InputError as error:
        raise InputError(f"line {number}: {error}") from None
    except json.JSONDecodeError as error:
        raise InputError(f"line {number}: not JSON: {error.msg} (column {error.colno})") from None
    except (ValueError, RecursionError) as error:  # a number with thousands of digits, thousands of brackets
        raise InputError(f"line {number}: not JSON: {type(error).__name__}") from None


class _Window:
    """The part of a text that is being read, from `_at` on."""

    def __init__(self, pieces: Iterable[str]) -> None:
        self._pieces = iter(pieces)
        self._text, self._at, self._line, self._column = "", 0, 1, 0

    def skip(self) -> str:
        """The next character that isn't white space; empty at the end."""
        while True:
            found = _SPACE.match(self._text, self._at)
            self._at = found.end() if found else self._at
            if self._at < len(self._text):
                return self._text[self._at]
            if not self._more():
                return ""

    def value(self) -> Any:
        """The value that begins here. Raises `InputError` with the line of what is wrong with it."""
        while True:
            try:
                found, self._at = DECODER.raw_decode(self._text, self._at)
            except InputError as error:
                raise InputError(f"line {self._place(self._at)[0]}: {error}") from None
            except json.JSONDecodeError as error:
                if not (self._may_go_on(error) and self._more()):
                    raise self._wrong(error.msg, error.pos) from None
            except (ValueError, RecursionError) as error:
                raise InputError(f"line {self._place(self._at)[0]}: not JSON: {type(error).__name__}") from None
            else:
                return found

    def items(self) -> Iterator[Any]:
        """Those of the list that begins here, which is all there is."""
        self._at += 1
        mark = "," if self.skip() != "]" else "]"
        while mark == ",":
            self.skip()
            yield self.value()
            mark = self.skip()
            if mark not in (",", "]"):
                raise self._wrong("Expecting ',' delimiter", self._at)
            self._at += mark == ","
        self._at += 1
        self.end()

    def end(self) -> None:
        if self.skip():
            raise self._wrong("Extra data", self._at)

    def is_of_lines(self) -> bool:
        """Whether the object that begins here ends with its line, and something follows."""
        while (end := self._text.find("\n", self._at)) < 0 or not self._text[end:].strip():
            if not self._more():
                return False
        return self._text[self._at : end].rstrip().endswith("}")

    def lines(self) -> Iterator[tuple[int, str]]:
        line, _ = self._place(self._at)
        text, self._text = self._text[self._at :], ""
        for number, one in lines(self._and_on(text)):
            yield line + number - 1, one

    def _and_on(self, text: str) -> Iterator[str]:
        yield text
        yield from self._pieces

    def _may_go_on(self, error: json.JSONDecodeError) -> bool:
        """Whether it may be only that the rest hasn't been read."""
        return error.msg.startswith("Unterminated string") or error.pos >= len(self._text) - _LONGEST_TOKEN

    def _more(self) -> bool:
        """Reads at least as much again, so that a long value isn't tried too often; lets go of what lies behind."""
        self._line, self._column = self._place(self._at)
        self._text, self._at = self._text[self._at :], 0
        if len(self._text) > MOST_OF_ONE:
            raise InputError(f"line {self._line}: a value over {MOST_OF_ONE:,} characters; write it as JSON Lines")
        read, size = [self._text], 0
        for piece in self._pieces:
            read.append(piece)
            size += len(piece)
            if size >= len(self._text) and size:
                break
        self._text = "".join(read)
        return size > 0

    def _place(self, at: int) -> tuple[int, int]:
        """The line, and how many characters of it lie before."""
        last = self._text.rfind("\n", 0, at)
        return self._line + self._text.count("\n", 0, at), at - last - 1 if last >= 0 else self._column + at

    def _wrong(self, what: str, at: int) -> InputError:
        line, before = self._place(at)
        return InputError(f"line {line}: not JSON: {what} (column {before + 1})")
