"""What legacy documents mean, whatever their age. Pure values, made by `reading`."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from memory_sql.domain.messages import Role
from memory_sql.importers.mongo.texts import Text
from memory_sql.importers.mongo.values import ObjectKey

RecordType = Literal["episode", "directive", "suggestion", "fact", "reflection", "found"]
Level = Literal["user", "agent", "session"]


@dataclass(frozen=True, slots=True)
class User:
    """`canonical`: the id to use for this user. `is_gone`: deleted."""

    key: ObjectKey
    canonical: ObjectKey
    is_agent: bool
    is_gone: bool
    name: str | None


@dataclass(frozen=True, slots=True)
class Session:
    """`formed`: the last message from which memory was formed; None: the document doesn't say (A26)."""

    key: ObjectKey
    is_gone: bool
    agents: tuple[ObjectKey, ...]
    users: tuple[ObjectKey, ...]
    formed: ObjectKey | None


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a scope in the legacy system."""

    words: int
    before_consolidation: int | None = None
    facts: int | None = None


@dataclass(frozen=True, slots=True)
class Blob:
    """The text of a user with an agent or, in the later system, of an agent or session. `owner_key` None: the agent's own."""

    ref: str
    agent: ObjectKey
    level: Level
    owner_key: ObjectKey | None
    text: Text | None
    written_at: datetime | None
    created_at: datetime
    waiting: tuple[ObjectKey, ...]
    limits: Limits

    @property
    def moment(self) -> datetime:
        return self.written_at or self.created_at


@dataclass(frozen=True, slots=True)
class Shard:
    """One of several texts of an agent. `facts`: those in its context, oldest first."""

    ref: str
    key: ObjectKey
    agent: ObjectKey
    name: str | None
    prompt: str | None
    is_active: bool
    text: Text | None
    written_at: datetime | None
    created_at: datetime
    waiting: tuple[ObjectKey, ...]
    facts: tuple[ObjectKey, ...]
    limits: Limits

    @property
    def moment(self) -> datetime:
        return self.written_at or self.created_at


@dataclass(frozen=True, slots=True)
class Record:
    """One remembered item. `level` and `absorbed` are the later system's. `absorbed` None: only the lists tell."""

    ref: str
    key: ObjectKey
    agent: ObjectKey
    type: RecordType
    text: Text
    created_at: datetime
    updated_at: datetime | None
    session: ObjectKey | None
    messages: tuple[ObjectKey, ...]
    users: tuple[ObjectKey, ...]
    shard: ObjectKey | None
    level: Level | None = None
    absorbed: bool | None = None


@dataclass(frozen=True, slots=True)
class SaidMessage:
    """One turn. `role` is a role of `Message`. `trigger`: what caused the message, if nobody wrote it."""

    key: ObjectKey
    sessions: tuple[ObjectKey, ...]
    role: Role
    name: str | None
    sender: ObjectKey | None
    content: str
    source_hash: bytes
    created_at: datetime
    trigger: ObjectKey | None


def reference(collection: str, key: ObjectKey) -> str:
    return f"{collection}:{key}"
