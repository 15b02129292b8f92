"""Invisible characters: which are removed, which have a meaning, and where a text may be cut.

These are removed, since they can hide or reorder words: control characters (those that break lines or pages become a line
break), direction overrides and isolates, zero-width spaces, byte-order marks and tag characters. These stay, since writing
needs them: joiners between letters that join, after a virama and in emoji, and direction marks.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any

_BREAKS = re.compile("[\x0b\x0c\x1c\x1d\x1e\x85]")
_GONE = {
    "controls": re.compile("[\x01-\x08\x0e-\x1b\x1f\x7f\x80-\x84\x86-\x9f]"),
    "bidi_controls": re.compile("[\u202a-\u202e\u2066-\u2069]"),
    "zero_width": re.compile("[\u200b\ufeff]"),
    "tag_characters": re.compile("[\U000e0000-\U000e007f]"),
}
_ANY = re.compile(
    "[\x01-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u200b-\u200d\u202a-\u202e\u2066-\u2069\ufeff\U000e0000-\U000e007f]"
)
_JOINER = re.compile("[\u200c\u200d]+")
_NOT_IN_IDS = re.compile("[\u061c\u200b\u200e\u200f\u202a-\u202e\u2060\u2066-\u2069\ufeff\U000e0000-\U000e007f]")
_JOINING = re.compile(  # scripts whose letters change shape beside one another
    "[\u0600-\u07ff\u0840-\u085f\u0860-\u08ff\u0900-\u0dff\u0f00-\u109f\u1780-\u18af\u1a20-\u1cff\ua840-\ua8ff\ua980-\uaadf"
    "\uabc0-\uabff\ufb50-\ufdff\ufe70-\ufefc\U00010ac0-\U00010aff\U00010d00-\U00010fff\U00011000-\U00011fff"
    "\U0001e900-\U0001e95f]"
)
_PICTURE = re.compile("[\u00a9\u00ae\u2190-\u21ff\u2300-\u23ff\u2600-\u27bf\u2b00-\u2bff\u3030\U0001f000-\U0001faff]")
_BEHIND_PICTURE = re.compile("[\ufe0f\u20e3]")
_VIRAMA = 9  # combining class


def without_invisible(text: str) -> tuple[str, tuple[str, ...]]:
    """Returns the text without invisible characters, and the names of those removed."""
    if _ANY.search(text) is None:
        return text, ()
    text, broken = _BREAKS.subn("\n", text)
    names = {"controls"} if broken else set()
    for name, pattern in _GONE.items():
        text, found = pattern.subn("", text)
        if found:
            names.add(name)
    kept = _JOINER.sub(_joiner, text)
    if kept != text:
        names.add("zero_width")
    return kept, tuple(name for name in _GONE if name in names)


def _joiner(match: re.Match[str]) -> str:
    """Keeps one joiner where it has a meaning, and none elsewhere."""
    before, after = match.string[: match.start()][-1:], match.string[match.end() : match.end() + 1]
    joins = bool(_JOINING.match(before)) and (bool(_JOINING.match(after)) or unicodedata.combining(before) == _VIRAMA)
    if joins or (match[0][0] == "\u200d" and _is_picture(before) and bool(_PICTURE.match(after))):
        return match[0][0]
    return ""


def _is_picture(character: str) -> bool:
    return bool(_PICTURE.match(character) or _BEHIND_PICTURE.match(character))


def hidden_in_id(text: str) -> bool:
    """Whether it contains something by which two ids that look alike could differ."""
    return _NOT_IN_IDS.search(text) is not None


def cut_before(text: str, most: int) -> int:
    """The last position, at most `most`, at which the text may be cut without splitting a visible character."""
    if most >= len(text) or text[max(0, most - 1) : most + 1].isascii():
        return min(most, len(text))
    start: int = _boundary()(text, most + 1)
    return most if start == most else start


@cache
def _boundary() -> Callable[[str, int], Any]:
    """Unicode's rules for clusters, loaded only when needed: most texts are cut between characters that need no rule."""
    boundary: Callable[[str, int], Any] = import_module("wcwidth").grapheme_boundary_before
    return boundary
