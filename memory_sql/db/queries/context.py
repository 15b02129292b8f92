"""What a context is made of: the static layer, what a search finds, and what a digest begins with, in one statement."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Sequence
from typing import Any, NamedTuple, cast

from sqlalchemy import FromClause, Select, false, select

from memory_sql.config import Settings
from memory_sql.db.direct import Reader
from memory_sql.db.queries.digest_candidates import CANDIDATES, Wanted, candidates_at, candidates_of
from memory_sql.db.queries.digest_candidates import NAMED as OF_CANDIDATE
from memory_sql.db.queries.episodes import OF_EPISODE, SEEN, episodes_in, lately
from memory_sql.db.queries.search import FOUND, MATCHES, Matches, Sought, found_in, given, search
from memory_sql.db.queries.static_layer import LAYER, layer_of, limits_of, static_layer_at
from memory_sql.domain.episodes import Episode
from memory_sql.domain.layer import StaticLayer
from memory_sql.domain.observations import Candidate
from memory_sql.domain.query import Query, Weights
from memory_sql.domain.reading import Hit, MessageHit

_SCOPE = tuple(item.label(f"l_{item.name}") for item in LAYER.c)
_Scope: Any = namedtuple("_Scope", LAYER.c.keys())  # type: ignore[misc]  # its columns are the function's


def _statement(*, searches: bool, digests: bool, episodes: bool) -> Select[Any]:
    """A row for each scope, then for each match, candidate and episode; columns of the other kinds are null."""
    columns, source = list[Any](_SCOPE), cast(FromClause, LAYER)
    if searches:
        columns, source = [*columns, *FOUND], source.join(MATCHES, false(), full=True)
    if digests:
        columns, source = [*columns, *OF_CANDIDATE], source.join(CANDIDATES, false(), full=True)
    if episodes:
        columns, source = [*columns, *OF_EPISODE], source.join(SEEN, false(), full=True)
    return select(*columns).select_from(source)


_STATEMENTS = {
    (searches, digests, episodes): _statement(searches=searches, digests=digests, episodes=episodes)
    for searches in (False, True)
    for digests in (False, True)
    for episodes in (False, True)
}


def _is_of_layer(row: Any) -> bool:
    return row.l_scope_id is not None or bool(row.l_settings) or row.l_scopes_more is not None


class Found(NamedTuple):
    """What a turn's memory is made of; each list as its source orders it."""

    layer: StaticLayer
    candidates: list[Candidate]
    hits: list[Hit]
    messages: list[MessageHit]
    episodes: Sequence[Episode] = ()


async def read_context(
    reader: Reader, settings: Settings, wanted: Wanted, query: Query, sought: Sought, weights: Weights, *, digests: bool
) -> Found:
    """One statement; as of a past moment up to three.

    Nothing is searched where `sought` wants none; `digests`: for a digest, as `wanted` says. Of the past no
    episodes are read.
    """
    searches = max(sought.observations, sought.messages) > 0
    if sought.as_of is not None:
        layer = await static_layer_at(reader, wanted.principal, settings, sought.as_of)
        candidates = await candidates_at(reader, wanted, settings, sought.as_of) if digests else []
        found = await search(reader, wanted.principal, query, sought, weights) if searches else Matches([], [])
        return Found(layer, candidates, found.hits, found.messages)
    parameters = {**wanted.principal, **limits_of(settings)}
    if searches:
        parameters |= given(wanted.principal, query, sought, weights)
    if digests:
        parameters |= wanted.parameters
    episodes = settings.episodes and settings.context_episodes > 0
    if episodes:
        parameters |= lately(settings, query, sought.now)
    rows = list(await reader.execute(_STATEMENTS[searches, digests, episodes], parameters))
    scopes = [_Scope._make(row[: len(_SCOPE)]) for row in rows if _is_of_layer(row)]
    matches = [row for row in rows if row.arm is not None] if searches else []
    found = found_in(matches, query)
    seen = episodes_in(row[-len(OF_EPISODE) :] for row in rows) if episodes else ()
    return Found(layer_of(scopes), candidates_of(rows) if digests else [], found.hits, found.messages, seen)
