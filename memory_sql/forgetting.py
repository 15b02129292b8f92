"""Removal with its whole lineage: observations, what was made of them, the texts that hold them, the words they came from.

`take_out` runs in one transaction: it finds all that goes, locks sessions and then scopes in id order, looks again until
nothing has been added, rewinds the texts to what they were before, and erases. The epochs that it raises refuse whatever
a model is making of it meanwhile. What is left pending is told anew in texts of the next version.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import datetime, timedelta

from memory_sql.config import Settings
from memory_sql.db import Session
from memory_sql.db.consolidations import ConsolidationRepository
from memory_sql.db.forgetting import Closure, ForgettingRepository, Seeds
from memory_sql.db.scopes import ScopeRepository
from memory_sql.domain import ForgetTarget, Physical, Receipt, observation_id
from memory_sql.errors import HeldError, NotFoundError

REWRITTEN = ("messages", "observations", "evidence", "consolidations", "scopes", "runs", "sessions", "events")
PHYSICAL = tuple(f"VACUUM (ANALYZE) memory.{table}" for table in REWRITTEN)
NOTHING = Closure((), (), (), 0, 0)


@dataclass(frozen=True, slots=True)
class Found:
    seeds: Seeds
    closure: Closure

    @property
    def scopes(self) -> list[int]:
        """The scopes that lose something, in id order."""
        return sorted(self.closure.scopes | set(self.seeds.scopes))

    @property
    def sessions(self) -> list[str]:
        return sorted({*self.closure.sessions, *self.seeds.sessions})


async def find(session: Session, agent_key: int, target: ForgetTarget) -> Found:
    """All that would go. Raises `NotFoundError` for an observation that isn't there."""
    repository = ForgettingRepository(session, agent_key)
    seeds = await repository.seeds(target)
    if target.observation_id is not None and not seeds.observations:
        raise NotFoundError("observation", target.observation_id)
    return Found(seeds, await repository.closure(seeds))


async def preview(session: Session, agent_key: int, target: ForgetTarget, settings: Settings, now: datetime) -> Receipt:
    if target.everything:
        counts = await ForgettingRepository(session, agent_key).count_agent()
        return _receipt(target, NOTHING, counts, (), settings, now, dry_run=True)
    found = await find(session, agent_key, target)
    tainted = await ForgettingRepository(session, agent_key).first_tainted(found.seeds.scopes, found.closure)
    counts = {
        "observations": len(found.closure.observations),
        "evidence": len(found.closure.evidence),
        "messages": len(found.closure.messages),
    }
    return _receipt(target, found.closure, counts, tuple(tainted), settings, now, dry_run=True)


async def take_out(
    session: Session, agent_key: int, target: ForgetTarget, settings: Settings, now: datetime
) -> Receipt:
    """Forgets it; `withheld` of the receipt are the scopes that are due to be told anew."""
    repository, scopes = ForgettingRepository(session, agent_key), ScopeRepository(session)
    found = await _locked(session, agent_key, target)
    states = {state.scope_id: state for state in await scopes.lock(agent_key, scope_ids=found.scopes)}
    tainted = await repository.first_tainted(found.seeds.scopes, found.closure)
    for scope_id, version in tainted.items():
        await ConsolidationRepository(session).rewind(states[scope_id], version, "forget", now)
    counts = await repository.erase(found.closure, found.seeds.scopes, found.seeds.users, now)
    withheld = await repository.await_rebuild(list(tainted))
    await scopes.refresh_due(agent_key, found.scopes, settings.consolidation_threshold, now)
    receipt = _receipt(target, found.closure, counts, tuple(withheld), settings, now)
    await repository.record(target, receipt.id, found.closure, counts, now)
    return receipt


async def _locked(session: Session, agent_key: int, target: ForgetTarget) -> Found:
    """What goes, looked at again under the locks until nothing is added: what comes later comes after the forgetting."""
    found = await find(session, agent_key, target)
    while True:
        await ForgettingRepository(session, agent_key).lock_sessions(found.sessions)
        await ScopeRepository(session).lock(agent_key, scope_ids=found.scopes)
        again = await find(session, agent_key, target)
        if again == found:
            return found
        found = again


async def take_out_agent(
    session: Session, agent_key: int, target: ForgetTarget, settings: Settings, now: datetime
) -> Receipt:
    """Forgets all of an agent. Raises `HeldError` while anything of it is held."""
    repository = ForgettingRepository(session, agent_key)
    if held := await repository.open_holds():
        raise HeldError(held)
    counts = await repository.erase_agent()
    receipt = _receipt(target, NOTHING, counts, (), settings, now)
    await repository.record(target, receipt.id, NOTHING, counts, now)
    return receipt


def _receipt(
    target: ForgetTarget,
    closure: Closure,
    counts: dict[str, int],
    withheld: tuple[int, ...],
    settings: Settings,
    now: datetime,
    *,
    dry_run: bool = False,
) -> Receipt:
    return Receipt(
        id=str(uuid.uuid4()),
        at=now,
        target=target.named,
        dry_run=dry_run,
        observations=tuple(observation_id(*key) for key in closure.observations),
        counts=counts,
        held={"observations": closure.held_observations, "messages": closure.held_messages},
        withheld=withheld,
        physical=Physical(statements=PHYSICAL, backups_until=now + timedelta(days=settings.backup_days)),
    )
