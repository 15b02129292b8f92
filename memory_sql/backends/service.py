"""The façade that a host of the legacy system calls, and the instance that it imports (R014, R019, R020, R295)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from memory_sql.backends.protocols import MemoryBackend, StepwiseBackend
from memory_sql.errors import ConfigurationError

_STEPS = (
    "extract_observations save_observations maybe_consolidate consolidate_scope maybe_propagate_to_group "
    "maybe_propagate_to_collective retrieve_observations"
).split()


class MemoryService:
    """The calls of the legacy system, with their names and parameters.

    `backend` answers them. It may be set later, once, when the host starts. Without a backend every call raises
    `ConfigurationError`; with a backend that has only the three calls of a turn, the other calls do. Further parameters,
    such as `agent_id` in a call that names no agent, are passed on to the backend.
    """

    def __init__(self, backend: MemoryBackend | None = None) -> None:
        self.backend = backend

    async def assemble_memory_context(
        self,
        session: Any,
        agent: Any,
        user: Any,
        force_refresh: bool = False,
        reason: str = "unknown",
        skip_save: bool = False,
        instrumentation: Any = None,
        **more: Any,
    ) -> str:
        """The XML for the prompt of this user's turn. `more` may contain `user_message`."""
        return await self._turn.assemble_memory_context(
            session, agent, user, force_refresh, reason, skip_save, instrumentation, **more
        )

    async def maybe_form_memories(self, agent_id: Any, session: Any, agent: Any) -> bool:
        """Forms memories of the session if it is due. Returns whether it did."""
        return await self._turn.maybe_form_memories(agent_id, session, agent)

    async def form_memories(
        self, agent_id: Any, session: Any, agent: Any, conversation_text: str | None = None, char_counts: Any = None
    ) -> bool:
        """Forms memories of the session now. Returns whether there was anything to form."""
        return await self._turn.form_memories(agent_id, session, agent, conversation_text, char_counts)

    async def extract_observations(
        self,
        conversation_text: str,
        user: Any,
        groups: Sequence[Any] = (),
        existing_consolidations: Mapping[str, str] | None = None,
        **more: Any,
    ) -> Sequence[Any]:
        """Extracts what is worth remembering from a text, with scopes, in one model call."""
        return await self._steps.extract_observations(
            conversation_text, user, groups, existing_consolidations or {}, **more
        )

    async def save_observations(self, observations: Sequence[Any]) -> Sequence[Any]:
        """Returns the observations that are now stored."""
        return await self._steps.save_observations(observations)

    async def maybe_consolidate(self, scope: Any, **more: Any) -> None:
        """Consolidates the scope if enough is pending."""
        await self._steps.maybe_consolidate(scope, **more)

    async def consolidate_scope(self, scope: Any, **more: Any) -> None:
        """Consolidates the scope now."""
        await self._steps.consolidate_scope(scope, **more)

    async def maybe_propagate_to_group(
        self, individual_scope: Any, observations: Sequence[Any] = (), **more: Any
    ) -> None:
        """Shares what concerns the user's groups with them."""
        await self._steps.maybe_propagate_to_group(individual_scope, observations, **more)

    async def maybe_propagate_to_collective(
        self, group_scope: Any, observations: Sequence[Any] = (), **more: Any
    ) -> None:
        """Shares with everybody what several groups show."""
        await self._steps.maybe_propagate_to_collective(group_scope, observations, **more)

    async def retrieve_observations(
        self, user_message: str, scope_ids: Sequence[Any], limit: int = 5, **more: Any
    ) -> Sequence[Any]:
        """The observations that the message finds in these scopes, best first."""
        return await self._steps.retrieve_observations(user_message, scope_ids, limit, **more)

    @property
    def _turn(self) -> MemoryBackend:
        if self.backend is None:
            raise ConfigurationError("the memory service has no backend: set its `backend` when the host starts")
        return self.backend

    @property
    def _steps(self) -> StepwiseBackend:
        return stepwise(self._turn)


def stepwise(backend: MemoryBackend) -> StepwiseBackend:
    """Returns the same backend if it has the single steps. Raises `ConfigurationError`."""
    missing = [name for name in _STEPS if not hasattr(backend, name)]
    if missing:
        raise ConfigurationError(f"{type(backend).__name__} has no {', '.join(missing)}")
    return cast("StepwiseBackend", backend)


memory_service = MemoryService()
"""The instance that a host imports. It has no backend until the host sets one."""
