"""Whose matter a statement is: work that is shared, or one person's life."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from memory_sql.propagation.people import Known, people_in
from memory_sql.propagation.tokens import JOINED, WORD, Token, stem, tokens_of
from memory_sql.propagation.vocabulary import vocabulary


def is_personal(sentence: str, known: Known) -> bool:
    listed = vocabulary()
    tokens = tokens_of(sentence)
    people = people_in(tokens, known)
    lower = sentence.lower()
    if not people:
        lower = listed.technical.sub("work", lower)
    words = {part for found in WORD.findall(lower) for part in (found, *JOINED.split(found))}
    words |= {token.key for token in tokens if people}
    if listed.private_phrases.search(lower) or words & (listed.gendered | _reserved(sentence, bool(people))):
        return True
    if words & listed.judging and any(not _tells(tokens, end) for _, end in people):
        return True
    if any(_feels(tokens, position) for position in range(len(tokens))):
        return True
    return any(not _works(tokens, start, end) for start, end in people)


def _reserved(sentence: str, people: bool) -> frozenset[str]:
    """Private words; those of liking and wanting a group may have, a person not."""
    listed = vocabulary()
    group = not people and any(found.lower() in listed.groups for found in WORD.findall(sentence))
    return listed.life - listed.feeling if group else listed.life


def _feels(tokens: Sequence[Token], position: int) -> bool:
    """Somebody who isn't known as a group likes, wants or believes: `Kemal prefers`, `an engineer hopes`."""
    listed = vocabulary()
    token = tokens[position]
    if token.key not in listed.feeling or position == 0:
        return False
    before = tokens[max(0, position - 6) : position]
    return not any(other.key in listed.groups for other in before)


def _works(tokens: Sequence[Token], start: int, end: int) -> bool:
    """What is said of a person concerns work: it says something, does something with it, or has a role in it."""
    listed = vocabulary()
    rest = tokens[end:]
    if tokens[end - 1].owns:
        return any(token.key in listed.possessed for token in rest[:2])
    while len(rest) > 1 and rest[0].key in ("and", "or"):
        rest = rest[2:]  # the other one is looked at by itself
    verb = next((token.key for token in rest if token.key not in listed.links), "")
    before = next((token.key for token in reversed(tokens[:start]) if token.key not in listed.articles), "")
    if before in listed.before_object and (not rest or rest[0].key not in listed.verbs_of_persons):
        return True
    if verb in listed.saying:
        return not _is_told_on(rest)
    if verb in listed.doing or verb in listed.roles:
        return any(token.key in listed.work for token in rest)
    roles = any(token.key in listed.roles for token in tokens[:start])
    return not rest and roles


def _tells(tokens: Sequence[Token], end: int) -> bool:
    listed = vocabulary()
    return next((token.key in listed.saying for token in tokens[end:] if token.key not in listed.links), False)


def _is_told_on(rest: Sequence[Token]) -> bool:
    """Somebody is the object, not the subject of what is said: `reported Tadeusz to the board`."""
    listed = vocabulary()
    after = next((number for number, token in enumerate(rest) if token.key in listed.saying), 0) + 1
    if after >= len(rest) or not rest[after].capital:
        return False
    return after + 1 >= len(rest) or rest[after + 1].key in listed.prepositions


def is_about_work(sentence: str) -> bool:
    """A word of work, or two of those that also have other uses, or one of them with a date or figure."""
    listed = vocabulary()
    keys = {token.key for token in tokens_of(sentence)}
    if any(stem(key) in _strong_stems() for key in keys):
        return True
    dated = any(key[0].isdigit() or key in listed.months_and_days or key in listed.figures for key in keys)
    return len(keys & listed.weak_work) + dated >= 2


@cache
def _strong_stems() -> frozenset[str]:
    return frozenset(stem(word) for word in vocabulary().strong_work)
