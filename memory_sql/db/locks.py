"""The locks of an agent, always taken in one order: the agent, conversations by id, scopes by id; then what is in them.

Work that takes something out of an agent first takes a shared lock on the agent's row, then looks. Aliases, memberships and
holds change under the agent's exclusive lock. So a forgetting either sees a hold or makes it wait. Neither lock blocks a
foreign key to the agent: only `lock_whole_agent` does, for erasing all of it.

What has to be locked is often known only after a look under the locks. `under_locks` then releases all of them and takes
them again, in order: locking one more while holding the others could deadlock with somebody who keeps to the order.
`under_found` begins with a single statement that both finds and locks rows, usually all that are needed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

from sqlalchemy import ARRAY, BigInteger, Select, Text, and_, any_, bindparam, func, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from memory_sql.db.models import AgentRow, ConversationRow, ScopeRow
from memory_sql.db.savepoints import taken_back_on_error

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


NONE = Rows()


class _MoreError(Exception):
    """These have to be locked as well."""

    def __init__(self, agent_key: int, rows: Rows) -> None:
        self.agent_key = agent_key
        self.rows = rows


@dataclass(frozen=True, slots=True)
class Locks:
    """What is locked, of which agent."""

    agent_key: int
    rows: Rows

    def need(self, scopes: Iterable[int] = (), conversations: Iterable[str] = ()) -> None:
        """Call it with all that is about to be changed. If any of it isn't locked, everything starts again with it locked."""
        wanted = Rows(frozenset(scopes), frozenset(conversations))
        if self.rows | wanted != self.rows:
            raise _MoreError(self.agent_key, self.rows | wanted)


async def under_locks(
    session: AsyncSession,
    agent_key: int,
    act: Callable[[Locks], Awaitable[Done]],
    *,
    known: Rows = NONE,
    keys_change: bool = False,
    shared: bool = False,
) -> Done:
    """Runs `act` under the locks on all that it says it needs (`Locks.need`), taken in order. Returns what `act` returns.

    `act` looks, says what it needs, and only then changes anything. It is called first without locks, unless some rows
    are `known` to be needed, and again whenever it needs more: what it did is rolled back, and the locks are released.
    `keys_change`: the ids themselves change. `shared`: the agent is shared before anything is locked, as by `share_agent`.
    """
    rows = known

    async def lock() -> Locks:
        await _lock(session, agent_key, rows, keys_change=keys_change, shared=shared)
        return Locks(agent_key, rows)

    while True:
        try:
            if rows == NONE:
                return await act(Locks(agent_key, rows))  # nothing is changed before something is needed
            return await _under(session, lock, act)
        except _MoreError as more:
            rows |= more.rows


async def under_found(
    session: AsyncSession,
    find: Callable[[], Awaitable[Locks]],
    act: Callable[[Locks], Awaitable[Done]],
    *,
    shared: bool = False,
) -> Done:
    """As `under_locks`, but begins with `find`, which finds and locks, in order, what `act` will most likely need.

    `shared`: `find` has shared the agent.
    """
    try:
        return await _under(session, find, act)
    except _MoreError as more:
        agent_key, known = more.agent_key, more.rows
    return await under_locks(session, agent_key, act, known=known, shared=shared)


async def _under(
    session: AsyncSession, lock: Callable[[], Awaitable[Locks]], act: Callable[[Locks], Awaitable[Done]]
) -> Done:
    async with taken_back_on_error(session):  # a savepoint, whose rollback gives the locks back too
        return await act(await lock())


async def _lock(session: AsyncSession, agent_key: int, rows: Rows, *, keys_change: bool, shared: bool) -> None:
    given = {"agent_key": agent_key, "scopes": sorted(rows.scopes), "conversations": sorted(rows.conversations)}
    await session.execute(_LOCKING[keys_change, shared], given)


def _in_order(which: Any, conversations: Any, scopes: Any, *, keys_change: bool = False, shared: bool) -> Select[Any]:
    """Locks the rows of one agent named by two arrays. One row: its key and those that exist; no row without the agent.

    Each part refers to the one before, which fixes the order: the agent, the conversations, and, once all conversations
    are counted, the scopes.
    """
    agent = select(AgentRow.agent_key).where(which)
    known = (agent.with_for_update(read=True) if shared else agent).cte("agent")
    key = select(known.c.agent_key).scalar_subquery()
    talks = _locked(ConversationRow.conversation_id, key, conversations, keys_change).cte("conversations")
    counted = select(func.count()).select_from(talks).scalar_subquery()
    places = _locked(ScopeRow.scope_id, key, scopes, keys_change).where(counted >= 0).cte("scopes")
    return select(
        known.c.agent_key,
        func.array(select(talks.c.conversation_id).scalar_subquery()).label("conversations"),
        func.array(select(places.c.scope_id).scalar_subquery()).label("scopes"),
    )


def _locked(key: Any, agent_key: Any, wanted: Any, keys_change: bool) -> Select[Any]:
    mine = and_(key.class_.agent_key == agent_key, key == any_(wanted))
    return select(key).where(mine).order_by(key).with_for_update(key_share=not keys_change)


def locking_found(conversations: Any, scopes: Any) -> Select[Any]:
    """Of the agent `agent_id`, which it shares: locks the conversations and scopes of these two SELECTs. For `locked_of`."""
    named = AgentRow.agent_id == bindparam("agent_id", type_=Text)
    return _in_order(named, *(func.array(one.scalar_subquery()) for one in (conversations, scopes)), shared=True)


def locked_of(row: Any) -> Locks:
    return Locks(row.agent_key, Rows(frozenset(row.scopes), frozenset(row.conversations)))


_given = (bindparam("conversations", type_=ARRAY(Text)), bindparam("scopes", type_=ARRAY(BigInteger)))
_mine = AgentRow.agent_key == bindparam("agent_key", type_=BigInteger)
_LOCKING = {
    (keys_change, shared): _in_order(_mine, *_given, keys_change=keys_change, shared=shared)
    for keys_change in (False, True)
    for shared in (False, True)
}
