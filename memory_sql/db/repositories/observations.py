"""Observations, with the evidence and the state that belong to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import datetime, timedelta
from operator import attrgetter
from typing import Any

from sqlalchemy import (
    ARRAY,
    BigInteger,
    DateTime,
    Integer,
    LargeBinary,
    Text,
    and_,
    any_,
    bindparam,
    cast,
    column,
    func,
    insert,
    or_,
    select,
    tuple_,
    update,
)
from sqlalchemy.dialects.postgresql import Range
from sqlalchemy.ext.asyncio import AsyncSession

from memory_sql.config.kinds import Lane
from memory_sql.db.models import EvidenceRow, ObservationRow, ObservationStateRow, ScopeRow
from memory_sql.db.repositories.scopes import NewScope, ScopeState, is_visible, visible_scopes
from memory_sql.db.scope_rows import scope_ref
from memory_sql.domain.ids import observation_id
from memory_sql.domain.observations import Observation, Source
from memory_sql.languages.dates import Days
from memory_sql.languages.text import HASH_VERSION, content_digest
from memory_sql.languages.words import search_extra
from memory_sql.privacy import SENSITIVITIES
from memory_sql.privacy.classify import classify

ObservationKey = tuple[int, int]
"""`(scope_id, seq)`."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """One thing that supports an observation: a message, a user or the host."""

    conversation_id: str | None = None
    number: int | None = None
    user_id: str | None = None


@dataclass(frozen=True, slots=True)
class Draft:
    """An observation that hasn't been stored. `categories` None: it is classified when it is saved.

    `subjects` are the users whom it speaks of, `terms` words that it may be searched by.
    """

    scope: NewScope
    content: str
    observed_at: datetime
    source_kind: str
    evidence: tuple[Evidence, ...]
    conversation_id: str | None = None
    speaker: str | None = None
    message_ids: tuple[str, ...] = ()
    confidence: float | None = None
    sensitivity: str = "private"
    no_propagate: bool = False
    confidential: bool = False
    proposed: str | None = None
    tags: tuple[str, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)
    dates: tuple[Days, ...] = ()
    fact_key: str | None = None
    given_at: datetime | None = None
    categories: tuple[str, ...] | None = None
    subjects: tuple[str, ...] = ()
    terms: tuple[str, ...] = ()
    lane: Lane = "absorb"

    @property
    def related_users(self) -> list[str]:
        return list(dict.fromkeys(e.user_id for e in self.evidence if e.user_id))


@dataclass(frozen=True, slots=True)
class Saved:
    """`stored` in the order of the drafts; `known` drafts were there already, or twice in the batch, or set aside."""

    stored: tuple[tuple[int, int], ...]
    known: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class ObservationRepository:
    _session: AsyncSession

    async def save(
        self,
        agent_key: int,
        drafts: Sequence[Draft],
        scopes: Sequence[ScopeState],
        *,
        run_id: int | None,
        now: datetime,
        replaced: tuple[int, int] | None = None,
    ) -> Saved:
        """Numbers and stores what is new, adds evidence to what isn't. The caller has locked the scopes.

        Known is what the scope learnt last, if it is still active, undisputed, not about to be `replaced`, of the same fact
        key, lane and days, and what stands in the batch already. Anything older is stored again: between "tea" and "tea"
        somebody may have said "coffee", and the last word counts. To compare with all that is active would lose it until a
        consolidation has superseded the first "tea", and it may never. Known is also whatever is set aside (rule 8): it
        doesn't come back. Nothing is stored that nobody has classified.
        """
        drafts = [classified(draft) for draft in drafts]
        by_owner = {(scope.owner, scope.name): scope for scope in scopes}
        placed = [(by_owner[draft.scope.owner, draft.scope.name], draft) for draft in drafts]
        next_seq = {scope.scope_id: scope.last_seq for scope in scopes}
        rows, stored, known = [], [], []
        new = dict[tuple[int, Lane, bytes, tuple[Days, ...]], int]()
        evidence = dict[tuple[int, int, Evidence], dict[str, Any]]()  # what an answer names twice supports it once
        for scope, draft, digest, twin in await self._known(agent_key, placed, replaced):
            seq = twin if twin or digest is None else new.get((scope.scope_id, draft.lane, digest, draft.dates))
            if seq is None:
                seq = next_seq[scope.scope_id] = next_seq[scope.scope_id] + 1
                rows.append(_row(scope, seq, draft, digest, run_id, now))
                stored.append((scope.scope_id, seq))
                if digest is not None:
                    new[scope.scope_id, draft.lane, digest, draft.dates] = seq
            else:
                known.append((scope.scope_id, seq))
            for item in draft.evidence:
                evidence[scope.scope_id, seq, item] = _evidence_row(scope, seq, item, run_id, now)
        if rows:
            await self._session.execute(insert(ObservationRow), rows)
            await self._count(agent_key, scopes, next_seq, _speakers(rows), now)
        if evidence:
            await self._session.execute(insert(EvidenceRow), list(evidence.values()))
        return Saved(tuple(stored), tuple(known))

    async def _known(
        self, agent_key: int, placed: Sequence[tuple[ScopeState, Draft]], replaced: ObservationKey | None
    ) -> list[tuple[ScopeState, Draft, bytes | None, int | None]]:
        """Each draft with the hash of its text, and the number by which its scope knows it already; one statement."""
        found = await self._session.execute(
            _KNOWN,
            {
                "agent_key": agent_key,
                "scope_ids": [scope.scope_id for scope, _ in placed],
                "last_seqs": [scope.last_seq for scope, _ in placed],
                "digests": [content_digest(draft.content) for _, draft in placed],
            },
        )
        return [
            (scope, draft, row.content_hash, row.set_aside or _twin(row, scope, draft, replaced))
            for (scope, draft), row in zip(placed, found, strict=True)
        ]

    async def _count(
        self,
        agent_key: int,
        scopes: Sequence[ScopeState],
        last_seq: Mapping[int, int],
        speakers: Mapping[int, Sequence[str]],
        now: datetime,
    ) -> None:
        for scope in scopes:
            if last_seq[scope.scope_id] > scope.last_seq:
                changed: dict[str, Any] = {"last_seq": last_seq[scope.scope_id], "last_activity_at": now}
                if scope.scope_id in speakers:
                    heard = cast(list(speakers[scope.scope_id]), ARRAY(Text))
                    changed["speakers"] = func.memory.newest_speakers(heard.op("||")(ScopeRow.speakers))
                await self._session.execute(
                    update(ScopeRow)
                    .where(ScopeRow.agent_key == agent_key, ScopeRow.scope_id == scope.scope_id)
                    .values(changed)
                )

    async def by_keys(self, agent_key: int, keys: Sequence[tuple[int, int]]) -> tuple[Observation, ...]:
        """In the order of the keys `(scope_id, seq)`."""
        statement = OBSERVATION.where(
            ObservationRow.agent_key == agent_key, tuple_(ObservationRow.scope_id, ObservationRow.seq).in_(list(keys))
        )
        found = {(row.scope_id, row.seq): to_observation(row) for row in await self._session.execute(statement)}
        return tuple(found[key] for key in keys)

    async def subjects_of(self, agent_key: int, key: ObservationKey) -> tuple[str, ...]:
        """The users whom it speaks of."""
        o = ObservationRow
        found = await self._session.scalar(
            select(o.subjects).where(o.agent_key == agent_key, o.scope_id == key[0], o.seq == key[1])
        )
        return tuple(found or ())

    async def get(self, principal: Mapping[str, Any], scope_id: int, seq: int) -> Observation | None:
        found = await self._session.execute(_GET, {**principal, "scope_id": scope_id, "seq": seq})
        row = found.one_or_none()
        return None if row is None else to_observation(row)

    async def find(self, principal: Mapping[str, Any], scope_id: int, seq: int) -> Observation | None:
        """As `get`, whatever its status."""
        found = await self._session.execute(_FIND, {**principal, "scope_id": scope_id, "seq": seq})
        row = found.one_or_none()
        return None if row is None else to_observation(row)

    async def list(
        self,
        principal: Mapping[str, Any],
        scope_id: int | None,
        limit: int,
        before: tuple[datetime, int, int] | None,
        as_of: datetime | None = None,
    ) -> list[Observation]:
        """The active observations that the principal may see, newest known first; `before` continues a listing."""
        statement = _LIST if as_of is None else _LIST_AT
        statement = statement if before is None else statement.where(before > _RECENCY)
        moment = {} if as_of is None else {"as_of": as_of}
        found = await self._session.execute(statement, {**principal, "scope_id": scope_id, "limit": limit, **moment})
        return [to_observation(row) for row in found]


def classified(draft: Draft) -> Draft:
    """With what its text tells, and as private as that or as it was said to be, whichever is more."""
    if draft.categories is not None:
        return draft
    found = classify(draft.content)
    sensitivity = max(draft.sensitivity, found.sensitivity, key=SENSITIVITIES.index)
    return replace(draft, categories=found.categories, sensitivity=sensitivity)


def _twin(row: Any, scope: ScopeState, draft: Draft, replaced: ObservationKey | None) -> int | None:
    """The last of the scope, if it says the same: in the same words, and "yesterday" of the same day."""
    is_same = row.is_twin and row.lane == draft.lane and draft.fact_key in (None, row.fact_key)
    if not is_same or (scope.scope_id, scope.last_seq) == replaced:
        return None
    days = tuple(Days(item.lower, item.upper - timedelta(days=1)) for item in row.dates or ())
    return scope.last_seq if days == draft.dates else None


def _speakers(rows: Sequence[Mapping[str, Any]]) -> dict[int, list[str]]:
    """By scope, whoever spoke last first."""
    speakers: dict[int, list[str]] = {}
    for row in reversed(rows):
        if row["speaker"] is not None:
            speakers.setdefault(row["scope_id"], []).append(row["speaker"])
    return speakers


def _same_observation(left: Any, right: Any) -> Any:
    return and_(left.agent_key == right.agent_key, left.scope_id == right.scope_id, left.seq == right.seq)


def _row(
    scope: ScopeState, seq: int, draft: Draft, digest: bytes | None, run_id: int | None, now: datetime
) -> dict[str, Any]:
    return {
        **{name: _storable(getattr(draft, name)) for name in _DRAFTED},
        "agent_key": scope.agent_key,
        "scope_id": scope.scope_id,
        "seq": seq,
        "created_at": now,
        "related_users": draft.related_users,
        "run_id": run_id,
        "metadata_": dict(draft.metadata),
        "terms": "\n".join(draft.terms),
        "content_hash": digest,
        "hash_version": HASH_VERSION,
        "search_extra": _searched_beside(draft),
        "language": scope.language,
        "dates": [Range(days.first, days.last, bounds="[]") for days in draft.dates] or None,
    }


def _searched_beside(draft: Draft) -> str:
    """What the parser would miss, and the days that the text speaks of: "last week" is found by its year as well."""
    days = dict.fromkeys(f"{day}" for span in draft.dates for day in span)
    return " ".join(filter(None, (search_extra(draft.content), *days)))


def _storable(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _evidence_row(scope: ScopeState, seq: int, item: Evidence, run_id: int | None, now: datetime) -> dict[str, Any]:
    return {
        "agent_key": scope.agent_key,
        "scope_id": scope.scope_id,
        "seq": seq,
        "conversation_id": item.conversation_id,
        "number": item.number,
        "user_id": item.user_id,
        "run_id": run_id,
        "created_at": now,
    }


_o, _t, _s = ObservationRow, ObservationStateRow, ScopeRow
STATUS = func.coalesce(_t.status, "active")
IN_USE = func.memory.in_use(_t.status)
IS_ASIDE = func.memory.is_aside(_t.status)
VERIFICATION = func.coalesce(_t.verification, "unverified")
_STORED = {*ObservationRow.__table__.c.keys()} - {"metadata"}  # which the mapped class has to call otherwise
# What is called the same in a table and in a value passes by its name: it is written down once in each.
_DRAFTED = tuple(item.name for item in fields(Draft) if item.name in _STORED - {"dates", "terms"})
_PLAIN = tuple(name for name in Observation.model_fields if name in _STORED)
_OF_SOURCE = tuple(name for name in Source.model_fields if name in _STORED - {"kind"})
# What is read of an observation: of its own row, and of others. Functions that return observations return the whole row.
OWN = (
    _o.scope_id,
    _o.seq,
    *(getattr(_o, name) for name in _PLAIN),
    _o.source_kind,
    *(getattr(_o, name) for name in _OF_SOURCE),
    _o.metadata_.label("own_metadata"),
)
ELSEWHERE = (
    _s.kind.label("scope_kind"),
    _s.owner,
    _s.name,
    VERIFICATION.label("verification"),
    _t.superseded_by,
    func.memory.observation_version(_o.agent_key, _o.scope_id, _o.seq, type_=Integer).label("version"),
)
_pending = and_(_o.lane == "absorb", IN_USE, or_(_o.seq > _s.done_seq, func.coalesce(_t.repend, False)))
OBSERVATION = (
    select(*OWN, *ELSEWHERE, STATUS.label("status"), _pending.label("pending"))
    .join_from(_o, _s, is_visible(_o, _s.__table__))
    .outerjoin(_t, _same_observation(_t, _o))
)
"""Rows for `to_observation`."""


def to_observation(row: Any) -> Observation:
    return Observation(
        **dict(zip(_PLAIN, _plain(row), strict=True)),
        id=observation_id(row.scope_id, row.seq),
        scope=scope_ref(row.scope_id, row.scope_kind, row.owner, row.name),
        status=row.status,
        pending=row.pending,
        verification=row.verification,
        superseded_by=None if row.superseded_by is None else observation_id(row.scope_id, row.superseded_by),
        version=row.version,
        metadata=row.own_metadata,
        source=Source(kind=row.source_kind, **dict(zip(_OF_SOURCE, _of_source(row), strict=True))),
    )


_plain, _of_source = attrgetter(*_PLAIN), attrgetter(*_OF_SOURCE)

_scope_ids = bindparam("scope_ids", type_=ARRAY(BigInteger))
_text = (
    func.unnest(
        _scope_ids, bindparam("last_seqs", type_=ARRAY(BigInteger)), bindparam("digests", type_=ARRAY(LargeBinary))
    )
    .table_valued(
        column("scope_id", BigInteger),
        column("last_seq", BigInteger),
        column("digest", LargeBinary),
        with_ordinality="place",
    )
    .render_derived("text")
)
_new = (
    select(
        _text.c.place,
        _text.c.scope_id,
        _text.c.last_seq,
        func.memory.content_hash(_text.c.scope_id, _text.c.digest).label("content_hash"),
    )
    .cte("new")
    .prefix_with("MATERIALIZED")
)
_agent_key = bindparam("agent_key", type_=BigInteger)
_twins = (
    select(_o.scope_id, _o.seq, _o.content_hash, _o.lane, _o.fact_key, _o.dates)
    .outerjoin(_t, _same_observation(_t, _o))
    .where(_o.agent_key == _agent_key, IN_USE, VERIFICATION != "disputed")
    .subquery("twins")
)
_aside = (
    select(_o.scope_id, _o.content_hash, func.max(_o.seq).label("seq"))
    .join(_t, _same_observation(_t, _o))
    .where(
        _t.agent_key == _agent_key,
        _t.scope_id == any_(_scope_ids),
        IS_ASIDE,
        _t.status != "withdrawn",  # said again, it is new
    )
    .group_by(_o.scope_id, _o.content_hash)
    .subquery("aside")
)
_KNOWN = (
    select(
        _new.c.content_hash,
        _twins.c.seq.is_not(None).label("is_twin"),
        _twins.c.lane,
        _twins.c.fact_key,
        _twins.c.dates,
        _aside.c.seq.label("set_aside"),
    )
    .outerjoin(
        _twins,
        and_(
            _twins.c.scope_id == _new.c.scope_id,
            _twins.c.seq == _new.c.last_seq,
            _twins.c.content_hash == _new.c.content_hash,
        ),
    )
    .outerjoin(_aside, and_(_aside.c.scope_id == _new.c.scope_id, _aside.c.content_hash == _new.c.content_hash))
    .order_by(_new.c.place)
)
"""For each text that is about to be stored its hash, and by which observation its scope knows it."""

_visible = visible_scopes()
VISIBLE_OBSERVATION = OBSERVATION.join(_visible, is_visible(_o, _visible))
_FIND = VISIBLE_OBSERVATION.where(
    _o.scope_id == bindparam("scope_id", type_=BigInteger),
    _o.seq == bindparam("seq", type_=BigInteger),
)
_GET = _FIND.where(~IS_ASIDE)
_RECENCY = tuple_(_o.created_at, _o.scope_id, _o.seq)
_LIST = (
    VISIBLE_OBSERVATION.where(
        IN_USE,
        _s.is_active,
        or_(bindparam("scope_id", type_=BigInteger).is_(None), _o.scope_id == bindparam("scope_id", type_=BigInteger)),
    )
    .order_by(_o.created_at.desc(), _o.scope_id.desc(), _o.seq.desc())
    .limit(bindparam("limit", type_=BigInteger))
)

_known = func.memory.known_at(
    *(bindparam(name, type_=Text) for name in ("agent_id", "user_id", "conversation_id")),
    bindparam("as_of", type_=DateTime(timezone=True)),
).table_valued("agent_key", "scope_id", "seq", "status", "pending", name="known")
PAST_STATUS = _known.c.status
PAST_OBSERVATION = (
    select(*OWN, *ELSEWHERE, _known.c.status.label("status"), _known.c.pending.label("pending"))
    .join_from(_known, _o, and_(is_visible(_o, _known), _o.seq == _known.c.seq))
    .join(_s, is_visible(_o, _s.__table__))
    .outerjoin(_t, _same_observation(_t, _o))
)
"""As OBSERVATION, of what the principal may see, as it was at the moment `as_of`."""
_LIST_AT = (
    PAST_OBSERVATION.where(
        func.memory.in_use(PAST_STATUS),
        _s.is_active,
        or_(bindparam("scope_id", type_=BigInteger).is_(None), _o.scope_id == bindparam("scope_id", type_=BigInteger)),
    )
    .order_by(_o.created_at.desc(), _o.scope_id.desc(), _o.seq.desc())
    .limit(bindparam("limit", type_=BigInteger))
)
