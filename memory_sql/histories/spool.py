"""Keeps conversations on disk while a file is read, so that any amount is read in little memory and stored when all is known.

It is an unnamed SQLite database in an unnamed temporary file, so nothing is left behind however the process ends.
"""

from __future__ import annotations

import hashlib
import json
import pickle
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

from memory_sql.domain.messages import Message
from memory_sql.errors import ConfigurationError

CACHE_KIB = 8_192
_FIELDS = ("role", "content", "id", "name", "user_id", "created_at", "trigger", "cleaned")
_SCHEMA = """
    CREATE TABLE talks (
        key INTEGER PRIMARY KEY, file INTEGER, conversation TEXT, owner TEXT, zone TEXT, belongs TEXT, outcome TEXT,
        trigger TEXT, fresh INTEGER NOT NULL DEFAULT 0, UNIQUE (file, conversation));
    CREATE TABLE said (
        key INTEGER PRIMARY KEY, talk INTEGER, rank TEXT, id TEXT, place TEXT, role TEXT, speaker TEXT, at TEXT, body BLOB);
    CREATE TABLE marks (talk INTEGER, digest BLOB, times INTEGER, PRIMARY KEY (talk, digest)) WITHOUT ROWID;
    CREATE TABLE notes (file INTEGER, kind TEXT, said TEXT);
"""


class Stretch(NamedTuple):
    """Messages of a conversation, in its order. `places`: those of messages without an id, by position."""

    conversation_id: str
    user_id: str
    group_ids: tuple[str, ...]
    messages: tuple[Message, ...]
    time_zone: str | None
    places: dict[int, str]


class Outcome(NamedTuple):
    """What becomes of a conversation. `trigger`: why it is due. `fresh`: something new was stored in it."""

    conversation_id: str
    formation: str
    trigger: str | None
    fresh: bool


@dataclass(slots=True)
class _Talk:
    key: int
    conversation_id: str
    owner: str | None
    zone: str | None
    groups: dict[str, None] = field(default_factory=dict)


class Spool:
    """Holds what files contain until it is closed."""

    def __init__(self) -> None:
        self._base = sqlite3.connect("", isolation_level=None)
        self._base.executescript(f"PRAGMA journal_mode=MEMORY; PRAGMA synchronous=OFF; PRAGMA cache_size=-{CACHE_KIB};")
        self._base.executescript(_SCHEMA)
        self._files = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._base.close()

    def file(self, name: str, zone: str | None) -> File:
        """`zone`: of conversations that name none."""
        self._files += 1
        return File(name, self._base, self._files, zone)


class File:
    """The conversations of one file, in the order of their first appearance."""

    def __init__(self, name: str, base: sqlite3.Connection, key: int, zone: str | None) -> None:
        self.name = name
        self._base, self._key, self._zone = base, key, zone
        self._talk: _Talk | None = None

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Around all that is put in. Raises `ConfigurationError` if there is no room for it."""
        try:
            self._base.execute("BEGIN")
            yield
            self._keep()
            self._base.execute("COMMIT")
            self._base.execute("CREATE INDEX IF NOT EXISTS in_order ON said (talk, rank, key)")
        except sqlite3.OperationalError as error:
            raise ConfigurationError(
                "no room for the temporary file in which conversations wait to be stored: "
                "set SQLITE_TMPDIR or TMPDIR to another folder"
            ) from error

    @contextmanager
    def whole(self) -> Iterator[None]:
        """What is put in meanwhile stays if no error is raised."""
        self._keep()
        self._base.execute("SAVEPOINT document")
        try:
            yield
        except BaseException:
            self._talk = None
            self._base.execute("ROLLBACK TO document")
            raise
        finally:
            self._keep()
            self._base.execute("RELEASE document")

    def put(
        self,
        conversation_id: str,
        message: Message,
        *,
        user: str | None,
        groups: Iterable[str],
        zone: str | None,
        place: str,
        mark: str = "",
        order: str = "",
    ) -> None:
        """`place`: what the message is known by, if it has no id and no `mark`."""
        talk = self._of(conversation_id)
        talk.owner = talk.owner or user
        talk.zone = zone or talk.zone
        talk.groups.update(dict.fromkeys(groups))
        known = None
        if message.id is None:
            known = self._unique(talk.key, mark, message) if mark else place
        at = message.created_at.isoformat() if message.created_at else None
        body = pickle.dumps(tuple(getattr(message, name) for name in _FIELDS))
        row = (talk.key, order, message.id, known, message.role, message.user_id, at, body)
        self._base.execute(
            "INSERT INTO said (talk, rank, id, place, role, speaker, at, body) VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row
        )

    def has_owner(self, conversation_id: str) -> bool:
        return self._of(conversation_id).owner is not None

    def nobodys(self) -> str | None:
        """A conversation whose user isn't known."""
        found = self._base.execute("SELECT conversation FROM talks WHERE file = ? AND owner IS NULL", (self._key,))
        return next((conversation for (conversation,) in found), None)

    def note(self, kind: str, said: Iterable[str]) -> None:
        self._base.executemany("INSERT INTO notes VALUES (?, ?, ?)", [(self._key, kind, one) for one in said])

    def notes(self, kind: str) -> list[str]:
        found = self._base.execute(
            "SELECT said FROM notes WHERE file = ? AND kind = ? ORDER BY rowid", (self._key, kind)
        )
        return [said for (said,) in found]

    def stretches(self, most: int, characters: int) -> Iterator[Stretch]:
        """The conversations, each in stretches of at most so many messages, or one more than so many characters."""
        for key, conversation, owner, zone, belongs in self._talks("conversation, owner, zone, belongs"):
            held, size, zone = list[tuple[Any, ...]](), 0, zone or self._zone
            common = conversation, owner, tuple(json.loads(belongs))
            for row in self._base.execute("SELECT body, place FROM said WHERE talk = ? ORDER BY rank, key", (key,)):
                held.append(row)
                size += len(row[0])
                if len(held) == most or size > characters:
                    yield _stretch(common, zone, held)
                    held, size = [], 0
            if held:
                yield _stretch(common, zone, held)

    def outcome(self, conversation_id: str, formation: str, trigger: str | None = None, *, fresh: bool = False) -> None:
        self._base.execute(
            "UPDATE talks SET outcome = ?, trigger = coalesce(?, trigger), fresh = fresh OR ? "
            "WHERE file = ? AND conversation = ?",
            (formation, trigger, fresh, self._key, conversation_id),
        )

    def outcomes(self) -> Iterator[Outcome]:
        """Of each conversation that was stored."""
        for _, conversation, outcome, trigger, fresh in self._talks("conversation, outcome, trigger, fresh"):
            if outcome is not None:
                yield Outcome(conversation, outcome, trigger, bool(fresh))

    def conversations(self) -> int:
        return self._count("SELECT count(*) FROM talks WHERE file = ?")

    def messages(self) -> int:
        return self._count("SELECT count(*) FROM said JOIN talks ON talk = talks.key WHERE file = ?")

    def distinct(self) -> int:
        """How many messages there are, where one that stands twice counts once."""
        return self._count(
            "SELECT count(*) FROM (SELECT DISTINCT talk, coalesce(id, place), id IS NULL FROM said "
            "JOIN talks ON talk = talks.key WHERE file = ?)"
        )

    def people(self) -> list[str]:
        """Who speaks, in order."""
        found = self._base.execute(
            "SELECT DISTINCT coalesce(speaker, owner) FROM said JOIN talks ON talk = talks.key "
            "WHERE file = ? AND role = 'user' ORDER BY 1",
            (self._key,),
        )
        return [one for (one,) in found]

    def groups(self) -> list[str]:
        return sorted({group for _, belongs in self._talks("belongs") for group in json.loads(belongs)})

    def period(self) -> tuple[str | None, str | None]:
        found: tuple[str | None, str | None] = self._base.execute(
            "SELECT min(at), max(at) FROM said JOIN talks ON talk = talks.key WHERE file = ?", (self._key,)
        ).fetchone()
        return found

    def _talks(self, columns: str) -> Iterator[tuple[Any, ...]]:
        """One after another: they may be changed meanwhile."""
        after = 0
        # +file: not by the index on it, which would sort all conversations to find each
        statement = f"SELECT key, {columns} FROM talks WHERE +file = ? AND key > ? ORDER BY key LIMIT 1"  # noqa: S608
        while (found := self._base.execute(statement, (self._key, after)).fetchone()) is not None:
            yield found
            after = found[0]

    def _of(self, conversation_id: str) -> _Talk:
        if self._talk is not None and self._talk.conversation_id == conversation_id:
            return self._talk
        self._keep()
        self._base.execute(
            "INSERT INTO talks (file, conversation, belongs) VALUES (?, ?, '[]') ON CONFLICT DO NOTHING",
            (self._key, conversation_id),
        )
        key, owner, zone, belongs = self._base.execute(
            "SELECT key, owner, zone, belongs FROM talks WHERE file = ? AND conversation = ?",
            (self._key, conversation_id),
        ).fetchone()
        self._talk = _Talk(key, conversation_id, owner, zone, dict.fromkeys(json.loads(belongs)))
        return self._talk

    def _keep(self) -> None:
        if (talk := self._talk) is not None:
            row = (talk.owner, talk.zone, json.dumps([*talk.groups]), talk.key)
            self._base.execute("UPDATE talks SET owner = ?, zone = ?, belongs = ? WHERE key = ?", row)
            self._talk = None

    def _unique(self, talk: int, mark: str, message: Message) -> str:
        """The mark, counted where the same person has said the same under it before."""
        said = "\0".join((mark, message.role, message.name or "", message.content)).encode()
        digest = hashlib.blake2b(said, digest_size=16).digest()
        (times,) = self._base.execute(
            "INSERT INTO marks VALUES (?, ?, 1) ON CONFLICT DO UPDATE SET times = times + 1 RETURNING times",
            (talk, digest),
        ).fetchone()
        return mark if times == 1 else f"{mark}#{times}"

    def _count(self, statement: str) -> int:
        return int(self._base.execute(statement, (self._key,)).fetchone()[0])


def _stretch(common: tuple[str, str, tuple[str, ...]], zone: str | None, rows: list[tuple[Any, ...]]) -> Stretch:
    messages = tuple(Message.model_construct(**dict(zip(_FIELDS, pickle.loads(body), strict=True))) for body, _ in rows)
    return Stretch(*common, messages, zone, {at: place for at, (_, place) in enumerate(rows) if place is not None})
