"""Memory for agents of Microsoft's Agent Framework, as a context provider. Needs the extra `agent-framework`.

    agent = Agent(client, context_providers=[MemoryProvider(memory, agent_id="ada", user_id="mia")])
    await agent.run("Which tea do I like?", session=agent.create_session(session_id="s1"))

What memory has is at the end of the instructions, and in no history. When the agent has answered, what was said is
stored; its session is the conversation. Without `session` each run is a conversation of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from itertools import takewhile
from typing import Any

from agent_framework import AgentSession, Content, ContextProvider, FunctionTool, Message, SessionContext
from pydantic import BaseModel, ConfigDict

from memory_sql.domain.arguments import ids_of
from memory_sql.domain.ids import Id
from memory_sql.integrations.failures import AnyMemory
from memory_sql.integrations.turns import Declared, Everyone, Said, Turns
from memory_sql.tools import Policy

SOURCE_ID = "memory_sql"
TURNS = "turns"  # in the state of a session: how many are stored
LOOP = "_agent_loop_iteration"  # in the options of a run that a loop has started
AROUND = frozenset({"text_reasoning", "usage", "function_approval_request", "function_approval_response"})

OfSession = Callable[[AgentSession], Any]
"""From the session of a run (its `state`, for one) to what holds in it."""


class MemoryProvider(ContextProvider):
    """Puts memory into the instructions, gives the model its tools, and stores what was said.

    `memory`: a `Memory` for runs in its event loop; a `memory_sql.sync.Memory` from any loop. `user_id` and `group_ids` hold
    for all runs, or are functions of a run's session; without a user there is no memory in that run. `budget_tokens` is that
    of `Memory.context`; `seconds`: how long each step may take; `tools` None: the model gets none. Raises `InputError`.
    """

    after_run_once_per_turn = True  # in a loop, what it says to go on isn't the user's

    def __init__(
        self,
        memory: AnyMemory,
        *,
        agent_id: Id,
        user_id: Id | OfSession,
        group_ids: Iterable[Id] | OfSession = (),
        budget_tokens: int | None = None,
        seconds: float = 2.0,
        tools: Policy | None = Policy(),  # noqa: B008  # frozen
        source_id: str = SOURCE_ID,
    ) -> None:
        super().__init__(source_id)
        self._everyone = Everyone(memory, agent_id=agent_id, budget_tokens=budget_tokens, seconds=seconds, tools=tools)
        self._user_id = user_id
        self._group_ids = group_ids if callable(group_ids) else tuple(ids_of("group_ids", group_ids))
        if not callable(user_id):
            self._everyone.of(user_id)

    async def before_run(
        self, *, agent: Any, session: AgentSession, context: SessionContext, state: dict[str, Any]
    ) -> None:
        turns = self._turns(session)
        if turns is None:
            return
        said = _asked(context.input_messages)
        loop = context.options.get(LOOP)
        turn = None if loop is None else f"{state.get(TURNS, 0)}:{id(loop)}"
        told = await turns.before(context.session_id, "\n".join(one.text for one in said), turn=turn)
        if told:
            context.extend_instructions(self.source_id, told)
        context.extend_tools(self.source_id, [_Tool(one, turns, context.session_id) for one in self._everyone.tools])

    async def after_run(
        self, *, agent: Any, session: AgentSession, context: SessionContext, state: dict[str, Any]
    ) -> None:
        turns = self._turns(session)
        if turns is None or context.response is None or context.session_id is None:
            return
        asked = _asked(context.input_messages)
        n = state.get(TURNS, 0)
        state[TURNS] = n + 1
        answered = [one for one in context.response.messages if one.role != "user"]
        names = _names([*asked, *answered])
        said = [*_said(asked, names, ids=True), *_said(answered, names)]
        await turns.after(context.session_id, said, key=_key(n, asked, context.input_messages))

    def _turns(self, session: AgentSession) -> Turns | None:
        """None: it is nobody's."""
        return self._everyone.of_run(_of(self._user_id, session), _of(self._group_ids, session) or ())


class _Anything(BaseModel):
    model_config = ConfigDict(extra="allow")


class _Tool(FunctionTool):
    """Takes whatever object a model gives: what is wrong with it, memory says."""

    def __init__(self, declared: Declared, turns: Turns, conversation_id: Id | None) -> None:
        async def call(**arguments: Any) -> str:
            return (await turns.call(conversation_id, declared.name, arguments)).text

        super().__init__(name=declared.name, description=declared.description, func=call, input_model=_Anything)
        self._declared = declared.schema

    def parameters(self) -> dict[str, Any]:
        return self._declared


def _of(given: Any, session: AgentSession) -> Any:
    return given(session) if callable(given) else given


def _asked(messages: Sequence[Message]) -> list[Message]:
    """What is new, where a host gives a run the conversation so far."""
    new = list(takewhile(lambda one: one.role != "assistant" or _calls(one), reversed(messages)))
    return new[::-1]


def _key(n: int, asked: Sequence[Message], given: Sequence[Message]) -> str:
    """Names the turn: by the host's name of what was asked; else by its place and the words that the run was given, so that
    a session which is restored from an earlier state, or new each time, says nothing else under a name that is taken."""
    named = next((one.message_id for one in reversed(asked) if one.message_id), None)
    words = "\n".join(f"{one.role} {one.text}" for one in given)
    return named or f"{n}:{sha256(words.encode()).hexdigest()[:16]}"


def _calls(message: Message) -> list[Content]:
    return [one for one in message.contents if one.type == "function_call"]


def _names(messages: Sequence[Message]) -> dict[str | None, str | None]:
    """Of tools, by their calls, also by those that somebody has approved since they were made."""
    parts = (part for one in messages for part in one.contents)
    calls = (call for part in parts for call in (part, part.function_call) if call and call.type == "function_call")
    return {call.call_id: call.name for call in calls}


def _said(messages: Sequence[Message], names: Mapping[str | None, str | None], *, ids: bool = False) -> Iterator[Said]:
    """`ids`: those of messages are the host's; models may give the same to each answer."""
    for one in messages:
        name, id_ = one.author_name, (one.message_id or None) if ids else None
        results = [part for part in one.contents if part.type == "function_result"]
        for part in results:
            yield Said("tool", part.result or "", name=name, tool=names.get(part.call_id))
        parts = [_part(part) for part in one.contents if part.type not in (*AROUND, "function_call", "function_result")]
        if parts or _calls(one):
            yield Said(one.role, parts, id_, name, calls=[call.name or "" for call in _calls(one)])


def _part(content: Content) -> dict[str, str]:
    return {"type": "text", "text": content.text or ""} if content.type == "text" else {"type": content.type}
