"""The episodes that a principal may see: one statement."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ARRAY, BigInteger, DateTime, Double, Integer, Text, bindparam, cast, column, func, select
from sqlalchemy.dialects.postgresql import DATEMULTIRANGE

from memory_sql.config import Settings
from memory_sql.db.direct import Reader
from memory_sql.db.observation_rows import select_read, to_observation
from memory_sql.domain.episodes import Episode, episode_id
from memory_sql.domain.observations import Observation
from memory_sql.domain.query import Query, multirange

_MOMENT = DateTime(timezone=True)
SEEN = func.memory.episodes_seen(
    *(bindparam(name, type_=Text) for name in ("agent_id", "user_id", "conversation_id")),
    cast(bindparam("episode_spans", type_=Text), DATEMULTIRANGE),
    bindparam("episodes_since", type_=_MOMENT),
    bindparam("episodes_behind", type_=BigInteger),
    bindparam("episodes_of", type_=Text),
    bindparam("episode", type_=BigInteger),
    bindparam("episodes_most", type_=BigInteger),
    bindparam("episode_days", type_=Double),
    bindparam("episodes_at", type_=_MOMENT),
).table_valued(
    column("episode_id", BigInteger),
    column("episode_conversation", Text),
    *(column(name, _MOMENT) for name in ("opened_at", "last_at", "sealed_at")),
    column("seal_reason", Text),
    column("topics", ARRAY(Text)),
    column("observations", Integer),
    column("trace_id", BigInteger),
    column("trace_since", _MOMENT),
    column("goal", Text),
    name="seen",
)  # fmt: skip
OF_EPISODE = tuple(item.label(f"e_{item.name}") for item in SEEN.c)
_Row: Any = namedtuple("_Row", SEEN.c.keys())  # type: ignore[misc]  # its columns are the function's
_SEEN = select(*OF_EPISODE)
_MEMBERS = select_read(
    func.memory.episode_observations(
        *(bindparam(name, type_=Text) for name in ("agent_id", "user_id", "conversation_id")),
        bindparam("episode", type_=BigInteger),
    )
)
_ALL: Mapping[str, Any] = {
    "episode_spans": None, "episodes_since": None, "episodes_behind": None, "episodes_of": None, "episode": None,
    "episodes_most": 1,
}  # fmt: skip


def lately(settings: Settings, query: Query, now: datetime) -> dict[str, Any]:
    """The parameters for what a context shows: the latest, and before them those of the days that the query names."""
    return {
        **_ALL,
        "episode_spans": multirange(query.spans) if query.spans else None,
        "episodes_since": now - timedelta(days=settings.context_episode_days),
        "episodes_most": settings.context_episodes,
        "episode_days": settings.message_retention_days,
        "episodes_at": now,
    }


def episodes_in(rows: Iterable[Any]) -> list[Episode]:
    """Of rows that begin with `OF_EPISODE`, those that are of an episode."""
    return [_episode(_Row._make(row[: len(OF_EPISODE)])) for row in rows if row[0] is not None]


async def page(
    reader: Reader,
    principal: Mapping[str, Any],
    days: float | None,
    now: datetime,
    limit: int,
    only: str | None,
    behind: int | None,
) -> list[Episode]:
    """Newest first; `behind` continues a listing. `days`: how long messages are kept."""
    asked = {"episodes_most": limit, "episodes_of": only, "episodes_behind": behind}
    return episodes_in(await reader.execute(_SEEN, _given(principal, days, now) | asked))


async def one(
    reader: Reader, principal: Mapping[str, Any], days: float | None, now: datetime, episode: int
) -> Episode | None:
    found = await reader.execute(_SEEN, _given(principal, days, now) | {"episode": episode})
    return next(iter(episodes_in(found)), None)


async def members(reader: Reader, principal: Mapping[str, Any], episode: int) -> tuple[Observation, ...]:
    """Oldest first."""
    return tuple(map(to_observation, await reader.execute(_MEMBERS, {**principal, "episode": episode})))


def _given(principal: Mapping[str, Any], days: float | None, now: datetime) -> dict[str, Any]:
    return {**principal, **_ALL, "episode_days": days, "episodes_at": now}


def _episode(row: Any) -> Episode:
    return Episode(
        id=episode_id(row.episode_id),
        conversation_id=row.episode_conversation,
        opened_at=row.opened_at,
        last_at=row.last_at,
        sealed_at=row.sealed_at,
        seal_reason=row.seal_reason,
        topics=tuple(row.topics),
        observations=row.observations,
        trace=None if row.trace_id is None else episode_id(row.trace_id),
        trace_since=row.trace_since,
        goal=row.goal,
    )
