"""Requests to forget, once decided: what they name is erased, or its quarantine ends."""

from __future__ import annotations

from pathlib import Path

from memory_sql.db import Session
from memory_sql.db.queries.requests import RequestKey, Requests
from memory_sql.domain.ids import observation_id
from memory_sql.domain.selection import Selection
from memory_sql.lifecycle import corrections, forgetting, journal
from memory_sql.lifecycle.corrections import Asked


async def erase(session: Session, asked: Asked, agent_key: int, key: RequestKey, *, joined: bool) -> int:
    """Forgets what the request names, as `forget` does, and returns how many observations that were; 0: it doesn't wait."""
    path, requests, erased = asked.settings.forget_journal, Requests(session, agent_key), 0
    while named := await requests.named_by(key):
        erased += await _forget(session, asked, path, Selection(observation_id=observation_id(*named[0])), joined)
    return erased


async def _forget(session: Session, asked: Asked, path: Path | None, selection: Selection, joined: bool) -> int:
    journal.check(path, session)
    forgotten = await forgetting.forget(session, asked, selection)
    await journal.keep(path, session, forgotten.entry, joined=joined)
    return len(forgotten.receipt.observations) + len(forgotten.receipt.withdrawn)


async def take_back(session: Session, asked: Asked, agent_key: int, key: RequestKey) -> bool:
    """Ends the quarantine of what the request names; False: it doesn't wait. Raises `InputError` as `release` does."""
    requests, is_found = Requests(session, agent_key), False
    while named := await requests.named_by(key):
        is_found = True
        await corrections.release(session, asked, Selection(observation_id=observation_id(*named[0])))
    return is_found
