"""Sentences of an old text that a new one tells otherwise, though nothing has been said about them. Pure.

Most of their words are still there, so that they aren't missed; but another name, figure or "not" makes another fact of them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Sequence
from difflib import SequenceMatcher
from functools import cache

from memory_sql.consolidation.holding import denials
from memory_sql.consolidation.numbers import FIGURE, values_in, values_of
from memory_sql.languages.anchors import small_words
from memory_sql.languages.data import of_all
from memory_sql.languages.tables import Dates
from memory_sql.languages.text import sentences
from memory_sql.languages.wording import is_among, pieces, same_ends, saying, says_nothing, share_among, telling
from memory_sql.languages.words import fold, words_in

LOST = 0.4  # of its words, and of those that only it had, fewer stand in one new sentence: by honest answers it is half
COPIED = 0.6  # of the words of both sentences stand in both, in one order
SHORT = 3  # characters of a word that has another ending all the same
ABOUT = 1 / 3  # of a sentence's words stand in what is new about it
_ORDINAL = re.compile(r"\b\d+(?:st|nd|rd|th|er|e|re|ère)\b")
_OWNED = re.compile("['\u2019]s?$")


def altered(
    current: str,
    parts: Sequence[str],
    told: Sequence[frozenset[str]],
    whose: str,
    explained: Collection[int],
    news: Sequence[Collection[str]],
    *,
    has_names: bool,
) -> list[int]:
    """The places of the old text's sentences that are told otherwise, though nothing new is about them: the text has not one
    of its figures, or their copies in it are without a figure or name, denied or no longer denied, with something else in
    one place, or with two words exchanged. What is told in other words altogether can't be judged by words.

    `explained`: the numbers of those of which that is known; `has_names`: a capital says something, unlike in German.
    """
    before, text = sentences(current), " ".join(parts)
    said = [saying(sentence) for sentence in before]
    counts = Counter(word for words in said for word in words)
    names = _named(before) - pieces(whose) if has_names else frozenset[str]()
    found = list[int]()
    for n, sentence in enumerate(before):
        if n + 1 in explained or any(sentence == part.strip() for part in parts):
            continue
        own = [word for word in said[n] if counts[word] == 1]
        if any(share_among(said[n], there) >= ABOUT or any(is_among(word, there) for word in own) for there in news):
            continue
        words = telling(sentence, [whose])
        tells = [k for k, there in enumerate(told) if share_among(words, there) >= LOST]
        if not tells:
            continue  # it isn't told at all
        most = max(share_among(words, told[k]) for k in tells)
        turned = all(_turns(sentence, parts[k]) for k in tells if share_among(words, told[k]) == most)
        if turned or not _has_figures_of(_undated(sentence), text):
            found.append(n)
            continue
        copies = [parts[k] for k in tells if _is_copy(sentence, parts[k])]
        if copies and not any(_is_true_copy(copy, sentence, said[n] & names) for copy in copies):
            found.append(n)
    return found


def _is_copy(old: str, new: str) -> bool:
    return SequenceMatcher(None, _in_order(old), _in_order(new), autojunk=False).ratio() >= COPIED


def _is_true_copy(new: str, old: str, names: Collection[str]) -> bool:
    there = pieces(new)
    has_others = not _has_figures_of(old, new) and not _has_figures_of(new, old)
    has_all = all(is_among(name, there) for name in names) and _has_figures_of(_undated(old), new)
    return (
        has_all and not has_others and not _turns(old, new) and not _differ_in_one_place(_in_order(old), _in_order(new))
    )


def _turns(old: str, new: str) -> bool:
    return _is_denied(old, new) or _are_exchanged(_in_order(old), _in_order(new))


def _has_figures_of(sentence: str, text: str) -> bool:
    """By value: 1200 is 1,200, and two is 2. An ordinal (2nd) may be written in words."""
    there, whole = values_in(text), FIGURE.findall(text)
    figures = FIGURE.findall(_ORDINAL.sub(" ", sentence))
    return all(figure in whole or any(value in there for value in values_of(figure)) for figure in figures)


def _undated(sentence: str) -> str:
    """Without the days beside a month: what was to be on one may be over."""
    words = sentence.split()
    near = {k for n, word in enumerate(words) if fold(word.strip(".,;")) in _months() for k in range(n - 3, n + 2)}
    return " ".join(word for n, word in enumerate(words) if n not in near or not word[:1].isdigit())


@cache
def _months() -> frozenset[str]:
    return frozenset(fold(month) for one in of_all(Dates).values() for month in one.months)


def _named(before: Sequence[str]) -> frozenset[str]:
    """What has a capital inside of a sentence, by its pieces."""
    inside = (word for sentence in before for word in words_in(sentence)[1:] if word[0].isupper())
    return frozenset[str]().union(*map(pieces, inside)) - small_words() - _months()


def _in_order(text: str) -> list[str]:
    return [_OWNED.sub("", fold(word)) for word in words_in(text)]


def _are_exchanged(old: Sequence[str], new: Sequence[str]) -> bool:
    places = [n for n, (one, other) in enumerate(zip(old, new, strict=False)) if one != other]
    if len(old) != len(new) or len(places) != 2:
        return False
    first, second = places
    return (old[first], old[second]) == (new[second], new[first])


def _differ_in_one_place(old: Sequence[str], new: Sequence[str]) -> bool:
    before, after = same_ends(old, new)
    was, now = (saying(" ".join(words[before : len(words) - after])) for words in (old, new))
    if any(word[0].isdigit() for word in (*was, *now)):
        return False  # figures are compared by their values
    is_other = any(not is_among(word, now) for word in was) and any(not is_among(word, was) for word in now)
    return is_other and before + after >= COPIED * max(len(old), len(new))


def _is_denied(old: str, new: str) -> bool:
    """Whether one of them denies what the other one says, and neither says anything else."""
    if bool(denials(old)) == bool(denials(new)):
        return False
    one, other = _without(old, new), _without(new, old)
    says_more = any(not says_nothing(word) for word in telling(f"{one} {other}"))
    return not says_more and bool(denials(one)) != bool(denials(other))


def _without(text: str, other: str) -> str:
    there = pieces(other)
    return " ".join(word for word in words_in(text) if not all(_has_form(piece, there) for piece in pieces(word)))


def _has_form(word: str, there: Collection[str]) -> bool:
    """Of a short word too: eat, eats."""
    short = (one for one in there if min(len(one), len(word)) == SHORT)
    return is_among(word, there) or any(one.startswith(word) or word.startswith(one) for one in short)
