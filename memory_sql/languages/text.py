"""Cleans, counts and compares texts, the same way everywhere.

Pure functions. A cleaned text can be stored in Postgres and in JSON. Whatever was changed is named, so that it can be
recorded.
"""

from __future__ import annotations

import hashlib
import math
import re
import unicodedata
from collections.abc import Iterable, Iterator
from functools import cache

from memory_sql.languages.anchors import small_words
from memory_sql.languages.data import of_all
from memory_sql.languages.invisible import cut_before, without_invisible
from memory_sql.languages.tables import Dates, Shortened, Words
from memory_sql.languages.verbatim import folded_around

CHARACTERS_PER_TOKEN = 4.5  # R279
HASH_VERSION = 3

_UNSTORABLE = {"nul": re.compile("\x00"), "surrogate": re.compile("[\ud800-\udfff]")}
_DASHED_UUID = re.compile(r"[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}")
_NOT_A_WORD = re.compile(r"[\W_]+")
_OF_WORDS = re.compile(r"[^\W_]")
_WIDE = r"\u3002\uff01\uff1f\uff61"  # punctuation that ends sentences in scripts without spaces
# In scripts with spaces, where white space must follow; also Ethiopic, Armenian, Khmer and Burmese ones.
_NARROW = r".!?\u2026\u061f\u06d4\u0964\u0965\u1362\u0589\u17d4\u104b"
_CLOSING = r"\u201c\u201d\u2018\u2019\u300d\u300f\uff09\u00bb\"')\]"
QUESTION = r"[?\uFF1F\u061F]\W*$"  # the end of one, for Python and Postgres; also fullwidth, and Arabic
_SENTENCE_END = re.compile(
    rf"(?<=[{_WIDE}])(?![{_WIDE}{_CLOSING}])|(?<=[{_WIDE}][{_CLOSING}])|(?<=[{_NARROW}])\s+"
    rf"|(?<=[{_NARROW}][{_CLOSING}])\s+|\n+"
)
_HAS_WIDE = re.compile(f"[{_WIDE}]")
# The same where nothing is wide; it starts with what is quickly looked for.
_NARROW_END = re.compile(rf"\s(?:(?:(?<=[{_NARROW}]\s)|(?<=[{_NARROW}][{_CLOSING}]\s))\s*|(?<=\n)\n*)")
_ABBREVIATION = re.compile(
    r"[B-DF-HJ-NP-TV-XZb-df-hj-np-tv-xz][b-df-hj-np-tv-xz]{1,3}|[Pp]rof|\w+str|([A-Z])\1"
)  # no vowel
_DOTTED = re.compile(r"(?:[^\W\d_]{1,2}\.)+[^\W\d_]{1,2}")  # z.B, e.g, p.m, U.S, EE.UU
_OF_NAMES = frozenset("al de del des do du el la las le les los mon von".split())  # small words in names: M. Le Pen
_NEXT = 4  # letters of an abbreviation that goes on with another: p. ex., Dr. med.
_LONGEST = 16  # characters of a word that is looked at behind a full stop
_LINE = 200  # characters of a line that are looked at before one


def clean(text: str) -> tuple[str, tuple[str, ...]]:
    """Returns the text that Postgres can store, and the names of what was changed.

    `nul` and `surrogate`: were replaced by U+FFFD. `controls`, `bidi_controls`, `zero_width`, `tag_characters`: invisible
    characters that can hide or reorder text were removed (see `invisible`).
    """
    changes = []
    for name, pattern in _UNSTORABLE.items():
        text, found = pattern.subn("\N{REPLACEMENT CHARACTER}", text)
        if found:
            changes.append(name)
    text, gone = without_invisible(text)
    return text, (*changes, *gone)


def lower_uuid(text: str) -> str:
    """A UUID of 36 characters in lower case, as Postgres and Python write it; any other text unchanged."""
    return text.lower() if _DASHED_UUID.fullmatch(text) else text


def count_tokens(text: str) -> int:
    """An estimate, rounded up (R279)."""
    return math.ceil(len(text) / CHARACTERS_PER_TOKEN)


def token_counts(texts: Iterable[str]) -> list[int]:
    """`count_tokens` of each."""
    return [count_tokens(text) for text in texts]


def characters_of(tokens: int) -> int:
    """The most characters that still count as so many tokens."""
    return math.floor(tokens * CHARACTERS_PER_TOKEN)


def count_words(text: str) -> int:
    return len(text.split())


def normal_form(text: str) -> str:
    """Observations with the same normal form are the same; empty if there is nothing to compare (C15).

    Only differences that never matter are removed: case and white space outside of what looks like a token (`verbatim`), full
    stops at the end, also exclamation marks that end no token. `C#` and `C++`, `-5` and `5`, `aB3` and `Ab3`, `Maßen` and
    `Massen`, a question and its answer stay distinct: otherwise one of them would be lost.
    """
    folded = folded_around(unicodedata.normalize("NFC", text))
    return unicodedata.normalize("NFC", folded).lstrip()


def folded(text: str) -> str:
    """Normalizes compatible forms and case. If this contains a word of `words_of`, it contains it literally."""
    return unicodedata.normalize("NFKC", text).casefold()


def words_of(text: str) -> list[str]:
    """The words without differences of form, case and punctuation: for comparing texts, not for telling them apart."""
    return _NOT_A_WORD.sub(" ", folded(text)).split()


def content_digest(text: str) -> bytes | None:
    """SHA-256 of the normal form of version `HASH_VERSION`; None: never a duplicate of anything.

    It is never stored, since anybody who reads it could confirm a guess. The database stores `memory.content_hash` of it.
    """
    normal = normal_form(text)
    holds_word = _OF_WORDS.search(normal) is not None or bool(words_of(normal))
    return hashlib.sha256(normal.encode()).digest() if holds_word else None


def _end_of_sentences(text: str) -> re.Pattern[str]:
    return _SENTENCE_END if _HAS_WIDE.search(text) else _NARROW_END


def sentences(text: str) -> list[str]:
    """The sentences and lines in order. A full stop of an abbreviation, an initial or a number in a list ends none."""
    starts = [0, *(match.end() for match in _ends(text))]
    parts = (text[start:end].strip() for start, end in zip(starts, [*starts[1:], len(text)], strict=True))
    return [part for part in parts if part]


def sentence_ends(text: str) -> list[int]:
    """Where the text may be cut: at the ends of its `sentences` and lines, and last at its own end."""
    begun = len(text) - len(text.lstrip())
    ends = [match.start() for match in _ends(text) if match.start() > begun]
    return [*ends, len(text)]


def _ends(text: str) -> Iterator[re.Match[str]]:
    first = next(filter(_is_cased, text), "")
    for match in _end_of_sentences(text).finditer(text):
        line = text[max(match.start() - _LINE, 0) : match.start()].rpartition("\n")[2]
        after = text[match.end() : match.end() + _LONGEST]
        goes_on = match[0] and first.isupper() and after[:1].islower()
        if "\n" in match[0] or not (goes_on or (line.endswith(".") and _shortens(line, after))):
            yield match


def _shortens(line: str, after: str) -> bool:
    """Whether its last full stop shortens a word, follows an initial, or numbers the line, a day or an item of it."""
    before, _, last = line[:-1].rpartition(" ")
    word = last.lstrip("(\"'").rpartition(".-")[2]
    if word.isdecimal():
        return _is_ordinal(word, before, after) or (not before.strip() and len(word) == 1)
    is_unit = before[-1:].isdecimal()  # 5 km. Then …
    begins = _begins(after)
    if len(word) == 1 and _is_cased(word):
        return not (begins and before)  # an initial, not plan B
    if not is_unit and not begins and (_ABBREVIATION.fullmatch(word) or _DOTTED.fullmatch(word)):
        return True
    if _DOTTED.fullmatch(word) and _first(after) in _weekdays():
        return True  # at 9 a.m. Monday
    goes_on = before.endswith(".") and len(word) <= _NEXT and word.islower() and _shortens(before, last)
    return goes_on or _is_listed(word.lower(), after)


def _is_ordinal(word: str, before: str, after: str) -> bool:
    """3. Mai, the 3. 5. of a date, am 3. Advent."""
    if len(word) > 2:
        return False
    of = _shortened()
    if _first(after) in of.counted or re.match(r"\d{1,2}\.(?!\d)", after):
        return True
    if before.endswith("."):
        return after[:4].isdecimal() and before[:-1].rpartition(" ")[2].isdecimal()  # 24. 12. 2026
    return before.rpartition(" ")[2].lower() in of.ordering and after[:1].isupper() and not _begins(after)


def _begins(after: str) -> bool:
    """Whether what follows begins a sentence, as a small word with a capital does."""
    word = _first(after)
    return after[:1].isupper() and len(word) > 1 and word in small_words() and word not in _OF_NAMES


def _first(after: str) -> str:
    return _NOT_A_WORD.split(after.lower())[0]


def _is_listed(word: str, after: str) -> bool:
    of = _shortened()
    if after[:1].isdecimal() and word in of.numbered | of.last:
        return True
    return word in of.before or (after[:1].islower() and word in of.last)


@cache
def _weekdays() -> Words:
    return Words().union(*(frozenset(one.weekdays) for one in of_all(Dates).values()))


@cache
def _shortened() -> Shortened:
    every = of_all(Shortened).values()
    return Shortened(*(Words().union(*(getattr(one, field) for one in every)) for field in Shortened._fields))


def _is_cased(letter: str) -> bool:
    return letter.isupper() or letter.islower()


def shortened(text: str, characters: int) -> str:
    """At most so many characters, cut after a word (or within the first, if that is longer) and marked by an ellipsis."""
    if len(text) <= characters:
        return text
    words = text[:characters].rpartition(" ")[0] or text[: cut_before(text, characters - 1)]
    return f"{words.rstrip()}…"


def in_lower_case(text: str) -> str:
    """The form against which the patterns of language files are matched: straight apostrophes, single spaces."""
    return " ".join(text.lower().replace("’", "'").split())


def one_line(text: str) -> str:
    return " ".join(text.split())
