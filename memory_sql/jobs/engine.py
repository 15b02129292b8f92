"""Runs a job of any kind, from lease to ledger: load, decide, apply, in transactions of its own.

No connection is held while a model works, and the lease is kept meanwhile. What fails is recorded in a transaction of its
own: the one that failed is rolled back.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any, TypeGuard, TypeVar

from memory_sql.config import Settings
from memory_sql.db import Database, Session
from memory_sql.domain.results import RunDueResult
from memory_sql.errors import BudgetError, BusyError, DatabaseError, MemorySQLError, StaleError
from memory_sql.jobs.job import (
    AnyDueJob,
    Applied,
    Decided,
    DueJob,
    FollowedWork,
    Held,
    Job,
    Key,
    Loaded,
    Result,
    SharedJob,
    Step,
    TakenJob,
    Work,
)
from memory_sql.llm.retry import pause
from memory_sql.telemetry import Telemetry

log = logging.getLogger("memory_sql")

PERSIST_AGAIN_SECONDS = (0.1, 0.5, 2.0)
COUNTED = ("messages", "observations", "duplicates", "absorbed", "superseded", "judged", "propagated", "embedded")
RECORD_SECONDS = 5.0  # for a failure to be recorded by what is cancelled again meanwhile
Subject = TypeVar("Subject")
Asked = Job[Key, Held, Loaded, Decided, Applied, Result] | TakenJob[Key, Held, Loaded, Decided, Applied, Result]
Recorded = Callable[[Session, Subject, BaseException, Settings, datetime], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class DueWork:
    """A claimed piece of due work: call it once, at once. `more`: more work may be due.

    `name` describes it ("conversation monday of agent ada").
    """

    agent_id: str
    name: str
    more: bool
    _work: Callable[[], Awaitable[RunDueResult]]

    def __call__(self) -> Awaitable[RunDueResult]:
        """Does it. A failure is in the result."""
        return self._work()


class Engine:
    """`now` is the clock."""

    def __init__(
        self, database: Database, settings: Settings, now: Callable[[], datetime], telemetry: Telemetry
    ) -> None:
        self._database = database
        self._nobodys = database.naming_nobody()
        self._settings = settings
        self._now = now
        self._telemetry = telemetry
        self._lease = timedelta(seconds=settings.lease_seconds)

    async def run(self, job: Asked[Key, Held, Loaded, Decided, Applied, Result], key: Key, reason: str) -> Result:
        """All batches of what somebody asks for."""
        first = await self._load(job, key, reason, [])
        return await self._run(job, *first, reason)

    async def _load(
        self, job: Asked[Key, Held, Loaded, Decided, Applied, Result], key: Key, reason: str, so_far: list[Result]
    ) -> tuple[Held, Loaded | None]:
        if _is_taken(job):
            held = await self._database.write(partial(job.take, key=key, settings=self._settings), direct=True)
            if held is None:
                await self._database.write(partial(job.refuse, key=key))
            return held, await self._load_claimed(job, held, reason, job.let_go)
        at_once: Any = job
        for attempt in self._database.attempts():
            async with attempt as unit:
                loaded: tuple[Held, Loaded | None] = await at_once.load(
                    unit, key, self._settings, self._now(), reason, so_far
                )
        return loaded

    async def _run(
        self, job: Asked[Key, Held, Loaded, Decided, Applied, Result], held: Held, loaded: Loaded | None, reason: str
    ) -> Result:
        """This batch, and those after it."""
        results = list[Result]()
        more = True
        while more and loaded is not None:
            result, more = await self._run_batch(job, held, loaded)
            results.append(result)
            if more:
                following = await self._load(job, job.key(held), reason, results)
                held, loaded = following
        return job.total(held, results)

    async def _run_batch(
        self, job: Work[Any, Held, Loaded, Decided, Applied, Result], held: Held, loaded: Loaded
    ) -> tuple[Result, bool]:
        with self._telemetry.step(type(job).__name__.lower()) as step:
            result, more = await self._try_batch(job, held, loaded)
            step.count(**_counts(result))
        return result, more

    async def _try_batch(
        self, job: Work[Any, Held, Loaded, Decided, Applied, Result], held: Held, loaded: Loaded
    ) -> tuple[Result, bool]:
        settings = self._settings.of_agent(held.agent_settings)
        try:
            async with self._keeping(lambda unit: job.extend(unit, held, self._lease)):
                decided = await job.decide(loaded, settings)  # no connection is held here
            await self._keep(job, loaded, decided, settings)
            alone = job.applies_alone
            if _is_followed(job):
                decided = await self._settle(job, held, loaded, decided, settings)
                alone = alone and not job.applies_more(decided)
            if alone:
                given: dict[str, Any] = {"loaded": loaded, "decided": decided, "settings": settings}
                applied = await self._nobodys.write(partial(job.apply, **given, now=self._now()), direct=True)
                return job.result(loaded, decided, applied)
            for attempt in self._database.attempts():
                async with attempt as unit:
                    applied = await job.apply(unit, loaded, decided, settings, self._now())
        except BaseException as error:  # also when cancelled: the lease goes back at once, and the ledger says why
            await self._record(job.fail, loaded, error, settings)
            raise
        return job.result(loaded, decided, applied)

    async def _keep(
        self, job: Work[Any, Any, Loaded, Decided, Any, Any], loaded: Loaded, decided: Decided, settings: Settings
    ) -> None:
        keep = job.keep(loaded, decided, settings)
        if keep is not None:
            await self._persist(keep, direct=True)

    async def _settle(
        self,
        job: FollowedWork[Any, Held, Loaded, Decided, Any, Any],
        held: Held,
        loaded: Loaded,
        decided: Decided,
        settings: Settings,
    ) -> Decided:
        """With what the answer asks for looked up; what that has cost is kept as well."""
        async with self._keeping(lambda unit: job.extend(unit, held, self._lease)):
            settled = await job.settle(loaded, decided, settings, self._database.write)
        if settled is not decided:
            await self._keep(job, loaded, settled, settings)
        return settled

    async def claim_due(self, job: AnyDueJob, agent_id: str | None, by: datetime) -> DueWork | None:
        """What has been due longest, leased, as a call that does it; None where nothing is due."""
        held = await self._database.write(lambda unit: job.claim(unit, agent_id, by, self._lease), direct=True)
        if held is None:
            return None
        return DueWork(held.agent_id, job.name(held), job.may_be_more(held), partial(self._run_due, job, held))

    async def _run_due(self, job: Any, held: Any) -> RunDueResult:
        async with self._reported(job, held) as reported:
            beside = await self._claim_beside(job, held) if _is_shared(job) else ()
            if beside:
                return await self._run_together(job, [held, *beside])
            loaded = await self._load_claimed(job, held, job.due_reason, job.give_back)
            reported.append(job.report(await self._run(job, held, loaded, job.due_reason)))
        return reported[0]

    @asynccontextmanager
    async def _reported(self, job: AnyDueJob, held: Any) -> AsyncIterator[list[RunDueResult]]:
        """What was done with it, or why not."""
        reported = list[RunDueResult]()
        try:
            yield reported
        except MemorySQLError as error:
            if (until := self._put_off(error)) is not None:
                await self._postpone(job, held, until)
            reported.append(RunDueResult(failed={job.name(held): str(error)}))

    async def _claim_beside(self, job: SharedJob[Any, Held, Any, Any, Any, Any], held: Held) -> Sequence[Held]:
        own = self._settings.of_agent(held.agent_settings)
        claim = partial(job.beside, held=held, settings=own, now=self._now(), lease=self._lease)
        try:
            return await self._database.write(claim, direct=True)
        except BaseException as error:
            await self._record(job.give_back, held, error, own)
            raise

    async def _run_together(self, job: Any, held: Sequence[Any]) -> RunDueResult:
        """What fails of it stops no other. Where all is ended, what wasn't reached goes back."""
        done, loaded = RunDueResult(), list[tuple[Any, Any]]()
        unreached = {id(one): (job.give_back, one) for one in held}
        own = self._settings.of_agent(held[0].agent_settings)
        try:
            for one in held:
                del unreached[id(one)]
                async with self._reported(job, one) as failed:
                    batch = await self._load_claimed(job, one, job.due_reason, job.give_back)
                    loaded.append((one, batch))
                    if batch is not None:
                        unreached[id(one)] = (job.fail, batch)
                done = sum(failed, done)
            shared = job.together([batch for _, batch in loaded if batch is not None])
            async with AsyncExitStack() as leases:
                for one, _ in loaded:
                    await leases.enter_async_context(self._keeping(partial(job.extend, held=one, lease=self._lease)))
                for one, batch in loaded:
                    unreached.pop(id(one), None)
                    async with self._reported(job, one) as reported:
                        reported.append(job.report(await self._run(shared, one, batch, job.due_reason)))
                    done = sum(reported, done)
        except BaseException as error:
            for record, what in unreached.values():
                await self._record(record, what, error, own)
            raise
        return done

    async def _postpone(self, job: AnyDueJob, held: Any, until: datetime) -> None:
        await self._database.write(lambda unit: job.postpone(unit, held, until))

    async def _load_claimed(
        self, job: DueJob[Any, Held, Loaded, Any, Any, Any], held: Held, reason: str, give_back: Recorded[Held]
    ) -> Loaded | None:
        own = self._settings.of_agent(held.agent_settings)
        load = partial(job.load_claimed, held=held, settings=own, now=self._now(), reason=reason)
        try:
            async with self._keeping(lambda unit: job.extend(unit, held, self._lease)):
                return await self._database.write(load, single=_is_taken(job))
        except BaseException as error:
            await self._record(give_back, held, error, own)
            raise

    @asynccontextmanager
    async def _keeping(self, extend: Callable[[Session], Awaitable[bool]]) -> AsyncIterator[None]:
        """Extends a lease every third of it while the model works, so that a short lease can carry a long call."""
        beats = list[asyncio.Task[None]]()
        first = asyncio.get_running_loop().call_later(  # most calls are over by then, and need no task
            self._settings.lease_seconds / 3, lambda: beats.append(asyncio.create_task(self._extend_on(extend)))
        )
        try:
            yield
        finally:
            first.cancel()
            for beating in beats:
                beating.cancel()
                await asyncio.wait([beating])

    async def _extend_on(self, extend: Callable[[Session], Awaitable[bool]]) -> None:
        while True:
            try:
                if not await self._database.write(extend):
                    return  # somebody else has it; what comes of the call will be refused
            except DatabaseError:
                log.warning("a lease could not be extended; trying again")
            await asyncio.sleep(self._settings.lease_seconds / 3)

    async def _record(
        self,
        write: Recorded[Subject],
        what: Subject,
        error: BaseException,
        settings: Settings,
    ) -> None:
        """In a transaction of its own: the one that failed is rolled back. Where it fails too, the lease runs out.

        Who ends a process cancels twice: the worker what it runs, and the loop every task. Neither stops this.
        """
        recording = asyncio.create_task(self._persist(lambda unit: write(unit, what, error, settings, self._now())))
        try:
            await asyncio.shield(recording)
        except asyncio.CancelledError:
            await asyncio.wait([recording], timeout=RECORD_SECONDS)
            raise

    async def _persist(self, step: Step, *, direct: bool = False) -> None:
        """A step that must not be lost to a passing failure of the database: what it stores was paid for."""
        for again_in in PERSIST_AGAIN_SECONDS:
            with suppress(DatabaseError):
                await self._database.write(step, direct=direct)
                return
            await asyncio.sleep(again_in)
        await self._database.write(step, direct=direct)

    def _put_off(self, error: MemorySQLError) -> datetime | None:
        """Until when what stays due has to wait; None: the ledger has said so already."""
        if isinstance(error, BudgetError):
            return error.until
        return self._now() + pause(0, self._settings) if isinstance(error, StaleError | BusyError) else None


def _is_taken(job: object) -> TypeGuard[TakenJob[Any, Any, Any, Any, Any, Any]]:
    return hasattr(job, "take")


def _is_followed(job: object) -> TypeGuard[FollowedWork[Any, Any, Any, Any, Any, Any]]:
    return hasattr(job, "settle")


def _is_shared(job: object) -> TypeGuard[SharedJob[Any, Any, Any, Any, Any, Any]]:
    return hasattr(job, "beside")


def _counts(result: object) -> dict[str, int]:
    """What telemetry counts, as far as a result of this kind has it."""
    told = {name: getattr(result, name, None) for name in COUNTED}
    return {name: value if isinstance(value, int) else len(value) for name, value in told.items() if value is not None}
