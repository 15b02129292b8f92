"""Does due work continuously: any number of workers, on any number of machines.

Due work is a state in the database and is claimed under a lease, so workers need not know of each other. They look for work
on a notification, when a piece of their own work has ended, and every few seconds. Correctness relies only on the last.
Now and then each worker also deletes the texts of messages past their retention and evicts what exceeds budgets; several
workers share that. Where vectors are on, each worker makes the missing ones.
"""

from __future__ import annotations

import asyncio
import logging
import traceback
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, fields, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from memory_sql.db.notifications import listen
from memory_sql.domain.ids import Id
from memory_sql.domain.results import Backlog, RunDueResult
from memory_sql.errors import DatabaseError, InputError, MemorySQLError, SchemaError
from memory_sql.jobs import DUE_KINDS, DueKind, DueWork
from memory_sql.jobs.outage import Outage
from memory_sql.jobs.seats import Seats
from memory_sql.later import later
from memory_sql.memory import Memory
from memory_sql.resources.clock import own_time

if TYPE_CHECKING:
    from memory_sql.shards import working
else:
    working = later("memory_sql.shards.working")

log = logging.getLogger(__name__)

FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.1, 10.0  # between attempts to reach the database
LISTEN_AGAIN_SECONDS = 1.0
BEGIN_AGAIN_SECONDS = 60.0  # after a bug in what runs beside the work
TELL_SECONDS, ANSWER_SECONDS, STALE = 5.0, 10.0, timedelta(minutes=1)
EMBED_SELDOMER = 6  # times as long a pause when the embedding model has failed
GRACE_SECONDS = 10.0
TAKING, LISTENING, EMBEDDING = "taking", "listening", "embedding"  # ways in which a worker meets an outage
GIVE_BACK_SECONDS = 5.0  # for interrupted work to give back its lease; else the lease expires


@dataclass(frozen=True, slots=True)
class Worked:
    """What a worker did. `failed` work is retried automatically or listed by `work.dead`; `interrupted` work is due again."""

    formed: int = 0
    consolidated: int = 0
    propagated: int = 0
    failed: int = 0
    interrupted: int = 0
    embedded: int = 0


@dataclass(frozen=True, slots=True)
class Health:
    """The state of a worker at a moment, by the machine's clock.

    `running`: pieces of work in progress. `backlog`: what waits, None while the database doesn't answer. `error`: why the
    database didn't answer; None: it did. `refusal`: what the model's provider said when it refused the key or the account,
    None if it doesn't.
    """

    at: datetime
    running: int
    worked: Worked
    backlog: Backlog | None = None
    error: str | None = None
    refusal: str | None = None

    @property
    def is_well(self) -> bool:
        """The database answered, and this state isn't stale."""
        return self.error is None and not self.is_stale

    @property
    def is_stale(self) -> bool:
        """This state is more than a minute old; a worker reports every few seconds."""
        return own_time() - self.at > STALE


class Worker:
    """Does due work, for one agent or all.

    `concurrency`: how many pieces of work run at once, which is the number of concurrent model calls; no connection is held
    during a model call. `poll_seconds`: how often to look for work when no notification arrives. `grace_seconds`: how long
    running work may continue after the stop. `watch` is called with the worker's `Health` every few seconds, in the event
    loop of `run`; it must return at once and not raise.
    """

    def __init__(
        self,
        memory: Memory,
        *,
        concurrency: int = 4,
        poll_seconds: float = 5.0,
        agent_id: Id | None = None,
        grace_seconds: float = GRACE_SECONDS,
        watch: Callable[[Health], None] | None = None,
    ) -> None:
        if concurrency < 1 or poll_seconds <= 0 or grace_seconds < 0:
            raise InputError("a worker needs concurrency ≥ 1, poll_seconds > 0 and grace_seconds ≥ 0")
        self._memory = memory
        self._agent_id = agent_id
        self._concurrency = concurrency
        self._poll_seconds = poll_seconds
        self._grace_seconds = grace_seconds
        self._watch = watch
        self._is_watched = watch is not None or memory.settings.telemetry
        self._asking: asyncio.Task[Backlog] | None = None  # what waits, while the database doesn't answer
        self._kinds = DUE_KINDS
        self._running: set[asyncio.Task[None]] = set()
        self._look = asyncio.Event()
        self._worked = Worked()
        self._seats = Seats(concurrency)
        self._parts = list[Worker]()  # of the shards, where there are some: they do the work
        self._outage = Outage(log, "the database is back")
        self._mute = Outage(log, "vectors: the embedding model answers again")

    async def run(self, stop: asyncio.Event) -> Worked:
        """Works until `stop` is set. Then it takes nothing new, and gives back what doesn't end in time.

        It survives every failure of the work, the model and the database, except `SchemaError`: then it needs another
        release. Raises `ConfigurationError` at once if there is no language model.
        """
        self._memory.require_llm()
        watched = (self._tell_on,) if self._is_watched else ()
        self._parts.clear()
        if self._memory._spread is not None:
            async with _beside(*watched):
                await working.work_in_each(self._memory._spread, self._part, stop)
            return self._all_worked
        async with _beside(self._listen, self._maintain, self._embed_on, self._recheck_on, *watched):
            return await self._until_stopped(self._take(stop), stop)

    def _part(self, shard: str, memory: Memory) -> Worker:
        """The worker of a shard. All of them together do as many pieces of work at once as this one says."""
        part = Worker(
            memory,
            concurrency=self._concurrency,
            poll_seconds=self._poll_seconds,
            agent_id=self._agent_id,
            grace_seconds=self._grace_seconds,
        )
        part._seats, part._is_watched = self._seats, False
        part._outage = Outage(log, "the database is back", f"shard {shard}: ")
        self._parts.append(part)
        return part

    @property
    def _all_worked(self) -> Worked:
        each = [self._worked, *(part._worked for part in self._parts)]
        return Worked(**{one.name: sum(getattr(worked, one.name) for worked in each) for one in fields(Worked)})

    async def run_once(self, stop: asyncio.Event | None = None) -> Worked:
        """Does what is due now and returns: conversations, then the scopes that are due after them, then retention, vectors.

        Raises `DatabaseError` if the database can't be reached, after finishing the claimed work. Raises
        `ConfigurationError` if there is no language model.
        """
        self._memory.require_llm()
        stop = stop or asyncio.Event()
        self._parts.clear()
        if self._memory._spread is not None:
            await working.work_once_in_each(self._memory._spread, self._part, stop)
            return self._all_worked
        return await self._until_stopped(self._take_once(stop), stop)

    async def _until_stopped(self, work: Coroutine[None, None, None], stop: asyncio.Event) -> Worked:
        self._worked = Worked()
        taking = asyncio.create_task(work)
        stopping = asyncio.create_task(stop.wait())
        stopping.add_done_callback(lambda _: self._look.set())
        try:
            await asyncio.wait({taking, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if stop.is_set():
                log.info("stopping; %s", self._left())
            with suppress(TimeoutError):
                async with asyncio.timeout(self._grace_seconds):
                    await asyncio.wait({taking})
                    await self._all_done()
        finally:  # also when this is cancelled itself
            stopping.cancel()
            await self._interrupt(taking)
        if taking.done() and not taking.cancelled():
            taking.result()  # raises what it ended by
        return self._worked

    async def _take(self, stop: asyncio.Event) -> None:
        pause, caught_up = FIRST_PAUSE_SECONDS, False
        while not stop.is_set():
            self._look.clear()
            started = False
            try:
                with self._outage.after(ANSWER_SECONDS, TAKING, _no_answer()):
                    if not caught_up:
                        await self._memory.work.catch_up()
                        caught_up = True
                    if self._seats.take(self._look):
                        started = await self._start_next(*self._kinds)
                        self._outage.ended(TAKING)
                pause = FIRST_PAUSE_SECONDS
            except SchemaError:
                raise
            except DatabaseError as error:
                self._outage.began(TAKING, str(error))
                await self._wait(pause)
                pause = min(pause * 2, LONGEST_PAUSE_SECONDS)
                continue
            if not started:
                await self._wait(self._poll_seconds)

    async def _tell_on(self) -> None:
        """Reports to `watch`; reading the backlog reports it to telemetry."""
        try:
            while True:
                health = await self.health()
                if self._watch is not None:
                    self._watch(health)
                await asyncio.sleep(TELL_SECONDS)
        finally:
            if self._asking is not None:
                self._asking.cancel()

    async def health(self) -> Health:
        """The current state. Reads the backlog from the database, waiting 10 seconds at most."""
        backlog, failure = None, None
        asking = self._asking or asyncio.create_task(self._memory.work.backlog(agent_id=self._agent_id))
        done, _ = await asyncio.wait({asking}, timeout=ANSWER_SECONDS)
        self._asking = None if done else asking  # a database that hangs isn't queried again and again
        try:
            backlog = asking.result() if done else None
        except DatabaseError as error:
            failure = str(error)
        if not done:
            failure = _no_answer()
        refusal = self._memory.work.refusal
        running = sum(len(one._running) for one in (self, *self._parts))
        return Health(own_time(), running, self._all_worked, backlog, failure, refusal)

    async def _take_once(self, stop: asyncio.Event) -> None:
        await self._memory.work.catch_up()
        for kind in DUE_KINDS:
            by = self._memory.now()  # what fails meanwhile is due later than that: it is tried once
            while not stop.is_set() and self._seats.take(self._look) and await self._start_next(kind, by=by):
                while len(self._running) >= self._concurrency:
                    await asyncio.wait(self._running, return_when=asyncio.FIRST_COMPLETED)
            await self._all_done()
        if not stop.is_set():
            await self._end_retention()
            await self._embed(whole=True)
            await self._recheck()

    async def _maintain(self) -> None:
        """At once, and then again and again."""
        while True:
            try:
                await self._end_retention()
                await self._memory.work.catch_up()  # what was stored while a setting changed waits by the old one
            except DatabaseError as error:
                await self._missed(error, "retention is enforced")
            await asyncio.sleep(self._memory.settings.maintenance_minutes * 60)

    async def _end_retention(self) -> None:
        complete = False
        while not complete:
            done = await self._memory.work.maintain(agent_id=self._agent_id)
            complete = done.complete
            if done.messages:
                log.info("retention: texts of %s messages deleted", done.messages)
            if done.evicted:
                log.info("retention: %s observations evicted", done.evicted)

    async def _embed_on(self) -> None:
        """New observations every few seconds; now and then all that have no vector."""
        clock, whole_at = asyncio.get_running_loop().time, 0.0
        while True:
            whole, embedded = clock() >= whole_at, False
            try:
                embedded = await self._embed(whole=whole)
            except DatabaseError as error:
                await self._missed(error, "vectors are made")
            if whole and embedded:
                whole_at = clock() + self._memory.settings.maintenance_minutes * 60
            await asyncio.sleep(self._poll_seconds if embedded else self._poll_seconds * EMBED_SELDOMER)

    async def _embed(self, *, whole: bool) -> bool:
        """Whether the model answered. A vector that fails stays missing, and searches work without it."""
        complete = False
        while not complete:
            try:
                done = await self._memory.work.embed(agent_id=self._agent_id, whole=whole)
            except DatabaseError:
                raise
            except MemorySQLError as error:
                self._mute.began(EMBEDDING, f"vectors: {error}")
                self._count(failed=1)
                return False
            self._mute.ended(EMBEDDING)
            complete = done.complete
            if done.embedded:
                log.info("vectors: %s observations embedded", done.embedded)
                self._count(embedded=done.embedded)
        return True

    async def _recheck_on(self) -> None:
        """Beside the other work, one model call at a time."""
        while True:
            try:
                await self._recheck()
            except DatabaseError as error:
                await self._missed(error, "texts are rechecked")
            await asyncio.sleep(max(self._memory.settings.recheck_minutes * 60, self._poll_seconds))

    async def _recheck(self) -> None:
        done = await self._memory.work.recheck(agent_id=self._agent_id)
        for one in done.rechecked:
            log.info("recheck of scope %s: %s pairs, %s superseded", one.scope.id, one.pairs, one.superseded)
        for name, reason in done.failed.items():
            log.warning("%s: %s", name, reason)
        self._count(failed=len(done.failed))

    async def _missed(self, error: DatabaseError, what: str) -> None:
        """Says nothing if the database is away: that is said once."""
        if not self._outage.is_on and (await self.health()).error is None:
            log.warning("%s; %s next time", error, what)

    async def _start_next(self, *kinds: DueKind, by: datetime | None = None) -> bool:
        """Whether something was due, which has the seat that the caller took; else that is given back.

        The kinds take turns at being looked for first, so that none starves.
        """
        with self._seats.asking() as keep:
            for kind in kinds:
                work = await self._memory.work.claim(kind, agent_id=self._agent_id, by=by)
                if work is not None:
                    self._kinds = (*self._kinds[1:], self._kinds[0])
                    keep()
                    self._start(work)
                    return True
        return False

    def _start(self, work: DueWork) -> None:
        task = asyncio.create_task(self._do(work))
        self._running.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        self._seats.give_back()
        self._look.set()

    async def _do(self, work: DueWork) -> None:
        try:
            done = await work()
        except asyncio.CancelledError:
            self._count(interrupted=1)
            raise
        except Exception as error:  # noqa: BLE001 (a bug in one piece of work stops no other)
            self._count(failed=1)
            _log_bug("a piece of work", error)
            return
        for event, sentence, counts in _told(done):
            facts = {"event": event, "agent_id": work.agent_id, "what": work.name, **counts}
            log.info("%s: %s", work.name, sentence, extra={"facts": facts})
        for name, reason in done.failed.items():
            facts = {"event": "failed", "agent_id": work.agent_id, "what": name, "reason": reason}
            log.warning("%s: %s", name, reason, extra={"facts": facts})
        self._count(
            formed=len(done.formed),
            consolidated=len(done.consolidated),
            propagated=sum(len(one.propagated) for one in done.propagated),
            failed=len(done.failed),
        )

    def _count(self, **more: int) -> None:
        """Adds to the counts of `Worked`, by name."""
        counted = {name: getattr(self._worked, name) + number for name, number in more.items()}
        self._worked = replace(self._worked, **counted)

    def _left(self) -> str:
        running = len(self._running)
        return f"{running} running, waiting {self._grace_seconds:g} s at most" if running else "nothing is running"

    async def _all_done(self) -> None:
        while self._running:
            await asyncio.wait(self._running)

    async def _interrupt(self, taking: asyncio.Task[None]) -> None:
        taking.cancel()  # first, so that nothing more is started
        await asyncio.sleep(0)  # a task cancelled before it starts couldn't give back its lease
        for task in self._running:
            task.cancel()
        left = {task for task in (taking, *self._running) if not task.done()}
        if left:
            await asyncio.wait(left, timeout=GIVE_BACK_SECONDS)

    async def _wait(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._look.wait()

    async def _listen(self) -> None:
        database = self._memory.database
        if database.pooled:
            return  # the pooler gives the listening connection to others
        while True:
            try:
                await listen(database, self._heard)
            except DatabaseError as error:
                self._outage.began(LISTENING, str(error))
            await asyncio.sleep(LISTEN_AGAIN_SECONDS)

    def _heard(self) -> None:
        self._outage.ended(LISTENING)
        self._look.set()


@asynccontextmanager
async def _beside(*work: Callable[[], Coroutine[None, None, None]]) -> AsyncIterator[None]:
    tasks = [asyncio.create_task(_go_on(each)) for each in work]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=GIVE_BACK_SECONDS)  # the database may not answer


async def _go_on(work: Callable[[], Coroutine[None, None, None]]) -> None:
    """A bug doesn't end it: what nobody waits for would stay undone, such as ending the retention of messages."""
    while True:
        try:
            return await work()
        except Exception as error:  # noqa: BLE001
            _log_bug("what runs beside the work", error)
        await asyncio.sleep(BEGIN_AGAIN_SECONDS)


def _no_answer() -> str:
    return f"the database hasn't answered for {ANSWER_SECONDS:g} s"


def _log_bug(what: str, error: Exception) -> None:
    """Without the message, which may quote a memory."""
    where = "".join(traceback.format_tb(error.__traceback__))
    log.error("%s failed with %s\n%s", what, type(error).__name__, where)


def _told(done: RunDueResult) -> Iterator[tuple[str, str, dict[str, int]]]:
    """What happened: a word, a sentence, and numbers by name; no content."""
    for formed in done.formed:
        messages, observations = formed.messages, len(formed.observations)
        said = f"{_many(messages, 'message')}, {_many(observations, 'observation')}"
        yield "formed", said, {"messages": messages, "observations": observations}
    for consolidated in done.consolidated:
        if consolidated.version is not None:
            absorbed, version = consolidated.absorbed, consolidated.version
            said = f"{_many(absorbed, 'observation')} absorbed by version {version}"
            yield "consolidated", said, {"absorbed": absorbed, "version": version}
    for judged in done.propagated:
        if judged.judged:
            propagated, claims = len(judged.propagated), len(judged.judged)
            said = f"{propagated} of {_many(claims, 'claim')} propagated"
            yield "propagated", said, {"propagated": propagated, "claims": claims}


def _many(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"
