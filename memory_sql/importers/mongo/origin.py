"""The legacy system as an origin of imports."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from datetime import datetime

from memory_sql.importers.accounts import Accounts
from memory_sql.importers.mongo.options import ImportOptions
from memory_sql.importers.mongo.plan import Plan
from memory_sql.importers.mongo.sources.source import Source
from memory_sql.importers.mongo.spool import Spool
from memory_sql.importers.mongo.survey import Survey
from memory_sql.importers.origin import Reading, Told


@dataclass(frozen=True, slots=True)
class MongoOrigin:
    source: Source
    options: ImportOptions

    @property
    def name(self) -> str:
        return self.source.name

    @property
    def is_trusted(self) -> bool:
        return self.options.trusted

    @asynccontextmanager
    async def read(self, accounts: Accounts, now: datetime, progress: Told | None = None) -> AsyncIterator[Reading]:
        with closing(Spool(self.options)) as spool:
            await Survey(self.source, spool, self.options, accounts, progress).run()
            yield Reading(Plan(spool, self.options, now), spool)
