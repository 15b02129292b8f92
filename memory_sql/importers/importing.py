"""A whole import: surveys a source, then stores it. The accounts say what became of each document."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from functools import partial
from itertools import islice
from typing import Any, Literal

from memory_sql.config import Settings
from memory_sql.db import Session
from memory_sql.db.engine import Database
from memory_sql.db.principals import SERVICE
from memory_sql.db.repositories.imports import ImportRepository
from memory_sql.domain.results import ImportReport, Progress
from memory_sql.errors import InputError
from memory_sql.importers.accounts import Accounts
from memory_sql.importers.batches import each
from memory_sql.importers.drafts import AgentDraft, Refusal
from memory_sql.importers.ledger import Ledger
from memory_sql.importers.loading import Loader, Plan
from memory_sql.importers.origin import Origin, Told

LEAST_KEY_BYTES = 32
REJECTS_AT_ONCE = 1000
AGENTS_AT_ONCE = 3


@dataclass(frozen=True, slots=True)
class Import:
    """`key` hashes references and isn't kept in the database.

    `pause`: seconds between the times at which work becomes due.
    """

    database: Database
    settings: Settings
    origin: Origin
    key: bytes
    now: datetime
    pause: float = 0.0
    progress: Told | None = None

    async def run(self, *, dry_run: bool = False) -> ImportReport:
        """Runs the import, or resumes it if it was interrupted. With `dry_run` nothing is written.

        Raises `SourceError` if the source can't be read, and `InputError` if the key differs from that of an earlier
        import.
        """
        accounts = Accounts()
        async with self.database.transaction(principal=SERVICE) as unit:
            await self._check_key(ImportRepository(unit))
        async with self.origin.read(accounts, self.now, self.progress) as (plan, ledger):
            if dry_run:
                await self._look(plan)
                return _report(None, accounts, ledger)
            import_id = await self._begin()
            await self._store(plan, import_id)
            return await self._finish(import_id, accounts, ledger)

    @property
    def _key_hash(self) -> bytes:
        return hmac.digest(self.key, b"memory_sql imports", "sha256")

    async def _check_key(self, imports: ImportRepository) -> None:
        """With another key, what was forgotten couldn't be recognized and would be imported again."""
        if len(self.key) < LEAST_KEY_BYTES:
            raise InputError(f"the key of an import must have at least {LEAST_KEY_BYTES} bytes")
        if await imports.other_key(self._key_hash):
            raise InputError("an earlier import had another key: only that one recognises what was forgotten since")

    async def _begin(self) -> int:
        options = json.loads(json.dumps(asdict(self.origin.options)))

        async def begin(unit: Session) -> int:
            imports = ImportRepository(unit)
            await imports.in_turn()
            await self._check_key(imports)  # again: another may have begun meanwhile
            return await imports.begin(self.origin.name, options, self._key_hash, self.now)

        return await self.database.write(begin, principal=SERVICE)

    def _loader(self, database: Database, plan: Plan, import_id: int | None, *, keeps: bool = False) -> Loader:
        return Loader(
            database, self.settings, plan, import_id, self.key, self.now, self.pause,
            "confirmed" if self.origin.is_trusted else "unverified", keeps,
        )  # fmt: skip

    async def _look(self, plan: Plan) -> None:
        loader, tell = self._loader(self.database, plan, None), self._teller(plan, "looking")
        for agent in plan.agents():
            await loader.look(agent)
            tell(agent.agent_id, 0)

    async def _store(self, plan: Plan, import_id: int) -> None:
        due_from, tell = await self._due_from(import_id), self._teller(plan, "storing")

        async def store(loader: Loader, agent: AgentDraft) -> None:
            nonlocal due_from
            done = await loader.agent(agent, due_from)
            due_from += timedelta(seconds=self.pause * done.due)
            tell(agent.agent_id, done.observations)

        # The rows of one agent are prepared here while the database stores those of others. With pauses, agents are
        # stored one by one.
        at_once = 1 if self.pause else AGENTS_AT_ONCE
        async with self.database.apart(at_once) as own:
            loader = self._loader(own, plan, import_id, keeps=not own.pooled)
            await each(plan.agents(), partial(store, loader), at_once=at_once)

    def _teller(self, plan: Plan, step: Literal["looking", "storing"]) -> Callable[[str, int], None]:
        """Returns the function that reports an agent as finished, with the number of observations stored."""
        extents, count, done = plan.extents(), 0, 0
        total = sum(extents.values())

        def tell(agent_id: str, observations: int) -> None:
            nonlocal count, done
            count, done = count + observations, done + extents[agent_id]
            if self.progress is not None:
                self.progress(
                    Progress(step=step, what=agent_id, count=count, unit="observations", done=done, total=total)
                )

        if self.progress is not None:
            self.progress(Progress(step=step, what="", count=0, unit="observations", done=0, total=total))
        return tell

    async def _due_from(self, import_id: int) -> datetime:
        """Where the pauses begin: in a resumed import after the last item already stored."""
        async with self.database.transaction(principal=SERVICE) as unit:
            last = await ImportRepository(unit).last_due(import_id)
        return self.now if last is None else max(self.now, last)

    async def _finish(self, import_id: int, accounts: Accounts, ledger: Ledger) -> ImportReport:
        async with self.database.transaction(principal=SERVICE) as unit:
            imports = ImportRepository(unit)
            report = _report(import_id, accounts, ledger)
            for rows in _rejects(import_id, ledger.refusals()):
                await imports.put_rejects(rows)
            told = {"collections": report.collections, "anomalies": report.anomalies}
            if not await imports.finish(import_id, told, self.now):
                raise InputError(f"import {import_id} was rolled back while it ran: roll it back again")
        return report


def _report(import_id: int | None, accounts: Accounts, ledger: Ledger) -> ImportReport:
    for collection, outcome, reason, count in ledger.left_out():
        accounts.outcomes[collection, "migrated", ""] -= count
        accounts.outcomes[collection, outcome, reason] += count
    for collection, count in ledger.alone.items():
        accounts.outcomes[collection, "merged", "duplicate_text"] -= count
        accounts.outcomes[collection, "migrated", ""] += count
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
        unreadable=tuple(str(error) for error in accounts.unreadable),
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
    """Hashes the content of a key file to a key of 32 bytes."""
    if len(content.strip()) < LEAST_KEY_BYTES:
        raise InputError(f"the key file has fewer than {LEAST_KEY_BYTES} bytes")
    return hashlib.sha256(content.strip()).digest()
