"""Sentences of an old text that a new one tells otherwise, though nothing has been said about them. Pure.

Most of their words are still there, so that they aren't missed; but another name, figure or "not" makes another fact of them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Sequence

from memory_sql.consolidation.holding import denials
from memory_sql.consolidation.numbers import FIGURE, values_in, values_of
from memory_sql.languages.anchors import small_words
from memory_sql.languages.text import sentences
from memory_sql.languages.wording import is_among, pieces, saying, share_among, telling
from memory_sql.languages.words import fold, words_in

LOST = 0.4  # of its words, and of those that only it had, fewer stand in one new sentence: by honest answers it is half
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
    """The places of the old text's sentences that are told otherwise, though nothing new is about them: without a figure or
    name, denied or no longer denied, with something else in one place, or with two words exchanged.

    `explained`: the numbers of those of which that is known; `has_names`: a capital says something, unlike in German.
    """
    before = sentences(current)
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
        near = sorted({k for m in tells for k in (m - 1, m) if k >= 0})
        there = frozenset[str]().union(*(told[k] for k in near))
        is_whole = all(is_among(word, there) for word in said[n] & names)
        most = max(share_among(words, told[k]) for k in tells)
        best = [k for k in tells if share_among(words, told[k]) == most]
        if (
            not (is_whole and _has_figures_of(sentence, " ".join(parts[k] for k in near)))
            or _is_denied(sentence, parts, told, best)
            or _is_replaced(sentence, parts, best)
        ):
            found.append(n)
    return found


def _has_figures_of(sentence: str, text: str) -> bool:
    """By value: 1200 is 1,200, and two is 2. An ordinal (2nd) may be written in words."""
    there, whole = values_in(text), FIGURE.findall(text)
    figures = FIGURE.findall(_ORDINAL.sub(" ", sentence))
    return all(figure in whole or any(value in there for value in values_of(figure)) for figure in figures)


def _named(before: Sequence[str]) -> frozenset[str]:
    """What has a capital inside of a sentence, by its pieces."""
    inside = (word for sentence in before for word in words_in(sentence)[1:] if word[0].isupper())
    return frozenset[str]().union(*map(pieces, inside)) - small_words()


def _is_replaced(sentence: str, parts: Sequence[str], tells: Sequence[int]) -> bool:
    """Whether each of these is the same but for one place, or for two words in each other's."""
    old, new = _in_order(sentence), [_in_order(parts[k]) for k in tells]
    return bool(new) and all(_are_exchanged(old, one) or _differ_in_one_place(old, one) for one in new)


def _in_order(text: str) -> list[str]:
    return [_OWNED.sub("", fold(word)) for word in words_in(text)]


def _are_exchanged(old: Sequence[str], new: Sequence[str]) -> bool:
    places = [n for n, (one, other) in enumerate(zip(old, new, strict=False)) if one != other]
    if len(old) != len(new) or len(places) != 2:
        return False
    first, second = places
    return (old[first], old[second]) == (new[second], new[first])


def _differ_in_one_place(old: Sequence[str], new: Sequence[str]) -> bool:
    least = min(len(old), len(new))
    before = next((n for n in range(least) if old[n] != new[n]), least)
    after = next((n for n in range(least - before) if old[-1 - n] != new[-1 - n]), least - before)
    was, now = (saying(" ".join(words[before : len(words) - after])) for words in (old, new))
    if any(word[0].isdigit() for word in (*was, *now)):
        return False  # figures are compared by their values
    is_other = any(not is_among(word, now) for word in was) and any(not is_among(word, was) for word in now)
    return is_other and before + after >= max(len(old), len(new)) / 2


def _is_denied(sentence: str, parts: Sequence[str], told: Sequence[frozenset[str]], tells: Sequence[int]) -> bool:
    """Whether it denies what none of these does, or each of them denies it and says nothing else."""
    if denials(sentence):
        return not any(denials(parts[k]) for k in tells)
    there = pieces(sentence)
    return all(denials(parts[k]) and all(is_among(word, there) for word in telling(parts[k])) for k in tells)
