"""The versions of scopes' texts: written and undone under the scope's row lock, never changed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal

from sqlalchemy import and_, bindparam, cast, exists, false, func, insert, join, literal, or_, select, true, update
from sqlalchemy.dialects.postgresql import aggregate_order_by
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.types import ARRAY, BigInteger, DateTime, Integer, Interval

from memory_sql.db.arrays import among
from memory_sql.db.direct import ask
from memory_sql.db.models import ConsolidationRow, ObservationRow, ObservationStateRow, RunRow, ScopeRow, columns_of
from memory_sql.db.repositories.observations import ObservationKey
from memory_sql.db.repositories.runs import ABANDONED, RunKey, cost, didnt_end
from memory_sql.db.repositories.scopes import ScopeRepository, ScopeState, in_scope, is_visible, visible_scopes
from memory_sql.db.repositories.states import StateRepository
from memory_sql.db.rewinding import REWOUND, LetGo, Rewound, let_go
from memory_sql.db.scope_parts import pending_observations
from memory_sql.db.scope_rows import scope_ref
from memory_sql.domain.results import Usage
from memory_sql.domain.scopes import Consolidation, PendingObservation, ScopeRef
from memory_sql.errors import StaleError
from memory_sql.languages.text import count_words

Rewinding = Literal["undo", "forget", "quarantine", "leave", "retract"]
KEEPING: tuple[Rewinding, ...] = ("forget", "quarantine", "leave")  # what then goes lets its repetitions stand again


@dataclass(frozen=True, slots=True)
class Span:
    """A version, the version that it was rewritten from, and what it absorbed itself."""

    version: int
    base: int
    from_seq: int
    to_seq: int
    extra_seqs: tuple[int, ...]
    live: bool


@dataclass(frozen=True, slots=True)
class History:
    """All versions of one scope's text, oldest first."""

    agent_key: int
    scope: ScopeRef
    spans: tuple[Span, ...]

    def is_of(self, table: Any) -> Any:
        return and_(table.agent_key == self.agent_key, table.scope_id == self.scope.key)


@dataclass(frozen=True, slots=True)
class Begun:
    """`run_id` None: nothing is pending. `text`: the scope's, which isn't read with its row while that is locked.

    `gone`: words that live versions since a moment dropped as over or slight; `before`: the text of then, or the first.
    """

    run_id: int | None
    text: str | None
    inputs: tuple[PendingObservation, ...]
    gone: int = 0
    before: str | None = None


@dataclass(frozen=True, slots=True)
class ConsolidationRepository:
    _session: AsyncSession

    async def begin(
        self, state: ScopeState, most: int, max_characters: int, now: datetime, since: datetime
    ) -> Begun | None:
        """The oldest pending observations, as many as fit, and a run that reads them. Runs under an older lease are ended.

        At least one observation, if there is any. None: the lease, the version or the epoch has changed. It reads a single
        snapshot, later than `state`; later changes raise version or epoch, so nothing has to be locked.
        """
        given = {**_named(_of(state), now=now, since=since), "most": most, "max_characters": max_characters}
        rows = await ask(self._session, _BEGIN, given)
        if not rows:
            return None
        (row,) = rows
        inputs = tuple(map(PendingObservation, row.seqs or (), row.contents or (), row.times or ()))
        return Begun(row.run_id, row.text, inputs, row.gone, row.before)

    async def is_newer_than_end(self, agent_key: int, key: ObservationKey) -> bool:
        """Whether a version of the scope's text was made since this observation was resolved: its run may have been told."""
        scope_id, seq = key
        of_it = and_(_t.agent_key == agent_key, _t.scope_id == scope_id, _t.seq == seq)
        made = select(_c.version).where(
            _c.agent_key == agent_key,
            _c.scope_id == scope_id,
            _c.live,
            _c.created_at > select(_t.status_at).where(of_it).scalar_subquery(),
        )
        return bool(await self._session.scalar(select(made.exists())))

    async def commit_version(
        self,
        state: ScopeState,
        run: RunKey,
        *,
        inputs: Sequence[int],
        usage: Usage,
        refused: Mapping[str, int],
        now: datetime,
        propagation_interval: timedelta,
        threshold: int,
        **text: Any,
    ) -> bool:
        """Makes `text` the scope's text, releases the lease and ends the run; returns whether anything is still pending.

        `text`: content, words, to_seq, extra_seqs, passed_seqs, contradictions, repetitions, suspects, prompt_version and
        reason. All in one statement. Raises `StaleError` if the lease, version or epoch has changed, or the run was ended.
        """
        given = _named(
            _of(state) | cost(usage) | text,
            next_version=state.version + 1,
            run_id=run.run_id,
            observations=len(inputs),
            refused=dict(refused),
            now=now,
        )
        own = {"inputs": list(inputs), "interval": propagation_interval, "threshold": threshold}
        (row,) = await ask(self._session, _COMMIT, given | own)
        if row.waits is None:
            raise StaleError("scope", f"s{state.scope_id}", "its text or its lease has changed")
        if row.ended is None:
            raise StaleError("run", str(run.run_id), "it has ended")
        return bool(row.waits)

    async def hold(self, state: ScopeState, waiting: int, threshold: int, now: datetime, until: datetime) -> bool:
        """Of what is pending so many wait for another text: the scope isn't due for these alone, but when it gains something,
        or at that time. Returns whether anything else is pending.
        """
        pending = select(func.count()).select_from(
            pending_observations(ScopeRow.agent_key, ScopeRow.scope_id, ScopeRow.done_seq)
        )
        held = await self._session.scalar(
            update(ScopeRow)
            .where(in_scope(ScopeRow, state), pending.scalar_subquery() <= waiting)
            .values(held_seq=ScopeRow.last_seq, due_at=until)
            .returning(ScopeRow.scope_id)
        )
        scopes = cast([state.scope_id], ARRAY(BigInteger))
        await self._session.execute(select(func.memory.refresh_due(state.agent_key, scopes, threshold, now)))
        return held is None

    async def newest_absorbing(self, state: ScopeState) -> int | None:
        """The newest live version that absorbed something, or by which a recheck did."""
        version: int | None = await self._session.scalar(
            select(func.max(ConsolidationRow.version)).where(
                in_scope(ConsolidationRow, state),
                ConsolidationRow.live,
                or_(
                    ConsolidationRow.to_seq > ConsolidationRow.from_seq,
                    func.cardinality(ConsolidationRow.extra_seqs) > 0,
                    ConsolidationRow.reason == "recheck",
                ),
            )
        )
        return version

    async def rewind(
        self, agent_key: int, before: Mapping[int, int], reason: Rewinding, now: datetime
    ) -> Mapping[int, Rewound]:
        """Undoes the live versions from `before` on, by scope: what they absorbed is pending again (rule 5).

        The text that `before` was rewritten from becomes the head under a new version. What these versions superseded is
        active again, as is what they took for a repetition, with the evidence that it lent, unless they fall only because
        of something else that they hold (`KEEPING`). After an undo a scope isn't due until it gains an observation; after
        any other `reason` it is due as usual. The caller has locked the scopes.
        """
        given = {
            "of_agent": agent_key,
            "at": now,
            "scopes": list(before),
            "befores": list(before.values()),
            "undo": reason == "undo",
        }
        by_scope = defaultdict[int, list[Any]](list)
        for row in await self._session.execute(REWOUND, given) if before else ():
            by_scope[row.scope_id].append(row)
        heads = {scope_id: rows[0] for scope_id, rows in by_scope.items()}
        told = [
            {
                "agent_key": agent_key,
                "scope_id": scope_id,
                "version": head.new_version,
                "base": head.base,
                "from_seq": head.from_seq,
                "to_seq": head.from_seq,
                "content": head.text,
                "words": count_words(head.text),
                "reason": "retract" if reason == "leave" else reason,
                "created_at": now,
            }
            for scope_id, head in heads.items()
            if head.text is not None
        ]
        if told:
            await self._session.execute(insert(ConsolidationRow), told)
        lifted = {
            scope_id: lets
            for scope_id, rows in by_scope.items()
            if (lets := let_go(rows, takes_repetitions=reason not in KEEPING)).any
        }
        for state in await ScopeRepository(self._session).lock(agent_key, scope_ids=sorted(lifted)) if lifted else ():
            await self._let_stand(state, lifted[state.scope_id], now)
        return {scope_id: Rewound(head.new_version, head.text, scope_id in lifted) for scope_id, head in heads.items()}

    async def _let_stand(self, state: ScopeState, lets: LetGo, now: datetime) -> None:
        """The scope has the version that it was rewound to."""
        gave_way = [*lets.gave_way, *lets.repeated]
        await StateRepository(self._session).reinstate(state, gave_way, lets.held, now, version=state.version)
        if lets.repeated:
            seqs = cast([newer for newer, _, _ in lets.repeated], ARRAY(Integer))
            await self._session.execute(select(func.memory.take_back_evidence(state.agent_key, state.scope_id, seqs)))

    async def spans(self, principal: Mapping[str, Any], scope_id: int) -> History | None:
        """The history of the scope's text; None for a scope that isn't visible or has no text yet."""
        found = (await self._session.execute(_SPANS, {**principal, "scope_id": scope_id})).all()
        if not found:
            return None
        spans = tuple(Span(*row[5:9], extra_seqs=tuple(row.extra_seqs), live=row.live) for row in found)
        return History(found[0].agent_key, scope_ref(*found[0][1:5]), spans)

    async def contents(self, history: History, versions: Sequence[int]) -> dict[int, str]:
        found = await self._session.execute(
            select(_c.version, _c.content).where(history.is_of(_c), _c.version.in_(versions))
        )
        return {row.version: row.content for row in found}

    async def absorbed(self, history: History, spans: Sequence[Span]) -> list[int]:
        """The observations that these versions absorbed themselves, in the order of their numbers.

        Observations that a range passed over aren't included: they are still pending, or a live version, or one of these,
        lists them among its extras.
        """
        extras = {seq for span in spans for seq in span.extra_seqs}
        listed = extras | {seq for span in history.spans if span.live for seq in span.extra_seqs}
        waits = select(_t.seq).where(history.is_of(_t), _t.seq == _o.seq, _t.repend).exists()
        ranges = or_(false(), *(and_(_o.seq > span.from_seq, _o.seq <= span.to_seq) for span in spans))
        found = await self._session.scalars(
            select(_o.seq)
            .where(
                history.is_of(_o),
                _o.lane == "absorb",
                or_(among(_o.seq, extras), and_(ranges, ~waits, ~among(_o.seq, listed))),
            )
            .order_by(_o.seq)
        )
        return list(found)

    async def version_at(self, history: History, moment: datetime) -> int:
        """The version of the scope's text at that moment; 0: it had none."""
        newest = await self._session.scalar(
            select(func.max(_c.version)).where(history.is_of(_c), _c.created_at <= moment, was_live(moment))
        )
        return newest or 0

    async def versions(
        self, principal: Mapping[str, Any], scope_id: int | None, limit: int, as_of: datetime | None = None
    ) -> list[Consolidation]:
        """Versions of the visible scopes' texts, newest first; if a past moment is given, as they were then."""
        given = {**principal, "scope_id": scope_id, "limit": limit}
        if as_of is None:
            found = await self._session.execute(_VERSIONS, given)
        else:
            found = await self._session.execute(_VERSIONS_THEN, given | {"moment": as_of})
        return [
            Consolidation(
                scope=scope_ref(row.scope_id, row.kind, row.owner, row.name),
                **{column.key: row[column.key] for column in _VERSION_COLUMNS}
                | ({} if as_of is None else {"live": row["live_until"] is None or row["live_until"] > as_of}),
            )
            for row in found.mappings()
        ]


def _of(state: ScopeState) -> dict[str, Any]:
    return {name: getattr(state, name) for name in ("agent_key", "scope_id", "fence", "version", "epoch", "done_seq")}


def _named(values: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    return {f"given_{name}": value for name, value in {**values, **more}.items()}


def was_live(moment: datetime) -> Any:
    return or_(_c.live_until.is_(None), _c.live_until > moment)


_c, _o, _t = ConsolidationRow, ObservationRow, ObservationStateRow
_s = ScopeRow.__table__
_visible = visible_scopes()
_VERSION_COLUMNS = columns_of(ConsolidationRow, Consolidation.model_fields)
_LIMIT = bindparam("limit", type_=BigInteger)


def _versions(*conditions: Any) -> Any:
    """Of each scope by its key, as many as are wanted at most: it may have had thousands, and the planner would take all."""
    its = select(_c).where(is_visible(_c, _s), *conditions).order_by(_c.version.desc()).limit(_LIMIT)
    version = its.correlate(_s).lateral("newest")
    wanted = bindparam("scope_id", type_=BigInteger)
    return (
        select(
            ScopeRow.scope_id,
            ScopeRow.kind,
            ScopeRow.owner,
            ScopeRow.name,
            *(version.c[column.key] for column in _VERSION_COLUMNS),
            version.c.live_until,
        )
        .join_from(_visible, ScopeRow, is_visible(ScopeRow, _visible))
        .join(version, true())
        .where(or_(wanted.is_(None), ScopeRow.scope_id == wanted))
        .order_by(version.c.created_at.desc(), version.c.version.desc())
        .limit(_LIMIT)
    )


_VERSIONS = _versions()
_VERSIONS_THEN = _versions(_c.created_at <= bindparam("moment", type_=DateTime(timezone=True)))

_SPANS = (
    select(
        ScopeRow.agent_key,
        ScopeRow.scope_id,
        ScopeRow.kind,
        ScopeRow.owner,
        ScopeRow.name,
        _c.version,
        _c.base,
        _c.from_seq,
        _c.to_seq,
        _c.extra_seqs,
        _c.live,
    )
    .join_from(_visible, ScopeRow, is_visible(ScopeRow, _visible))
    .join(_c, is_visible(_c, ScopeRow.__table__))
    .where(ScopeRow.scope_id == bindparam("scope_id", type_=BigInteger))
    .order_by(_c.version)
)


def _given(name: str, column: Any) -> Any:
    """Not named as the column, since an UPDATE reserves that name for the value that it sets."""
    return bindparam(f"given_{name}", type_=column.type)


_AGENT, _SCOPE, _FENCE = (_given(name, _s.c[name]) for name in ("agent_key", "scope_id", "fence"))
_NOW = _given("now", _s.c.consolidated_at)
_SINCE = _given("since", _s.c.consolidated_at)


def _begin() -> Any:
    done, version = _given("done_seq", _s.c.done_seq), _given("version", _s.c.version)
    held = (
        select(_s.c.scope_id)
        .where(_s.c.agent_key == _AGENT, _s.c.scope_id == _SCOPE, _s.c.fence == _FENCE)
        .where(_s.c.version == version, _s.c.epoch == _given("epoch", _s.c.epoch))
        .with_for_update(read=True, key_share=True)  # as the run's foreign key will: the agent may be erased meanwhile
        .cte("held")
    )
    pending = pending_observations(_AGENT, _SCOPE, done)
    waiting = (
        select(pending.c.seq, pending.c.content, pending.c.observed_at)
        .order_by(pending.c.seq)
        .limit(bindparam("most", type_=BigInteger))
        .subquery("waiting")
    )
    counted = select(
        *waiting.c,
        func.sum(func.length(waiting.c.content)).over(order_by=waiting.c.seq).label("characters"),
        func.row_number().over(order_by=waiting.c.seq).label("place"),
    ).subquery("counted")
    fits = or_(counted.c.characters <= bindparam("max_characters", type_=BigInteger), counted.c.place == 1)
    fitting = select(*counted.c).where(fits, exists(select(held.c.scope_id))).cte("fitting")
    abandoned = (
        update(RunRow)
        .where(RunRow.agent_key == _AGENT, RunRow.scope_id == _SCOPE, RunRow.fence < _FENCE, didnt_end())
        .values(ABANDONED | {"finished_at": _NOW})
        .cte("abandoned")
    )
    row = {
        "agent_key": _AGENT,
        "scope_id": _SCOPE,
        "fence": _FENCE,
        "kind": literal("consolidation"),
        "state": literal("running"),
        "started_at": _NOW,
        "from_seq": done,
        "to_seq": func.greatest(done, func.max(fitting.c.seq)),
    }
    read = select(*row.values()).select_from(fitting).having(func.count() > 0)
    started = insert(RunRow).from_select([*row], read).returning(RunRow.run_id).cte("started")
    columns = {"seqs": fitting.c.seq, "contents": fitting.c.content, "times": fitting.c.observed_at}
    arrays = (
        select(func.array_agg(aggregate_order_by(column, fitting.c.seq))).scalar_subquery().label(name)
        for name, column in columns.items()
    )
    run_id = select(started.c.run_id).scalar_subquery().label("run_id")
    its_text = select(_c.content).where(_c.agent_key == _AGENT, _c.scope_id == _SCOPE, _c.version == version)
    text, before = its_text.scalar_subquery().label("text"), _text_before(version).label("before")
    return select(run_id, text, _gone().label("gone"), before, *arrays).select_from(held).add_cte(abandoned)


def _gone() -> Any:
    """How many words the live versions since then dropped as over or slight, as their runs say."""
    words = cast(RunRow.refused["words_gone"].astext, Integer)
    return (
        select(func.coalesce(func.sum(words), 0))
        .select_from(join(_c, RunRow, (RunRow.agent_key == _c.agent_key) & (RunRow.run_id == _c.run_id)))
        .where(_c.agent_key == _AGENT, _c.scope_id == _SCOPE, _c.live, _c.created_at > _SINCE)
        .scalar_subquery()
    )


def _text_before(version: Any) -> Any:
    """The live text of then; where there was none, the first, unless that is the newest."""
    live = select(_c.content).where(_c.agent_key == _AGENT, _c.scope_id == _SCOPE, _c.live)
    of_then = live.where(_c.created_at <= _SINCE).order_by(_c.version.desc()).limit(1)
    first = live.where(_c.version < version).order_by(_c.version).limit(1)
    return func.coalesce(of_then.scalar_subquery(), first.scalar_subquery())


def _commit() -> Any:
    """The other parts depend on `memory.absorb`, so that the scope is locked before anything is written."""
    absorbed = func.memory.absorb(
        _AGENT,
        _SCOPE,
        _FENCE,
        *(_given(name, _s.c[name]) for name in ("version", "epoch")),
        *(_given(name, _s.c.done_seq) for name in ("done_seq", "to_seq")),
        bindparam("inputs", type_=ARRAY(Integer)),
        _given("suspects", _s.c.suspects),
        bindparam("interval", type_=Interval),
        bindparam("threshold", type_=Integer),
        _NOW,
    )
    committed = select(absorbed.label("waits")).cte("committed")
    is_ours = committed.c.waits.is_not(None)
    row = {name: _given(name, column) for name, column in _c.__table__.c.items() if name in _VERSION_GIVEN}
    row |= {
        "agent_key": _AGENT,
        "scope_id": _SCOPE,
        "version": _given("next_version", _s.c.version),
        "base": _given("version", _s.c.version),
        "from_seq": _given("done_seq", _s.c.done_seq),
        "created_at": _NOW,
    }
    added = insert(_c).from_select([*row], select(*row.values()).select_from(committed).where(is_ours)).cte("added")
    runs = RunRow.__table__.c
    outcome = {name: _given(name, runs[name]) for name in _RUN_GIVEN}
    ended = (
        update(RunRow)
        .where(RunRow.agent_key == _AGENT, RunRow.run_id == _given("run_id", runs.run_id), RunRow.fence == _FENCE)
        .where(didnt_end(), exists(select(committed.c.waits).where(is_ours)))
        .values({**outcome, "state": "succeeded", "answer": None, "finished_at": _NOW})
        .returning(RunRow.run_id)
        .cte("ended")
    )
    return select(committed.c.waits, select(ended.c.run_id).scalar_subquery().label("ended")).add_cte(added)


_VERSION_GIVEN = (
    *("to_seq", "extra_seqs", "passed_seqs", "contradictions", "repetitions"),
    *("content", "words", "model", "prompt_version", "reason", "run_id"),
)
_RUN_GIVEN = "to_seq model input_tokens output_tokens latency_seconds calls prompt_version observations refused".split()
_BEGIN, _COMMIT = _begin(), _commit()
