"""Reads a payload of mem0: what is remembered, whose it is, and what else mem0 knew of it. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import date, datetime
from typing import Any, NamedTuple

from memory_sql.domain.ids import host_id
from memory_sql.domain.observations import storable_metadata
from memory_sql.errors import InputError
from memory_sql.importers.mem0.naming import conversation_of, is_stand_in, owner_of
from memory_sql.importers.mem0.options import Mem0Options
from memory_sql.importers.mongo.texts import record_text
from memory_sql.importers.mongo.values import Notes, UnreadableError, moment
from memory_sql.privacy.classify import masked_value

COLLECTION = "mem0"
KEPT = ("hash", "updated_at", "user_id", "agent_id", "run_id", "actor_id", "role", "attributed_to", "expiration_date")
DERIVED = frozenset(("data", "text_lemmatized", "created_at", *KEPT))
"""The keys of a payload that are mem0's; all others are the host's metadata."""


class Limits(NamedTuple):
    characters: int
    metadata_characters: int


class Remembered(NamedTuple):
    """A memory of mem0. `source_hash`: of its original text. `metadata`: the host's, and under `mem0` what mem0 knew."""

    ref: str
    agent: str
    owner: str
    conversation: str | None
    content: str
    source_hash: bytes
    is_plain: bool
    created_at: datetime | None
    metadata: dict[str, Any]


def read(key: str, payload: str | None, options: Mem0Options, limits: Limits, today: date, notes: Notes) -> Remembered:
    """Notes what is unusual; raises `UnreadableError`, with the reason `expired` for what mem0 doesn't show any more."""
    fields = _fields(payload)
    text = fields.get("data")
    if not isinstance(text, str | None):
        raise UnreadableError("bad_type", "data")
    if _is_expired(fields.get("expiration_date"), today):
        raise UnreadableError("expired", "expiration_date")
    found = record_text(text, options.secrets, notes)
    if len(found.content) > limits.characters:
        raise UnreadableError("too_long", "data")
    user, agent, run = (_id(fields, name) for name in ("user_id", "agent_id", "run_id"))
    owner = owner_of(user, agent, run)
    if owner is None:
        raise UnreadableError("no_user", "user_id")
    if user is not None and is_stand_in(user):
        raise UnreadableError("bad_id", "user_id")
    if agent is None:
        notes.add("no_agent")
    return Remembered(
        ref=f"{COLLECTION}:{key}",
        agent=agent or options.agent_id,
        owner=owner,
        conversation=_stored(conversation_of(owner, run)) if run else None,
        content=found.content,
        source_hash=found.source_hash,
        is_plain=found.is_plain,
        created_at=_time(fields, notes),
        metadata=_metadata(key, fields, options, limits, notes),
    )


def _fields(payload: str | None) -> Mapping[str, Any]:
    try:
        fields = json.loads(payload or "null")
    except (ValueError, RecursionError) as error:
        raise UnreadableError("bad_type", "payload") from error
    if not isinstance(fields, dict):
        raise UnreadableError("empty" if fields is None else "bad_type", "payload")
    return fields


def _is_expired(written: Any, today: date) -> bool:
    try:
        return isinstance(written, str) and date.fromisoformat(written) < today
    except ValueError:  # mem0 shows it then
        return False


def _id(fields: Mapping[str, Any], name: str) -> str | None:
    """An id as mem0 passes it on: without white space around it; an empty one is none."""
    value = fields.get(name)
    if isinstance(value, str):
        value = value.strip() or None
    if value is None:
        return None
    try:
        return host_id(value, name)
    except InputError as error:
        raise UnreadableError("bad_id", name) from error


def _stored(conversation: str) -> str | None:
    """None if it is too long to be an id; the run stands in the metadata as well."""
    try:
        return host_id(conversation)
    except InputError:
        return None


def _time(fields: Mapping[str, Any], notes: Notes) -> datetime | None:
    odd = Notes()
    found = moment(fields.get("created_at"), odd)
    if found is None:
        notes.add("no_time")
    return found


def _metadata(
    key: str, fields: Mapping[str, Any], options: Mem0Options, limits: Limits, notes: Notes
) -> dict[str, Any]:
    """Without the host's own where that is too much to store."""
    own = {"id": key, **{name: fields[name] for name in KEPT if fields.get(name) is not None}}
    hosts = {name: value for name, value in fields.items() if name not in DERIVED}
    if COLLECTION in hosts:
        own["metadata"] = hosts.pop(COLLECTION)
    for given in ({**hosts, COLLECTION: own}, {COLLECTION: {"id": key}}):
        try:
            stored = storable_metadata(given, limits.metadata_characters)
        except InputError:
            notes.add("metadata_left_out")
            continue
        return stored if options.secrets == "keep" else _masked(stored, options, notes)
    return {}


def _masked(metadata: dict[str, Any], options: Mem0Options, notes: Notes) -> dict[str, Any]:
    masked, found = masked_value(metadata)
    if found:
        notes.add("masked")
        if options.secrets == "refuse":
            raise UnreadableError("secret", "metadata")
    return dict(masked)
