"""The whole flow on one page: storing, model work, reading, deleting. Read this first.

Only `Memory`, its faces (`resources/`) and the jobs open transactions. Work with a language model has three steps: load and
lease, in one transaction; ask the model, without holding a connection; apply, in a transaction that checks again what was
loaded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import date, datetime
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, Unpack, cast

from memory_sql.config import Assembly, ContextFormat, Secrets, Settings, checked_for_agent
from memory_sql.config.kinds import Lane, ObservationKind
from memory_sql.context import assemble
from memory_sql.context.digest import asked_budgets
from memory_sql.db import AsyncEngine, Database, Joinable, Session
from memory_sql.db.principals import service
from memory_sql.domain.adding import AddResult
from memory_sql.domain.arguments import (
    flags,
    id_of,
    lane_of,
    moment_of,
    optional_flags,
    optional_id,
    position_of,
    principal_of,
    question_of,
    text_of,
    turn_of,
    within,
)
from memory_sql.domain.asking import Turn
from memory_sql.domain.ids import Id, OwnedKind
from memory_sql.domain.message_shapes import MessageLike
from memory_sql.domain.reading import Context, Digest, SearchResult
from memory_sql.domain.selection import Selection, selection_of
from memory_sql.errors import InputError
from memory_sql.formation import adding, intake
from memory_sql.later import later
from memory_sql.llm import LanguageModel
from memory_sql.llm.embeddings import EmbeddingModel
from memory_sql.privacy import Sensitivity
from memory_sql.resources.faces import Faces
from memory_sql.resources.given import settings_with
from memory_sql.resources.runtime import Runtime, asked_of, settings_of
from memory_sql.retrieval import search
from memory_sql.telemetry import measured

if TYPE_CHECKING:
    from memory_sql.config import own
    from memory_sql.db.repositories import agents
    from memory_sql.domain import results
    from memory_sql.lifecycle import forgetting, journal, observing, replacing
    from memory_sql.shards import routing
else:
    own = later("memory_sql.config.own")
    agents = later("memory_sql.db.repositories.agents")
    forgetting = later("memory_sql.lifecycle.forgetting")
    journal = later("memory_sql.lifecycle.journal")
    results = later("memory_sql.domain.results")
    observing = later("memory_sql.lifecycle.observing")
    replacing = later("memory_sql.lifecycle.replacing")
    routing = later("memory_sql.shards.routing")


class Memory(Faces):
    """Long-term memory in a Postgres database.

    `url` None: the one in the settings, else the embedded Postgres, whose schema is upgraded automatically. `engine`,
    instead of `url`: the host's own SQLAlchemy engine on asyncpg, so that the process has one pool; it is neither changed
    nor closed (docs/deploying.md). `llm` None: the model in the settings. `embeddings` (makes vectors) None: the model in
    the settings, if any. `read_url`: a replica for context, digest and search (docs/context.md); with shards, by name.
    `shards`, instead of a URL: those of several databases by name, over which the agents are spread (docs/shards.md).
    `clock` returns the current time as an aware datetime; for replays and tests.

    Ids are the host's own: text, integers or UUIDs. Every call names its agent; calls that read also name the user who
    asks. A call with `session=` (an `AsyncSession`; of `memory_sql.sync` see docs/deploying.md) joins the host's transaction.
    """

    def __init__(
        self,
        url: str | None = None,
        llm: LanguageModel | None = None,
        settings: Settings | None = None,
        *,
        engine: AsyncEngine | None = None,
        embeddings: EmbeddingModel | None = None,
        read_url: str | Mapping[str, str] | None = None,
        shards: Mapping[str, str] | None = None,
        clock: Callable[[], datetime] | None = None,
    ) -> None:
        self.settings = settings_with(settings, llm, embeddings, clock)
        if shards is None and self.settings.shards is None:
            self._runtime = Runtime(self.settings, url, engine, read_url, llm, embeddings, clock)
        else:
            one = partial(Memory, llm=llm, embeddings=embeddings, clock=clock)
            routing.spread_over(self, one, shards, read_url, {"url": url, "engine": engine})

    async def open(self, *, restoring: bool = False) -> Self:
        """Connects. Raises `SchemaError` if the schema isn't at this release's revision, `InputError` if it is open already.

        With the setting `forget_journal`, it raises `RestoredError` if the database is a backup from before a forgetting,
        until `admin.restore_check` has run. Pass `restoring=True` only to run that.
        """
        await self._runtime.open(restoring=restoring)
        return self

    async def close(self) -> None:
        """Closes all, in the loop of `open` or after it has ended. The embedded Postgres stops when no process uses it."""
        await self._runtime.close()

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def database(self) -> Database:
        """The connections of an open memory."""
        return self._runtime.database

    def require_llm(self) -> None:
        """Creates the language model now rather than at its first use. Raises `ConfigurationError` if there is none."""
        _ = self._runtime.llm

    def now(self) -> datetime:
        """The current time on this memory's clock, in UTC."""
        return self._runtime.now()

    # Storing

    @measured
    async def add(
        self,
        messages: Iterable[MessageLike] | MessageLike,
        *,
        agent_id: Id,
        user_id: Id,
        conversation_id: Id,
        group_ids: Iterable[Id] = (),
        idempotency_key: Id | None = None,
        excluded: bool | None = None,
        time_zone: str | None = None,
        replace: bool = False,
        wait: bool = False,
        session: Joinable | None = None,
    ) -> AddResult:
        """Stores messages of a conversation, or one, each once. Observations are formed later, when the conversation is due.

        A message is identified by its id within the conversation. A message without an id is always new, unless
        `idempotency_key` identifies the call: repeating a key with other messages is refused. `user_id` is the speaker
        of every message that names no other. With `group_ids` the conversation belongs to these groups, and everyone who
        speaks in this call becomes a member, unless they have left the group. Messages stored while a conversation is
        `excluded` are never formed, and model work under way is discarded; None leaves it unchanged. `time_zone` is an
        IANA name, kept for the conversation, and says in which zone "yesterday" is meant. `wait=True` forms a due
        conversation before returning, with the outcome in `formation`. If forming raises an error, the messages are
        stored, and the error's `added` is the result of this call.

        A known id with another text is a duplicate (`differing`). With `replace=True` the text takes the stored one's place
        (`replaced`): what was made of that is deleted, also from texts, and the conversation is formed anew from there on.

        Secrets are masked before anything is stored, unless the setting `secrets` says otherwise.

        A message over the size limit is refused alone: the others are stored, and `refused` names it. A message time more
        than a day ahead counts as now. At most 10,000 messages and 100 groups.

        Raises `InputError` (nothing is stored) for an invalid message, id or time zone, or a list that is too long;
        with `replace`, `HeldError` for a message that a legal hold covers.
        """
        flags(replace=replace, wait=wait)
        optional_flags(excluded=excluded)
        if wait and session is not None:
            raise InputError(
                "wait=True needs its own transaction; leave out session=, or call conversations.form() after you commit"
            )
        said = adding.incoming(
            messages,
            self.settings,
            agent_id=agent_id,
            user_id=user_id,
            conversation_id=conversation_id,
            group_ids=group_ids,
            idempotency_key=idempotency_key,
            excluded=excluded,
            time_zone=time_zone,
            replace=replace,
        )
        screened, added = intake.screen(said.messages), None
        if not screened.found or (self.settings.secrets == "mask" and not replace):
            added = await self._stored(said, screened, session, replace, believed="mask")
        if added is None:
            added = await self._stored_as_asked(said, screened, session, replace)
        form = partial(self.conversations.form, agent_id=said.agent_id, conversation_id=said.conversation_id)
        return await adding.formed(form, added) if wait and added.formation == "due" else added

    async def _stored(
        self,
        said: adding.Incoming,
        screened: intake.Screened | None,
        session: Joinable | None,
        replace: bool,
        believed: Secrets | None = None,
    ) -> AddResult | None:
        whose = service(said.agent_id) if replace or session is not None else None  # the host's may work for somebody

        async def store(unit: Session) -> AddResult | None:
            given = adding.in_place(said, (screened or said).messages)
            asked = asked_of(said.agent_id, None, None, self.settings, self.now())
            where = said.conversation_id, given, said.positions
            replaced = await replacing.replace(unit, asked, *where) if replace else ()
            return await adding.store(unit, said, given, screened, self.settings, asked.now, replaced, believed)

        return await self.database.write(store, session, whose, direct=not replace, locks=replace)

    async def _stored_as_asked(
        self, said: adding.Incoming, screened: intake.Screened, session: Joinable | None, replace: bool
    ) -> AddResult:
        """There are secrets, and the agent's own setting isn't known to be that they are masked: it is asked for."""
        async with self.database.statement(session, service(said.agent_id)) as unit:
            secrets = (await settings_of(unit, said.agent_id, self.settings)).secrets
        intake.refuse(screened, secrets, said.places)
        stored = await self._stored(said, None if secrets == "keep" else screened, session, replace)
        return cast("AddResult", stored)  # nothing was believed

    @measured
    async def observe(
        self,
        text: str,
        *,
        agent_id: Id,
        user_id: Id | None = None,
        group_id: Id | None = None,
        collective: bool = False,
        scope_kind: OwnedKind | None = None,
        observed_at: datetime | None = None,
        conversation_id: Id | None = None,
        speaker: str | None = None,
        scope: Id | None = None,
        tags: Iterable[str] = (),
        metadata: Mapping[str, Any] | None = None,
        fact_key: Id | None = None,
        lane: Lane | None = None,
        kind: ObservationKind | None = None,
        category: str | None = None,
        confidence: float | None = None,
        importance: float | None = None,
        sensitivity: Sensitivity | None = None,
        until: date | None = None,
        actor: Id | None = None,
        session: Joinable | None = None,
    ) -> results.ObserveResult:
        """Stores one observation without a model: for the user, a group, everybody (`collective=True`) or a `scope_kind`.

        `scope_kind` is `conversation` (the one named by `conversation_id`), or `agent` or `guideline`, which everybody
        sees. Beside `group_id`, `collective` or `scope_kind`, `user_id` is who said it. `scope` is the name of another
        scope of the same owner, used instead of the main one. What the scope holds already, word for word, isn't stored
        again: that observation gains the evidence, counts as said again, and may become more private or surer
        (docs/lifecycle.md). The calendar date is added to a relative date ("yesterday"), counted from `observed_at` in the
        conversation's time zone. With `fact_key`, the host's name for the fact, it supersedes the scope's older
        observation (by `observed_at`) of that fact. If the same text is quarantined in the scope, it stays quarantined.
        `lane` chooses a lane in a scope that has both (docs/scopes.md); None: `absorb`, or the scope's only lane. Raises
        `InputError` for a lane that the scope doesn't have, `NotFoundError` for an unknown conversation, or if somebody
        forgets the observation as it is stored.

        The host may add a `kind` (each has a budget in a digest), a `category` (a word of the host's: up to 40 lower-case
        letters, digits, _ and -), `confidence` and `importance` (0 to 1), and `until`, the day with which it is over.
        `sensitivity` can make the observation more private than the rules find its text to be, never less; what was derived
        from it in other scopes is then erased. It is stored where the caller says, whatever its content. Secrets are masked,
        or refused (`InputError`), as the setting `secrets` says. With `actor`, an event says who did it.
        """
        agent, now = id_of("agent_id", agent_id), self.now()
        draft = observing.draft_of(
            text,
            self.settings,
            now,
            user_id=user_id,
            group_id=group_id,
            collective=collective,
            scope_kind=scope_kind,
            observed_at=observed_at,
            conversation_id=conversation_id,
            speaker=speaker,
            scope=scope,
            tags=tags,
            metadata=metadata,
            fact_key=fact_key,
            known=observing.known_of(kind, category, confidence, importance, sensitivity, until),
        )
        into, by, is_single = lane_of(lane), optional_id("actor", actor), fact_key is None and actor is None
        whose = None if session is None and is_single else service(agent)
        store = partial(observing.store, agent_id=agent, draft=draft, lane=into, own=self.settings, now=now, actor=by)
        stored = await self.database.write(store, session, whose, direct=is_single)
        if stored.observation is not None:
            return stored.observation
        async with self.database.statement(session, service(agent)) as unit:
            found = await observing.known(unit, stored)
        if not observing.is_more_private(draft, found):
            return found
        asked = asked_of(agent, by, None, self.settings, now)
        raise_it = partial(observing.raised, asked=asked, draft=draft, stored=stored)
        return await self.database.write(raise_it, session, asked.service)

    @measured
    async def configure(self, *, agent_id: Id, **settings: Unpack[own.AgentSettings]) -> dict[str, Any]:
        """Changes this agent's own settings and returns all that it has; None removes one.

        `config.AGENT_SETTINGS` lists the settings that an agent can have. A change applies from the next call on, in every
        process. Work that becomes due by it is due at once; work from messages that are being stored at that moment becomes
        due at a worker's next maintenance. Raises `InputError` for an unknown setting or an invalid value.
        """
        agent, given = id_of("agent_id", agent_id), checked_for_agent(settings)
        unset = [name for name in settings if name not in given]

        async def change(unit: Session) -> None:
            known = await agents.ensure_agent(unit, agent, self.now())
            await agents.change_settings(unit, known.key, given, unset)
            await self._runtime.jobs.make_due(unit, known.key)

        await self.database.write(change, principal=service(agent))
        return await self.admin.settings(agent_id=agent)

    # Model work

    @measured
    async def run_due(
        self, *, agent_id: Id | None = None, limit: int = 100, progress: Callable[[results.Progress], Any] | None = None
    ) -> results.RunDueResult:
        """Does the work that is due, for one agent or all: forms, consolidates, propagates, embeds, `limit` of each at most.

        One after another; `progress` is called after each. Failures are in the result. A `Worker` does several at once.
        """
        agent, most = optional_id("agent_id", agent_id), within("limit", limit, 10**9)
        return await self._runtime.jobs.run_due(agent, most, progress)

    # Reading

    @measured
    async def context(
        self,
        *,
        agent_id: Id,
        user_id: Id,
        conversation_id: Id | None = None,
        message: str | None = None,
        retrieve: bool | None = None,
        budget_tokens: int | None = None,
        format: ContextFormat | None = None,
        as_of: datetime | None = None,
        assembly: Assembly | None = None,
        after: str | None = None,
        session: Joinable | None = None,
    ) -> Context:
        """The memory to put into the prompt for this user's turn with this agent; `str()` of it is the text.

        The text is XML (`assembly` eden), the digest of `message`, or both; None: as the agent's settings say. In the XML,
        observations are retrieved if they answer `message` (`retrieve=None`), always (True) or never (False). A digest
        searches for the words of any message, unless `retrieve=False`.

        The XML never exceeds `budget_tokens` (4 or more; counted by `count_tokens`): texts are cut after a sentence,
        observations are left out whole. `format` is `standard` or `legacy`; None: as the agent's settings say. Neither
        affects the digest, which has its own budgets (`digest_tokens` …): both together have at most the sum.

        `as_of`: the memory at that moment of recorded time, limited to what this user may see now and could see then,
        without what has been forgotten since. When somebody joined a conversation isn't recorded: they see it from its start.
        With a replica it also knows what lies before `after`, an `admin.position` of another process (docs/context.md).
        """
        whose = principal_of(agent_id, user_id, conversation_id)
        turn = turn_of(message, whose, self.now(), retrieve, budget_tokens, format, as_of, assembly, after)
        return await assemble.context(self._runtime.reads, turn, session)

    @measured
    async def digest(
        self,
        *,
        agent_id: Id,
        user_id: Id,
        conversation_id: Id | None = None,
        query: str | None = None,
        budgets: Mapping[str, Mapping[str, int]] | None = None,
        as_of: datetime | None = None,
        after: str | None = None,
        session: Joinable | None = None,
    ) -> Digest:
        """Single observations for a prompt, within budgets, one a line with its id and source; deterministic.

        Pinned observations come first, then those that contain any of the query's words. Without either: the most
        important that the user may see, then the newest. `budgets` override those of the settings, in part or whole:
        `{"total": {"items": 5}, "fact": {"characters": 400}}`, for total, fact, note, procedure, episode. `as_of`: what
        was known at that moment of recorded time. `after` as for `context`. Raises `InputError`.
        """
        turn = Turn(
            principal_of(agent_id, user_id, conversation_id),
            text_of("query", query),
            self.now(),
            moment_of("as_of", as_of),
            own={**asked_budgets(budgets), "assembly": "digest"},
            after=position_of(after),
        )
        return await assemble.digest(self._runtime.reads, turn, session)

    @measured
    async def search(
        self,
        query: str,
        *,
        agent_id: Id,
        user_id: Id,
        conversation_id: Id | None = None,
        top_k: int | None = None,
        messages: int | None = None,
        as_of: datetime | None = None,
        semantic: bool | None = None,
        include_superseded: bool = False,
        explain: bool = False,
        plan: bool = False,
        after: str | None = None,
        session: Joinable | None = None,
    ) -> SearchResult:
        """The observations and kept messages that a query finds, of those that the user may see; each list best first.

        A hit contains any of the query's words. A query may contain `"a phrase"`, `-word`, `from:name`, `after:`,
        `before:` (a year, month or day) and `tag:`. `top_k` limits the observations, `messages` the messages (None: the
        same limit; 0: none). `semantic`: also search by meaning (None: if vectors are on; False: by words alone); if that
        isn't possible, `notice` says why. `as_of`: search what was known at that moment of recorded time.
        `include_superseded`: also return superseded observations (`status`, `superseded_by`). `explain`: add the parts of
        each score, what matched and what wasn't searched. `plan`: also add the query plan, which runs the statement twice.
        """
        question = question_of(
            query,
            agent_id=agent_id,
            user_id=user_id,
            conversation_id=conversation_id,
            now=self.now(),
            top_k=self.settings.top_k if top_k is None else top_k,
            messages=messages,
            as_of=as_of,
            semantic=semantic,
            superseded=include_superseded,
            explain=explain,
            plan=plan,
            after=after,
        )
        return await search.answer(self._runtime.reads, question, session)

    # Deleting

    @measured
    async def forget(
        self,
        selection: Selection | str,
        *,
        agent_id: Id,
        dry_run: bool = False,
        if_fingerprint: str | None = None,
        wait: bool = True,
        actor: Id | None = None,
        reason: str | None = None,
        session: Joinable | None = None,
    ) -> results.Receipt:
        """Deletes what is selected, with everything derived from it, the messages that it came from and the answers to them.

        `selection` is an observation's id, or a `Selection`: a user (everything that they said or own, and what only they
        support; with `about` also what others said about them alone, which is otherwise only listed), a conversation, a
        group, a message, some observations, or everything of the agent. `dry_run` only reports what would be deleted;
        `if_fingerprint`, that of its receipt, deletes only that: `StaleError` if it would be anything else by now.
        When this returns, it is gone from texts as well: a text that contained it goes back to an earlier version, or to
        none, and pending observations are shown instead until the text is rewritten from what is left. With `wait` it is
        rewritten before returning; if the model fails, that stays due (`withheld` in the receipt). It also waits until a
        replica has forgotten it, `read_max_lag_seconds` at most. What a legal hold covers
        is erased when the last one on it ends. Raises `InputError`, `HeldError`, `NotFoundError` (agent, observation).
        """
        flags(dry_run=dry_run, wait=wait)
        chosen = selection_of(selection)
        asked = asked_of(agent_id, actor, reason, self.settings, self.now())

        async def forget(unit: Session) -> results.Receipt:
            if dry_run:
                return await forgetting.preview(unit, asked, chosen)
            journal.check(self.settings.forget_journal, unit)
            forgotten = await forgetting.forget(unit, asked, chosen, if_fingerprint)
            await journal.keep(self.settings.forget_journal, unit, forgotten.entry, joined=session is not None)
            return forgotten.receipt

        bound = dry_run or if_fingerprint is not None or session is not None or self.settings.forget_journal is not None
        if chosen.is_one_observation and not bound:
            alone = await self.database.write(lambda unit: forgetting.forget_alone(unit, asked, chosen), direct=True)
            if alone is not None:
                return await self._runtime.replicated(alone, wait)
        receipt = await self.database.write(forget, session, asked.service, locks=True)
        is_done = dry_run or not wait or session is not None
        receipt = await self._runtime.replicated(receipt, not is_done)
        return receipt if is_done else await self._runtime.jobs.rebuilt(asked.agent_id, receipt)
