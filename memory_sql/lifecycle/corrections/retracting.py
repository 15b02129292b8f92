"""Erasing what was made of observations, with the versions of texts that hold it."""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, replace

from memory_sql.db import Session
from memory_sql.db.closures import Closure, Seeds, Taken
from memory_sql.db.locks import Locks, under_locks
from memory_sql.db.repositories.corrections import CorrectionRepository
from memory_sql.db.repositories.erasure import ForgettingRepository
from memory_sql.db.repositories.lineage import LineageRepository
from memory_sql.db.repositories.observations import ObservationKey
from memory_sql.db.repositories.propagations import PropagationRepository
from memory_sql.db.repositories.scopes import ScopeRepository
from memory_sql.db.repositories.states import StateRepository
from memory_sql.domain.ids import observation_id
from memory_sql.lifecycle.corrections.request import Asked
from memory_sql.lifecycle.corrections.texts import need, rebuild, rewind

Choose = Callable[[], Awaitable[Collection[ObservationKey]]]


@dataclass(frozen=True, slots=True)
class Spread:
    """An observation with what it has superseded and the parts of these (`line`), and all that was made of them."""

    line: tuple[ObservationKey, ...]
    closure: Closure

    @property
    def scopes(self) -> set[int]:
        return {scope_id for scope_id, _ in self.line} | self.closure.scopes


async def spread_of(session: Session, agent_key: int, key: ObservationKey) -> Spread:
    """What was made of several goes with any of them, as in forgetting; the words that it was made of stay."""
    corrections = CorrectionRepository(session, agent_key)
    line = await corrections.with_twins(await corrections.with_parts(await corrections.with_predecessors(key)))
    derived = await LineageRepository(session, agent_key).derived(line)
    return Spread(line, await closure_of(session, agent_key, derived))


async def closure_of(session: Session, agent_key: int, keys: Collection[ObservationKey]) -> Closure:
    return await ForgettingRepository(session, agent_key).closure(Seeds(observations=tuple(keys)))


async def unheld(session: Session, agent_key: int, keys: Collection[ObservationKey]) -> Closure:
    """As `closure_of`, without what a legal hold keeps, which stays as it is."""
    return replace(await closure_of(session, agent_key, keys), withdrawn=Taken())


async def retract(
    session: Session, asked: Asked, agent_key: int, spread: Spread, waits: str
) -> tuple[list[int], tuple[ObservationKey, ...]]:
    """Erases what was made of the line; the scopes whose texts are to be rebuilt, and what `LineageRepository.detach` says.

    What a legal hold keeps of that is withdrawn, and waits for its end by the id `waits`.
    """
    going = spread.closure.going.observations
    tainted = await rewind(session, asked, agent_key, going, "retract")
    await PropagationRepository(session, agent_key).reopen(going, spread.line, asked.now)
    await erase_derived(session, asked, agent_key, spread.closure, waits)
    lessened = await LineageRepository(session, agent_key).detach(spread.line)
    await ScopeRepository(session).raise_epochs(agent_key, {scope_id for scope_id, _ in spread.line})
    return await rebuild(session, asked, agent_key, tainted, spread.scopes), lessened


async def retract_few(session: Session, asked: Asked, agent_key: int, choose: Choose) -> tuple[str, ...]:
    """The ids of what was erased: what `choose` returns, and all that was made of it. Propagation judges it again.

    `choose` is called again under the locks. What a legal hold keeps stays; the caller has locked the agent.
    """

    async def act(locks: Locks) -> tuple[str, ...]:
        spread = Spread((), await unheld(session, agent_key, await choose()))
        await need(session, agent_key, locks, spread.scopes, spread.closure.conversations)
        going = spread.closure.erased.observations
        tainted = await rewind(session, asked, agent_key, going, "retract")
        await PropagationRepository(session, agent_key).reopen(going, (), asked.now)
        await erase_derived(session, asked, agent_key, spread.closure)
        await rebuild(session, asked, agent_key, tainted, spread.scopes)
        return tuple(observation_id(*key) for key in going)

    return await under_locks(session, agent_key, act) if await choose() else ()


async def erase_derived(
    session: Session, asked: Asked, agent_key: int, closure: Closure, waits: str | None = None
) -> None:
    """What it had superseded is active again."""
    if not closure.going:
        return
    await ForgettingRepository(session, agent_key).erase(closure, waits or str(uuid.uuid4()), asked.now)
    for state in await ScopeRepository(session).lock(agent_key, scope_ids=closure.scopes):
        await StateRepository(session).stand_again(state, asked.now)
