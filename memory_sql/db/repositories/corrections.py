"""What may change about an observation: its status, who confirms it, how private it is. Every change is an event."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import (
    ARRAY,
    BigInteger,
    DateTime,
    Integer,
    Select,
    Text,
    and_,
    bindparam,
    case,
    cast,
    column,
    exists,
    false,
    func,
    insert,
    literal,
    literal_column,
    null,
    or_,
    select,
    true,
    tuple_,
    union_all,
    update,
)
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.dialects.postgresql import insert as upsert
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import aliased

from memory_sql.db.arrays import among, are_among, unnested
from memory_sql.db.closures import tainted_by
from memory_sql.db.direct import ask
from memory_sql.db.models import EventRow, EvidenceRow, LineageRow, ObservationRow, ObservationStateRow, ScopeRow
from memory_sql.db.observation_rows import select_read, to_observation
from memory_sql.db.repositories.events import record_all
from memory_sql.db.repositories.observations import ObservationKey
from memory_sql.domain.ids import observation_id
from memory_sql.domain.observations import Observation, Policy

_KEY = ("agent_key", "scope_id", "seq")


@dataclass(frozen=True, slots=True)
class Cause:
    """Who made a change and why, as recorded in the events; no actor: a rule of the library."""

    actor: str | None
    reason: str | None
    at: datetime


@dataclass(frozen=True, slots=True)
class Standing:
    """The status of an observation, and whether it only follows its sources.

    What superseded it is known also while that, or the observation itself, is set aside.
    """

    key: ObservationKey
    status: str
    superseded_by: int | None = None
    follows: bool = False
    is_resolved: bool = False


@dataclass(frozen=True, slots=True)
class Change:
    """Of one observation's status. `why` is the operation; `more` are ids that its event keeps."""

    before: Standing
    status: str
    why: str
    superseded_by: int | None = None
    more: dict[str, Any] = field(default_factory=dict)

    @property
    def detail(self) -> dict[str, Any]:
        scope_id, _ = self.before.key
        by = {}
        if self.superseded_by is not None and self.status == "superseded":
            by["by"] = observation_id(scope_id, self.superseded_by)
        return {"from": self.before.status, "to": self.status, "why": self.why, **by, **self.more}


async def correct_one(
    session: AsyncSession,
    principal: Mapping[str, Any],
    key: ObservationKey,
    if_version: int | None,
    draft: Mapping[str, Any],
    threshold: int,
    entry: Cause,
) -> Observation | None:
    """The new one in its place, stored by one statement that takes the lock itself (`memory.correct_one`).

    None: there is more to do or to say, and nothing is changed. `draft` without what is the old one's.
    """
    given = {**dict(zip(("scope_id", "seq"), key, strict=True)), "version": if_version, "draft": draft}
    cause = {"threshold": threshold, "actor": entry.actor, "reason": entry.reason, "now": entry.at}
    found = await ask(session, _CORRECT_ONE, {**principal, **given, **cause})
    return next(map(to_observation, found), None)


@dataclass(frozen=True, slots=True)
class CorrectionRepository:
    """The caller has locked the scopes of what it changes."""

    _session: AsyncSession
    _agent_key: int

    async def record(self, kind: str, key: ObservationKey, detail: dict[str, Any], entry: Cause) -> None:
        await self._record([(kind, key, detail)], entry)

    async def _record(self, events: Iterable[tuple[str, ObservationKey, dict[str, Any]]], entry: Cause) -> None:
        rows = [
            {
                "agent_key": self._agent_key,
                "kind": kind,
                "scope_id": scope_id,
                "seq": seq,
                "detail": detail,
                "actor": entry.actor,
                "reason": entry.reason,
                "created_at": entry.at,
            }
            for kind, (scope_id, seq), detail in events
        ]
        await record_all(self._session, rows)

    async def change(self, changes: Sequence[Change], entry: Cause) -> None:
        """Sets the statuses and writes them down; `repend` is the apply's alone (rule 3)."""
        if not changes:
            return
        rows = [
            {
                **self._key_columns(change.before.key),
                "status": change.status,
                "status_at": entry.at,
                "superseded_by": change.superseded_by,
                "follows": False,
            }
            for change in changes
        ]
        if any(change.why == "leave" for change in changes):  # what is left behind can't be taken back
            rows = [{**row, "resolved": None} for row in rows]
        await self._set(rows, *(name for name in rows[0] if name not in _KEY))
        await self.note(changes, entry)

    async def note(self, changes: Sequence[Change], entry: Cause) -> None:
        """Only writes them down."""
        await self._record((("status", change.before.key, change.detail) for change in changes), entry)

    async def replace(self, old: ObservationKey, new: int, threshold: int, entry: Cause) -> tuple[bool, bool, bool]:
        """`new` supersedes `old`, which is active in the same scope, and gets its sources.

        What must change with that is changed here as well, then `refresh_due` of the scope. A consolidation in progress
        loses its lease. Returns whether the scope's text holds `old`, whether `old` has sources or derived observations, and
        whether it is in a line already, at whose end the new one belongs (`LineRepository.append`).
        """
        scope_id, seq = old
        by = observation_id(scope_id, new)
        given = {"correction": {"by": by}, "status": {"from": "active", "to": "superseded", "by": new}}
        given |= {"actor": entry.actor, "reason": entry.reason, "now": entry.at, "new": new, "threshold": threshold}
        keys = {"agent": self._agent_key, "scope": scope_id, "old": seq}
        set_aside, replace = _REPLACE
        by = await self._session.scalar(set_aside, {"now": entry.at, "new": new, **keys})
        row = (await self._session.execute(replace, {**given, **keys})).one()
        return row.holds, row.is_linked, by != new

    async def verify(self, key: ObservationKey, before: str, verification: str, entry: Cause) -> None:
        """What is confirmed expires no more, and has no longer the stage that rules gave it, if that is archived."""
        t, statement = ObservationStateRow, upsert(ObservationStateRow)
        confirmed = {"expires_at": null(), "stage": case((t.stage == "archived", "candidate"), else_=t.stage)}
        await self._session.execute(
            statement.values(**self._key_columns(key), verification=verification).on_conflict_do_update(
                index_elements=["agent_key", "scope_id", "seq"],
                set_={"verification": statement.excluded.verification}
                | (confirmed if verification == "confirmed" else {}),
            )
        )
        await self.record("verification", key, {"from": before, "to": verification}, entry)

    async def set_policy(self, key: ObservationKey, policy: Policy, entry: Cause) -> None:
        """What is protected from now on has no longer the stage that rules gave it, if that is archived."""
        t, its = ObservationStateRow, self._key_columns(key)
        before = await self._session.scalar(select(t.policy).filter_by(**its))
        statement = upsert(t).values(**its, policy=policy)
        lifted = and_(literal(policy) == "protected", t.stage == "archived")
        await self._session.execute(
            statement.on_conflict_do_update(
                index_elements=["agent_key", "scope_id", "seq"],
                set_={"policy": statement.excluded.policy, "stage": case((lifted, "candidate"), else_=t.stage)},
            )
        )
        await self.record("policy", key, {"from": before or "durable", "to": policy}, entry)

    def _key_columns(self, key: ObservationKey) -> dict[str, int]:
        return {"agent_key": self._agent_key, "scope_id": key[0], "seq": key[1]}

    async def _set(self, rows: Sequence[dict[str, Any]], *columns: str) -> None:
        statement = upsert(ObservationStateRow)
        await self._session.execute(
            statement.on_conflict_do_update(
                index_elements=["agent_key", "scope_id", "seq"],
                set_={name: statement.excluded[name] for name in columns},
            ),
            rows,
            execution_options={"render_nulls": True},
        )

    async def resolve(self, one: Observation, key: ObservationKey, resolved: str, entry: Cause) -> None:
        """An active observation is archived as resolved; one that is resolved already gets this end."""
        values = {"status": "archived", "status_at": entry.at, "resolved": resolved, "resolved_at": entry.at}
        changes = values if one.status == "active" else ("resolved",)
        await self._set([{**self._key_columns(key), **values}], *changes)
        detail = {"from": one.status, "to": "archived", "why": "resolve", "resolved": resolved}
        await self.record("status", key, detail, entry)

    async def take_back(self, key: ObservationKey, now: datetime) -> None:
        """What it planned isn't over, whatever its day; its status is set by `StateRepository.reopen`."""
        values = {"resolved": None, "resolved_at": now}
        await self._set([{**self._key_columns(key), **values}], *values)

    async def add_word(self, key: ObservationKey, user_id: str, now: datetime) -> None:
        """Adds a person's word as evidence."""
        await self._session.execute(
            insert(EvidenceRow).values(**self._key_columns(key), user_id=user_id, created_at=now)
        )

    async def standings(self, keys: Collection[ObservationKey]) -> list[Standing]:
        """Of those that there are, in the order of their keys."""
        return await self._standings(are_among((ObservationRow.scope_id, ObservationRow.seq), keys))

    async def in_use(self, keys: Collection[ObservationKey]) -> list[ObservationKey]:
        """Those that are active, in the order of their keys."""
        if not keys:
            return []
        o = ObservationRow
        found = await self._session.execute(
            select(o.scope_id, o.seq)
            .where(o.agent_key == self._agent_key, are_among((o.scope_id, o.seq), keys), o.standing == "active")
            .order_by(o.scope_id, o.seq)
        )
        return [(row.scope_id, row.seq) for row in found]

    async def twins(self, keys: Collection[ObservationKey], status: str) -> list[Standing]:
        """What says the same in the same scope and has this status, the observations themselves left out (rule 9)."""
        o, given = ObservationRow, ObservationRow.__table__.alias("given")
        key = unnested((o.scope_id, o.seq), keys)
        its = select(given.c.content_hash).where(
            given.c.agent_key == self._agent_key, given.c.scope_id == key.c.scope_id, given.c.seq == key.c.seq
        )
        text = its.correlate(key).offset(0).lateral()  # each by its key
        texts = select(key.c.scope_id, text.c.content_hash).select_from(key.join(text, true()))
        return await self._standings(
            among(o.scope_id, {scope_id for scope_id, _ in keys}),
            o.lane == "absorb",
            o.standing == status,
            ~are_among((o.scope_id, o.seq), keys),
            tuple_(o.scope_id, o.content_hash).in_(texts).is_(true()),  # looked up in a table of hashes
        )

    async def texts(self, keys: Collection[ObservationKey]) -> dict[ObservationKey, bytes | None]:
        """The hashes of their texts."""
        o = ObservationRow
        asked = select(o.scope_id, o.seq, o.content_hash).where(
            o.agent_key == self._agent_key, are_among((o.scope_id, o.seq), keys)
        )
        return {(row.scope_id, row.seq): row.content_hash for row in await self._session.execute(asked)}

    async def ahead(self, keys: Collection[ObservationKey]) -> dict[ObservationKey, Standing]:
        """These, what superseded them, what superseded that, and so on."""
        t = ObservationStateRow
        line = select(t.scope_id, t.superseded_by.label("seq")).where(
            t.agent_key == self._agent_key, t.superseded_by.is_not(None), are_among((t.scope_id, t.seq), keys)
        )
        ahead = line.cte("ahead", recursive=True)
        after = select(t.scope_id, t.superseded_by).where(
            t.agent_key == self._agent_key,
            t.superseded_by.is_not(None),
            t.scope_id == ahead.c.scope_id,
            t.seq == ahead.c.seq,
        )
        found = await self._session.execute(select(ahead.union(after)))
        return {one.key: one for one in await self.standings({*keys, *((row.scope_id, row.seq) for row in found)})}

    async def with_lines(self, scope_ids: Collection[int]) -> list[int]:
        """Those of these scopes in which anything has superseded anything."""
        t = ObservationStateRow
        found = await self._session.scalars(
            select(t.scope_id)
            .distinct()
            .where(t.agent_key == self._agent_key, among(t.scope_id, scope_ids), t.superseded_by.is_not(None))
            .order_by(t.scope_id)
        )
        return list(found)

    async def of_fact(self, scope_id: int, fact_key: str) -> list[Standing]:
        """The active observations of this fact, oldest first."""
        o = ObservationRow
        return await self._standings(
            o.scope_id == scope_id,
            o.fact_key == fact_key,
            o.standing == "active",
            order=(o.said_at, o.seq),
        )

    async def _standings(self, *conditions: Any, order: tuple[Any, ...] = ()) -> list[Standing]:
        o, t = ObservationRow, ObservationStateRow
        its = select(t.superseded_by, t.follows, t.resolved.is_not(None).label("is_resolved")).where(
            t.agent_key == o.agent_key, t.scope_id == o.scope_id, t.seq == o.seq
        )
        state = its.correlate(o).offset(0).lateral()  # each by its key
        found = await self._session.execute(
            select(
                o.scope_id,
                o.seq,
                o.standing.label("status"),
                state.c.superseded_by,
                func.coalesce(state.c.follows, false()).label("follows"),
                func.coalesce(state.c.is_resolved, false()).label("is_resolved"),
            )
            .outerjoin(state, true())
            .where(o.agent_key == self._agent_key, *conditions)
            .order_by(*(order or (o.scope_id, o.seq)))
        )
        return [
            Standing((row.scope_id, row.seq), row.status, row.superseded_by, row.follows, row.is_resolved)
            for row in found
        ]

    async def with_predecessors(self, key: ObservationKey) -> tuple[ObservationKey, ...]:
        """The observation and, transitively, those that it superseded."""
        t = ObservationStateRow
        scope_id, seq = key
        line = select(literal(seq, ObservationRow.seq.type).label("seq")).cte("line", recursive=True)
        before = select(t.seq).where(
            t.agent_key == self._agent_key, t.scope_id == scope_id, t.superseded_by == line.c.seq
        )
        line = line.union(before)
        return tuple((scope_id, n) for n in await self._session.scalars(select(line.c.seq).order_by(line.c.seq)))

    async def with_parts(self, keys: Collection[ObservationKey]) -> tuple[ObservationKey, ...]:
        """These, what they are parts of, and their parts, and so on."""
        if not keys:
            return ()
        given = unnested((ObservationRow.scope_id, ObservationRow.seq), sorted(keys))
        found = select(given.c.scope_id, given.c.seq).cte("found", recursive=True)
        parts = func.memory.parts(self._agent_key, found.c.scope_id, found.c.seq)
        part = parts.table_valued(column("seq", Integer), name="part").render_derived()
        found = found.union(select(found.c.scope_id, part.c.seq).select_from(found.join(part, true())))
        return tuple((row.scope_id, row.seq) for row in await self._session.execute(select(found)))

    async def with_twins(self, keys: Collection[ObservationKey]) -> tuple[ObservationKey, ...]:
        """These, and others that say the same from the same message in another scope of the same owner, as duplicates."""
        o, e, s = aliased(ObservationRow), aliased(EvidenceRow), aliased(ScopeRow)
        twin, heard, beside = aliased(ObservationRow), aliased(EvidenceRow), aliased(ScopeRow)
        found = await self._session.execute(
            select(twin.scope_id, twin.seq)
            .select_from(o)
            .join(s, and_(s.agent_key == o.agent_key, s.scope_id == o.scope_id))
            .join(e, and_(e.agent_key == o.agent_key, e.scope_id == o.scope_id, e.seq == o.seq))
            .join(
                heard,
                and_(
                    heard.agent_key == e.agent_key,
                    heard.conversation_id == e.conversation_id,
                    heard.number == e.number,
                ),
            )
            .join(
                twin,
                and_(
                    twin.agent_key == heard.agent_key,
                    twin.scope_id == heard.scope_id,
                    twin.seq == heard.seq,
                    twin.content == o.content,
                ),
            )
            .join(
                beside,
                and_(beside.agent_key == twin.agent_key, beside.scope_id == twin.scope_id, beside.owner == s.owner),
            )
            .where(o.agent_key == self._agent_key, are_among((o.scope_id, o.seq), keys))
        )
        return tuple(sorted({*keys, *((row.scope_id, row.seq) for row in found)}))

    async def successors(self, standing: Standing) -> tuple[ObservationKey, ...]:
        """What superseded it, and what superseded that, and so on; empty if nothing did."""
        t = ObservationStateRow
        scope_id, _ = standing.key
        line = select(literal(standing.superseded_by, ObservationRow.seq.type).label("seq")).cte("line", recursive=True)
        after = select(t.superseded_by).where(
            t.agent_key == self._agent_key, t.scope_id == scope_id, t.seq == line.c.seq, t.superseded_by.is_not(None)
        )
        line = line.union(after)
        found = await self._session.scalars(select(line.c.seq).where(line.c.seq.is_not(None)).order_by(line.c.seq))
        return tuple((scope_id, n) for n in found)

    async def privacy(self, keys: Collection[ObservationKey]) -> list[tuple[bool, bool, str]]:
        """`(no_propagate, confidential, sensitivity)` of each."""
        o = ObservationRow
        found = await self._session.execute(
            select(o.no_propagate, o.confidential, o.sensitivity)
            .where(o.agent_key == self._agent_key, are_among((o.scope_id, o.seq), keys))
            .order_by(o.scope_id, o.seq)
        )
        return [(row.no_propagate, row.confidential, row.sensitivity) for row in found]

    async def set_privacy(self, keys: Collection[ObservationKey], values: dict[str, Any]) -> None:
        o = ObservationRow
        await self._session.execute(
            update(o).where(o.agent_key == self._agent_key, are_among((o.scope_id, o.seq), keys)).values(values)
        )


def _replace() -> tuple[Any, Select[Any]]:
    """What sets the old one aside, and what follows: by itself, since a trigger says at its end that it is in use no more.

    The parameters aren't called as the columns are: SQLAlchemy would take them for values.
    """
    link, t, s = LineageRow, ObservationStateRow, ScopeRow
    old, new = bindparam("old", type_=Integer), bindparam("new", type_=Integer)
    agent, scope = bindparam("agent", type_=BigInteger), bindparam("scope", type_=BigInteger)
    now = bindparam("now", type_=DateTime(timezone=True))
    line = (link.source_scope_id, link.source_seq, link.run_id, link.whole)
    made_of = select(agent, scope, new, now, *line).where(
        link.agent_key == agent, link.scope_id == scope, link.seq == old
    )
    names = ["agent_key", "scope_id", "seq", "created_at", *(item.key for item in line)]
    inherited = upsert(link).from_select(names, made_of).on_conflict_do_nothing()
    state = {"status": "superseded", "status_at": now, "superseded_by": new}
    set_aside = (
        upsert(t)
        .values(agent_key=agent, scope_id=scope, seq=old, **state)
        .on_conflict_do_update(
            index_elements=["agent_key", "scope_id", "seq"],
            set_={**state, "superseded_by": func.coalesce(t.superseded_by, new)},  # what had, if it is set aside
        )
        .returning(t.superseded_by)
    )
    cause = (bindparam("actor", type_=Text), bindparam("reason", type_=Text), now)
    details = [
        select(agent, literal_column(f"'{kind}'"), scope, old, bindparam(kind, type_=JSONB), *cause)
        for kind in ("correction", "status")
    ]
    columns = ["agent_key", "kind", "scope_id", "seq", "detail", "actor", "reason", "created_at"]
    told = insert(EventRow).from_select(
        columns, union_all(*details)
    )  # several rows of values would be compiled each time
    released = (
        update(s)
        .where(s.agent_key == agent, s.scope_id == scope, s.lease_until.is_not(None))
        .values(fence=s.fence + 1, lease_until=None)
    )
    first = select(func.count()).select_from(released.returning(s.scope_id).cte("released")).subquery()
    threshold = bindparam("threshold", type_=Integer)
    none, place = cast([], ARRAY(BigInteger)), func.array_append(cast([], ARRAY(BigInteger)), scope)
    due = func.memory.refresh_due(agent, place, threshold, now)
    seqs = func.array_append(cast([], ARRAY(Integer)), old).label("seqs")
    tainted = tainted_by(select(place.label("scope_ids"), seqs).cte("going"), none, agent).subquery()
    links = [
        exists(select(link.seq).where(link.agent_key == agent, scope_id == scope, seq == old))
        for scope_id, seq in ((link.scope_id, link.seq), (link.source_scope_id, link.source_seq))
    ]
    return set_aside, (
        select(due, exists(select(tainted.c.scope_id)).label("holds"), or_(*links).label("is_linked"))
        .select_from(first)  # what is due is asked after it
        .add_cte(inherited.cte("inherited"), told.cte("told"))
    )


_REPLACE = _replace()
_CORRECT_ONE = select_read(
    func.memory.correct_one(
        *(bindparam(name, type_=Text) for name in ("agent_id", "user_id", "conversation_id")),
        *(bindparam(name, type_=BigInteger) for name in ("scope_id", "seq")),
        bindparam("version", type_=Integer),
        bindparam("draft", type_=JSONB),
        bindparam("threshold", type_=Integer),
        *(bindparam(name, type_=Text) for name in ("actor", "reason")),
        bindparam("now", type_=DateTime(timezone=True)),
    )
)
