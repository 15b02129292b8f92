"""The search words of a text that Postgres' own parser wouldn't find. Pure rules, no model.

`search_extra` is stored beside a text; `Term`s are what a query asks for. Both use the same forms:

- a symbol at the end of a word counts (`C++`, `C#`), and a compound (`uteke-cloud-dev`, `GB/s`, `a.b@example.org`,
  `getUserName`) is found whole and by its parts;
- accents, ligatures and wide forms are folded (`café` is found by `cafe`); an emoji is a word;
- scripts without spaces between words (Han, kana, Thai, Lao, Khmer, Burmese, Tibetan) are split into pairs of characters,
  and Han also into single characters. So is Hangul, whose particles stand at the end of a noun (`녹차를` is found by `녹차`);
- an Arabic or Hebrew word is also found without the article and the small words that are written with it.

Forms are encoded in letters and digits, so that the parser takes each for one word in every locale.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from functools import cache, lru_cache
from typing import NamedTuple

_HAN_LETTERS = "\u3400-\u4dbf\u4e00-\u9fff"  # `\w` matches all of them
_HAN_REST = "\uf900-\ufaff\U00020000-\U0003ffff"
_SMALL = (
    "\u0e00-\u0eff"  # Thai, Lao
    "\u0f00-\u0fff"  # Tibetan
    "\u1000-\u109f"  # Burmese
    "\u1780-\u17ff"  # Khmer
    "\u3040-\u30ff\u31f0-\u31ff"  # kana
)
_HANGUL = "\uac00-\ud7a3"
_HAN = _HAN_LETTERS + _HAN_REST
_UNSPACED = _SMALL + _HAN + _HANGUL
_MARKS = (  # vowels and accents that aren't letters to Python, but occur inside words
    "\u0300-\u036f\u0483-\u0489\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0670\u06d6-\u06ed\u0900-\u0dff\u200c\u200d"
)
_ACCENTS = "\u0300-\u036f"
_OTHER = _MARKS + _SMALL + _HAN_REST
_LETTER = rf"(?:[^\W_]|[{_OTHER}])"
_FIRST = rf"(?![{_ACCENTS}]){_LETTER}"  # an accent without a letter folds to nothing
_WORD = re.compile(rf"{_FIRST}(?:[\w.\-+#/@:&'’{_OTHER}]*(?:{_LETTER}|[+#]))?|[\u2600-\u27bf\U0001f300-\U0001faff]")
_PART = re.compile(rf"(?![{_ACCENTS}]){_LETTER}+")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_APOSTROPHE = re.compile(r"['’](?:\w{0,2}$)")
_AHEAD = (  # of a noun of two letters at least
    re.compile(r"(?:[وفبكل]?ال|لل)(?=\w{2})"),  # Arabic: the, and the, by the, to the …
    re.compile(r"[הוכלבמש](?=\w{2})"),  # Hebrew: the, and, as, to, in, from, that
    re.compile(r"[וש][הכלבמ](?=\w{2})"),
)
_ODD = re.compile(r"[^0-9a-z]")
# In ASCII: finds every word that has forms of its own.
_JOINED = re.compile(r"[+#]|[._\-/@:&]'?[A-Za-z0-9]|'(?:\w{3}|\w{0,2}')|[A-Z](?<=[a-z0-9][A-Z])", re.ASCII)
_LIGATURES = str.maketrans(
    {"ß": "ss", "ø": "o", "ł": "l", "đ": "d", "ð": "d", "þ": "th", "æ": "ae", "œ": "oe", "\u0131": "i"}
)
_RIGHT_TO_LEFT = "\u05d0", "\u06ff"  # Hebrew and Arabic
WORD_MAX_CHARACTERS = 200  # longer ones are data, not words
KNOWN_MOST_CHARACTERS = 40  # of a word whose forms are cached


class Term(NamedTuple):
    """One item that a query asks for.

    `words`: forms still to be stemmed for the text's language; `extra`: forms as stored.
    """

    text: str
    words: tuple[str, ...] = ()
    extra: tuple[str, ...] = ()


def fold(text: str) -> str:
    """Normalizes compatible forms, case, accents and ligatures."""
    decomposed = unicodedata.normalize("NFKD", text.casefold())
    kept = "".join(c for c in decomposed if not unicodedata.combining(c) or not _is_accent(c))
    return unicodedata.normalize("NFC", kept).translate(_LIGATURES)


def words_in(text: str) -> list[str]:
    """The words in order, compounds whole, without possessives and short endings (`'s`, `'ll`)."""
    words = [_APOSTROPHE.sub("", word) for word in _WORD.findall(text)]
    return [word for word in words if 0 < len(word) <= WORD_MAX_CHARACTERS]


def search_extra(text: str) -> str:
    """The distinct forms in this text that its language's parser would miss, in order and separated by spaces."""
    if text.isascii() and _JOINED.search(text) is None:
        return ""
    odd = (piece for piece in text.split() if not piece.isascii() or _JOINED.search(piece))
    return " ".join(dict.fromkeys(form for piece in odd for form in _forms_in(piece)))


def _forms_in(piece: str) -> Iterable[str]:
    return _known_forms(piece) if len(piece) <= KNOWN_MOST_CHARACTERS else _all_forms(piece)


def _all_forms(piece: str) -> tuple[str, ...]:
    return tuple(form for word in words_in(piece) for form in _forms(word))


_known_forms = lru_cache(maxsize=8_192)(_all_forms)


def terms_of(word: str, variants: Iterable[str] = ()) -> list[Term]:
    """The terms for one word of a query: the word itself, a compound and its parts, the pairs of a run."""
    if word.isascii() and word.isalnum() and _CAMEL.search(word) is None:  # as most are
        return [Term(word, tuple(dict.fromkeys((word.lower(), *variants))))]
    if is_unspaced(word):
        return [Term(form, extra=(form,)) for form in dict.fromkeys(_pairs(word))] + [
            term for part in _run_of(_UNSPACED).sub(" ", word).split() for term in terms_of(part)
        ]
    if not _is_compound(word):
        own = word.lower()
        return [Term(word, tuple(dict.fromkeys((own, fold(own), *variants))), tuple(_forms(word)))]
    parts = dict.fromkeys(part for part in _parts(word) if len(part) > 1 or len(word) < 4)
    return [Term(word, extra=(encoded(word),)), *(Term(part, (part,), (part,)) for part in parts)]


def encoded(word: str) -> str:
    """The folded word, in which each character that isn't a letter or digit is replaced by its code: `c++` is `cx2bx2b`."""
    return _ODD.sub(lambda odd: odd[0] if odd[0].isalnum() else f"x{ord(odd[0]):x}", fold(word))


def _forms(word: str) -> Iterator[str]:
    """What is stored beside a word. Nothing, unless the word has other spellings or the parser would split it."""
    if is_unspaced(word):
        yield from _pairs(word)
        yield from "".join(_run_of(_HAN).findall(word))
        if len(word) == 2 and _HANGUL[0] <= word[0] <= _HANGUL[-1]:  # a noun of one syllable, and its particle
            yield encoded(word[0])
        for part in _run_of(_UNSPACED).sub(" ", word).split():
            yield fold(part)
            yield from _forms(part)
    elif _is_compound(word):
        yield encoded(word)
        yield from _parts(word)
    elif not word.isascii():
        if (form := encoded(word)) != word.lower():
            yield form
        if _RIGHT_TO_LEFT[0] <= word[0] <= _RIGHT_TO_LEFT[1]:
            yield from (encoded(word[ahead.end() :]) for one in _AHEAD if (ahead := one.match(word)))


def _pairs(word: str) -> Iterator[str]:
    """The pairs of neighbouring characters in each run; a single character stands alone."""
    for run in _run_of(_UNSPACED).findall(unicodedata.normalize("NFKC", word)):
        yield from (encoded(run[n : n + 2]) for n in range(max(1, len(run) - 1)))


def is_unspaced(word: str) -> bool:
    return not word.isascii() and max(word) >= _UNSPACED[0] and _run_of(_UNSPACED).search(word) is not None


@cache
def _run_of(characters: str) -> re.Pattern[str]:
    """Compiled when a text first needs it: to compile 27,000 letters of Han takes milliseconds."""
    return re.compile(f"[{characters}]+")


@cache
def _is_accent(character: str) -> bool:
    """Only accents of Latin, Greek and Cyrillic. In other scripts such marks are vowels that distinguish words."""
    return "\u0300" <= character <= "\u036f"


def _is_compound(word: str) -> bool:
    return len(word) > 1 and (_PART.fullmatch(word) is None or _CAMEL.search(word) is not None)


def _parts(word: str) -> Iterator[str]:
    for piece in _PART.findall(word):
        split = _CAMEL.split(piece)
        yield from (fold(part) for part in (split if len(split) == 1 else (*split, piece)))
