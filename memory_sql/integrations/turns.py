"""What each integration does around a turn of an agent, said once.

A failure of memory never fails the turn: it is logged, counted, and the agent goes on without. And nothing that memory has
said comes back to it as if somebody had said it.

    everyone = Everyone(memory, agent_id="ada")
    turns = everyone.of("mia")
    prompt = await turns.before("s1", "Which tea do I like?")
    kept = await turns.after("s1", [Said("user", "Which tea do I like?"), Said("assistant", "Green tea.")], key="run-7")
"""

from __future__ import annotations

import asyncio
import math
import threading
import uuid
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from contextvars import copy_context
from datetime import datetime
from functools import partial
from typing import Any, Generic, NamedTuple, TypeVar

from memory_sql import sync
from memory_sql.context.layouts import NOTHING
from memory_sql.domain.arguments import id_of, ids_of, within
from memory_sql.domain.ids import Id
from memory_sql.domain.messages import Message
from memory_sql.domain.selection import Selection
from memory_sql.errors import InputError, InvalidMessageError, NotFoundError, TooLargeError
from memory_sql.integrations.failures import AnyMemory, Step, failures_of
from memory_sql.memory import Memory
from memory_sql.telemetry import count_failed_turn
from memory_sql.tools import TOOLS, Answer, MemoryTools, Policy
from memory_sql.tools.answers import NOTICE, refused
from memory_sql.tools.bound import UNREACHED

MOST_USERS, MOST_CONVERSATIONS = 10_000, 1_000  # of which something is kept in the process
MOST_UNSTORED, MOST_UNSTORED_CHARACTERS = 500, 100_000  # of a conversation, while memory fails
LEAST_TOKENS, MOST_TOKENS = 4, 10**9
INSTRUCTING, SPEAKING = frozenset({"system", "developer"}), frozenset({"user", "assistant", "agent"})
TAKEN_BACK = "the host has taken it out of the conversation"
NOT_BLOCKING = (
    "this agent is run by code that blocks, for which its memory must be a memory_sql.sync.Memory; or await the agent"
)
LATE = "memory takes too long just now; go on without it. Whether anything was changed isn't known; recall it later"

R = TypeVar("R")
K = TypeVar("K")
V = TypeVar("V")


class Said(NamedTuple):
    """A message of a turn. `content` is a text, or parts as chat APIs have them.

    `id` is the host's, if it has one that stays: the same message is then stored once. `tool`: the name of the tool whose
    result it is. `calls`: the tools that it calls.
    """

    role: str
    content: Any = ""
    id: Id | None = None
    name: str | None = None
    created_at: datetime | None = None
    tool: str | None = None
    calls: Sequence[str] = ()


class Declared(NamedTuple):
    """A tool as frameworks declare it. `schema`: JSON Schema of its arguments, a copy."""

    name: str
    description: str
    schema: dict[str, Any]


class Everyone:
    """The turns of all users of an agent; what was shown to each is kept while others haven't pushed it out.

    `memory`: a `Memory`, awaited in its own event loop; or a `memory_sql.sync.Memory`, from any loop and thread. `seconds`:
    how long each step of a turn may take. `tools` None: the model gets none. Raises `InputError`.
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
        self._make = partial(
            Turns, memory, agent_id=agent_id, budget_tokens=budget_tokens, seconds=seconds, tools=tools
        )
        self._make(user_id="somebody")  # raises for whatever is wrong here
        self._memory, self._who = memory, {"agent_id": id_of("agent_id", agent_id), "user_id": "unknown"}
        self._policy = tools
        self._known = OrderedDict[tuple[str, tuple[str, ...]], Turns]()
        self._lock = threading.Lock()

    def of(self, user_id: Id, group_ids: Iterable[Id] = ()) -> Turns:
        """The same for the same user. Raises `InputError`."""
        key = id_of("user_id", user_id), tuple(ids_of("group_ids", group_ids))
        with self._lock:
            turns = self._known.pop(key, None) or self._make(user_id=key[0], group_ids=key[1])
            return _keep(self._known, key, turns, MOST_USERS)

    def of_run(self, user_id: Id | None, group_ids: Iterable[Id] = ()) -> Turns | None:
        """As `of`, of ids that come with a run. None: it is nobody's, or the ids can't be, which the log says."""
        try:
            return None if user_id is None else self.of(user_id, group_ids)
        except InputError as error:
            failures_of(self._memory).tell("before", self._who, error)
            return None

    @property
    def tools(self) -> tuple[Declared, ...]:
        """Which of the policy's groups a user may write to is seen when a tool is called."""
        return declared(self._policy)


def declared(policy: Policy | None) -> tuple[Declared, ...]:
    """The tools that a policy allows; none without one."""
    if policy is None:
        return ()
    groups = tuple(sorted(map(str, policy.groups)))
    return tuple(
        Declared(tool.name, tool.description, tool.schema(groups)) for tool in TOOLS.values() if policy.offers(tool)
    )


class Turns:
    """The turns of one user with an agent.

    `before`, `after`, `call` and `forget` raise nothing but cancellation and take at most `seconds`. `blocking` has the same
    for code that blocks, where the memory is a `memory_sql.sync.Memory`. `group_ids`: the conversations belong to these
    groups, and the tools may write to those that the policy names too. Raises `InputError` for arguments that can't be.
    """

    def __init__(
        self,
        memory: AnyMemory,
        *,
        agent_id: Id,
        user_id: Id,
        group_ids: Iterable[Id] = (),
        budget_tokens: int | None = None,
        seconds: float = 2.0,
        tools: Policy | None = Policy(),  # noqa: B008  # frozen
    ) -> None:
        self._memory = memory
        self._who: dict[str, Any] = {"agent_id": id_of("agent_id", agent_id), "user_id": id_of("user_id", user_id)}
        self._group_ids = tuple(ids_of("group_ids", group_ids))
        if budget_tokens is not None:
            within("budget_tokens", budget_tokens, MOST_TOKENS, least=LEAST_TOKENS)
        self._budget_tokens = budget_tokens
        self._seconds = _duration(seconds)
        self._policy = tools
        self._ours = frozenset(tool.name for tool in declared(tools))
        self._conversations = OrderedDict[str | None, _Conversation]()
        self.blocking = Blocking(self)

    async def before(self, conversation_id: Id | None, message: str | None, *, turn: str | None = None) -> str:
        """What memory has for the prompt of this turn; "" if it has nothing, fails or takes too long.

        `turn` names the turn, in which memory is asked once, however often the model is. With neither a turn nor a
        message, it is still the turn before.
        """
        return await self._awaited(self._before(conversation_id, message, turn))

    async def after(
        self, conversation_id: Id, said: Iterable[Said], *, key: str | None = None, is_over: bool = True
    ) -> bool:
        """Stores what was said in a turn; False if any of it wasn't stored, as far as is known.

        If the turn isn't over, it is only kept in the process, to be stored with the rest, unless it is more than is kept.
        `key` names the turn where its messages have no ids: given again, they are stored once. What wasn't stored because
        memory failed is stored with the next turn of the conversation in this process. A message that can't be stored at all
        is left out alone. Never stored is what memory has said itself (system messages, what `before` returned, results of
        its tools), and what the user says again before anybody has answered, as when a run is tried again.
        """
        return await self._awaited(self._after(conversation_id, said, key, is_over))

    async def call(self, conversation_id: Id | None, name: str, arguments: Mapping[str, Any] | str) -> Answer:
        """What one of the tools answers to the model."""
        return await self._awaited(self._call(conversation_id, name, arguments))

    async def forget(self, conversation_id: Id, message_ids: Sequence[Id] | None = None) -> bool:
        """Takes messages of a conversation out of memory again, and what was made of them; None: all of it.

        What fails is done before the conversation's next turn is stored in this process.
        """
        return await self._awaited(self._forget(conversation_id, message_ids))

    def _before(self, conversation_id: Id | None, message: str | None, turn: str | None) -> _Work[str]:
        return _Work("before", conversation_id, partial(self._told, conversation_id, message, turn), "")

    def _after(self, conversation_id: Id, said: Iterable[Said], key: str | None, is_over: bool = True) -> _Work[bool]:
        return _Work("after", conversation_id, partial(self._stored, conversation_id, said, key, is_over), False)

    def _call(self, conversation_id: Id | None, name: str, arguments: Mapping[str, Any] | str) -> _Work[Answer]:
        return _Work("tool", conversation_id, partial(self._answered, conversation_id, name, arguments), refused(LATE))

    def _forget(self, conversation_id: Id, message_ids: Sequence[Id] | None) -> _Work[bool]:
        return _Work("forget", conversation_id, partial(self._taken_out, conversation_id, message_ids), False)

    # Where memory is reached

    async def _awaited(self, work: _Work[R]) -> R:
        try:
            if isinstance(self._memory, sync.Memory):
                return await _in_thread(partial(self._memory.run, partial(self._within, work)))
            return await self._within(work, self._memory)
        except Exception as error:  # noqa: BLE001  # a failure of memory never fails the agent's turn
            return self._failed(work, error)

    def _waited(self, work: _Work[R]) -> R:
        if not isinstance(self._memory, sync.Memory):
            raise InputError(NOT_BLOCKING)
        try:
            return self._memory.run(partial(self._within, work))
        except Exception as error:  # noqa: BLE001  # as above
            return self._failed(work, error)

    def _failed(self, work: _Work[R], error: Exception) -> R:
        who = {**self._who, "conversation_id": work.conversation_id}
        failures_of(self._memory).tell(work.step, who, error)
        return work.otherwise

    async def _within(self, work: _Work[R], memory: Memory) -> R:
        """Doesn't wait for what is late, not even until it has noticed that it was cancelled."""
        task = asyncio.create_task(work.call(memory))
        try:
            done, _ = await asyncio.wait({task}, timeout=self._seconds)
            if not done:
                raise TimeoutError
            if task.cancelled():  # not by whoever waits for it
                raise InterruptedError
            return task.result()
        except Exception:
            count_failed_turn(memory, work.step)
            raise
        finally:
            if not task.done():
                task.cancel()
                _ending.add(task)
                task.add_done_callback(_ended)

    # What is done there

    async def _told(self, conversation_id: Id | None, message: str | None, turn: str | None, memory: Memory) -> str:
        known = self._conversation(conversation_id)
        if (begun := known.turn).goes_on(turn, message):
            await begun.asked.wait()
            return begun.told
        own = known.turn = _Turn(turn)
        try:
            if (tools := self._tools(conversation_id, memory)) is not None:
                tools.turn()
            asked: dict[str, Any] = {
                "conversation_id": conversation_id,
                "message": message or None,
                "budget_tokens": self._budget_tokens,
            }
            text = str(await memory.context(**self._who, **asked))
            own.told = "" if text in ("", NOTHING) else f"{NOTICE}\n{text}"
            return own.told
        finally:
            own.asked.set()

    async def _stored(
        self, conversation_id: Id, said: Iterable[Said], key: str | None, is_over: bool, memory: Memory
    ) -> bool:
        known = self._conversation(conversation_id)
        own, failure = self._own(said, key, known.turn.told, memory.now())
        sent = [*{message.id: message for message in (*known.unstored, *own)}.values()]
        known.unstored = _latest(sent)
        if is_over or len(known.unstored) < len(sent):
            await self._take_out(known, conversation_id, memory)
            failure = await self._add(sent, conversation_id, memory) or failure
            stored = {message.id for message in sent}
            known.unstored = [message for message in known.unstored if message.id not in stored]
        if failure is not None:
            raise failure
        return True

    async def _add(self, messages: list[Message], conversation_id: Id, memory: Memory) -> InputError | None:
        """Why one of the messages was left out, which isn't tried again."""
        left = messages.copy()
        failure: InputError | None = None
        while left:
            try:
                added = await memory.add(left, **self._who, conversation_id=conversation_id, group_ids=self._group_ids)
            except InvalidMessageError as error:
                failure = error
                del left[error.position]
                continue
            except InputError as error:
                return error
            for one in added.refused:
                failure = TooLargeError(f"message {one.position}", one.size, one.limit)
            break
        return failure

    def _own(
        self, said: Iterable[Said], key: str | None, told: str, now: datetime
    ) -> tuple[list[Message], InputError | None]:
        """What isn't memory's own, and why a message was left out that is none."""
        own, failure, last = list[Message](), None, None
        for n, one in enumerate(said):
            try:
                message = Message.parse(self._as_message(one, n, key, now), n)
            except InputError as error:
                failure = error
                continue
            if told and told in message.content:
                message = message.model_copy(update={"content": message.content.replace(told, "").strip()})
            if self._is_memorys(one, message) or not message.content.strip():
                continue
            is_again = last is not None and message.role == "user" and _same(message, last)
            last = message
            if not is_again:
                own.append(message)
        return own, failure

    def _as_message(self, one: Said, n: int, key: str | None, now: datetime) -> dict[str, Any]:
        """With an id and a time, by which it is the same if it has to be sent again."""
        calls = [{"name": name} for name in one.calls if name not in self._ours]
        own_id = uuid.uuid4().hex if key is None else f"{key}:{n}"
        return {
            "role": one.role,
            "content": one.content,
            "tool_calls": calls,
            "id": own_id if one.id is None else one.id,
            "name": one.name,
            "created_at": one.created_at or now,
        }

    def _is_memorys(self, one: Said, message: Message) -> bool:
        if message.role in INSTRUCTING or one.tool in self._ours:
            return True
        return message.role not in SPEAKING and NOTICE in message.content

    async def _answered(
        self, conversation_id: Id | None, name: str, arguments: Mapping[str, Any] | str, memory: Memory
    ) -> Answer:
        tools = self._tools(conversation_id, memory)
        if tools is None:
            return refused("there is no such tool here")
        answer = await tools.call(name, arguments)
        if answer.text == UNREACHED:  # it has been logged
            count_failed_turn(memory, "tool")
        return answer

    async def _taken_out(self, conversation_id: Id, message_ids: Sequence[Id] | None, memory: Memory) -> bool:
        known = self._conversation(conversation_id)
        gone = None if message_ids is None else [id_of("message_ids", one) for one in message_ids]
        known.unstored = [one for one in known.unstored if gone is not None and one.id not in gone]
        known.untaken += [None] if gone is None else gone
        await self._take_out(known, conversation_id, memory)
        return True

    async def _take_out(self, known: _Conversation, conversation_id: Id, memory: Memory) -> None:
        while known.untaken:
            first = known.untaken[0]
            chosen = Selection(conversation_id=conversation_id, message_id=first)
            with suppress(NotFoundError):  # nothing of it was ever stored
                await memory.forget(chosen, agent_id=self._who["agent_id"], wait=False, reason=TAKEN_BACK)
            with suppress(ValueError):  # meanwhile, by another call
                known.untaken.remove(first)

    def _tools(self, conversation_id: Id | None, memory: Memory) -> MemoryTools | None:
        known = self._conversation(conversation_id)
        if known.tools is None and self._policy is not None:
            known.tools = MemoryTools(
                memory,
                **self._who,
                conversation_id=conversation_id,
                group_ids=self._group_ids,
                policy=self._policy,
            )
        return known.tools

    def _conversation(self, conversation_id: Id | None) -> _Conversation:
        """Touched by the loop of the memory alone."""
        key = None if conversation_id is None else id_of("conversation_id", conversation_id)
        known = self._conversations.pop(key, None) or _Conversation()
        return _keep(self._conversations, key, known, MOST_CONVERSATIONS)


class Blocking:
    """The same for code that blocks. Raises `InputError` if the memory is one that is awaited."""

    def __init__(self, turns: Turns) -> None:
        self._turns = turns

    def before(self, conversation_id: Id | None, message: str | None, *, turn: str | None = None) -> str:
        return self._turns._waited(self._turns._before(conversation_id, message, turn))

    def after(self, conversation_id: Id, said: Iterable[Said], *, key: str | None = None) -> bool:
        return self._turns._waited(self._turns._after(conversation_id, said, key))

    def call(self, conversation_id: Id | None, name: str, arguments: Mapping[str, Any] | str) -> Answer:
        return self._turns._waited(self._turns._call(conversation_id, name, arguments))


class _Work(NamedTuple, Generic[R]):
    """A step; `otherwise`: what it gives if it fails."""

    step: Step
    conversation_id: Id | None
    call: Callable[[Memory], Coroutine[Any, Any, R]]
    otherwise: R


class _Turn:
    """`told`: what memory had for the prompt. It stays "" if that failed: the next question in it doesn't ask again."""

    def __init__(self, name: str | None) -> None:
        self.name, self.told, self.asked = name, "", asyncio.Event()

    def goes_on(self, name: str | None, message: str | None) -> bool:
        return self.name is not None and (self.name == name or (name is None and message is None))


class _Conversation:
    """`unstored`: messages to send with the next. `untaken`: those to take out before that; None: all of the conversation."""

    def __init__(self) -> None:
        self.tools: MemoryTools | None = None
        self.turn = _Turn(None)
        self.unstored = list[Message]()
        self.untaken = list[Id | None]()


_ending = set[asyncio.Task[Any]]()  # cancelled, and not waited for


def _ended(task: asyncio.Task[Any]) -> None:
    _ending.discard(task)
    if not task.cancelled():
        task.exception()  # so that nobody complains that it was never read


async def _in_thread(call: Callable[[], R]) -> R:
    """In one of its own: those of the loop may all be busy with what the host does, for longer than a step may take."""
    context, future = copy_context(), Future[R]()
    future.set_running_or_notify_cancel()

    def work() -> None:
        try:
            future.set_result(context.run(call))
        except BaseException as error:  # noqa: BLE001  # raised where it is waited for
            future.set_exception(error)

    threading.Thread(target=work, name="memory_sql turn", daemon=True).start()
    return await asyncio.wrap_future(future)


def _latest(messages: Sequence[Message]) -> list[Message]:
    """Of more than are kept for later, the newest."""
    kept, size = list[Message](), 0
    for message in reversed(messages):
        size += len(message.content)
        if size > MOST_UNSTORED_CHARACTERS or len(kept) == MOST_UNSTORED:
            break
        kept.append(message)
    return kept[::-1]


def _same(one: Message, other: Message) -> bool:
    return (one.role, one.name, one.content) == (other.role, other.name, other.content)


def _duration(seconds: float) -> float:
    is_number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    if not is_number or not 0 < seconds < math.inf:
        raise InputError("seconds must be a number above 0")
    return float(seconds)


def _keep(known: OrderedDict[K, V], key: K, value: V, most: int) -> V:
    """As the newest of so many."""
    known[key] = value
    while len(known) > most:
        known.popitem(last=False)
    return value
