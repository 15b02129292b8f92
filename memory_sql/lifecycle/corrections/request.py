"""Who asks for a correction, and the observation that it is about: found, locked, checked."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from memory_sql.config import Settings
from memory_sql.db import Session
from memory_sql.db.locks import Locks, Rows, under_found
from memory_sql.db.principals import Principal, service
from memory_sql.db.repositories.agents import agent_key_of
from memory_sql.db.repositories.corrections import Cause, Standing
from memory_sql.db.repositories.observations import Found, ObservationKey, ObservationRepository
from memory_sql.db.repositories.scopes import ScopeRepository, ScopeState
from memory_sql.domain.ids import parse_observation_id
from memory_sql.domain.observations import SET_ASIDE, Observation
from memory_sql.errors import NotFoundError, VersionError


@dataclass(frozen=True, slots=True)
class Asked:
    """Who asks, as `db` takes it; what they may not see isn't there."""

    principal: Mapping[str, Any]
    actor: str | None
    reason: str | None
    settings: Settings
    now: datetime

    @property
    def agent_id(self) -> str:
        return str(self.principal["agent_id"])

    @property
    def is_operator(self) -> bool:
        """Nobody asks whose view would count."""
        return self.principal["user_id"] is None

    @property
    def service(self) -> Principal:
        """The library works for the agent; each statement itself asks for what the user may see."""
        return service(self.agent_id)

    @property
    def entry(self) -> Cause:
        return Cause(self.actor or self.principal["user_id"], self.reason, self.now)


@dataclass(frozen=True, slots=True)
class Locked:
    """An observation in its scope, which is locked. `subjects` are the users of whom it speaks."""

    agent_key: int
    scope: ScopeState
    observation: Observation
    subjects: tuple[str, ...]

    @property
    def key(self) -> ObservationKey:
        return parse_observation_id(self.observation.id)

    @property
    def standing(self) -> Standing:
        by = self.observation.superseded_by
        return Standing(self.key, self.observation.status, None if by is None else parse_observation_id(by)[1])

    async def reread(self, session: Session) -> Observation:
        """The observation as it is now, whoever may see it."""
        return await observation_at(session, self.agent_key, self.key)


async def agent_key_for(session: Session, asked: Asked) -> int:
    """Raises `NotFoundError`."""
    agent_key = await agent_key_of(session, asked.agent_id)
    if agent_key is None:
        raise NotFoundError("agent", asked.agent_id)
    return agent_key


async def find(session: Session, asked: Asked, wanted: str, *, aside: Collection[str] = ()) -> Found:
    """Raises `NotFoundError`, after the same statements, for what isn't there and for what the principal may not see.

    What is set aside is there for nobody, unless it is in one of these states.
    """
    found = await ObservationRepository(session).find(asked.principal, *parse_observation_id(wanted))
    status = None if found is None else found.observation.status
    if found is None or (status in SET_ASIDE and status not in aside):
        raise NotFoundError("observation", wanted)
    return found


async def lock(session: Session, asked: Asked, wanted: str, if_version: int | None = None) -> Locked:
    """The observation, read again once its scope is locked, and wherever something follows it.

    Raises `NotFoundError`, `VersionError`.
    """
    scope_id, _ = parse_observation_id(wanted)
    scopes, locked = ScopeRepository(session), dict[int, ScopeState]()

    async def lock_seen() -> Locks:
        seen = await scopes.lock_seen(asked.principal, scope_id)
        if not seen:
            raise NotFoundError("observation", wanted)
        locked.update((scope.scope_id, scope) for scope in seen)
        return Locks(seen[0].agent_key, Rows(frozenset(locked)))

    async def act(locks: Locks) -> Locked:
        scope = locked.pop(scope_id, None)
        found = await find_version(session, asked, wanted, if_version)
        locks.need({scope_id, *found.reached})
        if scope is None:
            (scope,) = await scopes.lock(found.agent_key, scope_ids=[scope_id])
        return Locked(found.agent_key, scope, found.observation, found.subjects)

    return await under_found(session, lock_seen, act)


async def find_version(session: Session, asked: Asked, wanted: str, if_version: int | None) -> Found:
    """As `find`, under its lock: not if it was forgotten meanwhile, maybe with its scope. Raises `VersionError` as well."""
    found = await find(session, asked, wanted)
    observation = found.observation
    if if_version is not None and observation.version != if_version:
        raise VersionError(wanted, observation.version, f"has version {observation.version}, not {if_version}")
    return found


async def observation_at(session: Session, agent_key: int, key: ObservationKey) -> Observation:
    (observation,) = await ObservationRepository(session).by_keys(agent_key, [key])
    return observation


def must_be_active(observation: Observation) -> None:
    """Raises `VersionError` for what isn't."""
    if observation.status != "active":
        by = f" by {observation.superseded_by}" if observation.superseded_by else ""
        raise VersionError(
            observation.id, observation.version, f"is {observation.status}{by}", by=observation.superseded_by
        )
