"""What a plan or commitment came to: fulfilled, or expired; and taking that back."""

from __future__ import annotations

from memory_sql.db import Session
from memory_sql.db.repositories.consolidations import ConsolidationRepository
from memory_sql.db.repositories.corrections import CorrectionRepository
from memory_sql.db.repositories.states import StateRepository
from memory_sql.domain.observations import Observation, Resolution
from memory_sql.errors import InputError
from memory_sql.lifecycle.corrections.replacing import refuse_twins
from memory_sql.lifecycle.corrections.request import Asked, Locked, lock, must_be_active
from memory_sql.lifecycle.corrections.texts import rebuild_with


async def resolve(
    session: Session, asked: Asked, wanted: str, resolved: Resolution | None, if_version: int | None
) -> Observation:
    """Archived as resolved; None: in use again.

    A text that holds it is to be rewritten with what comes next; if that may have been told of another end, from before it
    took it in.
    """
    locked = await lock(session, asked, wanted, if_version)
    repository, one = CorrectionRepository(session, locked.agent_key), locked.observation
    is_resolved = one.status == "archived" and one.resolved is not None
    if is_resolved and one.resolved == resolved:
        return one
    texts = ConsolidationRepository(session)
    is_told = is_resolved and await texts.is_newer_than_end(locked.agent_key, locked.key)
    if resolved is None:
        if not is_resolved:
            raise InputError(f"{wanted} isn't resolved")
        await _reopen(session, asked, locked, repository)
    else:
        if not is_resolved:
            must_be_active(one)
        await repository.resolve(one, locked.key, resolved, asked.entry)
    told = [locked.key] if is_told else []  # that text may say how it ended, or say no more of it
    await rebuild_with(session, asked.settings, asked.entry, locked.scope, [locked.key], told, [locked.key])
    return await locked.reread(session)


async def _reopen(session: Session, asked: Asked, locked: Locked, repository: CorrectionRepository) -> None:
    await refuse_twins(repository, [locked.key])
    entry, (_, seq) = asked.entry, locked.key
    cause = {"actor": entry.actor, "reason": entry.reason}
    await StateRepository(session).reopen(locked.scope, seq, entry.at, **cause)
    await repository.take_back(locked.key, entry.at)
