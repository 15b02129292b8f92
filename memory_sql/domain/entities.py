"""What a memory is about: things and people by their names, and its heaviest terms."""

from __future__ import annotations

from datetime import date

from memory_sql.domain.ids import Value
from memory_sql.domain.layer import ScopeRef
from memory_sql.domain.observations import Observation


class NamedIn(Value):
    """How many active observations of a scope name something, and from which day to which they were said (UTC)."""

    scope: ScopeRef
    observations: int
    first: date
    last: date


class EntitySummary(Value):
    """Something that active observations name. `name` as the newest of them writes it; `scopes`: those with most first."""

    name: str
    observations: int
    first: date
    last: date
    scopes: tuple[NamedIn, ...]


class Entity(EntitySummary):
    """`newest`: the observations that name it, newest first; at most `limit`, and of each scope at least the newest."""

    newest: tuple[Observation, ...]


class Topic(Value):
    """A term of a memory: a word that `observations` have, or another form of it, and its `weight` (TF-IDF, summed up)."""

    term: str
    observations: int
    weight: float
