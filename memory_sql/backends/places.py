"""Resolves a scope however it is named: ours by its id or value, the host's by agent, type and owner."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast, get_args

from memory_sql.backends.hosts import field_of, id_of_host
from memory_sql.domain.ids import OwnedKind, ScopeKind
from memory_sql.domain.scopes import Scope, ScopeDetails, ScopeRef
from memory_sql.errors import InputError
from memory_sql.memory import Memory

_OWNERS = {"individual": "user_id", "group": "group_id", "conversation": "session_id"}


@dataclass(frozen=True, slots=True)
class Place:
    agent_id: str
    ref: ScopeRef


async def place_of(memory: Memory, scope: Any, agent_id: str | None) -> Place:
    """`agent_id` is used if the scope names no agent. A host's scope that doesn't exist here yet is created.

    Raises `InputError`, `NotFoundError`.
    """
    agent = agent_of(scope, agent_id)
    if isinstance(scope, ScopeRef):
        return Place(agent, scope)
    if isinstance(scope, Scope | ScopeDetails):
        return Place(agent, scope.ref)
    if isinstance(scope, str):
        return Place(agent, (await memory.scopes.get(scope, agent_id=agent)).ref)
    kind = field_of(scope, "scope_type", "kind")
    if kind not in get_args(OwnedKind):
        raise InputError(f"{type(scope).__name__} isn't a scope: it has no valid scope_type")
    owner = field_of(scope, _OWNERS[kind]) if kind in _OWNERS else None
    owner_id = None if owner is None else id_of_host(owner)
    made = await memory.scopes.create(cast("OwnedKind", kind), agent_id=agent, owner_id=owner_id)
    return Place(agent, made.ref)


def agent_of(thing: Any, agent_id: str | None) -> str:
    """Raises `InputError` if the agent isn't given."""
    named = None if isinstance(thing, str) else field_of(thing, "agent_id")
    if named is not None:
        return id_of_host(named)
    if agent_id is None:
        raise InputError("the agent can't be found out: pass agent_id")
    return agent_id


async def is_due(memory: Memory, place: Place) -> bool:
    """Whether enough is pending in the scope."""
    details = await memory.scopes.get(place.ref.id, agent_id=place.agent_id)
    settings = {name: setting.value for name, setting in details.settings.items()}
    if not settings["consolidate"] or not settings["is_active"]:
        return False
    viewer = await _viewer(memory, place)
    if viewer is None:
        return False
    seen = await memory.scopes.list(agent_id=place.agent_id, user_id=viewer)
    pending = next((scope.pending for scope in seen if scope.ref.id == place.ref.id), 0)
    return pending >= int(settings["consolidation_threshold"])


async def _viewer(memory: Memory, place: Place) -> str | None:
    """A user who can see the scope; None: nobody can."""
    ref, everybody = place.ref, place.agent_id
    if ref.kind == "group" and ref.owner_id is not None:
        members = await memory.groups.members(ref.owner_id, agent_id=place.agent_id)
        return members[0].user_id if members else None
    return ref.owner_id if _is_personal(ref.kind) else everybody


def _is_personal(kind: ScopeKind) -> bool:
    return kind in ("individual", "entity")
