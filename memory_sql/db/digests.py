"""What a digest is made of, beside what a search finds: an agent's settings and the observations that it begins with.

A statement each; `context_of` has the static layer of a context in the same one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from sqlalchemy import (
    ARRAY,
    BigInteger,
    Boolean,
    Text,
    and_,
    bindparam,
    case,
    cast,
    column,
    false,
    func,
    or_,
    select,
    true,
)
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.ext.asyncio import AsyncSession

from memory_sql.config import DIGEST_SETTINGS, Settings
from memory_sql.db.contexts import LAYER, scope_text, static_layer
from memory_sql.db.observations import PAST_OBSERVATION, PAST_STATUS, VERIFICATION, to_observation
from memory_sql.db.scopes import in_stable_order, scope_ref
from memory_sql.db.tables import ObservationRow, ScopeRow
from memory_sql.domain import Candidate, ScopeText


@dataclass(frozen=True, slots=True)
class Wanted:
    """Who asks for a digest, by which settings: the process's, and those that this call replaces.

    `defaults` are the former as `defaults_of` writes them; `searched`: it looks for words as well.
    """

    principal: Mapping[str, Any]
    settings: Settings
    defaults: str
    asked: Mapping[str, Any]
    searched: bool

    @property
    def parameters(self) -> dict[str, Any]:
        return {**self.principal, "defaults": self.defaults, "asked": dict(self.asked), "searched": self.searched}

    def of_agent(self, own: Mapping[str, Any]) -> Settings:
        """The settings that count: of the call, else of the agent, else of the process."""
        return self.settings.of_agent({**own, **self.asked})


def defaults_of(settings: Settings) -> str:
    """What a digest is made by, as JSON; once for a process, since writing it takes as long as a quick statement."""
    return settings.model_dump_json(include=set(DIGEST_SETTINGS))


@dataclass(frozen=True, slots=True)
class Begun:
    """`settings` are those that count; `scopes` the static layer, in the stable order of the prompt."""

    settings: Settings
    candidates: list[Candidate]
    scopes: list[ScopeText]


_COLUMNS = (
    "scope_id",
    "seq",
    "scope_kind",
    "owner",
    "name",
    "content",
    "observed_at",
    "source_kind",
    "session_id",
    "message_ids",
    "kind",
    "confidence",
    "importance",
    "sensitivity",
    "verification",
    "status",
    "fact_key",
    "tags",
)
_agent = bindparam("agent_id", type_=Text)
_own = func.memory.agent_settings(_agent).table_valued(column("own", JSONB), name="of_agent").render_derived()
_candidates = func.memory.digest_candidates(
    _agent,
    *(bindparam(name, type_=Text) for name in ("user_id", "session_id")),
    cast(bindparam("defaults", type_=Text), JSONB),
    bindparam("asked", type_=JSONB),
    bindparam("searched", type_=Boolean),
).table_valued(*_COLUMNS, name="candidates")
_named = [item.label(f"c_{item.name}") for item in _candidates.c]
_DIGEST = select(_own.c.own, *_named).select_from(_own).join(_candidates, true(), isouter=True)
_OWN = select(_own.c.own)
_rows = LAYER.join(_candidates, false(), full=True)
_OPENING = (
    select(_own.c.own, *LAYER.c, *_named)
    .select_from(_own)
    .join(_rows, true(), isouter=True)
    .order_by(*in_stable_order(LAYER.c))
)
"""A row for each scope and one for each candidate; one of the settings alone where there is neither."""

_pins = {name: bindparam(name, type_=ARRAY(Text)) for name in ("keys", "tags", "shown")}
_place = func.array_position(_pins["keys"], ObservationRow.fact_key)
_unpinned = and_(func.cardinality(_pins["keys"]) == 0, func.cardinality(_pins["tags"]) == 0)
_PAST = (
    PAST_OBSERVATION.where(
        PAST_STATUS == "active",
        ScopeRow.is_active,
        or_(
            _place.is_not(None),
            ObservationRow.tags.op("&&")(_pins["tags"]),
            and_(_unpinned, ~bindparam("searched", type_=Boolean)),
        ),
        or_(
            _place.is_not(None),
            and_(ObservationRow.sensitivity == func.any(_pins["shown"]), VERIFICATION != "disputed"),
        ),
    )
    .order_by(
        _place,
        case((_unpinned, ObservationRow.importance)).desc().nulls_last(),
        ObservationRow.observed_at.desc(),
        ObservationRow.scope_id,
        ObservationRow.seq,
    )
    .limit(bindparam("most", type_=BigInteger))
)


async def context_of(session: AsyncSession, wanted: Wanted, pending_max: int, as_of: datetime | None) -> Begun:
    """The beginning of a context: one statement, of a past moment up to three."""
    if as_of is None:
        rows = list(await session.execute(_OPENING, {**wanted.parameters, "pending_max": pending_max}))
        scopes = [scope_text(row) for row in rows if row.scope_id is not None]
        return Begun(wanted.of_agent(rows[0].own), _candidates_of(rows), scopes)
    begun = await digest_of(session, wanted, as_of)
    return replace(begun, scopes=await static_layer(session, wanted.principal, pending_max, as_of))


async def digest_of(session: AsyncSession, wanted: Wanted, as_of: datetime | None) -> Begun:
    """The beginning of a digest, without the static layer: one statement, of a past moment up to two."""
    if as_of is None:
        rows = list(await session.execute(_DIGEST, wanted.parameters))
        return Begun(wanted.of_agent(rows[0].own), _candidates_of(rows), [])
    (row,) = await session.execute(_OWN, wanted.parameters)
    settings = wanted.of_agent(row.own)
    if settings.assembly == "eden" or not settings.digest_enabled:
        return Begun(settings, [], [])
    found = await session.execute(
        _PAST, {**wanted.principal, **_past(settings), "searched": wanted.searched, "as_of": as_of}
    )
    return Begun(settings, [Candidate.of(to_observation(row)) for row in found], [])


def _past(settings: Settings) -> dict[str, Any]:
    return {
        "keys": list(settings.digest_fact_keys),
        "tags": list(settings.digest_tags),
        "shown": list(settings.digest_sensitivities),
        "most": 2 * settings.digest_items,
    }


def _candidates_of(rows: Sequence[Any]) -> list[Candidate]:
    return [
        Candidate(
            scope=scope_ref(row.c_scope_id, row.c_scope_kind, row.c_owner, row.c_name),
            seq=row.c_seq,
            content=row.c_content,
            observed_at=row.c_observed_at,
            source_kind=row.c_source_kind,
            session_id=row.c_session_id,
            message_ids=tuple(row.c_message_ids),
            kind=row.c_kind,
            confidence=row.c_confidence,
            importance=row.c_importance,
            sensitivity=row.c_sensitivity,
            verification=row.c_verification,
            status=row.c_status,
            fact_key=row.c_fact_key,
            tags=tuple(row.c_tags),
        )
        for row in rows
        if row.c_scope_id is not None
    ]
