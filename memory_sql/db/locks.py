"""The locks of an agent, always taken in one order: the agent, conversations by id, scopes by id; then what is in them.

Work that takes something out of an agent first takes a shared lock on the agent's row, then looks. Aliases, memberships and
holds change under the agent's exclusive lock. So a forgetting either sees a hold or makes it wait. Neither lock blocks a
foreign key to the agent: only `lock_whole_agent` does, for erasing all of it.

What has to be locked is often known only after a look under the locks. `under_locks` then releases all of them and takes
them again, in order: locking one more while holding the others could deadlock with somebody who keeps to the order.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

from sqlalchemy import ARRAY, BigInteger, Select, any_, bindparam, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from memory_sql.db.engine import taken_back_on_error
from memory_sql.db.models import AgentRow, ConversationRow, ScopeRow

Done = TypeVar("Done")


async def share_agent(session: AsyncSession, agent_key: int) -> None:
    """Until the transaction ends, no alias, membership or hold changes; others may share the lock."""
    await session.execute(select(AgentRow.agent_key).where(AgentRow.agent_key == agent_key).with_for_update(read=True))


async def lock_agent(session: AsyncSession, agent_key: int) -> None:
    """Until the transaction ends nobody else shares or locks the agent; what only adds to it goes on (FOR NO KEY UPDATE).

    It updates the row instead of only locking it: so it also fails for a transaction whose snapshot is older than the
    previous change.
    """
    await session.execute(update(AgentRow).where(AgentRow.agent_key == agent_key).values(settings=AgentRow.settings))


async def lock_whole_agent(session: AsyncSession, agent_key: int) -> None:
    """Until the transaction ends nobody reads, changes or adds anything of the agent under a lock.

    Locks its conversations and scopes first, since whoever holds one of them may still have to refer to the agent; then
    those that were created meanwhile, after which no more can be.
    """
    await lock_agent(session, agent_key)
    await _lock_all(session, agent_key)
    await session.execute(select(AgentRow.agent_key).where(AgentRow.agent_key == agent_key).with_for_update())
    await _lock_all(session, agent_key)


async def _lock_all(session: AsyncSession, agent_key: int) -> None:
    for key in (ConversationRow.conversation_id, ScopeRow.scope_id):
        await session.execute(
            select(key).where(key.class_.agent_key == agent_key).order_by(key).with_for_update(key_share=True)
        )


@dataclass(frozen=True, slots=True)
class Rows:
    """Conversations and scopes of an agent."""

    scopes: frozenset[int] = frozenset()
    conversations: frozenset[str] = frozenset()

    def __or__(self, other: Rows) -> Rows:
        return Rows(self.scopes | other.scopes, self.conversations | other.conversations)


class _MoreError(Exception):
    """These have to be locked as well."""

    def __init__(self, rows: Rows) -> None:
        self.rows = rows


@dataclass(frozen=True, slots=True)
class Locks:
    """What is locked."""

    rows: Rows

    def need(self, scopes: Iterable[int] = (), conversations: Iterable[str] = ()) -> None:
        """Call it with all that is about to be changed. If any of it isn't locked, everything starts again with it locked."""
        wanted = Rows(frozenset(scopes), frozenset(conversations))
        if self.rows | wanted != self.rows:
            raise _MoreError(self.rows | wanted)


async def under_locks(
    session: AsyncSession,
    agent_key: int,
    act: Callable[[Locks], Awaitable[Done]],
    *,
    known: Iterable[int] = (),
    keys_change: bool = False,
    shared: bool = False,
) -> Done:
    """Runs `act` under the locks on all that it says it needs (`Locks.need`), taken in order. Returns what `act` returns.

    `act` looks, says what it needs, and only then changes anything. It is called first without locks, unless some scopes
    are `known` to be needed, and again whenever it needs more: what it did is rolled back, and the locks are released.
    `keys_change`: the ids themselves change. `shared`: the agent is shared before anything is locked, as by `share_agent`.
    """
    rows = Rows(frozenset(known))
    while True:
        try:
            if rows == Rows():
                return await act(Locks(rows))  # nothing is changed before something is needed
            async with taken_back_on_error(session):  # a savepoint, whose rollback gives the locks back too
                await _lock(session, agent_key, rows, keys_change=keys_change, shared=shared)
                return await act(Locks(rows))
        except _MoreError as more:
            rows |= more.rows


async def _lock(session: AsyncSession, agent_key: int, rows: Rows, *, keys_change: bool, shared: bool) -> None:
    for key, wanted in ((ConversationRow.conversation_id, rows.conversations), (ScopeRow.scope_id, rows.scopes)):
        if wanted:
            given = {"agent_key": agent_key, "wanted": sorted(wanted)}
            await session.execute(_LOCKING[key, keys_change, shared], given)
            shared = False


def _locking(key: Any, *, keys_change: bool, shared: bool) -> Select[Any]:
    """The agent is shared first, before any row is looked for."""
    agent: Any = bindparam("agent_key", type_=BigInteger)
    if shared:
        agent = (
            select(AgentRow.agent_key).where(AgentRow.agent_key == agent).with_for_update(read=True).scalar_subquery()
        )
    return (
        select(key)
        .where(key.class_.agent_key == agent, key == any_(bindparam("wanted", type_=ARRAY(key.type))))
        .order_by(key)
        .with_for_update(key_share=not keys_change)
    )


_LOCKING = {
    (key, keys_change, shared): _locking(key, keys_change=keys_change, shared=shared)
    for key in (ConversationRow.conversation_id, ScopeRow.scope_id)
    for keys_change in (False, True)
    for shared in (False, True)
}
