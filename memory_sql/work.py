"""The work with a language model, from lease to ledger: load, decide, apply, in transactions that `Work` opens.

No connection is held while a model works. What fails is written to the ledger in a transaction of its own.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import datetime, timedelta
from functools import partial
from typing import Literal, get_args

from memory_sql import consolidation, vectors
from memory_sql.config import Settings
from memory_sql.db import Database, Session
from memory_sql.db.agents import agent_key_of, find_agent
from memory_sql.db.observations import ObservationRepository
from memory_sql.db.propagations import PropagationRepository
from memory_sql.db.runs import RunRepository, TakenRun
from memory_sql.db.scopes import DueColumn, ScopeRepository, ScopeState
from memory_sql.db.sessions import SessionRepository, SessionState
from memory_sql.db.states import StateRepository
from memory_sql.db.vectors import find_vectors
from memory_sql.domain import ConsolidateResult, EmbedResult, FormResult, PropagateResult, RunDueResult, ScopeRef
from memory_sql.errors import (
    BudgetError,
    BusyError,
    ConfigurationError,
    DatabaseError,
    InputError,
    LanguageModelError,
    MemorySQLError,
    NotFoundError,
    StaleError,
)
from memory_sql.formation import formation
from memory_sql.llm import LanguageModel
from memory_sql.llm.dialogue import NO_CALL
from memory_sql.llm.embeddings import EmbeddingModel
from memory_sql.propagation import propagation
from memory_sql.retry import pause

log = logging.getLogger("memory_sql")

DueKind = Literal["formation", "consolidation", "propagation"]
DUE_KINDS: tuple[DueKind, ...] = get_args(DueKind)  # each makes what the next one reads
EMBEDDED_AT_ONCE = 10_000  # observations, in one call of `run_due`
DueWork = Callable[[], Awaitable[RunDueResult]]


class Work:
    """`llm` and `embeddings` are asked for when work begins: what only reads doesn't pay for them. `now` is the clock."""

    def __init__(
        self,
        database: Database,
        llm: Callable[[], LanguageModel],
        settings: Settings,
        now: Callable[[], datetime],
        embeddings: Callable[[], EmbeddingModel | None],
    ) -> None:
        self._database = database
        self._make_llm = llm
        self._settings = settings
        self._now = now
        self._embeddings = embeddings

    @property
    def _llm(self) -> LanguageModel:
        return self._make_llm()

    async def form(self, agent_id: str, session_id: str) -> FormResult:
        loaded = await self._load_window(agent_id, session_id, "asked")
        return await self._form_from(agent_id, session_id, loaded)

    async def _load_window(self, agent_id: str, session_id: str, reason: str) -> formation.Loaded | None:
        _ = self._llm  # if there is none, that had better be known before a lease is taken
        async with self._database.transaction() as unit:
            return await formation.load(unit, agent_id, session_id, self._settings, self._now(), reason)

    async def _form_from(self, agent_id: str, session_id: str, loaded: formation.Loaded | None) -> FormResult:
        """This window, and those after it."""
        result = FormResult(session_id=session_id)
        while loaded is not None:
            result = _sum(result, await self._form_window(loaded))
            loaded = await self._load_window(agent_id, session_id, loaded.reason)
        return result

    async def _form_window(self, loaded: formation.Loaded) -> FormResult:
        settings, llm = self._settings.of_agent(loaded.session.agent_settings), self._llm
        try:
            async with self._keeping(lambda unit: SessionRepository(unit).extend(loaded.session, self._lease)):
                answered = await formation.decide(llm, loaded, settings)  # no connection is held here
            if loaded.answered is None:
                await self._persist(lambda unit: formation.keep(unit, loaded, answered, settings))
            async with self._database.transaction() as unit:
                applied = await formation.apply(unit, loaded, answered, settings, self._now())
                observations = await ObservationRepository(unit).by_keys(applied.agent_key, applied.saved.stored)
        except BaseException as error:  # also when cancelled: the lease goes back at once, and the ledger says why
            await asyncio.shield(self._record(formation.fail, loaded, error, settings))
            raise
        return FormResult(
            session_id=loaded.session.session_id,
            run_ids=(loaded.run.run_id,),
            messages=len(loaded.window),
            observations=observations,
            duplicates=len(applied.saved.known),
            refused=applied.refused,
            model=answered.usage.model,
        )

    async def consolidate(self, agent_id: str, scope_id: int, reason: str) -> ConsolidateResult:
        async with self._database.statement() as unit:
            agent_key = await agent_key_of(unit, agent_id)
        if agent_key is None:
            raise NotFoundError("agent", agent_id)
        scope, loaded = await self._load_batch(agent_id, agent_key, scope_id, reason)
        return await self._consolidate_from(agent_id, scope, loaded)

    async def _load_batch(
        self, agent_id: str, agent_key: int, scope_id: int, reason: str
    ) -> tuple[ScopeState, consolidation.Loaded | None]:
        _ = self._llm
        async with self._database.transaction() as unit:
            return await consolidation.load(unit, agent_id, agent_key, scope_id, self._settings, self._now(), reason)

    async def _consolidate_from(
        self, agent_id: str, scope: ScopeState, loaded: consolidation.Loaded | None
    ) -> ConsolidateResult:
        """This batch, and those after it."""
        absorbed, superseded, result = 0, 0, ConsolidateResult(scope=scope.ref)
        while loaded is not None:
            result = await self._consolidate_batch(loaded)
            absorbed, superseded = absorbed + result.absorbed, superseded + result.superseded
            _, loaded = await self._load_batch(agent_id, scope.agent_key, scope.scope_id, loaded.reason)
        return result.model_copy(update={"absorbed": absorbed, "superseded": superseded})

    async def _consolidate_batch(self, loaded: consolidation.Loaded) -> ConsolidateResult:
        settings, llm = self._settings.of_agent(loaded.scope.agent_settings), self._llm
        try:
            async with self._keeping(lambda unit: ScopeRepository(unit).extend(loaded.scope, self._lease)):
                decided = await consolidation.decide(llm, loaded, settings)  # no connection is held here
            async with self._database.transaction() as unit:
                applied = await consolidation.apply(unit, loaded, decided, settings, self._now())
        except BaseException as error:  # also when cancelled: the lease goes back at once, and the ledger says why
            await asyncio.shield(self._record(consolidation.fail, loaded, error, settings))
            raise
        return ConsolidateResult(
            scope=loaded.scope.ref,
            version=applied.version,
            absorbed=len(loaded.inputs),
            content=decided.content,
            run_id=loaded.run.run_id,
            model=decided.usage.model,
            superseded=applied.superseded,
        )

    async def propagate_all(self, agent_id: str, *, dry_run: bool) -> PropagateResult:
        """Of each scope with something to judge; one that fails stops no other."""
        async with self._database.statement() as unit:
            agent = await find_agent(unit, agent_id)
            if agent is None:
                raise NotFoundError("agent", agent_id)
            settings = self._settings.of_agent(agent.settings)
            found = PropagationRepository(unit, agent.key)
            scopes = await found.scopes(settings.propagation_excluded_users) if settings.propagation else []
        done, failed = [], {}
        for scope_id in scopes:
            try:
                done.append(await self.propagate(agent_id, scope_id, dry_run=dry_run))
            except (DatabaseError, ConfigurationError):
                raise
            except MemorySQLError as error:
                failed[f"propagation of scope {scope_id} of agent {agent_id}"] = str(error)
        return _told(None, done, dry_run=dry_run).model_copy(update={"failed": failed})

    async def propagate(self, agent_id: str, scope_id: int, *, dry_run: bool) -> PropagateResult:
        async with self._database.statement() as unit:
            agent_key = await agent_key_of(unit, agent_id)
        if agent_key is None:
            raise NotFoundError("agent", agent_id)
        scope, loaded = await self._load_claims(agent_id, agent_key, scope_id, propagation.ASKED)
        if dry_run and loaded is not None:
            return _told(scope.ref, [await self._judge(loaded, propagation.show)], dry_run=True)
        return await self._propagate_from(agent_id, scope, loaded)

    async def _load_claims(
        self, agent_id: str, agent_key: int, scope_id: int, reason: str, *, new_only: bool = False
    ) -> tuple[ScopeState, propagation.Loaded | None]:
        _ = self._llm
        settings, now = self._settings, self._now()
        async with self._database.transaction() as unit:
            return await propagation.load(unit, agent_id, agent_key, scope_id, settings, now, reason, new_only=new_only)

    async def _propagate_from(
        self, agent_id: str, scope: ScopeState, loaded: propagation.Loaded | None
    ) -> PropagateResult:
        """These claims, and after them those that nobody has judged yet."""
        done = []
        while loaded is not None:
            done.append(await self._judge(loaded, propagation.apply))
            reason, more = loaded.reason, loaded.more
            agent_key, scope_id = scope.agent_key, scope.scope_id
            loaded = (
                (await self._load_claims(agent_id, agent_key, scope_id, reason, new_only=True))[1] if more else None
            )
        return _told(scope.ref, done)

    async def _judge(self, loaded: propagation.Loaded, finish: propagation.Finish) -> PropagateResult:
        settings, llm = self._settings.of_agent(loaded.scope.agent_settings), self._llm
        try:
            async with self._keeping(lambda unit: ScopeRepository(unit).extend(loaded.scope, self._lease)):
                decided = await propagation.decide(llm, loaded, settings)  # no connection is held here
            async with self._database.transaction() as unit:
                verdicts = await finish(unit, loaded, decided, settings, self._now())
        except BaseException as error:  # also when cancelled: the lease goes back at once, and the ledger says why
            await asyncio.shield(self._record(propagation.fail, loaded, error, settings))
            raise
        judged, run_ids = tuple(item.told for item in verdicts), (loaded.run.run_id,)
        return PropagateResult(scope=loaded.scope.ref, judged=judged, run_ids=run_ids, model=decided.usage.model)

    @property
    def _lease(self) -> timedelta:
        return timedelta(seconds=self._settings.lease_seconds)

    @asynccontextmanager
    async def _keeping(self, extend: Callable[[Session], Awaitable[bool]]) -> AsyncIterator[None]:
        """Extends a lease every third of it while the model works, so that a short lease can carry a long call."""

        async def beat() -> None:
            while True:
                await asyncio.sleep(self._settings.lease_seconds / 3)
                try:
                    async with self._database.transaction() as unit:
                        if not await extend(unit):
                            return  # somebody else has it; what comes of the call will be refused
                except DatabaseError:
                    log.warning("a lease could not be extended; trying again")

        beating = asyncio.create_task(beat())
        try:
            yield
        finally:
            beating.cancel()
            await asyncio.wait([beating])

    async def rebuild(self, agent_id: str, scope_id: int) -> bool:
        """Writes the scope's text anew; False: something was in the way, and it stays due. What it is for is done."""
        try:
            await self.consolidate(agent_id, scope_id, "forget")
        except MemorySQLError as error:
            log.info("scope %s is to be written anew later: %s", scope_id, type(error).__name__)
            return False
        return True

    async def run_due(self, agent_id: str | None, limit: int) -> RunDueResult:
        await self.catch_up()
        done = []
        for kind in DUE_KINDS:
            by = self._now()
            for _ in range(limit):
                work = await self.claim_due(kind, agent_id, by)
                if work is None:
                    break
                done.append(await work())
        failed = {name: reason for one in done for name, reason in one.failed.items()}
        embedded = 0
        try:
            embedded = (await self.embed_due(agent_id, EMBEDDED_AT_ONCE, whole=True)).embedded
        except (LanguageModelError, ConfigurationError) as error:
            failed["vectors"] = str(error)
        return RunDueResult(
            formed=tuple(result for one in done for result in one.formed),
            consolidated=tuple(result for one in done for result in one.consolidated),
            propagated=tuple(result for one in done for result in one.propagated),
            embedded=embedded,
            failed=failed,
        )

    async def embed_due(self, agent_id: str | None, limit: int, *, whole: bool) -> EmbedResult:
        model, done, complete = self._embeddings(), 0, False
        if model is None or await self._has_no_vectors(model):
            return EmbedResult()
        while not complete and done < limit:
            async with self._database.transaction() as unit:
                loaded = await vectors.load(unit, model, agent_id, limit - done, self._settings, whole=whole)
            if not loaded:
                return EmbedResult(embedded=done)
            found = await vectors.decide(model, loaded, self._settings)  # no connection is held here
            async with self._database.transaction() as unit:
                stored = await vectors.apply(unit, model, found)
            done, complete = done + stored, stored == 0  # nothing: others are at the same
        return EmbedResult(embedded=done, complete=complete)

    async def _has_no_vectors(self, model: EmbeddingModel) -> bool:
        """Raises `ConfigurationError` where there is a table that this model's vectors can't be stored in."""
        async with self._database.statement() as unit:
            table = await find_vectors(unit)
        off = vectors.why_off(model, table)
        if table is not None and off is not None:
            raise ConfigurationError(off)
        return off is not None

    async def catch_up(self, agent_key: int | None = None) -> None:
        """Makes due what is due by the settings of now and wasn't by those before, of one agent or of all."""
        async with self._database.transaction() as unit:
            await SessionRepository(unit).make_due(agent_key, self._settings, self._now())
        async with self._database.transaction() as unit:
            await ScopeRepository(unit).make_due(agent_key, self._settings.consolidation_threshold, self._now())

    async def claim_due(self, kind: DueKind, agent_id: str | None, by: datetime) -> DueWork | None:
        _ = self._llm
        async with self._database.statement() as unit:
            if kind == "formation":
                session = await SessionRepository(unit).claim_due(agent_id, by, self._lease)
                return None if session is None else partial(self._form_due, session)
            what: DueColumn = "due_at" if kind == "consolidation" else "propagate_at"
            scope = await ScopeRepository(unit).claim_due(agent_id, by, self._lease, what)
            do = self._consolidate_due if kind == "consolidation" else self._propagate_due
            return None if scope is None else partial(do, *scope)

    async def _form_due(self, claimed: SessionState) -> RunDueResult:
        agent_id, session_id = claimed.agent_id, claimed.session_id
        try:
            loaded = await self._load_claimed_window(claimed)
            formed = await self._form_from(agent_id, session_id, loaded)
        except MemorySQLError as error:
            if (until := self._put_off(error)) is not None:
                async with self._database.transaction() as unit:
                    await SessionRepository(unit).postpone(agent_id, session_id, until)
            return RunDueResult(failed={f"session {session_id} of agent {agent_id}": str(error)})
        return RunDueResult(formed=(formed,))

    async def _load_claimed_window(self, claimed: SessionState) -> formation.Loaded | None:
        try:
            async with self._database.transaction() as unit:
                held = await SessionRepository(unit).lock(claimed)
                if held is None:
                    raise StaleError("session", claimed.session_id, "the lease on it was lost")
                return await formation.load_claimed(unit, held, self._settings, self._now(), "due")
        except BaseException as error:
            settings = self._settings.of_agent(claimed.agent_settings)
            await asyncio.shield(self._record(formation.give_back, claimed, error, settings))
            raise

    async def _consolidate_due(self, agent_id: str, claimed: ScopeState) -> RunDueResult:
        scope_id = claimed.scope_id
        try:
            loaded = await self._load_claimed_batch(agent_id, claimed)
            consolidated = await self._consolidate_from(agent_id, claimed, loaded)
        except MemorySQLError as error:
            if (until := self._put_off(error)) is not None:
                async with self._database.transaction() as unit:
                    await ScopeRepository(unit).postpone(agent_id, scope_id, until)
            return RunDueResult(failed={f"scope {scope_id} of agent {agent_id}": str(error)})
        return RunDueResult(consolidated=(consolidated,))

    async def _load_claimed_batch(self, agent_id: str, claimed: ScopeState) -> consolidation.Loaded | None:
        settings, now = self._settings, self._now()
        try:
            async with self._database.transaction() as unit:
                return await consolidation.load_claimed(unit, agent_id, claimed, settings, now, "threshold")
        except BaseException as error:
            own = settings.of_agent(claimed.agent_settings)
            await asyncio.shield(self._record(consolidation.give_back, claimed, error, own))
            raise

    async def _propagate_due(self, agent_id: str, claimed: ScopeState) -> RunDueResult:
        scope_id = claimed.scope_id
        try:
            loaded = await self._load_claimed_claims(agent_id, claimed)
            propagated = await self._propagate_from(agent_id, claimed, loaded)
        except MemorySQLError as error:
            if (until := self._put_off(error)) is not None:
                async with self._database.transaction() as unit:
                    await ScopeRepository(unit).postpone(agent_id, scope_id, until, "propagate_at")
            return RunDueResult(failed={f"propagation of scope {scope_id} of agent {agent_id}": str(error)})
        return RunDueResult(propagated=(propagated,))

    async def _load_claimed_claims(self, agent_id: str, claimed: ScopeState) -> propagation.Loaded | None:
        settings, now = self._settings, self._now()
        try:
            async with self._database.transaction() as unit:
                return await propagation.load_claimed(unit, agent_id, claimed, settings, now, "due")
        except BaseException as error:
            own = settings.of_agent(claimed.agent_settings)
            await asyncio.shield(self._record(propagation.give_back, claimed, error, own))
            raise

    def _put_off(self, error: MemorySQLError) -> datetime | None:
        """Until when what stays due has to wait; None: the ledger has said so already."""
        if isinstance(error, BudgetError):
            return error.until
        return self._now() + pause(0, self._settings) if isinstance(error, StaleError | BusyError) else None

    async def _record(
        self, failed: Callable[..., Awaitable[None]], what: object, error: BaseException, settings: Settings
    ) -> None:
        """In a transaction of its own: the one that failed is rolled back. Where it fails too, the lease runs out."""
        await self._persist(lambda unit: failed(unit, what, error, settings, self._now()))

    async def _persist(self, step: Callable[[Session], Awaitable[None]]) -> None:
        """A step that must not be lost to a passing failure of the database: what it stores was paid for."""
        for again_in in (0.1, 0.5, 2.0):
            with suppress(DatabaseError):
                async with self._database.transaction() as unit:
                    await step(unit)
                return
            await asyncio.sleep(again_in)
        async with self._database.transaction() as unit:
            await step(unit)

    async def retry(self, agent_id: str, run_id: int) -> None:
        now = self._now()
        async with self._database.transaction() as unit:
            agent_key, run = await self._take_dead(unit, agent_id, run_id, "failed")
            if run.session_id is not None:
                await SessionRepository(unit).revive(agent_key, run.session_id, run_id, now)
            if run.scope_id is not None and run.to_seq is not None:
                scopes = ScopeRepository(unit)
                (scope,) = await scopes.lock(agent_key, scope_ids=[run.scope_id])
                if not await StateRepository(unit).release(scope, [run.to_seq], now, run_id=run_id):
                    raise InputError(f"what run {run_id} set aside is known by now, or gone; discard the run")
                await scopes.refresh_due(agent_key, [run.scope_id], self._settings.consolidation_threshold, now)

    async def discard(self, agent_id: str, run_id: int) -> None:
        settings, now = self._settings, self._now()
        async with self._database.transaction() as unit:
            agent_key, run = await self._take_dead(unit, agent_id, run_id, "discarded")
            if run.session_id is None or run.to_number is None:
                return  # what a consolidation gave up is set aside already
            sessions = SessionRepository(unit)
            state = await sessions.locked(agent_key, run.session_id)
            if state.formed_number < run.to_number:
                await sessions.advance(state, run.to_number, settings, now)
            await RunRepository(unit).abandon(agent_key, now, session_id=run.session_id)

    async def _take_dead(self, unit: Session, agent_id: str, run_id: int, state: str) -> tuple[int, TakenRun]:
        """Locks first what the run was about, as everybody who ends a run does: else they wait for each other."""
        agent_key, runs = await agent_key_of(unit, agent_id), RunRepository(unit)
        run = None if agent_key is None else await runs.find_dead(agent_key, run_id)
        if agent_key is None or run is None:
            raise NotFoundError("run that was given up", str(run_id))
        if run.session_id is not None:
            await SessionRepository(unit).locked(agent_key, run.session_id)
        if run.scope_id is not None:
            await ScopeRepository(unit).lock(agent_key, scope_ids=[run.scope_id])
        if not await runs.take_dead(agent_key, run_id, state):
            raise NotFoundError("run that was given up", str(run_id))
        return agent_key, run


def _sum(a: FormResult, b: FormResult) -> FormResult:
    return FormResult(
        session_id=a.session_id,
        run_ids=a.run_ids + b.run_ids,
        messages=a.messages + b.messages,
        observations=a.observations + b.observations,
        duplicates=a.duplicates + b.duplicates,
        refused={name: a.refused.get(name, 0) + b.refused.get(name, 0) for name in {**a.refused, **b.refused}},
        model=b.model,
    )


def _told(scope: ScopeRef | None, done: Sequence[PropagateResult], *, dry_run: bool = False) -> PropagateResult:
    """What several calls decided, as one."""
    models = [one.model for one in reversed(done) if one.model is not None]
    return PropagateResult(
        scope=scope,
        judged=tuple(item for one in done for item in one.judged),
        run_ids=tuple(run_id for one in done for run_id in one.run_ids),
        model=next((model for model in models if model != NO_CALL.model), next(iter(models), None)),
        dry_run=dry_run,
    )
