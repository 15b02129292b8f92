"""What of a new text is kept, sentence by sentence. Pure.

A sentence goes that has a figure or a link of nobody's, or that nothing shown says; and in the end what is over the limit.
Nothing is lost with it: where it stood in the place of sentences of the old text, these stand there again; the observations
that it told stay pending, and are shown word for word.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache

from memory_sql.consolidation.altered import LOST, altered
from memory_sql.consolidation.names import CAPITALIZING, renames
from memory_sql.domain.scopes import PendingObservation
from memory_sql.languages.data import of_all
from memory_sql.languages.tables import FunctionWords, ToldBy
from memory_sql.languages.text import count_words, normal_form, sentence_ends, sentences
from memory_sql.languages.wording import pieces, saying, share_among, telling
from memory_sql.languages.words import words_in

FEW = 3  # a sentence with fewer telling words says nothing that could be made up
SOURCED = 1 / 3  # of its telling words have to be somewhere; of 59 honest sentences each has two thirds
TOLD = 1 / 2  # of an observation's telling words stand in the sentence that tells it
TOLD_AT_ALL = 1 / 4
MERGED = 4  # sentences of the old text that one of the new text may tell, besides itself
LONG, MOST = 30, 3 / 4  # telling words of a sentence; the share of a longer one that has to be told
FEW_WORDS = 4  # a line with fewer may stand under several headings
LONGEST_WORD = 12  # characters per word, on average
SHORT_WORDS, SHORT_CHARACTERS = 40, 240  # an old text shorter than this may shrink freely
SPARE = 1.2  # how far above the limit a text may be: no model can count
SURE = 2  # function words of a language by which a text is known to be in it


@dataclass(frozen=True, slots=True)
class Unsaid:
    """The text as it would be with the sentences that only a person can vouch for, and the observations that these tell."""

    text: str
    sentences: tuple[str, ...]
    tells: frozenset[int]


@dataclass(frozen=True, slots=True)
class Kept:
    """`waits`: the numbers of the observations that stay pending. `left_out`: how many sentences, by reason.

    `put_back`: how many of the old text, which the answer dropped without a word; `lost`: what share of it had no room.
    """

    text: str
    waits: frozenset[int] = frozenset()
    left_out: Counter[str] = field(default_factory=Counter)
    put_back: int = 0
    lost: float = 0.0
    unsaid: Unsaid | None = None


def allowed(max_words: int) -> tuple[int, int]:
    """Words, and characters for scripts without spaces between words."""
    words = int(max_words * SPARE)
    return words, words * LONGEST_WORD


def fits(text: str, max_words: int) -> bool:
    words, characters = allowed(max_words)
    return count_words(text) <= words and len(text) <= characters


def kept(
    text: str,
    current: str | None,
    inputs: Sequence[PendingObservation],
    known: Collection[str],
    whose: str,
    max_words: int,
    problems_of: Callable[[Sequence[str]], Sequence[str | None]],
    explained: Collection[int] = (),
) -> Kept:
    """`problems_of`: why each of these sentences can't stand, by its figures and links.

    `explained`: the numbers of those of the old text of which the answer says why it drops them.
    """
    is_compared = is_comparable(text, current or "", max_words)
    parts = list(_once(_parts(text)) if is_compared else _parts(text))
    text = "".join(parts).strip()
    told = [pieces(part) for part in parts]
    problems = list(problems_of(parts))
    made_up = _made_up(parts, told, problems, current, inputs, known, whose)
    problems = [problem or ("made_up" if n in made_up else None) for n, problem in enumerate(problems)]
    silent, otherwise = list[int](), list[int]()
    if is_compared:
        silent = untold(current, told, whose, explained)
        has_names = _language(current or "") not in CAPITALIZING
        news = [pieces(item.content) for item in inputs]
        otherwise = altered(current or "", parts, told, whose, explained, news, has_names=has_names)
    new = [telling(item.content, [whose]) for item in inputs]
    passed_over = frozenset(inputs[n].seq for n in _passed_over(new, inputs, text, current or "", told))
    if not any(problems) and fits(text, max_words) and not silent and not otherwise:
        return Kept(text, passed_over)
    stand = {n for n, problem in enumerate(problems) if problem is None}
    old = _put_back(told, stand, current, whose)
    if is_compared and len(stand) < len(parts):  # what has gone is no counterpart
        silent = untold(current, [told[n] for n in sorted(stand)], whose, explained)
    instead = {place: len(some) for place, some in old.items()}
    unsaid = set(range(len(parts))) - stand
    for n in _beyond(parts, told, stand, old, new, max_words):
        stand.discard(n)
        problems[n] = "too_long"
    told_now = _told(new, told, stand, old)
    gone = len(stand) < len(parts)
    waits = passed_over.union(item.seq for n, item in enumerate(inputs) if gone and n not in told_now)
    again = {sentence for some in old.values() for sentence in some}
    back = [n for n in sorted({*silent, *otherwise}) if sentences(current or "")[n] not in again]
    no_room = _put_back_silent(parts, told, stand, old, current or "", back, otherwise, new, whose, max_words)
    lost = [sentences(current or "")[n] for n in no_room if n in silent]
    whole = "".join(_written(parts, stand, old)).strip()
    share = share_of(lost, [current or ""])
    added, beside = _added(parts, sorted(unsaid), stand, old, instead, max_words)
    unsaid_in = None
    if added:
        tells = {inputs[n].seq for n in _told(new, told, stand | added, beside)}
        text = "".join(_written(parts, stand | added, beside)).strip()
        unsaid_in = Unsaid(text, tuple(parts[n].strip() for n in sorted(added)), waits & tells)
    counts = Counter(filter(None, problems))
    return Kept(whole, waits, counts, len(back) - len(no_room), share, unsaid_in)


def share_of(some: Sequence[str], texts: Sequence[str]) -> float:
    """How much of the texts these are: in words, or in characters for scripts without spaces."""
    whole = " ".join(texts)
    size = len if len(whole) > count_words(whole) * LONGEST_WORD else count_words
    return sum(map(size, some)) / max(sum(map(size, texts)), 1)


def _added(
    parts: Sequence[str],
    unsaid: Sequence[int],
    stand: Collection[int],
    old: dict[int, list[str]],
    instead: dict[int, int],
    max_words: int,
) -> tuple[set[int], dict[int, list[str]]]:
    """Those that fit beside all that stands, and what of the old text stands beside them: not what stood for them."""
    added, beside = set[int](), old
    for n in unsaid:
        tried = beside | {n: old.get(n, [])[instead.get(n, 0) :]}
        if fits("".join(_written(parts, {*stand, *added, n}, tried)).strip(), max_words):
            added, beside = added | {n}, tried
    return added, beside


def is_comparable(text: str, current: str, max_words: int) -> bool:
    """A short text may be written anew; one above the limit has to be. In another language none has the same words."""
    languages = {_language(text), _language(current)} - {None}
    return not _is_short(current) and fits(current, max_words) and len(languages) < 2


def _is_short(text: str) -> bool:
    return count_words(text) <= SHORT_WORDS and len(text) <= SHORT_CHARACTERS


def untold(current: str | None, told: Sequence[frozenset[str]], whose: str, explained: Collection[int]) -> list[int]:
    """The places of the old text's sentences that have no counterpart, though the answer doesn't say that it drops them.

    Judged by the words that no other sentence of the old text has: alike sentences tell them apart by a name or a number. One
    that has none of its own is told by what has all of its words. One sentence tells no more than `MERGED`. A long one, as of
    a text without full stops, is told by most of its words, wherever these stand.
    """
    called, before = pieces(whose), sentences(current or "")
    old = [(telling(sentence) | saying(sentence)) - called for sentence in before]
    counts, found, tells = Counter(word for words in old for word in words), list[int](), Counter[int]()
    for n, words in enumerate(old):
        if n + 1 in explained or not words or pieces(before[n]) in told:
            continue
        if len(words) > LONG:
            found += [n] if share_among(words, frozenset[str]().union(*told)) < MOST else []
            continue
        own = [word for word in words if counts[word] == 1]
        least = LOST if own else 1
        by = [
            k
            for k, there in enumerate(told)
            if words <= there or (share_among(words, there) >= least and share_among(own, there) >= LOST)
        ]
        one = min(by, key=lambda k: tells[k], default=None)
        if one is None or tells[one] == MERGED:
            found.append(n)
        else:
            tells[one] += 1
    return found


def _remnants(
    parts: Sequence[str],
    told: Sequence[frozenset[str]],
    stand: Collection[int],
    old: Sequence[frozenset[str]],
    n: int,
    silent: Collection[int],
    whose: str,
) -> set[int]:
    """The places of sentences that say a part of the old one `n`, and nothing else: they would stand beside it."""
    stays = [words for m, words in enumerate(old) if m not in silent]
    return {
        k
        for k in stand
        if (words := telling(parts[k], [whose]))
        and words <= old[n]
        and all(share_among(other, told[k]) < LOST for other in stays)
    }


def _instead(
    told: Sequence[frozenset[str]],
    stand: Collection[int],
    old: Sequence[frozenset[str]],
    n: int,
    back: Collection[int],
    new: Sequence[Collection[str]],
) -> set[int]:
    """The places of sentences that tell the old one `n` otherwise, and neither another one that stays nor anything new."""
    stays = [*(words for m, words in enumerate(old) if m not in back), *new]
    of_it = (k for k in stand if share_among(old[n], told[k]) >= LOST)
    return {k for k in of_it if all(share_among(words, told[k]) < LOST for words in stays)}


def _put_back_silent(
    parts: Sequence[str],
    told: Sequence[frozenset[str]],
    stand: set[int],
    old: dict[int, list[str]],
    current: str,
    silent: Sequence[int],
    otherwise: Collection[int],
    new: Sequence[Collection[str]],
    whose: str,
    max_words: int,
) -> list[int]:
    """Adds these sentences of the old text to `old`, each behind what tells the last before it, in the place of what is left
    of it. Returns the places of those that have no room.
    """
    before, lost = sentences(current), list[int]()
    words_of = [telling(sentence, [whose]) for sentence in before] if silent else []
    for n in silent:
        remnants = _remnants(parts, told, stand, words_of, n, silent, whose)
        remnants |= _instead(told, stand, words_of, n, silent, new) if n in otherwise else set()
        stand -= remnants
        ahead = [m for m in range(n) if m not in silent]
        words = telling(before[ahead[-1]]) if ahead else frozenset[str]()
        place = max(range(len(parts)), key=lambda k: (k in stand) * share_among(words, told[k]), default=0)
        old.setdefault(place, []).append(before[n])
        if not fits("".join(_written(parts, stand, old)).strip(), max_words):
            old[place].pop()
            stand |= remnants
            lost.append(n)
    return lost


def _passed_over(
    new: Sequence[Collection[str]],
    inputs: Sequence[PendingObservation],
    text: str,
    current: str,
    told: Sequence[frozenset[str]],
) -> list[int]:
    """The places of the observations in the language of the text that no sentence tells. A short text may be written anew.

    A sentence that says something else than the old text and any of them may tell one of them in other words.
    """
    if _is_short(" ".join([current, *(item.content for item in inputs)])):
        return []
    small = _small_words().get(_language(text) or "", frozenset())
    found = [
        n
        for n, words in enumerate(new)
        if words
        and not _is_told_at_all(words, told)
        and small.intersection(map(str.lower, words_in(inputs[n].content)))
    ]
    known = [pieces(sentence) for sentence in sentences(current)] if found else []
    others = [there for there in told if _best(telling(" ".join(there)), [*known, *new]) < TOLD_AT_ALL]
    return found if len(found) > len(others) else []


def _told(
    new: Sequence[Collection[str]], told: Sequence[frozenset[str]], stand: Collection[int], old: dict[int, list[str]]
) -> set[int]:
    """The places of the observations that a text tells that has these sentences, and those of the old text."""
    left = [told[n] for n in sorted(stand)] + [pieces(part) for some in old.values() for part in some]
    gone = [told[n] for n in range(len(told)) if n not in stand]
    return {n for n, words in enumerate(new) if _is_told(words, left, gone)}


def _is_told(words: Collection[str], left: Sequence[Collection[str]], gone: Sequence[Collection[str]]) -> bool:
    """Whether a sentence that is left tells an observation of these words, and none that went does so better; or several do
    together, and none that went told any of it.
    """
    best = _best(words, left)
    if best >= TOLD:
        return bool(words) and (best == 1 or best > _best(words, gone))
    return _together(words, left) >= TOLD and not _together(words, gone)


def _parts(text: str) -> Iterator[str]:
    """The sentences with the white space behind them."""
    begin = 0
    for end in sentence_ends(text):
        rest = re.match(r"\s*", text[end:])
        until = end + (rest.end() if rest else 0)
        if text[begin:until].strip():
            yield text[begin:until]
        begin = until


def _once(parts: Iterable[str]) -> Iterator[str]:
    """Without sentences that stand there already: they would leave no room for others."""
    seen = set[str]()
    for part in parts:
        normal = normal_form(part)
        if normal not in seen or count_words(part) < FEW_WORDS:
            yield part
        seen.add(normal)


def _written(parts: Sequence[str], stand: Collection[int], old: dict[int, list[str]]) -> Iterator[str]:
    for n, part in enumerate(parts):
        if n in stand:
            yield part if part[-1:].isspace() or not old.get(n) else f"{part} "
        yield from (f"{sentence} " for sentence in old.get(n, ()))


def _best(words: Collection[str], among: Sequence[Collection[str]]) -> float:
    return max((share_among(words, there) for there in among), default=0.0)


def _is_told_at_all(words: Collection[str], told: Sequence[Collection[str]]) -> bool:
    return _best(words, told) >= TOLD_AT_ALL or _together(words, told) >= TOLD


def _together(words: Collection[str], among: Sequence[Collection[str]]) -> float:
    """How much of a long observation's words those sentences have together of which it says the most."""
    about = [there for there in map(telling, map(" ".join, among)) if there and share_among(there, words) >= TOLD]
    return share_among(words, frozenset[str]().union(*about)) if about else 0.0


def _made_up(
    parts: Sequence[str],
    told: Sequence[frozenset[str]],
    problems: Sequence[str | None],
    current: str | None,
    inputs: Sequence[PendingObservation],
    known: Collection[str],
    whose: str,
) -> set[int]:
    """Sentences that nothing shown says. One may translate what no other sentence tells, and what is in another language."""
    said = frozenset[str]().union(*map(pieces, (current or "", whose, *known, *(item.content for item in inputs))))
    found = list[int]()
    for n, part in enumerate(parts):
        words = {word for word in telling(part, [whose]) if not word.isdigit()}
        if problems[n] is None and len(words) >= FEW and share_among(words, said) < SOURCED:
            found.append(n)
    if not found:
        return set()
    others = [words for n, words in enumerate(told) if n not in found]
    untold = [item.content for item in inputs if not _is_told_at_all(telling(item.content, [whose]), others)]
    if current and _language(current) not in (None, _language(" ".join(parts))):
        untold += sentences(current)  # told in another language from now on
    for n in list(found):
        language = _language(parts[n])
        other = next((text for text in untold if language is None or _language(text) != language), None)
        if other is not None and not renames(parts[n], other, language):
            untold.remove(other)
            found.remove(n)
    return set(found)


def _put_back(
    told: Sequence[frozenset[str]], stand: Collection[int], current: str | None, whose: str
) -> dict[int, list[str]]:
    """The sentences of the old text that only those tell that go, by their places."""
    back = dict[int, list[str]]()
    gone = [n for n in range(len(told)) if n not in stand]
    for sentence in sentences(current or "") if gone else ():
        words = telling(sentence, [whose])
        place = max(gone, key=lambda n: share_among(words, told[n]))
        if words and share_among(words, told[place]) >= TOLD and _best(words, [told[n] for n in stand]) < TOLD:
            back.setdefault(place, []).append(sentence)
    return back


def _beyond(
    parts: Sequence[str],
    told: Sequence[frozenset[str]],
    stand: Collection[int],
    old: dict[int, list[str]],
    new: Sequence[frozenset[str]],
    max_words: int,
) -> Iterator[int]:
    """What has to go, from the end, until the rest fits: first what tells nothing new, then what waits for the next text."""
    left = set(stand)
    tells = {n for n in stand if any(words and share_among(words, told[n]) >= TOLD for words in new)}
    for n in (*sorted(left - tells, reverse=True), *sorted(tells, reverse=True)):
        if fits("".join(_written(parts, left, old)).strip(), max_words) or len(left) == 1:
            return
        left.discard(n)
        yield n


def _language(text: str) -> str | None:
    """The one whose function words it has most of; None: it has too few."""
    words = {word.lower() for word in words_in(text)}
    counts = Counter({language: len(words & small) for language, small in _small_words().items()})
    (best, most), *others = counts.most_common(2)
    return best if most >= SURE and all(count < most for _, count in others) else None


@cache
def _small_words() -> dict[str, frozenset[str]]:
    told_by = of_all(ToldBy)
    return {
        language: small.common | small.telling | (told_by[language].words if language in told_by else frozenset())
        for language, small in of_all(FunctionWords).items()
    } | {language: one.words for language, one in told_by.items() if language not in of_all(FunctionWords)}
