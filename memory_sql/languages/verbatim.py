"""What looks like a token: an id, a path, a key, code, a unit, something quoted. All of it counts, also case and spaces."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from typing import NamedTuple

_SPAN = re.compile(
    r"```.*?```|`[^`]*`"  # code
    r"|\"[^\"]*\"|\u201c[^\u201d]*\u201d|\u201d[^\u201d]*\u201d|\u201e[^\u201c\u201d]*[\u201c\u201d]"
    r"|\u00ab[^\u00bb]*\u00bb|\u00bb[^\u00ab\u00bb]*\u00ab|\u2039[^\u2039\u203a]*\u203a|\u203a[^\u2039\u203a]*\u2039"
    r"|\u300c[^\u300d]*\u300d|\u300e[^\u300e\u300f]*\u300f"
    r"|(?<![\w\u0300-\u036f])'(?:[^']|'(?=\w))*'(?!\w)"
    r"|(?<![\w\u0300-\u036f])\u2018(?:[^\u2018\u2019]|\u2019(?=\w))*\u2019(?!\w)"
    r"|\u201a(?:[^\u201a\u2018\u2019]|\u2019(?=\w))*[\u2018\u2019]"
    r"|(?<!\w)\w+\([^()]*\)"  # a call
    r"|(?<![^\s(\[{<=:,;])(?:~?/|\.{1,2}/|[A-Za-z]:[\\/]|\\\\)(?=\S).*",  # a path: nobody knows where it ends
    re.DOTALL,
)
_WORD = re.compile(r"\s+|\S+")
_MARK = re.compile(r"\d[^\W\d_]|[^\W\d_]\d|\d-[^\W\d_]{1,2}(?![^\W\d_])|[_=/\\]|\w\.\w|(?<![\w-])--?\w")
# 5 m isn't 5 M; 5 pm is 5 PM
_UNIT = re.compile(r"(?!pm\b)(?:[kmgtpn]?[bgmlwvhsj]|[b-df-hj-np-tv-z])\W*", re.IGNORECASE)
_MAYBE_UNIT = re.compile(rf"\d\s+{_UNIT.pattern}(?:\s|\Z)", re.IGNORECASE)
_JOINT = re.compile(r"['\u2019\u2013\u2014]")  # what stands on either side of it is a word of its own
_LETTERS = re.compile(r"[^\W\d_]+")
_PLAIN = re.compile(r"\(?(?:[^\W\d_]+(?:/[^\W\d_]+)+|\d[\d.,:]*[^\W\d_]{0,3})\W*")  # he/she, 5pm, 3.50
_END = re.compile(r"[\s.!\u2026]+\Z")
_END_OF_TOKEN = re.compile(r"[\s.\u2026]+\Z")  # abc1! is another password than abc1


class _Piece(NamedTuple):
    text: str
    is_token: bool = False


def folded_around(text: str) -> str:
    """In lower case, with single spaces and without full stops at the end, but for what looks like a token."""
    if _has_no_token(text):  # as most texts
        return _END.sub("", " ".join(unicodedata.normalize("NFC", text.lower()).split()))
    pieces = list(_pieces(text))
    end = ""
    while pieces and not end:
        last = pieces.pop()
        keeps_more = last.is_token and not _PLAIN.fullmatch(last.text)
        end = (_END_OF_TOKEN if keeps_more else _END).sub("", last.text)
    return "".join([*(piece.text for piece in pieces), end])


def _pieces(text: str) -> Iterator[_Piece]:
    done = 0
    for span in _SPAN.finditer(text):
        yield from _folded(text[done : span.start()])
        yield _Piece(span[0], is_token=True)
        done = span.end()
    yield from _folded(text[done:])


def _folded(text: str) -> Iterator[_Piece]:
    before = ""
    for word in _WORD.findall(text):
        if word.isspace():
            yield _Piece(" ")
            continue
        is_token = _is_token(word) or (before[-1:].isdecimal() and _UNIT.fullmatch(word) is not None)
        yield _Piece(word if is_token else unicodedata.normalize("NFC", word.lower()), is_token)
        before = word


def _has_no_token(text: str) -> bool:
    """Surely, seen as a whole."""
    if _SPAN.search(text) or _MARK.search(text) or _MAYBE_UNIT.search(text):
        return False
    return not any(part[1:] != part[1:].lower() for part in _LETTERS.findall(text))


def _is_token(word: str) -> bool:
    if _MARK.search(word):
        return True
    return word[1:] != word[1:].lower() and any(map(_is_mixed, _JOINT.split(word)))


def _is_mixed(word: str) -> bool:
    """Written in neither small letters, nor capitals, nor with one in front, as a whole or on either side of a hyphen."""
    parts = _LETTERS.findall(word)
    if all(part == part.upper() for part in parts):
        return False
    return any(part[1:] != part[1:].lower() for part in parts)
