"""What a `Memory` and its faces share: settings, the clock, connections, models."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import SecretStr

from memory_sql.config import Settings
from memory_sql.config.environment import warn_of_unread
from memory_sql.db import AsyncEngine, Database, Session
from memory_sql.db.answering import Primary
from memory_sql.db.engine import running_loop
from memory_sql.db.installation import placed_here
from memory_sql.db.principals import service
from memory_sql.db.urls import place_of
from memory_sql.db.waiting import Limits
from memory_sql.domain.arguments import optional_id, reason_of
from memory_sql.domain.ids import Id, aware, stored_id
from memory_sql.domain.reading import Asked, Retrieved
from memory_sql.errors import ConfigurationError, ForkedError, InputError, NotFoundError, SchemaError
from memory_sql.later import later
from memory_sql.llm import LanguageModel, OwnedModel
from memory_sql.llm.embeddings import EmbeddingModel
from memory_sql.resources.clock import DatabaseClock
from memory_sql.retrieval.counters import Counters
from memory_sql.retrieval.search import Reads
from memory_sql.retrieval.semantics import Semantics
from memory_sql.telemetry import Off, Telemetry, telemetry_of

if TYPE_CHECKING:
    from memory_sql import embedded
    from memory_sql.db import hosted, locks, migrate
    from memory_sql.db import replica as replicas
    from memory_sql.db.repositories import agents, retrievals
    from memory_sql.jobs import work
    from memory_sql.lifecycle import restoring
    from memory_sql.lifecycle.corrections import request
    from memory_sql.llm import select
    from memory_sql.resources import dialects
else:
    embedded = later("memory_sql.embedded")
    hosted = later("memory_sql.db.hosted")
    locks = later("memory_sql.db.locks")
    migrate = later("memory_sql.db.migrate")
    replicas = later("memory_sql.db.replica")
    agents = later("memory_sql.db.repositories.agents")
    retrievals = later("memory_sql.db.repositories.retrievals")
    work = later("memory_sql.jobs.work")
    restoring = later("memory_sql.lifecycle.restoring")
    request = later("memory_sql.lifecycle.corrections.request")
    select = later("memory_sql.llm.select")
    dialects = later("memory_sql.resources.dialects")

log = logging.getLogger("memory_sql")

Told = TypeVar("Told")
OF_THE_HOST = "custom"  # the provider of a model that the host made
NOT_OPEN = "this Memory is not open; use `async with Memory(…) as memory`"


class Runtime:
    """The connections of an open memory, and the models of the settings, created at their first use.

    A process that only reads doesn't import a model's client.
    """

    def __init__(
        self,
        settings: Settings,
        url: str | None,
        engine: AsyncEngine | None,
        read_url: str | Mapping[str, str] | None,
        llm: LanguageModel | None,
        embeddings: EmbeddingModel | None,
        clock: Callable[[], datetime] | None,
    ) -> None:
        if url is not None and engine is not None:
            raise InputError("pass url or engine=, not both")
        if isinstance(read_url, Mapping):
            raise ConfigurationError("read_url names replicas by shard, and there are no shards")
        self.settings = settings
        self._engine = None if engine is None else hosted.engine_of(engine)
        self._url = _revealed(settings.url) if url is None else url
        self._read_url = _revealed(settings.read_url) if read_url is None else read_url
        self._llm = llm
        self._given_embeddings = embeddings
        self._own_clock = None if clock else DatabaseClock()
        self.now: Callable[[], datetime] = partial(_moment, clock) if clock else self._time  # in UTC
        self._process = os.getpid()
        self._lender: Runtime | None = None
        self._reset()

    def borrow_models(self, lender: Runtime) -> None:
        """From now on its models are used, as of shards: an encoder is large, and each client has connections."""
        self._lender = lender

    def _reset(self) -> None:
        self._opened = AsyncExitStack()
        self.telemetry: Telemetry = Off()
        self._database: Database | None = None
        self._connected_to = list[Database]()
        self._server: embedded.Embedded | None = None
        self._own_llm: OwnedModel | None = None
        self._embeddings: EmbeddingModel | None = None
        self._looked_for_embeddings = False
        self._reads: Reads | None = None
        self._jobs: work.Jobs | None = None

    async def open(self, *, restoring: bool = False) -> None:
        if self._database is not None:
            self._check_process()
            raise InputError("this Memory is open already")
        running_loop()
        self._process = os.getpid()
        self._connected_to, self._server = [], None  # what an opening that failed has closed itself
        telemetry = telemetry_of(self.settings)
        async with AsyncExitStack() as opening:
            database = await self._connected(opening)
            await _check(database)
            self._tell_place(database)
            database.identity.incarnation = await _note_place(database)
            if self.settings.forget_journal is not None and not restoring:
                await _refuse_restored(database, self.settings.forget_journal, self.now())
            await self.compare_clocks(database)
            if self._own_clock is not None:
                opening.push_async_callback(self._own_clock.close)
            servers = Primary(database)
            if self._read_url is not None:
                servers = await self._with_replica(opening, database, self._read_url)
            counters = self._counting(database)
            opening.push_async_callback(counters.close)
            semantics = Semantics(self.settings, database, lambda: self.embeddings)
            opening.push_async_callback(semantics.close)
            self._reads = Reads(servers, self.settings, semantics, counters)
            self.telemetry = telemetry
            self._database, self._opened = database, opening.pop_all()

    async def compare_clocks(self, database: Database) -> None:
        if self._own_clock is not None:
            await self._own_clock.compare(database)

    def _time(self) -> datetime:
        """By the database's clock, with which it agrees again a minute after that was set."""
        assert self._own_clock is not None
        if self._database is not None:
            self._own_clock.compare_soon(self._database)
        return self._own_clock()

    async def _connected(self, opening: AsyncExitStack) -> Database:
        if self._engine is not None:
            return hosted.HostDatabase(
                self._engine, pool_size=self.settings.pool_size, limits=self._limits(), schema=self.settings.schema
            )
        database = self._connections(await self._start_embedded(opening) if self._url is None else self._url)
        opening.push_async_callback(database.close)
        if self._url is None:
            await _bring_up_to_date(database)
        return database

    async def _with_replica(self, opening: AsyncExitStack, database: Database, read_url: str) -> Primary:
        try:
            replica = self._connections(read_url)
        except ConfigurationError as error:
            raise ConfigurationError(f"read_url: {error}") from None
        opening.push_async_callback(replica.close)
        servers = replicas.Replicated(database, replica, self.settings.read_max_lag_seconds)
        opening.push_async_callback(servers.close)
        await servers.open()
        return servers

    def _connections(self, url: str) -> Database:
        database = Database(url, **self._of_settings())
        self._connected_to.append(database)
        return database

    def _of_settings(self) -> dict[str, Any]:
        return {"pool_size": self.settings.pool_size, "limits": self._limits(), "schema": self.settings.schema}

    def _limits(self) -> Limits:
        return Limits(
            lock=timedelta(seconds=self.settings.lock_timeout_seconds),
            connection=timedelta(seconds=self.settings.pool_timeout_seconds),
            idle=timedelta(seconds=self.settings.idle_timeout_seconds),
        )

    async def _start_embedded(self, opening: AsyncExitStack) -> str:
        if self.settings.is_embedded_by_default:
            warn_of_unread(self._embedded)
        server = await asyncio.to_thread(embedded.acquire, self.settings.embedded_data_dir)
        opening.push_async_callback(asyncio.to_thread, server.release)
        self._server = server
        return server.url

    @property
    def _embedded(self) -> str:
        return f"the embedded Postgres in {self.settings.embedded_data_dir}"

    def _tell_place(self, database: Database) -> None:
        is_embedded = self._engine is None and self._url is None
        log.info("memory is in %s", self._embedded if is_embedded else place_of(database.url))

    def _counting(self, database: Database) -> Counters:
        return Counters(
            partial(_add_retrievals, database.serving()),
            after_queries=self.settings.count_queries,
            after_seconds=self.settings.count_seconds,
        )

    async def close(self) -> None:
        """In a forked child nothing is closed: connections, models' too, and the embedded server are the parent's.

        Raises `InputError`, and closes nothing, in another event loop than the one in which it was opened, unless that has
        ended: then it is let go of.
        """
        if self._process == os.getpid():
            if self._database is not None and self._database.has_ended:
                await self._let_go()
            elif self._database is not None:
                self._database.check_loop()
            await self._opened.aclose()
        self._reset()

    async def _let_go(self) -> None:
        """What belongs to an event loop that has ended can't be closed any more; what doesn't is given back."""
        self._opened = AsyncExitStack()
        for database in self._connected_to:
            await database.let_go()
        if self._server is not None:
            await asyncio.to_thread(self._server.release)
        if self._own_clock is not None:
            self._own_clock = DatabaseClock()

    @property
    def database(self) -> Database:
        if self._database is None:
            raise InputError(NOT_OPEN)
        self._check_process()
        return self._database

    def _check_process(self) -> None:
        if self._process != os.getpid():
            raise ForkedError

    @property
    def has_llm(self) -> bool:
        """Whether a model was passed, or the settings name one."""
        return self._llm is not None or self.settings.llm_name is not None

    @property
    def llm(self) -> LanguageModel:
        """Raises `ConfigurationError`."""
        if self._lender is not None:
            return self._lender.llm
        if self._llm is not None:
            return self.telemetry.watch(self._llm, OF_THE_HOST)
        if self._own_llm is None:
            notes = dialects.Dialects(lambda: self.database, self.now)
            self._own_llm = select.language_model(self.settings, notes)
            self._opened.push_async_callback(self._own_llm.close)
        return self.telemetry.watch(self._own_llm, self.settings.llm_name or OF_THE_HOST)

    async def asked_by(self, model: str) -> str | None:
        """How our own client asks for the model, as far as that is known."""
        told = getattr(self._own_llm, "asked_by", None)
        return None if told is None else await told(model)

    @property
    def embeddings(self) -> EmbeddingModel | None:
        """None: there is none. Raises `ConfigurationError`."""
        if self._lender is not None:
            return self._lender.embeddings
        if not self._looked_for_embeddings:
            self._embeddings = self._given_embeddings or self._make_embeddings()
            self._looked_for_embeddings = True
        return self._embeddings

    def _make_embeddings(self) -> EmbeddingModel | None:
        own = select.embedding_model(self.settings)
        if own is not None:
            self._opened.push_async_callback(own.close)
        return own

    @property
    def reads(self) -> Reads:
        """What context, digest and search read from: the replica, if there is one."""
        if self._reads is None:
            raise InputError(NOT_OPEN)
        self._check_process()
        return self._reads

    async def replicated(self, receipt: Told, wait: bool) -> Told:
        """The receipt, once no read of a replica shows any more what was just forgotten; `wait` False: at once."""
        if wait:
            await self.reads.servers.reached()
        return receipt

    @property
    def jobs(self) -> work.Jobs:
        """Made when there is work to do: its steps cost time that what only adds and reads needn't spend."""
        if self._jobs is None:
            self._jobs = work.Jobs(
                self.database.serving(),
                lambda: self.llm,
                self.settings,
                self.now,
                lambda: self.embeddings,
                self.reads.semantics.vector,
                self.telemetry,
            )
            self._opened.push_async_callback(self._jobs.close)
        return self._jobs


class Face:
    """A part of `Memory`: opens its own transactions, or joins the host's."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    @property
    def _database(self) -> Database:
        return self._runtime.database

    @property
    def _settings(self) -> Settings:
        return self._runtime.settings

    @property
    def _jobs(self) -> work.Jobs:
        return self._runtime.jobs

    def _now(self) -> datetime:
        return self._runtime.now()


async def locked_agent(unit: Session, agent_id: str, what: str, key: str) -> int:
    """The key of the agent, locked. Raises the errors of `agent_key`."""
    found = await agent_key(unit, agent_id, what, key)
    await locks.lock_agent(unit, found)
    return found


async def agent_key(unit: Session, agent_id: str, what: str = "agent", key: str | None = None) -> int:
    """Raises `NotFoundError`, of what was asked for, where there is no such agent."""
    found = await agents.agent_key_of(unit, agent_id)
    if found is None:
        raise NotFoundError(what, agent_id if key is None else key)
    return found


def asked_of(agent_id: Id, actor: Id | None, reason: str | None, settings: Settings, now: datetime) -> request.Asked:
    """Without a user: for all of the agent."""
    nobody = {"agent_id": stored_id(agent_id, "agent_id"), "user_id": None, "conversation_id": None}
    return request.Asked(nobody, optional_id("actor", actor), reason_of(reason), settings, now)


async def settings_of(unit: Session, agent_id: str, settings: Settings) -> Settings:
    """The settings with those that the agent has of its own, if it is known."""
    known = await agents.find_agent(unit, agent_id)
    return settings if known is None else settings.of_agent(known.settings)


def _moment(clock: Callable[[], datetime]) -> datetime:
    return aware(clock(), "clock")


def _revealed(url: SecretStr | None) -> str | None:
    return url.get_secret_value() if url else None


async def _check(database: Database) -> None:
    await database.check_schema()
    await database.look()


async def _note_place(database: Database) -> str:
    """Its incarnation; a copy is known as one from its first opening on."""
    async with database.transaction(principal=service(None)) as unit:
        return (await placed_here(unit)).incarnation


async def _refuse_restored(database: Database, journal: Path, now: datetime) -> None:
    async with database.transaction(principal=service(None)) as unit:
        await restoring.refuse_restored(unit, journal, now)


async def _add_retrievals(database: Database, asked: Sequence[Asked], retrieved: Sequence[Retrieved]) -> None:
    async def add(unit: Session) -> None:
        await retrievals.add_retrievals(unit, asked)
        if retrieved:
            await retrievals.add_retrieved(unit, retrieved)

    await database.write(add)


async def _bring_up_to_date(database: Database) -> None:
    try:
        await database.check_schema()
    except SchemaError:
        url = database.url.render_as_string(hide_password=False)
        await asyncio.to_thread(migrate.upgrade, url, schema=database.schema)
