"""Recheck, as a job: of what a scope's text has absorbed."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from datetime import datetime
from typing import ClassVar

from memory_sql.config import Settings
from memory_sql.consolidation import recheck
from memory_sql.db import Session
from memory_sql.db.repositories.scopes import DueColumn
from memory_sql.domain.rechecks import Rechecked
from memory_sql.domain.results import RunDueResult
from memory_sql.jobs.scopes import HeldScope, ScopeJob, ScopeKey, known_agent


class Recheck(ScopeJob):
    due_column: ClassVar[DueColumn] = "recheck_at"
    due_reason = "due"
    called = "recheck of scope"
    apply = staticmethod(recheck.apply)
    fail = staticmethod(recheck.fail)

    async def load(
        self,
        session: Session,
        key: ScopeKey,
        settings: Settings,
        now: datetime,
        reason: str,
        so_far: Sequence[Rechecked],
    ) -> tuple[HeldScope, recheck.Loaded | None]:
        agent_key = await known_agent(session, key.agent_id)
        scope, loaded = await recheck.load(session, key.agent_id, agent_key, key.scope_id, settings, now)
        return HeldScope(key.agent_id, scope), loaded

    def load_claimed(
        self, session: Session, held: HeldScope, settings: Settings, now: datetime, reason: str
    ) -> Awaitable[recheck.Loaded | None]:
        return recheck.load_claimed(session, held.agent_id, held.state, settings, now)

    def decide(self, loaded: recheck.Loaded, settings: Settings) -> Awaitable[recheck.Decided]:
        return recheck.decide(self._llm, loaded, settings)

    def keep(self, loaded: recheck.Loaded, decided: recheck.Decided, settings: Settings) -> None:
        """Not stored: it quotes observations, and what is interrupted is asked again."""

    def give_back(
        self, session: Session, held: HeldScope, error: BaseException, settings: Settings, now: datetime
    ) -> Awaitable[None]:
        return recheck.give_back(session, held.agent_id, held.state, error, settings, now)

    def result(
        self, loaded: recheck.Loaded, decided: recheck.Decided, applied: recheck.Applied
    ) -> tuple[Rechecked, bool]:
        return recheck.result(loaded, decided, applied), loaded.more and loaded.is_asked

    def total(self, held: HeldScope, results: Sequence[Rechecked]) -> Rechecked:
        """All calls as one; the last run and version, and the model of that run."""
        if not results:
            return Rechecked(scope=held.state.ref)
        counts = ("pairs", "contradictions", "same", "superseded", "held")
        summed = {name: sum(getattr(one, name) for one in results) for name in counts}
        versions = [one.version for one in results if one.version is not None]
        last = ([one for one in results if one.run_id is not None] or results)[-1]
        told = {"version": versions[-1] if versions else None, "more": results[-1].more}
        return last.model_copy(update={**summed, **told})

    def report(self, result: Rechecked) -> RunDueResult:
        return RunDueResult(rechecked=(result,))
