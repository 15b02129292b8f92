"""Reads a host's own objects in the form that memory takes: ids, sessions and their messages.

Accepts objects with attributes as well as mappings, with the field names of the legacy system. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from memory_sql.domain.messages import Message
from memory_sql.errors import InputError

_ROLES = {"eden": "assistant"}
_EXCLUDED = ("incognito", "exclude_memory")  # the current name, and the one until the end of 2025


@dataclass(frozen=True, slots=True)
class HostSession:
    """A session of the host. Messages need ids and may be passed again: each is stored once.

    `user_id` is the speaker of messages that name none. `excluded`: whether nothing of it is to be remembered; None
    leaves that unchanged.
    """

    conversation_id: str
    user_id: str
    messages: Sequence[Message | Mapping[str, Any]] = ()
    group_ids: tuple[str, ...] = ()
    excluded: bool | None = None


async def read_fields(session: Any) -> HostSession:
    """The session with the messages that it holds itself."""
    return session_of(session, field_of(session, "messages") or ())


def session_of(session: Any, messages: Sequence[Any], canonical: Mapping[str, str] | None = None) -> HostSession:
    """`canonical` maps other ids of a user to the canonical one. Raises `InputError` if the session has no owner."""
    names = canonical or {}
    owner = field_of(session, "owner", "user_id", "user")
    if owner is None:
        raise InputError("the session has no owner: pass owner or user_id")
    excluded = field_of(field_of(session, "extras"), *_EXCLUDED)
    user_id = user_id_of(owner)
    return HostSession(
        id_of_host(session),
        names.get(user_id, user_id),
        [message_of(message, names) for message in messages],
        tuple(id_of_host(group) for group in field_of(session, "group_ids", "groups") or ()),
        None if excluded is None else bool(excluded),
    )


def message_of(message: Any, canonical: Mapping[str, str]) -> Message | Mapping[str, Any]:
    """A host's message in the form that `Memory.add` takes. A `Message` is returned unchanged."""
    if isinstance(message, Message):
        return message
    if not isinstance(message, Mapping) and field_of(message, "role") is None:
        raise InputError("the session's messages can't be read as messages: pass SqlBackend a read_session that can")
    role, content = str(field_of(message, "role")), field_of(message, "content")
    given: dict[str, Any] = {
        "role": _ROLES.get(role, role),
        "content": "" if content is None else content,  # of attachments or calls alone
        "id": _optional_id(field_of(message, "id", "_id")),
        "name": field_of(message, "name"),
        "created_at": _moment(field_of(message, "created_at", "createdAt")),
        "trigger": _optional_id(field_of(message, "trigger")),
        "tool_calls": [_call(call) for call in field_of(message, "tool_calls") or ()],
    }
    sender = field_of(message, "sender", "user_id") if role == "user" else None
    if sender is not None:
        user_id = user_id_of(sender)
        given["user_id"] = canonical.get(user_id, user_id)
    return {name: value for name, value in given.items() if value not in (None, [])}


def id_of_host(thing: Any) -> str:
    """The id of an object, or the value itself if it is an id. Raises `InputError` for anything else."""
    if isinstance(thing, str | int | UUID) or type(thing).__name__ == "ObjectId":
        return str(thing)
    found = field_of(thing, "id", "_id")
    if found is None:
        raise InputError(f"{type(thing).__name__} has no id")
    return id_of_host(found)


def user_id_of(user: Any) -> str:
    """The canonical id of a user who may have several."""
    canonical = None if isinstance(user, str | int | UUID) else field_of(user, "eden_user_id")
    return id_of_host(user if canonical is None else canonical)


def field_of(thing: Any, *names: str) -> Any:
    """The first of these fields that exists and isn't None."""
    for name in names:
        value = thing.get(name) if isinstance(thing, Mapping) else getattr(thing, name, None)
        if value is not None:
            return value
    return None


def _optional_id(value: Any) -> str | None:
    return None if value is None else id_of_host(value)


def _moment(value: Any) -> Any:
    """Drivers return times in UTC without a zone."""
    return value.replace(tzinfo=UTC) if isinstance(value, datetime) and value.tzinfo is None else value


def _call(call: Any) -> Mapping[str, Any]:
    return {"function": {"name": field_of(call, "tool") or field_of(field_of(call, "function"), "name")}}
