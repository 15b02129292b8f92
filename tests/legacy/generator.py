"""A legacy database of any size, the same for the same numbers: people, their memory as it should be, and every anomaly.

Documents are made as they are read: only the one being written is in memory.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from tests.legacy.cases import CASES, DIRECTORY, MIGRATED, Planted
from tests.legacy.homes import Document, Home, at

OLDER_NAMES = {"session_memories": "memory_sessions"}
COLLECTIONS = (
    "users3",
    "sessions",
    "memory_user",
    "memory_agent",
    "memory2_consolidated",
    "session_memories",
    "memory_sessions",
    "memory2_reflections",
    "memory2_facts",
    "messages",
)
EPISODE = ("skipped", "episode")
_PLACES = ("harbour", "theatre", "library", "bakery", "garden", "station", "museum", "market")
_DEEDS = ("Plan", "Describe", "Paint", "Open", "Photograph", "Repair", "Visit", "Measure")
_MINUTES = 400_000


@dataclass(frozen=True)
class Manifest:
    """What stands in a database, by the collections' newer names, and what has to become of it.

    `fates` are the outcomes of the planted documents, by collection and id.
    """

    source: Counter[str] = field(default_factory=Counter)
    anomalies: Counter[str] = field(default_factory=Counter)
    outcomes: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    fates: dict[tuple[str, str], tuple[str, str]] = field(default_factory=dict)


@dataclass(frozen=True)
class Legacy:
    """So many agents, each with so many users, shards and records of each kind; and `copies` of each case.

    Of a user's directives the last `waiting` aren't absorbed; so with the suggestions of a shard. All facts are told.
    `messages`: what was said is there as well.
    """

    seed: int = 1
    agents: int = 0
    users: int = 3
    directives: int = 6
    waiting: int = 2
    shards: int = 2
    facts: int = 5
    suggestions: int = 5
    episodes: int = 4
    copies: int = 1
    cases: tuple[str, ...] = tuple(CASES)
    messages: bool = False

    @classmethod
    def of_records(cls, records: int, seed: int = 1, copies: int = 1) -> Legacy:
        """About so many records, most of them directives, as it was."""
        one = cls(seed, 1, users=20, directives=40, shards=3, facts=40, suggestions=20, episodes=20)
        each = one.users * one.directives + one.shards * (one.facts + one.suggestions) + one.episodes
        return cls(
            seed, max(1, round(records / each)), users=20, directives=40, shards=3, facts=40, suggestions=20, episodes=20,
            copies=copies,
        )  # fmt: skip

    def collections(self) -> Iterator[tuple[str, Iterable[Document]]]:
        for name in self._names():
            yield name, (document for document, _ in self._of(name))

    def manifest(self) -> Manifest:
        found = Manifest()
        for name in self._names():
            newer = OLDER_NAMES.get(name, name)
            for document, fate in self._of(name):
                found.source[newer] += 1
                found.outcomes[newer, *fate] += 1
                if fate not in (MIGRATED, DIRECTORY, EPISODE):
                    found.fates[newer, str(document["_id"])] = fate
        for case in self._cases():
            for code, count in CASES[case].anomalies.items():
                found.anomalies[code] += count * self.copies
        return found

    def _names(self) -> list[str]:
        return [name for name in COLLECTIONS if self.messages or name != "messages"]

    def _cases(self) -> list[str]:
        return [case for case in self.cases if self.messages or not CASES[case].of_messages]

    def _of(self, name: str) -> Iterator[tuple[Document, tuple[str, str]]]:
        for planted in self._planted():
            if planted[0] == name:
                yield planted[1:]
        make = {
            "users3": self._users,
            "sessions": self._sessions,
            "memory_user": self._blobs,
            "memory_agent": self._shards,
            "memory_sessions": self._records,
            "messages": self._messages,
        }.get(name)
        for number in range(self.agents if make else 0):
            home = Home((self.seed, "agent", number))
            for document in make(home) if make else ():
                yield document, self._fate(name, document)

    def _planted(self) -> Iterator[Planted]:
        for copy in range(self.copies):
            for case in self._cases():
                yield from CASES[case].planted(Home((self.seed, case, copy)))

    @staticmethod
    def _fate(name: str, document: Document) -> tuple[str, str]:
        if name in ("users3", "sessions"):
            return DIRECTORY
        return EPISODE if document.get("memory_type") == "episode" else MIGRATED

    # What is as it should be

    def _users(self, home: Home) -> Iterator[Document]:
        yield home.agent_document()
        for user in range(self.users):
            yield home.person(home.key("user", user), f"user {user}")

    def _sessions(self, home: Home) -> Iterator[Document]:
        yield home.session_document()

    def _messages(self, home: Home) -> Iterator[Document]:
        yield home.message()

    def _blobs(self, home: Home) -> Iterator[Document]:
        for user in range(self.users):
            key, absorbed = home.key("user", user), self.directives - self.waiting
            said = " ".join(self._directive(home, user, n) for n in range(absorbed) if n % 2 == 0)
            waiting = [home.key("directive", user, n) for n in range(absorbed, self.directives)]
            text = f"User {user} of agent {home.path[-1]} keeps a calendar of everything. {said}"
            yield home.blob(key, content=text, unabsorbed_memory_ids=waiting)

    def _shards(self, home: Home) -> Iterator[Document]:
        for shard in range(self.shards):
            waiting = range(max(0, self.suggestions - self.waiting), self.suggestions)
            yield home.shard(
                shard,
                shard_name=f"shard {shard}",
                content=f"All that shard {shard} of agent {home.path[-1]} has collected. It is read by everybody.",
                facts=[home.key("fact", shard, n) for n in range(self.facts)],
                unabsorbed_memory_ids=[home.key("suggestion", shard, n) for n in waiting],
                createdAt=at(shard),
            )

    def _records(self, home: Home) -> Iterator[Document]:
        for user in range(self.users):
            for n in range(self.directives):
                yield home.directive(
                    user, n, content=self._directive(home, user, n), createdAt=at(_minute(user, n)),
                    related_users=[home.key("user", user)],
                )  # fmt: skip
        for shard in range(self.shards):
            for kind, count in (("fact", self.facts), ("suggestion", self.suggestions)):
                for n in range(count):
                    text = f"{_PLACES[n % 8].title()} {n} of {kind} {shard} at agent {home.path[-1]} opens at {n % 24}."
                    shard_id, created = home.key("shard", shard), at(_minute(shard, n))
                    yield home.record(kind, shard, n, content=text, shard_id=shard_id, createdAt=created)
        for n in range(self.episodes):
            yield home.record("episode", n, createdAt=at(_minute(0, n)))

    @staticmethod
    def _directive(home: Home, user: int, n: int) -> str:
        return (
            f"{_DEEDS[n % 8]} the {_PLACES[(user + n // 8) % 8]} of agent {home.path[-1]} number {n} for user {user}."
        )


def _minute(*numbers: int) -> int:
    """Some moment or other, always the same."""
    return sum((n + 3) * 7919 * (place + 1) for place, n in enumerate(numbers)) % _MINUTES
