"""What an import would store, by agent and scope, read from a spool that `survey` has filled.

Rows come in the order in which they must be stored: first those that the scope's text holds (records, then the sentences
that no record says), then archived ones, pending ones and the buffer, each by age. Rows are read as they are consumed, so
a scope may have any number of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, cast

from memory_sql.config.kinds import Lane
from memory_sql.domain.ids import LONGEST_AHEAD, OWNER_PREFIX, ScopeKind
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
    State,
)
from memory_sql.importers.gone import Named
from memory_sql.importers.mongo.documents import SaidMessage
from memory_sql.importers.mongo.options import ImportOptions
from memory_sql.importers.mongo.packing import Kept
from memory_sql.importers.mongo.routing import COLLECTIVE
from memory_sql.importers.mongo.said import Said, said_by
from memory_sql.importers.mongo.scoping import collective, displayed, from_blobs, limited_buffer, named
from memory_sql.importers.mongo.shards import names_of_shards
from memory_sql.importers.mongo.spool import Spool
from memory_sql.importers.names import Names, each_once
from memory_sql.languages.text import count_words

_USER = OWNER_PREFIX["individual"]
ITEM_WORDS: Mapping[str, int] = {  # R012; the last two are the later system's
    "directive": 25,
    "suggestion": 35,
    "fact": 30,
    "episode": 50,
    "reflection": 35,
    "found": 30,
}


@dataclass(frozen=True, slots=True)
class Plan:
    """`now`: the time of the import."""

    spool: Spool
    options: ImportOptions
    now: datetime
    _users: dict[str, Names] = field(default_factory=dict)
    _sessions: dict[str, Names] = field(default_factory=dict)

    def leave_out(self, refs: Mapping[str, str], outcome: Outcome = "skipped") -> None:
        """Records for the accounts which documents aren't imported, and why."""
        self.spool.leave_out(refs, outcome)

    def stand_alone(self, refs: Sequence[str]) -> None:
        """Records for the accounts that documents are imported by themselves, and aren't merged into others."""
        self.spool.stand_alone(refs)

    def bring(self, refs: Sequence[str]) -> None:
        """Records for the accounts that documents are imported, even if they are left out elsewhere."""
        self.spool.bring(refs)

    def owner_now(self, owner: str) -> str:
        """The owner, or the one to whom the source has linked them since."""
        prefix = OWNER_PREFIX["individual"]
        return prefix + self.spool.canonical(owner[len(prefix) :]) if owner.startswith(prefix) else owner

    def people(self, agent_id: str) -> set[str]:
        """The ids of the users whom the agent's memory names."""
        found = {owner[len(_USER) :] for owner, _ in self.spool.scopes(agent_id) if owner.startswith(_USER)}
        for owner, name in self.spool.scopes(agent_id):
            for record, *_ in self.spool.rows(agent_id, owner, name):
                found.update(self._people(agent_id, record))
        for talk in self.conversations(agent_id):
            said = self.messages(agent_id, talk.conversation_id)
            found.update(talk.user_ids, (message.user_id for message in said if message.user_id is not None))
        return found

    def named(self, agent_id: str) -> set[Named]:
        """The users, conversations and groups that the agent's memory names, by their ids here."""
        found: set[Named] = {("agent", agent_id)}
        found.update(("user", user) for user in self.people(agent_id))
        for owner, _ in self.spool.scopes(agent_id):
            if owner.startswith(_USER):
                found.add(("user", self._person(agent_id, owner[len(_USER) :])))
        found.update(("conversation", self._session(agent_id, session)) for session in self.sessions(agent_id))
        found.update(("group", group.group_id) for group in self.groups(agent_id))
        return found

    def sessions(self, agent_id: str) -> set[str]:
        """The conversations that the agent's memory names, by their ids in the source."""
        found = {str(session.key) for session in self.spool.talk.sessions(agent_id)}
        for owner, name in self.spool.scopes(agent_id):
            records = (record for record, *_ in self.spool.rows(agent_id, owner, name))
            found.update(record.session for record in records if record.session is not None)
        return found

    def rename(self, agent_id: str, users: Names, sessions: Names) -> None:
        """These have other ids here. One that the source itself uses, or another has as well, isn't taken."""
        there = self.sessions(agent_id) if sessions else set()
        self._users[agent_id] = each_once(users, lambda new: not self.spool.knows(agent_id, _USER + new))
        self._sessions[agent_id] = each_once(sessions, lambda new: new not in there)

    def _person(self, agent_id: str, user: str) -> str:
        """The user's id here."""
        user = self.spool.canonical(user)
        return self._users.get(agent_id, {}).get(user, user)

    def _session(self, agent_id: str, session: str) -> str:
        """The conversation's id here."""
        return self._sessions.get(agent_id, {}).get(session, session)

    def _in_source(self, scope: ScopeDraft) -> tuple[str, str, str]:
        """The scope's place in the spool."""
        was = {_USER + new: _USER + old for old, new in self._users.get(scope.agent_id, {}).items()}
        return scope.agent_id, was.get(scope.owner, scope.owner), scope.name

    def agents(self) -> Iterator[AgentDraft]:
        """Ordered by id."""
        for agent in self.spool.agents():
            found = self.spool.user(agent)
            yield AgentDraft(agent, displayed(found[3] if found else None), not self.spool.is_gone(agent))

    def extents(self) -> Mapping[str, int]:
        """Roughly how much there is to store, by agent."""
        rows = self.spool.row_counts()
        return {agent: 1 + rows.get(agent, 0) for agent in self.spool.agents()}

    def groups(self, agent_id: str) -> Iterator[GroupDraft]:
        """The groups of the mapping whose users have memory with the agent; without a mapping one group of all such users."""
        if self.options.groups is None:
            return
        users = [
            self._person(agent_id, owner[len(_USER) :])
            for owner, _ in self.spool.scopes(agent_id)
            if owner.startswith(_USER)
        ]
        if isinstance(self.options.groups, str):
            if users:
                yield GroupDraft(agent_id, self.options.groups, tuple(users))
            return
        for group_id, wanted in self.options.groups.items():
            members = {self._person(agent_id, user.lower()) for user in wanted}.intersection(users)
            if members:
                yield GroupDraft(agent_id, group_id, tuple(sorted(members)))

    def conversations(self, agent_id: str) -> Iterator[ConversationDraft]:
        """The agent's sessions, if messages are imported too."""
        for session in self.spool.talk.sessions(agent_id):
            users = [self._person(agent_id, user) for user in session.users if not self.spool.is_agent(user)]
            here = self._session(agent_id, str(session.key))
            yield ConversationDraft(agent_id, here, tuple(dict.fromkeys(map(str, users))))

    def messages(self, agent_id: str, conversation_id: str) -> Iterator[MessageDraft]:
        """Oldest first. If it isn't known how far memory was formed, no message counts as formed (A26)."""
        was = {new: old for old, new in self._sessions.get(agent_id, {}).items()}
        session = was.get(conversation_id, conversation_id)
        last = self.spool.talk.formed(session)
        for message in self.spool.talk.messages(session):
            is_formed = last is not None and (message.created_at, str(message.key)) <= last
            yield self._message(agent_id, message, is_formed)

    def _message(self, agent_id: str, message: SaidMessage, is_formed: bool) -> MessageDraft:
        by_person = message.sender is not None and not self.spool.is_agent(message.sender)
        ahead = message.created_at > self.now + LONGEST_AHEAD
        return MessageDraft(
            message_id=str(message.key),
            role=message.role,
            speaker=displayed(message.name),
            user_id=str(self._person(agent_id, str(message.sender))) if by_person else None,
            content=message.content,
            said_at=self.now if ahead else message.created_at,
            source_hash=message.source_hash,
            trigger=None if message.trigger is None else str(message.trigger),
            is_formed=is_formed,
        )

    def scopes(self, agent_id: str) -> Iterator[ScopeDraft]:
        """Ordered by owner and name. An agent with shards always has a collective scope."""
        shards = self.spool.shards(agent_id)
        names = names_of_shards(shards)
        by_name = {names[shard.key]: shard for shard in shards} if self.options.keep_shards == "named" else {}
        keys = {*self.spool.scopes(agent_id), *((COLLECTIVE, name) for name in by_name)}
        if shards and not by_name:
            keys.add((COLLECTIVE, ""))
        for owner, name in sorted(keys):
            told = self.spool.told(agent_id, owner, name)
            if name:
                draft = named(agent_id, name, by_name[name])
            elif owner == COLLECTIVE:
                blobs = self.spool.blobs(agent_id, owner)
                draft = collective(agent_id, blobs, [] if by_name else shards, names)
            else:
                draft = from_blobs(agent_id, *_kind(owner), self.spool.blobs(agent_id, owner))
            yield self._of_person(limited_buffer(draft, told))

    def _of_person(self, draft: ScopeDraft) -> ScopeDraft:
        """Adds the user's name, and id here. The scope is inactive if its user (A11) or agent (A12) is gone."""
        is_active = draft.is_active and not self.spool.is_gone(draft.agent_id)
        if draft.kind != "individual" or draft.owner_id is None:
            return replace(draft, is_active=is_active)
        user = self.spool.user(draft.owner_id)
        is_active = is_active and not self.spool.is_gone(draft.owner_id)
        name, here = displayed(user[3] if user else None), self._person(draft.agent_id, draft.owner_id)
        return replace(draft, owner_id=here, is_active=is_active, display_name=name)

    def rows(self, scope: ScopeDraft) -> Iterator[RowDraft]:
        """Rows for observations of the scope, and for evidence of observations that come earlier or later."""
        said, place = said_by(scope), self._in_source(scope)
        most = scope.settings.get("buffer_max", 0)
        excess = max(0, (self.spool.told(*place) or 0) - most)
        is_begun = False
        for record, lane, state, of, notes in self.spool.rows(*place):
            if state != "absorbed" and not is_begun:
                yield from (self._sentence(item) for item in said.left())
                is_begun = True
            if of != record.ref:
                alone = self._observation(scope.agent_id, record, lane, state, notes, said)
                yield DuplicateDraft(record.ref, of, record.source_hash, alone.related_users, alone)
                continue
            if lane == "buffer" and state == "pending" and excess:
                state, excess = "archived", excess - 1
            yield self._observation(scope.agent_id, record, lane, state, notes, said)
        if not is_begun:
            yield from (self._sentence(item) for item in said.left())

    def _observation(
        self, agent_id: str, record: Kept, lane: Lane, state: State, notes: str, said: Said
    ) -> ObservationDraft:
        also = said.taken(record.digest) if state == "absorbed" else ()
        ahead = record.created_at > self.now + LONGEST_AHEAD
        return ObservationDraft(
            legacy_ref=record.ref,
            content=record.content,
            observed_at=self.now if ahead else record.created_at,
            given_at=record.created_at if ahead else None,
            state=state,
            lane=lane,
            source_hash=record.source_hash,
            digest=record.digest,
            is_plain=record.is_plain,
            verification="confirmed" if self.options.trusted else "unverified",
            related_users=self._people(agent_id, record),
            conversation_id=None if record.session is None else self._session(agent_id, record.session),
            message_ids=record.messages,
            metadata={"legacy": _legacy(record, notes)},
            also=also,
        )

    def _sentence(self, draft: ObservationDraft) -> ObservationDraft:
        ahead = draft.observed_at > self.now + LONGEST_AHEAD
        return draft._replace(
            observed_at=self.now if ahead else draft.observed_at,
            given_at=draft.observed_at if ahead else None,
            verification="confirmed" if self.options.trusted else "unverified",
        )

    def _people(self, agent_id: str, record: Kept) -> tuple[str, ...]:
        """The users that it names, by their ids here and without agents."""
        people = [self._person(agent_id, user) for user in record.users if not self.spool.is_agent(user)]
        return tuple(dict.fromkeys(people))


def _kind(owner: str) -> tuple[ScopeKind, str | None]:
    kinds: dict[str, ScopeKind] = {prefix: cast("ScopeKind", kind) for kind, prefix in OWNER_PREFIX.items()}
    return kinds[owner[:2]], owner[2:]


def _legacy(record: Kept, notes: str) -> dict[str, Any]:
    """What else the old system knew about it."""
    collection, _, key = record.ref.partition(":")
    found: dict[str, Any] = {"collection": collection, "id": key, "memory_type": record.type}
    if record.shard is not None:
        found["shard_id"] = record.shard
    if record.updated_at is not None:
        found["updated_at"] = record.updated_at
    if "A17" in notes.split():
        found["orphan_shard"] = True
    if count_words(record.content) > ITEM_WORDS[record.type]:
        found["over_limit"] = True
    return found
