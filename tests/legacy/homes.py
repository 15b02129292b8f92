"""Documents as the legacy system wrote them, without anomalies. Cases change what they are about."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from bson import ObjectId

Document = dict[str, Any]
BEGIN = datetime(2025, 9, 1, 8, tzinfo=UTC).replace(tzinfo=None)  # naive, in UTC, as drivers give it


def key(*path: object) -> ObjectId:
    """The same for the same path, of a second near `BEGIN`."""
    digest = hashlib.blake2b("/".join(map(str, path)).encode(), digest_size=8).digest()
    seconds = int(BEGIN.replace(tzinfo=UTC).timestamp())
    return ObjectId(seconds.to_bytes(4, "big") + digest)


def at(minutes: float) -> datetime:
    return BEGIN + timedelta(minutes=minutes)


WRITTEN = at(500_000)  # after all records: every blob has taken in what it doesn't list


@dataclass(frozen=True)
class Home:
    """An agent with two users and a session; `path` makes its ids."""

    path: tuple[object, ...]

    def key(self, *path: object) -> ObjectId:
        return key(*self.path, *path)

    @property
    def agent(self) -> ObjectId:
        return self.key("agent")

    @property
    def user(self) -> ObjectId:
        return self.key("user", 0)

    @property
    def other(self) -> ObjectId:
        return self.key("user", 1)

    @property
    def session(self) -> ObjectId:
        return self.key("session")

    def person(self, user: ObjectId, name: str = "mia", **changed: Any) -> Document:
        return {"_id": user, "type": "user", "username": name, "deleted": False, "eden_user_id": None} | changed

    def agent_document(self, **changed: Any) -> Document:
        return {"_id": self.agent, "type": "agent", "username": "ada", "deleted": False, "owner": self.user} | changed

    def session_document(self, session: ObjectId | None = None, **changed: Any) -> Document:
        return {
            "_id": session or self.session,
            "owner": self.user,
            "users": [self.user],
            "agents": [self.agent],
            "status": "active",
            "deleted": False,
            "messages": [self.key("message")],
            "memory_context": {"last_memory_message_id": self.key("message"), "messages_since_memory_formation": 3},
        } | changed

    def blob(self, user: ObjectId | None = None, *path: object, **changed: Any) -> Document:
        return {
            "_id": self.key("blob", user or self.user, *path),
            "agent_id": self.agent,
            "user_id": user or self.user,
            "content": "Mia plans the harbour festival. She prefers short answers.",
            "agent_owner": None,
            "unabsorbed_memory_ids": [],
            "fully_formed_memory": "derived",
            "last_updated_at": WRITTEN,
            "createdAt": at(0),
            "updatedAt": at(1),
        } | changed

    def shard(self, *path: object, **changed: Any) -> Document:
        return {
            "_id": self.key("shard", *path),
            "agent_id": self.agent,
            "shard_name": "festival",
            "extraction_prompt": "What concerns the festival.",
            "is_active": True,
            "content": "The festival is in June.",
            "unabsorbed_memory_ids": [],
            "facts": [],
            "fully_formed_memory": "derived",
            "last_updated_at": WRITTEN,
            "max_facts_per_shard": 100,
            "max_agent_memories_before_consolidation": 16,
            "createdAt": at(0),
            "updatedAt": at(1),
        } | changed

    def record(self, kind: str, *path: object, **changed: Any) -> Document:
        return {
            "_id": self.key(kind, *path),
            "agent_id": self.agent,
            "source_session_id": self.session,
            "memory_type": kind,
            "content": f"A {kind} about {'/'.join(map(str, (*self.path, *path)))}.",
            "source_message_ids": [self.key("message")],
            "related_users": [self.user],
            "shard_id": self.key("shard") if kind in ("fact", "suggestion") else None,
            "agent_owner": self.user,
            "createdAt": at(2),
            "updatedAt": at(3),
        } | changed

    def directive(self, *path: object, **changed: Any) -> Document:
        return self.record("directive", *path, **changed)

    def message(self, *path: object, **changed: Any) -> Document:
        return {
            "_id": self.key("message", *path),
            "role": "user",
            "name": "mia",
            "session": [self.session],
            "sender": self.user,
            "content": f"What was said, {'/'.join(map(str, path))}.",
            "reactions": [],
            "attachments": [],
            "tool_calls": None,
            "trigger": None,
            "createdAt": at(1),
            "updatedAt": None,
        } | changed

    def later(self, *path: object, **changed: Any) -> Document:
        """Of `memory2_facts` or `memory2_reflections`."""
        return {
            "_id": self.key("later", *path),
            "content": f"A later thing about {'/'.join(map(str, (*self.path, *path)))}.",
            "scope": "user",
            "agent_id": self.agent,
            "user_id": self.user,
            "formed_at": at(4),
            "session_id": self.session,
            "source_message_ids": [],
        } | changed

    def later_blob(self, *path: object, **changed: Any) -> Document:
        return {
            "_id": self.key("later blob", *path),
            "scope": "user",
            "agent_id": self.agent,
            "user_id": self.user,
            "session_id": None,
            "consolidated_content": "Mia plans two festivals.",
            "word_limit": 600,
            "unabsorbed_ids": [],
            "last_consolidated_at": WRITTEN + timedelta(days=1),
            "createdAt": at(0),
        } | changed


def without(document: Mapping[str, Any], names: Sequence[str]) -> Document:
    return {name: value for name, value in document.items() if name not in names}
