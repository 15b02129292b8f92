"""Memory for agents of Google's ADK: a plugin, and a memory service for its own tools. Needs the extra `google-adk`.

    app = App(name="ada", root_agent=agent, plugins=[MemoryPlugin(memory)])
    runner = Runner(app=app, session_service=sessions)

What memory has is at the end of the system instruction of each question to a model, and in no session. When a run has
ended, what was said in it is stored. Its app is the agent, its user the user, its session the conversation: `s1 / mia`, since
two users may have sessions of the same id.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextvars import ContextVar
from datetime import UTC, datetime
from functools import partial
from typing import Any

from google.adk.agents.callback_context import CallbackContext
from google.adk.agents.invocation_context import InvocationContext
from google.adk.events import Event
from google.adk.memory.base_memory_service import BaseMemoryService, SearchMemoryResponse
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.models.llm_request import LlmRequest
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.sessions import Session
from google.adk.tools.agent_tool import AgentTool
from google.adk.tools.base_tool import BaseTool
from google.adk.tools.tool_context import ToolContext
from google.genai import types
from pydantic_core import to_json

from memory_sql import sync
from memory_sql.domain.ids import Id
from memory_sql.domain.selection import Selection
from memory_sql.integrations.failures import AnyMemory
from memory_sql.integrations.turns import Declared, Everyone, Said, Turns
from memory_sql.tools import Policy
from memory_sql.tools.answers import without_frame
from memory_sql.tools.declared import QUERY_MAX_CHARACTERS

FOUND = 10
KINDS = ("text", "inline_data", "file_data", "executable_code", "code_execution_result")
# Tools of ADK whose results say nothing new; `load_memory` gives what memory has said itself.
FRAMEWORKS = frozenset({"transfer_to_agent", "set_model_response", "load_memory"})

_is_tool = ContextVar("is_tool", default=False)


def conversation_of(session_id: str, user_id: str) -> str:
    """The id of a session's conversation in memory: another for each user and session, whatever their ids."""
    return f"{session_id} / {user_id.replace('%', '%25').replace('/', '%2F')}"


class _Apps:
    """The users of each app."""

    def __init__(self, memory: AnyMemory, agent_id: Id | None, **given: Any) -> None:
        self._make = partial(Everyone, memory, **given)
        self._agent_id = agent_id
        self._known = {agent_id: self._make(agent_id=agent_id or "an app")}  # raises for whatever is wrong here

    def of(self, app_name: str) -> Everyone:
        name = self._agent_id or app_name
        if name not in self._known:
            self._known[name] = self._make(agent_id=name)
        return self._known[name]


class MemoryPlugin(BasePlugin):
    """Puts memory into the instructions of all agents of an app, gives their models its tools, and stores what was said.

    `memory`: a `Memory` for runs in its event loop; a `memory_sql.sync.Memory` for `Runner.run`, and from any loop.
    `agent_id` None: the name of the app. `budget_tokens` is that of `Memory.context`; `seconds`: how long each step may take;
    `tools` None: the models get none. Raises `InputError`.
    """

    def __init__(
        self,
        memory: AnyMemory,
        *,
        agent_id: Id | None = None,
        budget_tokens: int | None = None,
        seconds: float = 2.0,
        tools: Policy | None = Policy(),  # noqa: B008  # frozen
    ) -> None:
        super().__init__("memory_sql")
        self._apps = _Apps(memory, agent_id, budget_tokens=budget_tokens, seconds=seconds, tools=tools)

    async def before_tool_callback(self, *, tool: BaseTool, **_: Any) -> None:
        """An agent that is a tool has runs of its own with the same plugins, in which another agent speaks as the user."""
        if isinstance(tool, AgentTool):
            _is_tool.set(True)  # in the task of this call

    async def before_model_callback(self, *, callback_context: CallbackContext, llm_request: LlmRequest) -> None:
        session = callback_context.session
        turns = self._turns(session)
        if turns is None:
            return
        content = callback_context.user_content
        asked = "\n".join(part.text or "" for part in (content and content.parts) or ())
        conversation = conversation_of(session.id, session.user_id)
        if told := await turns.before(conversation, asked, turn=callback_context.invocation_id):
            llm_request.append_instructions([told])
        config = llm_request.config
        if not (config.response_schema or config.response_json_schema):  # beside which not all models take tools
            tools = self._apps.of(session.app_name).tools
            llm_request.append_tools([_Tool(one, turns, conversation) for one in tools])

    async def after_run_callback(self, *, invocation_context: InvocationContext) -> None:
        session, run = invocation_context.session, invocation_context.invocation_id
        turns = self._turns(session)
        events = [event for event in session.events if event.invocation_id == run]
        if turns and any(event.author != "user" for event in events):  # else it ended before an answer
            await turns.after(conversation_of(session.id, session.user_id), _said(events))

    def _turns(self, session: Session) -> Turns | None:
        return None if _is_tool.get() else self._apps.of(session.app_name).of_run(session.user_id)


class MemoryService(BaseMemoryService):
    """For `memory_service=` of a runner: what `load_memory`, `preload_memory` and callbacks of one's own reach.

    Arguments as for `MemoryPlugin`. `search_memory` finds nothing where memory fails or takes too long, and what couldn't be
    added is logged; `delete_memory` raises the errors of `Memory.forget`.
    """

    def __init__(self, memory: AnyMemory, *, agent_id: Id | None = None, seconds: float = 2.0) -> None:
        self._memory, self._agent_id = memory, agent_id
        self._apps = _Apps(memory, agent_id, seconds=seconds)

    async def add_session_to_memory(self, session: Session) -> None:
        if turns := self._apps.of(session.app_name).of_run(session.user_id):
            await turns.after(conversation_of(session.id, session.user_id), _said(session.events))

    async def add_events_to_memory(
        self, *, app_name: str, user_id: str, events: Sequence[Event], session_id: str | None = None, **_: Any
    ) -> None:
        """Without `session_id`, into a conversation of the user's. `custom_metadata` isn't kept."""
        if turns := self._apps.of(app_name).of_run(user_id):
            await turns.after(conversation_of(session_id or "events", user_id), _said(events))

    async def search_memory(self, *, app_name: str, user_id: str, query: str) -> SearchMemoryResponse:
        turns = self._apps.of(app_name).of_run(user_id)
        given = {"query": query[:QUERY_MAX_CHARACTERS], "limit": FOUND}
        found = turns and (await turns.call(None, "recall", given)).data.get("memories")
        return SearchMemoryResponse(memories=[*map(_entry, found or ())])

    async def delete_memory(self, *, app_name: str, user_id: str, memory_id: str | None = None) -> None:
        """Erases a memory of this user's, with what it has replaced. Raises `NotFoundError` for what isn't theirs alone."""
        if memory_id is None:
            return
        chosen = Selection(user_id=user_id, observation_id=memory_id, replaced=True)
        given: Any = {"agent_id": self._agent_id or app_name, "wait": False, "actor": "delete_memory"}
        if isinstance(self._memory, sync.Memory):
            await asyncio.to_thread(self._memory.forget, chosen, **given)
        else:
            await self._memory.forget(chosen, **given)


class _Tool(BaseTool):
    def __init__(self, declared: Declared, turns: Turns, conversation_id: Id) -> None:
        super().__init__(name=declared.name, description=declared.description)
        self._declared, self._turns, self._conversation_id = declared, turns, conversation_id

    def _get_declaration(self) -> types.FunctionDeclaration:
        return types.FunctionDeclaration(
            name=self.name, description=self.description, parameters_json_schema=self._declared.schema
        )

    async def run_async(self, *, args: dict[str, Any], tool_context: ToolContext) -> str:
        return (await self._turns.call(self._conversation_id, self.name, args)).text


def _entry(found: Mapping[str, Any]) -> MemoryEntry:
    """As a tool of its own puts it before a model: by field, so that no text may close what stands around it."""
    one = without_frame(found)
    content = types.Content(role="user", parts=[types.Part.from_text(text=one["text"])])
    return MemoryEntry(content=content, id=one["id"], author=one["said_by"], timestamp=one["said_at"])


def _said(events: Sequence[Event]) -> Iterator[Said]:
    for event in events:
        if not event.partial and event.actions.compaction is None and event.content and event.content.parts:
            yield from _of_event(event, event.content.parts)


def _of_event(event: Event, parts: Sequence[types.Part]) -> Iterator[Said]:
    at = datetime.fromtimestamp(event.timestamp, UTC)
    for n, one in enumerate(part.function_response for part in parts):
        if one and one.name not in FRAMEWORKS:
            text = to_json(one.response, serialize_unknown=True, bytes_mode="base64").decode()
            yield Said("tool", text, f"{event.id}:{n}", created_at=at, tool=one.name)
    called = [part.function_call.name or "" for part in parts if part.function_call]
    calls = [name for name in called if name not in FRAMEWORKS]
    said = [_part(part) for part in parts if not (part.thought or part.function_call or part.function_response)]
    if said or calls:
        yield Said("user" if event.author == "user" else "assistant", said, event.id, created_at=at, calls=calls)


def _part(part: types.Part) -> dict[str, Any]:
    return {"type": next((kind for kind in KINDS if getattr(part, kind)), "part"), "text": part.text}
