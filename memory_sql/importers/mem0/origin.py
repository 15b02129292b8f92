"""mem0 as an origin of imports: its table is read once, in pages, into a spool."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from datetime import datetime

from memory_sql.db.other_store import OtherStore
from memory_sql.domain.results import Progress
from memory_sql.importers.accounts import Accounts
from memory_sql.importers.drafts import Outcome, Refusal
from memory_sql.importers.ledger import room
from memory_sql.importers.mem0.options import Mem0Options
from memory_sql.importers.mem0.plan import Plan
from memory_sql.importers.mem0.reading import COLLECTION, Limits, read
from memory_sql.importers.mem0.spool import Spool
from memory_sql.importers.mongo.values import Notes, UnreadableError
from memory_sql.importers.origin import Reading, Told

_SKIPPED = frozenset(("expired",))


@dataclass(frozen=True, slots=True)
class Mem0Origin:
    store: OtherStore
    options: Mem0Options
    limits: Limits

    @property
    def name(self) -> str:
        return f"mem0 {self.options.collection}"

    @property
    def is_trusted(self) -> bool:
        return self.options.trusted

    @asynccontextmanager
    async def read(self, accounts: Accounts, now: datetime, progress: Told | None = None) -> AsyncIterator[Reading]:
        with closing(Spool()) as spool:
            with room():
                await self._read(spool, accounts, now, progress)
                spool.put_in_order()
            own, merged = spool.counts()
            accounts.outcomes[COLLECTION, "migrated", ""] += own
            accounts.outcomes[COLLECTION, "merged", "duplicate_text"] += merged
            accounts.outcomes = +accounts.outcomes
            yield Reading(Plan(spool, "confirmed" if self.options.trusted else "unverified", now), spool)

    async def _read(self, spool: Spool, accounts: Accounts, now: datetime, progress: Told | None) -> None:
        accounts.source[COLLECTION] += 0
        total = await self.store.count()
        async for page in self.store.pages():
            for number, (key, payload) in enumerate(page, start=accounts.source[COLLECTION] + 1):
                self._take(spool, accounts, now, number, key, payload)
            done = accounts.source[COLLECTION]
            if progress is not None:
                what = self.options.collection
                progress(
                    Progress(
                        step="reading", what=what, count=done, unit="documents", done=min(done, total), total=total
                    )
                )

    def _take(
        self, spool: Spool, accounts: Accounts, now: datetime, number: int, key: str, payload: str | None
    ) -> None:
        accounts.source[COLLECTION] += 1
        notes = Notes()
        try:
            spool.put(read(key, payload, self.options, self.limits, now.date(), notes), now)
        except UnreadableError as error:
            outcome: Outcome = "skipped" if error.reason in _SKIPPED else "rejected"
            accounts.outcomes[COLLECTION, outcome, error.reason] += 1
            spool.put_refusal(Refusal(COLLECTION, key, self.options.collection, number, None, outcome, error.reason))
        accounts.note(notes)
