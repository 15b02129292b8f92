"""Keeps legacy memory on disk during an import, ordered by agent and scope, so that any amount is imported in little memory.

It is an unnamed SQLite database in an unnamed temporary file, so nothing is left behind however the process ends. It
holds what is needed to interpret documents (who a user is, which texts there are, which lists name a record) and the
resulting rows.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

from memory_sql.config.kinds import Lane
from memory_sql.domain.ids import owner_key
from memory_sql.importers.drafts import State
from memory_sql.importers.ledger import Ledger
from memory_sql.importers.mongo.documents import Blob, Record, Shard, User
from memory_sql.importers.mongo.options import ImportOptions
from memory_sql.importers.mongo.packing import Kept, packed, unpacked
from memory_sql.importers.mongo.routing import COLLECTIVE, LISTS, SHARD, Holder, Listed, ListKind, Placement
from memory_sql.importers.mongo.shards import names_of_shards
from memory_sql.importers.mongo.talk import Talk

_REMEMBERED = 20_000  # cached answers about users and blobs
_AGENTS = 200  # agents whose shards are cached
# The order of a scope's rows. Rows of the same rank are ordered by age.
_RANKS: dict[tuple[str, State], int] = {
    ("absorb", "absorbed"): 0,
    ("absorb", "archived"): 1,
    ("absorb", "pending"): 2,
    ("buffer", "evicted"): 3,
    ("buffer", "archived"): 4,
    ("buffer", "pending"): 5,
}
_SCHEMA, _ORDER = (Path(__file__).with_name(name).read_text("utf-8") for name in ("spool.sql", "spool_order.sql"))


class Spool(Ledger):
    """Call `close` to delete its file. All documents of a kind are put in before the documents that refer to them."""

    def __init__(self, options: ImportOptions) -> None:
        self._options = options
        super().__init__(_SCHEMA)
        self.user = lru_cache(_REMEMBERED)(self._user)
        self.blob = lru_cache(_REMEMBERED)(self._blob)
        self._shards = lru_cache(_AGENTS)(self._holders_of_shards)
        self.knows_users = False
        self.talk = Talk(self._base, keeps=options.messages)

    # Writing

    def put_user(self, user: User) -> bool:
        self.knows_users = True
        row = (user.key, user.canonical, user.is_agent, user.is_gone, user.name)
        return self._new("INSERT OR IGNORE INTO users VALUES (?, ?, ?, ?, ?)", row)

    def put_blob(self, blob: Blob, owner: str) -> bool:
        """Returns False if it was there already."""
        row = (blob.agent, owner, blob.moment.timestamp(), blob.ref, blob.text is not None, pickle.dumps(blob))
        if not self._new("INSERT OR IGNORE INTO blobs VALUES (?, ?, ?, ?, ?, ?)", row):
            return False
        self._list(blob.agent, owner, "waiting", blob.waiting)
        return True

    def put_shard(self, shard: Shard) -> bool:
        row = (shard.agent, shard.created_at.timestamp(), shard.key, pickle.dumps(shard))
        if not self._new("INSERT OR IGNORE INTO shards VALUES (?, ?, ?, ?)", row):
            return False
        self._list(shard.agent, f"{SHARD}{shard.key}", "waiting", shard.waiting)
        self._list(shard.agent, f"{SHARD}{shard.key}", "facts", shard.facts)
        return True

    def put_seen(self, ref: str) -> bool:
        """Returns False if the record was there already."""
        return self._new("INSERT OR IGNORE INTO seen VALUES (?)", (ref,))

    def put_rows(
        self, record: Record, placements: Iterable[Placement], digest: bytes | None, notes: Iterable[str]
    ) -> None:
        body, said = packed(record, digest), " ".join(sorted(notes))
        at, collection = record.created_at.timestamp(), record.ref.partition(":")[0]
        self._base.executemany(
            "INSERT INTO placed VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            [
                (record.agent, p.owner, p.name, _RANKS[p.lane, p.state], at, record.ref, p.lane, p.state, digest,
                 collection, said, body)
                for p in placements
            ],
        )  # fmt: skip

    def _list(self, agent: str, holder: str, kind: ListKind, records: Iterable[str]) -> None:
        rows = [(record, agent, holder, kind) for record in records]
        self._base.executemany("INSERT OR IGNORE INTO listed VALUES (?, ?, ?, ?, 0)", rows)

    def _new(self, statement: str, row: tuple[Any, ...]) -> bool:
        return self._base.execute(statement, row).rowcount == 1

    # Queries of routing

    def listed(self, record: Record) -> Listed:
        """The holders that name the record in a list for its type. Marks these entries as found."""
        rows = self._base.execute(
            "SELECT holder, kind FROM listed WHERE record = ? AND agent = ?", (record.key, record.agent)
        ).fetchall()
        found = [row for row in rows if any(row[0].startswith(b) and row[1] == kind for b, kind in LISTS[record.type])]
        self._base.executemany(
            "UPDATE listed SET is_found = 1 WHERE record = ? AND agent = ? AND holder = ? AND kind = ?",
            [(record.key, record.agent, *row) for row in found],
        )
        return found

    def _user(self, key: str) -> tuple[str, bool, bool, str | None] | None:
        """Canonical id, whether it is an agent, whether it is gone, name."""
        found = self._base.execute(
            "SELECT canonical, is_agent, is_gone, name FROM users WHERE id = ?", (key,)
        ).fetchone()
        return None if found is None else (found[0], bool(found[1]), bool(found[2]), found[3])

    def _blob(self, agent: str, owner: str) -> Holder | None:
        count, has_text, written = self._base.execute(
            "SELECT count(*), max(has_text), max(written) FROM blobs WHERE agent = ? AND owner = ?", (agent, owner)
        ).fetchone()
        return Holder(owner, owner, "", bool(has_text), _moment(written)) if count else None

    def shard(self, agent: str, key: str) -> Holder | None:
        return self._shards(agent).get(key)

    def _holders_of_shards(self, agent: str) -> dict[str, Holder]:
        shards = self.shards(agent)
        names = names_of_shards(shards)
        is_named = self._options.keep_shards == "named"
        return {
            s.key: Holder(
                f"{SHARD}{s.key}",
                COLLECTIVE,
                names[s.key] if is_named else "",
                s.text is not None,
                s.moment,
                s.is_active,
            )
            for s in shards
        }

    def canonical(self, user: str) -> str:
        found = self.user(user)
        return user if found is None else found[0]

    def is_agent(self, user: str) -> bool:
        found = self.user(user)
        return found is not None and found[1]

    def is_gone(self, user: str) -> bool:
        """Whether the user is deleted, or missing although there is a directory."""
        found = self.user(user)
        return self.knows_users if found is None else found[2]

    # Reading

    def shards(self, agent: str) -> list[Shard]:
        """Oldest first."""
        rows = self._base.execute("SELECT body FROM shards WHERE agent = ? ORDER BY created, id", (agent,))
        return [pickle.loads(body) for (body,) in rows]

    def blobs(self, agent: str, owner: str) -> list[Blob]:
        """Newest first."""
        rows = self._base.execute(
            "SELECT body FROM blobs WHERE agent = ? AND owner = ? ORDER BY written DESC, ref DESC", (agent, owner)
        )
        return [pickle.loads(body) for (body,) in rows]

    def put_in_order(self) -> None:
        """To be called after the last record and before anything is read."""
        self._base.execute("COMMIT")
        self._base.executescript(_ORDER)
        self._base.execute("BEGIN")

    def told(self, agent: str, owner: str, name: str) -> int | None:
        """The number of buffer rows in the context; None: the scope has no buffer rows."""
        row = self._base.execute(
            "SELECT count(*), sum(state = 'pending' AND ref = of) FROM rows "
            "WHERE agent = ? AND owner = ? AND name = ? AND lane = 'buffer'",
            (agent, owner, name),
        ).fetchone()
        return int(row[1]) if row[0] else None

    def second_blobs(self) -> Iterator[tuple[str, int]]:
        """By collection: blobs whose scope has a newer blob of the same collection (A9)."""
        yield from self._base.execute(
            "SELECT collection, sum(n - 1) FROM (SELECT substr(ref, 1, instr(ref, ':') - 1) AS collection, count(*) AS n "
            "FROM blobs GROUP BY 1, agent, owner) GROUP BY collection"
        )

    def dangling(self) -> int:
        """The number of list entries that name no matching record (A15)."""
        return self._count("SELECT count(*) FROM listed WHERE NOT is_found")

    def duplicates(self) -> Iterator[tuple[str, int, int]]:
        """By collection: rows with the same text as another row, and records that have only such rows."""
        yield from self._base.execute(
            "SELECT collection, sum(extra), sum(extra = all_rows) FROM (SELECT collection, ref, sum(ref <> of) AS extra, "
            "count(*) AS all_rows FROM rows GROUP BY collection, ref) GROUP BY collection"
        )

    def records(self) -> Iterator[tuple[str, int]]:
        """By collection: the number of records with rows."""
        yield from self._base.execute("SELECT collection, count(DISTINCT ref) FROM rows GROUP BY collection")

    def agents(self) -> Iterator[str]:
        """All agents, ordered by id."""
        rows = self._base.execute(
            "SELECT agent FROM rows UNION SELECT agent FROM blobs UNION SELECT agent FROM shards UNION "
            "SELECT agent FROM talks ORDER BY 1"
        ).fetchall()
        for (agent,) in rows:
            yield agent

    def row_counts(self) -> dict[str, int]:
        """By agent. Agents without rows are missing."""
        return dict(self._base.execute("SELECT agent, count(*) FROM rows GROUP BY agent").fetchall())

    def scopes(self, agent: str) -> list[tuple[str, str]]:
        """Owner and name of the scopes with rows or blobs, in order."""
        rows = self._base.execute(
            "SELECT owner, name FROM rows WHERE agent = :a UNION SELECT owner, '' FROM blobs WHERE agent = :a ORDER BY 1, 2",
            {"a": agent},
        )
        return list(rows)

    def knows(self, agent: str, owner: str) -> bool:
        """Whether there are rows or blobs of that owner."""
        found = "SELECT EXISTS (SELECT 1 FROM {} WHERE agent = ? AND owner = ?)"
        return any(self._base.execute(found.format(of), (agent, owner)).fetchone()[0] for of in ("rows", "blobs"))

    def rows(self, agent: str, owner: str, name: str) -> Iterator[tuple[Kept, Lane, State, str, str]]:
        """Record, lane, state, the reference whose row it is, and the notes; in order."""
        cursor = self._base.execute(
            "SELECT body, lane, state, of, notes FROM rows WHERE agent = ? AND owner = ? AND name = ? ORDER BY rowid",
            (agent, owner, name),
        )
        for body, lane, state, of, notes in cursor:
            yield unpacked(body), lane, state, of, notes

    def _count(self, statement: str) -> int:
        return int(self._base.execute(statement).fetchone()[0])


def holder_of(blob: Blob, canonical: str | None) -> str:
    """The owner of the blob's scope, which is also its key in lists."""
    if blob.level == "agent":
        return COLLECTIVE
    return owner_key("individual" if blob.level == "user" else "conversation", canonical)


def _moment(seconds: float | None) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)
