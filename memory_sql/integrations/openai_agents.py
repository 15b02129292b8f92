"""Memory for agents of the OpenAI Agents SDK, around its sessions. Needs the extra `openai-agents`.

    ada = AgentMemory(memory, agent_id="ada")
    session = ada.session(SQLiteSession("s1", "chats.db"), user_id="mia")
    result = await Runner.run(session.remembering(agent), "Which tea do I like?", session=session)

The session that it is around keeps the history as before. What memory has is at the end of the agent's instructions; what
is added to the session is stored in memory, and what is taken out of it is forgotten.
"""

from __future__ import annotations

import inspect
import uuid
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, cast

from agents import Agent, FunctionTool, OpenAIConversationsSession, RunContextWrapper, TResponseInputItem
from agents.memory import Session, SessionSettings
from agents.tool import Tool
from agents.tool_context import ToolContext

from memory_sql.domain.ids import Id
from memory_sql.errors import InputError
from memory_sql.integrations.failures import AnyMemory
from memory_sql.integrations.turns import Declared, Everyone, Said, Turns
from memory_sql.tools import Policy

MARK = "created_by"  # which the SDK never sends to a model, so a history can also be read without us
OURS = "memory_sql:"
AT_OPENAI = "this session keeps its items at OpenAI, which takes no ids of ours; use SQLiteSession or SQLAlchemySession"


class AgentMemory:
    """Makes sessions that remember; made once for an agent, since it knows what its tools have shown.

    `memory`: a `Memory`, awaited in its own event loop; a `memory_sql.sync.Memory` for `Runner.run_sync`, notebooks and
    several loops. `budget_tokens` is that of `Memory.context`; `seconds`: how long each step of a turn may take; `tools`
    None: the model gets none. Raises `InputError`.
    """

    def __init__(
        self,
        memory: AnyMemory,
        *,
        agent_id: Id,
        budget_tokens: int | None = None,
        seconds: float = 2.0,
        tools: Policy | None = Policy(),  # noqa: B008  # frozen
    ) -> None:
        self._everyone = Everyone(memory, agent_id=agent_id, budget_tokens=budget_tokens, seconds=seconds, tools=tools)

    def session(self, inner: Session, *, user_id: Id, group_ids: Iterable[Id] = ()) -> MemorySession:
        """A session of this user, whose id is that of `inner`, which keeps the items. Raises `InputError`."""
        if isinstance(inner, OpenAIConversationsSession):
            raise InputError(AT_OPENAI)
        return MemorySession(inner, self._everyone.of(user_id, group_ids), self._everyone.tools)


class MemorySession:
    """A session around another. A failure of memory fails none of its methods; a failure of the other one does."""

    def __init__(self, inner: Session, turns: Turns, tools: Sequence[Declared]) -> None:
        self._inner = inner
        self.session_id = inner.session_id
        self._turns = turns
        self._turn = uuid.uuid4().hex
        self.tools: list[Tool] = [self._tool(one) for one in tools]

    @property
    def session_settings(self) -> SessionSettings | None:
        return self._inner.session_settings

    @session_settings.setter
    def session_settings(self, settings: SessionSettings | None) -> None:
        self._inner.session_settings = settings

    def __getattr__(self, name: str) -> Any:
        """Whatever else the SDK asks a session for, as to compact it."""
        if name == "_inner":  # while it is copied
            raise AttributeError(name)
        return getattr(self._inner, name)

    def remembering(self, agent: Agent[Any]) -> Agent[Any]:
        """A copy of the agent, for this session alone: with what memory has behind its instructions, and memory's tools."""
        own = agent.instructions

        async def instructions(run: RunContextWrapper[Any], asked: Agent[Any]) -> str:
            told = own(run, asked) if callable(own) else own
            said: Any = await told if inspect.isawaitable(told) else told
            memory = await self._turns.before(self.session_id, _last_said(run.turn_input), turn=self._turn)
            return "\n\n".join(filter(None, (said, memory)))

        return agent.clone(instructions=instructions, tools=[*agent.tools, *self.tools])

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        return [_plain(item) for item in await self._inner.get_items(limit)]

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """To the other session first. A question at its end that nobody has answered is stored along; repeated, once."""
        last = await self._inner.get_items(1) if items and _is_users(items[0]) else []
        unanswered = [one for one in last if _is_users(one) and _mark_of(one)]
        again = [*map(_plain, unanswered)]
        marked = [item if item in again else _marked(item) for item in items]
        await self._inner.add_items(marked)
        if any(map(_is_users, items)):
            self._turn = uuid.uuid4().hex
        said = _said(filter(_mark_of, (*unanswered, *marked)), await self._names(items))
        if said:  # a question alone waits in the process for what comes of it
            await self._turns.after(self.session_id, said, is_over=not all(map(_is_users, items)))

    async def pop_item(self) -> TResponseInputItem | None:
        """Taken out of memory as well, with what was made of it."""
        item = await self._inner.pop_item()
        if item is None:
            return None
        if mark := _mark_of(item):
            await self._turns.forget(self.session_id, [mark])
        return _plain(item)

    async def clear_session(self) -> None:
        """All of this conversation goes from memory as well, with what was made of it."""
        await self._inner.clear_session()
        await self._turns.forget(self.session_id)

    async def _names(self, items: Sequence[TResponseInputItem]) -> dict[str, str]:
        """The tools that were called, by the ids of the calls whose results are among the items."""
        results = {_get(item, "call_id") for item in items if _kind(item).endswith("_output")}
        found = _called(items)
        return found if results <= found.keys() else {**_called(await self._inner.get_items()), **found}

    def _tool(self, one: Declared) -> FunctionTool:
        return FunctionTool(
            name=one.name,
            description=one.description,
            params_json_schema=one.schema,
            on_invoke_tool=partial(self._call, one.name),
            strict_json_schema=False,
        )

    async def _call(self, name: str, _: ToolContext[Any], arguments: str) -> str:
        return (await self._turns.call(self.session_id, name, arguments)).text


def _get(item: TResponseInputItem, name: str) -> Any:
    return cast("Mapping[str, Any]", item).get(name)


def _kind(item: TResponseInputItem) -> str:
    return str(_get(item, "type") or "message")


def _is_users(item: TResponseInputItem) -> bool:
    return bool(_get(item, "role") == "user")


def _mark_of(item: TResponseInputItem) -> str | None:
    mark = _get(item, MARK)
    return mark.removeprefix(OURS) if isinstance(mark, str) and mark.startswith(OURS) else None


def _marked(item: TResponseInputItem) -> TResponseInputItem:
    """With an id of its own: a user's items have none, and one that was forgotten may never come back under the same."""
    return cast("TResponseInputItem", {**item, MARK: f"{OURS}{uuid.uuid4().hex}"})


def _plain(item: TResponseInputItem) -> TResponseInputItem:
    if _mark_of(item) is None:
        return item
    return cast("TResponseInputItem", {name: value for name, value in item.items() if name != MARK})


def _called(items: Iterable[TResponseInputItem]) -> dict[str, str]:
    return {str(_get(item, "call_id")): str(_get(item, "name")) for item in items if _kind(item).endswith("_call")}


def _last_said(items: Sequence[TResponseInputItem]) -> str | None:
    last = next(filter(_is_users, reversed(items)), None)
    content = None if last is None else _get(last, "content")
    parts = content if isinstance(content, list) else []
    return content if isinstance(content, str) else "\n".join(str(part.get("text", "")) for part in parts) or None


def _said(items: Iterable[TResponseInputItem], names: Mapping[str, str]) -> list[Said]:
    found = list[Said]()
    for item in items:
        mark, kind = _mark_of(item), _kind(item)
        if kind == "message":
            found.append(Said(_get(item, "role"), _get(item, "content"), mark))
        elif kind == "function_call":
            found.append(Said("assistant", "", mark, calls=[_get(item, "name")]))
        elif kind == "function_call_output":
            found.append(Said("tool", _get(item, "output"), mark, tool=names.get(_get(item, "call_id"))))
    return found
