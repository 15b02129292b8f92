"""Consolidation, as a job: of what waits in a scope."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from datetime import datetime, timedelta
from typing import ClassVar, NoReturn

from memory_sql.config import Settings
from memory_sql.consolidation import consolidation
from memory_sql.db import Session
from memory_sql.db.repositories.scopes import DueColumn, ScopeRepository
from memory_sql.domain.results import ConsolidateResult, RunDueResult
from memory_sql.jobs.scopes import HeldScope, ScopeJob, ScopeKey


class Consolidation(ScopeJob):
    due_column: ClassVar[DueColumn] = "due_at"
    due_reason = "threshold"
    called = "scope"
    apply = staticmethod(consolidation.apply)
    fail = staticmethod(consolidation.fail)

    async def take(self, session: Session, key: ScopeKey, settings: Settings) -> HeldScope | None:
        scope = await ScopeRepository(session).claim_of(*key, timedelta(seconds=settings.lease_seconds))
        return None if scope is None else HeldScope(key.agent_id, scope)

    def refuse(self, session: Session, key: ScopeKey) -> Awaitable[NoReturn]:
        return consolidation.refuse_unclaimed(session, *key)

    def load_claimed(
        self, session: Session, held: HeldScope, settings: Settings, now: datetime, reason: str
    ) -> Awaitable[consolidation.Loaded | None]:
        return consolidation.load(session, held.agent_id, held.state, settings, now, reason)

    def decide(self, loaded: consolidation.Loaded, settings: Settings) -> Awaitable[consolidation.Decided]:
        return consolidation.decide(self._llm, loaded, settings)

    def keep(self, loaded: consolidation.Loaded, decided: consolidation.Decided, settings: Settings) -> None:
        """Not stored: a batch that is read again has grown, and needs a new answer."""

    def give_back(
        self, session: Session, held: HeldScope, error: BaseException, settings: Settings, now: datetime
    ) -> Awaitable[None]:
        return consolidation.give_back(session, held.state, error, settings, now, counts=True)

    def let_go(
        self, session: Session, held: HeldScope, error: BaseException, settings: Settings, now: datetime
    ) -> Awaitable[None]:
        return consolidation.give_back(session, held.state, error, settings, now, counts=False)

    def result(
        self, loaded: consolidation.Loaded, decided: consolidation.Decided, applied: consolidation.Applied
    ) -> tuple[ConsolidateResult, bool]:
        result = ConsolidateResult(
            scope=loaded.scope.ref,
            version=applied.version,
            absorbed=len(loaded.inputs) - len(decided.waits),
            content=decided.content,
            run_id=loaded.run.run_id,
            model=decided.usage.model,
            superseded=applied.superseded,
        )
        return result, applied.more

    def total(self, held: HeldScope, results: Sequence[ConsolidateResult]) -> ConsolidateResult:
        """The last version, with what all of them took in."""
        last = results[-1] if results else ConsolidateResult(scope=held.state.ref)
        absorbed, superseded = sum(one.absorbed for one in results), sum(one.superseded for one in results)
        return last.model_copy(update={"absorbed": absorbed, "superseded": superseded})

    def report(self, result: ConsolidateResult) -> RunDueResult:
        return RunDueResult(consolidated=(result,))
