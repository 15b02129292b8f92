"""Carries out a person's decision on a review, by its kind."""

from __future__ import annotations

import uuid
from typing import Any

from memory_sql.config import Settings
from memory_sql.consolidation import consolidation
from memory_sql.consolidation.parts import keep_parts
from memory_sql.db import Session
from memory_sql.db.locks import Locks, lock_agent, under_locks
from memory_sql.db.queries.held_claims import why_not
from memory_sql.db.queries.requests import RequestKey, Requests, SpokenKey, SpokenReview
from memory_sql.db.queries.reviews import (
    HeardByOneKey,
    HeldClaimKey,
    HeldContradictionKey,
    HeldTextKey,
    ReviewKey,
    Reviews,
)
from memory_sql.db.repositories.corrections import Cause
from memory_sql.db.repositories.events import record_all
from memory_sql.db.repositories.following import FollowingRepository
from memory_sql.db.repositories.observations import ObservationKey
from memory_sql.db.repositories.propagations import PropagationRepository
from memory_sql.db.repositories.runs import RunRepository
from memory_sql.db.repositories.scopes import ScopeRepository
from memory_sql.db.repositories.states import StateRepository
from memory_sql.domain.scopes import Contradiction
from memory_sql.errors import StaleError
from memory_sql.lifecycle import corrections, journal, requests, spoken
from memory_sql.lifecycle.journal import Entry
from memory_sql.resources.runtime import asked_of


async def decided(
    session: Session,
    agent_id: str,
    agent_key: int,
    key: ReviewKey,
    settings: Settings,
    entry: Cause,
    *,
    accept: bool,
    joined: bool,
) -> bool:
    """False if the review isn't waiting any more. Raises `StaleError` for a claim that can't be shared any more.

    `joined`: the transaction is the host's.
    """
    match key:
        case HeldClaimKey():
            noted = await _claim(session, agent_key, key, settings, entry, accept=accept)
        case HeldContradictionKey():
            noted = await _contradiction(session, agent_key, key, settings, entry, accept=accept)
        case HeardByOneKey():
            noted = await _heard_by_one(session, agent_id, agent_key, key, settings, entry, accept=accept)
        case HeldTextKey():
            noted = await _text(session, agent_id, agent_key, key, settings, entry, accept=accept)
        case RequestKey():
            asked = asked_of(agent_id, entry.actor, entry.reason, settings, entry.at)
            noted = await _request(session, asked, agent_key, key, accept=accept, joined=joined)
        case SpokenKey():
            asked = asked_of(agent_id, entry.actor, entry.reason, settings, entry.at)
            noted = await _spoken(session, asked, agent_key, key, accept=accept, joined=joined)
    if noted is None:
        return False
    told = {"agent_key": agent_key, "kind": "review", "actor": entry.actor, "reason": entry.reason}
    await record_all(session, [{**told, "created_at": entry.at, **noted}])
    return True


async def _claim(
    session: Session, agent_key: int, key: HeldClaimKey, settings: Settings, entry: Cause, *, accept: bool
) -> dict[str, Any] | None:
    scope_id, seq = key.source
    outcome = "released" if accept else "refused"
    await ScopeRepository(session).lock(agent_key, scope_ids=[scope_id])
    because = await why_not(session, agent_key, key.source, key.target_scope_id, settings) if accept else None
    if because is not None:
        raise StaleError("review", str(key), because)
    if not await PropagationRepository(session, agent_key).review(key.source, key.target_scope_id, outcome, entry.at):
        return None
    return {"scope_id": scope_id, "seq": seq, "detail": {"to": outcome, "for": key.target_scope_id}}


async def _contradiction(
    session: Session, agent_key: int, key: HeldContradictionKey, settings: Settings, entry: Cause, *, accept: bool
) -> dict[str, Any] | None:
    following = FollowingRepository(session, agent_key)
    await following.lock([key.scope_id])
    named = await Reviews(session, agent_key).named_by(key)
    if named is None:
        return None
    if accept:
        (scope,) = await ScopeRepository(session).lock(agent_key, scope_ids=[key.scope_id])
        settings = settings.of_agent(scope.agent_settings)
        found = Contradiction(newer=named.newer, older=key.older, still=named.still)
        await keep_parts(session, scope, [found], settings, entry.at)
        cause = {"version": key.version, "actor": entry.actor, "reason": entry.reason}
        await StateRepository(session).supersede(scope, {key.older: named.newer}, entry.at, **cause)
        threshold = settings.consolidation_threshold
        await following.settle([key.scope_id], threshold, entry.at)
        await ScopeRepository(session).refresh_due(agent_key, [key.scope_id], threshold, entry.at)
    detail = {"to": "accepted" if accept else "refused", "by": named.newer}
    return {"scope_id": key.scope_id, "seq": key.older, "version": key.version, "detail": detail}


async def _heard_by_one(
    session: Session,
    agent_id: str,
    agent_key: int,
    key: HeardByOneKey,
    settings: Settings,
    entry: Cause,
    *,
    accept: bool,
) -> dict[str, Any] | None:
    """The group keeps it, or it is archived there, as when the member leaves."""
    await lock_agent(session, agent_key)
    if not await Reviews(session, agent_key).heard_by_one(1, key):
        return None
    archived, waits = corrections.Archived(), str(uuid.uuid4())
    if not accept:
        asked = asked_of(agent_id, entry.actor, entry.reason, settings, entry.at)

        async def choose() -> list[ObservationKey]:
            return [(key.scope_id, key.seq)]

        archived = await corrections.archive(session, asked, agent_key, [key.scope_id], choose, waits)
    detail = {"to": "accepted" if accept else "refused", **archived.told_if_any(waits)}
    return {"scope_id": key.scope_id, "seq": key.seq, "detail": detail}


async def _text(
    session: Session,
    agent_id: str,
    agent_key: int,
    key: HeldTextKey,
    settings: Settings,
    entry: Cause,
    *,
    accept: bool,
) -> dict[str, Any] | None:
    runs = RunRepository(session)
    found = await runs.find_held(agent_key, key.run_id)
    if found is None:
        return None
    await FollowingRepository(session, agent_key).lock([found[0]])
    if await runs.find_held(agent_key, key.run_id) is None:  # somebody else has decided meanwhile
        return None
    if accept:
        await consolidation.accept(session, agent_id, agent_key, key.run_id, settings, entry.at)
    else:
        await runs.discard_held(agent_key, key.run_id)
    return {"scope_id": found[0], "run_id": key.run_id, "detail": {"to": "accepted" if accept else "refused"}}


async def _request(
    session: Session, asked: corrections.Asked, agent_key: int, key: RequestKey, *, accept: bool, joined: bool
) -> dict[str, Any] | None:
    if accept:
        is_found = await requests.erase(session, asked, agent_key, key, joined=joined) is not None
    else:
        is_found = await requests.take_back(session, asked, agent_key, key)
    detail = {"to": "accepted" if accept else "refused", "for": "request"}
    return {"scope_id": key.scope_id, "seq": key.seq, "detail": detail} if is_found else None


async def _spoken(
    session: Session, asked: corrections.Asked, agent_key: int, key: SpokenKey, *, accept: bool, joined: bool
) -> dict[str, Any] | None:
    """What it means is forgotten, as by `forget`, or superseded; nothing if it is refused."""
    await lock_agent(session, agent_key)  # two don't decide about the same message at once
    done = list[Entry]()

    async def act(locks: Locks) -> SpokenReview | None:
        done.clear()
        review = await Requests(session, agent_key).spoken_of(key)
        if review is not None and accept:
            done.extend(await spoken.accept(session, asked, locks, key, review))
        elif review is not None:
            done.extend(await spoken.refuse(session, asked, locks, key, review))
        return review

    journal.check(asked.settings.forget_journal, session)
    review = await under_locks(session, agent_key, act)
    await requests.write(session, asked, done, joined=joined)
    if review is None:
        return None
    detail = {"to": "accepted" if accept else "refused", "for": "request", **key.told}
    return {"scope_id": review.scope_id, "seq": None, "detail": detail}
