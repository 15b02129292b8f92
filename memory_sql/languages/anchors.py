"""What a text must contain for a pattern to match, derived from the pattern itself. Pure.

Words are runs of letters (`letters_in`), in lower case as in the patterns. The conditions are necessary, not sufficient:
if they are met, the pattern still has to be tried.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import cache
from importlib import import_module
from itertools import groupby
from typing import Any, Generic, NamedTuple, TypeVar

from memory_sql.languages.data import of_all
from memory_sql.languages.tables import FunctionWords, Words

_parser: Any = import_module("re._parser")  # by name: some stubs have it and some don't
MANY_WAYS = 1_000  # beyond this only part of what a pattern needs is derived; beyond MOST_WAYS nothing
MOST_WAYS = 2_000
_FEW = 4  # enumerated up to so many: characters of a class, repetitions
_LETTER = re.compile(r"[^\W\d_]")
_LETTERS = re.compile(r"[^\W\d_]+")
_RUNS = re.compile(r"[^\W\d_]+|[\W\d_]+")
_NO_LETTER = bytes(code if chr(code).isalpha() and code < 128 else 32 for code in range(256))
_OTHER_LETTER = re.compile(r"[^\W\d_\x00-\x7f]")

T = TypeVar("T")


def letters_in(text: str) -> frozenset[str]:
    """All runs of letters in a text."""
    if text.isascii() or _OTHER_LETTER.search(text) is None:
        return frozenset(text.encode("ascii", "replace").translate(_NO_LETTER).decode("ascii").split())
    return frozenset(_LETTERS.findall(text))


class Needed(NamedTuple):
    """What one way to match needs: these words (at most two, the rarer first) and this piece of a word (may be empty)."""

    words: tuple[str, ...]
    piece: str


class _Way(NamedTuple):
    """How far a way through a pattern has come. `tail`: the letters at its end; `is_open`: other letters may precede them."""

    tail: str = ""
    is_open: bool = True
    words: tuple[str, ...] = ()
    piece: str = ""

    def closed(self, *, is_open: bool) -> _Way:
        """Ends the run of letters: by something that isn't a letter or, with `is_open`, by anything."""
        if not self.tail:
            return _Way("", is_open, self.words, self.piece)
        if is_open or self.is_open:
            return _Way("", is_open, self.words, max(self.piece, self.tail, key=_length))
        return _Way("", is_open, _rarest((*self.words, self.tail)), self.piece)

    def then(self, letters: str) -> _Way:
        return _Way(self.tail + letters, self.is_open, self.words, self.piece)


_Ways = frozenset[_Way]


class _UntoldError(Exception):
    """The pattern has too many ways."""


def needed_by(pattern: str) -> frozenset[Needed] | None:
    """A text in lower case in which the pattern is found meets one of these. None: they can't be determined."""
    return _needed_in(_parser.parse(pattern))


def _needed_in(tree: Any) -> frozenset[Needed] | None:
    if tree.state.flags & (re.ASCII | re.IGNORECASE):
        return None
    try:
        ways = _walked(tree, frozenset({_Way()}))
    except _UntoldError:
        return None
    ends = (way.closed(is_open=True) for way in ways)
    return frozenset(Needed(tuple(map(str.lower, way.words)), way.piece.lower()) for way in ends)


def digits_needed_by(pattern: str) -> int:
    """The least number of consecutive digits in any text in which the pattern is found."""
    return _digits(_parser.parse(pattern))[0]


def _digits(items: Iterable[Any]) -> tuple[int, int | None]:
    """That number; and, if only digits match, the least number of digits that match."""
    most, row, is_bare = 0, 0, True
    for operation, argument in items:
        needed, bare = _digits_of(operation, argument)
        row = 0 if bare is None else row + bare
        is_bare = is_bare and bare is not None
        most = max(most, needed, row)
    return most, row if is_bare else None


def _digits_of(operation: Any, argument: Any) -> tuple[int, int | None]:
    match operation:
        case _parser.LITERAL:
            return (1, 1) if chr(argument).isdecimal() else (0, None)
        case _parser.IN:
            return (1, 1) if argument in _DIGITS else (0, None)
        case _parser.SUBPATTERN:
            return _digits(argument[3])
        case _parser.BRANCH:
            each = [_digits(items) for items in argument[1]]
            bare = [count for _, count in each if count is not None]
            return min(needed for needed, _ in each), min(bare) if len(bare) == len(each) else None
        case _parser.MAX_REPEAT | _parser.MIN_REPEAT | _parser.POSSESSIVE_REPEAT:
            needed, count = _digits(argument[2])
            row = None if count is None else int(argument[0]) * count
            return (max(needed, row or 0) if argument[0] else 0), row
        case _parser.AT | _parser.ASSERT | _parser.ASSERT_NOT:
            return 0, 0
        case _:
            return 0, None


def _walked(items: Iterable[Any], ways: _Ways) -> _Ways:
    for is_literal, some in groupby(items, key=lambda item: item[0] is _parser.LITERAL):
        if is_literal:
            ways = _spelled("".join(chr(code) for _, code in some), ways)
            continue
        for operation, argument in some:
            ways = _fewer(_STEPS.get(operation, _unknown)(argument, ways))
    return ways


def _fewer(ways: _Ways) -> _Ways:
    """Leaves out ways that need more than another that has come as far. If there are still many, keeps the rarest words."""
    for blank in _BLANK & ways:  # needs nothing
        ways = frozenset(way for way in ways if way.tail or way.is_open > blank.is_open or way == blank)
    if len(ways) <= MANY_WAYS:
        return ways
    fewer = frozenset(_Way(way.tail, way.is_open, way.words[:1], way.piece) for way in ways)
    if len(fewer) > MOST_WAYS:
        raise _UntoldError
    return fewer


def _spelled(text: str, ways: _Ways) -> _Ways:
    for run in _RUNS.findall(text):
        ways = frozenset(way.then(run) for way in ways) if _LETTER.match(run) else _bounded(None, ways)
    return ways


def _unknown(_: Any, ways: _Ways) -> _Ways:
    return frozenset(way.closed(is_open=True) for way in ways)


def _bounded(_: Any, ways: _Ways) -> _Ways:
    return frozenset(way.closed(is_open=False) for way in ways)


def _class(members: list[tuple[Any, Any]], ways: _Ways) -> _Ways:
    """One of several characters."""
    kinds = {kind for kind, _ in members}
    if kinds == {_parser.LITERAL} and len(members) <= _FEW:
        return frozenset(way for _, code in members for way in _spelled(chr(code), ways))
    return _bounded(None, ways) if all(_has_no_letter(*member) for member in members) else _unknown(None, ways)


def _has_no_letter(kind: Any, what: Any) -> bool:
    match kind:
        case _parser.LITERAL:
            return not _LETTER.match(chr(what))
        case _parser.RANGE:
            return what[1] < 128 and not any(_LETTER.match(chr(code)) for code in range(what[0], what[1] + 1))
        case _parser.CATEGORY:
            return what in (_parser.CATEGORY_SPACE, _parser.CATEGORY_DIGIT)
        case _:
            return False


def _group(argument: tuple[Any, int, int, Any], ways: _Ways) -> _Ways:
    _, added, _, items = argument
    return _unknown(None, ways) if added & (re.IGNORECASE | re.ASCII) else _walked(items, ways)


def _branch(argument: tuple[Any, list[Any]], ways: _Ways) -> _Ways:
    return frozenset(way for items in argument[1] for way in _walked(items, ways))


def _repeated(argument: tuple[int, int, Any], ways: _Ways) -> _Ways:
    """Follows each small number of repetitions. Beyond that only what the first few need is kept."""
    least, most, items = argument
    for _ in range(min(int(least), _FEW)):
        ways = _walked(items, ways)
    if int(least) > _FEW:
        return _unknown(None, ways)
    found = last = ways
    for _ in range(min(int(most), _FEW) - int(least)):
        last = _walked(items, last)
        if last <= found:
            return found
        found = _fewer(found | last)
    return found if int(most) <= _FEW else found | _unknown(None, last)


_BLANK = frozenset({_Way(is_open=False), _Way(is_open=True)})
_DIGITS = ([(_parser.CATEGORY, _parser.CATEGORY_DIGIT)], [(_parser.RANGE, (48, 57))])
_STEPS: dict[Any, Callable[[Any, _Ways], _Ways]] = {
    _parser.IN: _class,
    _parser.SUBPATTERN: _group,
    _parser.ATOMIC_GROUP: lambda items, ways: _walked(items, ways),
    _parser.BRANCH: _branch,
    _parser.MAX_REPEAT: _repeated,
    _parser.MIN_REPEAT: _repeated,
    _parser.POSSESSIVE_REPEAT: _repeated,
    _parser.AT: lambda at, ways: ways if at == _parser.AT_NON_BOUNDARY else _bounded(at, ways),
    _parser.ASSERT: lambda _, ways: ways,
    _parser.ASSERT_NOT: lambda argument, ways: _bounded(None, ways) if _refuses_letters(argument[1]) else ways,
}


def _refuses_letters(items: Any) -> bool:
    """Whether it is like `(?!\\w)` or `(?<![\\w-])`: no letter stands beside."""
    kinds = [argument if operation is _parser.IN else [] for operation, argument in items]
    return len(kinds) == 1 and (_parser.CATEGORY, _parser.CATEGORY_WORD) in kinds[0]


def _rarest(words: tuple[str, ...]) -> tuple[str, ...]:
    """At most two: the longest, and function words only if there are no others."""
    some = {*words} - small_words() or {*words}
    return (*some,) if len(some) == 1 else tuple(sorted(some, key=_length, reverse=True)[:2])


def _length(word: str) -> tuple[int, str]:
    return len(word), word


@cache
def small_words() -> Words:
    """Words that occur in most texts."""
    return Words().union(*(one.common for one in of_all(FunctionWords).values()))


class Anchored(Generic[T]):
    """Patterns indexed by what they need, each with a name of its own, so that only possible ones are tried on a text.

    `digits`: the least number of consecutive digits that a pattern needs, by name, where it needs some.
    """

    def __init__(self, patterns: Iterable[tuple[T, str]]) -> None:
        self._by_word: dict[str, dict[str, set[T]]] = {}  # then by the second word it needs, or ""
        self._by_piece: dict[str, set[T]] = {}
        self.digits: dict[T, int] = {}
        for name, pattern in patterns:
            tree = _parser.parse(pattern)
            for words, piece in _needed_in(tree) or (Needed((), ""),):
                first, second = (*words, "", "")[:2]
                some = self._by_word.setdefault(first, {}).setdefault(second, set()) if first else self._pieces(piece)
                some.add(name)
            if digits := _digits(tree)[0]:
                self.digits[name] = digits
        self._words = frozenset(self._by_word)
        self._plain = [piece for piece in self._by_piece if piece.isascii()]

    def _pieces(self, piece: str) -> set[T]:
        return self._by_piece.setdefault(piece, set())

    def worth_trying(self, text: str, words: frozenset[str]) -> set[T]:
        """`text` is in lower case, `words` are its `letters_in`. None of the other patterns can match."""
        found = set[T]()
        for piece in self._plain if text.isascii() else self._by_piece:
            if piece in text:
                found |= self._by_piece[piece]
        for word in self._words & words:
            for beside, names in self._by_word[word].items():
                if not beside or beside in words:
                    found |= names
        if found.isdisjoint(self.digits):
            return found
        counts = {*map(self.digits.get, found)}
        missing = {count for count in counts if count and _in_a_row(count).search(text) is None}
        return {name for name in found if self.digits.get(name) not in missing} if missing else found


@cache
def _in_a_row(count: int) -> re.Pattern[str]:
    return re.compile(r"\d" * count)
