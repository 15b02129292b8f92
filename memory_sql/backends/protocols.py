"""The calls that a host makes, with the names and parameters of the legacy system (R108, R111, R112, R295)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol


class MemoryBackend(Protocol):
    """The three calls of a turn. A host's own backend is one as it is, with its own sessions, agents and users."""

    async def assemble_memory_context(
        self,
        session: Any,
        agent: Any,
        user: Any,
        force_refresh: bool = False,
        reason: str = "unknown",
        skip_save: bool = False,
        instrumentation: Any = None,
    ) -> str: ...

    async def maybe_form_memories(self, agent_id: Any, session: Any, agent: Any) -> bool: ...

    async def form_memories(
        self, agent_id: Any, session: Any, agent: Any, conversation_text: str | None = None, char_counts: Any = None
    ) -> bool: ...


class StepwiseBackend(MemoryBackend, Protocol):
    """Forming, consolidating, propagating and retrieving as separate calls."""

    async def extract_observations(
        self, conversation_text: str, user: Any, groups: Sequence[Any], existing_consolidations: Mapping[str, str]
    ) -> Sequence[Any]: ...

    async def save_observations(self, observations: Sequence[Any]) -> Sequence[Any]: ...

    async def maybe_consolidate(self, scope: Any) -> None: ...

    async def consolidate_scope(self, scope: Any) -> None: ...

    async def maybe_propagate_to_group(self, individual_scope: Any, observations: Sequence[Any]) -> None: ...

    async def maybe_propagate_to_collective(self, group_scope: Any, observations: Sequence[Any]) -> None: ...

    async def retrieve_observations(
        self, user_message: str, scope_ids: Sequence[Any], limit: int = 5
    ) -> Sequence[Any]: ...


class LegacyReader(Protocol):
    """Reads the collections of the legacy system as they are. Ids are 24 hexadecimal digits.

    Results are empty if nothing is found. Raises `SourceError`.
    """

    async def person(self, user_id: str) -> Mapping[str, Any] | None:
        """The document of `users3`, for a user or an agent."""

    async def session(self, session_id: str) -> Mapping[str, Any] | None:
        """The document of `sessions`."""

    async def senders(self, session_id: str) -> Sequence[str]:
        """The distinct users who wrote to the session, without agents."""

    async def user_memory(self, agent_id: str, user_id: str) -> Sequence[Mapping[str, Any]]:
        """Documents of `memory_user`, newest last: there may be several."""

    async def shards(self, agent_id: str) -> Sequence[Mapping[str, Any]]:
        """The active documents of `memory_agent`, oldest first."""

    async def records(self, record_ids: Sequence[str]) -> Sequence[Mapping[str, Any]]:
        """Documents of `memory_sessions`, in any order. Ids without a document are skipped."""

    async def episodes(self, session_id: str, limit: int) -> Sequence[Mapping[str, Any]]:
        """The session's newest episodes in `memory_sessions`, oldest first."""

    async def messages(self, session_id: str) -> Sequence[Mapping[str, Any]]:
        """All messages of the session, oldest first."""

    async def close(self) -> None: ...
