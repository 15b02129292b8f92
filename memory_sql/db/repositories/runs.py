"""The ledger of model work: one row per run, from claim to outcome."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from sqlalchemy import (
    BigInteger,
    Select,
    and_,
    bindparam,
    func,
    insert,
    literal,
    literal_column,
    null,
    or_,
    select,
    true,
    update,
)
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.ext.asyncio import AsyncSession

from memory_sql.config import Settings
from memory_sql.db.direct import ask
from memory_sql.db.models import AgentRow, ConversationRow, ObservationRow, PriceRow, RunRow, ScopeRow, columns_of
from memory_sql.db.repositories.scopes import ScopeState
from memory_sql.db.waiting import flushed_later
from memory_sql.domain.results import DeadRun, FailedRun, Usage
from memory_sql.errors import BudgetError, LanguageModelError, MemorySQLError, StaleError

AGAIN, MOST_AGAIN = timedelta(days=1), timedelta(days=30)  # until what was given up is tried again

# As in the condition of runs_dead_idx: a plan for any state can't use it.
_IS_DEAD = RunRow.state == literal_column("'dead'")


@dataclass(frozen=True, slots=True)
class RunKey:
    """A run and its lease; once another lease has taken the run over, the key is no longer valid."""

    agent_key: int
    run_id: int
    fence: int


@dataclass(frozen=True, slots=True)
class AnsweredRun:
    """A run whose answer was stored but not applied, because a worker died in between. The answer is paid for."""

    key: RunKey
    to_number: int
    answer: str
    usage: Usage
    prompt_version: str
    seen: dict[str, Any]


@dataclass(frozen=True, slots=True)
class TakenRun:
    """What a dead run read: messages of a conversation, or the one observation `to_seq` of a scope."""

    run_id: int
    conversation_id: str | None
    to_number: int | None
    scope_id: int | None
    to_seq: int | None


_sent, _back = func.coalesce(RunRow.input_tokens, 0), func.coalesce(RunRow.output_tokens, 0)


def _tokens(_: datetime) -> Select[Any]:
    return select(func.sum(_sent + _back))


def _costs(day: datetime) -> Select[Any]:
    """What runs have cost, by the prices of that day, for each currency."""
    price = (
        select(PriceRow.currency, PriceRow.input_per_million, PriceRow.output_per_million)
        .where(PriceRow.model == RunRow.model, PriceRow.valid_from <= day.date())
        .order_by(PriceRow.valid_from.desc())
        .limit(1)
        .lateral("price")
    )
    cost = (_sent * price.c.input_per_million + _back * price.c.output_per_million) / 1_000_000
    return select(func.sum(cost)).select_from(RunRow).join(price, true()).group_by(price.c.currency)


@dataclass(frozen=True, slots=True)
class RunRepository:
    _session: AsyncSession

    async def start(self, agent_key: int, kind: str, fence: int, now: datetime, **target: Any) -> RunKey:
        """`target`: conversation_id, from_number, to_number, or scope_id, from_seq, to_seq."""
        run_id = await self._session.scalar(
            insert(RunRow)
            .values(agent_key=agent_key, kind=kind, fence=fence, state="running", started_at=now, **target)
            .returning(RunRow.run_id)
        )
        assert run_id is not None  # RETURNING of an INSERT that didn't raise
        return RunKey(agent_key, run_id, fence)

    async def keep_answer(self, key: RunKey, answer: str, usage: Usage, prompt_version: str) -> bool:
        """Stores the raw answer before it is applied, so that a retry applies the same one; False: another lease holds.

        It may be repeated if it isn't known whether it succeeded: one lease has one answer.
        """
        given = {"agent": key.agent_key, "run": key.run_id, "under": key.fence}
        new = {"answer": answer, "prompt_version": prompt_version, **cost(usage)}
        return bool(await ask(self._session, _KEEP, given | {f"new_{name}": value for name, value in new.items()}))

    async def unfinished(
        self, agent_key: int, conversation_id: str, from_number: int
    ) -> tuple[AnsweredRun | None, int]:
        """The newest answer for the messages after that number, and how many runs of the conversation haven't ended."""
        found = await self._session.execute(
            select(RunRow.state, RunRow.from_number, *_ANSWERED)
            .where(RunRow.agent_key == agent_key, RunRow.conversation_id == conversation_id, didnt_end())
            .order_by(RunRow.run_id.desc())
        )
        rows = found.all()
        answered = (row for row in rows if row.state == "answered" and row.from_number == from_number)
        return next(map(partial(_answered, agent_key), answered), None), len(rows)

    async def take_over(self, key: RunKey, fence: int) -> RunKey:
        """Puts the run under a new lease."""
        await self._session.execute(update(RunRow).where(*_is(key)).values(fence=fence))
        return replace(key, fence=fence)

    async def abandon(
        self, agent_key: int, now: datetime, *, but: int | None = None, before: int | None = None, **target: Any
    ) -> None:
        """Ends runs of this target whose worker died or lost its lease: all except `but`.

        `before`: only runs under an earlier fence than that.
        """
        await self._session.execute(
            update(RunRow)
            .where(
                RunRow.agent_key == agent_key,
                *(getattr(RunRow, name) == value for name, value in target.items()),
                didnt_end(),
                RunRow.run_id.is_distinct_from(but),
                true() if before is None else RunRow.fence < before,
            )
            .values(ABANDONED | {"finished_at": now})
        )

    async def succeed(
        self, key: RunKey, now: datetime, usage: Usage | None = None, prompt_version: str | None = None, **outcome: Any
    ) -> None:
        """`outcome`: observations, duplicates, refused. If nothing was stored or already known, the run was empty.

        Records its cost, unless that was stored with its answer. Raises `StaleError` if it was ended meanwhile, by a
        forgetting for instance.
        """
        something = outcome["observations"] or outcome.get("duplicates")
        if usage is not None:
            outcome |= {"prompt_version": prompt_version, **cost(usage)}
        ended = await self._session.scalar(
            update(RunRow)
            .where(*_is(key), didnt_end())
            .values(state="succeeded" if something else "empty", answer=None, seen={}, finished_at=now, **outcome)
            .returning(RunRow.run_id)
        )
        if ended is None:
            raise StaleError("run", str(key.run_id), "it has ended")

    async def fail(
        self,
        key: RunKey,
        error: BaseException,
        now: datetime,
        *,
        gives_up: bool = False,
        set_aside: int | None = None,
    ) -> None:
        """The library's errors contain no remembered text; of other errors only the type is kept.

        A stored answer survives an error that it didn't cause, unless it is out of date: it is paid for, and will be applied.
        """
        known = isinstance(error, LanguageModelError | StaleError)
        reason = error.reason if isinstance(error, LanguageModelError | StaleError) else "interrupted"
        ended = ("running", "answered") if known else ("running",)
        message = str(error) if isinstance(error, MemorySQLError) else type(error).__name__
        spent = cost(error.usage) if isinstance(error, LanguageModelError) and isinstance(error.usage, Usage) else {}
        if set_aside is not None:  # the run read only that one
            spent |= {"from_seq": set_aside - 1, "to_seq": set_aside}
        await self._session.execute(
            update(RunRow)
            .where(*_is(key), RunRow.state.in_(ended))
            .values(
                state="dead" if gives_up else "failed",
                answer=None,
                seen={},
                error_code=reason,
                error=message,
                finished_at=now,
                **spent,
            )
        )

    async def hold(self, key: RunKey, scope_id: int, held: dict[str, Any]) -> None:
        """Keeps a text of a run that has ended for a person, as the scope is now. It replaces that of an earlier run."""
        await self._let_go(key.agent_key, RunRow.scope_id == scope_id)
        now = (
            select(func.jsonb_build_object("version", ScopeRow.version, "epoch", ScopeRow.epoch))
            .where(ScopeRow.agent_key == key.agent_key, ScopeRow.scope_id == scope_id)
            .scalar_subquery()
        )
        ended = RunRow.state.in_(("failed", "succeeded"))
        kept = literal(held, JSONB).op("||")(now)
        await self._session.execute(update(RunRow).where(*_is(key), ended).values(held=kept))

    async def discard_held(self, agent_key: int, run_id: int) -> bool:
        """Returns False if nothing of that run waits for a person."""
        return await self._let_go(agent_key, RunRow.run_id == run_id) is not None

    async def _let_go(self, agent_key: int, which: Any) -> int | None:
        found: int | None = await self._session.scalar(
            update(RunRow)
            .where(RunRow.agent_key == agent_key, which, RunRow.held.is_not(None))
            .values(held=null())
            .returning(RunRow.scope_id)
        )
        return found

    async def find_held(self, agent_key: int, run_id: int) -> tuple[int, dict[str, Any]] | None:
        """The scope, and what was kept for a person; None: nothing was."""
        found = await self._session.execute(
            select(RunRow.scope_id, RunRow.held).where(
                RunRow.agent_key == agent_key, RunRow.run_id == run_id, RunRow.held.is_not(None)
            )
        )
        row = found.one_or_none()
        return None if row is None else (row.scope_id, row.held)

    async def reopen_held(self, scope: ScopeState, run_id: int) -> tuple[RunKey, Usage, str]:
        """Continues the run under a new lease; returns it with its cost and the version of its prompt.

        Where the run has made a version already, another one makes the next, and that costs nothing.
        """
        mine = RunRow.agent_key == scope.agent_key, RunRow.run_id == run_id, RunRow.held.is_not(None)
        own = {"fence": scope.fence, "state": "running"}
        again = update(RunRow).where(*mine, RunRow.state == "failed")
        again = again.values(**own, held=null(), error_code=None, error=None, finished_at=None)
        row = (await self._session.execute(again.returning(RunRow.run_id, *_COST))).one_or_none()
        if row is None:
            own |= {"from_seq": scope.done_seq}
            same = RunRow.agent_key, RunRow.kind, RunRow.scope_id, RunRow.model, RunRow.prompt_version
            copied = select(*same, *map(literal, own.values())).where(*mine).with_for_update()
            added = insert(RunRow).from_select([*(one.key for one in same), *own], copied)
            row = (await self._session.execute(added.returning(RunRow.run_id, *_COST))).one()
            await self._let_go(scope.agent_key, RunRow.run_id == run_id)
        usage = Usage(row.model or "", row.input_tokens, row.output_tokens, row.latency_seconds or 0.0, row.calls)
        return RunKey(scope.agent_key, row.run_id, scope.fence), usage, row.prompt_version or ""

    async def is_open(self, key: RunKey) -> bool:
        """Whether the run hasn't been ended, by a forgetting for instance. It can't be until this transaction ends."""
        found = await self._session.scalar(select(RunRow.run_id).where(*_is(key), didnt_end()).with_for_update())
        return found is not None

    async def next_range(self, agent_key: int, conversation_id: str, after: int) -> tuple[int, int] | None:
        """The first range of messages after that number that a formation has read: after which number, up to which."""
        found = await self._session.execute(
            select(RunRow.from_number, RunRow.to_number)
            .where(*_stands(agent_key, conversation_id), RunRow.from_number >= after)
            .order_by(RunRow.from_number)
            .limit(1)
        )
        row = found.one_or_none()
        return None if row is None else (row.from_number, row.to_number)

    async def retire(self, agent_key: int, conversation_id: str, from_number: int, to_number: int) -> int:
        """Retires the formations of exactly these messages, since another replaces them. Returns how many there were."""
        retired = await self._session.scalars(
            update(RunRow)
            .where(
                *_stands(agent_key, conversation_id),
                RunRow.from_number == from_number,
                RunRow.to_number == to_number,
            )
            .values(state="retired", error_code=None, error=None)
            .returning(RunRow.run_id)
        )
        return len(retired.all())

    async def outlive(self, agent_key: int, run_id: int) -> None:
        """Work given up with this run has continued all the same, so the run is an ordinary failure."""
        await self._session.execute(
            update(RunRow)
            .where(RunRow.agent_key == agent_key, RunRow.run_id == run_id, RunRow.state == "dead")
            .values(state="failed")
        )

    async def check_budget(self, agent_id: str, agent_key: int, settings: Settings, now: datetime) -> None:
        """Raises `BudgetError` if the agent's runs of the day (UTC) have used up its tokens, in and out, or its money.

        By the prices that the operator has set, each currency by itself; what has no price costs nothing.
        """
        midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
        limits = ((settings.daily_tokens, _tokens, "tokens"), (settings.daily_cost, _costs, "cost"))
        for limit, used, what in limits:
            if limit is None:
                continue
            of_today = used(midnight).where(RunRow.agent_key == agent_key, RunRow.started_at >= midnight)
            if max((one or 0 for one in await self._session.scalars(of_today)), default=0) >= limit:
                raise BudgetError(agent_id, limit, midnight + timedelta(days=1), what)

    async def dead(self, agent_id: str | None, limit: int) -> list[DeadRun]:
        """Runs that were given up, oldest first."""
        statement = (
            select(AgentRow.agent_id, *columns_of(RunRow, DeadRun.model_fields))
            .join(AgentRow, AgentRow.agent_key == RunRow.agent_key)
            .where(_IS_DEAD)
            .order_by(RunRow.run_id)
            .limit(limit)
        )
        if agent_id is not None:
            statement = statement.where(AgentRow.agent_id == agent_id)
        return [DeadRun(**row) for row in (await self._session.execute(statement)).mappings()]

    async def failed(self, agent_id: str | None, limit: int) -> list[FailedRun]:
        """Failed runs, newest first."""
        statement = (
            select(AgentRow.agent_id, *columns_of(RunRow, FailedRun.model_fields))
            .join(AgentRow, AgentRow.agent_key == RunRow.agent_key)
            .where(RunRow.error_code.is_not(None))
            .order_by(RunRow.finished_at.desc(), RunRow.run_id.desc())
            .limit(limit)
        )
        if agent_id is not None:
            statement = statement.where(AgentRow.agent_id == agent_id)
        return [FailedRun(**row) for row in (await self._session.execute(statement)).mappings()]

    async def oldest_dead(self, now: datetime) -> tuple[str, int] | None:
        """The agent and the run, of those that are due for another attempt; None if there is none.

        Due after as long as the work had waited when it was given up, a day at least and a month at most.
        """
        since = func.coalesce(ConversationRow.unformed_since, ObservationRow.created_at, RunRow.finished_at)
        waited = func.least(func.greatest(RunRow.finished_at - since, literal(AGAIN)), literal(MOST_AGAIN))
        of_conversation = (
            ConversationRow.agent_key == RunRow.agent_key,
            ConversationRow.conversation_id == RunRow.conversation_id,
            ConversationRow.dead_run_id == RunRow.run_id,
        )
        of_scope = (ObservationRow.scope_id == RunRow.scope_id, ObservationRow.seq == RunRow.to_seq)
        found = await self._session.execute(
            select(AgentRow.agent_id, RunRow.run_id)
            .join(AgentRow, AgentRow.agent_key == RunRow.agent_key)
            .outerjoin(ConversationRow, and_(*of_conversation))
            .outerjoin(ObservationRow, and_(ObservationRow.agent_key == RunRow.agent_key, *of_scope))
            .where(_IS_DEAD, RunRow.finished_at + waited <= now)
            .where(or_(ConversationRow.excluded.is_(None), ~ConversationRow.excluded))
            .order_by(RunRow.finished_at)
            .limit(1)
        )
        row = found.one_or_none()
        return None if row is None else (row.agent_id, row.run_id)

    async def discard(self, agent_key: int, run_id: int) -> None:
        """A failed run whose work can't be tried again."""
        await self._session.execute(
            update(RunRow).where(RunRow.agent_key == agent_key, RunRow.run_id == run_id).values(state="discarded")
        )

    async def find_dead(self, agent_key: int, run_id: int) -> TakenRun | None:
        """What a dead run read; None if it isn't dead."""
        found = await self._session.execute(
            select(RunRow.run_id, RunRow.conversation_id, RunRow.to_number, RunRow.scope_id, RunRow.to_seq).where(
                *_is_dead(agent_key, run_id)
            )
        )
        row = found.one_or_none()
        return None if row is None else TakenRun(*row)

    async def take_dead(self, agent_key: int, run_id: int, state: str) -> bool:
        """Turns a dead run into `failed` or `discarded`; False if it isn't dead."""
        taken = await self._session.scalar(
            update(RunRow).where(*_is_dead(agent_key, run_id)).values(state=state).returning(RunRow.run_id)
        )
        return taken is not None


_ANSWERED = (
    RunRow.run_id,
    RunRow.fence,
    RunRow.to_number,
    RunRow.answer,
    RunRow.model,
    RunRow.input_tokens,
    RunRow.output_tokens,
    RunRow.latency_seconds,
    RunRow.prompt_version,
    RunRow.seen,
)


def _answered(agent_key: int, row: Any) -> AnsweredRun:
    key = RunKey(agent_key, row.run_id, row.fence)
    usage = Usage(row.model, row.input_tokens, row.output_tokens, row.latency_seconds or 0.0)
    return AnsweredRun(key, row.to_number, row.answer, usage, row.prompt_version, row.seen)


ABANDONED: dict[str, Any] = {
    "state": "failed",
    "answer": None,
    "error_code": "abandoned",
    "error": "the lease ran out before it ended",
}


def didnt_end() -> Any:
    """Running or answered: told as the condition of an index has it."""
    return RunRow.finished_at.is_(None)


def _stands(agent_key: int, conversation_id: str) -> tuple[Any, ...]:
    return (
        RunRow.agent_key == agent_key,
        RunRow.conversation_id == conversation_id,
        RunRow.state.in_(("succeeded", "empty", "discarded")),
    )


def _is_dead(agent_key: int, run_id: int) -> tuple[Any, ...]:
    return RunRow.agent_key == agent_key, RunRow.run_id == run_id, RunRow.state == "dead"


def _is(key: RunKey) -> tuple[Any, ...]:
    return RunRow.agent_key == key.agent_key, RunRow.run_id == key.run_id, RunRow.fence == key.fence


_COST = (
    RunRow.model,
    RunRow.input_tokens,
    RunRow.output_tokens,
    RunRow.latency_seconds,
    RunRow.calls,
    RunRow.prompt_version,
)


def cost(usage: Usage) -> dict[str, Any]:
    return {
        "model": usage.model or None,
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "latency_seconds": usage.latency_seconds or None,
        "calls": usage.calls,
    }


_kept = (
    update(RunRow)
    .where(
        RunRow.agent_key == bindparam("agent", type_=BigInteger),
        RunRow.run_id == bindparam("run", type_=BigInteger),
        RunRow.fence == bindparam("under", type_=BigInteger),
        didnt_end(),
    )
    .values(
        {"state": "answered"}
        | {
            name: bindparam(f"new_{name}", type_=RunRow.__table__.c[name].type)
            for name in ("answer", "prompt_version", *cost(Usage("")))
        }
    )
    .returning(RunRow.run_id)
    .cte("kept")
)
# A crash of the server right after it takes the answer back, as if that had come a moment later: one call is made again. It
# creates nothing that others could take for theirs, and what applies the answer waits for the disk.
_KEEP = select(_kept).where(flushed_later())
