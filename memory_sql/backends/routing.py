"""Routes calls by the agent's `engine`: to the host's own backend, to this memory, or to the host's with a shadow here."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar

from memory_sql.backends.differences import ContextDifference
from memory_sql.backends.engines import Engines
from memory_sql.backends.hosts import field_of, id_of_host
from memory_sql.backends.places import agent_of
from memory_sql.backends.protocols import MemoryBackend
from memory_sql.backends.service import stepwise
from memory_sql.backends.shadow import Shadow, ShadowCounts
from memory_sql.backends.sql import SqlBackend
from memory_sql.domain.ids import Id
from memory_sql.memory import Memory

T = TypeVar("T")
Call = Callable[[], Awaitable[T]]


class RoutingBackend:
    """Calls `legacy`, the host's own backend, or this memory, as the agent's setting `engine` says.

    In shadow mode the host gets the answer of `legacy`, and the same call is then repeated here in a separate task: at
    most `most_shadows` tasks at once, each for at most `shadow_seconds`. They never make the host's answer fail or wait;
    `counts` and the log report their results. A change of `engine` takes effect in every process within
    `refresh_seconds`. While the database can't be reached, the last known engine counts, or, for an agent whose engine
    was never read, that of the process's settings. Only the first call that fails to reach the database waits for
    `patience_seconds`.

    `sql` None: a `SqlBackend` of the memory. `agent_id` is for calls that name no agent.
    """

    def __init__(
        self,
        memory: Memory,
        legacy: MemoryBackend,
        *,
        sql: SqlBackend | None = None,
        agent_id: str | None = None,
        refresh_seconds: float = 5.0,
        patience_seconds: float = 0.5,
        shadow_seconds: float = 300.0,
        most_shadows: int = 8,
    ) -> None:
        self._legacy = legacy
        self._sql = sql or SqlBackend(memory, agent_id=agent_id)
        self._agent_id = agent_id
        self._engines = Engines(memory, seconds=refresh_seconds, patience_seconds=patience_seconds)
        self._shadow = Shadow(most=most_shadows, seconds=shadow_seconds)

    def counts(self, agent_id: Id) -> ShadowCounts:
        """What the agent's shadow did in this process."""
        return self._shadow.counts(id_of_host(agent_id))

    async def settle(self) -> None:
        """Waits for the shadows that are running."""
        await self._engines.settle()
        await self._shadow.settle()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self.settle()

    async def assemble_memory_context(
        self,
        session: Any,
        agent: Any,
        user: Any,
        force_refresh: bool = False,
        reason: str = "unknown",
        skip_save: bool = False,
        instrumentation: Any = None,
        *,
        user_message: str | None = None,
    ) -> str:
        """In shadow mode both contexts are compared, without retrieved observations: `legacy` isn't given the message."""
        agent_id, given = id_of_host(agent), (session, agent, user, force_refresh, reason, skip_save)
        engine = await self._engines.of(agent_id)
        if engine == "sql":
            return await self._sql.assemble_memory_context(*given, instrumentation, user_message=user_message)
        told = await self._legacy.assemble_memory_context(*given, instrumentation)
        if engine == "shadow":
            self._shadow.start(
                agent_id, "assemble_memory_context", lambda: self._compare(agent_id, told, given), _name_of(session)
            )
        return told

    async def _compare(self, agent_id: str, told: str, given: tuple[Any, Any, Any, bool, str, bool]) -> None:
        found = await self._sql.assemble_memory_context(*given)
        difference = await asyncio.to_thread(ContextDifference.between, told, found)  # takes 19 ms for 76 kB
        self._shadow.compared(agent_id, difference)

    async def maybe_form_memories(self, agent_id: Any, session: Any, agent: Any) -> bool:
        return await self._routed(
            id_of_host(agent_id),
            "maybe_form_memories",
            lambda: self._legacy.maybe_form_memories(agent_id, session, agent),
            lambda: self._sql.maybe_form_memories(agent_id, session, agent),
            session,
        )

    async def form_memories(
        self, agent_id: Any, session: Any, agent: Any, conversation_text: str | None = None, char_counts: Any = None
    ) -> bool:
        given = (agent_id, session, agent, conversation_text, char_counts)
        return await self._routed(
            id_of_host(agent_id),
            "form_memories",
            lambda: self._legacy.form_memories(*given),
            lambda: self._sql.form_memories(*given),
            session,
        )

    async def extract_observations(
        self,
        conversation_text: str,
        user: Any,
        groups: Sequence[Any] = (),
        existing_consolidations: Mapping[str, str] | None = None,
        *,
        agent_id: Any = None,
    ) -> Sequence[Any]:
        agent, given = self._agent(None, agent_id), (conversation_text, user, groups, existing_consolidations or {})
        return await self._routed(
            agent,
            "extract_observations",
            lambda: stepwise(self._legacy).extract_observations(*given),
            lambda: self._sql.extract_observations(*given, agent_id=agent),
        )

    async def save_observations(self, observations: Sequence[Any], *, agent_id: Any = None) -> Sequence[Any]:
        """Shadows don't repeat this: theirs were stored when they were extracted."""
        return await self._routed(
            self._agent(None, agent_id),
            "save_observations",
            lambda: stepwise(self._legacy).save_observations(observations),
            lambda: self._sql.save_observations(observations),
            shadowed=False,
        )

    async def maybe_consolidate(self, scope: Any, *, agent_id: Any = None) -> None:
        agent = self._agent(scope, agent_id)
        await self._routed(
            agent,
            "maybe_consolidate",
            lambda: stepwise(self._legacy).maybe_consolidate(scope),
            lambda: self._sql.maybe_consolidate(scope, agent_id=agent),
        )

    async def consolidate_scope(self, scope: Any, *, agent_id: Any = None) -> None:
        agent = self._agent(scope, agent_id)
        await self._routed(
            agent,
            "consolidate_scope",
            lambda: stepwise(self._legacy).consolidate_scope(scope),
            lambda: self._sql.consolidate_scope(scope, agent_id=agent),
        )

    async def maybe_propagate_to_group(
        self, individual_scope: Any, observations: Sequence[Any] = (), *, agent_id: Any = None
    ) -> None:
        agent = self._agent(individual_scope, agent_id)
        await self._routed(
            agent,
            "maybe_propagate_to_group",
            lambda: stepwise(self._legacy).maybe_propagate_to_group(individual_scope, observations),
            lambda: self._sql.maybe_propagate_to_group(individual_scope, observations, agent_id=agent),
        )

    async def maybe_propagate_to_collective(
        self, group_scope: Any, observations: Sequence[Any] = (), *, agent_id: Any = None
    ) -> None:
        agent = self._agent(group_scope, agent_id)
        await self._routed(
            agent,
            "maybe_propagate_to_collective",
            lambda: stepwise(self._legacy).maybe_propagate_to_collective(group_scope, observations),
            lambda: self._sql.maybe_propagate_to_collective(group_scope, observations, agent_id=agent),
        )

    async def retrieve_observations(
        self,
        user_message: str,
        scope_ids: Sequence[Any],
        limit: int = 5,
        *,
        user: Any = None,
        agent_id: Any = None,
    ) -> Sequence[Any]:
        """Shadows don't repeat this: the scopes of one engine mean nothing to the other."""
        agent = self._agent(scope_ids[0] if scope_ids else None, agent_id)
        return await self._routed(
            agent,
            "retrieve_observations",
            lambda: stepwise(self._legacy).retrieve_observations(user_message, scope_ids, limit),
            lambda: self._sql.retrieve_observations(user_message, scope_ids, limit, user=user, agent_id=agent),
            shadowed=False,
        )

    async def _routed(
        self, agent_id: str, call: str, legacy: Call[T], sql: Call[T], session: Any = None, *, shadowed: bool = True
    ) -> T:
        """In shadow mode the call is repeated here even if `legacy` fails."""
        engine = await self._engines.of(agent_id)
        if engine == "sql":
            return await sql()
        try:
            return await legacy()
        finally:
            if engine == "shadow" and shadowed:
                self._shadow.start(agent_id, call, sql, _name_of(session))

    def _agent(self, scope: Any, agent_id: Any) -> str:
        return agent_of(scope, self._agent_id if agent_id is None else id_of_host(agent_id))


def _name_of(session: Any) -> str:
    """Something that distinguishes sessions, whatever they are. Nothing may fail here."""
    return "" if session is None else str(field_of(session, "id", "_id") or session)
