"""Reads a legacy database as far as a dry run does, and returns the result in a form that can be compared."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from memory_sql.importers.accounts import Accounts
from memory_sql.importers.drafts import ObservationDraft, RowDraft, ScopeDraft
from memory_sql.importers.mongo.options import ImportOptions
from memory_sql.importers.mongo.plan import Plan
from memory_sql.importers.mongo.sources.dump import DumpSource
from memory_sql.importers.mongo.sources.source import Source
from memory_sql.importers.mongo.spool import Spool
from memory_sql.importers.mongo.survey import Survey
from tests.legacy.formats import dump
from tests.legacy.generator import Legacy

NOW = datetime(2026, 11, 23, tzinfo=UTC)


@dataclass(frozen=True)
class Surveyed:
    accounts: Accounts
    plan: Plan
    spool: Spool

    def scopes(self) -> Iterator[ScopeDraft]:
        for agent in self.plan.agents():
            yield from self.plan.scopes(agent.agent_id)

    def scope(self, kind: str = "individual", name: str = "") -> ScopeDraft:
        """The only one of its kind and name."""
        (found,) = [scope for scope in self.scopes() if (scope.kind, scope.name) == (kind, name)]
        return found

    def rows(self, scope: ScopeDraft | None = None) -> list[RowDraft]:
        scopes = self.scopes() if scope is None else [scope]
        return [row for each in scopes for row in self.plan.rows(each)]

    def observations(self, scope: ScopeDraft | None = None) -> list[ObservationDraft]:
        return [row for row in self.rows(scope) if isinstance(row, ObservationDraft)]

    def fingerprint(self) -> str:
        """Over everything that would be stored, in order; not over the hashes of the source, which a server may change."""
        found = hashlib.sha256()
        for agent in self.plan.agents():
            found.update(repr((agent, *self.plan.groups(agent.agent_id))).encode())
            for scope in self.plan.scopes(agent.agent_id):
                found.update(repr((scope.owner, scope.name, scope.text, scope.settings, scope.legacy_refs)).encode())
                for row in self.plan.rows(scope):
                    own = row if isinstance(row, ObservationDraft) else row.alone
                    said = (own.content, own.state, own.lane, own.also)
                    of = None if isinstance(row, ObservationDraft) else row.of
                    found.update(repr((row.legacy_ref, of, said, own.observed_at, row.related_users)).encode())
        return found.hexdigest()


@contextmanager
def spooled(options: ImportOptions | None = None) -> Iterator[Spool]:
    spool = Spool(options or ImportOptions())
    try:
        yield spool
    finally:
        spool.close()


async def surveyed(source: Source, spool: Spool, options: ImportOptions | None = None) -> Surveyed:
    accounts, options = Accounts(), options or ImportOptions()
    await Survey(source, spool, options, accounts).run()
    return Surveyed(accounts, Plan(spool, options, NOW), spool)


Read = Callable[..., Awaitable[Surveyed]]


@contextmanager
def reading(folder: Path) -> Iterator[Read]:
    """Writes a database of one case, or the one that is passed, and surveys it."""
    with ExitStack() as stack:

        async def read(legacy: Legacy | str, options: ImportOptions | None = None) -> Surveyed:
            made = Legacy(cases=(legacy,)) if isinstance(legacy, str) else legacy
            spool = stack.enter_context(spooled(options))
            return await surveyed(dumped(folder, made), spool, options)

        yield read


def dumped(folder: Path, legacy: Legacy, *, keep_going: bool = False) -> DumpSource:
    dump(folder / "eden", legacy.collections())
    return DumpSource(folder, keep_going=keep_going)
