"""One observation in the place of another: `update`, `supersede`, `replace_fact`, and back: `reinstate`."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any

from memory_sql.config import Settings
from memory_sql.db import Session
from memory_sql.db.locks import Locks
from memory_sql.db.repositories.corrections import Cause, Change, CorrectionRepository, correct_one
from memory_sql.db.repositories.lines import LineRepository
from memory_sql.db.repositories.observations import (
    Draft,
    Evidence,
    ObservationKey,
    ObservationRepository,
    classified,
    observation_of,
    stored_as,
)
from memory_sql.db.repositories.parts import whole_again
from memory_sql.db.repositories.scopes import NewScope, ScopeRepository, ScopeState
from memory_sql.db.repositories.states import StateRepository
from memory_sql.domain.arguments import without_secrets
from memory_sql.domain.ids import observation_id, parse_observation_id
from memory_sql.domain.observations import SET_ASIDE, Observation
from memory_sql.errors import InputError, NotFoundError, VersionError
from memory_sql.lifecycle.corrections.request import Asked, Locked, find, lock, must_be_active, observation_at
from memory_sql.lifecycle.corrections.texts import rebuild_with, rewritten_with
from memory_sql.privacy.classify import masked_value

NOWHERE = NewScope("individual", "")  # of a draft that goes where another observation is

INHERITED = {
    *"conversation_id category kind importance classified_by no_propagate confidential fact_key lane subjects".split(),
    *"tags metadata owner name".split(),
}
"""What a correction takes from the old one, `tags` and `metadata` if none are given."""


async def update_alone(
    session: Session,
    asked: Asked,
    wanted: str,
    text: str,
    tags: tuple[str, ...] | None,
    metadata: dict[str, Any] | None,
    if_version: int | None,
) -> Observation | None:
    """As `update`, in one statement, where nothing else changes with it. None: `update` has more to do, or to refuse."""
    if masked_value([text, list(tags or ()), metadata or {}])[1]:
        return None  # what becomes of a secret, the agent's settings say
    draft = Draft(
        scope=NOWHERE,
        content=text,
        observed_at=asked.now,
        source_kind="observe",
        evidence=(Evidence(user_id=asked.principal["user_id"]),),
        sensitivity="public",
        tags=tags or (),
        metadata=metadata or {},
    )
    given = {name for name, value in (("tags", tags), ("metadata", metadata)) if value is not None}
    (stored,) = stored_as([classified(draft, is_plain=True)])
    own = {name: value for name, value in stored.items() if name in given or name not in INHERITED}
    key, threshold = parse_observation_id(wanted), asked.settings.consolidation_threshold
    return await correct_one(session, asked.principal, key, if_version, own, threshold, asked.entry)


async def update(
    session: Session,
    asked: Asked,
    wanted: str,
    text: str,
    tags: tuple[str, ...] | None,
    metadata: dict[str, Any] | None,
    if_version: int | None,
) -> Observation:
    """A new observation that supersedes the old one: evidence is whoever corrects, lineage that of the old one.

    It speaks of whom that speaks of, and has no search cues: these were the model's.
    """
    old = await lock(session, asked, wanted, if_version)
    secrets = asked.settings.of_agent(old.scope.agent_settings).secrets
    text = without_secrets("the observation", text, secrets)
    tags = None if tags is None else tuple(without_secrets("tags", list(tags), secrets))
    metadata = None if metadata is None else without_secrets("metadata", metadata, secrets)
    _check_correctable(old, text)
    draft = classified(_corrected(old, asked, text, tags, metadata))
    saved = await ObservationRepository(session).save(
        old.agent_key, [draft], run_id=None, now=asked.now, replaced=old.key[1]
    )
    (key,) = saved.stored or saved.known
    if saved.known:
        await _check_usable(session, old.agent_key, key)
    threshold = asked.settings.consolidation_threshold
    holds, is_linked, is_in_line = await CorrectionRepository(session, old.agent_key).replace(
        old.key, key[1], threshold, asked.entry
    )
    if is_in_line:
        await LineRepository(session).append(old.scope, {old.key[1]: key[1]})
    if not (saved.known or holds or is_linked):
        return observation_of(draft, key, "active", None, asked.now)
    await rewritten_with(session, asked.settings, asked.entry, old.scope, [key], [old.key, key], holds=holds)
    return await observation_at(session, old.agent_key, key)


async def _check_usable(session: Session, agent_key: int, key: ObservationKey) -> None:
    status = (await observation_at(session, agent_key, key)).status
    if status in SET_ASIDE:
        raise InputError(f"the same text is {SET_ASIDE[status]} in this scope")


def _check_correctable(old: Locked, text: str) -> None:
    must_be_active(old.observation)
    if text == old.observation.content:
        raise InputError(f"{old.observation.id} already says the same")
    if not old.scope.is_active:
        raise InputError(f"scope s{old.scope.scope_id} is inactive")


def _corrected(
    locked: Locked, asked: Asked, text: str, tags: tuple[str, ...] | None, metadata: Mapping[str, Any] | None
) -> Draft:
    old, scope = locked.observation, locked.scope
    return Draft(
        scope=NewScope(scope.kind, scope.owner, scope.name),
        content=text,
        observed_at=asked.now,
        source_kind="observe",
        evidence=(Evidence(user_id=asked.principal["user_id"]),),
        conversation_id=old.source.conversation_id,  # forgetting the conversation takes its corrections along
        category=old.category,
        kind=old.kind,
        importance=old.importance,
        classified_by=None if old.classified_by is None else 0,
        sensitivity=old.sensitivity,
        no_propagate=old.no_propagate,
        confidential=old.confidential,
        tags=old.tags if tags is None else tags,
        metadata=old.metadata if metadata is None else metadata,
        fact_key=old.fact_key,
        lane=old.lane,
        subjects=locked.subjects,
    )


async def supersede(session: Session, asked: Asked, old_id: str, new_id: str, if_version: int | None) -> Observation:
    """The old one, superseded by the new one. Newer is what was said later, so there are no cycles."""
    await find(session, asked, new_id)
    old = await lock(session, asked, old_id, if_version)
    new = (await find(session, asked, new_id)).observation  # again, now that the scope is locked
    _check_newer(old, new)
    by = {old.key[1]: parse_observation_id(new.id)[1]}
    await _give_way(session, asked.settings, asked.entry, old.scope, by)
    return await old.reread(session)


async def supersede_under(session: Session, asked: Asked, locks: Locks, old_id: str, new_id: str) -> bool:
    """As `supersede`, under the locks of the caller; what more it needs, it says to them. False: nothing can be done."""
    try:
        old, new = await find(session, asked, old_id), await find(session, asked, new_id)
    except NotFoundError:
        return False
    (scope_id, seq), (_, by) = (parse_observation_id(one.observation.id) for one in (old, new))
    locks.need({scope_id, *old.reached})
    (scope,) = await ScopeRepository(session).lock(locks.agent_key, scope_ids=[scope_id])
    locked = Locked(locks.agent_key, scope, old.observation, old.subjects)
    try:
        _check_newer(locked, new.observation)
    except (InputError, VersionError):
        return False
    await _give_way(session, asked.settings, asked.entry, scope, {seq: by})
    return True


def _check_newer(locked: Locked, new: Observation) -> None:
    old = locked.observation
    if new.scope.id != old.scope.id:
        raise InputError(f"{new.id} is in another scope than {old.id}")
    must_be_active(old)
    must_be_active(new)
    if (new.said_at, parse_observation_id(new.id)) <= (old.said_at, locked.key):
        raise InputError(f"{new.id} isn't newer than {old.id}")


async def reinstate(session: Session, asked: Asked, wanted: str, if_version: int | None) -> Observation:
    """No longer superseded: both are active. The text goes back to before it took in what had superseded this one."""
    locked = await lock(session, asked, wanted, if_version)
    if locked.observation.status != "superseded":
        raise InputError(f"{wanted} isn't superseded")
    repository = CorrectionRepository(session, locked.agent_key)
    (standing,) = await repository.standings([locked.key])
    if standing.follows:
        raise InputError(f"{wanted} is superseded because its source is, and comes back with that")
    await refuse_twins(repository, [locked.key])
    line = await repository.successors(standing)
    await repository.change([Change(standing, "active", "reinstate")], asked.entry)
    await _whole_again(session, asked, locked.agent_key, [locked.key])
    await rebuild_with(session, asked.settings, asked.entry, locked.scope, line, line, None)
    return await locked.reread(session)


async def refuse_twins(
    repository: CorrectionRepository, keys: Collection[ObservationKey], but: Collection[ObservationKey] = ()
) -> None:
    """Raises `InputError` where an active observation, `but` not one of those, says the same as one of these."""
    if twins := [one for one in await repository.twins(keys, "active") if one.key not in but]:
        raise InputError(f"{observation_id(*twins[0].key)} says the same and is active")


async def replace_fact(
    session: Session, agent_key: int, scope: ScopeState, fact_key: str, settings: Settings, now: datetime
) -> None:
    """Of the active observations of the fact only the last one stays active. A rule of ours: no actor."""
    repository = CorrectionRepository(session, agent_key)
    *older, newest = await repository.of_fact(scope.scope_id, fact_key)
    if older:
        await _give_way(session, settings, Cause(None, None, now), scope, {one.key[1]: newest.key[1] for one in older})


async def change(
    session: Session,
    asked: Asked,
    agent_key: int,
    changes: Sequence[Change],
    replaced: Mapping[ObservationKey, int] | None = None,
) -> None:
    """Sets the statuses in scopes that the caller has locked; each of `replaced` is superseded by another of its scope.

    So is each value of a fact that gives way once these statuses are set (`StateRepository.giving_way`).
    """
    back, going = (
        [one.before.key for one in changes if (one.status == "active") is active] for active in (True, False)
    )
    overtaken = {**(replaced or {}), **await StateRepository(session).giving_way(agent_key, back, going)}
    await CorrectionRepository(session, agent_key).change(changes, asked.entry)
    await _whole_again(session, asked, agent_key, back)
    touched = sorted({scope_id for scope_id, _ in overtaken})
    for scope in await ScopeRepository(session).lock(agent_key, scope_ids=touched) if touched else ():
        by = {seq: new for (scope_id, seq), new in overtaken.items() if scope_id == scope.scope_id}
        await _give_way(session, asked.settings, asked.entry, scope, by)


async def _whole_again(session: Session, asked: Asked, agent_key: int, keys: Collection[ObservationKey]) -> None:
    """What was kept of these gives way."""
    entry = asked.entry
    for scope in (
        await ScopeRepository(session).lock(agent_key, scope_ids=sorted({key[0] for key in keys})) if keys else ()
    ):
        seqs = [seq for scope_id, seq in keys if scope_id == scope.scope_id]
        await whole_again(session, scope, seqs, entry.at, actor=entry.actor, reason=entry.reason)


async def stand_again(
    session: Session, asked: Asked, agent_key: int, scope_ids: Collection[int]
) -> list[ObservationKey]:
    """What nothing in these scopes supersedes any more is active again; which that is."""
    entry, touched = asked.entry, await CorrectionRepository(session, agent_key).with_lines(scope_ids)
    states, cause = StateRepository(session), {"actor": entry.actor, "reason": entry.reason}
    return [
        (scope.scope_id, seq)
        for scope in (await ScopeRepository(session).lock(agent_key, scope_ids=touched) if touched else ())
        for seq in await states.stand_again(scope, entry.at, **cause)
    ]


async def _give_way(
    session: Session, settings: Settings, entry: Cause, scope: ScopeState, by: Mapping[int, int]
) -> None:
    """Each of these of the scope is superseded by the one that `by` names."""
    await StateRepository(session).give_way(scope, by, entry.at, actor=entry.actor, reason=entry.reason)
    old, new = [(scope.scope_id, seq) for seq in by], [(scope.scope_id, seq) for seq in {*by.values()}]
    await rebuild_with(session, settings, entry, scope, old, new, old)
