"""A host of the legacy system, as far as memory sees it: its objects, and a scripted backend of its own."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.factories import conversation

AGENT, MIA, JONAS = "ada", "mia", "jonas"


@dataclass
class Person:
    id: str
    username: str = ""
    eden_user_id: str | None = None


@dataclass
class Session:
    """A session with so many messages. None of them is a signal."""

    id: str = "42"
    owner: str = MIA
    messages: list[dict[str, Any]] = field(default_factory=list)
    group_ids: tuple[str, ...] = ()
    extras: dict[str, Any] = field(default_factory=dict)

    def say(self, count: int) -> None:
        self.messages += conversation(count, first=len(self.messages) + 1)


@dataclass
class HostScope:
    """A document of the later system's scopes."""

    agent_id: str
    scope_type: str
    user_id: str | None = None
    group_id: str | None = None


@dataclass
class Legacy:
    """Records what it was asked, by name. Every call raises `failing`, if it is set."""

    context: str = "<MemoryContext/>"
    asked: list[str] = field(default_factory=list)
    given: list[tuple[Any, ...]] = field(default_factory=list)
    failing: Exception | None = None

    async def assemble_memory_context(
        self,
        session: Any,
        agent: Any,
        user: Any,
        force_refresh: bool = False,
        reason: str = "unknown",
        skip_save: bool = False,
        instrumentation: Any = None,
    ) -> str:
        self._note("assemble_memory_context", session, agent, user, force_refresh, reason, skip_save, instrumentation)
        return self.context

    async def maybe_form_memories(self, agent_id: Any, session: Any, agent: Any) -> bool:
        self._note("maybe_form_memories", agent_id, session, agent)
        return True

    async def form_memories(
        self, agent_id: Any, session: Any, agent: Any, conversation_text: str | None = None, char_counts: Any = None
    ) -> bool:
        self._note("form_memories", agent_id, session, agent, conversation_text, char_counts)
        return True

    def _note(self, call: str, *given: Any) -> None:
        self.asked.append(call)
        self.given.append(given)
        if self.failing is not None:
            raise self.failing


class Stepwise(Legacy):
    """With the single steps as well."""

    async def extract_observations(self, *given: Any) -> list[str]:
        self._note("extract_observations", *given)
        return ["one"]

    async def save_observations(self, *given: Any) -> list[str]:
        self._note("save_observations", *given)
        return ["one"]

    async def maybe_consolidate(self, *given: Any) -> None:
        self._note("maybe_consolidate", *given)

    async def consolidate_scope(self, *given: Any) -> None:
        self._note("consolidate_scope", *given)

    async def maybe_propagate_to_group(self, *given: Any) -> None:
        self._note("maybe_propagate_to_group", *given)

    async def maybe_propagate_to_collective(self, *given: Any) -> None:
        self._note("maybe_propagate_to_collective", *given)

    async def retrieve_observations(self, *given: Any) -> list[str]:
        self._note("retrieve_observations", *given)
        return ["one"]


def examples() -> dict[str, Any]:
    """What the examples of docs/switching.md define."""
    page = (Path(__file__).parents[1] / "docs" / "switching.md").read_text("utf-8")
    names: dict[str, Any] = {}
    for code in re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL):
        exec(compile(code, "docs/switching.md", "exec"), names)
    return names
