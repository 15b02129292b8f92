"""Reads a source once, small collections first, and puts the results into a spool.

Users and sessions come first, then the texts with their lists, and last the records, which need all of that. After that
everything that an import would do is known and counted: a dry run ends here. `plan` then reads the spool by agent and
scope, so that each agent can be stored in one transaction. Only one document, SQLite's cache and recent answers are in
memory; the rest is in the spool's file, which is about as large as the legacy memory.

An interrupted import reads its source again. That takes little time compared with storing it, results in the same spool,
and skips the agents that are already stored.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from memory_sql.domain.results import Progress
from memory_sql.importers.accounts import Accounts
from memory_sql.importers.drafts import Outcome, Refusal
from memory_sql.importers.ledger import room
from memory_sql.importers.mongo.documents import Blob, Record, Shard
from memory_sql.importers.mongo.options import ImportOptions
from memory_sql.importers.mongo.reading import (
    KNOWN_KEYS,
    read_later_blob,
    read_later_record,
    read_message,
    read_record,
    read_session,
    read_shard,
    read_user,
    read_user_blob,
)
from memory_sql.importers.mongo.routing import SkippedError, route
from memory_sql.importers.mongo.shards import odd_names
from memory_sql.importers.mongo.sources.source import COLLECTIONS, Damaged, Found, Part, Place, Source
from memory_sql.importers.mongo.spool import Spool, holder_of
from memory_sql.importers.mongo.values import Fields, Notes, ObjectKey, UnreadableError
from memory_sql.languages.text import content_digest

Told = Callable[[Progress], None]

_STEP = 1000


class _MergedError(Exception):
    """Another document already has this one's place. `reason` is one of `anomalies.REASONS`."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(slots=True)
class Survey:
    """Reads one source into one spool."""

    source: Source
    spool: Spool
    options: ImportOptions
    accounts: Accounts
    progress: Told | None = None
    _documents: int = 0
    _done: int = 0
    _total: int = 0

    async def run(self) -> None:
        """Raises `SourceError` unless the source keeps going, and `ConfigurationError` if there is no room for the spool."""
        with room():
            parts = [part for part in await self.source.parts() if self._is_wanted(part)]
            self._total = sum(part.extent for part in parts)
            for part in parts:
                await self._read(part)
                self._done += part.extent
                self._tell(part, 0)
            self.spool.put_in_order()
            self._settle()

    def _is_wanted(self, part: Part) -> bool:
        return part.collection in _TAKERS and (self.options.messages or part.collection != "messages")

    def _tell(self, part: Part, read: int) -> None:
        if self.progress is not None:
            done = self._done + min(read, part.extent)
            self.progress(
                Progress(
                    step="reading", what=part.name, count=self._documents, unit="documents", done=done, total=self._total
                )
            )  # fmt: skip

    async def _read(self, part: Part) -> None:
        old_name = part.name.partition(".")[0] in COLLECTIONS[part.collection][:-1]
        async for item in self.source.read(part):
            if isinstance(item, Damaged):
                self._damaged(part, item)
            else:
                self._take(part, item, Notes({"A2"} if old_name else ()))
            self._documents += 1
            if item.place.number % _STEP == 0:
                self._tell(part, self.source.position)

    def _damaged(self, part: Part, item: Damaged) -> None:
        """A part that is cut off may have any number of further documents, or none, so it isn't counted as one."""
        if item.ends_part:
            self.accounts.cut_off.append(item.error)
        else:
            self.accounts.source[part.collection] += 1
            self.accounts.cannot_read(item.error)
            self._refuse(part, item.place, None, "rejected", "unreadable")

    def _take(self, part: Part, item: Found, notes: Notes) -> None:
        collection, document = part.collection, item.document
        self.accounts.source[collection] += 1
        if collection in KNOWN_KEYS and not document.keys() <= KNOWN_KEYS[collection]:
            notes.add("A27")
        try:
            _TAKERS[collection](self, document, notes)
        except UnreadableError as error:
            self._refuse(part, item.place, document, "rejected", error.reason)
        except SkippedError as error:
            self._refuse(part, item.place, document, "skipped", error.reason)
        except _MergedError as error:
            self._refuse(part, item.place, document, "merged", error.reason)
        self.accounts.note(notes)

    def _refuse(self, part: Part, place: Place, document: Fields | None, outcome: Outcome, reason: str) -> None:
        key = None if document is None else document.get("_id")
        self.accounts.outcomes[part.collection, outcome, reason] += 1
        self.spool.put_refusal(
            Refusal(
                part.collection,
                key if isinstance(key, ObjectKey) else None,
                place.part,
                place.number,
                place.offset,
                outcome,
                reason,
            )
        )

    # Reading, by collection

    def user(self, document: Fields, notes: Notes) -> None:
        self.spool.put_user(read_user(document, notes))
        raise SkippedError("directory")

    def session(self, document: Fields, notes: Notes) -> None:
        self.spool.talk.put(read_session(document, notes))
        raise SkippedError("directory")

    def user_blob(self, document: Fields, notes: Notes) -> None:
        self._blob(read_user_blob(document, notes, self.options.secrets), notes)

    def later_blob(self, document: Fields, notes: Notes) -> None:
        self._blob(read_later_blob(document, notes, self.options.secrets), notes)

    def _blob(self, blob: Blob, notes: Notes) -> None:
        self._check_agent(blob.agent)
        canonical = blob.owner_key if blob.level != "user" else self._person(blob.owner_key, notes)
        if not self.spool.put_blob(blob, holder_of(blob, canonical)):
            raise _MergedError("same_document")
        self.accounts.outcomes[blob.ref.partition(":")[0], "migrated", ""] += 1

    def _person(self, key: ObjectKey | None, notes: Notes) -> ObjectKey | None:
        """The canonical id. Raises `UnreadableError` for an agent."""
        if key is None:
            return None
        if self.spool.is_agent(key):
            notes.add("A11")
            raise UnreadableError("agent_as_user", "user_id")
        canonical = ObjectKey(self.spool.canonical(key))
        if canonical != key:
            notes.add("A10")
        if self.spool.is_gone(canonical):
            notes.add("A11")
        return canonical

    def shard(self, document: Fields, notes: Notes) -> None:
        shard: Shard = read_shard(document, notes, self.options.secrets)
        self._check_agent(shard.agent)
        if not self.spool.put_shard(shard):
            raise _MergedError("same_document")
        if not shard.is_active and self.options.keep_shards == "merged":
            raise SkippedError("inactive_shard")
        self.accounts.outcomes["memory_agent", "migrated", ""] += 1

    def record(self, document: Fields, notes: Notes) -> None:
        self._record(read_record(document, notes, self.options.secrets), notes)

    def reflection(self, document: Fields, notes: Notes) -> None:
        self._record(read_later_record("reflection")(document, notes, self.options.secrets), notes)

    def found(self, document: Fields, notes: Notes) -> None:
        self._record(read_later_record("found")(document, notes, self.options.secrets), notes)

    def _record(self, record: Record, notes: Notes) -> None:
        self._check_agent(record.agent)
        if record.session is not None and self.spool.talk.lacks(record.session):
            notes.add("A24")
        listed = self.spool.listed(record)
        placements = route(record, listed, self.spool, self.options, notes)
        if not self.spool.put_seen(record.ref):
            raise _MergedError("same_document")
        self.spool.put_rows(record, placements, content_digest(record.text.content), notes)

    def message(self, document: Fields, notes: Notes) -> None:
        message = read_message(document, notes, self.options.secrets)
        if not self.spool.talk.put_message(message):
            raise _MergedError("same_document")
        self.accounts.outcomes["messages", "migrated", ""] += 1

    def _check_agent(self, agent: ObjectKey) -> None:
        if self.options.missing_agents == "skip" and self.spool.is_gone(agent):
            raise SkippedError("agent_missing")

    # Totals, once everything has been read

    def _settle(self) -> None:
        anomalies, outcomes = self.accounts.anomalies, self.accounts.outcomes
        anomalies["A15"] += self.spool.dangling()
        if self.options.messages:
            anomalies["A26"] += self.spool.talk.points_nowhere()
        for agent in self.spool.agents():
            anomalies["A12"] += self.spool.is_gone(agent)
            anomalies["A19"] += odd_names(self.spool.shards(agent))
        for collection, count in self.spool.second_blobs():
            anomalies["A9"] += count
            outcomes[collection, "migrated", ""] -= count
            outcomes[collection, "merged", "duplicate_scope"] += count
        for collection, count in self.spool.records():
            outcomes[collection, "migrated", ""] += count
        for collection, rows, merged in self.spool.duplicates():
            anomalies["A28"] += rows
            outcomes[collection, "migrated", ""] -= merged
            outcomes[collection, "merged", "duplicate_text"] += merged
        self.accounts.anomalies = +anomalies
        self.accounts.outcomes = +outcomes


Taker = Callable[[Survey, Fields, Notes], None]
_TAKERS: dict[str, Taker] = {
    "users3": Survey.user,
    "sessions": Survey.session,
    "memory_user": Survey.user_blob,
    "memory_agent": Survey.shard,
    "memory2_consolidated": Survey.later_blob,
    "memory_sessions": Survey.record,
    "memory2_reflections": Survey.reflection,
    "memory2_facts": Survey.found,
    "messages": Survey.message,
}
