"""What the rest of the library asks of background work: by name, what is due, and what was given up."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Literal, get_args

from memory_sql.config import Settings
from memory_sql.db import Database, Session
from memory_sql.db.principals import service
from memory_sql.db.queries.backlog import read_backlog
from memory_sql.db.queries.due import due_kinds
from memory_sql.db.repositories.agents import find_agent
from memory_sql.db.repositories.conversations import ConversationRepository
from memory_sql.db.repositories.propagations import PropagationRepository
from memory_sql.db.repositories.scopes import ScopeRepository
from memory_sql.domain.arguments import optional_callable
from memory_sql.domain.ids import moved, parse_scope_id
from memory_sql.domain.rechecks import Rechecked
from memory_sql.domain.results import (
    ConsolidateResult,
    EmbedResult,
    FormResult,
    Progress,
    PropagateResult,
    Receipt,
    RunDueResult,
    Step,
)
from memory_sql.errors import ConfigurationError, DatabaseError, LanguageModelError, MemorySQLError, NotFoundError
from memory_sql.formation.formation import ConversationKey
from memory_sql.jobs import dead
from memory_sql.jobs.breaker import Breaker
from memory_sql.jobs.consolidation import Consolidation
from memory_sql.jobs.embedding import Embedding, Wanted
from memory_sql.jobs.engine import DueWork, Engine
from memory_sql.jobs.formation import Formation
from memory_sql.jobs.job import AnyDueJob
from memory_sql.jobs.propagation import Propagation, total
from memory_sql.jobs.recheck import Recheck
from memory_sql.jobs.reformation import Reformation
from memory_sql.jobs.scopes import ScopeKey
from memory_sql.llm import LanguageModel
from memory_sql.llm.embeddings import EmbeddingModel, InTime
from memory_sql.llm.retry import deadline_of
from memory_sql.retrieval import vectors
from memory_sql.retrieval.semantics import QueryVector
from memory_sql.telemetry import Telemetry

log = logging.getLogger("memory_sql")

ASKED = "asked"
DueKind = Literal["formation", "consolidation", "propagation"]
DUE_KINDS: tuple[DueKind, ...] = get_args(DueKind)  # each makes what the next one reads
JOBS: dict[DueKind, Callable[[LanguageModel], AnyDueJob]] = {
    "consolidation": Consolidation,
    "propagation": Propagation,
}
TOLD: dict[DueKind, tuple[Step, str, str]] = {  # the step, the unit, and the field of `Backlog` that counts them
    "formation": ("forming", "conversations", "due_conversations"),
    "consolidation": ("consolidating", "scopes", "due_scopes"),
    "propagation": ("propagating", "scopes", "due_propagations"),
}
CAUGHT_UP_AT_ONCE = 500  # conversations or scopes that one transaction makes due, and holds
EMBEDDED_BEFORE = 500  # observations, before a consolidation
EMBEDDED_AT_ONCE = 10_000  # observations, in one call of `run_due`


class Jobs:
    """`llm` and `embeddings` are asked for when work begins: what only reads doesn't pay for them. `now` is the clock;
    `vector` gives that of what is looked for.

    Where there is no language model that is known before a lease is taken: a job is made with its model.
    """

    def __init__(
        self,
        database: Database,
        llm: Callable[[], LanguageModel],
        settings: Settings,
        now: Callable[[], datetime],
        embeddings: Callable[[], EmbeddingModel | None],
        vector: Callable[[str], Awaitable[QueryVector]],
        telemetry: Telemetry,
    ) -> None:
        self._database = database
        self.breaker = Breaker(settings, now)
        self._asked_llm = llm
        self._settings = settings
        self._now = now
        self._embeddings = embeddings
        self._in_time = InTime(deadline_of(settings.llm_timeout_seconds, settings.llm_max_retries))
        self.close = self._in_time.close
        self._vector = vector
        self._engine = Engine(database, settings, now, telemetry)
        self._catch_up_at: datetime | None = None

    def _llm(self) -> LanguageModel:
        return self.breaker.watch(self._asked_llm())

    def form(self, agent_id: str, conversation_id: str, metadata: Mapping[str, Any]) -> Coroutine[Any, Any, FormResult]:
        job = Formation(self._llm(), self._vector, metadata=metadata)
        return self._engine.run(job, ConversationKey(agent_id, conversation_id), ASKED)

    def form_again(self, agent_id: str, conversation_id: str) -> Coroutine[Any, Any, FormResult]:
        return self._engine.run(Reformation(self._llm()), ConversationKey(agent_id, conversation_id), ASKED)

    async def consolidate(self, agent_id: str, scope_id: int, reason: str) -> ConsolidateResult:
        job = Consolidation(self._llm())
        await self._embed_before(agent_id)
        return await self._engine.run(job, ScopeKey(agent_id, scope_id), reason)

    def propagate(self, agent_id: str, scope_id: int, *, dry_run: bool) -> Awaitable[PropagateResult]:
        return self._engine.run(Propagation(self._llm(), dry_run=dry_run), ScopeKey(agent_id, scope_id), ASKED)

    async def propagate_all(self, agent_id: str, *, dry_run: bool) -> PropagateResult:
        """Of each scope with something to judge; one that fails stops no other."""
        async with self._database.statement() as unit:
            agent = await find_agent(unit, agent_id)
            if agent is None:
                raise NotFoundError("agent", agent_id)
            settings = self._settings.of_agent(agent.settings)
            found = PropagationRepository(unit, agent.key)
            scopes = await found.scopes(settings.propagation_excluded_users, settings.sharing)
        done, failed = [], {}
        for scope_id in scopes:
            try:
                done.append(await self.propagate(agent_id, scope_id, dry_run=dry_run))
            except (DatabaseError, ConfigurationError):
                raise
            except MemorySQLError as error:
                failed[f"propagation of scope s{scope_id} of agent {agent_id}"] = str(error)
        return total(None, done, dry_run=dry_run).model_copy(update={"failed": failed})

    async def recheck(self, agent_id: str, scope_id: int) -> Rechecked:
        job = Recheck(self._llm())
        await self._embed_before(agent_id)
        return await self._engine.run(job, ScopeKey(agent_id, scope_id), ASKED)

    async def recheck_due(self, agent_id: str | None, limit: int) -> RunDueResult:
        """Of each scope that is due by now, at most so many; one that fails stops no other."""
        by, done, job = self._now(), RunDueResult(), Recheck(self._llm())
        for _ in range(limit):
            work = None if self.breaker.is_open else await self._engine.claim_due(job, agent_id, by)
            if work is None:
                break
            self.breaker.let_through()
            await self._embed_before(work.agent_id)
            done += await work()
            if not work.more:
                break
        return done

    async def rebuild(self, agent_id: str, scope_id: int) -> bool:
        """Rewrites the scope's text after something was forgotten; False: something was in the way, and it stays due."""
        try:
            await self.consolidate(agent_id, scope_id, "forget")
        except MemorySQLError as error:
            log.info("scope s%s will be rewritten later: %s", scope_id, type(error).__name__)
            return False
        return True

    async def rebuilt(self, agent_id: str, receipt: Receipt) -> Receipt:
        """The receipt of a forgetting after its texts have been rewritten, as far as that could be done."""
        done = [scope_id for scope_id in receipt.withheld if await self.rebuild(agent_id, parse_scope_id(scope_id))]
        withheld = tuple(scope_id for scope_id in receipt.withheld if scope_id not in done)
        return receipt.model_copy(update={"rebuilt": tuple(done), "withheld": withheld})

    async def run_due(
        self, agent_id: str | None, limit: int, progress: Callable[[Progress], None] | None = None
    ) -> RunDueResult:
        optional_callable("progress", progress)
        self._llm()  # where there is none, also when nothing is due
        await self._catch_up_now_and_then()
        async with self._database.reading() as reader:
            due = await due_kinds(reader, agent_id, self._now())
        done = RunDueResult()
        for kind in DUE_KINDS:
            if kind in due or done != RunDueResult():  # what one kind has made is due to the next
                done += await self._run_all(kind, agent_id, limit, progress)
        if "recheck" in due or (self._settings.recheck and done.consolidated):
            done += await self.recheck_due(agent_id, limit)
        if due and (refusal := self.breaker.refusal):
            done += RunDueResult(failed={"language model": refusal})
        try:
            embedded = await self.embed_due(agent_id, EMBEDDED_AT_ONCE, whole=True, progress=progress)
        except (LanguageModelError, ConfigurationError) as error:
            return done + RunDueResult(failed={"vectors": str(error)})
        return done + RunDueResult(embedded=embedded.embedded)

    async def _run_all(
        self, kind: DueKind, agent_id: str | None, limit: int, progress: Callable[[Progress], None] | None
    ) -> RunDueResult:
        """What is due by now, at most so many: what fails meanwhile is due later than that, and is tried once."""
        by, done = self._now(), RunDueResult()
        told = None if progress is None else await self._telling_due(kind, agent_id, by, limit, progress)
        for _ in range(limit):
            work = await self.claim_due(kind, agent_id, by)
            if work is None:
                break
            done += await work()
            if told is not None:
                told(done.pieces)
            if not work.more:
                break
        return done

    async def _telling_due(
        self, kind: DueKind, agent_id: str | None, by: datetime, limit: int, progress: Callable[[Progress], None]
    ) -> Callable[[int], None]:
        async with self._database.statement(principal=service(agent_id)) as unit:
            backlog = await read_backlog(unit, agent_id, by, self._settings)
        step, unit_of, due = TOLD[kind]
        return counted(step, unit_of, min(limit, getattr(backlog, due)), progress)

    async def embed_due(
        self, agent_id: str | None, limit: int, *, whole: bool, progress: Callable[[Progress], None] | None = None
    ) -> EmbedResult:
        model = self._embeddings()
        if model is None:
            return EmbedResult()
        told = None if progress is None else await self._telling(model, agent_id, limit, progress, whole=whole)
        return await self._engine.run(
            Embedding(self._in_time, model, limit, whole=whole, told=told), Wanted(agent_id), "due"
        )

    async def _telling(
        self,
        model: EmbeddingModel,
        agent_id: str | None,
        limit: int,
        progress: Callable[[Progress], None],
        *,
        whole: bool,
    ) -> Callable[[int], None]:
        async with self._database.statement(principal=service(agent_id)) as unit:
            missing = await vectors.count(unit, model, agent_id, limit, self._settings, whole=whole)
        return counted("embedding", "observations", missing, progress)

    async def _embed_before(self, agent_id: str) -> None:
        """What a consolidation reads: by its vectors it is shown beside what it may overtake. Without them, by its words."""
        try:
            await self.embed_due(agent_id, EMBEDDED_BEFORE, whole=False)
        except MemorySQLError as error:
            log.info("consolidating without new vectors: %s", type(error).__name__)

    async def _catch_up_now_and_then(self) -> None:
        """At first, and as often as a worker does: the settings of this process stay, but others store by theirs."""
        now = self._now()
        if self._catch_up_at is None or now >= self._catch_up_at:
            await self.catch_up()
            self._catch_up_at = moved(now, timedelta(minutes=self._settings.maintenance_minutes))

    async def catch_up(self) -> None:
        """Makes due, in batches, what wasn't by earlier settings and is by those of now, and what was given up long ago."""
        for due in (self._conversations_due, self._scopes_due):
            while await self._database.write(partial(due, None)):
                pass
        while await self._database.write(lambda unit: dead.retry_oldest(unit, self._settings, self._now())):
            pass

    async def make_due(self, session: Session, agent_key: int) -> None:
        """As `catch_up`, of one agent, in the transaction that changes its settings."""
        for due in (self._conversations_due, self._scopes_due):
            while await due(agent_key, session):
                pass

    def _conversations_due(self, agent_key: int | None, unit: Session) -> Awaitable[bool]:
        conversations = ConversationRepository(unit)
        return conversations.make_due(agent_key, self._settings, CAUGHT_UP_AT_ONCE, self._now())

    def _scopes_due(self, agent_key: int | None, unit: Session) -> Awaitable[bool]:
        threshold = self._settings.consolidation_threshold
        return ScopeRepository(unit).make_due(agent_key, threshold, CAUGHT_UP_AT_ONCE, self._now())

    async def claim_due(self, kind: DueKind, agent_id: str | None, by: datetime) -> DueWork | None:
        """None also while the provider of the model refuses everybody (`breaker`)."""
        if self.breaker.is_open:
            return None
        claimed = await self._engine.claim_due(self._job(kind), agent_id, by)
        if claimed is not None:
            self.breaker.let_through()
            if kind == "consolidation":
                await self._embed_before(claimed.agent_id)
        return claimed

    def _job(self, kind: DueKind) -> AnyDueJob:
        llm = self._llm()
        return Formation(llm, self._vector) if kind == "formation" else JOBS[kind](llm)

    async def retry(self, agent_id: str, run_id: int) -> None:
        await self._database.write(lambda unit: dead.retry(unit, agent_id, run_id, self._settings, self._now()))

    async def discard(self, agent_id: str, run_id: int) -> None:
        await self._database.write(lambda unit: dead.discard(unit, agent_id, run_id, self._settings, self._now()))


def counted(step: Step, unit: str, total: int, progress: Callable[[Progress], None]) -> Callable[[int], None]:
    """Takes how many are done. Others are at it meanwhile: the total is what was there at first, or what is done if more."""

    def told(count: int) -> None:
        most = max(total, count)
        progress(Progress(step=step, count=count, unit=unit, of=most, done=count, total=most))

    return told
