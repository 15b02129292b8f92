"""Which observations are a user's own: in their scope, or said by them and nobody else. One statement."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from sqlalchemy import (
    ARRAY,
    BigInteger,
    ColumnElement,
    Integer,
    Text,
    and_,
    bindparam,
    column,
    exists,
    func,
    or_,
    select,
)
from sqlalchemy.ext.asyncio import AsyncSession

from memory_sql.db.models import AgentRow, EvidenceRow, ObservationRow, ScopeRow
from memory_sql.domain.ids import OWNER_PREFIX

_a, _o, _s, _e = AgentRow, ObservationRow, ScopeRow, EvidenceRow
_ids = func.memory.user_ids(_a.agent_key, bindparam("user_id", type_=Text)).table_valued("user_id", name="ids")
_theirs = select(_ids.c.user_id).correlate(_a)
_owners = select(OWNER_PREFIX["individual"] + _ids.c.user_id).correlate(_a)


def said_by(who: ColumnElement[bool]) -> ColumnElement[bool]:
    """Whether any of the evidence for an observation is by them, a condition on `EvidenceRow.user_id`."""
    return exists().where(_e.agent_key == _o.agent_key, _e.scope_id == _o.scope_id, _e.seq == _o.seq, who)


def belongs(owners: Any, users: Any) -> ColumnElement[bool]:
    """Whether an observation is in the scope of one of these owners, or said by these users, one person, and nobody else."""
    others = and_(_e.user_id.is_not(None), _e.user_id.not_in(users))
    return or_(_s.owner.in_(owners), and_(said_by(_e.user_id.in_(users)), ~said_by(others)))


_wanted = (
    func.unnest(bindparam("scopes", type_=ARRAY(BigInteger)), bindparam("seqs", type_=ARRAY(Integer)))
    .table_valued(column("scope_id", BigInteger), column("seq", Integer), name="wanted")
    .render_derived()
)
_OWN = (
    select(_o.scope_id, _o.seq)
    .join(_wanted, and_(_o.scope_id == _wanted.c.scope_id, _o.seq == _wanted.c.seq))
    .join(_a, _a.agent_key == _o.agent_key)
    .join(_s, and_(_s.agent_key == _o.agent_key, _s.scope_id == _o.scope_id))
    .where(_a.agent_id == bindparam("agent_id", type_=Text), belongs(_owners, _theirs))
)


async def own_of(
    session: AsyncSession, agent_id: str, user_id: str, keys: Collection[tuple[int, int]]
) -> set[tuple[int, int]]:
    """Those of them that are in this user's scope, or that they and nobody else have said."""
    if not keys:
        return set()
    scopes, seqs = zip(*keys, strict=True)
    given = {"agent_id": agent_id, "user_id": user_id, "scopes": list(scopes), "seqs": list(seqs)}
    return {(row.scope_id, row.seq) for row in await session.execute(_OWN, given)}
