"""Where a statement names people: those that are known, given names, and names that act as people do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from memory_sql.languages.words import fold
from memory_sql.propagation.shape import MAX_CHARACTERS
from memory_sql.propagation.tokens import JOINED, STRAIGHT, Token, tokens_of
from memory_sql.propagation.vocabulary import vocabulary


@dataclass(frozen=True, slots=True)
class Known:
    """Names of people: `whole` ones as folded words, by their first, and the `parts` that name them by themselves."""

    whole: Mapping[str, Sequence[tuple[str, ...]]]
    parts: frozenset[str]


def known_people(names: Iterable[str], text: str) -> Known:
    """Those of which at least a part may stand in the text: a group may have thousands."""
    listed = vocabulary()
    folded = fold(text[:MAX_CHARACTERS])
    near = (name[:MAX_CHARACTERS] for name in names if _may_stand_in(name[:MAX_CHARACTERS], folded))
    words = {tuple(token.key for token in tokens_of(name)) for name in near}
    whole: dict[str, list[tuple[str, ...]]] = {}
    for name in words:
        if name and (len(name) > 1 or name[0] not in listed.ordinary):
            whole.setdefault(name[0], []).append(name)
    parts = frozenset(part for name in words for part in name if len(part) >= 3 and part not in listed.function_words)
    return Known(whole, parts)


def _may_stand_in(name: str, folded: str) -> bool:
    return any(part in folded for part in (name.lower() if name.isascii() else fold(name)).replace("'", " ").split())


def people_in(tokens: Sequence[Token], known: Known) -> list[tuple[int, int]]:
    """Where people stand, each as the positions of the first word and after the last."""
    found: list[tuple[int, int]] = []
    position = 0
    while position < len(tokens):
        end = end_of_person(tokens, position, known)
        if end > position:
            found.append((position, end))
        position = max(end, position + 1)
    return found


def end_of_person(tokens: Sequence[Token], start: int, known: Known) -> int:
    listed = vocabulary()
    token = tokens[start]
    for name in known.whole.get(token.key, ()):
        if tuple(other.key for other in tokens[start : start + len(name)]) == name:
            return start + len(name)
    after = tokens[start + 1] if start + 1 < len(tokens) else None
    if token.key in listed.titles and after and after.capital:
        return start + 2
    if token.key in listed.persons and not (after and not token.owns and after.key in listed.work):
        return start + 1
    if not _is_given(tokens, start, known) and not _is_unknown_person(tokens, start):
        return start
    end = start + 1
    while end < len(tokens) and not tokens[end - 1].owns and tokens[end].capital and tokens[end].key not in listed.work:
        end += 1
    return end


def _is_given(tokens: Sequence[Token], position: int, known: Known) -> bool:
    listed = vocabulary()
    token = tokens[position]
    if token.key in known.parts:
        return token.capital or token.key not in listed.ordinary
    if token.key in listed.months_and_days:
        return False
    after = tokens[position + 1].key if position + 1 < len(tokens) else ""
    if token.first and token.key in listed.words_too and after in listed.only_work:
        return False  # `Grant applications`, `Max file size`
    return token.key in listed.given and (token.capital or token.key not in listed.words_too)


def _is_unknown_person(tokens: Sequence[Token], position: int) -> bool:
    """A name that no list knows, where people are named: it owns, does or is what things don't, or it did something."""
    listed = vocabulary()
    token = tokens[position]
    if not token.capital or token.key in listed.ordinary or token.key in listed.months_and_days:
        return False
    before = tokens[position - 1].key if position else ""
    if before in listed.like or (before == "as" and position > 1 and tokens[position - 2].key == "such"):
        return True
    if before in listed.groups or before in listed.work or before in listed.to_things:
        return False
    if token.owns:
        return True
    if before == "by" or before in listed.done_to_persons:
        return not token.word.isupper()
    return position + 1 < len(tokens) and _acts(tokens[position + 1 :])


def _acts(rest: Sequence[Token]) -> bool:
    """The words begin with the verb of a person, as far as that differs from a thing's."""
    listed = vocabulary()
    verb = rest[0].key
    if verb in listed.being:
        return not _is_state(rest[1:])
    if verb in listed.done_by_things:
        return False
    if verb in listed.work:  # `Kemal reviews the code`, but `Nightly builds fail`
        return verb in listed.doing and len(rest) > 1 and (rest[1].key in listed.objects or rest[1].key in listed.work)
    if verb in listed.modal:
        return len(rest) > 1 and rest[1].key not in listed.things_may and not rest[1].key.endswith("ed")
    if verb in listed.function_words or rest[0].capital:
        return verb in listed.verbs_of_persons or verb in ("who", "whose")
    return (
        verb in listed.verbs_of_persons
        or verb in listed.saying
        or verb in listed.doing
        or (verb.endswith(("s", "ed")) and verb not in listed.no_past)
    )


def _is_state(rest: Sequence[Token]) -> bool:
    """Where or how a thing is, or what work is: `in beta`, `deployed`, `the gateway of …`."""
    listed = vocabulary()
    state = rest[0].key if rest else ""
    if state in listed.states_of_things or state[:1].isdigit() or state.endswith(("ed", "en")):
        return True
    return state not in listed.judging and any(token.key in listed.work for token in rest[:3])


def names_somebody(text: str, known: Known) -> str | None:
    listed = vocabulary()
    tokens = tokens_of(text)
    for position in range(len(tokens)):
        if tokens[position].key not in listed.persons and end_of_person(tokens, position, known) > position:
            return "name"
        if any(_is_name(part, known) for part in JOINED.split(tokens[position].key)):
            return "name"
    return None


def _is_name(part: str, known: Known) -> bool:
    """A part of a compound (`anna_smith`, `Anna/Tom`) that is nothing but a name."""
    listed = vocabulary()
    return (
        part not in listed.ordinary
        and part not in listed.months_and_days
        and (part in known.parts or part in listed.given)
    )


def singles_somebody_out(text: str) -> str | None:
    """A person or whoever, without a name: "he", "an engineer"."""
    return "pronoun" if vocabulary().singled_out.search(" ".join(text.translate(STRAIGHT).lower().split())) else None
