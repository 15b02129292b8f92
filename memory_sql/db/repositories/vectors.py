"""The vectors of observations: one bit per dimension, its sign."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast as cast_type

from sqlalchemy import (
    ARRAY,
    BigInteger,
    Boolean,
    Integer,
    Table,
    Text,
    and_,
    bindparam,
    case,
    cast,
    func,
    or_,
    select,
    text,
    true,
)
from sqlalchemy.dialects.postgresql import BIT
from sqlalchemy.dialects.postgresql import insert as upsert
from sqlalchemy.ext.asyncio import AsyncSession

from memory_sql.db.models import AgentRow, ObservationRow, ObservationVectorRow, ScopeRow
from memory_sql.db.models.shards import is_here
from memory_sql.languages.text import QUESTION


@dataclass(frozen=True, slots=True)
class Unembedded:
    """An observation that has no vector of the requested model. `speaker`: only of what a host has stored as it was said."""

    agent_key: int
    scope_id: int
    seq: int
    content: str
    terms: str
    speaker: str | None


class VectorRepository:
    """The vectors of one model, by the name under which they are stored."""

    def __init__(self, session: AsyncSession, model: str) -> None:
        self._session = session
        self._model = model

    async def missing(self, agent_id: str | None, limit: int, *, sensitive: bool, whole: bool) -> Sequence[Unembedded]:
        """Observations that a search may find and that have no vector yet, oldest first within a scope, of one agent or all.

        Not those that end with a question: to a question these would lie nearest, and they answer nothing.
        Without `whole`, only those newer than the newest vector of their scope, which costs one look-up per scope.
        """
        given = {"agent_id": agent_id, "model": self._model, "limit": limit, "sensitive": sensitive, "whole": whole}
        return [Unembedded(*row) for row in await self._session.execute(_MISSING, given)]

    async def count_missing(self, agent_id: str | None, limit: int, *, sensitive: bool, whole: bool) -> int:
        """How many `missing` would find, at most `limit`. Reads as much as it."""
        given = {"agent_id": agent_id, "model": self._model, "limit": limit, "sensitive": sensitive, "whole": whole}
        return (await self._session.scalars(_COUNT_MISSING, given)).one()

    async def save(self, of: Sequence[Unembedded], bits: Sequence[str | None]) -> Sequence[bool]:
        """Whether it has bits, for each stored one: not those forgotten meanwhile, nor those somebody else has stored."""
        given = {
            "agent_keys": [one.agent_key for one in of],
            "scope_ids": [one.scope_id for one in of],
            "seqs": [one.seq for one in of],
            "terms": [one.terms for one in of],
            "bits": list(bits),
            "model": self._model,
        }
        return (await self._session.scalars(_SAVE, given)).all()

    async def filled(self, agent_key: int) -> tuple[int, int]:
        """How many observations of the agent have a vector, and in how many texts the model found no direction."""
        filled, asked = (await self._session.execute(_FILLED, {"agent_key": agent_key, "model": self._model})).one()
        return filled, asked - filled


async def bring_standings_along(session: AsyncSession, agent_id: str | None) -> None:
    """Gives vectors the standing and tier of their observations, which a host in REPEATABLE READ has changed unseen.

    What is locked is left for the next time.
    """
    await session.execute(_BRING_ALONG, {"agent_id": agent_id})


_table = cast_type(Table, ObservationVectorRow.__table__)
_model = bindparam("model", type_=Text)
_limit = bindparam("limit", type_=Integer)
_agent = bindparam("agent_id", type_=Text)
_of_scope = and_(
    ObservationVectorRow.agent_key == ScopeRow.agent_key,
    ObservationVectorRow.scope_id == ScopeRow.scope_id,
    ObservationVectorRow.model == _model,
)
_newest = select(
    case(
        (bindparam("whole", type_=Boolean), 0),
        else_=func.coalesce(
            select(ObservationVectorRow.seq)
            .where(_of_scope)
            .order_by(ObservationVectorRow.seq.desc())
            .limit(1)
            .correlate(ScopeRow)
            .scalar_subquery(),
            0,
        ),
    ).label("seq")
).lateral("newest")
_left = (
    select(
        ObservationRow.seq,
        ObservationRow.content,
        ObservationRow.terms,
        case((ObservationRow.source_kind == "observe", ObservationRow.speaker)).label("speaker"),
    )
    .where(
        ObservationRow.agent_key == ScopeRow.agent_key,
        ObservationRow.scope_id == ScopeRow.scope_id,
        ObservationRow.seq > _newest.c.seq,
        or_(bindparam("sensitive", type_=Boolean), ObservationRow.sensitivity != "sensitive"),
        func.memory.is_sought(ObservationRow.standing, true()),
        ~ObservationRow.content.regexp_match(QUESTION),
        ~select(ObservationVectorRow.seq)
        .where(
            ObservationVectorRow.agent_key == ObservationRow.agent_key,
            ObservationVectorRow.scope_id == ObservationRow.scope_id,
            ObservationVectorRow.seq == ObservationRow.seq,
            ObservationVectorRow.model == _model,
        )
        .offset(0)  # each by its key, whatever the planner thinks of how many there are
        .exists(),
    )
    .order_by(ObservationRow.seq)
    .limit(_limit)
).lateral("missing")
_MISSING = (
    select(ScopeRow.agent_key, ScopeRow.scope_id, _left.c.seq, _left.c.content, _left.c.terms, _left.c.speaker)
    .join(AgentRow, AgentRow.agent_key == ScopeRow.agent_key)
    .join(_newest, ScopeRow.last_seq > _newest.c.seq)
    .join(_left, true())
    .where(ScopeRow.is_active, is_here(ScopeRow.agent_key), or_(_agent.is_(None), AgentRow.agent_id == _agent))
    .limit(_limit)
)
_COUNT_MISSING = select(func.count()).select_from(_MISSING.subquery())
_given = (
    func.unnest(
        bindparam("agent_keys", type_=ARRAY(BigInteger)),
        bindparam("scope_ids", type_=ARRAY(BigInteger)),
        bindparam("seqs", type_=ARRAY(Integer)),
        bindparam("terms", type_=ARRAY(Text)),
        bindparam("bits", type_=ARRAY(Text)),
    )
    .table_valued("agent_key", "scope_id", "seq", "terms", "bits", name="given")
    .render_derived()
)
# A locked row is about to be deleted, marked or superseded: the next sweep sees the result.
_there = (
    select(ObservationRow.agent_key, ObservationRow.scope_id, ObservationRow.seq, _given.c.bits)
    .join(
        _given,
        and_(
            _given.c.agent_key == ObservationRow.agent_key,
            _given.c.scope_id == ObservationRow.scope_id,
            _given.c.seq == ObservationRow.seq,
            _given.c.terms == ObservationRow.terms,  # it may have lost some meanwhile
        ),
    )
    .with_for_update(read=True, of=ObservationRow, skip_locked=True)
    .cte("there")
)
_SAVE = (
    upsert(_table)
    .from_select(
        ["agent_key", "scope_id", "seq", "model", "bits"],
        select(
            _there.c.agent_key,
            _there.c.scope_id,
            _there.c.seq,
            cast(_model, Text),
            cast(_there.c.bits, BIT(varying=True)),
        ),
    )
    .on_conflict_do_nothing()
    .returning(ObservationVectorRow.bits.is_not(None))
)
_BRING_ALONG = text(
    """
    WITH other AS (
        SELECT e.agent_key, e.scope_id, e.seq, o.standing, o.cold
        FROM memory.observation_vectors e
        JOIN memory.observations o USING (agent_key, scope_id, seq)
        WHERE (e.standing <> o.standing OR e.cold <> o.cold)
          AND (:agent_id IS NULL OR e.agent_key = (SELECT a.agent_key FROM memory.agents a WHERE a.agent_id = :agent_id))
        FOR SHARE OF o SKIP LOCKED FOR NO KEY UPDATE OF e SKIP LOCKED
    )
    UPDATE memory.observation_vectors e SET standing = t.standing, cold = t.cold
    FROM other t
    WHERE e.agent_key = t.agent_key AND e.scope_id = t.scope_id AND e.seq = t.seq
    """
).bindparams(bindparam("agent_id", type_=Text))
_FILLED = (
    select(func.count(ObservationVectorRow.bits), func.count())
    .select_from(ObservationVectorRow)
    .where(
        ObservationVectorRow.agent_key == bindparam("agent_key", type_=BigInteger), ObservationVectorRow.model == _model
    )
)
