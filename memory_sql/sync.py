"""`Memory` for code that doesn't await: the same methods, which block until they are done.

    from memory_sql.sync import Memory

    with Memory() as memory:
        memory.observe("Mia likes tea.", agent_id="ada", user_id="mia")

Each method runs the method of `memory_sql.Memory` (docs/api.md) in an event loop in a thread of its own. Any number of
threads may call at once. `session=` is the transaction of code that blocks: a connection of psycopg, psycopg2 or Django, or
SQLAlchemy's Session. The statements are sent by the calling thread. `Worker`, `work.claim` and `work.refusal` are only for
code that awaits.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator, Mapping
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, Generic, NoReturn, ParamSpec, Self, TypeVar, Unpack, cast

from memory_sql import memory as awaited
from memory_sql.config import Settings
from memory_sql.config.own import AgentSettings
from memory_sql.domain.ids import Id
from memory_sql.errors import InputError
from memory_sql.llm import LanguageModel
from memory_sql.llm.embeddings import EmbeddingModel
from memory_sql.portal import NO_COROUTINE, Portal
from memory_sql.resources import (
    admin,
    conversations,
    entities,
    episodes,
    groups,
    holds,
    imports,
    keys,
    models,
    observations,
    people,
    prompts,
    scopes,
    topics,
    work,
)
from memory_sql.resources.faces import NOT_SENT

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


class Face:
    """A part of `Memory`, with blocking methods."""

    def __init__(self, portal: Portal, part: object) -> None:
        self._portal = portal
        self._awaited = part

    def __reduce__(self) -> NoReturn:
        raise InputError(NOT_SENT)


class _Blocking(Generic[P, R]):
    """Makes an awaited method a blocking one, with the same parameters and result, for type checkers too."""

    def __init__(self, method: Callable[Concatenate[Any, P], Coroutine[Any, Any, R]]) -> None:
        self.method: Callable[..., Coroutine[Any, Any, R]] = method

    def __get__(self, face: Face, kind: type) -> Callable[P, R]:
        def call(*given: P.args, **named: P.kwargs) -> R:
            session: Any = named.get("session")
            if session is None:
                return face._portal.call(lambda: _of(face, self.method)(*given, **named))
            return face._portal.join(session, lambda lent: _of(face, self.method)(*given, **{**named, "session": lent}))

        return _like(self.method, call)


class _Iterating(Generic[P, R]):
    """The same for an asynchronous generator."""

    def __init__(self, method: Callable[Concatenate[Any, P], AsyncGenerator[R, None]]) -> None:
        self.method = method

    def __get__(self, face: Face, kind: type) -> Callable[P, Iterator[R]]:
        def call(*given: P.args, **named: P.kwargs) -> Iterator[R]:
            return face._portal.iterate(_of(face, self.method)(*given, **named))

        return _like(self.method, call)


def _of(face: Face, method: Callable[..., T]) -> Callable[..., T]:
    """The method of this one memory, which may have shards."""
    found: Callable[..., T] = getattr(face._awaited, method.__name__)
    return found


def _like(method: Callable[..., Any], call: Callable[P, R]) -> Callable[P, R]:
    """The function with the name, docstring and signature of the method."""
    signature, made = inspect.signature(method), cast("Any", call)
    shown = list(signature.parameters.values())[1:]
    made.__name__, made.__qualname__, made.__doc__ = method.__name__, method.__qualname__, method.__doc__
    made.__signature__ = signature.replace(parameters=shown)
    return call


class Observations(Face):
    get = _Blocking(observations.Observations.get)
    list = _Blocking(observations.Observations.list)
    sources = _Blocking(observations.Observations.sources)
    spread = _Blocking(observations.Observations.spread)
    update = _Blocking(observations.Observations.update)
    supersede = _Blocking(observations.Observations.supersede)
    reinstate = _Blocking(observations.Observations.reinstate)
    confirm = _Blocking(observations.Observations.confirm)
    dispute = _Blocking(observations.Observations.dispute)
    resolve = _Blocking(observations.Observations.resolve)
    feedback = _Blocking(observations.Observations.feedback)
    mark = _Blocking(observations.Observations.mark)
    quarantine = _Blocking(observations.Observations.quarantine)
    unquarantine = _Blocking(observations.Observations.unquarantine)


class Scopes(Face):
    create = _Blocking(scopes.Scopes.create)
    get = _Blocking(scopes.Scopes.get)
    set = _Blocking(scopes.Scopes.set)
    list = _Blocking(scopes.Scopes.list)
    history = _Blocking(scopes.Scopes.history)
    diff = _Blocking(scopes.Scopes.diff)
    consolidate = _Blocking(scopes.Scopes.consolidate)
    undo = _Blocking(scopes.Scopes.undo)
    propagate = _Blocking(scopes.Scopes.propagate)


class Imports(Face):
    mongo = _Blocking(imports.Imports.mongo)
    mem0 = _Blocking(imports.Imports.mem0)
    list = _Blocking(imports.Imports.list)
    verify = _Blocking(imports.Imports.verify)
    rollback = _Blocking(imports.Imports.rollback)


class Prompts(Face):
    set = _Blocking(prompts.Prompts.set)
    list = _Blocking(prompts.Prompts.list)
    get = _Blocking(prompts.Prompts.get)


class Conversations(Face):
    messages = _Blocking(conversations.Conversations.messages)
    takes_part = _Blocking(conversations.Conversations.takes_part)
    message_ids = _Blocking(conversations.Conversations.message_ids)
    form = _Blocking(conversations.Conversations.form)
    unformed = _Blocking(conversations.Conversations.unformed)
    exclude = _Blocking(conversations.Conversations.exclude)
    share = _Blocking(conversations.Conversations.share)


class Entities(Face):
    list = _Blocking(entities.Entities.list)
    get = _Blocking(entities.Entities.get)


class Topics(Face):
    list = _Blocking(topics.Topics.list)


class Groups(Face):
    create = _Blocking(groups.Groups.create)
    rename = _Blocking(groups.Groups.rename)
    share = _Blocking(groups.Groups.share)
    add_member = _Blocking(groups.Groups.add_member)
    remove_member = _Blocking(groups.Groups.remove_member)
    members = _Blocking(groups.Groups.members)
    list = _Blocking(groups.Groups.list)


class Episodes(Face):
    list = _Blocking(episodes.Episodes.list)
    get = _Blocking(episodes.Episodes.get)
    seal = _Blocking(episodes.Episodes.seal)


class People(Face):
    list = _Blocking(people.People.list)
    merge = _Blocking(people.People.merge)
    unmerge = _Blocking(people.People.unmerge)
    aliases = _Blocking(people.People.aliases)
    forget = _Blocking(people.People.forget)
    rename = _Blocking(people.People.rename)
    export = _Iterating(people.People.export)


class Holds(Face):
    place = _Blocking(holds.Holds.place)
    list = _Blocking(holds.Holds.list)
    release = _Blocking(holds.Holds.release)


class Keys(Face):
    create = _Blocking(keys.Keys.create)
    list = _Blocking(keys.Keys.list)
    revoke = _Blocking(keys.Keys.revoke)
    find = _Blocking(keys.Keys.find)
    known = _Blocking(keys.Keys.known)
    link = _Blocking(keys.Keys.link)
    redeem = _Blocking(keys.Keys.redeem)


class Models(Face):
    check = _Blocking(models.Models.check)
    prices = _Blocking(models.Models.prices)
    set_price = _Blocking(models.Models.set_price)


class Work(Face):
    backlog = _Blocking(work.Work.backlog)
    costs = _Blocking(work.Work.costs)
    dead = _Blocking(work.Work.dead)
    failures = _Blocking(work.Work.failures)
    waiting = _Blocking(work.Work.waiting)
    late = _Blocking(work.Work.late)
    retry = _Blocking(work.Work.retry)
    discard = _Blocking(work.Work.discard)
    reviews = _Blocking(work.Work.reviews)
    decide = _Blocking(work.Work.decide)
    maintain = _Blocking(work.Work.maintain)
    lifecycle = _Blocking(work.Work.lifecycle)
    trim = _Blocking(work.Work.trim)
    embed = _Blocking(work.Work.embed)
    recheck = _Blocking(work.Work.recheck)
    learn = _Blocking(work.Work.learn)
    note_action = _Blocking(work.Work.note_action)
    catch_up = _Blocking(work.Work.catch_up)


class Admin(Face):
    stats = _Blocking(admin.Admin.stats)
    verify = _Blocking(admin.Admin.verify)
    settings = _Blocking(admin.Admin.settings)
    restore_check = _Blocking(admin.Admin.restore_check)
    journal_status = _Blocking(admin.Admin.journal_status)
    move = _Blocking(admin.Admin.move)
    position = _Blocking(admin.Admin.position)
    agents = _Blocking(admin.Admin.agents)
    export = _Blocking(admin.Admin.export)


class Memory(Face):
    """Like `memory_sql.Memory`, without `engine=`: the host's engine belongs to the host's event loop."""

    add = _Blocking(awaited.Memory.add)
    observe = _Blocking(awaited.Memory.observe)
    run_due = _Blocking(awaited.Memory.run_due)
    context = _Blocking(awaited.Memory.context)
    digest = _Blocking(awaited.Memory.digest)
    search = _Blocking(awaited.Memory.search)
    forget = _Blocking(awaited.Memory.forget)

    def __init__(
        self,
        url: str | None = None,
        llm: LanguageModel | None = None,
        settings: Settings | None = None,
        *,
        embeddings: EmbeddingModel | None = None,
        read_url: str | Mapping[str, str] | None = None,
        shards: Mapping[str, str] | None = None,
        clock: Callable[[], datetime] | None = None,
    ) -> None:
        memory = awaited.Memory(
            url, llm, settings, embeddings=embeddings, read_url=read_url, shards=shards, clock=clock
        )
        portal = Portal(lambda: memory.database.engine.dialect)
        super().__init__(portal, memory)
        self._memory = memory
        self.settings = memory.settings
        self.observations = Observations(portal, memory.observations)
        self.scopes = Scopes(portal, memory.scopes)
        self.entities = Entities(portal, memory.entities)
        self.topics = Topics(portal, memory.topics)
        self.imports = Imports(portal, memory.imports)
        self.prompts = Prompts(portal, memory.prompts)
        self.conversations = Conversations(portal, memory.conversations)
        self.episodes = Episodes(portal, memory.episodes)
        self.groups = Groups(portal, memory.groups)
        self.people = People(portal, memory.people)
        self.holds = Holds(portal, memory.holds)
        self.keys = Keys(portal, memory.keys)
        self.models = Models(portal, memory.models)
        self.work = Work(portal, memory.work)
        self.admin = Admin(portal, memory.admin)

    def open(self, *, restoring: bool = False) -> Self:
        """Connects and starts the thread. Raises the same errors as `memory_sql.Memory.open`."""
        if self._portal.is_running:
            raise InputError("this Memory is open already")
        self._portal.start()
        try:
            self._portal.call(lambda: self._memory.open(restoring=restoring))
        except BaseException:
            self._portal.stop()
            raise
        return self

    def close(self) -> None:
        """Closes connections and models, and ends the thread. Calls of other threads are cancelled."""
        if not self._portal.is_running:
            return
        try:
            self._portal.call(self._memory.close)
        finally:
            self._portal.stop()

    def __enter__(self) -> Self:
        return self.open()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    if not TYPE_CHECKING:  # which complains by itself

        async def __aenter__(self) -> None:
            raise InputError("memory_sql.sync.Memory is opened by `with`; memory_sql.Memory by `async with`")

        async def __aexit__(self, *_: object) -> None:
            """Never reached; without it nobody calls `__aenter__`."""

    def configure(self, *, agent_id: Id, **settings: Unpack[AgentSettings]) -> dict[str, Any]:
        """Like `memory_sql.Memory.configure`."""
        return self._portal.call(lambda: self._memory.configure(agent_id=agent_id, **settings))

    def run(self, call: Callable[[awaited.Memory], Coroutine[Any, Any, R]]) -> R:
        """The result of a coroutine that awaits methods of the Memory that it is given, in this memory's thread.

            found = memory.run(lambda awaited: tools_of(awaited).call("recall", {"query": "tea"}))

        Unlike the other methods it also works where an event loop runs, as in a notebook, or a hook that a framework calls
        from one. That loop stands still meanwhile. There, open and close this memory in a thread:
        `await asyncio.to_thread(memory.open)`. Raises what the coroutine raises; `InputError` within such a coroutine.
        """
        if not callable(call):
            if inspect.iscoroutine(call):
                call.close()
            raise InputError(NO_COROUTINE.format(type(call).__name__))
        return self._portal.run(lambda: call(self._memory))

    def require_llm(self) -> None:
        """Creates the language model now rather than at its first use. Raises `ConfigurationError` if there is none."""
        self._memory.require_llm()

    def now(self) -> datetime:
        """The current time on this memory's clock, in UTC."""
        return self._memory.now()
