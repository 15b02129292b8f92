"""The versions of scopes' texts: written and taken back under the scope's row lock, never changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import and_, bindparam, case, cast, false, func, insert, literal, or_, select, update
from sqlalchemy.dialects.postgresql import insert as upsert
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.types import ARRAY, BigInteger, Integer

from memory_sql.db.arrays import among
from memory_sql.db.models import ConsolidationRow, ObservationRow, ObservationStateRow, ScopeRow, columns_of
from memory_sql.db.repositories.scopes import ScopeState, in_scope, is_visible, leased, visible_scopes
from memory_sql.db.repositories.states import StateRepository
from memory_sql.db.scope_rows import scope_ref
from memory_sql.domain.scopes import Consolidation, Contradiction, Repetition, ScopeRef
from memory_sql.languages.text import count_words


@dataclass(frozen=True, slots=True)
class Span:
    """A version, what it was written on top of, and what it absorbed itself."""

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
class ConsolidationRepository:
    _session: AsyncSession

    async def commit_version(
        self,
        state: ScopeState,
        *,
        content: str,
        words: int,
        to_seq: int,
        extra_seqs: Sequence[int],
        contradictions: Sequence[Contradiction],
        repetitions: Sequence[Repetition],
        suspects: int,
        model: str,
        prompt_version: str,
        reason: str,
        run_id: int,
        now: datetime,
        propagation_interval: timedelta,
    ) -> int | None:
        """Makes `content` the scope's text and says its version; None when version, epoch or fence have moved on.

        What the text has taken in is due to be judged for wider scopes, once in `propagation_interval` at most.
        """
        version: int | None = await self._session.scalar(
            update(ScopeRow)
            .where(leased(state), ScopeRow.version == state.version, ScopeRow.epoch == state.epoch)
            .values(
                consolidation=content,
                version=ScopeRow.version + 1,
                done_seq=to_seq,
                consolidated_at=now,
                lease_until=None,
                failures=0,
                errors=0,
                suspects=suspects,
                propagate_at=_due_to_be_propagated(now, propagation_interval),
            )
            .returning(ScopeRow.version)
        )
        if version is None:
            return None
        await self._add_version(
            state,
            version=version,
            base=state.version,
            from_seq=state.done_seq,
            to_seq=to_seq,
            extra_seqs=list(extra_seqs),
            contradictions=[item.model_dump() for item in contradictions],
            repetitions=[item.model_dump() for item in repetitions],
            content=content,
            words=words,
            model=model,
            prompt_version=prompt_version,
            reason=reason,
            run_id=run_id,
            created_at=now,
        )
        return version

    async def mark_passed(self, state: ScopeState, to_seq: int, inputs: Sequence[int], now: datetime) -> None:
        """Rows in the range that the version didn't read wait on; the extra ones that it read don't any more."""
        row = {"agent_key": state.agent_key, "scope_id": state.scope_id}
        passed_over = select(
            literal(state.agent_key), literal(state.scope_id), ObservationRow.seq, literal(True), literal(now)
        ).where(
            in_scope(ObservationRow, state),
            ObservationRow.seq > state.done_seq,
            ObservationRow.seq <= to_seq,
            ObservationRow.lane == "absorb",
            ObservationRow.seq.not_in(inputs),
        )
        left = (
            upsert(ObservationStateRow)
            .from_select([*row, "seq", "repend", "status_at"], passed_over)
            .on_conflict_do_update(index_elements=[*row, "seq"], set_={"repend": True})
        )
        read = (
            update(ObservationStateRow)
            .where(
                in_scope(ObservationStateRow, state), ObservationStateRow.repend, among(ObservationStateRow.seq, inputs)
            )
            .values(repend=False)
        )
        await self._session.execute(read.add_cte(left.cte("passed_over")))  # no row is in both

    async def newest_absorbing(self, state: ScopeState) -> int | None:
        """The newest live version that absorbed something."""
        version: int | None = await self._session.scalar(
            select(func.max(ConsolidationRow.version)).where(
                in_scope(ConsolidationRow, state),
                ConsolidationRow.live,
                or_(
                    ConsolidationRow.to_seq > ConsolidationRow.from_seq,
                    func.cardinality(ConsolidationRow.extra_seqs) > 0,
                ),
            )
        )
        return version

    async def rewind(self, state: ScopeState, before: int, reason: str, now: datetime) -> tuple[int, str | None]:
        """Takes the live versions from `before` on out of the text: what they absorbed is pending again (rule 5).

        The text that `before` was written on top of becomes the head under a new version; says that version and text.
        What these versions superseded is active again, and has the evidence that it lent back. Of an undo the scope isn't
        due before it gains an observation; what another `reason` leaves is due as ever. The caller has locked the scope.
        """
        undone = (
            update(ConsolidationRow)
            .where(in_scope(ConsolidationRow, state), ConsolidationRow.live, ConsolidationRow.version >= before)
            .values(live=False, live_until=now)
            .returning(
                ConsolidationRow.version,
                ConsolidationRow.base,
                ConsolidationRow.from_seq,
                ConsolidationRow.extra_seqs,
                ConsolidationRow.contradictions,
                ConsolidationRow.repetitions,
                ConsolidationRow.created_at,
            )
        )
        rows = sorted((await self._session.execute(undone)).all(), key=lambda row: row.version)
        done_seq, base = rows[0].from_seq, rows[0].base
        version = state.version + 1
        await self._pend_again(state, done_seq, [seq for row in rows for seq in row.extra_seqs])
        text: str | None = await self._session.scalar(
            update(ScopeRow)
            .where(in_scope(ScopeRow, state))
            .values(
                consolidation=select(_c.content).where(in_scope(_c, state), _c.version == base).scalar_subquery(),
                version=version,
                done_seq=done_seq,
                consolidated_at=now,
                held_seq=ScopeRow.last_seq if reason == "undo" else ScopeRow.held_seq,
                suspects=0,
            )
            .returning(ScopeRow.consolidation)
        )
        if text is not None:
            place = {"version": version, "base": base, "from_seq": done_seq, "to_seq": done_seq}
            await self._add_version(
                state, **place, content=text, words=count_words(text), reason=reason, created_at=now
            )
        gave_way = [
            (item["older"], item["newer"], row.created_at)
            for row in rows
            for item in row.contradictions
            if item["older"]
        ]
        held = [(item["older"], item["newer"]) for row in rows for item in row.contradictions if item.get("held")]
        repeated = [(item["newer"], item["older"], row.created_at) for row in rows for item in row.repetitions]
        await StateRepository(self._session).reinstate(state, [*gave_way, *repeated], held, now, version=version)
        if repeated:
            seqs = cast([newer for newer, _, _ in repeated], ARRAY(Integer))
            await self._session.execute(select(func.memory.take_back_evidence(state.agent_key, state.scope_id, seqs)))
        return version, text

    async def _pend_again(self, state: ScopeState, done_seq: int, extras: Sequence[int]) -> None:
        """What lies behind the new end waits by that; of what lies before it the extras, by their state."""
        t = ObservationStateRow
        await self._session.execute(
            update(t)
            .where(in_scope(t, state), or_(t.seq > done_seq, among(t.seq, extras)))
            .values(repend=t.seq <= done_seq)
        )

    async def _add_version(self, state: ScopeState, **columns: Any) -> None:
        await self._session.execute(
            insert(ConsolidationRow).values(agent_key=state.agent_key, scope_id=state.scope_id, **columns)
        )

    async def spans(self, principal: Mapping[str, Any], scope_id: int) -> History | None:
        """How the scope's text came to be; None for a scope that isn't visible or has no text yet."""
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
        """What these versions absorbed themselves, in the order of the numbers.

        What a range passed over isn't there: it still waits, or a version that stands, or one of these, lists it among
        its extras.
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
        """The version that was the scope's text at that moment; 0: it had none."""
        newest = await self._session.scalar(
            select(func.max(_c.version)).where(history.is_of(_c), _c.created_at <= moment, was_live(moment))
        )
        return newest or 0

    async def versions(
        self, principal: Mapping[str, Any], scope_id: int | None, limit: int, as_of: datetime | None = None
    ) -> list[Consolidation]:
        """Versions of the visible scopes' texts, newest first; as they were at a past moment, if one is given."""
        statement = _VERSIONS if as_of is None else _VERSIONS.where(_c.created_at <= as_of)
        found = await self._session.execute(statement, {**principal, "scope_id": scope_id, "limit": limit})
        return [
            Consolidation(
                scope=scope_ref(row.scope_id, row.kind, row.owner, row.name),
                **{column.key: row[column.key] for column in _VERSION_COLUMNS}
                | ({} if as_of is None else {"live": row["live_until"] is None or row["live_until"] > as_of}),
            )
            for row in found.mappings()
        ]


def _due_to_be_propagated(now: datetime, interval: timedelta) -> Any:
    """In the upward line alone: individual, group. What is due already keeps its time."""
    soonest = func.greatest(now, ScopeRow.propagated_at + interval)  # greatest() passes over null
    return case((ScopeRow.kind.in_(("individual", "group")), func.coalesce(ScopeRow.propagate_at, soonest)))


def was_live(moment: datetime) -> Any:
    return or_(_c.live_until.is_(None), _c.live_until > moment)


_c, _o, _t = ConsolidationRow, ObservationRow, ObservationStateRow
_visible = visible_scopes()
_VERSION_COLUMNS = columns_of(ConsolidationRow, Consolidation.model_fields)
_VERSIONS = (
    select(
        ScopeRow.scope_id,
        ScopeRow.kind,
        ScopeRow.owner,
        ScopeRow.name,
        *_VERSION_COLUMNS,
        ConsolidationRow.live_until,
    )
    .join_from(_visible, ScopeRow, is_visible(ScopeRow, _visible))
    .join(ConsolidationRow, is_visible(ConsolidationRow, ScopeRow.__table__))
    .where(
        or_(
            bindparam("scope_id", type_=BigInteger).is_(None),
            ScopeRow.scope_id == bindparam("scope_id", type_=BigInteger),
        )
    )
    .order_by(ConsolidationRow.created_at.desc(), ConsolidationRow.version.desc())
    .limit(bindparam("limit", type_=BigInteger))
)

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
