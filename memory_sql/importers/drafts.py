"""What legacy memory is turned into: values to be stored, in the order in which they are stored."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

from memory_sql.config.kinds import Lane, PromptMode, PromptName
from memory_sql.domain.ids import ScopeKind, owner_key
from memory_sql.domain.messages import Role

State = Literal["absorbed", "pending", "archived", "evicted"]
"""The state of an observation: in the text, waiting, found only by search, or not even found.

In the buffer, pending rows are those in the context.
"""

Outcome = Literal["migrated", "merged", "skipped", "rejected"]


@dataclass(frozen=True, slots=True)
class AgentDraft:
    """`is_active` False: the agent is deleted or missing in the directory (A12)."""

    agent_id: str
    display_name: str | None
    is_active: bool


@dataclass(frozen=True, slots=True)
class GroupDraft:
    """A group of an agent's users, in order."""

    agent_id: str
    group_id: str
    user_ids: tuple[str, ...]
    settings: Mapping[str, Any] = field(default_factory=lambda: {"sharing": "review"})


@dataclass(frozen=True, slots=True)
class TextPart:
    """What one document contributes to a scope's text."""

    legacy_ref: str
    content: str
    written_at: datetime
    source_hash: bytes
    heading: str | None = None
    version: int | None = None
    over_limit: bool = False

    @property
    def marks(self) -> Mapping[str, Any]:
        """What is kept of it besides its words (A4, A30)."""
        version = {} if self.version is None else {"version": self.version}
        return version | ({"over_limit": True} if self.over_limit else {})


@dataclass(frozen=True, slots=True)
class PromptDraft:
    name: PromptName
    mode: PromptMode
    body: str


@dataclass(frozen=True, slots=True)
class ScopeDraft:
    """A scope with its text, settings and prompts. `text` None: it has no text, and none of its rows is absorbed.

    `settings` are named as in `config.ScopeSettings`. `legacy_refs`: the documents that it was made from, in order.
    `version`: the highest version of these. `parts`: the parts of its text, in order.
    """

    agent_id: str
    kind: ScopeKind
    owner_id: str | None
    name: str
    display_name: str | None
    is_active: bool
    text: str | None
    parts: tuple[TextPart, ...]
    written_at: datetime | None
    created_at: datetime | None
    settings: Mapping[str, Any]
    prompts: tuple[PromptDraft, ...] = ()
    legacy_refs: tuple[str, ...] = ()

    @property
    def owner(self) -> str:
        return owner_key(self.kind, self.owner_id)

    @property
    def version(self) -> int | None:
        return max((part.version for part in self.parts if part.version is not None), default=None)

    @property
    def over_limit(self) -> bool:
        return any(part.over_limit for part in self.parts)


class ObservationDraft(NamedTuple):
    """`legacy_ref` is unique in its scope. `also`: references that say the same and get no row of their own.

    `digest`: that of the content; None: it hasn't been computed, or there is none. `is_plain`: the text was checked
    unchanged and contains no secret. `given_at`: the original time, if that was more than a day after the import.
    """

    legacy_ref: str
    content: str
    observed_at: datetime
    state: State
    lane: Lane
    source_hash: bytes
    verification: Literal["unverified", "confirmed"]
    related_users: tuple[str, ...] = ()
    conversation_id: str | None = None
    message_ids: tuple[str, ...] = ()
    metadata: Mapping[str, Any] = MappingProxyType({})
    given_at: datetime | None = None
    also: tuple[str, ...] = ()
    digest: bytes | None = None
    is_plain: bool = False


class DuplicateDraft(NamedTuple):
    """A document with the same text as another one's row. It is evidence of that row.

    `alone`: what it is where that row isn't.
    """

    legacy_ref: str
    of: str
    source_hash: bytes
    related_users: tuple[str, ...]
    alone: ObservationDraft


@dataclass(frozen=True, slots=True)
class ConversationDraft:
    """A session as a conversation of one of its agents. `user_ids`: the participants, by canonical id."""

    agent_id: str
    conversation_id: str
    user_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class MessageDraft:
    """`is_formed`: memory was already formed from it (A26). `user_id` None: nobody wrote it, or an agent did."""

    message_id: str
    role: Role
    speaker: str | None
    user_id: str | None
    content: str
    said_at: datetime
    source_hash: bytes
    trigger: str | None
    is_formed: bool


RowDraft = ObservationDraft | DuplicateDraft


@dataclass(frozen=True, slots=True)
class Refusal:
    """A document that isn't imported, or not as a document of its own.

    `legacy_id` None: its id can't be read, or it was forgotten here. `part` None: its place isn't known any more.
    """

    collection: str
    legacy_id: str | None
    part: str | None
    number: int | None
    offset: int | None
    outcome: Outcome
    reason: str
