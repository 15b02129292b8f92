"""The tools of one user with one agent: who it is and what is allowed, the host has said before a model is asked."""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Literal, NamedTuple

from memory_sql.domain.arguments import ids_of, optional_id, principal_of
from memory_sql.domain.guidelines import ActionOutcome
from memory_sql.domain.ids import Id
from memory_sql.domain.observations import Observation, Resolution
from memory_sql.domain.selection import Selection
from memory_sql.errors import InputError, MemorySQLError, NotFoundError, VersionError
from memory_sql.memory import Memory
from memory_sql.tools import answers, declared
from memory_sql.tools.actions import Eligibility, Lifecycle, decide
from memory_sql.tools.answers import Answer, Previewed, refused
from memory_sql.tools.declared import TOOLS, ArgumentsError, Tool, read_arguments

log = logging.getLogger("memory_sql.tools")

ACTOR = "agent"  # of the events of what a model changes
REASON = "a tool of the agent"
REQUEST = "asked for by the tool forget"
TURN_SECONDS = 60.0  # a turn, where the host doesn't say when one begins
SHOWN_TURNS, SHOWN_SECONDS = 3, 600.0  # for so long what was shown may be confirmed
MOST_SHOWN = 100
MESSAGES_BESIDE = 5
SOURCES = 10
UNREACHED = "memory can't be reached just now; go on without it, and don't say that anything was changed"

ACTIONS = {"remember": "store_note", "correct": "update_note", "forget": "discard"}  # as the events call them

Confirm = Callable[[Sequence[Observation]], Awaitable[bool]]
"""Asks the user, by the host's own means, whether these may be forgotten."""


class Policy(NamedTuple):
    """What a model may change. `forget`: not at all, hidden until somebody takes it back, or erased at once.

    `groups`: those that `remember` may write to; the user must belong to them (`group_ids`).
    """

    writes: bool = True
    groups: frozenset[str] = frozenset()
    forget: Literal["no", "hide", "erase"] = "hide"
    changes_per_turn: int = 5

    def offers(self, tool: Tool) -> bool:
        if tool.destroys:
            return self.forget != "no"
        return tool.reads_only or self.writes


class _Shown(NamedTuple):
    """When a preview showed a memory, and what it said would go with it."""

    turn: int
    at: float
    goes: frozenset[str]


class Answered(NamedTuple):
    """`good`: whether a change was well judged, by what is known of the memory; None: not known."""

    answer: Answer
    outcome: ActionOutcome
    good: bool | None = None


class _NotAllowedError(ArgumentsError):
    """Not by the policy, or not now."""

    def __init__(self, message: str, outcome: ActionOutcome, good: bool | None = False) -> None:
        super().__init__(message)
        self.outcome = outcome
        self.good = good


class MemoryTools:
    """The five tools, bound to one user of one agent. Keep it for the conversation: it knows what was shown before.

    `conversation_id`: the one that is going on, if any. `confirm`, if given, decides on forgetting in place of the two steps.
    Raises `InputError` for ids and a policy that can't be.
    """

    def __init__(
        self,
        memory: Memory,
        *,
        agent_id: Id,
        user_id: Id,
        conversation_id: Id | None = None,
        group_ids: Iterable[Id] = (),
        policy: Policy = Policy(),  # noqa: B008  # frozen
        confirm: Confirm | None = None,
    ) -> None:
        self._memory = memory
        self._who: dict[str, Any] = {"agent_id": agent_id, "user_id": user_id}
        self._conversation_id = optional_id("conversation_id", conversation_id)
        principal_of(agent_id, user_id, conversation_id)
        self._policy = _checked(policy)
        self._groups = tuple(one for one in ids_of("group_ids", group_ids) if one in policy.groups)
        self._confirm = confirm
        self._turn, self._changes, self._began = 0, 0, time.monotonic()
        self._shown: dict[str, _Shown] = {}
        self.unnoted = 0  # changes whose outcome couldn't be noted

    @property
    def tools(self) -> tuple[Tool, ...]:
        """Those that the policy allows."""
        return tuple(tool for tool in TOOLS.values() if self._policy.offers(tool))

    def schema(self, tool: Tool) -> dict[str, Any]:
        """JSON Schema of its arguments here, each time anew."""
        return tool.schema(self._groups, episodes=self._memory.settings.episodes)

    def _strict(self, tool: Tool) -> dict[str, Any]:
        return tool.strict_schema(self._groups, episodes=self._memory.settings.episodes)

    def openai(self, *, strict: bool = False) -> list[dict[str, Any]]:
        """For `tools=` of OpenAI's Responses API. `strict`: the form that its strict mode takes."""
        return [
            {
                "type": "function",
                "name": tool.name,
                "description": tool.description,
                "parameters": self._strict(tool) if strict else self.schema(tool),
                "strict": strict,
            }
            for tool in self.tools
        ]

    def anthropic(self) -> list[dict[str, Any]]:
        """For `tools=` of Anthropic's Messages API."""
        return [
            {"name": tool.name, "description": tool.description, "input_schema": self.schema(tool)}
            for tool in self.tools
        ]

    def turn(self) -> None:
        """A new turn of the user has begun: what was shown before may be confirmed, and changes count from 0."""
        self._turn += 1
        self._changes = 0

    async def call(self, name: str, arguments: Mapping[str, Any] | str) -> Answer:
        """The answer for the model, whatever it gave; raises nothing but cancellation. `arguments`: JSON or a mapping."""
        tool = TOOLS.get(name) if isinstance(name, str) else None
        if tool is None or not self._policy.offers(tool):
            return refused(f"there is no such tool here. There are: {', '.join(one.name for one in self.tools)}")
        answer, outcome, good = await self._answered(tool, arguments)
        is_action = answer.is_error or not tool.destroys or answer.data.get("forgotten")  # a preview isn't
        if self._memory.settings.guidelines and not tool.reads_only and is_action:
            await self._note(tool, outcome, good)
        return answer

    async def _note(self, tool: Tool, outcome: ActionOutcome, good: bool | None) -> None:
        """What became of a change, for the agent's guidelines. Where that can't be stored, the call is as good."""
        asked: dict[str, Any] = {"agent_id": self._who["agent_id"], "actor": ACTOR, "good": good}
        try:
            await self._memory.work.note_action(ACTIONS[tool.name], outcome, **asked)
        except MemorySQLError as error:
            self.unnoted += 1
            log.warning("what became of the tool %s wasn't noted: %s", tool.name, type(error).__name__)

    async def _answered(self, tool: Tool, arguments: Mapping[str, Any] | str) -> Answered:
        """The answer, and what became of a change."""
        try:
            answer = await self._called(tool, arguments)
            return Answered(answer, "failed" if answer.is_error else "applied")
        except _NotAllowedError as error:
            return Answered(refused(str(error)), error.outcome, error.good)
        except ArgumentsError as error:
            return Answered(refused(str(error)), "failed")
        except NotFoundError as error:
            return Answered(refused(_missing(error)), "failed")
        except VersionError as error:
            return Answered(refused(f"{error.key} has changed since; recall it again"), "failed")
        except InputError as error:
            log.info("the tool %s was refused: %s", tool.name, type(error).__name__)
            return Answered(refused(str(error)), "failed")
        except Exception as error:  # noqa: BLE001  # a failure of memory never fails the agent's turn
            kind = "failed" if isinstance(error, MemorySQLError) else "failed unexpectedly"
            log.warning("the tool %s %s: %s", tool.name, kind, type(error).__name__)
            return Answered(refused(UNREACHED), "failed")

    async def _called(self, tool: Tool, arguments: object) -> Answer:
        match read_arguments(tool.arguments, arguments):
            case declared.Recall() as given:
                return await self._recall(given)
            case declared.Remember() as given:
                return await self._remember(given)
            case declared.Correct() as given:
                return await self._correct(given)
            case declared.Forget() as given:
                return await self._forget(given)
            case declared.Sources() as given:
                return await self._sources(given)
        raise AssertionError(tool.name)

    # Reading

    async def _recall(self, given: declared.Recall) -> Answer:
        days = [f"{name}:{day}" for name, day in (("after", given.after), ("before", given.before)) if day]
        days += [f"episode:{given.episode}"] if given.episode else []
        query = " ".join([(given.query or "").strip(), *days]).strip()
        if not query:
            return await self._most_important(given.limit)
        found = await self._memory.search(
            query,
            **self._asking,
            top_k=given.limit,
            messages=min(given.limit, MESSAGES_BESIDE),
            include_superseded=given.include_past,
        )
        memories = [hit.observation for hit in found.results]
        known = {one.id for one in memories}
        said = [hit.message for hit in found.messages if known.isdisjoint(hit.observations)]
        return self._told(
            [*map(answers.hit_line, found.results), *map(answers.message_line, said)],
            memories=[*map(answers.hit_data, found.results)],
            messages=[*map(answers.message_data, said)],
        )

    async def _most_important(self, limit: int) -> Answer:
        room = {"items": limit, "characters": 4 * answers.ANSWER_TOKENS, "tokens": answers.ANSWER_TOKENS}
        digest = await self._memory.digest(
            **self._asking, budgets=dict.fromkeys(("total", "fact", "note", "procedure", "episode"), room)
        )
        memories = await self._seen(digest.included) or await self._memory.observations.list(
            **self._asking, limit=limit
        )
        lines = [*map(answers.observation_line, memories)]
        return self._told(lines, memories=[*map(answers.observation_data, memories)], messages=[])

    async def _seen(self, ids: Iterable[str]) -> list[Observation]:
        """Those of them that are there and that the user may see."""
        found = list[Observation]()
        for one in ids:
            with suppress(NotFoundError):
                found.append(await self._memory.observations.get(one, **self._asking))
        return found

    def _told(self, lines: Sequence[str], **data: Any) -> Answer:
        if not lines:
            return Answer("Nothing is remembered of that.", data)
        text, others = answers.fitted(lines)
        return Answer(text, {**data, "left_out": others})

    async def _sources(self, given: declared.Sources) -> Answer:
        said = await self._memory.observations.sources(given.observation_id, **self._asking, limit=SOURCES)
        data = {"observation_id": given.observation_id, "messages": [*map(answers.message_data, said)]}
        if not said:
            return Answer(f"{given.observation_id} was stated directly, or its messages are no longer kept.", data)
        text, others = answers.fitted(map(answers.message_line, said))
        return Answer(text, {**data, "left_out": others})

    # Changing

    async def _remember(self, given: declared.Remember) -> Answer:
        if given.group is not None and given.group not in self._groups:
            return refused("group: the user's memory alone can be written here, or one of the groups that are listed")
        self._allowed("store_note", Eligibility(confidence=1.0, lifecycleState="candidate", source="manual"))
        stored = await self._observed(given)
        if stored.status != "active":
            return refused("the same was set aside before, and stays so")
        whose = f" for the group {given.group}" if given.group is not None else ""
        return Answer(f"Remembered as {stored.id}{whose}.", {"id": stored.id})

    async def _observed(self, given: declared.Remember) -> Observation:
        asked: dict[str, Any] = {**self._who, "group_id": given.group, "actor": ACTOR}
        if self._conversation_id is not None:
            try:
                return await self._memory.observe(given.text, **asked, conversation_id=self._conversation_id)
            except NotFoundError:  # nothing of it is stored yet
                pass
        return await self._memory.observe(given.text, **asked)

    async def _correct(self, given: declared.Correct) -> Answer:
        old = await self._own(given.observation_id)
        about = _known_of(old).model_copy(update={"confidence": 1.0, "source": "manual"})
        if given.text is None:
            return await self._end(old, None if given.ended == "no" else given.ended, about)
        self._allowed("update_note", about)
        new = await self._memory.observations.update(
            old.id, **self._asking, text=given.text, if_version=old.version, actor=ACTOR, reason=REASON
        )
        return Answer(f"{new.id} takes the place of {old.id}.", {"id": new.id, "replaced": old.id})

    async def _end(self, one: Observation, ended: Resolution | None, about: Eligibility) -> Answer:
        """None: it isn't over. What has ended already may have ended otherwise."""
        is_open = one.resolved is None
        self._allowed("update_note", about if is_open else about.model_copy(update={"lifecycle": "active"}))
        if ended is not None or not is_open:
            await self._memory.observations.resolve(
                one.id, ended, **self._asking, if_version=one.version, actor=ACTOR, reason=REASON
            )
        return Answer(f"{one.id} is {f'over: {ended}' if ended else 'not over'}.", {"id": one.id, "ended": ended})

    async def _forget(self, given: declared.Forget) -> Answer:
        found = [await self._previewed(one) for one in dict.fromkeys(given.observation_ids)]
        if self._confirm is not None:
            if not await self._confirm([one.observation for one in found]):
                return refused("the user doesn't want that to be forgotten")
        elif not given.confirmed:
            return self._preview(
                found, "Nothing has gone yet. Quote it to the user, and ask whether it shall be forgotten."
            )
        elif not all(map(self._was_shown, found)):
            why = "Nothing was forgotten: show this to the user first, and confirm after they have agreed"
            return self._preview(found, f"{why}{', in a later turn' if self._turn else ''}.")._replace(is_error=True)
        return await self._gone(found)

    def _preview(self, found: Sequence[Previewed], after: str) -> Answer:
        text, others = answers.fitted((answers.preview_line(one) for one in found), after)
        if others:
            return refused("that is too much to show at once; forget fewer in one call")
        for one in found:
            if not self._was_shown(one):
                self._shown.pop(one.id, None)
                self._shown[one.id] = _Shown(self._turn, time.monotonic(), one.goes)
        while len(self._shown) > MOST_SHOWN:
            del self._shown[next(iter(self._shown))]
        return Answer(text, {"shown": [*map(answers.preview_data, found)], "forgotten": []})

    def _was_shown(self, one: Previewed) -> bool:
        """Lately, in an earlier turn if the host says when one begins; with all that would go now."""
        shown = self._shown.get(one.id)
        if shown is None or not one.goes <= shown.goes:
            return False
        if not self._turn:
            return time.monotonic() - shown.at < SHOWN_SECONDS
        return 0 < self._turn - shown.turn <= SHOWN_TURNS

    async def _gone(self, found: Sequence[Previewed]) -> Answer:
        self._spend(len(found))
        gone, failed = list[str](), list[str]()
        for one in found:
            try:
                await self._take_out(one.observation)
            except NotFoundError:  # meanwhile, with another or by somebody else
                pass
            except MemorySQLError as error:
                log.warning("the tool forget failed: %s", type(error).__name__)
                failed.append(one.id)
                continue
            gone.append(one.id)
            self._shown.pop(one.id, None)
        told = [f"Forgotten: {', '.join(gone)}."] if gone else []
        told += [f"Not forgotten, because memory failed: {', '.join(failed)}."] if failed else []
        return Answer(" ".join(told), {"shown": [], "forgotten": gone, "failed": failed}, is_error=bool(failed))

    async def _take_out(self, one: Observation) -> None:
        """For good, if the policy says so and it isn't too important for that on a model's word; else it is hidden."""
        if self._policy.forget == "erase" and decide("discard", _known_of(one)).outcome == "allow":
            chosen = self._with_replaced(one)
            await self._memory.forget(chosen, agent_id=self._who["agent_id"], wait=False, actor=ACTOR, reason=REASON)
        else:
            await self._hide(one)

    async def _hide(self, one: Observation) -> None:
        """A review waits, by which it is erased or brought back."""
        chosen = self._with_replaced(one)
        await self._memory.observations.quarantine(chosen, agent_id=self._who["agent_id"], actor=ACTOR, request=REQUEST)

    async def _previewed(self, observation_id: str) -> Previewed:
        """Raises `NotFoundError` for what isn't the user's own."""
        own = await self._own(observation_id)
        receipt = await self._memory.forget(self._with_replaced(own), agent_id=self._who["agent_id"], dry_run=True)
        others = [one for one in (*receipt.observations, *receipt.withdrawn) if one != own.id]
        back = await self._seen(receipt.standing[: answers.MOST_OTHERS])
        return Previewed(own, receipt, await self._seen(others[: answers.MOST_OTHERS]), back)

    def _with_replaced(self, one: Observation) -> Selection:
        """With what it was before it was corrected, as far as that is the user's own: else that stands again."""
        return Selection(user_id=self._who["user_id"], observation_id=one.id, replaced=True)

    async def _own(self, observation_id: str) -> Observation:
        return await self._memory.observations.get(observation_id, **self._asking, own=True)

    def _allowed(self, action: str, about: Eligibility) -> None:
        """Raises `ArgumentsError` if the policy doesn't allow this change, or no more of them."""
        decision = decide(action, about, enabled=self._policy.writes)
        if decision.reason == "past":
            raise _NotAllowedError(
                "observation_id: that is no longer true anyway; correct what took its place", "denied"
            )
        if decision.outcome != "allow":
            outcome: ActionOutcome = "deferred" if decision.outcome == "defer" else "denied"
            raise _NotAllowedError("that isn't allowed here; tell the user", outcome)
        self._spend()

    def _spend(self, changes: int = 1) -> None:
        """Before it is awaited, so that calls at once don't share a change; one that fails counts as well."""
        now = time.monotonic()
        if not self._turn and now - self._began >= TURN_SECONDS:
            self._changes, self._began = 0, now
        left = self._policy.changes_per_turn - self._changes
        if changes > left:
            raise _NotAllowedError(
                f"memory may be changed {left} more times in this turn; go on in a later one", "deferred", None
            )
        self._changes += changes

    @property
    def _asking(self) -> dict[str, Any]:
        return {**self._who, "conversation_id": self._conversation_id}


def _checked(policy: Policy) -> Policy:
    if not isinstance(policy, Policy) or policy.forget not in ("no", "hide", "erase"):
        raise InputError('policy must be a Policy, whose forget is "no", "hide" or "erase"')
    most = policy.changes_per_turn
    if isinstance(most, bool) or not isinstance(most, int) or most < 0:
        raise InputError("changes_per_turn must be a whole number from 0")
    if isinstance(policy.groups, str):
        raise InputError("groups must be a set of ids, not a text")
    return policy._replace(groups=frozenset(ids_of("groups", policy.groups)))


def _known_of(one: Observation) -> Eligibility:
    """What the policy asks about; what isn't known of a memory counts against nothing."""
    lifecycle: Lifecycle = "archived" if one.status == "archived" else "active" if one.status == "active" else "stale"
    confidence = 1.0 if one.confidence is None else one.confidence
    return Eligibility(
        confidence=confidence, lifecycleState=lifecycle, importance=one.importance or 0.0, source="unknown"
    )


def _missing(error: NotFoundError) -> str:
    what, key = error.what, error.key
    return f"there is no memory {key} of this user" if what == "observation" else f"there is no such {what}"
