"""Imports from another memory store: run, listed, verified, rolled back."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from memory_sql.db import Session
from memory_sql.db.other_store import OtherStore
from memory_sql.db.principals import SERVICE, service
from memory_sql.db.repositories.imported_messages import ImportedMessageRepository
from memory_sql.db.repositories.imports import ImportRepository
from memory_sql.db.savepoints import taken_back
from memory_sql.domain.arguments import (
    MOST_STORED,
    flags,
    id_of,
    needed_text,
    optional_callable,
    optional_id,
    path_of,
    reason_of,
    within,
)
from memory_sql.domain.ids import Id
from memory_sql.domain.receipts import Receipt
from memory_sql.domain.results import ImportCheck, ImportReport, ImportRun, Progress, RolledBack
from memory_sql.errors import InputError, NotFoundError
from memory_sql.importers.checking import compare
from memory_sql.importers.importing import Import
from memory_sql.importers.mem0.options import Mem0Options
from memory_sql.importers.mem0.origin import Mem0Origin
from memory_sql.importers.mem0.reading import Limits
from memory_sql.importers.mongo.options import ImportOptions
from memory_sql.importers.mongo.origin import MongoOrigin
from memory_sql.importers.mongo.sources.select import SourceKind, open_source
from memory_sql.importers.origin import Origin
from memory_sql.lifecycle import corrections, forgetting
from memory_sql.resources.runtime import Face, asked_of

MOST_SECONDS = 86_400


class Imports(Face):
    """Imports from another memory store: run, listed, verified, rolled back."""

    async def mongo(
        self,
        *,
        key: bytes,
        dump: Path | str | None = None,
        export: Path | str | None = None,
        mongo_url: str | None = None,
        keep_going: bool = False,
        options: ImportOptions | None = None,
        dry_run: bool = False,
        pause: float = 0.0,
        progress: Callable[[Progress], None] | None = None,
    ) -> ImportReport:
        """Imports the memory of the previous system, one transaction an agent, and accounts for every document.

        The source is a folder written by mongodump (`dump`) or mongoexport (`export`), or a server, which is only read
        (`mongo_url`, including the name of the database). `keep_going`: skip what can't be read, and list it.

        Documents that were imported before or forgotten here are skipped, so an import can be repeated and resumes where it
        was interrupted. `key` is 32 bytes or more, kept outside the database and the same for every import: forgotten
        documents are recognised only by HMACs under it. `dry_run`: write nothing and report what would be written.
        `pause`: seconds between the times at which imported scopes become due for consolidation. `progress` is called
        now and then. Raises `SourceError`, `InputError`, `ConfigurationError`.
        """
        flags(keep_going=keep_going, dry_run=dry_run)
        optional_callable("progress", progress)
        wanted = options or ImportOptions()
        async with _opened(dump, export, mongo_url, wanted, keep_going=keep_going) as origin:
            return await self._run(origin, key, pause, progress, dry_run=dry_run)

    async def mem0(
        self,
        *,
        key: bytes,
        mem0_url: str,
        collection: str = "mem0",
        agent_id: Id,
        trusted: bool = False,
        dry_run: bool = False,
        pause: float = 0.0,
        progress: Callable[[Progress], None] | None = None,
    ) -> ImportReport:
        """Imports the memories that mem0 keeps in Postgres (its pgvector store), one transaction an agent.

        `mem0_url` and `collection`: the database and the table, which are only read; vectors aren't. Each memory becomes a
        pending observation of its user, with its time and its metadata (docs/mem0.md). `agent_id`: the agent of memories
        that name none. `trusted`: they count as confirmed. Everything else is as for `mongo`, whose `key` it shares. Raises
        `SourceError`, `InputError`, `ConfigurationError`.
        """
        flags(trusted=trusted, dry_run=dry_run)
        optional_callable("progress", progress)
        options = Mem0Options(needed_text("collection", collection), id_of("agent_id", agent_id), trusted)
        async with self._opened_mem0(mem0_url, options) as origin:
            return await self._run(origin, key, pause, progress, dry_run=dry_run)

    async def _run(
        self,
        origin: Origin,
        key: bytes,
        pause: float,
        progress: Callable[[Progress], None] | None,
        *,
        dry_run: bool,
    ) -> ImportReport:
        if isinstance(pause, bool) or not isinstance(pause, int | float) or not 0 <= pause <= MOST_SECONDS:
            raise InputError(f"pause must be from 0 to {MOST_SECONDS} seconds")
        importing = Import(self._database, self._settings, origin, key, self._now(), pause, progress)
        return await importing.run(dry_run=dry_run)

    @asynccontextmanager
    async def _opened_mem0(self, mem0_url: str, options: Mem0Options) -> AsyncIterator[Origin]:
        limits = Limits(self._settings.observation_max_characters, self._settings.metadata_max_characters)
        store = OtherStore(needed_text("mem0_url", mem0_url), options.collection)
        try:
            yield Mem0Origin(store, options, limits)
        finally:
            await store.close()

    async def list(self) -> list[ImportRun]:
        """All imports, oldest first."""
        async with self._database.transaction(principal=SERVICE) as unit:
            return [ImportRun(**row) for row in await ImportRepository(unit).all()]

    async def verify(
        self,
        run: int,
        *,
        dump: Path | str | None = None,
        export: Path | str | None = None,
        mongo_url: str | None = None,
        mem0_url: str | None = None,
        keep_going: bool = False,
        limit: int = 50,
    ) -> ImportCheck:
        """Compares the imported data with what the import stored and, if a source is given, with the source.

        Every text is compared by its hash; `limit` references of each kind are listed. What has been forgotten since the
        import, or is new in the source, is `missing`. Raises `SourceError`, `NotFoundError`.
        """
        flags(keep_going=keep_going)
        is_mongo = bool(_named(dump, export, mongo_url))
        mem0_url = None if mem0_url is None else needed_text("mem0_url", mem0_url)
        run, most, here = within("run", run, MOST_STORED), within("limit", limit, 1000), list[str]()
        async with self._database.transaction(principal=SERVICE) as unit:
            imports = await _known(unit, run)
            options = (await imports.get(run) or {})["options"]
            for agent_key, _ in await imports.agents(run):
                here += await imports.changed(agent_key, run, most - len(here))
                here += await ImportedMessageRepository(unit, agent_key).changed(run, most - len(here))
        if not is_mongo and mem0_url is None:
            return ImportCheck(run=run, changed_here=tuple(here))
        if is_mongo == (options.get("system") == "mem0") or (is_mongo and mem0_url is not None):
            raise InputError(f"import {run} came from another kind of store than the one that is named")
        opened = (
            _opened(dump, export, mongo_url, ImportOptions(**options), keep_going=keep_going)
            if mem0_url is None
            else self._opened_mem0(mem0_url, Mem0Options(**options))
        )
        async with opened as origin:
            found = await compare(self._database, origin, run, self._now())
        return ImportCheck(
            run=run,
            compared=found.compared,
            changed_here=tuple(here),
            changed_there=found.changed[:most],
            missing=found.missing[:most],
        )

    async def rollback(
        self, run: int, *, dry_run: bool = False, actor: Id | None = None, reason: str | None = None
    ) -> RolledBack:
        """Removes exactly what an import stored, and what was derived from it, one transaction an agent.

        What was formed since stays. Texts that contained imported data go back to an earlier version, or to none, and are
        rewritten from what is left. What a legal hold covers is withdrawn. The data can be imported again. `dry_run`: do
        it and roll it back, to report what would be removed. Raises `NotFoundError`, also if it was rolled back before.
        """
        flags(dry_run=dry_run)
        run = within("run", run, MOST_STORED)
        by, why, now = optional_id("actor", actor), reason_of(reason), self._now()
        async with self._database.transaction(principal=SERVICE) as unit:
            agents = await (await _known(unit, run)).agents(run)
        done = RolledBack(run=run, dry_run=dry_run, observations=0, scopes=0)
        for agent_key, agent_id in agents:
            asked = asked_of(agent_id, by, why, self._settings, now)

            async def take_out(
                unit: Session, asked: corrections.Asked = asked, agent_key: int = agent_key
            ) -> tuple[Receipt, Sequence[int]]:
                if not dry_run:
                    return await taken_out(unit, asked, agent_key, run)
                async with taken_back(unit):
                    return await taken_out(unit, asked, agent_key, run)

            done = _with(done, *await self._database.write(take_out, principal=service(agent_id)))
        if not dry_run:
            async with self._database.transaction(principal=SERVICE) as unit:
                await ImportRepository(unit).rolled_back(run, now)
        return done


async def taken_out(unit: Session, asked: corrections.Asked, agent_key: int, run: int) -> tuple[Receipt, Sequence[int]]:
    """The receipt, and the scopes that are gone."""
    receipt = await forgetting.take_out(unit, asked, agent_key, run)
    return receipt, await ImportRepository(unit).undo(agent_key, run)


def _with(done: RolledBack, receipt: Receipt, scopes: Sequence[int]) -> RolledBack:
    """What was done so far, and what was done of another agent."""
    gone = {f"s{key}" for key in scopes}
    return RolledBack(
        run=done.run,
        dry_run=done.dry_run,
        observations=done.observations + len(receipt.observations),
        messages=done.messages + receipt.counts.get("messages", 0),
        scopes=done.scopes + len(gone),
        withheld=(*done.withheld, *(scope for scope in receipt.withheld if scope not in gone)),
        held=dict(+(Counter(done.held) + Counter(receipt.held))),
        withdrawn=(*done.withdrawn, *receipt.withdrawn),
    )


@asynccontextmanager
async def _opened(
    dump: Path | str | None,
    export: Path | str | None,
    mongo_url: str | None,
    options: ImportOptions,
    *,
    keep_going: bool,
) -> AsyncIterator[Origin]:
    named = _named(dump, export, mongo_url)
    if len(named) != 1:
        raise InputError("name one source: a dump, an export or a URL")
    ((kind, where),) = named
    source = open_source(kind, where, keep_going=keep_going)
    try:
        yield MongoOrigin(source, options)
    finally:
        await source.close()


def _named(dump: Path | str | None, export: Path | str | None, mongo_url: str | None) -> list[tuple[SourceKind, str]]:
    """The sources that are given. Raises `InputError` for values of a wrong type."""
    folders: list[tuple[SourceKind, Path | str | None]] = [("dump", dump), ("export", export)]
    named = [(kind, str(path_of(kind, where))) for kind, where in folders if where is not None]
    return named if mongo_url is None else [*named, ("live", needed_text("mongo_url", mongo_url))]


async def _known(unit: Session, run: int) -> ImportRepository:
    imports = ImportRepository(unit)
    found = await imports.get(run)
    if found is None or (found["state"] == "rolled_back" and not await imports.agents(run)):
        raise NotFoundError("import", str(run))
    return imports
