"""What an import keeps on disk while it runs, and what became of each document that is no row of its own.

It is an unnamed SQLite database in an unnamed temporary file, so nothing is left behind however the process ends.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from memory_sql.errors import ConfigurationError
from memory_sql.importers.drafts import Outcome, Refusal

CACHE_KIB = 16_384
_SCHEMA = """
CREATE TABLE refusals (collection TEXT, id TEXT, part TEXT, number INT, offset INT, outcome TEXT, reason TEXT);
CREATE TABLE left_out (collection TEXT, id TEXT, outcome TEXT, reason TEXT, PRIMARY KEY (collection, id));
CREATE TABLE brought (ref TEXT PRIMARY KEY) WITHOUT ROWID;
"""


class Ledger:
    """Call `close` to delete its file. `schema`: the tables that a store's own spool adds.

    `alone`: by collection, documents that got a row of their own after all.
    """

    def __init__(self, schema: str) -> None:
        self._base = sqlite3.connect("", isolation_level=None)
        self._base.executescript(f"PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; PRAGMA cache_size=-{CACHE_KIB};")
        self._base.executescript(_SCHEMA + schema)
        self._base.execute("BEGIN")
        self.alone = Counter[str]()

    def close(self) -> None:
        self._base.close()

    def put_refusal(self, refusal: Refusal) -> None:
        r = refusal
        row = (r.collection, r.legacy_id, r.part, r.number, r.offset, r.outcome, r.reason)
        self._base.execute("INSERT INTO refusals VALUES (?, ?, ?, ?, ?, ?, ?)", row)

    def refusals(self) -> Iterator[Refusal]:
        """First in reading order, then what was merged or left out."""
        for row in self._base.execute("SELECT * FROM refusals ORDER BY rowid"):
            yield Refusal(*row)
        rows = self._base.execute(
            "SELECT collection, iif(reason = 'forgotten', NULL, id), NULL, NULL, NULL, outcome, reason "
            "FROM left_out ORDER BY rowid"
        )
        for row in rows:
            yield Refusal(*row)

    def leave_out(self, refs: Mapping[str, str], outcome: Outcome = "skipped") -> None:
        """Records documents that aren't imported, and why. Of several reasons `forgotten` takes precedence."""
        self._base.executemany(
            "INSERT INTO left_out SELECT ?1, ?2, ?3, ?4 WHERE NOT EXISTS (SELECT 1 FROM brought WHERE ref = ?5) "
            "ON CONFLICT DO UPDATE SET reason = excluded.reason WHERE excluded.reason = 'forgotten'",
            [(*_parts(ref), outcome, reason, ref) for ref, reason in refs.items()],
        )

    def bring(self, refs: Sequence[str]) -> None:
        """Records documents that are imported, to some conversation. This overrides any reason to leave them out."""
        self._base.executemany("INSERT OR IGNORE INTO brought VALUES (?)", [(ref,) for ref in refs])
        self._base.executemany("DELETE FROM left_out WHERE collection = ? AND id = ?", [_parts(ref) for ref in refs])

    def stand_alone(self, refs: Sequence[str]) -> None:
        """Takes back that documents have no row of their own."""
        for collection, key in map(_parts, refs):
            gone = "DELETE FROM refusals WHERE collection = ? AND id = ? AND reason = 'duplicate_text'"
            self.alone[collection] += self._base.execute(gone, (collection, key)).rowcount

    def left_out(self) -> Iterator[tuple[str, Outcome, str, int]]:
        """By collection, outcome and reason: how many."""
        yield from self._base.execute("SELECT collection, outcome, reason, count(*) FROM left_out GROUP BY 1, 2, 3")


@contextmanager
def room() -> Iterator[None]:
    """Raises `ConfigurationError` if there is no room for the spool's file."""
    try:
        yield
    except sqlite3.OperationalError as error:
        raise ConfigurationError(
            "no room for the temporary file of an import, which grows as large as the legacy memory: "
            "set SQLITE_TMPDIR or TMPDIR to another folder"
        ) from error


def _parts(ref: str) -> tuple[str, str]:
    collection, _, key = ref.partition(":")
    return collection, key
