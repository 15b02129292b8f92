"""What an import from mem0 would store, by agent and user, read from a spool. Rows are read as they are consumed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from memory_sql.domain.ids import LONGEST_AHEAD
from memory_sql.importers.drafts import (
    AgentDraft,
    ConversationDraft,
    DuplicateDraft,
    GroupDraft,
    MessageDraft,
    ObservationDraft,
    Outcome,
    RowDraft,
    ScopeDraft,
)
from memory_sql.importers.gone import Named
from memory_sql.importers.mem0.reading import Remembered
from memory_sql.importers.mem0.spool import Spool
from memory_sql.importers.names import Names, each_once


@dataclass(frozen=True, slots=True)
class Plan:
    """`now`: the time of the import."""

    spool: Spool
    verification: Literal["unverified", "confirmed"]
    now: datetime
    _users: dict[str, Names] = field(default_factory=dict)
    _conversations: dict[str, Names] = field(default_factory=dict)

    def leave_out(self, refs: Mapping[str, str], outcome: Outcome = "skipped") -> None:
        self.spool.leave_out(refs, outcome)

    def stand_alone(self, refs: Sequence[str]) -> None:
        self.spool.stand_alone(refs)

    def bring(self, refs: Sequence[str]) -> None:
        self.spool.bring(refs)

    def owner_now(self, owner: str) -> str:
        return owner

    def people(self, agent_id: str) -> set[str]:
        """The ids of the users whose memory there is."""
        return set(self.spool.owners(agent_id))

    def named(self, agent_id: str) -> set[Named]:
        """The agent, the users and the conversations, by their ids here."""
        found: set[Named] = {("agent", agent_id)}
        found.update(("user", self._person(agent_id, user)) for user in self.spool.owners(agent_id))
        found.update(("user", user) for user in self.spool.owners(agent_id))
        found.update(("conversation", self._conversation(agent_id, one)) for one in self.sessions(agent_id))
        return found

    def sessions(self, agent_id: str) -> set[str]:
        """The conversations that the agent's memory names, by their ids in the source."""
        return set(self.spool.conversations(agent_id))

    def rename(self, agent_id: str, users: Mapping[str, str], sessions: Mapping[str, str]) -> None:
        """These have other ids here. One that the source itself uses, or another has as well, isn't taken."""
        there = self.sessions(agent_id) if sessions else set()
        self._users[agent_id] = each_once(users, lambda new: not self.spool.knows(agent_id, new))
        self._conversations[agent_id] = each_once(sessions, lambda new: new not in there)

    def _person(self, agent_id: str, user: str) -> str:
        return self._users.get(agent_id, {}).get(user, user)

    def _conversation(self, agent_id: str, conversation: str) -> str:
        return self._conversations.get(agent_id, {}).get(conversation, conversation)

    def agents(self) -> Iterator[AgentDraft]:
        """Ordered by id."""
        for agent in self.spool.agents():
            yield AgentDraft(agent, None, is_active=True)

    def extents(self) -> Mapping[str, int]:
        return {agent: 1 + rows for agent, rows in self.spool.agents().items()}

    def groups(self, agent_id: str) -> Iterator[GroupDraft]:
        return iter(())

    def conversations(self, agent_id: str) -> Iterator[ConversationDraft]:
        return iter(())

    def messages(self, agent_id: str, conversation_id: str) -> Iterator[MessageDraft]:
        return iter(())

    def scopes(self, agent_id: str) -> Iterator[ScopeDraft]:
        """The users' own, ordered by the users' ids in the source."""
        for owner in self.spool.owners(agent_id):
            yield ScopeDraft(
                agent_id, "individual", self._person(agent_id, owner), "", None,
                is_active=True, text=None, parts=(), written_at=None, created_at=None, settings={},
            )  # fmt: skip

    def rows(self, scope: ScopeDraft) -> Iterator[RowDraft]:
        """Oldest first; what another row says as well is evidence of that."""
        here = scope.owner_id or ""
        was = {new: old for old, new in self._users.get(scope.agent_id, {}).items()}
        for one, digest, of in self.spool.rows(scope.agent_id, was.get(here, here)):
            alone = self._observation(one, digest)
            yield alone if of == one.ref else DuplicateDraft(one.ref, of, one.source_hash, (), alone)

    def _observation(self, one: Remembered, digest: bytes | None) -> ObservationDraft:
        at = one.created_at or self.now
        ahead = at > self.now + LONGEST_AHEAD
        return ObservationDraft(
            legacy_ref=one.ref,
            content=one.content,
            observed_at=self.now if ahead else at,
            given_at=at if ahead else None,
            state="pending",
            lane="absorb",
            source_hash=one.source_hash,
            verification=self.verification,
            conversation_id=one.conversation and self._conversation(one.agent, one.conversation),
            metadata=one.metadata,
            digest=digest,
            is_plain=one.is_plain,
        )
