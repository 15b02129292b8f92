"""Claims whose right answer is known, mixed with the claims that a model judges in order to detect a bad judge.

They are drawn at random from `decoys.toml`, in the languages and the form of the claims, and put in random positions.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import cache
from importlib.resources import files
from random import Random, SystemRandom
from typing import Any

from memory_sql.domain.ids import moved
from memory_sql.errors import ConfigurationError
from memory_sql.propagation.answers import Claim, Decision
from memory_sql.propagation.speech import covered, language_of
from memory_sql.propagation.task import PropagationTask

LEAST = 2  # of each sort per call
AFTER_A_MISS = 4  # of each sort per call, once the model has judged one wrongly
_ELSE = "english"  # for claims in a language without decoys
_KINDS = ("group", "everybody")
_HOURS = 72  # a decoy's time is at most so many hours before a claim's


@dataclass(frozen=True, slots=True)
class Decoy:
    """`wordings`: its text, then how other people put it. `goes`: it must be shared."""

    wordings: tuple[str, ...]
    goes: bool


@dataclass(frozen=True, slots=True)
class Mixed:
    """Claims and decoys in random order. `numbers`: the new number of each claim by its old one."""

    task: PropagationTask
    numbers: Mapping[int, int]


def mixed(task: PropagationTask, each: int, random: Random | None = None) -> Mixed:
    """Adds `each` decoys that must be shared, and as many that must not."""
    random = random or SystemRandom()
    kinds = {target.alias: target.kind for target in task.targets}
    languages = [language_of(claim.text) or _ELSE for claim in task.claims]
    alike = [random.choice(task.claims) for _ in range(2 * each)]
    drawn = list[Decoy]()
    for place, claim in enumerate(alike):
        kind = "everybody" if kinds[claim.to[0]] == "collective" else "group"
        goes = place % 2 == 0
        left = [one for one in _of(random.choice(languages), kind) if one.goes == goes and one not in drawn]
        drawn.append(random.choice(left or [one for one in _of(_ELSE, kind) if one.goes == goes]))
    order: list[tuple[Claim, bool | None]] = [(claim, None) for claim in task.claims]
    order += [(_as_claim(decoy, claim, random), decoy.goes) for decoy, claim in zip(drawn, alike, strict=True)]
    random.shuffle(order)
    numbers = {claim.n: n for n, (claim, goes) in enumerate(order, 1) if goes is None}
    claims = tuple(replace(claim, n=n) for n, (claim, _) in enumerate(order, 1))
    answers = {n: goes for n, (_, goes) in enumerate(order, 1) if goes is not None}
    return Mixed(replace(task, claims=claims, decoys=answers), numbers)


def missed(task: PropagationTask, decisions: Iterable[Decision]) -> int:
    """The number of decoys that the model judged wrongly, or not at all, for at least one of their scopes."""
    said = {(item.n, item.to.strip().casefold()): item for item in reversed(list(decisions))}
    right = {
        (n, to): (item := said.get((n, to))) is not None and (item.refusal is None) == goes
        for claim in task.claims
        for to in claim.to
        if (goes := task.decoys.get(n := claim.n)) is not None
    }
    return len({n for (n, _), is_right in right.items() if not is_right})


def _as_claim(decoy: Decoy, claim: Claim, random: Random) -> Claim:
    """Gives the decoy the form of that claim: the same scopes, a similar time, as many other wordings."""
    said_at = moved(claim.observed_at, -timedelta(minutes=random.randrange(60 * _HOURS)))
    return Claim(0, decoy.wordings[0], said_at, claim.to, decoy.wordings[1 : len(claim.also) + 1])


def judged_languages() -> tuple[str, ...]:
    """The languages that have rules and decoys. What is said in another waits for a person."""
    return tuple(language for language in covered() if all((language, kind) in _table() for kind in _KINDS))


def table() -> Mapping[tuple[str, str], Sequence[Decoy]]:
    """All decoys, by language and audience: `group` or `everybody`."""
    return _table()


def _of(language: str, kind: str) -> Sequence[Decoy]:
    found = _table()
    return found.get((language, kind)) or found[_ELSE, kind]


@cache
def _table() -> Mapping[tuple[str, str], Sequence[Decoy]]:
    try:
        raw = tomllib.loads(files("memory_sql.propagation").joinpath("decoys.toml").read_text("utf-8"))
    except (FileNotFoundError, tomllib.TOMLDecodeError) as error:
        raise ConfigurationError(f"decoys.toml can't be read: {error}") from error
    return {(language, kind): _read(lists) for language, kinds in raw.items() for kind, lists in kinds.items()}


def _read(lists: Mapping[str, Sequence[Any]]) -> Sequence[Decoy]:
    return tuple(
        Decoy((item,) if isinstance(item, str) else tuple(item), goes)
        for name, goes in (("shared", True), ("kept", False))
        for item in lists[name]
    )
