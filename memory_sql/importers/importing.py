"""An import as a whole: what a source holds is surveyed, then stored; the accounts say what became of each document."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import asdict, dataclass
from datetime import datetime
from itertools import islice
from typing import Any

from memory_sql.config import Settings
from memory_sql.db.engine import Database
from memory_sql.db.principals import SERVICE
from memory_sql.db.repositories.imports import ImportRepository, Stored
from memory_sql.domain.results import ImportReport
from memory_sql.errors import InputError
from memory_sql.importers.loading import Loader
from memory_sql.importers.mongo.accounts import Accounts
from memory_sql.importers.mongo.drafts import Refusal
from memory_sql.importers.mongo.options import ImportOptions
from memory_sql.importers.mongo.plan import Plan
from memory_sql.importers.mongo.sources.source import Part, Source
from memory_sql.importers.mongo.spool import Spool
from memory_sql.importers.mongo.survey import Survey

LEAST_KEY_BYTES = 32
REJECTS_AT_ONCE = 1000
Progress = Callable[[str, int], None]
"""Told how many documents of a file have been read, then which agent has been stored, with how many observations."""


@dataclass(frozen=True, slots=True)
class Import:
    """`key` is the one of references, outside of the database; `pause`: seconds between what becomes due."""

    database: Database
    settings: Settings
    source: Source
    options: ImportOptions
    key: bytes
    now: datetime
    pause: float = 0.0
    progress: Progress | None = None

    async def run(self, *, dry_run: bool = False) -> ImportReport:
        """Raises `SourceError` for a source that can't be read, `InputError` for another key than before.

        Goes on with an import that was broken off. `dry_run`: nothing is written.
        """
        if self.options.messages:
            raise InputError("messages aren't brought over yet")
        accounts = Accounts()
        with closing(Spool(self.options)) as spool:
            await self._check_key()
            await Survey(self.source, spool, self.options, accounts, self._read).run()
            if dry_run:
                return _report(None, accounts)
            import_id = await self._begin()
            stored = await self._store(Plan(spool, self.options, self.now), import_id)
            return await self._finish(import_id, accounts, spool, stored)

    def _read(self, part: Part, documents: int) -> None:
        self._tell(part.name, documents)

    def _tell(self, what: str, count: int) -> None:
        if self.progress is not None:
            self.progress(what, count)

    @property
    def _key_hash(self) -> bytes:
        return hmac.digest(self.key, b"memory_sql imports", "sha256")

    async def _check_key(self) -> None:
        """Under another key nobody would know what was forgotten, and it would come again."""
        if len(self.key) < LEAST_KEY_BYTES:
            raise InputError(f"the key of an import has at least {LEAST_KEY_BYTES} bytes")
        async with self.database.transaction(principal=SERVICE) as unit:
            if await ImportRepository(unit).other_key(self._key_hash):
                raise InputError("an import before had another key: what was forgotten since is known under that alone")

    async def _begin(self) -> int:
        options = json.loads(json.dumps(asdict(self.options)))
        return await self.database.write(
            lambda unit: ImportRepository(unit).begin(self.source.name, options, self._key_hash, self.now),
            principal=SERVICE,
        )

    async def _store(self, plan: Plan, import_id: int) -> Stored:
        loader = Loader(
            self.database, self.settings, plan, import_id, self.key, self.now, self.pause,
            "confirmed" if self.options.trusted else "unverified",
        )  # fmt: skip
        stored = Stored()
        for agent in plan.agents():
            done = await loader.agent(agent)
            stored += done
            self._tell(agent.agent_id, done.observations)
        return stored

    async def _finish(self, import_id: int, accounts: Accounts, spool: Spool, stored: Stored) -> ImportReport:
        async with self.database.transaction(principal=SERVICE) as unit:
            imports = ImportRepository(unit)
            _settle(accounts, stored)
            report = _report(import_id, accounts)
            for rows in _rejects(import_id, spool.refusals()):
                await imports.put_rejects(rows)
            told = {"collections": report.collections, "anomalies": report.anomalies}
            if not await imports.finish(import_id, told, self.now):
                raise InputError(f"import {import_id} was rolled back while it ran: roll it back once more")
        return report


def _settle(accounts: Accounts, stored: Stored) -> None:
    """Of what could have come, what was there already, and what had been forgotten, didn't."""
    for reason, left_out in (("known", stored.known), ("forgotten", stored.forgotten)):
        for collection, count in Counter(ref.partition(":")[0] for ref in left_out).items():
            accounts.outcomes[collection, "migrated", ""] -= count
            accounts.outcomes[collection, "skipped", reason] += count


def _report(import_id: int | None, accounts: Accounts) -> ImportReport:
    return ImportReport(
        run=import_id,
        collections=accounts.collections(),
        reasons={
            f"{collection}: {outcome}, {reason}": count
            for (collection, outcome, reason), count in sorted(accounts.outcomes.items())
            if reason and count
        },
        anomalies=dict(sorted(accounts.anomalies.items(), key=_by_number)),
        cut_off=tuple(str(error) for error in accounts.cut_off),
        unaccounted=tuple(accounts.unaccounted()),
    )


def _by_number(item: tuple[str, int]) -> tuple[bool, int, str]:
    code = item[0]
    return (False, int(code[1:]), code) if code[1:].isdecimal() else (True, 0, code)


def _rejects(import_id: int, refusals: Iterator[Refusal]) -> Iterator[list[dict[str, Any]]]:
    number = 0
    while some := list(islice(refusals, REJECTS_AT_ONCE)):
        rows = []
        for refusal in some:
            number += 1
            row = asdict(refusal)
            rows.append(
                {
                    "import_id": import_id,
                    "place": row.pop("number"),
                    "position": row.pop("offset"),
                    **row,
                    "number": number,
                }
            )
        yield rows


def key_of_file(content: bytes) -> bytes:
    """The key that a file holds: its bytes, whatever they are, as one of 32."""
    if len(content.strip()) < LEAST_KEY_BYTES:
        raise InputError(f"the file of the key has fewer than {LEAST_KEY_BYTES} bytes")
    return hashlib.sha256(content.strip()).digest()
