"""Decides the scope and state of a record: C3, C6, C9–C12 and the anomalies that concern it. Pure.

A *holder* is a text that may have absorbed the record: a user's blob, a shard, or an agent's or session's own text.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, Protocol

from memory_sql.config.kinds import Lane
from memory_sql.domain.ids import owner_key
from memory_sql.importers.drafts import State
from memory_sql.importers.mongo.documents import Record, RecordType
from memory_sql.importers.mongo.options import ImportOptions
from memory_sql.importers.mongo.values import Notes, UnreadableError

COLLECTIVE = owner_key("collective")
SHARD = "h:"  # followed by its id: a shard's key in lists
ListKind = Literal["waiting", "facts"]


class SkippedError(Exception):
    """A record that isn't imported. `reason` is one of `anomalies.REASONS`."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Holder:
    """`key`: its name in lists. `owner` and `name`: its scope. `written_at`: when its text last changed."""

    key: str
    owner: str
    name: str = ""
    has_text: bool = False
    written_at: datetime | None = None
    is_active: bool = True


@dataclass(frozen=True, slots=True)
class Placement:
    """A row to be stored in a scope."""

    owner: str
    name: str
    lane: Lane
    state: State


class Directory(Protocol):
    """What other documents say about a record's agent. Users are named by their canonical ids."""

    def blob(self, agent: str, owner: str) -> Holder | None: ...

    def shard(self, agent: str, key: str) -> Holder | None: ...

    def canonical(self, user: str) -> str: ...

    def is_agent(self, user: str) -> bool: ...


Listed = Collection[tuple[str, ListKind]]
"""The holders that list the record, by key, and the kind of list."""


LISTS: Mapping[RecordType, tuple[tuple[str, ListKind], ...]] = {
    "episode": (),
    "directive": (("u:", "waiting"),),
    "suggestion": ((SHARD, "waiting"),),
    "fact": ((SHARD, "facts"),),
    "reflection": (("u:", "waiting"), (COLLECTIVE, "waiting"), ("s:", "waiting")),
    "found": (),
}
"""The lists that may name a record, by its type: the prefix of the holder's key, and the kind of list."""


def route(
    record: Record, listed: Listed, directory: Directory, options: ImportOptions, notes: Notes
) -> list[Placement]:
    """At least one. Raises `UnreadableError` if the record is rejected and `SkippedError` if it is left out."""
    return _ROUTES[record.type](record, listed, directory, options, notes)


def _episode(
    record: Record, listed: Listed, directory: Directory, options: ImportOptions, notes: Notes
) -> list[Placement]:
    """Episodes were never part of a text. A conversation's context held its newest (C6)."""
    if options.episodes == "skip" or record.session is None:
        raise SkippedError("episode")
    return [Placement(owner_key("conversation", record.session), "", "buffer", "pending")]


def _directive(
    record: Record, listed: Listed, directory: Directory, options: ImportOptions, notes: Notes
) -> list[Placement]:
    """Pending where a blob lists it; absorbed in the scope of every other related user who has a blob (A13, C12).

    A related user without a blob gets a scope only if no related user has one. So nothing is lost, and nobody's memory is
    invented.
    """
    waits = [key for key, kind in listed if kind == "waiting" and key.startswith("u:")]
    users = _users(record.users, directory, notes)
    if not users and not waits:
        if "A11" in notes:
            raise UnreadableError("agent_as_user", "related_users")
        notes.add("A14")
        raise UnreadableError("no_user", "related_users")
    owners = list(dict.fromkeys([*(owner_key("individual", user) for user in users), *waits]))
    holders = [directory.blob(record.agent, owner) for owner in owners]
    known = [holder for holder in holders if holder is not None] or [Holder(owner, owner) for owner in owners]
    if len(known) > 1:
        notes.add("A13")
    if not record.users:
        notes.add("A14")
    return [_placed(record, holder, holder.key in waits, options, notes) for holder in known]


def _users(users: Sequence[str], directory: Directory, notes: Notes) -> list[str]:
    """The users who aren't agents, by canonical id."""
    people = [user for user in users if not directory.is_agent(user)]
    if len(people) < len(users):
        notes.add("A11")
    canonical = [directory.canonical(user) for user in people]
    if canonical != people:
        notes.add("A10")
    return list(dict.fromkeys(canonical))


def _suggestion(
    record: Record, listed: Listed, directory: Directory, options: ImportOptions, notes: Notes
) -> list[Placement]:
    holder = _shard(record, listed, directory, notes)
    return [_placed(record, holder, (holder.key, "waiting") in listed, options, notes)]


def _fact(
    record: Record, listed: Listed, directory: Directory, options: ImportOptions, notes: Notes
) -> list[Placement]:
    """Pending while its shard lists it (archived if the shard is inactive); otherwise as `evicted_facts` says (A20)."""
    holder = _shard(record, listed, directory, notes)
    told = (holder.key, "facts") in listed
    if not told:
        notes.add("A20")
    state: State = "pending" if told and holder.is_active else "archived" if told else options.evicted_facts
    return [Placement(holder.owner, holder.name, "buffer", state)]


def _shard(record: Record, listed: Listed, directory: Directory, notes: Notes) -> Holder:
    """Its shard. If it names no existing shard: the one that lists it, or the agent's collective scope (A17)."""
    named = None if record.shard is None else directory.shard(record.agent, record.shard)
    if named is not None:
        return named
    notes.add("A17")
    keys = [key.removeprefix(SHARD) for key, _ in listed if key.startswith(SHARD)]
    found = [holder for key in keys if (holder := directory.shard(record.agent, key)) is not None]
    return found[0] if found else Holder(COLLECTIVE, COLLECTIVE)


def _later(
    record: Record, listed: Listed, directory: Directory, options: ImportOptions, notes: Notes
) -> list[Placement]:
    """A record of the later system. Reflections go into a text; facts never did and are only found by search."""
    owner = _later_owner(record, directory, options, notes)
    if record.type == "found":
        return [Placement(owner, "", "buffer", "archived")]
    holder = directory.blob(record.agent, owner) or Holder(owner, owner)
    waits = (owner, "waiting") in listed or record.absorbed is False
    return [_placed(record, holder, waits, options, notes)]


def _later_owner(record: Record, directory: Directory, options: ImportOptions, notes: Notes) -> str:
    if record.level == "agent":
        return COLLECTIVE
    if record.level == "session":
        if options.episodes == "skip" or record.session is None:
            raise SkippedError("episode")
        return owner_key("conversation", record.session)
    users = _users(record.users, directory, notes)
    if not users:
        raise UnreadableError("agent_as_user" if record.users else "no_user", "user_id")
    return owner_key("individual", users[0])


def _placed(record: Record, holder: Holder, waits: bool, options: ImportOptions, notes: Notes) -> Placement:
    """A row in the lane that goes into a text. It can be absorbed only if there is a text."""
    return Placement(holder.owner, holder.name, "absorb", _state(record, holder, waits, options, notes))


def _state(record: Record, holder: Holder, waits: bool, options: ImportOptions, notes: Notes) -> State:
    if not holder.is_active:
        return "archived"  # A18: records of inactive shards are kept, but neither shown nor consolidated again
    if waits:
        return "pending"
    if not holder.has_text:
        notes.add("absorbed_without_text")
        return options.without_text
    is_younger = holder.written_at is None or record.created_at > holder.written_at
    if is_younger:
        notes.add("A16")
    return "pending" if is_younger and options.requeue_lost else "absorbed"


Route = Callable[[Record, Listed, Directory, ImportOptions, Notes], list[Placement]]
_ROUTES: Mapping[RecordType, Route] = {
    "episode": _episode,
    "directive": _directive,
    "suggestion": _suggestion,
    "fact": _fact,
    "reflection": _later,
    "found": _later,
}
