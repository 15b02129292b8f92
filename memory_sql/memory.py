"""The whole flow on one page: what goes in, what is made of it, what comes out. Read this first.

`Memory`, `Work` (what a model has part in) and `Groups` are the only openers of transactions. Work with a language model
goes in three steps: load and lease, in a transaction; ask the model, holding no connection; apply, in a transaction
that re-checks what was loaded.
"""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

from pydantic import SecretStr

from memory_sql import (
    budgets,
    context,
    corrections,
    diff,
    digest,
    embedded,
    forgetting,
    journal,
    maintenance,
    vectors,
)
from memory_sql.arguments import (
    budget_of,
    content_of,
    format_of,
    held_of,
    id_of,
    ids_of,
    moment_of,
    optional_id,
    owner_of,
    principal_of,
    reason_of,
    scope_key,
    sensitivity_of,
    source_of,
    tags_of,
    text_of,
    version_of,
    within,
    without_secrets,
)
from memory_sql.config import (
    RETRIEVAL_DAYS,
    VECTORS_OBSERVATIONS,
    Assembly,
    ContextFormat,
    Settings,
    checked_for_agent,
)
from memory_sql.counters import Counters, words_fall_short
from memory_sql.db import Database, Session
from memory_sql.db.agents import (
    Agent,
    agent_key_of,
    change_settings,
    ensure_agent,
    find_agent,
    next_by_budget,
    read_stats,
)
from memory_sql.db.backlog import read_backlog
from memory_sql.db.consolidations import ConsolidationRepository
from memory_sql.db.contexts import static_layer
from memory_sql.db.corrections import CorrectionRepository, Entry
from memory_sql.db.digests import Found, Wanted, begin, defaults_of, find
from memory_sql.db.engine import Reader, on_commit
from memory_sql.db.exports import export_of
from memory_sql.db.messages import MessageRepository
from memory_sql.db.observations import Draft, Evidence, ObservationRepository
from memory_sql.db.people import AliasRepository, HoldRepository, lock_agent, record
from memory_sql.db.principals import Principal, service
from memory_sql.db.propagations import PropagationRepository
from memory_sql.db.renames import RenameRepository
from memory_sql.db.retrievals import add_retrievals, large_scopes
from memory_sql.db.runs import RunRepository
from memory_sql.db.scopes import NewScope, ScopeRepository, ScopeState
from memory_sql.db.search import Sought, search, search_plan
from memory_sql.db.sessions import SessionRepository
from memory_sql.db.states import StateRepository
from memory_sql.db.vectors import VectorRepository, find_vectors
from memory_sql.db.verify import Measures, violations
from memory_sql.domain import (
    AddResult,
    Asked,
    Backlog,
    ConsolidateResult,
    Consolidation,
    Context,
    DeadRun,
    Diff,
    Digest,
    EmbedResult,
    ForgetTarget,
    FormResult,
    HeldClaim,
    MaintainResult,
    Marked,
    Message,
    Observation,
    PropagateResult,
    Receipt,
    RetainedMessage,
    RunDueResult,
    Scope,
    SearchResult,
    Sensitivity,
    SetAside,
    SourceKind,
    Stats,
    Surface,
    Trimmed,
    Verification,
    Violation,
    aware,
    owner_key,
    parse_observation_id,
    storable_metadata,
)
from memory_sql.errors import (
    ConfigurationError,
    InputError,
    InvalidMessageError,
    MemorySQLError,
    NotFoundError,
    SchemaError,
)
from memory_sql.formation import intake
from memory_sql.groups import Groups
from memory_sql.languages.dates import with_dates, zone_of
from memory_sql.languages.text import one_line
from memory_sql.languages.words import search_extra
from memory_sql.llm import LanguageModel, OwnedModel
from memory_sql.llm.embeddings import EmbeddingModel
from memory_sql.llm.select import embedding_model, language_model
from memory_sql.people import RENAME_KINDS, Alias, ExportLine, Hold, Renamed, RenameKind
from memory_sql.retrieval.decide import Fired, should_retrieve
from memory_sql.retrieval.query import Query, Weights, parse
from memory_sql.work import DueKind, DueWork, Work

log = logging.getLogger("memory_sql")

WORDS_ALONE = vectors.QueryVector()


class Memory:
    """Long-term memory in one Postgres.

    `url` None: the one of the settings, else the embedded Postgres, which is brought up to date by itself. `llm`
    None: the one of the settings. `embeddings`, which makes vectors, None: that of the settings, if they name one.
    `read_url`: of a replica, which context, digest and search ask, and which may lag behind. `clock` gives the present
    moment, aware; it is there for replays and tests.

    Ids are the host's own: text, integers or UUIDs. Every call names its agent; what reads also names the user who
    asks. A call with `session=` joins the host's transaction, which the host commits.
    """

    def __init__(
        self,
        url: str | None = None,
        llm: LanguageModel | None = None,
        settings: Settings | None = None,
        *,
        embeddings: EmbeddingModel | None = None,
        read_url: str | None = None,
        clock: Callable[[], datetime] | None = None,
    ) -> None:
        self.settings = settings or Settings.load()
        self._digest_defaults = defaults_of(self.settings)
        self._given_llm = llm
        self._own_llm: OwnedModel | None = None
        self._given_embeddings = embeddings
        self._embeddings: EmbeddingModel | None = None
        self._queries: vectors.Queries | None = None
        self._vectors_off: str | None = None
        self._looked_for_vectors = False
        self._url = url or _revealed(self.settings.url)
        self._read_url = read_url or _revealed(self.settings.read_url)
        self._clock = clock or (lambda: datetime.now(UTC))
        self._opened = AsyncExitStack()
        self._database: Database | None = None
        self._replica: Database | None = None
        self._counters: Counters | None = None

    async def open(self) -> Self:
        """Connects, once. Raises `SchemaError` when the database isn't at this release's revision."""
        if self._database is not None:
            raise InputError("this Memory is open already")
        async with AsyncExitStack() as opening:
            url = self._url or await self._start_embedded(opening)
            database = Database(url, pool_size=self.settings.pool_size)
            opening.push_async_callback(database.close)
            if self._url is None:
                await _bring_up_to_date(database)
            await database.check_schema()
            await database.find_walls()
            replica = None
            if self._read_url is not None:
                replica = Database(self._read_url, pool_size=self.settings.pool_size)
                opening.push_async_callback(replica.close)
                await replica.check_schema()
                await replica.find_walls()
            counters = Counters(
                partial(_add_retrievals, database.serving()),
                after_queries=self.settings.count_queries,
                after_seconds=self.settings.count_seconds,
            )
            opening.push_async_callback(counters.close)
            self._counters = counters
            self._database, self._replica, self._opened = database, replica, opening.pop_all()
        return self

    async def _start_embedded(self, opening: AsyncExitStack) -> str:
        server = await asyncio.to_thread(embedded.acquire, self.settings.embedded_data_dir)
        opening.push_async_callback(asyncio.to_thread, server.release)
        return server.url

    async def close(self) -> None:
        await self._opened.aclose()
        self._database = self._replica = self._own_llm = self._counters = self._embeddings = self._queries = None
        self._looked_for_vectors = False

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def database(self) -> Database:
        if self._database is None:
            raise InputError("this Memory is not open; use `async with Memory(…) as memory`")
        return self._database

    @property
    def _readable(self) -> Database:
        """What context, digest and search ask: the replica, where there is one."""
        return self._replica or self.database

    @property
    def llm(self) -> LanguageModel:
        """The one of the settings is made when it is first needed: what only reads doesn't pay for its import."""
        if self._given_llm is not None:
            return self._given_llm
        if self._own_llm is None:
            self._own_llm = language_model(self.settings)
            self._opened.push_async_callback(self._own_llm.close)
        return self._own_llm

    @property
    def embeddings(self) -> EmbeddingModel | None:
        """Made when it is first needed, as `llm`. None: there is none. Raises `ConfigurationError`."""
        if self._embeddings is None:
            self._embeddings = self._given_embeddings or self._own_embeddings()
        return self._embeddings

    def _own_embeddings(self) -> EmbeddingModel | None:
        own = embedding_model(self.settings)
        if own is not None:
            self._opened.push_async_callback(own.close)
        return own

    async def _semantics(self) -> vectors.Queries | None:
        """What makes the vectors of queries; None: words alone count, for the reason `_vectors_off`."""
        if not self._looked_for_vectors:
            await self._find_vectors()
        return self._queries

    async def _find_vectors(self) -> EmbeddingModel | None:
        """The embedding model, if its vectors count from now on.

        Asked when a search first wants to know, by `stats`, and by what fills them.
        """
        self._looked_for_vectors = True
        try:
            model = self.embeddings
        except ConfigurationError as error:
            self._vectors_off, self._queries = str(error), None
            return None
        table = None
        if model is not None:
            async with self._readable.statement(principal=service(None)) as unit:
                table = await find_vectors(unit)
        self._vectors_off = vectors.why_off(model, table)
        if model is None or self._vectors_off is not None:
            self._queries = None
            return None
        self._queries = self._queries or vectors.Queries(model, self.settings)
        return model

    @property
    def _lock_timeout(self) -> timedelta:
        return timedelta(seconds=self.settings.lock_timeout_seconds)

    @property
    def _work(self) -> Work:
        return Work(self.database.serving(), lambda: self.llm, self.settings, self.now, lambda: self.embeddings)

    @property
    def groups(self) -> Groups:
        """Groups of agents, and who belongs to them."""
        return Groups(self.database.serving(), self.settings, self.now)

    # What goes in

    async def add(
        self,
        messages: Iterable[Message | Mapping[str, Any]],
        *,
        agent_id: object,
        user_id: object,
        session_id: object,
        group_ids: Iterable[object] = (),
        idempotency_key: object | None = None,
        excluded: bool | None = None,
        time_zone: str | None = None,
        wait: bool = False,
        session: Session | None = None,
    ) -> AddResult:
        """Buffers the messages of a conversation, each once; they will be formed when a trigger fires.

        A message is known by its id within the session. Without one it is new every time, unless `idempotency_key`
        names the call: the same key with other messages is refused. `user_id` is the user who speaks where a message
        names no other; with `group_ids` the session takes place in these groups and its users belong to them. What is
        said while a session is `excluded` is never formed, and what is under way is refused; None leaves that as it is.
        `time_zone` is the IANA name of the zone in which "yesterday" is meant, kept for the session. `wait=True` forms a
        due session before returning; an error of that carries this call's result as `added`: the messages are stored.

        Secrets in what is said are masked before anything is stored, unless the setting `secrets` says otherwise.

        Raises `InputError` (nothing is stored) for a message, an id or a zone that can't be accepted.
        """
        if wait and session is not None:
            raise InputError(
                "wait=True needs a transaction of its own; leave out session=, or call form() after your commit"
            )
        agent, user, conversation = (
            id_of("agent_id", agent_id),
            id_of("user_id", user_id),
            id_of("session_id", session_id),
        )
        groups = ids_of("group_ids", group_ids)
        call = optional_id("idempotency_key", idempotency_key)
        zone = None if time_zone is None else zone_of(text_of("time_zone", time_zone)).key
        parsed = [
            Message.parse(message, position, self.settings.message_max_characters)
            for position, message in enumerate(messages)
        ]
        safe, masked = await self._screened(agent, parsed, session)
        async with self.database.statement(session, locks_for=self._lock_timeout) as unit:
            added = await SessionRepository(unit).add(
                self.settings,
                agent_id=agent,
                session_id=conversation,
                user_id=user,
                group_ids=groups,
                messages=[_buffered(intake.weigh(message), user, call, n) for n, message in enumerate(safe)],
                now=self.now(),
                excluded=excluded,
                time_zone=zone,
                next_id=None if call is None else f"{call}#{len(parsed)}",
            )
        if added.differs is not None:
            raise InvalidMessageError(added.differs, "another one came with this idempotency key before")
        result = AddResult(
            session_id=conversation,
            accepted=added.accepted,
            duplicates=len(parsed) - added.accepted,
            cleaned=sum(bool(message.cleaned) for message in parsed),
            masked=masked,
            trigger=added.due_reason if added.due_at and added.due_at <= self.now() else None,
        )
        if not wait or result.trigger is None:
            return result
        try:
            formed = await self.form(agent_id=agent, session_id=conversation)
        except MemorySQLError as error:
            error.added = result
            raise
        run_id = formed.run_ids[-1] if formed.run_ids else None
        return result.model_copy(update={"run_id": run_id, "observations": formed.observations})

    async def _screened(
        self, agent_id: str, messages: Sequence[Message], session: Session | None
    ) -> tuple[Sequence[Message], int]:
        """The messages as they are stored, and in how many of them something was masked.

        Only where there is a secret the agent's own setting is asked for: all others cost no round trip.
        """
        screened = intake.screen(messages)
        if not screened.found:
            return messages, 0
        async with self.database.statement(session, service(agent_id), locks_for=self._lock_timeout) as unit:
            secrets = (await self._settings_of(unit, agent_id)).secrets
        intake.refuse(screened, secrets)
        return (messages, 0) if secrets == "keep" else (screened.messages, len(screened.found))

    async def _settings_of(self, unit: Session, agent_id: str) -> Settings:
        known = await find_agent(unit, agent_id)
        return self.settings if known is None else self.settings.of_agent(known.settings)

    async def observe(
        self,
        text: str,
        *,
        agent_id: object,
        user_id: object | None = None,
        group_id: object | None = None,
        collective: bool = False,
        observed_at: datetime | None = None,
        session_id: object | None = None,
        speaker: str | None = None,
        scope: object | None = None,
        tags: Iterable[str] = (),
        metadata: Mapping[str, Any] | None = None,
        fact_key: object | None = None,
        session: Session | None = None,
    ) -> Observation:
        """Remembers one thing without a model: for the user, or for a group, or for everybody (`collective=True`).

        Beside `group_id` or `collective`, `user_id` is who said it. `scope` names a scope of its own beside the
        owner's. What the scope learnt last, word for word, is not stored again; it gains evidence. A relative date
        ("yesterday") is followed by the calendar's, reckoned from `observed_at` in the session's time zone. With
        `fact_key`, the host's name of the fact, it takes the place of what the scope held of that fact until then; by
        `observed_at`. What was quarantined in the scope, word for word, stays so.

        It is kept where the caller says, whatever it tells; what is sensitive is marked so. Secrets are masked, or
        refused (`InputError`), as the setting `secrets` says.
        """
        agent, now = id_of("agent_id", agent_id), self.now()
        user = optional_id("user_id", user_id)
        kind, owner_id = owner_of(user, group_id, collective)
        name = "" if scope is None else id_of("scope", scope)
        conversation = optional_id("session_id", session_id)
        content = content_of(text, self.settings.observation_max_characters)
        said_at = now if observed_at is None else aware(observed_at, "observed_at")
        draft = Draft(
            scope=NewScope(kind, owner_key(kind, owner_id), name, display_name=owner_id if kind == "group" else None),
            content=content,
            observed_at=said_at,
            source_kind="observe",
            evidence=(Evidence(user_id=user),),
            session_id=conversation,
            speaker=one_line(text_of("speaker", speaker)) or None,
            tags=tags_of(tags),
            metadata=storable_metadata(metadata or {}, self.settings.metadata_max_characters),
            fact_key=optional_id("fact_key", fact_key),
        )
        async with self.database.transaction(session, service(agent), locks_for=self._lock_timeout) as unit:
            known = await ensure_agent(unit, agent, now)
            settings = self.settings.of_agent(known.settings)
            zone = await SessionRepository(unit).time_zone(known.key, conversation) or settings.time_zone
            draft = _without_secrets(draft, settings)
            dated = with_dates(draft.content, said_at, zone_of(zone))
            draft = replace(draft, content=dated.text, dates=dated.days)
            scopes, observations = ScopeRepository(unit), ObservationRepository(unit)
            locked = await scopes.lock_or_make(known.key, [draft.scope], (), settings.language, now)
            if not locked[0].is_active:
                raise InputError(f"scope {locked[0].scope_id} is inactive")
            saved = await observations.save(known.key, [draft], locked, run_id=None, now=now)
            if draft.fact_key is not None and saved.stored:
                await corrections.replace_fact(unit, known.key, locked[0], draft.fact_key, settings, now)
            await scopes.refresh_due(known.key, [s.scope_id for s in locked], settings.consolidation_threshold, now)
            return (await observations.by_keys(known.key, saved.stored or saved.known))[0]

    # What is made of it

    async def unformed_sessions(self, *, agent_id: object) -> Sequence[str]:
        """The sessions that have messages which no formation has read, oldest first."""
        agent = id_of("agent_id", agent_id)
        async with self.database.statement(principal=service(agent)) as unit:
            return await SessionRepository(unit).unformed(agent)

    async def form(self, *, agent_id: object, session_id: object) -> FormResult:
        """Turns every message of the session that no formation has read into observations, whatever the triggers say.

        Raises `LanguageModelError` when the model fails (the messages stay), `BusyError` when somebody else is at it,
        `NotFoundError`. What was asked for is never given up (`dead_runs`): whoever asks sees the error.
        """
        return await self._work.form(id_of("agent_id", agent_id), id_of("session_id", session_id))

    async def consolidate(self, *, agent_id: object, scope_id: int, reason: str = "asked") -> ConsolidateResult:
        """Writes what is pending in the scope into its text; several versions where it is more than one batch.

        Raises `LanguageModelError` when the model fails or its text would do harm (the old text stays), `BusyError`,
        `NotFoundError`, `StaleError`.
        """
        return await self._work.consolidate(id_of("agent_id", agent_id), scope_key(scope_id), reason)

    async def run_due(self, *, agent_id: object | None = None, limit: int = 100) -> RunDueResult:
        """Does what is due, of one agent or of all: forms, consolidates, propagates, embeds; a failure stops no other.

        At most `limit` of each, one after another. A `Worker` does the same at once with several, and goes on.
        """
        return await self._work.run_due(optional_id("agent_id", agent_id), limit)

    async def embed_due(
        self, *, agent_id: object | None = None, limit: int = 10_000, whole: bool = True
    ) -> EmbedResult:
        """Makes the vectors that are missing of the embedding model, of one agent or of all, in batches, oldest first.

        Without `whole` only of what is newer than the newest vector of its scope, which is found quickly; a `Worker` does
        that every few seconds, and the whole now and then. Nothing without a model or without a table. Several at once do
        no harm, but the same work. Raises `LanguageModelError` when the model fails, `ConfigurationError` when the table's
        vectors have other dimensions than the model's.
        """
        agent, most = optional_id("agent_id", agent_id), within("limit", limit, 10**9)
        await self._find_vectors()
        return await self._work.embed_due(agent, most, whole=whole)

    async def claim_due(
        self, kind: DueKind, *, agent_id: object | None = None, by: datetime | None = None
    ) -> DueWork | None:
        """Takes what has been due longest, by now or by that time; to be called once, at once. None: nothing is due.

        No two callers, here or on other machines, get the same. What fails is told in the result and stays due for
        later; what is cancelled is due again at once, and what a crash interrupts when its lease has run out.
        """
        return await self._work.claim_due(kind, optional_id("agent_id", agent_id), by or self.now())

    async def undo(self, *, agent_id: object, scope_id: int) -> ConsolidateResult:
        """Takes back the newest consolidation of the scope: what it absorbed is pending again, the text before it is back.

        What it had superseded counts again, unless the same has been said since or somebody has changed it.
        It is a new version, not an erasure, and the scope isn't due before it learns something new. Raises
        `NotFoundError` for an unknown scope and where nothing is left to undo.
        """
        agent = id_of("agent_id", agent_id)
        async with self.database.transaction(principal=service(agent)) as unit:
            scopes, versions = ScopeRepository(unit), ConsolidationRepository(unit)
            scope = await self._locked_scope(unit, agent, scope_id)
            newest = await versions.newest_absorbing(scope)
            if newest is None:
                raise NotFoundError("consolidation to undo in scope", str(scope_id))
            version, text = await versions.rewind(scope, newest, "undo", self.now())
            await scopes.refresh_due(scope.agent_key, [scope_id], self.settings.consolidation_threshold, self.now())
            changed = await StateRepository(unit).changed_by_version(scope, version)
        return ConsolidateResult(
            scope=scope.ref,
            version=version,
            content=text,
            reinstated=changed.get("active", 0),
            left_superseded=changed.get("superseded", 0),
        )

    async def _locked_scope(self, unit: Session, agent_id: object, scope_id: int) -> ScopeState:
        agent_key = await agent_key_of(unit, id_of("agent_id", agent_id))
        locked = (
            [] if agent_key is None else await ScopeRepository(unit).lock(agent_key, scope_ids=[scope_key(scope_id)])
        )
        if not locked:
            raise NotFoundError("scope", str(scope_id))
        return locked[0]

    async def exclude(self, *, agent_id: object, session_id: object, excluded: bool = True) -> None:
        """From now on nothing that is said in the session is to be remembered, also not when asked to form it.

        What is under way is refused. Lifting it (`excluded=False`) doesn't bring back what was said meanwhile.
        """
        agent, conversation = id_of("agent_id", agent_id), id_of("session_id", session_id)
        async with self.database.transaction(principal=service(agent)) as unit:
            sessions = SessionRepository(unit)
            if excluded:
                agent_key = await sessions.exclude(agent, conversation)
            else:
                agent_key = await sessions.include(agent, conversation, self.settings, self.now())
            if agent_key is None:
                raise NotFoundError("session", conversation)
            if excluded:  # also an answer that was stored and waits to be applied
                await RunRepository(unit).abandon(agent_key, self.now(), session_id=conversation)

    async def configure(self, *, agent_id: object, **settings: object) -> dict[str, Any]:
        """Sets what differs for this agent, `None` takes it back; says all that it has of its own then.

        The settings are those of `config.AGENT_SETTINGS`. They hold from the next call on, in every process; what has
        become due by them is due at once. Raises `InputError` for a setting that isn't there or a value that it can't have.
        """
        agent, given = id_of("agent_id", agent_id), checked_for_agent(settings)
        unset = [name for name in settings if name not in given]
        async with self.database.transaction(principal=service(agent)) as unit:
            known = await ensure_agent(unit, agent, self.now())
            await change_settings(unit, known.key, given, unset)
        await self._work.catch_up(known.key)
        return await self.agent_settings(agent_id=agent)

    async def agent_settings(self, *, agent_id: object) -> dict[str, Any]:
        """What the agent has of its own, by name; of an agent that was never seen: nothing."""
        agent = id_of("agent_id", agent_id)
        async with self.database.statement(principal=service(agent)) as unit:
            found = await find_agent(unit, agent)
        return {} if found is None else {name: found.settings[name] for name in sorted(found.settings)}

    async def catch_up(self) -> None:
        """Makes due what is due by this Memory's settings and wasn't by those of the process before; a worker begins so."""
        await self._work.catch_up()

    async def maintain(self, *, agent_id: object | None = None, limit: int = 100_000) -> MaintainResult:
        """Takes the texts of messages whose retention (`message_retention_days`) is over, of one agent or of all.

        At most `limit`, in transactions of `maintenance_batch`. What hasn't been formed yet is kept, and what a legal hold
        covers. A stub of each message stays: it isn't taken twice, and what was made of it leads to it. Then evicts, as
        `trim` does, at most `limit` observations of agents whose `retention` is budget. Several at once share the work. A
        `Worker` does it by itself.
        """
        agent, most = optional_id("agent_id", agent_id), within("limit", limit, 10**9)
        sweep = maintenance.Sweep()
        while sweep.after is not None and sweep.messages < most:
            async with self.database.transaction(principal=service(agent)) as unit:
                left, now = most - sweep.messages, self.now()
                sweep = await maintenance.end_retention(unit, agent, sweep, left, self.settings, now)
        evicted = await self._trim_all(agent, most)
        return MaintainResult(messages=sweep.messages, evicted=evicted, complete=sweep.after is None and evicted < most)

    async def _trim_all(self, agent_id: str | None, most: int) -> int:
        """Of that agent or of all, where retention is by budget; how many observations went."""
        evicted, after = 0, 0
        while evicted < most:
            async with self.database.transaction(principal=service(agent_id)) as unit:
                found = await next_by_budget(unit, agent_id, self.settings.retention, after)
            if found is None:
                break
            agent, known = found
            evicted += (await self._trim(agent, known, most - evicted)).observations
            after = known.key
        return evicted

    async def backlog(self, *, agent_id: object | None = None) -> Backlog:
        """How much is due, in progress, to be tried again, given up; of one agent or of all."""
        agent = optional_id("agent_id", agent_id)
        async with self.database.statement(principal=service(agent)) as unit:
            return await read_backlog(unit, agent, self.now())

    async def dead_runs(self, *, agent_id: object | None = None, limit: int = 100) -> Sequence[DeadRun]:
        """Work that was given up, oldest first; it waits for `retry` or `discard`."""
        agent = optional_id("agent_id", agent_id)
        async with self.database.statement(principal=service(agent)) as unit:
            return await RunRepository(unit).dead(agent, within("limit", limit, 1000))

    async def retry(self, *, agent_id: object, run_id: int) -> None:
        """Makes work that was given up due again. Raises `NotFoundError`."""
        await self._work.retry(id_of("agent_id", agent_id), run_id)

    async def discard(self, *, agent_id: object, run_id: int) -> None:
        """Goes on without the work that was given up: its messages are skipped, its observations quarantined.

        Nothing is deleted. Raises `NotFoundError`.
        """
        await self._work.discard(id_of("agent_id", agent_id), run_id)

    async def forget(
        self,
        *,
        agent_id: object,
        user_id: object | None = None,
        session_id: object | None = None,
        group_id: object | None = None,
        message_id: object | None = None,
        observation_id: str | None = None,
        fact_key: str | None = None,
        tag: str | None = None,
        query: str | None = None,
        source: SourceKind | None = None,
        run_id: int | None = None,
        everything: bool = False,
        dry_run: bool = False,
        wait: bool = True,
        actor: object | None = None,
        reason: str | None = None,
        session: Session | None = None,
    ) -> Receipt:
        """Takes something out of memory, with all that was made of it and the words that it was made of.

        A user (with everything they said, owned and that only they stand behind), a session, a group, all of the agent
        (`everything=True`), a message of a session, or observations: one by id, or those with all of the given fact key,
        tag, words, source and run; beside these, user, group and session narrow the choice. `dry_run` only says what
        would go.

        It is gone when this returns, from texts as well: a text that held it is as it was before, or missing, with what
        is pending shown instead, until it has been written anew from what is left; with `wait` that is tried before
        returning, and where the model fails it stays due (`withheld` in the receipt). What an open legal hold covers is
        kept. Raises `InputError`, `NotFoundError` (an unknown agent or observation), `HeldError`.
        """
        agent, now = id_of("agent_id", agent_id), self.now()
        target = ForgetTarget.of(
            user_id=optional_id("user_id", user_id),
            session_id=optional_id("session_id", session_id),
            group_id=optional_id("group_id", group_id),
            message_id=optional_id("message_id", message_id),
            observation_id=observation_id,
            fact_key=fact_key,
            tag=tag,
            query=query,
            source=source,
            run_id=run_id,
            everything=everything,
            actor=optional_id("actor", actor),
            reason=text_of("reason", reason) or None,
        )
        async with self.database.transaction(session, service(agent)) as unit:
            agent_key = await agent_key_of(unit, agent)
            if agent_key is None:
                raise NotFoundError("agent", agent)
            if dry_run:
                return await forgetting.preview(unit, agent_key, target, self.settings, now)
            take_out = forgetting.take_out_agent if everything else forgetting.take_out
            forgotten = await take_out(unit, agent, agent_key, target, self.settings, now)
            self._write_down(unit, forgotten.entry, theirs=session is not None)
        receipt = forgotten.receipt
        if not wait or session is not None:
            return receipt
        rebuilt = [scope_id for scope_id in receipt.withheld if await self._work.rebuild(agent, scope_id)]
        withheld = tuple(scope_id for scope_id in receipt.withheld if scope_id not in rebuilt)
        return receipt.model_copy(update={"rebuilt": tuple(rebuilt), "withheld": withheld})

    def _write_down(self, unit: Session, entry: journal.Entry, *, theirs: bool) -> None:
        """In the journal, if there is one: what goes, before our commit, and that it went, after it."""
        path = self.settings.forget_journal
        if path is None:
            return
        if not theirs:
            journal.plan(path, entry)
            on_commit(unit, partial(journal.done, path, entry.id))
            return

        def both() -> None:  # the host may still roll back
            journal.plan(path, entry)
            journal.done(path, entry.id)

        on_commit(unit, both)

    async def forget_again(self, journal_file: Path, *, unsure: bool = False) -> list[Receipt]:
        """Forgets on a restored database what the journal says and the database doesn't know of; to be run before use.

        What isn't known to have been committed is left out, unless `unsure`. Of an agent that isn't there, nothing is.
        """
        receipts = []
        for entry, committed in journal.entries(journal_file):
            if not committed and not unsure:
                continue
            async with self.database.transaction(principal=service(entry.agent_id)) as unit:
                agent_key = await agent_key_of(unit, entry.agent_id)
                if agent_key is not None:
                    receipts.append(await forgetting.again(unit, agent_key, entry, self.settings, self.now()))
        return [receipt for receipt in receipts if receipt is not None]

    async def trim(self, *, agent_id: object, dry_run: bool = False) -> Trimmed:
        """Evicts what scopes keep beyond the agent's budgets (`retention` = budget); `dry_run` only says what would go.

        What has one of the digest's pinned keys or tags, is disputed, or is held by a legal hold stays: scopes that it keeps
        over their budgets are named. Each scope is done by itself, in bounded transactions. Raises `NotFoundError`.
        """
        agent = id_of("agent_id", agent_id)
        async with self.database.transaction(principal=service(agent)) as unit:
            known = await find_agent(unit, agent)
        if known is None:
            raise NotFoundError("agent", agent)
        return await self._trim(agent, known, dry_run=dry_run)

    async def _trim(self, agent_id: str, known: Agent, most: int | None = None, *, dry_run: bool = False) -> Trimmed:
        """Evicts at most so many observations, scope by scope."""
        settings, trimmed = self.settings.of_agent(known.settings), Trimmed(dry_run=dry_run)
        async with self.database.transaction(principal=service(agent_id)) as unit:
            over = await budgets.scopes_over(unit, known.key, settings)
        sweep = budgets.preview if dry_run else budgets.trim
        for scope_id in over:
            is_whole = False
            while not is_whole and (batch := budgets.next_batch(settings, most, trimmed)):
                async with self.database.transaction(principal=service(agent_id)) as unit:
                    done, is_whole = await sweep(unit, known.key, scope_id, settings, batch, self.now())
                trimmed = budgets.added(trimmed, done)
        return trimmed

    # What goes to wider scopes of what was made

    async def propagate(
        self, *, agent_id: object, scope_id: int | None = None, dry_run: bool = False
    ) -> PropagateResult:
        """Judges what a scope's text has taken in for the scopes one level up, and stores there what may go.

        From an individual scope to the groups of its user, from a group to the collective scope. Without `scope_id`, of each
        scope of the agent with something to judge, first the individual ones: what their groups gain by it waits for the
        next text; a scope that fails is in `failed` and stops no other. What was decided before isn't judged again.
        `dry_run`: asks the model and stores nothing but what it cost. Raises `LanguageModelError` when the model fails
        (nothing has gone anywhere), `BusyError`, `NotFoundError`, `StaleError`.
        """
        agent = id_of("agent_id", agent_id)
        if scope_id is None:
            return await self._work.propagate_all(agent, dry_run=dry_run)
        return await self._work.propagate(agent, scope_key(scope_id), dry_run=dry_run)

    async def held_claims(
        self, *, agent_id: object, limit: int = 100, session: Session | None = None
    ) -> Sequence[HeldClaim]:
        """Claims that many new users made at once, and that wait for `review`, oldest first."""
        agent, most = id_of("agent_id", agent_id), within("limit", limit, 1000)
        async with self.database.statement(session, service(agent)) as unit:
            agent_key = await agent_key_of(unit, agent)
            return [] if agent_key is None else await PropagationRepository(unit, agent_key).held(most)

    async def review(
        self,
        observation_id: str,
        *,
        agent_id: object,
        target_scope_id: int,
        release: bool,
        actor: object | None = None,
        reason: str | None = None,
        session: Session | None = None,
    ) -> None:
        """Says of a held claim whether it may go to that scope: it is judged again, or never. Raises `NotFoundError`."""
        agent, source = id_of("agent_id", agent_id), parse_observation_id(observation_id)
        target, entry = scope_key(target_scope_id), Entry(optional_id("actor", actor), reason_of(reason), self.now())
        outcome: Literal["released", "refused"] = "released" if release else "refused"
        async with self.database.transaction(session, service(agent), locks_for=self._lock_timeout) as unit:
            agent_key = await agent_key_of(unit, agent)
            if agent_key is None:
                raise NotFoundError("agent", agent)
            await ScopeRepository(unit).lock(agent_key, scope_ids=[source[0]])
            if not await PropagationRepository(unit, agent_key).review(source, target, outcome, entry.at):
                raise NotFoundError("held claim", observation_id)
            await CorrectionRepository(unit, agent_key).record("review", source, {"to": outcome, "for": target}, entry)

    # What a person corrects; each takes effect in the next context, and is an event with who did it and why

    async def update(
        self,
        observation_id: str,
        *,
        agent_id: object,
        user_id: object,
        text: str,
        tags: Iterable[str] | None = None,
        metadata: Mapping[str, Any] | None = None,
        if_version: int | None = None,
        actor: object | None = None,
        reason: str | None = None,
        session: Session | None = None,
    ) -> Observation:
        """The observation that takes the place of this one, on the word of `user_id`; tags and metadata go over to it.

        The old one stays in history. `actor` is who did it, if not the user. `if_version`: only if the observation still
        has that `version`. Raises `VersionError` when it hasn't, or when it is active no more; `InputError`;
        `NotFoundError`, also for what this user may not see.
        """
        asked = self._asked(principal_of(agent_id, user_id, None), actor, reason)
        content = content_of(text, self.settings.observation_max_characters)
        given = None if tags is None else tags_of(tags)
        extra = None if metadata is None else storable_metadata(metadata, self.settings.metadata_max_characters)
        async with self.database.transaction(session, asked.service, locks_for=self._lock_timeout) as unit:
            secrets = (await self._settings_of(unit, asked.principal["agent_id"])).secrets
            content = without_secrets("the observation", content, secrets)
            given = None if given is None else tuple(without_secrets("tags", list(given), secrets))
            extra = None if extra is None else without_secrets("metadata", extra, secrets)
            return await corrections.update(unit, asked, observation_id, content, given, extra, if_version)

    async def supersede(
        self,
        old_id: str,
        new_id: str,
        *,
        agent_id: object,
        user_id: object,
        if_version: int | None = None,
        actor: object | None = None,
        reason: str | None = None,
        session: Session | None = None,
    ) -> Observation:
        """The old observation, in whose place the new one, of the same scope and newer, stands from now on.

        Raises as `update` does.
        """
        asked = self._asked(principal_of(agent_id, user_id, None), actor, reason)
        async with self.database.transaction(session, asked.service, locks_for=self._lock_timeout) as unit:
            return await corrections.supersede(unit, asked, old_id, new_id, if_version)

    async def reinstate(
        self,
        observation_id: str,
        *,
        agent_id: object,
        user_id: object,
        if_version: int | None = None,
        actor: object | None = None,
        reason: str | None = None,
        session: Session | None = None,
    ) -> Observation:
        """The observation, which stands again beside what had taken its place.

        Raises `InputError` where it isn't superseded or an active one says the same; else as `update` does.
        """
        asked = self._asked(principal_of(agent_id, user_id, None), actor, reason)
        async with self.database.transaction(session, asked.service, locks_for=self._lock_timeout) as unit:
            return await corrections.reinstate(unit, asked, observation_id, if_version)

    async def confirm(self, observation_id: str, *, agent_id: object, user_id: object, **more: Any) -> Observation:
        """The observation, `confirmed` on the word of `user_id`. Takes and raises what `update` does."""
        return await self._verify(observation_id, agent_id, user_id, "confirmed", **more)

    async def dispute(self, observation_id: str, *, agent_id: object, user_id: object, **more: Any) -> Observation:
        """The observation, `disputed`: the context says so, and who says it again says something new.

        Takes and raises what `update` does.
        """
        return await self._verify(observation_id, agent_id, user_id, "disputed", **more)

    async def _verify(
        self,
        observation_id: str,
        agent_id: object,
        user_id: object,
        verification: Verification,
        *,
        if_version: int | None = None,
        actor: object | None = None,
        reason: str | None = None,
        session: Session | None = None,
    ) -> Observation:
        asked = self._asked(principal_of(agent_id, user_id, None), actor, reason)
        async with self.database.transaction(session, asked.service, locks_for=self._lock_timeout) as unit:
            return await corrections.verify(unit, asked, observation_id, verification, if_version)

    async def mark(
        self,
        observation_id: str,
        *,
        agent_id: object,
        user_id: object,
        private: bool | None = None,
        sensitivity: Sensitivity | None = None,
        if_version: int | None = None,
        actor: object | None = None,
        reason: str | None = None,
        session: Session | None = None,
    ) -> Marked:
        """Says how private an observation is, and what it has taken the place of; None leaves that as it is.

        `private`: it never leaves its scope. What becomes more private leaves where it has spread: all that was made of
        it is erased, and the texts that held that are as they were before, until they are told anew. Raises as `update`
        does, and `HeldError` when a legal hold keeps what would have to go.
        """
        asked = self._asked(principal_of(agent_id, user_id, None), actor, reason)
        level = sensitivity_of(sensitivity)
        async with self.database.transaction(session, asked.service, locks_for=self._lock_timeout) as unit:
            return await corrections.mark(unit, asked, observation_id, private, level, if_version)

    async def mark_private(self, observation_id: str, *, agent_id: object, user_id: object, **more: Any) -> Marked:
        """As `mark` with `private=True`."""
        return await self.mark(observation_id, agent_id=agent_id, user_id=user_id, private=True, **more)

    async def quarantine(
        self,
        observation_id: str | None = None,
        *,
        agent_id: object,
        user_id: object | None = None,
        actor: object | None = None,
        reason: str | None = None,
        session: Session | None = None,
        **source: Any,
    ) -> SetAside:
        """Sets aside an observation that `user_id` may see, or all of a source: neither shown nor told, nothing deleted.

        A source is named as in `forget`: from_user_id, from_session_id, from_group_id, tag, fact_key, query, source,
        run_id; all that are given at once. What says the same in its scope and all that was made of it go along; texts
        are as they were before they took it in. Who says it again says nothing new. Raises `NotFoundError`, `InputError`.
        """
        asked, target = self._chosen(observation_id, agent_id, user_id, actor, reason, source)
        async with self.database.transaction(session, asked.service, locks_for=self._lock_timeout) as unit:
            return await corrections.quarantine(unit, asked, target)

    async def release(
        self,
        observation_id: str | None = None,
        *,
        agent_id: object,
        user_id: object | None = None,
        actor: object | None = None,
        reason: str | None = None,
        session: Session | None = None,
        **source: Any,
    ) -> SetAside:
        """Takes a quarantine back: what it set aside is what it was before, and waits to be told.

        Named as in `quarantine`. Raises `InputError` where it isn't quarantined or an active one says the same by now.
        """
        asked, target = self._chosen(observation_id, agent_id, user_id, actor, reason, source)
        async with self.database.transaction(session, asked.service, locks_for=self._lock_timeout) as unit:
            return await corrections.release(unit, asked, target)

    def _asked(
        self, principal: Mapping[str, str | None], actor: object | None, reason: str | None
    ) -> corrections.Asked:
        who, why = optional_id("actor", actor), reason_of(reason)
        return corrections.Asked(principal, who, why, self.settings, self.now())

    def _chosen(
        self,
        observation_id: str | None,
        agent_id: object,
        user_id: object | None,
        actor: object | None,
        reason: str | None,
        source: Mapping[str, Any],
    ) -> tuple[corrections.Asked, ForgetTarget]:
        if observation_id is not None and not source:
            principal = principal_of(agent_id, user_id, None)
            return self._asked(principal, actor, reason), ForgetTarget.of(observation_id=observation_id)
        if observation_id is not None or user_id is not None or not source:
            raise InputError("say either an observation and the user_id who asks, or a source")
        nobody = {"agent_id": id_of("agent_id", agent_id), "user_id": None, "session_id": None}
        return self._asked(nobody, actor, reason), source_of(source)

    async def verify(self) -> Sequence[Violation]:
        """What doesn't hold of all that must, at any moment, also under load; empty when all is well.

        At most 1,000 of a kind. One transaction that reads everything and writes nothing. Thresholds and leases are judged
        by this Memory's settings.
        """
        measures = Measures(
            now=self.now(),
            threshold=self.settings.consolidation_threshold,
            min_messages=self.settings.formation_min_messages,
            lease_max=timedelta(seconds=self.settings.lease_seconds),
        )
        async with self.database.transaction(principal=service(None), snapshot=True) as unit:
            return [violation async for violation in violations(unit, measures)]

    # Whose it is

    async def merge_users(
        self,
        *,
        agent_id: object,
        user_id: object,
        into_user_id: object,
        actor: object | None = None,
        reason: str | None = None,
        session: Session | None = None,
    ) -> Alias:
        """From now on `user_id` stands for `into_user_id`, who sees what both may see; nothing is copied or moved.

        It goes one way: who asks as `user_id` (an anonymous visitor, say, who has logged in since) sees no more than
        before. What is said under either id goes on to belong to that id. What everybody knows because several people had
        said so is taken out where fewer than enough of them are left. Done twice, it is done once. Raises `InputError`
        where `user_id` stands for somebody else already, and where a circle would come about.
        """
        agent, now = id_of("agent_id", agent_id), self.now()
        user, into = id_of("user_id", user_id), id_of("into_user_id", into_user_id)
        asked = self._asked({"agent_id": agent, "user_id": None, "session_id": None}, actor, reason)
        if user == into:
            raise InputError("a user can't be merged into themselves")
        async with self.database.transaction(session, service(agent)) as unit:
            known = await ensure_agent(unit, agent, now)
            agent_key, least = known.key, self.settings.of_agent(known.settings).propagation_min_people
            await lock_agent(unit, agent_key)
            aliases, propagations = AliasRepository(unit, agent_key), PropagationRepository(unit, agent_key)
            alias, is_new = await aliases.open(user, into, now)
            if is_new:
                few = partial(propagations.too_few_behind, await aliases.user_ids(user), least)
                gone = await corrections.withdraw(unit, asked, agent_key, few)
                detail: dict[str, Any] = {"action": "merge", "user_id": user, "into_user_id": into}
                detail |= {"retracted": list(gone)} if gone else {}
                await record(unit, agent_key, "alias", now, actor=asked.actor, reason=asked.reason, detail=detail)
        return alias

    async def unmerge_users(
        self,
        *,
        agent_id: object,
        user_id: object,
        actor: object | None = None,
        reason: str | None = None,
        session: Session | None = None,
    ) -> Alias:
        """`user_id` stands for nobody but itself again, as before it was merged. Raises `NotFoundError` if it wasn't."""
        agent, user, now = id_of("agent_id", agent_id), id_of("user_id", user_id), self.now()
        by, why = optional_id("actor", actor), reason_of(reason)
        async with self.database.transaction(session, service(agent)) as unit:
            agent_key = await self._locked_agent(unit, agent, "merged user", user)
            alias = await AliasRepository(unit, agent_key).close(user, now)
            if alias is None:
                raise NotFoundError("merged user", user)
            detail = {"action": "unmerge", "user_id": user, "into_user_id": alias.into_user_id}
            await record(unit, agent_key, "alias", now, actor=by, reason=why, detail=detail)
        return alias

    async def _locked_agent(self, unit: Session, agent: str, what: str, key: str) -> int:
        """Raises `NotFoundError`, of what was asked for, where there is no such agent."""
        agent_key = await agent_key_of(unit, agent)
        if agent_key is None:
            raise NotFoundError(what, key)
        await lock_agent(unit, agent_key)
        return agent_key

    async def aliases(self, *, agent_id: object, user_id: object) -> Sequence[Alias]:
        """What stands for the user now, also through others, oldest first."""
        agent, user = id_of("agent_id", agent_id), id_of("user_id", user_id)
        async with self.database.transaction(principal=service(agent)) as unit:
            agent_key = await agent_key_of(unit, agent)
            return [] if agent_key is None else await AliasRepository(unit, agent_key).into(user)

    async def rename(
        self,
        *,
        agent_id: object,
        kind: RenameKind,
        old: object,
        new: object,
        actor: object | None = None,
        reason: str | None = None,
        session: Session | None = None,
    ) -> Renamed:
        """The host's id of a user, group or session has changed: it is changed wherever it stands, all at once.

        What is under way with the old id is refused, and done again with the new one. The event doesn't keep the old id.
        Let nobody use the old id any more before: what comes in under it afterwards begins anew. Raises `InputError`
        where anything is kept under the new id (users can be merged), `NotFoundError` where nothing is under the old.
        """
        if kind not in RENAME_KINDS:
            raise InputError(f"kind must be one of {', '.join(RENAME_KINDS)}")
        agent, now = id_of("agent_id", agent_id), self.now()
        before, after = id_of("old", old), id_of("new", new)
        by, why = optional_id("actor", actor), reason_of(reason)
        async with self.database.transaction(session, service(agent)) as unit:
            agent_key = await self._locked_agent(unit, agent, kind, before)
            renames = RenameRepository(unit, agent_key, kind, before, after)
            await renames.lock()
            if not await renames.is_known(before):
                raise NotFoundError(kind, before)
            if await renames.is_known(after):
                hint = "; merge_users() makes one stand for the other" if kind == "user" else ""
                raise InputError(f"{kind} {after} exists{hint}")
            changed = await renames.rewrite()
            detail = {"what": kind, f"{kind}_id": after, "rows": changed}
            await record(unit, agent_key, "rename", now, actor=by, reason=why, detail=detail)
        return Renamed(kind=kind, old=before, new=after, rows=changed)

    async def export(self, *, agent_id: object, user_id: object) -> AsyncGenerator[ExportLine]:
        """Everything that is kept about a person: a header with counts, then line by line, as of one moment.

        The ids that stand for the user count as theirs. A transaction stays open until the last line has been read, or
        the generator is closed (`contextlib.aclosing`). Raises `NotFoundError` for an agent that was never seen.
        """
        agent, user = id_of("agent_id", agent_id), id_of("user_id", user_id)
        async with self.database.transaction(principal=service(agent), snapshot=True) as unit:
            async for line in export_of(unit, agent, user, self.now()):
                yield line

    async def hold(
        self,
        *,
        agent_id: object,
        user_id: object | None = None,
        session_id: object | None = None,
        group_id: object | None = None,
        observation_id: str | None = None,
        actor: object | None = None,
        reason: str | None = None,
        session: Session | None = None,
    ) -> int:
        """Keeps an observation, or all of a user, session or group, from being forgotten; the id of the hold.

        What is held already gives the id that there is. What isn't there yet can be held, save an observation
        (`NotFoundError`).
        """
        agent, now = id_of("agent_id", agent_id), self.now()
        kind, target = held_of(user_id, session_id, group_id, observation_id)
        by, why = optional_id("actor", actor), reason_of(reason)
        async with self.database.transaction(session, service(agent)) as unit:
            if kind == "observation":
                agent_key = await self._locked_agent(unit, agent, kind, target)
            else:
                agent_key = (await ensure_agent(unit, agent, now)).key
                await lock_agent(unit, agent_key)
            holds = HoldRepository(unit, agent_key)
            if kind == "observation" and not await holds.has_observation(*parse_observation_id(target)):
                raise NotFoundError(kind, target)
            hold_id, is_new = await holds.open(kind, target, by, why, now)
            if is_new:
                detail = {"action": "hold", "hold_id": hold_id, f"{kind}_id": target}
                await record(unit, agent_key, "hold", now, actor=by, reason=why, detail=detail)
        return hold_id

    async def release_hold(
        self,
        hold_id: int,
        *,
        agent_id: object,
        actor: object | None = None,
        reason: str | None = None,
        session: Session | None = None,
    ) -> Hold:
        """Lets what it covers be forgotten again. Done twice, it is done once. Raises `NotFoundError`."""
        agent, number, now = id_of("agent_id", agent_id), within("hold_id", hold_id, 2**63 - 1), self.now()
        by, why = optional_id("actor", actor), reason_of(reason)
        async with self.database.transaction(session, service(agent)) as unit:
            agent_key = await self._locked_agent(unit, agent, "hold", str(number))
            holds = HoldRepository(unit, agent_key)
            released = await holds.release(number, now)
            hold = await holds.get(number)
            if hold is None:
                raise NotFoundError("hold", str(number))
            if released:
                detail = {"action": "release", "hold_id": number, f"{hold.kind}_id": hold.target}
                await record(unit, agent_key, "hold", now, actor=by, reason=why, detail=detail)
        return hold

    async def holds(self, *, agent_id: object, released: bool = False) -> Sequence[Hold]:
        """The open holds, oldest first; `released`: those that were released as well."""
        agent = id_of("agent_id", agent_id)
        async with self.database.transaction(principal=service(agent)) as unit:
            agent_key = await agent_key_of(unit, agent)
            return [] if agent_key is None else await HoldRepository(unit, agent_key).list(released=released)

    # What comes out

    async def context(
        self,
        *,
        agent_id: object,
        user_id: object,
        session_id: object | None = None,
        message: str | None = None,
        retrieve: bool | None = None,
        budget_tokens: int | None = None,
        format: ContextFormat | None = None,
        as_of: datetime | None = None,
        assembly: Assembly | None = None,
        session: Session | None = None,
    ) -> Context:
        """What belongs into the prompt of a turn of this user with this agent; `str()` of it is the part of the prompt.

        That is XML (`assembly` eden), the digest of `message`, or both, as the agent's setting says, unless this call does.
        In the XML single observations are retrieved where `message` asks for them (`retrieve=None`), always or never; a
        digest looks for the words of any message, unless `retrieve=False`.

        With `budget_tokens`, 4 or more, the XML never has more (`count_tokens` of it); texts are cut after sentences then,
        observations left out whole. `format` is `standard` or `legacy`. None: as the agent's settings say. Neither says
        anything of the digest, which has its own budgets (`digest_tokens` …): both together have at most the sum.

        `as_of`: what it would have been at a moment of recorded time, of what this user may see now and could see then,
        and without what was forgotten since.
        """
        principal, past = principal_of(agent_id, user_id, session_id), moment_of("as_of", as_of)
        asked, layout, now = text_of("message", message), format_of(format), past or self.now()
        chosen = {} if assembly is None else checked_for_agent({"assembly": assembly})
        queries = await self._semantics() if asked and retrieve is not False else None
        async with self._readable.reading(session, None if past is None else principal) as reader:
            layer = await static_layer(reader, principal, self.settings.pending_max, past)
            settings = self.settings.of_agent({**layer.settings, **chosen})
            has_xml, has_digest = settings.assembly != "digest", settings.assembly != "eden"
            style = context.Style.of(settings, layout, budget_of(budget_tokens))
            scopes = context.shown(layer.scopes, style)
            fired = Fired("asked") if retrieve and has_xml else None
            if retrieve is None and asked and has_xml:
                names = context.names_of(scopes)
                fired = should_retrieve(asked, context.words_of(scopes), names, settings.unknown_names)
            began = time.perf_counter()
            top_k = settings.context_top_k if fired else 0
            searches = has_digest and retrieve is not False
            keywords = digest.keyword_limit(settings) if searches else 0
            query = Query()
            if fired or searches:  # of the session itself the host has the messages
                query = replace(_query_of(asked, settings, now), outside=principal["session_id"])
            sought = Sought(self.now(), max(top_k, keywords), top_k, settings.message_retention_days, past)
            wanted = None
            if has_digest:
                wanted = Wanted(principal, self.settings, self._digest_defaults, chosen, searched=bool(query))
            semantic = queries is not None and bool(query) and (fired is not None or settings.digest_semantic)
            found = Found([], [], [])
            if not semantic:
                found = await self._found(reader, principal, wanted, settings, query, sought)
        meant = WORDS_ALONE
        if semantic:
            meant = await self._meaning(asked, None)  # no connection is held here
            sought = replace(sought, vector=meant.vector, model=meant.model, fusion=settings.fusion)
            began = time.perf_counter()
            async with self._readable.reading(session, None if past is None else principal) as reader:
                found = await self._found(reader, principal, wanted, settings, query, sought)
        seconds = time.perf_counter() - began
        reason, hits = fired.reason if fired else None, found.hits[:top_k]
        if has_xml and asked and retrieve is not False:
            self._count("context", principal, reason, len(hits) + len(found.messages), seconds)
        part = digest.compose(found.candidates, found.hits[:keywords], settings) if has_digest else None
        if keywords and query:
            self._count("digest", principal, "asked", len(found.hits[:keywords]), seconds)
        if part is not None and not has_xml:
            return digest.alone(part, searched=bool(keywords and query)).model_copy(update={"notice": meant.notice})
        built = context.render(
            scopes,
            hits,
            now,
            style,
            fired=fired is not None,
            reason=reason,
            session_id=principal["session_id"],
            messages=found.messages,
        )
        if meant.notice:
            built = built.model_copy(update={"notice": meant.notice})
        return built if part is None else digest.beside(built, part)

    async def _found(
        self,
        reader: Reader,
        principal: Principal,
        wanted: Wanted | None,
        settings: Settings,
        query: Query,
        sought: Sought,
    ) -> Found:
        """What a turn's message finds, and what a digest begins with, if one is wanted."""
        if wanted is not None:
            return await find(reader, wanted, settings, query, sought, weights=self._weights)
        return Found([], *await search(reader, principal, query, sought, weights=self._weights))

    async def digest(
        self,
        *,
        agent_id: object,
        user_id: object,
        session_id: object | None = None,
        query: str | None = None,
        budgets: Mapping[str, Mapping[str, int]] | None = None,
        as_of: datetime | None = None,
        session: Session | None = None,
    ) -> Digest:
        """A bounded part of a prompt, each line with its id and source; the same for the same arguments and memory.

        What is pinned by the agent's settings, then what holds any of the query's words; without either, the most important
        and then newest that the user may see. `budgets` replace those of the settings, in part or whole: `{"total":
        {"items": 5}, "fact": {"characters": 400}}`, of total, fact, note, procedure, episode. `as_of`: of what was known at
        a moment of recorded time. Raises `InputError`.
        """
        principal, past = principal_of(agent_id, user_id, session_id), moment_of("as_of", as_of)
        text, now = text_of("query", query), past or self.now()
        asked = {**digest.asked_budgets(budgets), "assembly": "digest"}
        searched = bool(_query_of(text, self.settings, now))
        wanted = Wanted(principal, self.settings, self._digest_defaults, asked, searched=searched)
        async with self._readable.reading(session, None if past is None else principal) as reader:
            settings, candidates = await begin(reader, wanted, past)
            limit = digest.keyword_limit(settings)
            words = _query_of(text if limit else "", settings, now)
            sought = Sought(self.now(), limit, as_of=past)
            began = time.perf_counter()
            semantic = bool(words) and settings.digest_semantic
            hits = [] if semantic else (await search(reader, principal, words, sought, weights=self._weights))[0]
        if semantic:
            meant = await self._meaning(text, None)  # no connection is held here
            sought = replace(sought, vector=meant.vector, model=meant.model, fusion=settings.fusion)
            began = time.perf_counter()
            async with self._readable.reading(session, None if past is None else principal) as reader:
                hits, _ = await search(reader, principal, words, sought, weights=self._weights)
        if words:
            self._count("digest", principal, "asked", len(hits), time.perf_counter() - began)
        return digest.compose(candidates, hits, settings)

    async def search(
        self,
        query: str,
        *,
        agent_id: object,
        user_id: object,
        session_id: object | None = None,
        top_k: int | None = None,
        messages: int | None = None,
        as_of: datetime | None = None,
        semantic: bool | None = None,
        explain: bool = False,
        plan: bool = False,
        session: Session | None = None,
    ) -> SearchResult:
        """What a query finds in the observations and the retained messages that the user may see; each arm best first.

        A query is words, of which any may stand in what is found. It may hold `"a phrase"`, `-word`, `from:name`, `after:`,
        `before:` (a year, month or day) and `tag:`. `top_k` and `messages` (None: as many; 0: none) limit the arms.
        `semantic`: also what means something like it (None: where vectors are on; False: words alone); where that can't be,
        `notice` says why. `as_of`: of what was known at a moment of recorded time. `explain`: with the parts of each score,
        what was matched, and what was not looked for; `plan`: also how the database went about it, which runs the statement
        twice.
        """
        principal, past = principal_of(agent_id, user_id, session_id), moment_of("as_of", as_of)
        limit = within("top_k", self.settings.top_k if top_k is None else top_k, 100)
        now = past or self.now()
        asked = parse(text_of("query", query), now, zone_of(self.settings.time_zone), self.settings.language)
        meant = await self._meaning(asked.text if asked else "", semantic)
        sought = Sought(
            now=self.now(),
            observations=limit,
            messages=within("messages", limit if messages is None else messages, 100, least=0),
            days=self.settings.message_retention_days,
            as_of=past,
            explain=explain or plan,
            vector=meant.vector,
            model=meant.model,
            fusion=self.settings.fusion,
        )
        async with self._readable.reading(session, None if past is None else principal) as reader:
            began = time.perf_counter()
            hits, found = await search(reader, principal, asked, sought, weights=self._weights)
            seconds = time.perf_counter() - began
        self._count("search", principal, "asked", len(hits) + len(found), seconds)
        told: Sequence[str] = ()
        if plan:
            async with self._readable.statement(session, None if past is None else principal) as unit:
                told = await search_plan(unit, principal, asked, sought)
        return SearchResult(
            results=tuple(hits),
            messages=tuple(found),
            terms=asked.words,
            left_out=dict(asked.left_out) if sought.explain else {},
            plan=tuple(told),
            notice=meant.notice,
        )

    async def _meaning(self, text: str, semantic: bool | None) -> vectors.QueryVector:
        if semantic is False or not text:
            return WORDS_ALONE
        queries = await self._semantics()
        if queries is None:
            return vectors.QueryVector(notice=f"without vectors: {self._vectors_off}" if semantic else None)
        return await queries.vector(text)

    @property
    def _weights(self) -> Weights:
        return Weights(recency=self.settings.recency)

    def _count(
        self, surface: Surface, principal: Mapping[str, Any], reason: str | None, hits: int, seconds: float
    ) -> None:
        """Kept in memory: what is read here is written by nobody's transaction."""
        if self._counters is not None:
            self._counters.count(principal["agent_id"], self.now(), surface, reason, hits=hits, seconds=seconds)

    async def scopes(
        self, *, agent_id: object, user_id: object, session_id: object | None = None, session: Session | None = None
    ) -> list[Scope]:
        """The scopes that the user may see: collective, groups, the user's own."""
        principal = principal_of(agent_id, user_id, session_id)
        async with self.database.statement(session, principal) as unit:
            return await ScopeRepository(unit).visible(principal)

    async def get(
        self, observation_id: str, *, agent_id: object, user_id: object, session: Session | None = None
    ) -> Observation:
        """Raises `NotFoundError`, also for what exists and this user may not see."""
        scope_id, seq = parse_observation_id(observation_id)
        principal = principal_of(agent_id, user_id, None)
        async with self.database.statement(session, principal) as unit:
            found = await ObservationRepository(unit).get(principal, scope_id, seq)
        if found is None:
            raise NotFoundError("observation", observation_id)
        return found

    async def list(
        self,
        *,
        agent_id: object,
        user_id: object,
        scope_id: int | None = None,
        limit: int = 50,
        before: Observation | None = None,
        as_of: datetime | None = None,
        session: Session | None = None,
    ) -> Sequence[Observation]:
        """The observations that the user may see, newest first; `before` is the last one of the page before.

        `as_of`: those that counted at a moment of recorded time, with their status then.
        """
        past = moment_of("as_of", as_of)
        after = None if before is None else (before.created_at, *parse_observation_id(before.id))
        principal = principal_of(agent_id, user_id, None)
        async with self.database.statement(session, principal) as unit:
            observations = ObservationRepository(unit)
            return await observations.list(principal, scope_id, within("limit", limit, 1000), after, past)

    async def messages(
        self,
        *,
        agent_id: object,
        user_id: object,
        session_id: object | None = None,
        limit: int = 50,
        before: RetainedMessage | None = None,
        session: Session | None = None,
    ) -> Sequence[RetainedMessage]:
        """The messages whose text is still kept, of the sessions that the user took part in, newest first.

        With `session_id`, of that one. `before` is the last one of the page before. Left out is what formation skips, what
        was said in a session that is excluded, what stands behind something quarantined, and what is kept beyond its
        retention only because it hasn't been formed yet, or is held.
        """
        principal, most = principal_of(agent_id, user_id, session_id), within("limit", limit, 1000)
        async with self.database.statement(session) as unit:
            return await self._messages(unit).of_user(principal, most, before)

    async def sources(
        self,
        observation_id: str,
        *,
        agent_id: object,
        user_id: object,
        limit: int = 50,
        session: Session | None = None,
    ) -> tuple[RetainedMessage, ...]:
        """The messages behind an observation, of those that `messages` shows this user, oldest first.

        Behind what was said more often, the newest; behind what was propagated, those of its sources in scopes that the user
        may see: their own, not another member's. Raises `NotFoundError`, also for what exists and this user may not see.
        """
        found = await self.get(observation_id, agent_id=agent_id, user_id=user_id, session=session)
        principal, most = principal_of(agent_id, user_id, None), within("limit", limit, 1000)
        async with self.database.statement(session) as unit:
            behind = await self._messages(unit).behind(principal, *parse_observation_id(found.id), most)
        return tuple(reversed(behind))

    def _messages(self, unit: Session) -> MessageRepository:
        return MessageRepository(unit, self.settings.message_retention_days, self.now())

    async def history(
        self,
        *,
        agent_id: object,
        user_id: object,
        scope_id: int | None = None,
        limit: int = 50,
        as_of: datetime | None = None,
        session: Session | None = None,
    ) -> Sequence[Consolidation]:
        """The versions of the texts that the user may see, newest first; `as_of`: those of then, `live` as it was then."""
        principal, past = principal_of(agent_id, user_id, None), moment_of("as_of", as_of)
        async with self.database.statement(session, principal) as unit:
            versions = ConsolidationRepository(unit)
            return await versions.versions(principal, scope_id, within("limit", limit, 1000), past)

    async def diff(
        self,
        *,
        agent_id: object,
        user_id: object,
        scope_id: int,
        from_version: int | datetime | None = None,
        to_version: int | datetime | None = None,
    ) -> Diff:
        """What changed in a scope's text from one version to another, by sentences, and by which observations.

        A moment stands for the version that was the text then. None: the newest version, and the one before it. Version
        0 is before there was a text. Raises `NotFoundError`, also for what exists and this user may not see.
        """
        principal, key = principal_of(agent_id, user_id, None), scope_key(scope_id)
        async with self.database.transaction(principal=principal) as unit:
            return await diff.between(unit, principal, key, *map(version_of, (from_version, to_version)))

    async def stats(self, *, agent_id: object) -> Stats:
        """Counts, no content. Raises `NotFoundError`."""
        agent, filled = id_of("agent_id", agent_id), 0
        model = await self._find_vectors()
        async with self.database.statement(principal=service(agent)) as unit:
            stats = await read_stats(unit, agent, (self.now() - timedelta(days=RETRIEVAL_DAYS)).date())
            agent_key = await agent_key_of(unit, agent)
            if agent_key is not None and model is not None:
                filled = await VectorRepository(unit, model.name).filled(agent_key)
            if stats is None:
                raise NotFoundError("agent", agent)
            short = words_fall_short(stats.retrieval)
            large = await large_scopes(unit, agent, VECTORS_OBSERVATIONS) if short else ()
        told = vectors.notice(model, self._vectors_off, filled, stats.observations)
        return stats.model_copy(update={"vectors": told, "vectors_advised": tuple(f"s{scope}" for scope in large)})

    def now(self) -> datetime:
        """The present moment on this memory's clock, in UTC."""
        return aware(self._clock(), "clock")


def _query_of(message: str, settings: Settings, now: datetime) -> Query:
    """What a turn's message asks for. It is no query: what looks like an operator in it isn't one."""
    return parse(message, now, zone_of(settings.time_zone), settings.language, operators=False)


def _revealed(url: SecretStr | None) -> str | None:
    return url.get_secret_value() if url else None


async def _add_retrievals(database: Database, asked: Sequence[Asked]) -> None:
    async with database.statement() as unit:
        await add_retrievals(unit, asked)


async def _bring_up_to_date(database: Database) -> None:
    try:
        await database.check_schema()
    except SchemaError:
        migrate = import_module("memory_sql.db.migrate")  # Alembic costs time that most processes don't need to spend
        await asyncio.to_thread(migrate.upgrade, database.url.render_as_string(hide_password=False))


def _without_secrets(draft: Draft, settings: Settings) -> Draft:
    """The same with its secrets masked, or refused: `InputError`."""
    speaker = draft.speaker and without_secrets("speaker", draft.speaker, settings.secrets)
    return replace(
        draft,
        content=without_secrets("the observation", draft.content, settings.secrets),
        speaker=speaker,
        tags=tuple(without_secrets("tags", list(draft.tags), settings.secrets)),
        metadata=without_secrets("metadata", dict(draft.metadata), settings.secrets),
    )


def _buffered(weighed: intake.Weighed, user_id: str, call: str | None, position: int) -> dict[str, Any]:
    """Without an id of its own a message is known by its place in the call that an idempotency key names, else new."""
    message = weighed.message
    return {
        "id": message.id or (uuid.uuid4().hex if call is None else f"{call}#{position}"),
        "keyed": message.id is None and call is not None,
        "role": message.role,
        "user_id": message.user_id or (user_id if message.role == "user" else None),
        "speaker": message.name,
        "search_extra": search_extra(message.content),
        "content": message.content,
        "cleaned": list(message.cleaned),
        "weight": weighed.weight,
        "eligible": weighed.eligible,
        "signal": weighed.signal,
        "said_at": message.created_at.isoformat() if message.created_at else None,
    }
