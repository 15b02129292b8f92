"""One thing remembered as the host says it, without a model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import date, datetime
from typing import Any, cast

from memory_sql.config import Settings
from memory_sql.config.kinds import Lane, ObservationKind, Secrets
from memory_sql.db import Session
from memory_sql.db.repositories.agents import find_agent
from memory_sql.db.repositories.events import record
from memory_sql.db.repositories.following import FollowingRepository
from memory_sql.db.repositories.observations import (
    Draft,
    Evidence,
    Known,
    LinkedBy,
    ObservationKey,
    ObservationRepository,
    by_rules,
    classified,
    observation_of,
)
from memory_sql.db.repositories.scopes import NewScope, ScopeRepository
from memory_sql.domain.arguments import (
    content_of,
    day_of,
    id_of,
    name_of,
    observation_kind_of,
    optional_id,
    owner_of,
    sensitivity_of,
    share_of,
    tags_of,
    without_secrets,
    word_of,
)
from memory_sql.domain.ids import LONGEST_AHEAD, Id, OwnedKind, aware, owner_key
from memory_sql.domain.observations import Observation, storable_metadata
from memory_sql.domain.results import ObserveResult
from memory_sql.errors import InputError, NotFoundError
from memory_sql.languages.dates import days_of, zone_of
from memory_sql.lifecycle import corrections
from memory_sql.privacy import SENSITIVITIES, Sensitivity
from memory_sql.privacy.classify import masked_value


def draft_of(
    text: str,
    settings: Settings,
    now: datetime,
    *,
    user_id: Id | None,
    group_id: Id | None,
    collective: bool,
    scope_kind: OwnedKind | None,
    observed_at: datetime | None,
    conversation_id: Id | None,
    speaker: str | None,
    scope: Id | None,
    tags: Iterable[str],
    metadata: Mapping[str, Any] | None,
    fact_key: Id | None,
    known: Mapping[str, Any],
) -> Draft:
    """`known` as by `known_of`. Raises `InputError`."""
    user, conversation = optional_id("user_id", user_id), optional_id("conversation_id", conversation_id)
    whose, owner_id = owner_of(user, group_id, collective, scope_kind, conversation)
    name = "" if scope is None else id_of("scope", scope)
    return Draft(
        scope=NewScope(whose, owner_key(whose, owner_id), name, display_name=owner_id if whose == "group" else None),
        content=content_of(text, settings.observation_max_characters),
        **_said_at(observed_at, now),
        source_kind="observe",
        evidence=(Evidence(user_id=user),),
        conversation_id=conversation,
        speaker=name_of("speaker", speaker) or None,
        tags=tags_of(tags),
        metadata=storable_metadata({} if metadata is None else metadata, settings.metadata_max_characters),
        fact_key=optional_id("fact_key", fact_key),
        **known,
    )


def known_of(
    kind: ObservationKind | None,
    category: str | None,
    confidence: float | None,
    importance: float | None,
    sensitivity: Sensitivity | None,
    until: date | None,
) -> dict[str, Any]:
    """What the host says of an observation beside its text. Raises `InputError`."""
    return {
        "kind": observation_kind_of(kind),
        "category": word_of("category", category),
        "confidence": share_of("confidence", confidence),
        "importance": share_of("importance", importance),
        "sensitivity": sensitivity_of(sensitivity) or "private",
        "until": day_of("until", until),
    }


def _said_at(given: datetime | None, now: datetime) -> dict[str, Any]:
    """A time more than a day ahead counts as now, and is kept as given."""
    at = now if given is None else aware(given, "observed_at")
    return {"observed_at": at} if at <= now + LONGEST_AHEAD else {"observed_at": now, "given_at": at}


@dataclass(frozen=True, slots=True)
class Stored:
    """`observation` None: the scope has one that says the same already."""

    agent_key: int
    key: ObservationKey
    observation: ObserveResult | None
    empty_group: bool


async def store(
    session: Session,
    agent_id: str,
    draft: Draft,
    lane: Lane | None,
    own: Settings,
    now: datetime,
    actor: str | None = None,
) -> Stored:
    """In one statement, which makes the agent and the scope where they are missing, unless a fact may have to be replaced.

    With an `actor`, the event says who did it.

    Raises `InputError`, `NotFoundError`.
    """
    stored = await _stored(session, agent_id, draft, lane, own, now)
    if actor is not None:
        place = dict(zip(("scope_id", "seq"), stored.key, strict=True))
        await record(session, stored.agent_key, "observe", now, actor=actor, **place)
    if actor is None or stored.observation is None:
        return stored
    return replace(
        stored, observation=stored.observation.model_copy(update={"version": stored.observation.version + 1})
    )


async def _stored(
    session: Session, agent_id: str, draft: Draft, lane: Lane | None, settings: Settings, now: datetime
) -> Stored:
    if draft.fact_key is None:
        return (await _store(session, agent_id, draft, lane, settings, now))[0]
    agent = await find_agent(session, agent_id)
    if agent is not None:  # what was made of the older ones goes with them
        await FollowingRepository(session, agent.key).lock_owned(draft.scope.owner, draft.scope.name)
    stored, settings = await _store(session, agent_id, draft, lane, settings, now)
    scopes, scope_id = ScopeRepository(session), stored.key[0]
    if stored.observation is not None:
        (scope,) = await scopes.lock(stored.agent_key, scope_ids=[scope_id])
        await corrections.replace_fact(session, stored.agent_key, scope, draft.fact_key, settings, now)
    await scopes.refresh_due(stored.agent_key, [scope_id], settings.consolidation_threshold, now)
    return replace(stored, observation=None)  # another may be newer


async def known(session: Session, stored: Stored) -> ObserveResult:
    (found,) = await ObservationRepository(session).by_keys(stored.agent_key, [stored.key])
    return _result(found, stored.empty_group)


def is_more_private(draft: Draft, found: Observation) -> bool:
    """Than the one that says the same already."""
    return SENSITIVITIES.index(cast("Sensitivity", draft.sensitivity)) > SENSITIVITIES.index(found.sensitivity)


async def raised(session: Session, asked: corrections.Asked, draft: Draft, stored: Stored) -> ObserveResult:
    """As private as the draft says; what was made of it is taken back."""
    level = cast("Sensitivity", draft.sensitivity)
    found = await corrections.raise_sensitivity(session, asked, stored.agent_key, stored.key, level)
    return _result(found, stored.empty_group)


def _result(observation: Observation, empty_group: bool) -> ObserveResult:
    ObserveResult.model_rebuild()  # once: before pydantic 2.13 an instance of a deferred class can't be serialized
    return ObserveResult.model_construct(**dict(observation), empty_group=empty_group)


async def _store(
    session: Session, agent_id: str, draft: Draft, lane: Lane | None, settings: Settings, now: datetime
) -> tuple[Stored, Settings]:
    """With the settings of the agent. It is taken to have none of its own, until the database says otherwise."""
    is_plain = _is_plain(draft)
    by = Known() if is_plain else None  # before a secret is sent, what becomes of it is asked
    while True:
        own = settings.of_agent(by.settings if by else {})
        zone = zone_of((by and by.time_zone) or own.time_zone)
        ready = draft if is_plain else _without_secrets(draft, own.secrets if by else "mask")
        dates = days_of(ready.content, ready.observed_at, zone)
        ready = by_rules(classified(ready, is_plain=is_plain, dates=dates), own.classification)
        if own.graph:
            whose = (ready.speaker, ready.scope.owner.partition(":")[2]) if ready.scope.kind == "individual" else ()
            ready = replace(ready, links=LinkedBy.of(ready.content, own.language, whose))
        found = await ObservationRepository(session).observe(agent_id, ready, lane, by, own, now)
        if found.outcome != "differs":
            break
        by = found.known
    if found.outcome == "no_conversation":
        raise NotFoundError("conversation", str(draft.conversation_id))
    if found.outcome == "inactive_scope":
        raise InputError(f"scope s{found.scope_id} is inactive")
    if found.outcome == "no_lane":
        scope = "the new scope" if found.scope_id is None else f"scope s{found.scope_id}"
        raise InputError(f"{scope} has no lane {lane}: its setting lanes is {found.lanes}")
    key = found.scope_id, found.seq
    into: Lane = (lane or "absorb") if found.lanes == "both" else found.lanes
    ready = ready if ready.lane == into else replace(ready, lane=into)
    new = observation_of(ready, key, "active", None, now) if found.outcome == "active" else None
    result = None if new is None else _result(new, found.empty_group)
    return Stored(found.agent_key, key, result, found.empty_group), own


def _is_plain(draft: Draft) -> bool:
    """No secret is in it, so that it is stored as it is whatever the setting."""
    return not masked_value([draft.content, draft.speaker, list(draft.tags), dict(draft.metadata)])[1]


def _without_secrets(draft: Draft, secrets: Secrets) -> Draft:
    """The same with its secrets masked, or refused: `InputError`."""
    speaker = draft.speaker and without_secrets("speaker", draft.speaker, secrets)
    return replace(
        draft,
        content=without_secrets("the observation", draft.content, secrets),
        speaker=speaker,
        tags=tuple(without_secrets("tags", list(draft.tags), secrets)),
        metadata=without_secrets("metadata", dict(draft.metadata), secrets),
    )
