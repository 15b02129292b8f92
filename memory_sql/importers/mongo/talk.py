"""The part of a spool that holds sessions and, if they are imported too, their messages."""

from __future__ import annotations

import pickle
import sqlite3
from collections.abc import Iterator
from datetime import UTC, datetime

from memory_sql.importers.mongo.documents import SaidMessage, Session
from memory_sql.importers.mongo.values import UnreadableError


class Talk:
    """`keeps`: sessions and messages are imported too. Otherwise only the existence of sessions is recorded."""

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

    def put_message(self, message: SaidMessage) -> bool:
        """Returns False if it was there already. Raises `UnreadableError` if it has no conversation with an agent."""
        at, body = message.created_at.timestamp(), pickle.dumps(message)
        rows = [(session, at, message.key, body) for session in message.sessions if self._talks(session)]
        if not rows:
            raise UnreadableError("no_session", "session")
        return self._base.executemany("INSERT OR IGNORE INTO messages VALUES (?, ?, ?, ?)", rows).rowcount > 0

    def lacks(self, session: str) -> bool:
        """Whether the session is deleted, or missing although sessions were read."""
        found = self._base.execute("SELECT is_gone FROM sessions WHERE id = ?", (session,)).fetchone()
        return self.knows_sessions if found is None else bool(found[0])

    def _talks(self, session: str) -> bool:
        found = self._base.execute("SELECT 1 FROM talks WHERE session = ? LIMIT 1", (session,)).fetchone()
        return found is not None

    def sessions(self, agent: str) -> Iterator[Session]:
        """The agent's sessions, ordered by id."""
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
        """Time and id of the last message from which memory was formed; None: that message doesn't exist."""
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
        """The number of sessions whose last formed message doesn't exist (A26)."""
        every = (pickle.loads(body) for (body,) in self._base.execute("SELECT body FROM sessions WHERE NOT is_gone"))
        return sum(s.formed is not None and self._place_of(s) is None for s in every)
