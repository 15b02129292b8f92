"""Observations, with the evidence and the state that belong to them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import UTC, date, datetime
from operator import attrgetter
from typing import Any, NamedTuple

from sqlalchemy import (
    ARRAY,
    BigInteger,
    DateTime,
    Integer,
    Text,
    and_,
    bindparam,
    column,
    func,
    literal_column,
    or_,
    select,
    true,
)
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import aliased

from memory_sql.config import Settings
from memory_sql.config.kinds import Classification, Deduplicate, Lane, Lanes
from memory_sql.db.closures import reached_from
from memory_sql.db.direct import ask
from memory_sql.db.models import AgentRow, ObservationRow, ObservationStateRow, ScopeRow
from memory_sql.db.observation_rows import OF_SOURCE, PLAIN, to_observation
from memory_sql.db.repositories.scopes import NewScope, is_visible, visible_scopes
from memory_sql.db.scope_rows import scope_ref
from memory_sql.domain.classification import Classified, classification_of
from memory_sql.domain.ids import observation_id
from memory_sql.domain.observations import Observation, Source
from memory_sql.errors import NotFoundError
from memory_sql.languages.days import Days
from memory_sql.languages.naming import cause_in, names_in
from memory_sql.languages.text import HASH_VERSION, content_digest
from memory_sql.languages.wording import pieces
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


class LinkedBy(NamedTuple):
    """By what an observation is linked: the names that its text holds, and the words in it that tell a cause."""

    names: tuple[str, ...] = ()
    cause: str | None = None

    @classmethod
    def of(
        cls, content: str, language: str, owners: Iterable[str | None] = (), known: Collection[str] = frozenset()
    ) -> LinkedBy:
        """`owners`: names of the one whose own scope it is in, by which all would be linked. `known`: as in `names_in`."""
        own = frozenset[str]().union(*(pieces(name) for name in owners if name))
        names = (name for name in names_in(content, language, known) if not pieces(name) <= own)
        return cls(tuple(names), cause_in(content))


@dataclass(frozen=True, slots=True)
class Draft:
    """An observation that hasn't been stored. `categories` None: it is classified when it is saved.

    `subjects` are the users whom it speaks of, `terms` words that it may be searched by, `topics` what it is about, which
    its episode keeps. `links` None: it gets none. `borrowed`: the messages of its conversation, by their numbers, which it
    only has words of, and isn't taken from.
    """

    scope: NewScope
    content: str
    observed_at: datetime
    source_kind: str
    evidence: tuple[Evidence, ...]
    conversation_id: str | None = None
    speaker: str | None = None
    message_ids: tuple[str, ...] = ()
    category: str | None = None
    kind: str | None = None
    confidence: float | None = None
    importance: float | None = None
    classified_by: int | None = None
    until: date | None = None
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
    topics: tuple[str, ...] = ()
    lane: Lane = "absorb"
    links: LinkedBy | None = None
    borrowed: frozenset[int] = frozenset()

    @property
    def related_users(self) -> list[str]:
        return list(dict.fromkeys(e.user_id for e in self.evidence if e.user_id))


@dataclass(frozen=True, slots=True)
class Saved:
    """`stored` in the order of the drafts; `known` drafts were there already, or twice in the batch, or set aside."""

    stored: tuple[tuple[int, int], ...]
    known: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Found:
    """`subjects` are the users of whom it speaks, `reached` the scopes where something was made of what its scope holds."""

    agent_key: int
    observation: Observation
    subjects: tuple[str, ...]
    reached: frozenset[int]


@dataclass(frozen=True, slots=True)
class Known:
    """What a draft of the host is made with: the agent's own settings and the conversation's time zone."""

    settings: Mapping[str, Any] = field(default_factory=dict)
    time_zone: str | None = None


@dataclass(frozen=True, slots=True)
class Observed:
    """`outcome` as in `memory.observe`; `lanes` are the scope's."""

    agent_key: int
    scope_id: int
    seq: int
    outcome: str
    lanes: Lanes
    known: Known
    empty_group: bool


@dataclass(frozen=True, slots=True)
class ObservationRepository:
    _session: AsyncSession

    async def save(
        self,
        agent_key: int,
        drafts: Sequence[Draft],
        *,
        run_id: int | None,
        now: datetime,
        replaced: int | None = None,
    ) -> Saved:
        """Stores what is new, adds evidence to what isn't (`memory.save_observations`). The caller has locked the scopes.

        `replaced`: the number of what is about to be replaced, which is no reason not to store the same again. Nothing is
        stored that nobody has classified.
        """
        given = {"agent_key": agent_key, "run_id": run_id, "now": now, "replaced": replaced}
        found = await self._session.execute(_SAVE, {**given, "drafts": stored_as(drafts)})
        rows = [((row.scope_id, row.seq), row.is_new) for row in found]
        return Saved(tuple(key for key, is_new in rows if is_new), tuple(key for key, is_new in rows if not is_new))

    async def observe(
        self, agent_id: str, draft: Draft, lane: Lane | None, known: Known | None, settings: Settings, now: datetime
    ) -> Observed:
        """Stores one that the host says (`memory.observe`), if it was made by what is `known`. None: to ask for that."""
        given = {
            "agent_id": agent_id,
            "conversation_id": draft.conversation_id,
            "lane": lane,
            "wanted": [draft.scope.row(settings)],
            "draft": stored_as([draft], settings.deduplicate)[0],
            "known": asdict(known) if known else {},
            "threshold": settings.consolidation_threshold,
            "now": now,
        }
        (row,) = await ask(self._session, _OBSERVE, given)
        return Observed(
            row.agent_key, row.scope_id, row.seq, row.outcome, row.lanes, Known(**row.is_known), row.empty_group
        )

    async def by_keys(self, agent_key: int, keys: Sequence[tuple[int, int]]) -> tuple[Observation, ...]:
        """In the order of the keys `(scope_id, seq)`. Raises `NotFoundError` for one that has been forgotten."""
        given = {"agent_key": agent_key, "scope_ids": [scope for scope, _ in keys], "seqs": [seq for _, seq in keys]}
        found = {(row.scope_id, row.seq): to_observation(row) for row in await self._session.execute(_BY_KEYS, given)}
        for key in keys:
            if key not in found:
                raise NotFoundError("observation", observation_id(*key))
        return tuple(found[key] for key in keys)

    async def find(self, principal: Mapping[str, Any], scope_id: int, seq: int) -> Found | None:
        """That the principal may see, whatever its status."""
        found = await self._session.execute(_FIND, {**principal, "scope_id": scope_id, "seq": seq})
        row = found.one_or_none()
        if row is None:
            return None
        return Found(row.agent_key, to_observation(row), tuple(row.subjects), frozenset(row.reached))


def classified(draft: Draft, *, is_plain: bool = False, **changed: Any) -> Draft:
    """Classified by its text, and as private as that requires or as was requested, whichever is more; with the changes.

    `is_plain`: the text holds no secret.
    """
    if draft.categories is not None:
        return replace(draft, **changed) if changed else draft
    found = classify(draft.content, is_plain=is_plain)
    sensitivity = max(draft.sensitivity, found.sensitivity, key=SENSITIVITIES.index)
    return replace(draft, categories=found.categories, sensitivity=sensitivity, **changed)


def by_rules(draft: Draft, classification: Classification) -> Draft:
    """With kind and importance by the rules where nobody has given them, unless that is off."""
    if classification == "off":
        return draft
    given = Classified(draft.kind, draft.importance, draft.classified_by)
    found = classification_of(draft.content, draft.category, draft.tags, draft.fact_key, given)
    return replace(draft, kind=found.kind, importance=found.importance, classified_by=found.by)


def _same_observation(left: Any, right: Any) -> Any:
    return and_(left.agent_key == right.agent_key, left.scope_id == right.scope_id, left.seq == right.seq)


def stored_as(drafts: Iterable[Draft], deduplicate: Deduplicate = "newest") -> list[dict[str, Any]]:
    """As `memory.save_observations` takes them, their places from 0."""
    found = [_stored_as(place, classified(draft)) for place, draft in enumerate(drafts)]
    return [draft | {"deduplicate": deduplicate} for draft in found]


def _stored_as(place: int, draft: Draft) -> dict[str, Any]:
    digest = content_digest(draft.content)
    return {
        **dict(zip(_DRAFTED, _drafted(draft), strict=True)),
        "place": place,
        "owner": draft.scope.owner,
        "name": draft.scope.name,
        "observed_at": draft.observed_at.isoformat(),
        "given_at": draft.given_at and draft.given_at.isoformat(),
        "until": draft.until and draft.until.isoformat(),
        "related_users": draft.related_users,
        "metadata": dict(draft.metadata),
        "terms": "\n".join(draft.terms),
        "digest": digest and digest.hex(),
        "hash_version": HASH_VERSION,
        "search_extra": _searched_beside(draft),
        "dates": f"{{{', '.join(f'[{days.first}, {days.last}]' for days in draft.dates)}}}" if draft.dates else None,
        "evidence": [asdict(item) for item in draft.evidence],
        **({} if draft.links is None else {"links": draft.links._asdict()}),
        **({"topics": draft.topics} if draft.topics else {}),
    }


def _searched_beside(draft: Draft) -> str:
    """What the parser would miss, and the days that the text mentions: "last week" is also found by its year."""
    days = dict.fromkeys(f"{day}" for span in draft.dates for day in span)
    return " ".join(filter(None, (search_extra(draft.content), *days)))


def observation_of(draft: Draft, key: ObservationKey, status: str, run_id: int | None, now: datetime) -> Observation:
    """What has just been stored of a draft, without reading it again."""
    draft, (scope_id, seq) = classified(draft), key
    own = {name: getattr(draft, name) for name in PLAIN if name in _DRAFTED}
    return Observation(
        **own | {name: own[name] and own[name].astimezone(UTC) for name in ("observed_at", "given_at")},
        id=observation_id(scope_id, seq),
        scope=scope_ref(scope_id, draft.scope.kind, draft.scope.owner, draft.scope.name),
        created_at=now.astimezone(UTC),
        status=status,
        pending=status == "active" and draft.lane == "absorb",
        metadata=dict(draft.metadata),
        source=Source(
            kind=draft.source_kind,
            conversation_id=draft.conversation_id,
            speaker=draft.speaker,
            message_ids=draft.message_ids,
            run_id=run_id,
        ),
    )


_o, _t, _s = ObservationRow, ObservationStateRow, ScopeRow
STATUS = func.coalesce(_t.status, "active")
IN_USE = _o.standing == literal_column("'active'")  # as the conditions of the indexes have it
IS_ASIDE = func.memory.is_aside(_t.status)
VERIFICATION = func.coalesce(_t.verification, "unverified")
_STORED = {*ObservationRow.__table__.c.keys()} - {"metadata"}  # which the mapped class has to call otherwise
# What is called the same in a table and in a value passes by its name: it is written down once in each.
_DRAFTED = tuple(item.name for item in fields(Draft) if item.name in _STORED - {"dates", "terms"})
_drafted = attrgetter(*_DRAFTED)


def _read_of(o: type[ObservationRow], said_again_at: Any = None) -> tuple[Any, ...]:
    """Of its own row, and of others. Functions that return observations return the whole row.

    `said_again_at`: as it was at a past moment.
    """
    again = o.said_again_at if said_again_at is None else said_again_at
    return (
        o.scope_id,
        o.seq,
        *(again if name == "said_again_at" else getattr(o, name) for name in PLAIN),
        o.source_kind,
        *(getattr(o, name) for name in OF_SOURCE),
        o.metadata_.label("own_metadata"),
        _s.kind.label("scope_kind"),
        _s.owner,
        _s.name,
        VERIFICATION.label("verification"),
        _t.superseded_by,
        _t.resolved,
        func.memory.observation_version(o.agent_key, o.scope_id, o.seq, type_=Integer).label("version"),
    )


_pending = and_(_o.lane == "absorb", IN_USE, or_(_o.seq > _s.done_seq, func.coalesce(_t.repend, False)))
OBSERVATION = (
    select(*_read_of(_o), STATUS.label("status"), _pending.label("pending"))
    .join_from(_o, _s, is_visible(_o, _s.__table__))
    .outerjoin(_t, _same_observation(_t, _o))
)
"""Rows for `to_observation`."""


_SAVE = select(
    func.memory.save_observations(
        bindparam("agent_key", type_=BigInteger),
        bindparam("drafts", type_=JSONB),
        bindparam("run_id", type_=BigInteger),
        bindparam("now", type_=DateTime(timezone=True)),
        bindparam("replaced", type_=Integer),
    ).table_valued("place", "scope_id", "seq", "is_new")
)

_OBSERVE = select(
    func.memory.observe(
        *(bindparam(name, type_=Text) for name in ("agent_id", "conversation_id", "lane")),
        *(bindparam(name, type_=JSONB) for name in ("wanted", "draft", "known")),
        bindparam("threshold", type_=Integer),
        bindparam("now", type_=DateTime(timezone=True)),
    ).table_valued("agent_key", "scope_id", "seq", "outcome", "lanes", column("is_known", JSONB), "empty_group")
)

_visible = visible_scopes()
_key = (
    func.unnest(bindparam("scope_ids", type_=ARRAY(BigInteger)), bindparam("seqs", type_=ARRAY(Integer)))
    .table_valued("scope_id", "seq", name="key")
    .render_derived()
)
_BY_KEYS = OBSERVATION.join(_key, and_(_o.scope_id == _key.c.scope_id, _o.seq == _key.c.seq)).where(
    _o.agent_key == bindparam("agent_key", type_=BigInteger)
)

_agent = select(AgentRow.agent_key).where(AgentRow.agent_id == bindparam("agent_id", type_=Text)).scalar_subquery()
_reached = reached_from(select(bindparam("scope_id", type_=BigInteger).label("scope_id")), _agent)
_FIND = (
    OBSERVATION.join(_visible, is_visible(_o, _visible))
    .where(_o.scope_id == bindparam("scope_id", type_=BigInteger), _o.seq == bindparam("seq", type_=BigInteger))
    .add_columns(_o.agent_key, _o.subjects, func.array(_reached.scalar_subquery()).label("reached"))
)

_known = func.memory.known_at(
    *(bindparam(name, type_=Text) for name in ("agent_id", "user_id", "conversation_id")),
    bindparam("as_of", type_=DateTime(timezone=True)),
).table_valued(
    "agent_key", "scope_id", "seq", "status", "pending", column("said_again_at", DateTime(timezone=True)), name="known"
)
PAST_STATUS = _known.c.status
PAST_SAID_AGAIN_AT = _known.c.said_again_at
_each = select(_o).where(is_visible(_o, _known), _o.seq == _known.c.seq).correlate(_known)
# By its key, whatever the planner thinks of how many there are.
PAST_ROW = aliased(ObservationRow, _each.offset(0).lateral())
PAST_OBSERVATION = (
    select(*_read_of(PAST_ROW, PAST_SAID_AGAIN_AT), _known.c.status.label("status"), _known.c.pending.label("pending"))
    .join_from(_known, PAST_ROW, true())
    .join(_s, is_visible(PAST_ROW, _s.__table__))
    .outerjoin(_t, _same_observation(_t, PAST_ROW))
)
"""As OBSERVATION, of what the principal may see, as it was at the moment `as_of`."""
