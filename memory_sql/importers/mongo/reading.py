"""Reads legacy documents by tables of field names, old and new. Other keys are ignored.

Pure. Each reader raises `UnreadableError`, and notes what is unusual.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

from memory_sql.config.kinds import Secrets
from memory_sql.domain.messages import Role
from memory_sql.importers.mongo.documents import (
    Blob,
    Level,
    Limits,
    Record,
    RecordType,
    SaidMessage,
    Session,
    Shard,
    User,
    reference,
)
from memory_sql.importers.mongo.texts import blob_text, message_text, record_text
from memory_sql.importers.mongo.values import (
    Fields,
    Notes,
    ObjectKey,
    UnreadableError,
    created_at,
    good_ids,
    legacy_id,
    legacy_ids,
    moment,
    needed_id,
    optional_text,
    whole,
)
from memory_sql.languages.text import clean

_TYPES: Mapping[str, RecordType] = {
    "episode": "episode",
    "directive": "directive",
    "suggestion": "suggestion",
    "fact": "fact",
}
_ROLES: Mapping[str, Role] = {
    "user": "user",
    "assistant": "assistant",
    "eden": "assistant",
    "agent": "agent",
    "system": "system",
    "tool": "tool",
}
_LEVELS: Mapping[str, Level] = {"user": "user", "agent": "agent", "session": "session"}
_LATER_WORDS: Mapping[Level, int] = {"user": 600, "agent": 2000, "session": 1500}

USER_WORDS, SHARD_WORDS = 400, 1000  # R013
MOST_FACTS, MOST_SUGGESTIONS = 100, 16  # R011

_STAMPS = frozenset({"_id", "createdAt", "updatedAt"})
_MESSAGE = (
    "role name channel session sender triggering_user billed_user agent_owner reply_to pinned content reactions "
    "attachments tool_calls trigger thought llm_config finish_reason"
)
KNOWN_KEYS: Mapping[str, frozenset[str]] = {
    collection: _STAMPS | frozenset(names.split())
    for collection, names in {
        "memory_user": "agent_id user_id content agent_owner unabsorbed_memory_ids unabsorbed_directive_ids "
        "fully_formed_memory last_updated_at",
        "memory_agent": "agent_id shard_name extraction_prompt is_active content unabsorbed_memory_ids facts "
        "fully_formed_memory fully_formed_memory_shard last_updated_at max_facts_per_shard "
        "max_agent_memories_before_consolidation AGENT_MEMORY_BLOB_MAX_WORDS agent_owner",
        "memory_sessions": "agent_id source_session_id memory_type content source_message_ids related_users shard_id "
        "agent_owner",
        "memory2_consolidated": "scope scope_type agent_id user_id session_id consolidated_content word_limit "
        "unabsorbed_ids last_consolidated_at updated_at",
        "memory2_reflections": "content scope agent_id user_id formed_at session_id source_session_id "
        "source_message_ids absorbed absorbed_at consolidated_into updated_at version",
        "memory2_facts": "content hash embedding embedding_model scope agent_id user_id formed_at session_id "
        "source_session_id source_message_ids access_count last_accessed_at version previous_content updated_at",
        "messages": _MESSAGE,
    }.items()
}
"""The known keys by collection; others are noted (A27). Users and sessions aren't listed: most of their data isn't memory."""


def read_user(document: Fields, notes: Notes) -> User:
    key = needed_id(document.get("_id"), "_id", notes)
    name = document.get("username")
    return User(
        key=key,
        canonical=legacy_id(document.get("eden_user_id"), "eden_user_id", notes) or key,
        is_agent=document.get("type") == "agent",
        is_gone=document.get("deleted") is True,
        name=clean(name)[0] if isinstance(name, str) else None,
    )


def read_session(document: Fields, notes: Notes) -> Session:
    key = needed_id(document.get("_id"), "_id", notes)
    memory = document.get("memory_context")
    memory = memory if isinstance(memory, Mapping) else {}
    formed = _cursor(memory.get("last_memory_message_id"), notes)
    if formed is None:
        notes.add("A26")
    lists = Notes()
    agents, users = (legacy_ids(document, field, lists) for field in ("agents", "users"))
    notes |= lists & {"bad_list_id"}
    return Session(key, document.get("deleted") is True, agents, users, formed)


def _cursor(value: Any, notes: Notes) -> ObjectKey | None:
    """None where the id is none: it points nowhere (A26), and the session is good."""
    try:
        return legacy_id(value, "last_memory_message_id", notes)
    except UnreadableError:
        return None


def read_user_blob(document: Fields, notes: Notes, secrets: Secrets) -> Blob:
    key = needed_id(document.get("_id"), "_id", notes)
    text = blob_text(optional_text(document, "content"), USER_WORDS, secrets, notes)
    waiting = legacy_ids(document, "unabsorbed_memory_ids", notes, "unabsorbed_directive_ids")
    if text is None and not waiting:
        notes.add("A22")
    return Blob(
        ref=reference("memory_user", key),
        agent=needed_id(document.get("agent_id"), "agent_id", notes),
        level="user",
        owner_key=needed_id(document.get("user_id"), "user_id", notes),
        text=text,
        written_at=moment(document.get("last_updated_at"), notes),
        created_at=created_at(document, key, notes),
        waiting=waiting,
        limits=Limits(USER_WORDS),
    )


def read_shard(document: Fields, notes: Notes, secrets: Secrets) -> Shard:
    key = needed_id(document.get("_id"), "_id", notes)
    limits = Limits(
        words=whole(document, "AGENT_MEMORY_BLOB_MAX_WORDS", 20, 100_000, notes) or SHARD_WORDS,
        before_consolidation=whole(document, "max_agent_memories_before_consolidation", 1, 1_000_000, notes),
        facts=whole(document, "max_facts_per_shard", 0, 10_000, notes),
    )
    facts = legacy_ids(document, "facts", notes)
    if len(facts) > (MOST_FACTS if limits.facts is None else limits.facts):
        notes.add("A20")
    if document.get("is_active") is not True:
        notes.add("A18")
    if document.get("fully_formed_memory_shard") is not None:
        notes.add("A2")
    return Shard(
        ref=reference("memory_agent", key),
        key=key,
        agent=needed_id(document.get("agent_id"), "agent_id", notes),
        name=optional_text(document, "shard_name"),
        prompt=optional_text(document, "extraction_prompt"),
        is_active=document.get("is_active") is not False,
        text=blob_text(optional_text(document, "content"), limits.words, secrets, notes),
        written_at=moment(document.get("last_updated_at"), notes),
        created_at=created_at(document, key, notes),
        waiting=legacy_ids(document, "unabsorbed_memory_ids", notes),
        facts=facts,
        limits=limits,
    )


def read_record(document: Fields, notes: Notes, secrets: Secrets) -> Record:
    key = needed_id(document.get("_id"), "_id", notes)
    if document.get("updatedAt") is None:
        notes.add("A8")
    return Record(
        ref=reference("memory_sessions", key),
        key=key,
        agent=needed_id(document.get("agent_id"), "agent_id", notes),
        type=_legacy_type(document, notes),
        text=record_text(optional_text(document, "content"), secrets, notes),
        created_at=created_at(document, key, notes),
        updated_at=moment(document.get("updatedAt"), notes),
        session=legacy_id(document.get("source_session_id"), "source_session_id", notes),
        messages=legacy_ids(document, "source_message_ids", notes),
        users=legacy_ids(document, "related_users", notes),
        shard=legacy_id(document.get("shard_id"), "shard_id", notes),
    )


def read_message(document: Fields, notes: Notes, secrets: Secrets) -> SaidMessage:
    """An older shape is noted (A25): a single session, no content, or reactions that aren't a list."""
    key = needed_id(document.get("_id"), "_id", notes)
    sessions, role, content = document.get("session"), document.get("role"), optional_text(document, "content")
    if not isinstance(sessions, list) or content is None or isinstance(document.get("reactions"), Mapping):
        notes.add("A25")
    known = _ROLES.get(role) if isinstance(role, str) else None
    if known is None:
        raise UnreadableError("bad_role", "role")
    listed = sessions if isinstance(sessions, list) else [needed_id(sessions, "session", notes)]
    text = message_text(content, secrets, notes)
    name = document.get("name")
    return SaidMessage(
        key=key,
        sessions=good_ids(listed, "session", notes),
        role=known,
        name=name if isinstance(name, str) else None,
        sender=legacy_id(document.get("sender"), "sender", notes),
        content=text.content,
        source_hash=text.source_hash,
        created_at=created_at(document, key, notes),
        trigger=legacy_id(document.get("trigger"), "trigger", notes),
    )


def _legacy_type(document: Fields, notes: Notes) -> RecordType:
    written = optional_text(document, "memory_type") or ""
    lower = written.strip().lower()
    if lower != written or lower not in _TYPES:
        notes.add("A23")
    found = _TYPES.get(lower)
    if found is None:
        raise UnreadableError("bad_memory_type", "memory_type")
    return found


def read_later_blob(document: Fields, notes: Notes, secrets: Secrets) -> Blob:
    """Reads a document of `memory2_consolidated`."""
    key = needed_id(document.get("_id"), "_id", notes)
    level = _level(document, notes)
    limit = whole(document, "word_limit", 20, 100_000, notes) or _LATER_WORDS[level]
    owner = None if level == "agent" else needed_id(document.get(f"{level}_id"), f"{level}_id", notes)
    return Blob(
        ref=reference("memory2_consolidated", key),
        agent=needed_id(document.get("agent_id"), "agent_id", notes),
        level=level,
        owner_key=owner,
        text=blob_text(optional_text(document, "consolidated_content"), limit, secrets, notes),
        written_at=moment(document.get("last_consolidated_at"), notes),
        created_at=created_at(document, key, notes),
        waiting=legacy_ids(document, "unabsorbed_ids", notes),
        limits=Limits(limit),
    )


def read_later_record(kind: Literal["reflection", "found"]) -> Callable[[Fields, Notes, Secrets], Record]:
    """Reads documents of `memory2_reflections` or `memory2_facts`."""
    collection = "memory2_reflections" if kind == "reflection" else "memory2_facts"

    def read(document: Fields, notes: Notes, secrets: Secrets) -> Record:
        key = needed_id(document.get("_id"), "_id", notes)
        user = legacy_id(document.get("user_id"), "user_id", notes)
        if document.get("embedding"):
            notes.add("re_embed")
        return Record(
            ref=reference(collection, key),
            key=key,
            agent=needed_id(document.get("agent_id"), "agent_id", notes),
            type=kind,
            text=record_text(optional_text(document, "content"), secrets, notes),
            created_at=moment(document.get("formed_at"), notes) or created_at(document, key, notes),
            updated_at=moment(document.get("updated_at", document.get("updatedAt")), notes),
            session=legacy_id(_session_of(document, notes), "session_id", notes),
            messages=legacy_ids(document, "source_message_ids", notes),
            users=() if user is None else (user,),
            shard=None,
            level=_level(document, notes),
            absorbed=document.get("absorbed") is True if kind == "reflection" else None,
        )

    return read


def _session_of(document: Fields, notes: Notes) -> Any:
    if document.get("session_id") is None and document.get("source_session_id") is not None:
        notes.add("A2")
        return document["source_session_id"]
    return document.get("session_id")


def _level(document: Fields, notes: Notes) -> Level:
    """The level, which used to have another name and to be a list of one."""
    value = document.get("scope")
    if value is None and document.get("scope_type") is not None:
        notes.add("A2")
        value = document["scope_type"]
    if isinstance(value, list) and value:
        notes.add("A2")
        value = value[0]
    found = _LEVELS.get(value) if isinstance(value, str) else None
    if found is None:
        raise UnreadableError("bad_type", "scope")
    return found
