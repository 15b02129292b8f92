"""What a correction does elsewhere: to what was made of it, and to texts, rewound, marked for rebuilding, made due."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from memory_sql.config import Settings
from memory_sql.db import Session
from memory_sql.db.closures import Closure, Taken
from memory_sql.db.locks import Locks
from memory_sql.db.repositories.consolidations import ConsolidationRepository, Rewinding
from memory_sql.db.repositories.corrections import Cause
from memory_sql.db.repositories.erasure import ForgettingRepository
from memory_sql.db.repositories.following import Changed, FollowingRepository
from memory_sql.db.repositories.observations import ObservationKey
from memory_sql.db.repositories.scopes import ScopeRepository, ScopeState
from memory_sql.lifecycle.corrections.request import Asked


async def need(
    session: Session, agent_key: int, locks: Locks, scope_ids: Collection[int], conversations: Iterable[str] = ()
) -> None:
    """As `Locks.need`. Needed as well is every scope in which something follows what these hold."""
    locks.need(await FollowingRepository(session, agent_key).reach(scope_ids), conversations)


async def rewind(
    session: Session, asked: Asked, agent_key: int, keys: Collection[ObservationKey], reason: Rewinding
) -> list[int]:
    """Takes the versions that hold any of these out of the texts; the scopes whose texts changed."""
    tainted = await _first_holding(ForgettingRepository(session, agent_key), keys)
    await ConsolidationRepository(session).rewind(agent_key, tainted, reason, asked.now)
    return list(tainted)


async def rebuild(
    session: Session, asked: Asked, agent_key: int, tainted: Collection[int], touched: Iterable[int]
) -> list[int]:
    """Marks the tainted texts for rebuilding and says which; what became pending in a touched scope counts there.

    What was made of observations of these scopes follows them.
    """
    changed = {*touched}
    _, more = await follow(session, asked, agent_key, changed)
    withheld = await ForgettingRepository(session, agent_key).await_rebuild(sorted({*tainted, *more}))
    threshold = asked.settings.consolidation_threshold
    await ScopeRepository(session).refresh_due(agent_key, sorted(changed), threshold, asked.now)
    return withheld


async def follow(
    session: Session, asked: Asked, agent_key: int, scope_ids: Collection[int]
) -> tuple[list[ObservationKey], list[int]]:
    """What was made of observations of these scopes and has changed with them; the scopes that wait to be rewritten."""
    following, threshold = FollowingRepository(session, agent_key), asked.settings.consolidation_threshold
    entry = asked.entry
    return await following.settle(scope_ids, threshold, asked.now, actor=entry.actor, reason=entry.reason)


async def rebuild_with(
    session: Session,
    settings: Settings,
    entry: Cause,
    scope: ScopeState,
    old: Collection[ObservationKey],
    new: Collection[ObservationKey],
    changed: Changed,
) -> None:
    """If the scope's text holds any of `old`, it is to be rebuilt with `new`, which it doesn't hold until then.

    What was made of observations of the scope that have `changed` follows them.
    """
    await ScopeRepository(session).take_lease(scope)
    following, threshold = FollowingRepository(session, scope.agent_key), settings.consolidation_threshold
    holds, is_unsettled = await following.refresh(scope.scope_id, old, changed, threshold, entry.at)
    if holds or is_unsettled:
        await rewritten_with(session, settings, entry, scope, new, changed, holds=holds)


async def rewritten_with(
    session: Session,
    settings: Settings,
    entry: Cause,
    scope: ScopeState,
    new: Collection[ObservationKey],
    changed: Changed,
    *,
    holds: bool,
) -> None:
    """As `rebuild_with`, where the text `holds` what is replaced, or something may have to follow; nobody has the lease."""
    repository, scopes = ForgettingRepository(session, scope.agent_key), ScopeRepository(session)
    following, threshold = FollowingRepository(session, scope.agent_key), settings.consolidation_threshold
    if holds:
        holding = await _first_holding(repository, new)
        rewound = await ConsolidationRepository(session).rewind(scope.agent_key, holding, "retract", entry.at)
        await repository.await_rebuild([scope.scope_id])
        if any(one.lets_stand for one in rewound.values()):
            changed = None
    await following.settle([scope.scope_id], threshold, entry.at, changed, actor=entry.actor, reason=entry.reason)
    await scopes.refresh_due(scope.agent_key, [scope.scope_id], threshold, entry.at)


async def _first_holding(repository: ForgettingRepository, keys: Collection[ObservationKey]) -> dict[int, int]:
    """For each scope whose text holds any of these, the first live version that does."""
    return await repository.first_tainted((), Closure(Taken(tuple(sorted(keys)))))
