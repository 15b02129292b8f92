"""Scopes: their owners, pending observations and leases; written under the scope's row lock."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from functools import cache
from operator import attrgetter
from typing import Any, Literal, get_args

from sqlalchemy import and_, any_, bindparam, cast, exists, func, null, or_, select, true, tuple_, update
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.dialects.postgresql import insert as upsert
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import aliased
from sqlalchemy.types import ARRAY, BigInteger, DateTime, Interval, Text

from memory_sql.config import Settings
from memory_sql.config.kinds import (
    BUFFER_MAX,
    BUFFER_MAX_WORDS,
    CONVERSATION_MAX,
    CONVERSATION_WORDS,
    Lanes,
    PromptName,
)
from memory_sql.db.arrays import among
from memory_sql.db.bounds import ONE
from memory_sql.db.closures import reached_from
from memory_sql.db.direct import ask
from memory_sql.db.models import AgentRow, PromptRow, ScopeRow
from memory_sql.db.models.shards import is_here
from memory_sql.db.queries.due import scopes_judged_by_more
from memory_sql.db.scope_parts import newest_buffer, newest_disputed, newest_pending, pending_observations
from memory_sql.db.scope_rows import buffer_of, disputed_of, pending_of, scope_ref
from memory_sql.domain.ids import ScopeKind
from memory_sql.domain.prompts import OwnWords, own_words
from memory_sql.domain.scopes import PendingObservation, ScopeRef

ScopePlace = tuple[int, int]  # the keys of a scope
DueColumn = Literal["due_at", "propagate_at", "recheck_at"]
_CLOCK = func.clock_timestamp()  # leases live on the database's clock, which goes on inside a transaction


@dataclass(frozen=True, slots=True)
class ScopeState:
    """A scope as a model call sees it. If `version` or `epoch` changes meanwhile, the call's result is void."""

    agent_key: int
    scope_id: int
    kind: ScopeKind
    owner: str
    name: str
    display_name: str | None
    consolidation: str | None
    version: int
    epoch: int
    last_seq: int
    done_seq: int
    fence: int
    extraction_model: str | None
    consolidation_model: str | None
    max_words: int | None
    lanes: Lanes
    min_items: int
    max_items: int | None
    item_words: int | None
    buffer_min_items: int
    buffer_max_items: int
    buffer_max_words: int
    buffer_max: int
    language: str
    is_active: bool
    consolidate: bool
    extraction_mode: str
    failures: int
    errors: int
    suspects: int
    propagation_failures: int
    propagation_errors: int
    propagated_at: datetime | None
    agent_settings: dict[str, Any]
    newest_prompts: dict[str, dict[str, Any] | None] | None

    def own_words(self, name: PromptName) -> OwnWords | None:
        return own_words((self.newest_prompts or {}).get(name))

    @property
    def is_isolated(self) -> bool:
        """Whether it is extracted in a call of its own: because of its mode, or of its own instructions or model."""
        words = self.own_words("extraction")
        own = self.extraction_model is not None or (words is not None and words.instructions is not None)
        return own or self.extraction_mode == "isolated"

    @property
    def ref(self) -> ScopeRef:
        return scope_ref(self.scope_id, self.kind, self.owner, self.name)

    def holds_the_same(self, other: ScopeState) -> bool:
        """Whether its text has absorbed the same as then, and nothing has been taken out."""
        return (self.version, self.epoch, self.done_seq) == (other.version, other.epoch, other.done_seq)


@dataclass(frozen=True, slots=True)
class Seen:
    """A scope that isn't locked. `is_free`: nobody holds the lease."""

    state: ScopeState
    is_free: bool


@dataclass(frozen=True, slots=True)
class NewScope:
    """A scope that may have to be created; `display_name` is used only then."""

    kind: ScopeKind
    owner: str
    name: str = ""
    display_name: str | None = None

    def row(self, settings: Settings) -> dict[str, Any]:
        """The initial row: a conversation's scope has the agent's settings, any other has one lane, into its text."""
        of_conversation = self.kind == "conversation" and not self.name
        return {
            **asdict(self),
            "language": settings.language,
            "lanes": "buffer" if of_conversation and settings.conversation_scope == "buffer" else "absorb",
            "buffer_max": CONVERSATION_MAX if of_conversation else BUFFER_MAX,
            "buffer_max_words": CONVERSATION_WORDS if of_conversation else BUFFER_MAX_WORDS,
            "waits_below": settings.consolidation_threshold,
        }


def visible_scopes() -> Any:
    """`memory.visible_scopes` as a FROM clause, with the parameters `agent_id`, `user_id` and `conversation_id`."""
    principal = (bindparam(name, type_=Text) for name in ("agent_id", "user_id", "conversation_id"))
    return func.memory.visible_scopes(*principal).table_valued("agent_key", "scope_id", name="visible")


def is_visible(table: Any, visible: Any) -> Any:
    return and_(table.agent_key == visible.c.agent_key, table.scope_id == visible.c.scope_id)


_OWN = (
    ScopeRow.agent_key,
    ScopeRow.scope_id,
    ScopeRow.kind,
    ScopeRow.owner,
    ScopeRow.name,
    ScopeRow.display_name,
    ScopeRow.consolidation,
    ScopeRow.version,
    ScopeRow.epoch,
    ScopeRow.last_seq,
    ScopeRow.done_seq,
    ScopeRow.fence,
    ScopeRow.extraction_model,
    ScopeRow.consolidation_model,
    ScopeRow.consolidation_max_words.label("max_words"),
    ScopeRow.lanes,
    ScopeRow.observation_min_items.label("min_items"),
    ScopeRow.observation_max_items.label("max_items"),
    ScopeRow.observation_max_words.label("item_words"),
    ScopeRow.buffer_min_items,
    ScopeRow.buffer_max_items,
    ScopeRow.buffer_max_words,
    ScopeRow.buffer_max,
    ScopeRow.language,
    ScopeRow.is_active,
    ScopeRow.consolidate,
    ScopeRow.extraction_mode,
    ScopeRow.failures,
    ScopeRow.errors,
    ScopeRow.suspects,
    ScopeRow.propagation_failures,
    ScopeRow.propagation_errors,
    ScopeRow.propagated_at,
)
_SETTINGS = select(AgentRow.settings)


def _newest_prompt(name: PromptName) -> Any:
    """Read with the primary key, without a sort, since every claim of work reads it."""
    p = PromptRow
    return (
        select(func.jsonb_build_object("version", p.version, "mode", p.mode, "body", p.body))
        .where(p.agent_key == ScopeRow.agent_key, p.scope_id == ScopeRow.scope_id, p.name == name)
        .order_by(p.version.desc())
        .limit(1)
        .correlate(ScopeRow)
        .scalar_subquery()
    )


_PROMPTS = func.jsonb_build_object(
    *(part for name in get_args(PromptName) for part in (name, _newest_prompt(name))), type_=JSONB
)
_STATE = select(
    *_OWN,
    _SETTINGS.where(AgentRow.agent_key == ScopeRow.agent_key)
    .correlate(ScopeRow)
    .scalar_subquery()
    .label("agent_settings"),
    _PROMPTS.label("newest_prompts"),
)
_WIDTH = len(_STATE.selected_columns)
_NAMED = tuple(column.label(name) for name, column in _STATE.selected_columns.items())  # the text is a subquery
_WITH_PENDING = (
    _STATE.add_columns(*newest_pending.c, *newest_disputed.c, *newest_buffer.c)
    .select_from(ScopeRow)
    .join(newest_pending, true())
    .join(newest_buffer, true())
    .join(newest_disputed, true())
    .where(
        ScopeRow.agent_key == bindparam("agent_key", type_=BigInteger),
        ScopeRow.owner == any_(bindparam("owners", type_=ARRAY(Text))),
    )
    .order_by(ScopeRow.scope_id)
)


def _locked(which: Any) -> Any:
    mine = ScopeRow.agent_key == bindparam("agent_key", type_=BigInteger)
    return _STATE.where(mine, which).order_by(ScopeRow.scope_id).with_for_update(key_share=True)


_BY_ID = ScopeRow.scope_id == any_(bindparam("scope_ids", type_=ARRAY(BigInteger)))
_LOCKED = _locked(_BY_ID)


def _locked_seen() -> Any:
    """As `_LOCKED`: the scope `scope_id`, if the principal sees it, and those in which something follows what it holds."""
    agent = select(AgentRow.agent_key).where(AgentRow.agent_id == bindparam("agent_id", type_=Text)).scalar_subquery()
    visible = visible_scopes()
    seen = select(visible.c.scope_id).where(visible.c.scope_id == bindparam("scope_id", type_=BigInteger)).cte("seen")
    wanted = select(seen.c.scope_id).union(reached_from(select(seen.c.scope_id), agent))
    which = and_(ScopeRow.agent_key == agent, ScopeRow.scope_id == any_(func.array(wanted.scalar_subquery())))
    return _STATE.where(which).order_by(ScopeRow.scope_id).with_for_update(key_share=True)


_LOCKED_SEEN = _locked_seen()


def _state(row: Any) -> ScopeState:
    return ScopeState(*row[:_WIDTH])


@dataclass(frozen=True, slots=True)
class ScopeRepository:
    _session: AsyncSession

    async def _make(
        self, agent_key: int, wanted: Mapping[tuple[str, str], NewScope], settings: Settings, now: datetime
    ) -> list[ScopeState]:
        """Creates those that still don't exist, always in the same order, so that transactions can't deadlock."""
        rows = [{"agent_key": agent_key, **wanted[key].row(settings), "created_at": now} for key in sorted(wanted)]
        own = _SETTINGS.where(AgentRow.agent_key == agent_key).scalar_subquery()
        new = (null() if column is ScopeRow.consolidation else column for column in _OWN)
        made = upsert(ScopeRow).values(rows).on_conflict_do_nothing().returning(*new, own, null())
        return [_state(row) for row in await self._session.execute(made)]

    async def with_pending(
        self, agent_key: int, owners: Iterable[str], pending_max: int
    ) -> list[tuple[ScopeState, tuple[PendingObservation, ...]]]:
        """The scopes of these owners, each with its newest observations that its text doesn't hold, yet or ever.

        Disputed ones aren't included: nobody knows whether they are true.
        """
        given = {"agent_key": agent_key, "owners": list(owners), "pending_max": pending_max}
        found = await ask(self._session, _WITH_PENDING, given)
        return [
            (_state(row), tuple(p for p in (*pending_of(row), *buffer_of(row)) if p not in disputed_of(row)))
            for row in found
        ]

    async def look_at(self, agent_key: int, scope_id: int) -> Seen | None:
        """Without a lock."""
        found = await self._session.execute(
            _STATE.add_columns(_is_free()).where(ScopeRow.agent_key == agent_key, ScopeRow.scope_id == scope_id)
        )
        row = found.one_or_none()
        return None if row is None else Seen(_state(row), is_free=row[-1])

    async def exists(self, agent_key: int, scope_id: int) -> bool:
        found = await self._session.scalar(
            select(ScopeRow.scope_id).where(ScopeRow.agent_key == agent_key, ScopeRow.scope_id == scope_id)
        )
        return found is not None

    async def epochs(self, agent_key: int, scope_ids: Sequence[int]) -> dict[int, int]:
        s = ScopeRow
        found = await self._session.execute(
            select(s.scope_id, s.epoch).where(s.agent_key == agent_key, among(s.scope_id, scope_ids))
        )
        return {row.scope_id: row.epoch for row in found}

    async def lock_or_make(
        self, agent_key: int, wanted: Sequence[NewScope], scope_ids: Iterable[int], settings: Settings, now: datetime
    ) -> list[ScopeState]:
        """As `lock`, and creates those of the wanted ones that are missing. Everybody locks the existing ones first."""
        keys, ids = {(scope.owner, scope.name): scope for scope in wanted}, list(scope_ids)
        locked = await self.lock(agent_key, keys, ids)
        for scope in locked:
            keys.pop((scope.owner, scope.name), None)
        if not keys:
            return locked
        made = await self._make(agent_key, keys, settings, now)
        if len(made) == len(keys):
            return sorted([*locked, *made], key=attrgetter("scope_id"))
        return await self.lock(agent_key, keys, [scope.scope_id for scope in locked])  # somebody else created one

    async def lock(
        self, agent_key: int, owners: Collection[tuple[str, str]] = (), scope_ids: Iterable[int] = ()
    ) -> list[ScopeState]:
        """The scopes `(owner, name)` and those with these ids, locked in id order until the transaction ends."""
        given = {"agent_key": agent_key, "scope_ids": list(scope_ids)}
        named = tuple_(ScopeRow.owner, ScopeRow.name).in_(list(owners))
        found = await self._session.execute(_locked(or_(named, _BY_ID)) if owners else _LOCKED, given)
        return [_state(row) for row in found]

    async def lock_seen(self, principal: Mapping[str, Any], scope_id: int) -> list[ScopeState]:
        """As `lock`: a scope that the principal sees, and those in which something follows what it holds, or none."""
        found = await self._session.execute(_LOCKED_SEEN, {**principal, "scope_id": scope_id})
        return [_state(row) for row in found]

    async def refresh_due(self, agent_key: int, scope_ids: Sequence[int], threshold: int, now: datetime) -> None:
        await self._session.execute(
            select(func.memory.refresh_due(agent_key, cast(list(scope_ids), ARRAY(BigInteger)), threshold, now))
        )

    async def refresh_due_after(self, state: ScopeState, done_seq: int, threshold: int, now: datetime) -> bool:
        """As `refresh_due`; returns whether anything is pending in the scope, whose watermark is now `done_seq`."""
        refreshed = func.memory.refresh_due(state.agent_key, cast([state.scope_id], ARRAY(BigInteger)), threshold, now)
        waits = exists().select_from(pending_observations(state.agent_key, state.scope_id, done_seq))
        found = await self._session.execute(select(waits.label("waits"), refreshed))
        return bool(found.one().waits)

    async def make_due(self, agent_key: int | None, threshold: int, most: int, now: datetime) -> bool:
        """Makes scopes due that have enough pending by this threshold and hadn't by an earlier one; checks at most `most`.

        For one agent or all; only scopes last checked with a higher threshold. Scopes that somebody works on are skipped:
        they are checked when that work ends. Returns whether there may be more.
        """
        found = [await self._session.execute(sql) for sql in scopes_judged_by_more(agent_key, threshold, most)]
        places = [(row.agent_key, row.scope_id) for rows in found for row in rows]
        if places:
            await self._refresh_all(places, threshold, now)
        return len(places) >= most

    async def _refresh_all(self, places: Sequence[ScopePlace], threshold: int, now: datetime) -> None:
        """As `refresh_due`, for scopes of several agents."""
        agents, scopes = (cast([place[n] for place in places], ARRAY(BigInteger)) for n in (0, 1))
        found = func.unnest(agents, scopes).table_valued("agent_key", "scope_id", name="found").render_derived()
        scope_ids = func.array_agg(found.c.scope_id)
        await self._session.execute(
            select(func.memory.refresh_due(found.c.agent_key, scope_ids, threshold, now)).group_by(found.c.agent_key)
        )

    async def claim(self, agent_key: int, scope_id: int, lease: timedelta) -> ScopeState | None:
        """A new lease with a new fence; None while another lease holds."""
        claimed = await self._session.execute(
            update(ScopeRow)
            .where(ScopeRow.agent_key == agent_key, ScopeRow.scope_id == scope_id, _is_free())
            .values(fence=ScopeRow.fence + 1, lease_until=_CLOCK + lease)
            .returning(*_STATE.selected_columns)
        )
        row = claimed.one_or_none()
        return None if row is None else _state(row)

    async def claim_of(self, agent_id: str, scope_id: int, lease: timedelta) -> ScopeState | None:
        """As `claim`, in one statement that may commit by itself; also None if there is no such agent or scope."""
        rows = await ask(self._session, _CLAIM_OF, {"of_agent": agent_id, "of_scope": scope_id, "lease": lease})
        return _state(rows[0]) if rows else None

    async def claim_due(
        self, agent_id: str | None, by: datetime, lease: timedelta, what: DueColumn = "due_at"
    ) -> tuple[str, ScopeState, bool] | None:
        """A new lease on the scope that has been due longest and that nobody works on; None: there is none.

        With its agent's id, and whether anything else is due.

        Due to be consolidated (`due_at`), propagated (`propagate_at`) or rechecked (`recheck_at`). A simultaneous caller gets
        the next one: nobody waits, and no two get the same.
        """
        given = {"by": by, "lease": lease} | ({} if agent_id is None else {"of_agent": agent_id})
        rows = await ask(self._session, _claim_due(what, of_all=agent_id is None), given)
        return (rows[0].agent_id, _state(rows[0]), rows[0].more) if rows else None

    async def release(self, state: ScopeState, **values: Any) -> bool:
        """Releases the lease, with these changes; False: it has passed to somebody else, and nothing was changed."""
        released = await self._session.scalar(
            update(ScopeRow).where(leased(state)).values(lease_until=None, **values).returning(ScopeRow.scope_id)
        )
        return released is not None

    async def postpone(self, agent_id: str, scope_id: int, until: datetime, what: DueColumn = "due_at") -> None:
        """The scope stays due, but not before `until`."""
        due_at = getattr(ScopeRow, what)
        await self._session.execute(
            update(ScopeRow)
            .where(
                ScopeRow.agent_key == AgentRow.agent_key,
                AgentRow.agent_id == agent_id,
                ScopeRow.scope_id == scope_id,
                due_at < until,
            )
            .values({what: until})
        )

    async def raise_epochs(self, agent_key: int, scope_ids: Collection[int]) -> None:
        """Results of model calls in progress, made from what these scopes held, will be refused (rule 6)."""
        await self._session.execute(
            update(ScopeRow)
            .where(ScopeRow.agent_key == agent_key, among(ScopeRow.scope_id, scope_ids))
            .values(epoch=ScopeRow.epoch + 1)
        )

    async def take_lease(self, state: ScopeState) -> None:
        """Takes the lease from a consolidation in progress: it has read what was just changed."""
        await self._session.execute(
            update(ScopeRow)
            .where(in_scope(ScopeRow, state), ScopeRow.lease_until.is_not(None))
            .values(fence=ScopeRow.fence + 1, lease_until=None)
        )

    async def extend(self, state: ScopeState, lease: timedelta) -> bool:
        """Extends the lease; False: it has passed to somebody else."""
        extended = await self._session.scalar(
            update(ScopeRow).where(leased(state)).values(lease_until=_CLOCK + lease).returning(ScopeRow.scope_id)
        )
        return extended is not None

    async def pending_among(self, state: ScopeState, seqs: Sequence[int]) -> list[PendingObservation]:
        """Those of these observations that are still pending."""
        pending = pending_observations(state.agent_key, state.scope_id, state.done_seq)
        found = await self._session.execute(
            select(pending.c.seq, pending.c.content, pending.c.observed_at)
            .where(pending.c.seq.in_(list(seqs)))
            .order_by(pending.c.seq)
        )
        return [PendingObservation(*row) for row in found]


def _is_free(scope: Any = ScopeRow) -> Any:
    return or_(scope.lease_until.is_(None), scope.lease_until < _CLOCK)


def leased(state: ScopeState) -> Any:
    return and_(in_scope(ScopeRow, state), ScopeRow.fence == state.fence)


def in_scope(table: Any, state: ScopeState) -> Any:
    return and_(table.agent_key == state.agent_key, table.scope_id == state.scope_id)


_OF_AGENT = AgentRow.agent_id == bindparam("of_agent", type_=Text)
_LEASED = {"fence": ScopeRow.fence + 1, "lease_until": _CLOCK + bindparam("lease", type_=Interval)}
_CLAIM_OF = select(
    update(ScopeRow)
    .where(ScopeRow.agent_key == AgentRow.agent_key, _OF_AGENT)
    .where(ScopeRow.scope_id == bindparam("of_scope", type_=BigInteger), _is_free())
    .values(_LEASED)
    .returning(*_NAMED)
    .cte("claimed")
)


@cache
def _claim_due(what: DueColumn, *, of_all: bool) -> Any:
    other, due_at, by = aliased(ScopeRow), getattr(ScopeRow, what), bindparam("by", type_=DateTime(timezone=True))
    free = (
        select(ScopeRow.agent_key, ScopeRow.scope_id)
        .where(due_at <= by, _is_free(), is_here(ScopeRow.agent_key))
        .order_by(due_at)
        .limit(ONE)
        .with_for_update(skip_locked=True, key_share=True)
    )
    others = (
        select(other.scope_id)
        .where(getattr(other, what) <= by, _is_free(other), other.scope_id != ScopeRow.scope_id)
        .order_by(getattr(other, what))
        .limit(ONE)
    )
    if not of_all:
        agent_key = select(AgentRow.agent_key).where(_OF_AGENT).scalar_subquery()
        free, others = free.where(ScopeRow.agent_key == agent_key), others.where(other.agent_key == agent_key)
    due, more = free.cte("due"), others.correlate(ScopeRow).scalar_subquery().is_not(None)
    claimed = (
        update(ScopeRow)
        .where(
            ScopeRow.agent_key == due.c.agent_key,
            ScopeRow.scope_id == due.c.scope_id,
            AgentRow.agent_key == ScopeRow.agent_key,
        )
        .values(_LEASED)
        .returning(*_NAMED, AgentRow.agent_id, more.label("more"))
    )
    return select(claimed.cte("claimed"))
