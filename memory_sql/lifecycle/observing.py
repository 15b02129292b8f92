"""One thing remembered as the host says it, without a model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from memory_sql.arguments import content_of, id_of, name_of, optional_id, owner_of, tags_of, without_secrets
from memory_sql.config import Settings
from memory_sql.config.kinds import Lane
from memory_sql.db import Session
from memory_sql.db.repositories.agents import ensure_agent
from memory_sql.db.repositories.conversations import ConversationRepository
from memory_sql.db.repositories.following import FollowingRepository
from memory_sql.db.repositories.observations import Draft, Evidence, ObservationRepository
from memory_sql.db.repositories.scopes import NewScope, ScopeRepository, ScopeState
from memory_sql.domain.ids import LONGEST_AHEAD, Id, OwnedKind, aware, owner_key
from memory_sql.domain.observations import Observation, storable_metadata
from memory_sql.errors import InputError
from memory_sql.languages.dates import days_of, zone_of
from memory_sql.lifecycle import corrections


def draft_of(
    text: str,
    settings: Settings,
    now: datetime,
    *,
    user_id: Id | None,
    group_id: Id | None,
    collective: bool,
    kind: OwnedKind | None,
    observed_at: datetime | None,
    conversation_id: Id | None,
    speaker: str | None,
    scope: Id | None,
    tags: Iterable[str],
    metadata: Mapping[str, Any] | None,
    fact_key: Id | None,
) -> Draft:
    """Raises `InputError`."""
    user, conversation = optional_id("user_id", user_id), optional_id("conversation_id", conversation_id)
    whose, owner_id = owner_of(user, group_id, collective, kind, conversation)
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
        metadata=storable_metadata(metadata or {}, settings.metadata_max_characters),
        fact_key=optional_id("fact_key", fact_key),
    )


def _said_at(given: datetime | None, now: datetime) -> dict[str, Any]:
    """A time more than a day ahead counts as now, and is kept as given."""
    at = now if given is None else aware(given, "observed_at")
    return {"observed_at": at} if at <= now + LONGEST_AHEAD else {"observed_at": now, "given_at": at}


async def store(
    session: Session, agent_id: str, draft: Draft, lane: Lane | None, settings: Settings, now: datetime
) -> Observation:
    """The observation, or the one that says the same already. Raises `InputError`, `NotFoundError`."""
    agent = await ensure_agent(session, agent_id, now)
    settings = settings.of_agent(agent.settings)
    conversations = ConversationRepository(session)
    if draft.scope.kind == "conversation":
        await conversations.keep(agent.key, str(draft.conversation_id))
    zone = await conversations.time_zone(agent.key, draft.conversation_id) or settings.time_zone
    draft = _without_secrets(draft, settings)
    draft = replace(draft, dates=days_of(draft.content, draft.observed_at, zone_of(zone)))
    scopes, observations = ScopeRepository(session), ObservationRepository(session)
    if draft.fact_key is not None:  # what was made of the older ones goes with them
        await FollowingRepository(session, agent.key).lock_owned(draft.scope.owner, draft.scope.name)
    locked = await scopes.lock_or_make(agent.key, [draft.scope], (), settings, now)
    if not locked[0].is_active:
        raise InputError(f"scope {locked[0].scope_id} is inactive")
    draft = replace(draft, lane=_lane(lane, locked[0]))
    saved = await observations.save(agent.key, [draft], locked, run_id=None, now=now)
    if draft.fact_key is not None and saved.stored:
        await corrections.replace_fact(session, agent.key, locked[0], draft.fact_key, settings, now)
    await scopes.refresh_due(agent.key, [locked[0].scope_id], settings.consolidation_threshold, now)
    return (await observations.by_keys(agent.key, saved.stored or saved.known))[0]


def _lane(wanted: Lane | None, scope: ScopeState) -> Lane:
    """Of a scope with both the wanted one, else `absorb`; else the only one, and what is meant for the other is refused."""
    if scope.lanes == "both":
        return wanted or "absorb"
    if wanted not in (None, scope.lanes):
        raise InputError(f"scope s{scope.scope_id} has no lane {wanted}: its setting lanes is {scope.lanes}")
    return scope.lanes


def _without_secrets(draft: Draft, settings: Settings) -> Draft:
    """The same with its secrets masked, or refused: `InputError`."""
    speaker = draft.speaker and without_secrets("speaker", draft.speaker, settings.secrets)
    return replace(
        draft,
        content=without_secrets("the observation", draft.content, settings.secrets),
        speaker=speaker,
        tags=tuple(without_secrets("tags", list(draft.tags), settings.secrets)),
        metadata=without_secrets("metadata", dict(draft.metadata), settings.secrets),
    )
