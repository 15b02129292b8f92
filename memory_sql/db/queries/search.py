"""What a query finds, in the observations and the messages that a principal may see: one statement."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import ClauseElement, ColumnClause, Executable, Select, bindparam, cast, column, func, select
from sqlalchemy.dialects.postgresql import BIT, JSONB
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.types import ARRAY, BigInteger, Boolean, DateTime, Double, Integer, Text

from memory_sql.db.direct import Reader
from memory_sql.db.observation_rows import OWN, read_from, to_observation
from memory_sql.domain.episodes import episode_id
from memory_sql.domain.messages import RetainedMessage
from memory_sql.domain.query import Query, Weights
from memory_sql.domain.reading import Explanation, Followed, Hit, MessageHit

# What memory.search returns. `observation` and `message` are rows of their tables.
COLUMNS: tuple[ColumnClause[Any], ...] = (
    column("arm", Text),
    column("score", Double),
    column("strength", Double),
    column("covered", Double),
    column("near", Boolean),
    column("explanation", JSONB),
    column("observation"),
    column("scope_kind", Text),
    column("owner", Text),
    column("name", Text),
    column("status", Text),
    column("verification", Text),
    column("superseded_by", Integer),
    column("pending", Boolean),
    column("version", Integer),
    column("resolved", Text),
    column("message"),
    column("observations", ARRAY(Text)),
)
_PRINCIPAL = tuple(bindparam(name, type_=Text) for name in ("agent_id", "user_id", "conversation_id"))
MATCHES = func.memory.search(
    *_PRINCIPAL,
    cast(bindparam("query", type_=Text), JSONB),
    bindparam("limit", type_=BigInteger),
    bindparam("messages", type_=BigInteger),
    bindparam("days", type_=Double),
    bindparam("now", type_=DateTime(timezone=True)),
    bindparam("as_of", type_=DateTime(timezone=True)),
    bindparam("explain", type_=Boolean),
    cast(bindparam("vector", type_=Text), BIT(varying=True)),
    bindparam("model", type_=Text),
).table_valued(*COLUMNS, name="matches")
MESSAGE: tuple[ColumnClause[Any], ...] = (
    column("conversation_id", Text),
    column("message_id", Text),
    column("number", BigInteger),
    column("role", Text),
    column("speaker", Text),
    column("user_id", Text),
    column("content", Text),
    column("said_at", DateTime(timezone=True)),
    column("given_at", DateTime(timezone=True)),
)
FOUND = (
    *(item for item in MATCHES.c if item.name not in ("observation", "message")),
    *read_from(MATCHES.c.observation, OWN),
    *read_from(MATCHES.c.message, MESSAGE, "message_"),
)
"""A match with the columns of its observation, as `to_observation` reads them, or of its message."""
_SEARCH = select(*FOUND)
_row = MATCHES.c.observation
_EPISODE = func.memory.episode_of(
    *_PRINCIPAL,
    *read_from(_row, (column("scope_id", BigInteger), column("seq", Integer)), "of_"),
    type_=BigInteger,
).label("episode_id")
_SEARCH_EPISODES = select(*FOUND, _EPISODE)


class _Explain(Executable, ClauseElement):
    inherit_cache = False

    def __init__(self, statement: Select[Any]) -> None:
        self.statement = statement


@compiles(_Explain)
def _explain(element: _Explain, compiler: SQLCompiler, **options: Any) -> str:
    return f"EXPLAIN (ANALYZE, BUFFERS) {compiler.process(element.statement, **options)}"


_PLAN = _Explain(_SEARCH)


class Sought(NamedTuple):
    """What a search is to return: at most this many observations and messages (0: none of that kind), as of when.

    `days`: how long messages are kept if the agent has no setting of its own; None: for ever. `vector`: the query's, by the
    embedding model `model`, as text of bits; None: words alone count.
    """

    now: datetime
    observations: int
    messages: int = 0
    days: float | None = None
    as_of: datetime | None = None
    explain: bool = False
    vector: str | None = None
    model: str | None = None


class Matches(NamedTuple):
    """Each arm best first, equal ones newest first, then by id. `is_known` False: nothing, for there is no such agent."""

    hits: list[Hit]
    messages: list[MessageHit]
    is_known: bool = True


async def search(
    reader: Reader,
    principal: Mapping[str, Any],
    query: Query,
    sought: Sought,
    weights: Weights | None = None,
    *,
    episodes: bool = False,
) -> Matches:
    """`episodes`: hits name theirs."""
    if not query:
        return Matches([], [])
    statement = _SEARCH_EPISODES if episodes else _SEARCH
    return found_in(await reader.execute(statement, given(principal, query, sought, weights)), query, episodes=episodes)


def found_in(rows: Iterable[Any], query: Query, *, episodes: bool = False) -> Matches:
    """Observations and messages separately, each in order."""
    hits: list[Hit] = []
    messages: list[MessageHit] = []
    is_known = True
    for row in rows:
        if row.arm == "observation":
            hits.append(
                Hit(
                    observation=to_observation(row),
                    score=row.score,
                    strength=row.strength,
                    covered=row.covered,
                    near=row.near,
                    explanation=_explained(row, query),
                    episode=episode_id(row.episode_id) if episodes and row.episode_id is not None else None,
                )
            )
        elif row.arm == "message":
            messages.append(_message_hit(row, query))
        else:
            is_known = False
    return Matches(hits, messages, is_known)


async def search_plan(session: AsyncSession, principal: Mapping[str, Any], query: Query, sought: Sought) -> list[str]:
    """The database's plan, line by line; the statement is executed for it. Functions aren't expanded."""
    if not query:
        return []
    return list(await session.scalars(_PLAN, given(principal, query, sought)))


def given(principal: Mapping[str, Any], query: Query, sought: Sought, weights: Weights | None = None) -> dict[str, Any]:
    return {
        **principal,
        "query": query.to_json(weights or Weights()),
        "limit": sought.observations,
        "messages": sought.messages,
        "days": sought.days,
        "now": sought.now,
        "as_of": sought.as_of,
        "explain": sought.explain,
        "vector": sought.vector,
        "model": sought.model,
    }


def _message_hit(row: Any, query: Query) -> MessageHit:
    message = RetainedMessage(
        conversation_id=row.message_conversation_id,
        id=row.message_message_id,
        number=row.message_number,
        role=row.message_role,
        speaker=row.message_speaker,
        user_id=row.message_user_id,
        content=row.message_content,
        said_at=row.message_said_at,
        given_at=row.message_given_at,
    )
    return MessageHit(
        message=message,
        score=row.score,
        strength=row.strength,
        covered=row.covered,
        observations=tuple(row.observations),
        explanation=_explained(row, query),
    )


def _explained(row: Any, query: Query) -> Explanation | None:
    if row.explanation is None:
        return None
    told = row.explanation if isinstance(row.explanation, dict) else json.loads(row.explanation)
    mask = told["mask"] or 0
    return Explanation(
        admitted=told["admitted"],
        parts={name: value for name, value in told["parts"].items() if value},
        terms=tuple((told.get("terms") or "").splitlines()),
        cold=bool(told.get("cold")),
        links=tuple(Followed(**link) for link in told.get("links") or ()),
        matched=tuple(term.text for number, term in enumerate(query.terms) if mask >> number & 1),
    )
