"""Checks which observations a new text may contradict or repeat. Pure.

Each item is checked by itself. A wrong one is dropped and counted; it never makes the answer lose its text.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field

from memory_sql.consolidation.answers import NamedContradiction, NamedRepetition
from memory_sql.consolidation.holding import denials, holds_of
from memory_sql.domain.scopes import AbsorbedObservation, Contradiction, PendingObservation, Repetition
from memory_sql.languages.invisible import cut_before
from memory_sql.languages.text import clean, one_line
from memory_sql.languages.wording import SAID_AGAIN, TELLING, is_among, pieces, saying, says_nothing, stands_in
from memory_sql.llm.notation import as_written
from memory_sql.privacy.classify import mask
from memory_sql.privacy.contact import other_contact

QUOTE_CHARACTERS = 200  # of the quotation in a contradiction
MANY = 6  # observations
STILL_CHARACTERS = 1_000  # of what still holds
FEWEST, SHARE = 3, 5  # a version may supersede so many observations, or one in so many active ones

Told = PendingObservation | AbsorbedObservation


@dataclass(frozen=True, slots=True)
class Shown:
    """What the model was shown. It refers to `inputs` as n1, n2 …, to `known` as k1, k2 …, to what has `ended` not at all."""

    inputs: Sequence[PendingObservation]
    known: Sequence[AbsorbedObservation] = ()
    current: str | None = None
    ended: Sequence[AbsorbedObservation] = ()

    @property
    def contents(self) -> dict[int, str]:
        """By the scope's numbers."""
        return {item.seq: item.content for item in self.inputs} | {item.seq: item.content for item in self.known}

    def find(self, reference: str) -> Told | None:
        kind, place = reference[0], int(reference[1:])
        shown: Sequence[Told] = self.inputs if kind == "n" else self.known if kind == "k" else ()
        return shown[place - 1] if 1 <= place <= len(shown) else None

    def is_later(self, newer: Told, older: Told) -> bool:
        """Compares the times of observation; if they are equal, the numbers."""
        return (newer.observed_at, newer.seq) > (older.observed_at, older.seq)


@dataclass(frozen=True, slots=True)
class Replaced:
    """By the scope's numbers. `refused` counts the rejected items by reason."""

    contradictions: tuple[Contradiction, ...] = ()
    repetitions: tuple[Repetition, ...] = ()
    refused: Counter[str] = field(default_factory=Counter)


def replaced(
    contradictions: Sequence[NamedContradiction], repetitions: Sequence[NamedRepetition], shown: Shown
) -> Replaced:
    """Returns the valid ones.

    Only a later observation can contradict, and only an earlier one can be repeated. So nothing contradicts itself, there
    are no cycles, and whatever the model says, the last of the inputs remains.
    """
    refused = Counter[str]()
    found = tuple(_contradicting(contradictions, shown, refused))
    return Replaced(found, tuple(_repeating(repetitions, found, shown, refused)), refused)


def without(named: Replaced, waits: Collection[int]) -> Replaced:
    """What waits for another text replaces and repeats nothing yet."""
    return Replaced(
        tuple(item for item in named.contradictions if item.newer not in waits),
        tuple(item for item in named.repetitions if not {item.newer, item.older} & set(waits)),
        named.refused,
    )


def _contradicting(named: Sequence[NamedContradiction], shown: Shown, refused: Counter[str]) -> Iterator[Contradiction]:
    gave_way = set[int]()
    for item in named:
        newer = shown.find(item.newer) if item.newer.startswith("n") else None
        older = None if item.older is None else shown.find(item.older)
        problem = _problem_with(item, newer, older, gave_way, shown)
        if problem is not None or newer is None:
            refused[problem or "unknown_observation"] += 1
            continue
        gave_way |= set() if older is None else {older.seq}
        older_seq = None if older is None else older.seq
        found = Contradiction(newer=newer.seq, older=older_seq, was=quoted(item.was), now=quoted(item.now))
        yield found if item.still is None else with_still(found, _one_sentence(item.still), older)


def _problem_with(
    item: NamedContradiction, newer: Told | None, older: Told | None, gave_way: set[int], shown: Shown
) -> str | None:
    if newer is None or (item.older is not None and older is None):
        return "unknown_observation"
    if older is None and not shown.current:
        return "no_text_to_contradict"
    if older is not None and not shown.is_later(newer, older):
        return "contradicted_by_older"
    if older is not None and older.seq in gave_way:
        return "contradicted_twice"
    gives_way = shown.current if older is None else older.content
    if not stands_in(item.was or "", gives_way or ""):
        return "not_its_words"
    return None if says_something(item.was or "") else "says_nothing"


def in_most(shown: Shown) -> frozenset[str]:
    """The words that stand in most of what was shown, where there is much of it: they tell none of it from the others."""
    items: Sequence[Told] = [*shown.inputs, *shown.known]
    texts = [pieces(item.content) for item in items]
    counts = Counter(word for words in texts for word in words)
    return frozenset(word for word, count in counts.items() if count > max(len(texts), MANY) / 2)


def says_something(was: str) -> bool:
    """Not only words that say nothing by themselves in some language, or a year."""
    return not all(map(says_nothing, pieces(was)))


def tells_apart(was: str, common: Collection[str]) -> bool:
    """Whether these words tell an observation from the others: they are long enough without those that stand in most.

    A short word alone is a function word where a language isn't listed; a short number stands in many dates and times.
    """
    said = (word for word in pieces(was) if word not in common and not _is_little(word))
    return sum(map(len, said)) >= TELLING


def _is_little(word: str) -> bool:
    return says_nothing(word) and not (word.isdigit() and len(word) == 1)


def _one_sentence(text: str) -> str | None:
    """As it may be stored: cut nowhere, since half a sentence may say the opposite."""
    plain = mask(as_written(one_line(clean(text)[0]))).text
    return plain if len(plain) <= STILL_CHARACTERS else None


def with_still(item: Contradiction, still: str | None, older: Told | None) -> Contradiction:
    """With what of the older one still holds; what isn't in its words waits for a person. None: it is not known yet which."""
    asks = older is not None and still is not None and not holds_of(still, older.content, item.was or "")
    return item.model_copy(update={"still": still, "asks": asks})


def _repeating(
    named: Sequence[NamedRepetition], contradicting: Sequence[Contradiction], shown: Shown, refused: Counter[str]
) -> Iterator[Repetition]:
    counts, gives_way = {item.newer for item in contradicting}, {item.older for item in contradicting}
    roots = dict[int, Told]()
    for item in named:
        newer = shown.find(item.n) if item.n.startswith("n") else None
        older = shown.find(item.same_as)
        if newer is None or older is None or newer.seq in roots:
            refused["unknown_observation"] += 1
            continue
        older = roots.get(older.seq, older)
        if (
            newer.seq in counts | gives_way
            or older.seq in gives_way
            or newer.seq in {root.seq for root in roots.values()}
            or not shown.is_later(newer, older)
            or not says_the_same(newer.content, older.content)
        ):
            refused["not_the_same"] += 1
            continue
        roots[newer.seq] = older
        yield Repetition(newer=newer.seq, older=older.seq)


def says_the_same(newer: str, older: str) -> bool:
    """Judged by words: the older text has nearly all words of the newer one, each that tells something, and all numbers.

    Nor does one deny what the other says, or hold other contact data.
    """
    if not stands_in(newer, older, SAID_AGAIN) or other_contact(newer, older):
        return False
    there = pieces(older)
    return denials(newer) == denials(older) and all(is_among(word, there) for word in saying(newer))


def quoted(text: str | None) -> str | None:
    quote = as_written(one_line(clean(text or "")[0]))
    return quote[: cut_before(quote, QUOTE_CHARACTERS)] or None


def within_bounds(contradictions: Sequence[Contradiction], active: int) -> tuple[Contradiction, ...]:
    """Holds for a person the contradictions beyond what a version may supersede, given the number of active observations."""
    most, found, given = most_superseded(active), 0, list[Contradiction]()
    for item in contradictions:
        found += item.older is not None
        is_held = item.older is not None and found > most
        given.append(item.model_copy(update={"held": True}) if is_held else item)
    return tuple(given)


def most_superseded(active: int) -> int:
    return max(FEWEST, active // SHARE)
