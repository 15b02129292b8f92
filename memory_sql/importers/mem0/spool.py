"""Keeps what was read of mem0 on disk during an import, ordered by agent and user."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from memory_sql.importers.ledger import Ledger
from memory_sql.importers.mem0.reading import Remembered
from memory_sql.languages.text import content_digest

_SCHEMA, _ORDER = (Path(__file__).with_name(name).read_text("utf-8") for name in ("spool.sql", "spool_order.sql"))


class Spool(Ledger):
    """Call `close` to delete its file."""

    def __init__(self) -> None:
        super().__init__(_SCHEMA)

    def put(self, one: Remembered, now: datetime) -> bool:
        """Returns False if it was there already. `now`: the time of what has none."""
        at, digest = (one.created_at or now).timestamp(), content_digest(one.content)
        row = (one.ref, one.agent, one.owner, at, digest, one.conversation, pickle.dumps((one, digest)))
        return self._base.execute("INSERT OR IGNORE INTO placed VALUES (?, ?, ?, ?, ?, ?, ?)", row).rowcount == 1

    def put_in_order(self) -> None:
        """To be called after the last memory and before anything is read."""
        self._base.execute("COMMIT")
        self._base.executescript(_ORDER)
        self._base.execute("BEGIN")

    def counts(self) -> tuple[int, int]:
        """How many memories have a row of their own, and how many only say again what another says."""
        own, all_rows = self._base.execute("SELECT count(*) FILTER (WHERE ref = of), count(*) FROM rows").fetchone()
        return own, all_rows - own

    def agents(self) -> dict[str, int]:
        """How many rows each has, ordered by id."""
        return dict(self._base.execute("SELECT agent, count(*) FROM rows GROUP BY agent ORDER BY agent").fetchall())

    def owners(self, agent: str) -> list[str]:
        """In order."""
        return self._texts("SELECT DISTINCT owner FROM rows WHERE agent = ? ORDER BY owner", agent)

    def conversations(self, agent: str) -> list[str]:
        of = "SELECT DISTINCT conversation FROM rows WHERE agent = ? AND conversation IS NOT NULL ORDER BY 1"
        return self._texts(of, agent)

    def knows(self, agent: str, owner: str) -> bool:
        of = "SELECT EXISTS (SELECT 1 FROM rows WHERE agent = ? AND owner = ?)"
        return bool(self._base.execute(of, (agent, owner)).fetchone()[0])

    def rows(self, agent: str, owner: str) -> Iterator[tuple[Remembered, bytes | None, str]]:
        """Each memory, the digest of its text, and the reference whose row it is; oldest first."""
        cursor = self._base.execute(
            "SELECT body, of FROM rows WHERE agent = ? AND owner = ? ORDER BY rowid", (agent, owner)
        )
        for body, of in cursor:
            yield (*pickle.loads(body), of)

    def _texts(self, statement: str, *given: Any) -> list[str]:
        return [text for (text,) in self._base.execute(statement, given).fetchall()]
