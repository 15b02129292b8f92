"""What a correction does to the texts of scopes: rewound to a version before, marked for rebuilding, made due."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable
from datetime import datetime
from typing import Protocol, TypeVar

from memory_sql.config import Settings
from memory_sql.db import Session
from memory_sql.db.repositories.consolidations import ConsolidationRepository
from memory_sql.db.repositories.erasure import Closure, ForgettingRepository
from memory_sql.db.repositories.observations import ObservationKey
from memory_sql.db.repositories.scopes import ScopeRepository, ScopeState
from memory_sql.lifecycle.corrections.request import Asked


class HasScopes(Protocol):
    @property
    def scopes(self) -> set[int]: ...


Found = TypeVar("Found", bound=HasScopes)


async def locked(session: Session, agent_key: int, look: Callable[[], Awaitable[Found]]) -> Found:
    """What `look` finds, repeated under the locks on its `scopes` until two looks agree."""
    found = await look()
    while True:
        await ScopeRepository(session).lock(agent_key, scope_ids=sorted(found.scopes))
        again = await look()
        if again == found:
            return found
        found = again


async def rewind(
    session: Session, asked: Asked, agent_key: int, keys: Collection[ObservationKey], reason: str
) -> list[int]:
    """Takes the versions that hold any of these out of the texts; the scopes whose texts changed."""
    scopes = ScopeRepository(session)
    tainted = await _first_holding(ForgettingRepository(session, agent_key), keys)
    for state in await scopes.lock(agent_key, scope_ids=tainted) if tainted else ():
        await ConsolidationRepository(session).rewind(state, tainted[state.scope_id], reason, asked.now)
    return list(tainted)


async def rebuild(
    session: Session, asked: Asked, agent_key: int, tainted: Collection[int], touched: Iterable[int]
) -> list[int]:
    """Marks the tainted texts for rebuilding and says which; what became pending in a touched scope counts there."""
    withheld = await ForgettingRepository(session, agent_key).await_rebuild(list(tainted))
    threshold = asked.settings.consolidation_threshold
    await ScopeRepository(session).refresh_due(agent_key, sorted(touched), threshold, asked.now)
    return withheld


async def rebuild_with(
    session: Session,
    settings: Settings,
    now: datetime,
    scope: ScopeState,
    old: Collection[ObservationKey],
    new: Collection[ObservationKey],
) -> None:
    """If the scope's text holds any of `old`, it is to be rebuilt with `new`, which it doesn't hold until then."""
    repository, scopes = ForgettingRepository(session, scope.agent_key), ScopeRepository(session)
    await scopes.take_lease(scope)
    if await _first_holding(repository, old):
        for version in (await _first_holding(repository, new)).values():
            await ConsolidationRepository(session).rewind(scope, version, "retract", now)
        await repository.await_rebuild([scope.scope_id])
    await scopes.refresh_due(scope.agent_key, [scope.scope_id], settings.consolidation_threshold, now)


async def _first_holding(repository: ForgettingRepository, keys: Collection[ObservationKey]) -> dict[int, int]:
    """For each scope whose text holds any of these, the first live version that does."""
    return await repository.first_tainted((), Closure(tuple(sorted(keys)), (), (), 0, 0))
