"""The part of a spool that knows sessions and, where they come too, their messages."""

from __future__ import annotations

import pickle
import sqlite3
from collections.abc import Iterator
from datetime import UTC, datetime

from memory_sql.importers.mongo.documents import SaidMessage, Session


class Talk:
    """Of one spool. `keeps`: sessions and messages come out again; else it is only known which sessions there are."""

    def __init__(self, base: sqlite3.Connection, *, keeps: bool) -> None:
        self._base, self._keeps = base, keeps
        self.knows_sessions = False

    def put(self, session: Session) -> bool:
        self.knows_sessions = True
        row = (session.key, session.is_gone, pickle.dumps(session))
        if self._base.execute("INSERT OR IGNORE INTO sessions VALUES (?, ?, ?)", row).rowcount == 0:
            return False
        if self._keeps and not session.is_gone:
            talks = [(agent, session.key) for agent in session.agents]
            self._base.executemany("INSERT OR IGNORE INTO talks VALUES (?, ?)", talks)
        return True

    def put_message(self, message: SaidMessage) -> int:
        """In how many conversations it is; 0: they are all missing or have no agent."""
        at, body = message.created_at.timestamp(), pickle.dumps(message)
        rows = [(session, at, message.key, body) for session in message.sessions if self._talks(session)]
        self._base.executemany("INSERT OR IGNORE INTO messages VALUES (?, ?, ?, ?)", rows)
        return len(rows)

    def lacks(self, session: str) -> bool:
        """The same of a session."""
        found = self._base.execute("SELECT is_gone FROM sessions WHERE id = ?", (session,)).fetchone()
        return self.knows_sessions if found is None else bool(found[0])

    def _talks(self, session: str) -> bool:
        found = self._base.execute("SELECT 1 FROM talks WHERE session = ? LIMIT 1", (session,)).fetchone()
        return found is not None

    def sessions(self, agent: str) -> Iterator[Session]:
        """Its sessions, in the order of their ids."""
        rows = self._base.execute(
            "SELECT body FROM talks JOIN sessions ON id = session WHERE agent = ? ORDER BY id", (agent,)
        )
        for (body,) in rows:
            yield pickle.loads(body)

    def messages(self, session: str) -> Iterator[SaidMessage]:
        """Oldest first."""
        for (body,) in self._base.execute("SELECT body FROM messages WHERE session = ? ORDER BY at, id", (session,)):
            yield pickle.loads(body)

    def formed(self, session: str) -> tuple[datetime, str] | None:
        """When and by which id the last message stands in it that memory was formed of; None: no such message is there."""
        (body,) = self._base.execute("SELECT body FROM sessions WHERE id = ?", (session,)).fetchone()
        return self._place_of(pickle.loads(body))

    def _place_of(self, session: Session) -> tuple[datetime, str] | None:
        if session.formed is None:
            return None
        row = self._base.execute(
            "SELECT at FROM messages WHERE session = ? AND id = ?", (session.key, session.formed)
        ).fetchone()
        return None if row is None else (datetime.fromtimestamp(row[0], UTC), str(session.formed))

    def points_nowhere(self) -> int:
        """Sessions with a last message of which memory was formed, and no such message (A26)."""
        every = (pickle.loads(body) for (body,) in self._base.execute("SELECT body FROM sessions WHERE NOT is_gone"))
        return sum(s.formed is not None and self._place_of(s) is None for s in every)
