"""Work that was given up: tried again, after a while or when somebody asks for it, or discarded."""

from __future__ import annotations

from datetime import datetime

from memory_sql.config import Settings
from memory_sql.db import Session
from memory_sql.db.repositories.agents import agent_key_of
from memory_sql.db.repositories.conversations import ConversationRepository
from memory_sql.db.repositories.following import FollowingRepository
from memory_sql.db.repositories.runs import RunRepository, TakenRun
from memory_sql.db.repositories.scopes import ScopeRepository
from memory_sql.db.repositories.states import StateRepository
from memory_sql.errors import InputError, NotFoundError


async def retry(session: Session, agent_id: str, run_id: int, settings: Settings, now: datetime) -> None:
    """What the run was about is due again; raises `NotFoundError` where no such run was given up, `InputError`."""
    agent_key, run = await _take(session, agent_id, run_id, "failed")
    if not await _revive(session, agent_key, run, settings, now, errors=0):
        raise InputError(f"what run {run_id} set aside is now quarantined, known or deleted; discard the run")


async def retry_oldest(session: Session, settings: Settings, now: datetime) -> bool:
    """The run that has waited longest is due again, if one has waited long enough; whether there was one.

    A conversation is given up again at once when that fails too. What a scope can't take back any more is discarded.
    """
    runs = RunRepository(session)
    found = await runs.oldest_dead(now)
    if found is None:
        return False
    agent_id, run_id = found
    try:
        agent_key, run = await _take(session, agent_id, run_id, "failed")
    except NotFoundError:  # somebody has been quicker
        return True
    if not await _revive(session, agent_key, run, settings, now, errors=settings.max_errors - 1):
        await runs.discard(agent_key, run_id)
    return True


async def _revive(
    session: Session, agent_key: int, run: TakenRun, settings: Settings, now: datetime, *, errors: int
) -> bool:
    """False: what it set aside can't be pending again."""
    if run.conversation_id is not None:
        await ConversationRepository(session).revive(agent_key, run.conversation_id, run.run_id, now, errors=errors)
    if run.scope_id is not None and run.to_seq is not None:
        scopes = ScopeRepository(session)
        (scope,) = await scopes.lock(agent_key, scope_ids=[run.scope_id])
        if not await StateRepository(session).retry(scope, [run.to_seq], now, run_id=run.run_id):
            return False
        threshold = settings.consolidation_threshold
        await FollowingRepository(session, agent_key).settle([run.scope_id], threshold, now, run_id=run.run_id)
        await scopes.refresh_due(agent_key, [run.scope_id], threshold, now)
    return True


async def discard(session: Session, agent_id: str, run_id: int, settings: Settings, now: datetime) -> None:
    """What the run was about is passed over; raises `NotFoundError` where no such run was given up."""
    agent_key, run = await _take(session, agent_id, run_id, "discarded")
    if run.conversation_id is None or run.to_number is None:
        return  # what a consolidation gave up is set aside already
    conversations = ConversationRepository(session)
    state = await conversations.locked(agent_key, run.conversation_id)
    if state.formed_number < run.to_number:
        await conversations.advance(state, run.to_number, settings, now)
    await RunRepository(session).abandon(agent_key, now, conversation_id=run.conversation_id)


async def _take(session: Session, agent_id: str, run_id: int, state: str) -> tuple[int, TakenRun]:
    """Locks first what the run was about, as everybody who ends a run does: else they wait for each other."""
    agent_key, runs = await agent_key_of(session, agent_id), RunRepository(session)
    run = None if agent_key is None else await runs.find_dead(agent_key, run_id)
    if agent_key is None or run is None:
        raise NotFoundError("run that was given up", str(run_id))
    if run.conversation_id is not None:
        await ConversationRepository(session).locked(agent_key, run.conversation_id)
    if run.scope_id is not None:
        await FollowingRepository(session, agent_key).lock([run.scope_id])
    if not await runs.take_dead(agent_key, run_id, state):
        raise NotFoundError("run that was given up", str(run_id))
    return agent_key, run
