"""Memory for agents of LangChain and LangGraph, as middleware. Needs the extra `langchain`.

    agent = create_agent(model, middleware=[MemoryMiddleware(memory, agent_id="ada", user_id="mia")])

What memory has is at the end of the system prompt of each question to the model, and in no state. When the agent has
answered, what was said is stored; its thread is the conversation.
"""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, NamedTuple

from langchain.agents.middleware import AgentMiddleware, AgentState
from langchain.agents.middleware.types import ModelRequest, ModelResponse
from langchain.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage, ToolMessage
from langchain.tools import BaseTool
from langchain.tools.tool_node import ToolCallRequest
from langchain_core.tools import StructuredTool
from langgraph.types import Command

from memory_sql.domain.arguments import ids_of
from memory_sql.domain.ids import Id
from memory_sql.integrations.failures import AnyMemory
from memory_sql.integrations.turns import Everyone, Said, Turns
from memory_sql.tools import Answer, Policy

NOBODY = "Memory isn't available here."

OfRun = Callable[[Any], Any]
"""From the runtime of a run (its `context`, for one) to what holds in it."""


class MemoryMiddleware(AgentMiddleware[AgentState[Any], Any, Any]):
    """Puts memory into the prompt, gives the model its tools, and stores what was said.

    `memory`: a `memory_sql.sync.Memory` for `invoke` and `stream`, also in notebooks; a `Memory` for `ainvoke` and `astream`
    in its event loop. `user_id`, `group_ids` and `conversation_id` hold for all runs, or are functions of a run's runtime;
    without a user there is no memory in that run. `conversation_id` None: the thread; in a run without a thread, a
    conversation of its own. `budget_tokens` is that of `Memory.context`; `seconds`: how long each step may take; `tools`
    None: the model gets none. Raises `InputError`; a run does only where code that blocks uses a memory that is awaited.
    """

    def __init__(
        self,
        memory: AnyMemory,
        *,
        agent_id: Id,
        user_id: Id | OfRun,
        group_ids: Iterable[Id] | OfRun = (),
        conversation_id: Id | OfRun | None = None,
        budget_tokens: int | None = None,
        seconds: float = 2.0,
        tools: Policy | None = Policy(),  # noqa: B008  # frozen
    ) -> None:
        super().__init__()
        self._everyone = Everyone(memory, agent_id=agent_id, budget_tokens=budget_tokens, seconds=seconds, tools=tools)
        self._user_id = user_id
        self._group_ids = group_ids if callable(group_ids) else tuple(ids_of("group_ids", group_ids))
        self._conversation_id = conversation_id
        if not callable(user_id):
            self._everyone.of(user_id)
        self.tools: Sequence[BaseTool] = [
            StructuredTool(name=one.name, description=one.description, args_schema=one.schema, func=_alone)
            for one in self._everyone.tools
        ]

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        run = self._run(request.runtime)
        if run is None:
            return handler(self._without_tools(request))
        asked = _asked(request.messages)
        return handler(_with(request, run.turns.blocking.before(run.conversation_id, asked.text, turn=asked.id)))

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> ModelResponse[Any]:
        run = self._run(request.runtime)
        if run is None:
            return await handler(self._without_tools(request))
        asked = _asked(request.messages)
        return await handler(_with(request, await run.turns.before(run.conversation_id, asked.text, turn=asked.id)))

    def wrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], ToolMessage | Command[Any]]
    ) -> ToolMessage | Command[Any]:
        if request.tool not in self.tools:
            return handler(request)
        run, call = self._run(request.runtime), request.tool_call
        return _result(request, run and run.turns.blocking.call(run.conversation_id, call["name"], call["args"]))

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[ToolMessage | Command[Any]]]
    ) -> ToolMessage | Command[Any]:
        if request.tool not in self.tools:
            return await handler(request)
        run, call = self._run(request.runtime), request.tool_call
        return _result(request, run and await run.turns.call(run.conversation_id, call["name"], call["args"]))

    def after_agent(self, state: AgentState[Any], runtime: Any) -> None:
        if (run := self._run(runtime)) and (said := _since_the_last_answer(state["messages"])):
            run.turns.blocking.after(_conversation(run, said), _said(said))

    async def aafter_agent(self, state: AgentState[Any], runtime: Any) -> None:
        if (run := self._run(runtime)) and (said := _since_the_last_answer(state["messages"])):
            await run.turns.after(_conversation(run, said), _said(said))

    def _run(self, runtime: Any) -> _Run | None:
        """None: it is nobody's."""
        turns = self._everyone.of_run(_of(self._user_id, runtime), _of(self._group_ids, runtime) or ())
        if turns is None:
            return None
        info = runtime.execution_info
        thread = None if info is None else info.thread_id
        return _Run(turns, thread if self._conversation_id is None else _of(self._conversation_id, runtime))

    def _without_tools(self, request: ModelRequest[Any]) -> ModelRequest[Any]:
        return request.override(tools=[tool for tool in request.tools if tool not in self.tools])


class _Run(NamedTuple):
    turns: Turns
    conversation_id: Id | None


class _Asked(NamedTuple):
    text: str | None
    id: str | None


def _of(given: Any, runtime: Any) -> Any:
    return given(runtime) if callable(given) else given


def _is_persons(message: AnyMessage) -> bool:
    """Not a summary, which LangChain's own middleware puts in a person's mouth."""
    return isinstance(message, HumanMessage) and "lc_source" not in message.additional_kwargs


def _asked(messages: Sequence[AnyMessage]) -> _Asked:
    last = next(filter(_is_persons, reversed(messages)), None)
    return _Asked(None, None) if last is None else _Asked(last.text, last.id)


def _with(request: ModelRequest[Any], told: str) -> ModelRequest[Any]:
    """At the end, so that what stays the same stands in front, where providers keep it."""
    if not told:
        return request
    system = request.system_message
    if system is None:
        return request.override(system_message=SystemMessage(told))
    own: Any = [*system.content, {"type": "text", "text": told}]
    content = f"{system.content}\n\n{told}" if isinstance(system.content, str) else own
    return request.override(system_message=system.model_copy(update={"content": content}))


def _result(request: ToolCallRequest, answer: Answer | None) -> ToolMessage:
    call = request.tool_call
    text, is_error = (NOBODY, True) if answer is None else (answer.text, answer.is_error)
    return ToolMessage(text, name=call["name"], tool_call_id=call["id"], status="error" if is_error else "success")


def _since_the_last_answer(messages: Sequence[AnyMessage]) -> Sequence[AnyMessage]:
    """This turn, with runs before it that failed."""
    asked = next((n for n in range(len(messages) - 1, -1, -1) if _is_persons(messages[n])), len(messages) - 1)
    before = range(asked - 1, -1, -1)
    return messages[next((n + 1 for n in before if _is_answer(messages[n])), 0) :]


def _is_answer(message: AnyMessage) -> bool:
    return isinstance(message, AIMessage) and not message.tool_calls


def _conversation(run: _Run, said: Sequence[AnyMessage]) -> Id:
    """Without a thread, one of its own, which is the same if the run is tried again with the same messages."""
    return (said[0].id or uuid.uuid4().hex) if run.conversation_id is None else run.conversation_id


def _said(messages: Sequence[AnyMessage]) -> list[Said]:
    return [one for one in map(_as_said, messages) if one is not None]


def _as_said(message: AnyMessage) -> Said | None:
    if isinstance(message, AIMessage):
        calls = [call["name"] for call in message.tool_calls]
        return Said("assistant", message.text, message.id, message.name, calls=calls)
    if isinstance(message, ToolMessage):
        return Said("tool", message.text, message.id, tool=message.name)
    return Said("user", message.content, message.id, message.name) if _is_persons(message) else None


def _alone(**_: Any) -> str:
    """Called where the middleware isn't, by which it is known whose memory it is."""
    return NOBODY
