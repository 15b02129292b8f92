"""The observations with which a digest begins, and the settings of its agent."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ARRAY, BigInteger, Boolean, Text, and_, bindparam, case, cast, column, func, or_, select, true
from sqlalchemy.dialects.postgresql import JSONB

from memory_sql.config import DIGEST_SETTINGS, Settings
from memory_sql.db.direct import Reader
from memory_sql.db.models import ObservationRow, ScopeRow
from memory_sql.db.queries.search import read_from
from memory_sql.db.repositories.observations import PAST_OBSERVATION, PAST_STATUS, VERIFICATION, to_observation
from memory_sql.db.scope_rows import scope_ref
from memory_sql.domain.observations import Candidate


@dataclass(frozen=True, slots=True)
class Wanted:
    """Who asks for a digest, and with which settings: the process's, and those that this call overrides.

    `defaults`: the former, as `defaults_of` writes them; `searched`: the digest also searches for words.
    """

    principal: Mapping[str, Any]
    settings: Settings
    defaults: str
    asked: Mapping[str, Any]
    searched: bool

    @property
    def parameters(self) -> dict[str, Any]:
        return {
            **self.principal,
            "defaults": self.defaults,
            "asked": json.dumps(dict(self.asked)),
            "searched": self.searched,
        }

    def of_agent(self, own: Mapping[str, Any]) -> Settings:
        """The settings that apply: those of the call, else of the agent, else of the process."""
        return self.settings.of_agent({**own, **self.asked})


def defaults_of(settings: Settings) -> str:
    """The settings of a digest as JSON; made once per process, since that takes as long as a quick statement."""
    return settings.model_dump_json(include=set(DIGEST_SETTINGS))


_o = ObservationRow
_SHOWN = (
    _o.scope_id,
    _o.seq,
    _o.content,
    _o.observed_at,
    _o.source_kind,
    _o.conversation_id,
    _o.message_ids,
    _o.kind,
    _o.confidence,
    _o.importance,
    _o.sensitivity,
    _o.fact_key,
    _o.tags,
)
_ELSEWHERE = ("scope_kind", "owner", "name", "status", "verification")
_agent = bindparam("agent_id", type_=Text)
_own = func.memory.agent_settings(_agent).table_valued(column("own", JSONB), name="of_agent").render_derived()
CANDIDATES = func.memory.digest_candidates(
    _agent,
    *(bindparam(name, type_=Text) for name in ("user_id", "conversation_id")),
    cast(bindparam("defaults", type_=Text), JSONB),
    cast(bindparam("asked", type_=Text), JSONB),
    bindparam("searched", type_=Boolean),
).table_valued("observation", *_ELSEWHERE, name="candidates")
NAMED = [
    *read_from(CANDIDATES.c.observation, _SHOWN, "c_"),
    *(CANDIDATES.c[name].label(f"c_{name}") for name in _ELSEWHERE),
]
_OWN = select(_own.c.own)
_BEGIN = select(_own.c.own, *NAMED).select_from(_own).join(CANDIDATES, true(), isouter=True)
"""A row for each candidate; without candidates, one row with the settings alone."""

_pins = {name: bindparam(name, type_=ARRAY(Text)) for name in ("keys", "tags", "shown")}
_place = func.array_position(_pins["keys"], ObservationRow.fact_key)
_unpinned = and_(func.cardinality(_pins["keys"]) == 0, func.cardinality(_pins["tags"]) == 0)
_PAST = (
    PAST_OBSERVATION.where(
        func.memory.in_use(PAST_STATUS),
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


async def begin(reader: Reader, wanted: Wanted, as_of: datetime | None) -> tuple[Settings, list[Candidate]]:
    """The settings that apply, and what a digest begins with: one statement; for a past moment, up to two."""
    if as_of is None:
        rows = list(await reader.execute(_BEGIN, wanted.parameters))
        return wanted.of_agent(rows[0].own), candidates_of(rows)
    (row,) = await reader.execute(_OWN, wanted.parameters)
    settings = wanted.of_agent(row.own)
    return settings, await past_candidates(reader, wanted, settings, as_of)


async def past_candidates(reader: Reader, wanted: Wanted, settings: Settings, as_of: datetime) -> list[Candidate]:
    if settings.assembly == "eden" or not settings.digest_enabled:
        return []
    past = {**wanted.principal, **_past(settings), "searched": wanted.searched, "as_of": as_of}
    return [Candidate.of(to_observation(row)) for row in await reader.execute(_PAST, past)]


def _past(settings: Settings) -> dict[str, Any]:
    return {
        "keys": list(settings.digest_fact_keys),
        "tags": list(settings.digest_tags),
        "shown": list(settings.digest_sensitivities),
        "most": 2 * settings.digest_items,
    }


def candidates_of(rows: Iterable[Any]) -> list[Candidate]:
    return [
        Candidate(
            scope=scope_ref(row.c_scope_id, row.c_scope_kind, row.c_owner, row.c_name),
            seq=row.c_seq,
            content=row.c_content,
            observed_at=row.c_observed_at,
            source_kind=row.c_source_kind,
            conversation_id=row.c_conversation_id,
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
