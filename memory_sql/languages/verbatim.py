"""What looks like a token: an id, a path, a key, code, something quoted. All of it counts, also case and spaces."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

_SPAN = re.compile(
    r"```.*?```|`[^`]*`"  # code
    r"|\"[^\"]*\"|\u201c[^\u201d]*\u201d|\u201e[^\u201c\u201d]*[\u201c\u201d]|\u00ab[^\u00bb]*\u00bb|\u300c[^\u300d]*\u300d"
    r"|(?<![\w\u0300-\u036f])'(?:[^']|'(?=\w))*'(?!\w)"
    r"|(?<!\w)\w+\([^()]*\)"  # a call
    r"|(?<![^\s(\[{<=:,;])(?:~?/|\.{1,2}/|[A-Za-z]:[\\/]|\\\\)(?=\S).*",  # a path: nobody knows where it ends
    re.DOTALL,
)
_WORD = re.compile(r"\s+|\S+")
_MARK = re.compile(r"\d[^\W\d_]|[^\W\d_]\d|[_=/\\]|\w\.\w|(?<![\w-])--?\w")
_LETTERS = re.compile(r"[^\W\d_]+")


def folded_around(text: str) -> str:
    """In lower case, with single spaces, but for what looks like a token."""
    if _SPAN.search(text) is None and not _is_token(text):
        return " ".join(unicodedata.normalize("NFC", text.lower()).split())
    return "".join(_pieces(text))


def _pieces(text: str) -> Iterator[str]:
    done = 0
    for span in _SPAN.finditer(text):
        yield from map(_folded, _WORD.findall(text[done : span.start()]))
        yield span[0]
        done = span.end()
    yield from map(_folded, _WORD.findall(text[done:]))


def _folded(word: str) -> str:
    if word.isspace():
        return " "
    return word if _is_token(word) else unicodedata.normalize("NFC", word.lower())


def _is_token(word: str) -> bool:
    return bool(_MARK.search(word)) or any(map(_is_mixed, _LETTERS.findall(word)))


def _is_mixed(letters: str) -> bool:
    """Written in neither small letters, nor capitals, nor with one in front."""
    return letters[1:] != letters[1:].lower() and letters != letters.upper()
