"""Memory brought over from another store, checked, and taken out again."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from memory_sql.arguments import optional_id, reason_of, within
from memory_sql.db import Session
from memory_sql.db.principals import SERVICE, service
from memory_sql.db.repositories.imports import ImportRepository
from memory_sql.domain.ids import Id
from memory_sql.domain.results import ImportReport, ImportRun, RolledBack
from memory_sql.errors import InputError, NotFoundError
from memory_sql.importers.importing import Import
from memory_sql.importers.mongo.options import ImportOptions
from memory_sql.importers.mongo.sources.source import Source
from memory_sql.importers.mongo.survey import Progress
from memory_sql.lifecycle import corrections, forgetting
from memory_sql.resources.runtime import Face, asked_of

MOST_SECONDS = 86_400


class Imports(Face):
    """Memory brought over from another store, checked, and taken out again."""

    async def mongo(
        self,
        source: Source,
        *,
        key: bytes,
        options: ImportOptions | None = None,
        dry_run: bool = False,
        pause: float = 0.0,
        reading: Progress | None = None,
        storing: Callable[[str, int], None] | None = None,
    ) -> ImportReport:
        """Brings over the legacy memory that a source holds, an agent a transaction, and accounts for each document.

        What is here already, by its reference, is left out, and so is what was forgotten here; so it can be run again,
        and goes on where it was broken off. `key` are 32 bytes or more that are kept outside of the database, the same
        for each import: what was forgotten is known by HMACs under it alone. `dry_run`: nothing is written, the report
        is of what would be. `pause`: what becomes due to be consolidated is so many seconds apart. Raises `SourceError`,
        `InputError`.
        """
        if not 0 <= pause <= MOST_SECONDS:
            raise InputError(f"pause must be from 0 to {MOST_SECONDS} seconds")
        importing = Import(
            self._database,
            self._settings,
            source,
            options or ImportOptions(),
            key,
            self._now(),
            pause,
            reading,
            storing,
        )
        return await importing.run(dry_run=dry_run)

    async def list(self) -> Sequence[ImportRun]:
        """All imports, oldest first."""
        async with self._database.transaction(principal=SERVICE) as unit:
            return [ImportRun(**row) for row in await ImportRepository(unit).all()]

    async def changed(self, run: int, *, limit: int = 50) -> Sequence[str]:
        """Of what an import brought and is still there, the documents of which another text stands there than it stored.

        None, unless somebody has written into the tables: an observation's text never changes. Raises `NotFoundError`.
        """
        most, found = within("limit", limit, 1000), list[str]()
        async with self._database.transaction(principal=SERVICE) as unit:
            imports = await _known(unit, run)
            for agent_key, _ in await imports.agents(run):
                found += await imports.changed(agent_key, run, most - len(found))
        return found

    async def roll_back(self, run: int, *, actor: Id | None = None, reason: str | None = None) -> RolledBack:
        """Takes out exactly what an import brought, an agent a transaction; nothing that was formed since.

        With it goes what was made of it. Texts that held it return to the version before, or to none, and are
        rewritten of what is left. What a legal hold keeps is withdrawn. It can be imported again. Raises
        `NotFoundError`, also for one that was rolled back before.
        """
        by, why, now = optional_id("actor", actor), reason_of(reason), self._now()
        async with self._database.transaction(principal=SERVICE) as unit:
            agents = await (await _known(unit, run)).agents(run)
        observations, withheld, scopes = 0, list[str](), 0
        for agent_key, agent_id in agents:
            asked = asked_of(agent_id, by, why, self._settings, now)

            async def take_out(
                unit: Session, asked: corrections.Asked = asked, agent_key: int = agent_key
            ) -> tuple[int, tuple[str, ...], list[int]]:
                imports = ImportRepository(unit)
                brought = await imports.observations(agent_key, run)
                receipt = await forgetting.take_out(unit, asked, agent_key, brought, run)
                return len(receipt.observations), receipt.withheld, await imports.undo(agent_key, run)

            taken, rebuilt, gone = await self._database.write(take_out, principal=service(agent_id))
            left = {f"s{key}" for key in gone}
            observations, scopes = observations + taken, scopes + len(gone)
            withheld += [scope for scope in rebuilt if scope not in left]
        async with self._database.transaction(principal=SERVICE) as unit:
            await ImportRepository(unit).rolled_back(run, now)
        return RolledBack(run=run, observations=observations, scopes=scopes, withheld=tuple(withheld))


async def _known(unit: Session, run: int) -> ImportRepository:
    imports = ImportRepository(unit)
    found = await imports.get(run)
    if found is None or found["state"] == "rolled_back":
        raise NotFoundError("import", str(run))
    return imports
