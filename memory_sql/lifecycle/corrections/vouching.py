"""Who vouches for an observation: confirmed or disputed."""

from __future__ import annotations

from memory_sql.db import Session
from memory_sql.db.repositories.corrections import CorrectionRepository
from memory_sql.domain.observations import Observation, Verification
from memory_sql.lifecycle.corrections.request import Asked, lock, must_be_active


async def verify(
    session: Session, asked: Asked, wanted: str, verification: Verification, if_version: int | None
) -> Observation:
    """The observation, confirmed or disputed on the user's word. What is confirmed gains evidence."""
    locked = await lock(session, asked, wanted, if_version)
    must_be_active(locked.observation)
    repository = CorrectionRepository(session, locked.agent_key)
    await repository.verify(locked.key, locked.observation.verification, verification, asked.entry)
    if verification == "confirmed":
        await repository.add_word(locked.key, asked.principal["user_id"], asked.now)
    return await locked.reread(session)
