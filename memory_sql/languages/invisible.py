"""Invisible characters: which are removed, which have a meaning, and where a text may be cut.

These are removed, since they can hide or reorder words: control characters (those that break lines or pages become a line
break), direction overrides and isolates, zero-width spaces, byte-order marks, word joiners, invisible operators, fillers and
tag characters. These stay, since writing needs them: joiners between letters that join, after a virama and in emoji, a single
variation selector behind what has variants, and direction marks.
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
    # with operators of formulas, fillers of Hangul, and formats of annotations, shorthand and music
    "zero_width": re.compile(
        "[\u180e\u200b\u2060-\u2065\u206a-\u206f\u3164\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a]"
        "|(?<![\u1100-\u115e\u1161-\u11ff])[\u115f\u1160](?![\u1100-\u115e\u1161-\u11ff])"  # filling no syllable
    ),
    "tag_characters": re.compile("[\U000e0000-\U000e00ff\U000e01f0-\U000e0fff]"),
}
_ANY = re.compile(
    "[\x01-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u115f\u1160\u180b-\u180f\u200b-\u200d\u202a-\u202e\u2060-\u206f\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
_PRINTABLE = re.compile("[\u115f\u1160\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]")  # by isprintable()
_BEGINNINGS = (b"\xe1", b"\xe3", b"\xef", b"\xf3")  # of these, in UTF-8
_JOINER = re.compile("[\u200c\u200d]+")
_SELECTOR = re.compile("[\u180b-\u180d\u180f\ufe00-\ufe0f\U000e0100-\U000e01ef]+")  # several can spell any text
_NOT_IN_IDS = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\u3164\ufeff\uffa0"
    "\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
_JOINING = re.compile(  # scripts whose letters change shape beside one another
    "[\u0600-\u07ff\u0840-\u085f\u0860-\u08ff\u0900-\u0dff\u0f00-\u109f\u1780-\u18af\u1a20-\u1cff\ua840-\ua8ff\ua980-\uaadf"
    "\uabc0-\uabff\ufb50-\ufdff\ufe70-\ufefc\U00010ac0-\U00010aff\U00010d00-\U00010fff\U00011000-\U00011fff"
    "\U0001e900-\U0001e95f]"
)
_PICTURE = re.compile("[\u00a9\u00ae\u2190-\u21ff\u2300-\u23ff\u2600-\u27bf\u2b00-\u2bff\u3030\U0001f000-\U0001faff]")
_BEHIND_PICTURE = re.compile("[\ufe0f\u20e3]")
_IDEOGRAPH = re.compile("[\u2e80-\u2fdf\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")
_MONGOLIAN = re.compile("[\u1820-\u18aa]")
_KEYCAP = "\u20e3"
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
    kept = _JOINER.sub(_joiner, _SELECTOR.sub(_selector, text))
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


def _selector(match: re.Match[str]) -> str:
    """Keeps one variation selector behind what has variants, and none elsewhere."""
    one, before, after = match[0][0], match.string[: match.start()][-1:], match.string[match.end() : match.end() + 1]
    if "\u180b" <= one <= "\u180f":
        has_variants = bool(_MONGOLIAN.match(before))
    elif one > "\ufe0f":
        has_variants = bool(_IDEOGRAPH.match(before))
    elif before.isascii():
        has_variants = before in "0123456789#*" and before != "" and after == _KEYCAP
    else:
        has_variants = before.isprintable() and before.lower() == before.upper()
    return one if has_variants else ""


def looks_plain(text: str) -> bool:
    """Whether a text that Python calls printable holds nothing that can be among `without_invisible`'s, either."""
    encoded = text.encode()
    return not any(beginning in encoded for beginning in _BEGINNINGS) or _PRINTABLE.search(text) is None


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
