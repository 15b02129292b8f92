"""Requests to forget, once decided: what they name is erased, or its quarantine ends."""

from __future__ import annotations

from memory_sql.db import Session
from memory_sql.db.queries.requests import RequestKey, Requests
from memory_sql.domain.ids import observation_id
from memory_sql.domain.selection import Selection
from memory_sql.errors import NotFoundError
from memory_sql.lifecycle import corrections, forgetting, journal
from memory_sql.lifecycle.corrections import Asked


async def erase(session: Session, asked: Asked, agent_key: int, key: RequestKey, *, joined: bool) -> int:
    """Forgets what the request names, as `forget` does, and returns how many observations that were; 0: it doesn't wait."""
    requests, erased = Requests(session, agent_key), 0
    for one in await requests.named_by(key):
        if one in await requests.named_by(key):  # it didn't go with another
            erased += await forget(session, asked, Selection(observation_id=observation_id(*one)), joined=joined)
    return erased


async def forget(session: Session, asked: Asked, selection: Selection, *, joined: bool) -> int:
    """As `forget` does, written down in the journal; how many observations. 0: somebody else has forgotten it meanwhile."""
    path = asked.settings.forget_journal
    journal.check(path, session)
    try:
        forgotten = await forgetting.forget(session, asked, selection)
    except NotFoundError:
        return 0
    await journal.keep(path, session, forgotten.entry, joined=joined)
    return len(forgotten.receipt.observations) + len(forgotten.receipt.withdrawn)


async def take_back(session: Session, asked: Asked, agent_key: int, key: RequestKey) -> bool:
    """Ends the quarantine of what the request names; False: it doesn't wait. Raises `InputError` as `release` does."""
    requests, released = Requests(session, agent_key), set[str]()
    for one in await requests.named_by(key):
        if one in await requests.named_by(key):
            done = await corrections.release(session, asked, Selection(observation_id=observation_id(*one)))
            released |= {*done.observations}
    return bool(released)
