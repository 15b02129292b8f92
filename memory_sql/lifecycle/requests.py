"""Requests to forget, once decided: what they name is erased, or its quarantine ends."""

from __future__ import annotations

from collections.abc import Sequence

from memory_sql.db import Session
from memory_sql.db.locks import Locks, under_locks
from memory_sql.db.queries.requests import RequestKey, Requests
from memory_sql.domain.ids import observation_id
from memory_sql.domain.selection import Selection
from memory_sql.errors import NotFoundError
from memory_sql.lifecycle import corrections, forgetting, journal
from memory_sql.lifecycle.corrections import Asked
from memory_sql.lifecycle.forgetting import Forgotten
from memory_sql.lifecycle.journal import Entry


async def erase(session: Session, asked: Asked, agent_key: int, key: RequestKey, *, joined: bool) -> int | None:
    """Forgets what the request names, as `forget` does. How many observations that were; None: it doesn't wait."""

    async def act(locks: Locks) -> list[Forgotten] | None:
        return await erase_under(session, asked, locks, key)

    journal.check(asked.settings.forget_journal, session)
    done = await under_locks(session, agent_key, act, shared=True)
    if done is None:
        return None
    await write(session, asked, [one.entry for one in done], joined=joined)
    return sum(len(one.receipt.observations) + len(one.receipt.withdrawn) for one in done)


async def erase_under(session: Session, asked: Asked, locks: Locks, key: RequestKey) -> list[Forgotten] | None:
    """As `erase`, under the locks of the caller, of which the agent is shared; it is for the caller to `write`.

    What others have said since it was asked for isn't the asker's alone any more: it is in use again.
    """
    requests, done, released = Requests(session, locks.agent_key), list[Forgotten](), False
    for one in await requests.named_by(key):
        if one not in await requests.named_by(key):
            continue  # it went with another
        chosen = Selection(observation_id=observation_id(*one))
        if await requests.said_by_others_since(one):
            released |= bool((await corrections.release_under(session, asked, locks, chosen)).observations)
        else:
            done += await forget_under(session, asked, locks, chosen)
    return done if done or released else None


async def forget_under(session: Session, asked: Asked, locks: Locks, selection: Selection) -> list[Forgotten]:
    """As `forget` does; nothing: somebody else has forgotten it meanwhile."""
    try:
        return [await forgetting.forget_under(session, asked, locks, selection)]
    except NotFoundError:
        return []


async def write(session: Session, asked: Asked, entries: Sequence[Entry], *, joined: bool) -> None:
    """Into the journal, once nothing of it is done again under more locks."""
    for entry in entries:
        await journal.keep(asked.settings.forget_journal, session, entry, joined=joined)


async def take_back(session: Session, asked: Asked, agent_key: int, key: RequestKey) -> bool:
    """Ends the quarantine of what the request names; False: it doesn't wait. Raises `InputError` as `release` does."""

    async def act(locks: Locks) -> bool:
        return await take_back_under(session, asked, locks, key)

    return await under_locks(session, agent_key, act)


async def take_back_under(session: Session, asked: Asked, locks: Locks, key: RequestKey) -> bool:
    """As `take_back`, under the locks of the caller; what more it needs, it says to them."""
    requests, released = Requests(session, locks.agent_key), set[str]()
    for one in await requests.named_by(key):
        if one in await requests.named_by(key):
            chosen = Selection(observation_id=observation_id(*one))
            released |= {*(await corrections.release_under(session, asked, locks, chosen)).observations}
    return bool(released)
