"""Whether a new text may replace the old one: whatever it drops must be accounted for. Pure.

Length alone proves nothing. What was overtaken or repeated may go, however long it was. What only became too slight to
keep may go a part in a week, so that no answer empties a text, and no number of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from memory_sql.consolidation.answers import NamedLeftOut
from memory_sql.consolidation.keeping import LONGEST_WORD, SHORT_CHARACTERS, SHORT_WORDS, TOLD, allowed, fits, share_of
from memory_sql.consolidation.replacing import FEWEST, Shown, says_the_same
from memory_sql.domain.scopes import Contradiction
from memory_sql.languages.text import count_words
from memory_sql.languages.wording import TELLING, is_among, pieces, share_among, stands_in

GONE = 1 / 4  # of the old text may be dropped as over or slight, in one version and in a week
SLIGHT_INPUTS = 3 / 4  # of the new observations may be dropped as slight
FEW_WORDS = 20  # may be dropped of any text in that time: a sentence


@dataclass(frozen=True, slots=True)
class Refusal:
    """`told` is for the model. `reason` is for logs and holds no remembered text. `review`: a person may decide otherwise.

    `too_long`: it is the length alone.
    """

    reason: str
    told: str
    review: bool = False
    too_long: bool = False


@dataclass(frozen=True, slots=True)
class Spent:
    """What went before and what has to go. `words`: dropped as over or slight within a week; `no_room`: words of the old
    text for which what is new leaves no room. `is_own`: the scope is a person's own, where all is theirs.
    """

    words: int = 0
    no_room: int = 0
    is_own: bool = True


NONE_SPENT = Spent()


@dataclass(frozen=True, slots=True)
class Account:
    """Shares of the old text. `replaced`: overtaken or repeated; `gone`: over or too slight.

    `explained`: the numbers of the sentences of both kinds, of what is gone as many as may go at a time; `words`: how many
    words these are, without those that had no room. `slight_inputs`: the share of the new observations that were too slight.
    In words, or in characters for scripts without spaces.
    """

    replaced: float = 0.0
    gone: float = 0.0
    slight_inputs: float = 0.0
    explained: frozenset[int] = frozenset()
    words: int = 0


def account(
    left_out: Iterable[NamedLeftOut],
    contradictions: Sequence[Contradiction],
    sentences: Sequence[str],
    shown: Shown,
    whose: str,
    spent: Spent = NONE_SPENT,
) -> Account:
    """What the answer says about what it drops. A reason that can't be true doesn't count. For each plan that has
    ended, one sentence that tells no more than it is over indeed: it may go like what was overtaken.

    In a scope of several people only a contradiction overtakes: it is bounded, and reviewed beyond. Without one a sentence is
    dropped as if it were slight.
    """
    replaced, gone, slight = set(_given_way(contradictions, sentences, shown)), set[int](), set[int]()
    ended = [plan.content for plan in shown.ended]
    for item in left_out:
        kind, n = item.what[0], int(item.what[1:])
        if kind == "n" and item.why == "slight" and shown.find(item.what) is not None:
            slight.add(n)
        elif kind == "s" and 1 <= n <= len(sentences):
            if item.why in ("over", "slight"):
                (replaced if item.why == "over" and _has_ended(sentences[n - 1], ended) else gone).add(n)
            elif _is_about_the_same(sentences[n - 1], item.by, shown, whose):
                (replaced if spent.is_own or _says_again(sentences[n - 1], item.by, shown) else gone).add(n)
    inputs = [item.content for item in shown.inputs]
    gone -= replaced
    most, listed = may_go(sentences, spent), sorted(gone)
    going = [n for place, n in enumerate(listed, 1) if _share(listed[:place], sentences) <= most]
    return Account(
        _share(replaced, sentences),
        _share(gone, sentences),
        _share(slight, inputs) if _is_long(inputs) else 0,
        frozenset(replaced.union(going)),
        max(size_of(" ".join(sentences[n - 1] for n in going)) - spent.no_room, 0),
    )


def _given_way(contradictions: Sequence[Contradiction], sentences: Sequence[str], shown: Shown) -> Iterator[int]:
    """The numbers of the sentences that say what is contradicted; of the text's own words one each, and a few."""
    contents, of_text = shown.contents, 0
    for item in contradictions:
        was, older = item.was or "", contents.get(item.older or 0)
        found = [n for n, text in enumerate(sentences, 1) if stands_in(was, text)]
        if older is not None:
            tells = [n for n in found if _tells(sentences[n - 1], older)]
            nearest = max((_nearness(sentences[n - 1], older) for n in tells), default=0.0)
            yield from (
                n for n in tells if _nearness(sentences[n - 1], older) == nearest or _is_of(sentences[n - 1], older)
            )
        elif of_text < FEWEST:
            of_text += 1
            yield from found[:1]


def _tells(sentence: str, older: str) -> bool:
    return stands_in(older, sentence, TOLD) or stands_in(sentence, older, TOLD)


def _nearness(sentence: str, older: str) -> float:
    one, other = pieces(sentence), pieces(older)
    return share_among(one, other) + share_among(other, one)


def _is_of(sentence: str, older: str) -> bool:
    """Whether it says nothing but what the observation says, or that and more."""
    return says_the_same(sentence, older) or says_the_same(older, sentence)


def _has_ended(sentence: str, ended: list[str]) -> bool:
    """Takes the plan out that says it: a long one has the words of many sentences, also of those that others have said."""
    found = next((plan for plan in ended if says_the_same(sentence, plan)), None)
    if found is not None:
        ended.remove(found)
    return found is not None


def _says_again(sentence: str, by: str | None, shown: Shown) -> bool:
    """Whether a new observation says it; one that is known may be the sentence's own source."""
    other = shown.find(by) if by is not None and by.startswith("n") else None
    return other is not None and says_the_same(sentence, other.content)


def size_of(text: str) -> int:
    """In words; of scripts without spaces in so many characters as a word has at most."""
    return int(max(count_words(text), len(text) / LONGEST_WORD))


def may_go(sentences: Sequence[str], spent: Spent) -> float:
    """The share of a text that may go now as over or slight: what is left for a week, and what has no room."""
    most, whole = most_gone(sentences), max(size_of(" ".join(sentences)), 1)
    return most if most == 1 else min(most, max(most - spent.words / whole, 0.0) + spent.no_room / whole)


def most_gone(sentences: Sequence[str]) -> float:
    """The share of a text that may go as over or slight at a time: of a short one all, else a quarter, or a sentence."""
    old = " ".join(sentences)
    if not old or (count_words(old) <= SHORT_WORDS and len(old) <= SHORT_CHARACTERS):
        return 1.0
    return max(GONE, FEW_WORDS / max(count_words(old), len(old) / LONGEST_WORD))


def _share(numbers: Iterable[int], texts: Sequence[str]) -> float:
    return share_of([texts[n - 1] for n in numbers], texts)


def _is_long(texts: Sequence[str]) -> bool:
    return count_words(" ".join(texts)) > SHORT_WORDS


def _is_about_the_same(sentence: str, by: str | None, shown: Shown, whose: str) -> bool:
    """Whether the observation said to overtake or repeat the sentence was shown, and shares a telling word with it."""
    other = shown.find(by) if by is not None else None
    if other is None:
        return False
    there, name = pieces(other.content), pieces(whose)
    telling = {word for word in pieces(sentence) - name if len(word) >= TELLING or word.isdigit() or not word.isascii()}
    return any(is_among(word, there) for word in telling)


def refusal(text: str, current: str | None, accounted: Account, max_words: int, min_ratio: float) -> Refusal | None:
    """Why the text must not replace the old one; None: it may."""
    if not fits(text, max_words):
        words, characters = allowed(max_words)
        size = f"{count_words(text)} words and {len(text):,} characters"
        return Refusal(
            f"the new text has {size}; {words} words and {characters:,} characters are allowed",
            f"It has {size}: too many. At most {max_words} words: keep what matters most.",
            too_long=True,
        )
    return _too_much_slight(accounted) or _too_short(text, current or "", accounted, max_words, min_ratio)


def _fits(old: str, max_words: int) -> float:
    """The share of the old text that fits the limit: 1, unless the limit was lowered."""
    return min(1.0, max_words / max(count_words(old), 1), max_words * LONGEST_WORD / max(len(old), 1))


def too_much_lost(share: float, current: str | None, max_words: int, spent: Spent) -> Refusal | None:
    """Why a text that has no room for so much of the old one must not replace it; None: it may."""
    old = current or ""
    if share <= may_go([old], spent) + 1 - _fits(old, max_words):
        return None
    return Refusal(
        f"{share:.0%} of the old text have no counterpart, and no room",
        f"It leaves out {share:.0%} of the current text, and a quarter may go in a week: keep more of it.",
        review=True,
    )


def _too_much_slight(accounted: Account) -> Refusal | None:
    if accounted.slight_inputs <= SLIGHT_INPUTS:
        return None
    share = f"{accounted.slight_inputs:.0%} of the new observations"
    return Refusal(
        f"{share} are left out as slight",
        f"It leaves out {share} as slight: keep more of them.",
        review=True,
    )


def _too_short(text: str, old: str, accounted: Account, max_words: int, min_ratio: float) -> Refusal | None:
    least = min_ratio * _fits(old, max_words) * (1 - accounted.replaced - accounted.gone)
    for unit, short, size, before in (
        ("words", SHORT_WORDS, count_words(text), count_words(old)),
        ("characters", SHORT_CHARACTERS, len(text), len(old)),
    ):
        if before > short and size < before * least:
            return Refusal(
                f"the new text has {size:,} {unit} where the old one has {before:,}, and the answer doesn't say why",
                f"It has {size:,} {unit} where the current text has {before:,}: keep everything that still holds, and name"
                " in left_out each sentence that your text doesn't keep.",
            )
    return None
