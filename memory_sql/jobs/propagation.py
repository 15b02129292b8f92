"""Propagation, as a job: of what a scope may share with wider ones."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from datetime import datetime
from typing import ClassVar

from memory_sql.config import Settings
from memory_sql.db import Session
from memory_sql.db.repositories.scopes import DueColumn
from memory_sql.domain.results import PropagateResult, RunDueResult
from memory_sql.domain.scopes import ScopeRef
from memory_sql.domain.usage import NO_CALL
from memory_sql.jobs.scopes import HeldScope, ScopeJob, ScopeKey, known_agent
from memory_sql.llm import LanguageModel
from memory_sql.propagation import propagation
from memory_sql.propagation.offers import Decided, Loaded, Verdict


class Propagation(ScopeJob):
    """`dry_run`: one batch is judged, and nothing of it stored."""

    due_column: ClassVar[DueColumn] = "propagate_at"
    due_reason = "due"
    called = "propagation of scope"
    fail = staticmethod(propagation.fail)

    def __init__(self, llm: LanguageModel, *, dry_run: bool = False) -> None:
        super().__init__(llm)
        self._dry_run = dry_run

    async def load(
        self,
        session: Session,
        key: ScopeKey,
        settings: Settings,
        now: datetime,
        reason: str,
        so_far: Sequence[PropagateResult],
    ) -> tuple[HeldScope, Loaded | None]:
        """After the first batch only what nobody has judged yet: what waits would be judged again and again."""
        agent_id, scope_id = key
        agent_key = await known_agent(session, agent_id)
        scope, loaded = await propagation.load(
            session, agent_id, agent_key, scope_id, settings, now, reason, new_only=bool(so_far)
        )
        return HeldScope(agent_id, scope), loaded

    def load_claimed(
        self, session: Session, held: HeldScope, settings: Settings, now: datetime, reason: str
    ) -> Awaitable[Loaded | None]:
        return propagation.load_claimed(session, held.agent_id, held.state, settings, now, reason)

    def decide(self, loaded: Loaded, settings: Settings) -> Awaitable[Decided]:
        return propagation.decide(self._llm, loaded, settings)

    def keep(self, loaded: Loaded, decided: Decided, settings: Settings) -> None:
        """Not stored: who says what is counted again before it is judged."""

    def apply(
        self, session: Session, loaded: Loaded, decided: Decided, settings: Settings, now: datetime
    ) -> Awaitable[tuple[Verdict, ...]]:
        apply = propagation.show if self._dry_run else propagation.apply
        return apply(session, loaded, decided, settings, now)

    def give_back(
        self, session: Session, held: HeldScope, error: BaseException, settings: Settings, now: datetime
    ) -> Awaitable[None]:
        return propagation.give_back(session, held.state, error, settings, now)

    def result(self, loaded: Loaded, decided: Decided, applied: tuple[Verdict, ...]) -> tuple[PropagateResult, bool]:
        result = PropagateResult(
            scope=loaded.scope.ref,
            judged=tuple(verdict.judged for verdict in applied),
            run_ids=(loaded.run.run_id,),
            model=decided.usage.model,
            dry_run=self._dry_run,
        )
        return result, loaded.more and not self._dry_run

    def total(self, held: HeldScope, results: Sequence[PropagateResult]) -> PropagateResult:
        return total(held.state.ref, results, dry_run=self._dry_run)

    def report(self, result: PropagateResult) -> RunDueResult:
        return RunDueResult(propagated=(result,))


def total(scope: ScopeRef | None, results: Sequence[PropagateResult], *, dry_run: bool) -> PropagateResult:
    """What several calls decided, as one."""
    models = [one.model for one in reversed(results) if one.model is not None]
    return PropagateResult(
        scope=scope,
        judged=tuple(item for one in results for item in one.judged),
        run_ids=tuple(run_id for one in results for run_id in one.run_ids),
        model=next((model for model in models if model != NO_CALL.model), next(iter(models), None)),
        dry_run=dry_run,
    )
