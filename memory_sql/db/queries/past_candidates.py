"""What a digest of a past moment begins with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import ARRAY, BigInteger, Boolean, Text, and_, bindparam, case, func, or_

from memory_sql.config import Settings
from memory_sql.db.direct import Reader
from memory_sql.db.models import ScopeRow
from memory_sql.db.observation_rows import to_observation
from memory_sql.db.repositories.observations import (
    PAST_OBSERVATION,
    PAST_ROW,
    PAST_SAID_AGAIN_AT,
    PAST_STATUS,
    VERIFICATION,
)
from memory_sql.domain.observations import Candidate

_pins = {name: bindparam(name, type_=ARRAY(Text)) for name in ("keys", "tags", "shown")}
_place = func.array_position(_pins["keys"], PAST_ROW.fact_key)
_unpinned = and_(func.cardinality(_pins["keys"]) == 0, func.cardinality(_pins["tags"]) == 0)
_PAST = (
    PAST_OBSERVATION.where(
        func.memory.in_use(PAST_STATUS),
        ScopeRow.is_active,
        or_(
            _place.is_not(None),
            PAST_ROW.tags.op("&&")(_pins["tags"]),
            and_(_unpinned, ~bindparam("searched", type_=Boolean)),
        ),
        or_(
            _place.is_not(None),
            and_(PAST_ROW.sensitivity == func.any(_pins["shown"]), VERIFICATION != "disputed"),
        ),
    )
    .order_by(
        _place,
        case((_unpinned, PAST_ROW.importance)).desc().nulls_last(),
        func.coalesce(PAST_SAID_AGAIN_AT, PAST_ROW.observed_at).desc(),
        PAST_ROW.scope_id,
        PAST_ROW.seq,
    )
    .limit(bindparam("most", type_=BigInteger))
)


async def candidates(reader: Reader, settings: Settings, given: Mapping[str, Any]) -> list[Candidate]:
    """`given`: the principal, `searched` and `as_of`."""
    rows = await reader.execute(_PAST, {**given, **_pinned(settings)})
    return [Candidate.of(to_observation(row)) for row in rows]


def _pinned(settings: Settings) -> dict[str, Any]:
    return {
        "keys": list(settings.digest_fact_keys),
        "tags": list(settings.digest_tags),
        "shown": list(settings.digest_sensitivities),
        "most": 2 * settings.digest_items,
    }
