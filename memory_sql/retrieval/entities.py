"""What observations name, each thing once however it is written. By rules; pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, date
from operator import attrgetter

from memory_sql.domain.entities import EntitySummary, NamedIn
from memory_sql.domain.layer import ScopeRef
from memory_sql.domain.observations import Observation
from memory_sql.languages.naming import capitals_in, names_in
from memory_sql.languages.text import words_of

Places = dict[ScopeRef, list[date]]


def summaries(observations: Sequence[Observation], language: str) -> list[EntitySummary]:
    """Of what these name, which are newest first: what most of them name comes first, then what was named last."""
    capitals = frozenset[str]().union(*(capitals_in(one.content, language) for one in observations))
    found = dict[tuple[str, ...], tuple[str, Places]]()
    for one in observations:
        for name in names_in(one.content, language, capitals):
            _, places = found.setdefault(tuple(words_of(name)), (name, Places()))
            days = places.setdefault(one.scope, [])
            days.append(one.observed_at.astimezone(UTC).date())
    every = (
        summary(name, (_named_in(scope, days) for scope, days in places.items())) for name, places in found.values()
    )
    return sorted(every, key=lambda one: (-one.observations, -one.last.toordinal(), one.name))


def summary(name: str, scopes: Iterable[NamedIn]) -> EntitySummary:
    most_first = sorted(scopes, key=attrgetter("observations"), reverse=True)
    return EntitySummary(
        name=name,
        observations=sum(one.observations for one in most_first),
        first=min(one.first for one in most_first),
        last=max(one.last for one in most_first),
        scopes=tuple(most_first),
    )


def _named_in(scope: ScopeRef, days: Sequence[date]) -> NamedIn:
    return NamedIn(scope=scope, observations=len(days), first=min(days), last=max(days))
