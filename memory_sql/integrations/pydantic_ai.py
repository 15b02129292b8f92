"""Memory for agents of Pydantic AI, as a capability. Needs the extra `pydantic-ai`.

    agent = Agent(model, capabilities=[MemoryCapability(memory, agent_id="ada", user_id="mia")])
    await agent.run("Which tea do I like?", conversation_id="s1")

What memory has is at the end of the instructions of each question to the model, and in no history. When the agent has
answered, what was said is stored. Without `conversation_id` each run without a history is a conversation of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from pydantic_ai import DeferredToolRequests, RunContext, ToolDefinition
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.messages import (
    BaseToolCallPart,
    CachePoint,
    InstructionPart,
    ModelMessage,
    ModelRequest,
    ModelRequestPart,
    ModelResponse,
    TextContent,
    ToolReturnPart,
    UserContent,
    UserPromptPart,
)
from pydantic_ai.models import ModelRequestContext
from pydantic_ai.run import AgentRunResult
from pydantic_ai.toolsets import AbstractToolset, ToolsetTool
from pydantic_core import SchemaValidator, core_schema, to_json

from memory_sql.domain.arguments import ids_of
from memory_sql.domain.ids import Id
from memory_sql.integrations.failures import AnyMemory
from memory_sql.integrations.turns import Everyone, Said, Turns
from memory_sql.tools import Policy

OBJECT = SchemaValidator(core_schema.dict_schema(core_schema.str_schema(), core_schema.any_schema()))
MOST_RETRIES = 10  # of a model that writes no object, before the framework ends the run
NOBODY = "Memory isn't available here."

OfRun = Callable[[RunContext[Any]], Any]
"""From the context of a run (its `deps`, for one) to what holds in it."""


class MemoryCapability(AbstractCapability[Any]):
    """Puts memory into the instructions, gives the model its tools, and stores what was said.

    `memory`: a `Memory` for runs in its event loop; a `memory_sql.sync.Memory` for `run_sync`, and from any loop. `user_id`
    and `group_ids` hold for all runs, or are functions of a run's context; without a user there is no memory in that run.
    `budget_tokens` is that of `Memory.context`; `seconds`: how long each step may take; `tools` None: the model gets none.
    Raises `InputError`.
    """

    def __init__(
        self,
        memory: AnyMemory,
        *,
        agent_id: Id,
        user_id: Id | OfRun,
        group_ids: Iterable[Id] | OfRun = (),
        budget_tokens: int | None = None,
        seconds: float = 2.0,
        tools: Policy | None = Policy(),  # noqa: B008  # frozen
    ) -> None:
        self._everyone = Everyone(memory, agent_id=agent_id, budget_tokens=budget_tokens, seconds=seconds, tools=tools)
        self._user_id = user_id
        self._group_ids = group_ids if callable(group_ids) else tuple(ids_of("group_ids", group_ids))
        if not callable(user_id):
            self._everyone.of(user_id)

    @classmethod
    def get_serialization_name(cls) -> None:
        """None: a memory can't be written into the file of an agent."""

    def get_toolset(self) -> AbstractToolset[Any]:
        tools = [
            ToolDefinition(name=one.name, description=one.description, parameters_json_schema=one.schema)
            for one in self._everyone.tools
        ]
        return _Toolset(tools, self._turns)

    async def prepare_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        """Changes this request alone; what `get_instructions` gives would stay in the history."""
        turns = self._turns(ctx)
        told = turns and await turns.before(ctx.conversation_id, _asked(ctx), turn=ctx.run_id)
        if not told:
            return request_context
        parameters = request_context.model_request_parameters
        parts = [*(parameters.instruction_parts or ()), InstructionPart(told, dynamic=True)]
        return replace(request_context, model_request_parameters=replace(parameters, instruction_parts=parts))

    async def after_run(self, ctx: RunContext[Any], *, result: AgentRunResult[Any]) -> AgentRunResult[Any]:
        if turns := self._turns(ctx):
            await turns.after(result.conversation_id, _said(result), key=result.run_id)
        return result

    def _turns(self, ctx: RunContext[Any]) -> Turns | None:
        """None: it is nobody's."""
        return self._everyone.of_run(_of(self._user_id, ctx), _of(self._group_ids, ctx) or ())


class _Toolset(AbstractToolset[Any]):
    """Takes whatever object a model gives: what is wrong with it, memory says."""

    id = "memory_sql"

    def __init__(self, tools: Sequence[ToolDefinition], turns_of: Callable[[RunContext[Any]], Turns | None]) -> None:
        self._tools = [
            ToolsetTool(toolset=self, tool_def=one, max_retries=MOST_RETRIES, args_validator=OBJECT) for one in tools
        ]
        self._turns_of = turns_of

    async def get_tools(self, ctx: RunContext[Any]) -> dict[str, ToolsetTool[Any]]:
        return {} if self._turns_of(ctx) is None else {one.tool_def.name: one for one in self._tools}

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[Any], tool: ToolsetTool[Any]
    ) -> str:
        turns = self._turns_of(ctx)
        return NOBODY if turns is None else (await turns.call(ctx.conversation_id, name, tool_args)).text


def _of(given: Any, ctx: RunContext[Any]) -> Any:
    return given(ctx) if callable(given) else given


def _asked(ctx: RunContext[Any]) -> str | None:
    """What the user says in this run, or has said last where it goes on without."""
    if ctx.prompt is not None:
        return _text(ctx.prompt)
    requests = (one for one in reversed(ctx.messages) if isinstance(one, ModelRequest))
    prompts = (part for one in requests for part in reversed(one.parts) if isinstance(part, UserPromptPart))
    last = next(prompts, None)
    return None if last is None else _text(last.content)


def _text(content: str | Sequence[UserContent]) -> str:
    return content if isinstance(content, str) else "\n".join(part.get("text", "") for part in _parts(content))


def _parts(content: Sequence[UserContent]) -> list[dict[str, str]]:
    """With the kind of what isn't text in place of it."""
    return [_part(one) for one in content if not isinstance(one, CachePoint)]


def _part(one: UserContent) -> dict[str, str]:
    if isinstance(one, str | TextContent):
        return {"type": "text", "text": one if isinstance(one, str) else one.content}
    return {"type": one.kind}


def _said(result: AgentRunResult[Any]) -> Iterator[Said]:
    """What was said in the run. An output of a tool is the answer in place of the call; its results say nothing."""
    messages: list[ModelMessage] = result.new_messages()
    answer = None
    if messages and isinstance(messages[-1], ModelRequest) and not isinstance(result.output, DeferredToolRequests):
        *messages, _ = messages
        answer = _written(result.output)
    for one in messages:
        if isinstance(one, ModelRequest):
            yield from filter(None, map(_as_said, one.parts))
        elif answer is not None and one is messages[-1]:
            yield Said("assistant", "\n".join(filter(None, (one.text, answer))), created_at=one.timestamp)
        else:
            yield _answered(one)


def _written(output: Any) -> str:
    return output if isinstance(output, str) else to_json(output, serialize_unknown=True, bytes_mode="base64").decode()


def _as_said(part: ModelRequestPart) -> Said | None:
    """Only what people and tools say; the rest is the framework's."""
    if isinstance(part, UserPromptPart):
        content = part.content if isinstance(part.content, str) else _parts(part.content)
        return Said("user", content, created_at=part.timestamp)
    if isinstance(part, ToolReturnPart) and part.outcome == "success":
        return Said("tool", part.model_response_str(), created_at=part.timestamp, tool=part.tool_name)
    return None


def _answered(response: ModelResponse) -> Said:
    calls = [part.tool_name for part in response.parts if isinstance(part, BaseToolCallPart)]
    return Said("assistant", response.text or "", created_at=response.timestamp, calls=calls)
