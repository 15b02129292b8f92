"""Forgetting an observation on which nothing else hangs, in one statement."""

from __future__ import annotations

from sqlalchemy import JSON, BigInteger, DateTime, Integer, Text, bindparam, column, func, select
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.ext.asyncio import AsyncSession

from memory_sql.db.direct import ask
from memory_sql.domain.results import Receipt


async def forget_one(
    session: AsyncSession, agent_id: str, receipt: Receipt, key: tuple[int, int], threshold: int, **cause: str | None
) -> Receipt | None:
    """The receipt of an observation on which nothing else hangs, forgotten in one statement (`memory.forget_one`).

    None: it isn't there, or there is more to do. Nothing is changed, and the locks are held until the transaction ends.
    """
    scope_id, seq = key
    given = {"agent_id": agent_id, "scope_id": scope_id, "seq": seq, "receipt": receipt.id, "target": receipt.target}
    (row,) = await ask(session, _FORGET_ONE, {**given, **cause, "threshold": threshold, "now": receipt.at})
    if row.observations is None:
        return None
    return receipt.model_copy(update={"observations": tuple(row.observations), "counts": row.counts})


_FORGET_ONE = select(
    func.memory.forget_one(
        bindparam("agent_id", type_=Text),
        bindparam("scope_id", type_=BigInteger),
        bindparam("seq", type_=Integer),
        bindparam("receipt", type_=Text),
        bindparam("target", type_=JSONB),
        *(bindparam(name, type_=Text) for name in ("actor", "reason")),
        bindparam("threshold", type_=Integer),
        bindparam("now", type_=DateTime(timezone=True)),
    ).table_valued("observations", column("counts", JSON))
)
