"""How similar two short statements are, and whether one is grounded in its sources, by words, figures and negations."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise

from memory_sql.languages.wording import same_ends
from memory_sql.propagation.shape import MAX_CHARACTERS
from memory_sql.propagation.tokens import Token, stem, tokens_of
from memory_sql.propagation.vocabulary import vocabulary

CONTAINED = 0.7  # similarity of a claim to one that says the same and more
ALIKE = 0.65  # statements at least this similar claim the same; measured on the table in tests/unit/alike.py
GROUNDED = 0.5  # least share of a rewrite's content words that one source must contain
_FIGURE = re.compile(r"\d+(?:[.,:/-]\d+)*")


def same_claim(a: str, b: str) -> float:
    """How similar two short statements are, from 0 to 1; from `ALIKE` on they claim the same. Symmetric.

    0 if they contradict each other by figures, dates, negation or opposites, if each names something that the other
    doesn't, if they differ in one place alone, or if either claims nothing. Only the first `MAX_CHARACTERS` of each count.
    """
    one, other = claim_of(a[:MAX_CHARACTERS]), claim_of(b[:MAX_CHARACTERS])
    if not one.words or not other.words or _contradict(one, other) or _differ_in_one_place(one.order, other.order):
        return 0.0
    shared = len(one.words & other.words)
    jaccard = shared / len(one.words | other.words)
    least = min(len(one.words), len(other.words))
    return max(jaccard, CONTAINED) if shared == least >= 2 else jaccard


def supports(other: str, claim: str) -> bool:
    """Whether somebody who says the one says the other: it claims the same, and leaves out little of it.

    What says the same and more supports a shorter claim; who has said a part of a claim doesn't vouch for the rest.
    """
    said, there = claim_of(claim[:MAX_CHARACTERS]).words, claim_of(other[:MAX_CHARACTERS]).words
    return same_claim(other, claim) >= ALIKE and len(said & there) >= ALIKE * len(said)


@dataclass(frozen=True, slots=True)
class Claim:
    """Stems of the content words, the capitalized ones among them, figures and dates, and the number of negations.

    `order`: the stems in their order, and figures as figures.
    """

    words: frozenset[str]
    names: frozenset[str]
    figures: frozenset[str]
    negations: int
    order: tuple[str, ...] = ()


def ungrounded(text: str, sources: Sequence[str]) -> str | None:
    """`ungrounded` unless the sources hold every figure and name, and one source holds half of the content words."""
    sources = [source[:MAX_CHARACTERS] for source in sources]  # longer sources were withheld
    claims = [claim_of(source) for source in sources]
    known = frozenset().union(*(claim.figures for claim in claims)) if claims else frozenset()
    own = claim_of(text)
    if not own.figures <= known or not _proper(text) <= _all_stems(sources):
        return "ungrounded"
    grounded = any(_stems_from(own, claim) for claim in claims)
    return None if grounded else "ungrounded"


def borrows(text: str, source: str, also: Sequence[str], others: Sequence[str]) -> bool:
    """Whether a rewrite has content words that another claim of the same call has and its own doesn't.

    `also`: how others say the same; what two of these say isn't one person's addition.
    """
    told = [claim_of(one).words for one in also]
    theirs = frozenset().union(*told, *(claim_of(one).words for one in others))
    shared = {word for n, one in enumerate(told) for other in told[n + 1 :] for word in one & other}
    return not (claim_of(text).words & theirs) <= _all_stems([source]) | shared


def _stems_from(own: Claim, source: Claim) -> bool:
    if bool(own.negations) != bool(source.negations) or _opposed(own, source):
        return False
    return bool(own.words) and len(own.words & source.words) / len(own.words) >= GROUNDED


def _proper(text: str) -> frozenset[str]:
    """Stems of capitalized words, as names are; not function words or number words."""
    small = vocabulary().small | vocabulary().figures.keys()
    return frozenset(stem(token.key) for token in tokens_of(text) if token.capital and token.key not in small)


def _all_stems(sources: Iterable[str]) -> frozenset[str]:
    return frozenset(stem(token.key) for source in sources for token in tokens_of(source))


def claim_of(text: str) -> Claim:
    listed = vocabulary()
    tokens = tokens_of(_without_team_names(text))
    keys = [token.key for token in tokens]
    figures = {listed.figures.get(key, key) for key in keys if key in listed.figures or _FIGURE.fullmatch(key)}
    figures.update(_FIGURE.findall(text))
    figures.update(
        f"{listed.figures.get(key, key)} {stem(unit)}"
        for key, unit in pairwise(keys)
        if key in listed.figures or key.isdigit()
        if unit in listed.units
    )
    figures.update(listed.same_words.get(key, key) for key in keys if key in listed.certain_dates)
    figures.update(token.word for token in tokens if _is_letter(token))
    negations = sum(key in listed.negations or key.endswith("n't") for key in keys)
    content = [token for token in tokens if token.key not in listed.empty and not token.key.isdigit()]
    order = tuple(listed.figures.get(key) or stem(key) for key in keys if key not in listed.empty)
    words = frozenset(stem(token.key) for token in content)
    names = frozenset(stem(token.key) for token in content if token.capital)
    return Claim(words, names, frozenset(figures), negations, order)


def _is_letter(token: Token) -> bool:
    """Gate B, plan C: a capital that tells things apart as a figure does."""
    return len(token.word) == 1 and token.capital and not token.first and token.word not in ("I", "\u00c0")


def _without_team_names(text: str) -> str:
    """The name of the group that says it isn't part of the claim."""
    return vocabulary().named_team.sub("team", text)


@cache
def _opposed_stems() -> tuple[tuple[str, str], ...]:
    return tuple((stem(a), stem(b)) for a, b in vocabulary().opposite_words)


def _opposed(one: Claim, other: Claim) -> bool:
    mine, theirs = one.words - other.words, other.words - one.words
    return any((a in mine and b in theirs) or (b in mine and a in theirs) for a, b in _opposed_stems())


def _contradict(one: Claim, other: Claim) -> bool:
    figures = one.figures != other.figures and bool(one.figures) and bool(other.figures)
    things = bool(one.names - other.words) and bool(other.names - one.words)
    return figures or things or bool(one.negations) != bool(other.negations) or _opposed(one, other)


def _differ_in_one_place(one: Sequence[str], other: Sequence[str]) -> bool:
    """Whether all is the same but for what stands in one place: two values of one thing, such as two mailboxes."""
    before, after = same_ends(one, other)
    mine, theirs = one[before : len(one) - after], other[before : len(other) - after]
    return bool({*mine} - {*theirs} and {*theirs} - {*mine}) and before + after >= max(len(mine), len(theirs))
