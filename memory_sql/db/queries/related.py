"""The known observations of a scope that new ones may concern, by words (memory.search_observations) and by meaning."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Text, and_, bindparam, cast, column, func, literal_column, null, or_, select, true, union_all
from sqlalchemy.dialects.postgresql import ARRAY, BIT, JSONB
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.types import BigInteger, Boolean, DateTime, Double, Integer

from memory_sql.db.direct import ask
from memory_sql.db.models import ConsolidationRow, ObservationRow, ObservationStateRow, RunRow
from memory_sql.domain.query import Query, Weights
from memory_sql.domain.scopes import AbsorbedObservation

# Only a text's own words: its search cues say nothing about what it would supersede.
WEIGHTS = Weights(terms=0)

_o, _t, _c, _run = ObservationRow, ObservationStateRow, ConsolidationRow, RunRow
_MOMENT = DateTime(timezone=True)
_asked = (
    func.jsonb_array_elements(cast(bindparam("queries", type_=Text), JSONB))
    .table_valued(column("query", JSONB), name="asked")
    .render_derived()
)


def _finding(asked: Any) -> Any:
    return (
        func.memory.search_observations(
            bindparam("agent_id", type_=Text),
            cast(null(), Text),
            cast(null(), Text),
            asked.c.query,
            bindparam("each", type_=BigInteger),
            bindparam("now", type_=_MOMENT),
            cast(null(), _MOMENT),
            cast(False, Boolean),
            cast(null(), BIT(varying=True)),
            cast(null(), Text),
        )
        .table_valued(
            column("agent_key", BigInteger),
            column("scope_id", BigInteger),
            column("seq", BigInteger),
            "status",
            "pending",
            column("score", Double),
            "strength",
            "covered",
            "overtaken",
            "near",
            "explanation",
            with_ordinality="place",
            name="found",
        )
        .render_derived()
        .lateral()
    )


_found = _finding(_asked)
_ranked = (
    select(
        _o.scope_id,
        _o.seq,
        _o.content,
        _o.said_at.label("observed_at"),
        func.row_number()
        .over(
            partition_by=_o.scope_id,
            order_by=(func.min(_found.c.place), func.max(_found.c.score).desc(), _o.seq.desc()),
        )
        .label("rank"),
    )
    .select_from(_asked)
    .join(_found, true())
    .join(_o, (_o.agent_key == _found.c.agent_key) & (_o.scope_id == _found.c.scope_id) & (_o.seq == _found.c.seq))
    .where(_found.c.score > 0)
    .group_by(_o.agent_key, _o.scope_id, _o.seq)
    .subquery("ranked")
)
RELATED = (
    select(_ranked.c.scope_id, _ranked.c.seq, _ranked.c.content, _ranked.c.observed_at)
    .where(_ranked.c.rank <= bindparam("each", type_=BigInteger))
    .order_by(_ranked.c.scope_id, _ranked.c.rank)
)
"""For each scope, the best matches of each query in turn, so that each query has its share; each observation once.
See `asked_as`.
"""

_numbered = (
    func.jsonb_array_elements(cast(bindparam("queries", type_=Text), JSONB))
    .table_valued(column("query", JSONB), with_ordinality="n", name="numbered")
    .render_derived()
)
_found_each = _finding(_numbered)
_EACH = (
    select(_numbered.c.n, _found_each.c.seq, _found_each.c.place)
    .select_from(_numbered)
    .join(_found_each, true())
    .where(_found_each.c.score > 0)
    .order_by(_numbered.c.n, _found_each.c.place)
)

_near = (
    func.memory.nearest(
        bindparam("agent_key", type_=BigInteger),
        bindparam("near_scope", type_=BigInteger),
        bindparam("seqs", type_=ARRAY(Integer)),
        bindparam("to_seq", type_=Integer),
        bindparam("each_near", type_=Integer),
        bindparam("most_near", type_=Integer),
    )
    .table_valued(column("seq", BigInteger), column("content", Text), column("observed_at", _MOMENT))
    .alias("near")
)
_again = (
    select(bindparam("near_scope", type_=BigInteger), _o.seq, _o.content, _o.said_again_at)
    .outerjoin(_t, and_(_t.agent_key == _o.agent_key, _t.scope_id == _o.scope_id, _t.seq == _o.seq))
    .where(
        _o.agent_key == bindparam("agent_key", type_=BigInteger),
        _o.scope_id == bindparam("near_scope", type_=BigInteger),
        _o.said_again_at > bindparam("since", type_=_MOMENT),
        _o.standing == literal_column("'active'"),
        _o.lane == "absorb",
        _o.seq <= bindparam("to_seq", type_=Integer),
        _t.repend.is_not(True),
    )
    .order_by(_o.said_again_at.desc(), _o.seq.desc())
    .limit(bindparam("most_again", type_=BigInteger))
    .subquery("again")
)
"""What the text has absorbed and was said again after something that waits: else that would be the last word."""
_written_at = (
    select(func.least(_run.started_at, _c.created_at))
    .select_from(_c)
    .outerjoin(_run, and_(_run.agent_key == _c.agent_key, _run.run_id == _c.run_id))
    .where(
        _c.agent_key == bindparam("agent_key", type_=BigInteger),
        _c.scope_id == bindparam("near_scope", type_=BigInteger),
        _c.live,
        or_(_c.to_seq > _c.from_seq, func.cardinality(_c.extra_seqs) > 0),
    )
    .order_by(_c.version.desc())
    .limit(1)
    .scalar_subquery()
)
"""When the text was read that the newest is or repeats: what ended while it was written, it wasn't told."""
_overtaken = (
    func.jsonb_to_recordset(_c.contradictions)
    .table_valued(column("newer", Integer), column("older", Integer), name="overtaken")
    .render_derived(with_types=True)
)
_rechecked = (
    select(
        bindparam("near_scope", type_=BigInteger),
        _o.seq,
        _o.content,
        _o.said_at.label("observed_at"),
        literal_column("'overtaken'").label("ended"),
    )
    .select_from(_c)
    .join(_overtaken, true())
    .join(_t, and_(_t.agent_key == _c.agent_key, _t.scope_id == _c.scope_id, _t.seq == _overtaken.c.older))
    .join(_o, and_(_o.agent_key == _t.agent_key, _o.scope_id == _t.scope_id, _o.seq == _t.seq))
    .where(
        _c.agent_key == bindparam("agent_key", type_=BigInteger),
        _c.scope_id == bindparam("near_scope", type_=BigInteger),
        _c.live,
        _c.reason == literal_column("'recheck'"),
        _t.status == literal_column("'superseded'"),
        _t.superseded_by == _overtaken.c.newer,
        _written_at < _t.status_at,
        _o.seq <= bindparam("to_seq", type_=Integer),
    )
    .order_by(_t.status_at.desc(), _o.seq.desc())
    .limit(bindparam("most_again", type_=BigInteger))
    .subquery("rechecked")
)
"""What the text has absorbed and a recheck has found overtaken since its run read it."""
_ended = (
    select(bindparam("near_scope", type_=BigInteger), _o.seq, _o.content, _o.said_at.label("observed_at"), _t.resolved)
    .join_from(_t, _o, and_(_t.agent_key == _o.agent_key, _t.scope_id == _o.scope_id, _t.seq == _o.seq))
    .where(
        _t.agent_key == bindparam("agent_key", type_=BigInteger),
        _t.scope_id == bindparam("near_scope", type_=BigInteger),
        _t.resolved.is_not(None),
        _t.status == literal_column("'archived'"),
        _t.status_at > _written_at,
        ~_t.repend,
        _o.lane == "absorb",
        _o.seq <= bindparam("to_seq", type_=Integer),
    )
    .order_by(_t.status_at.desc(), _o.seq.desc())
    .limit(bindparam("most_again", type_=BigInteger))
    .subquery("ended")
)
"""What the text has absorbed and is over since its run read it: nothing else would tell that."""
_still = null().label("ended")
_RELATED_OR_NEAR = select(
    union_all(
        select(*RELATED.subquery("related").c, _still),
        select(bindparam("near_scope", type_=BigInteger), _near.c.seq, _near.c.content, _near.c.observed_at, _still),
        select(*_again.c, _still),
        select(*_ended.c),
        select(*_rechecked.c),
    ).subquery("concerned")
)


def asked_as(agent_id: str, queries: Sequence[Query], most: int, now: datetime) -> dict[str, Any]:
    """The parameters of `RELATED`."""
    asked = [json.loads(query.to_json(WEIGHTS)) for query in queries if query]
    return {"agent_id": agent_id, "queries": json.dumps(asked), "each": most, "now": now}


async def related(
    session: AsyncSession, agent_id: str, queries: Sequence[Query], now: datetime, most: int
) -> list[tuple[int, AbsorbedObservation]]:
    """The observations found, each with its scope."""
    if not any(queries):
        return []
    found = await ask(session, RELATED, asked_as(agent_id, queries, most, now))
    return [(row[0], AbsorbedObservation(*row[1:])) for row in found]


async def related_to_each(
    session: AsyncSession, agent_id: str, queries: Sequence[Query], now: datetime, most: int
) -> list[tuple[int, int, int]]:
    """What each query finds, best first: which query (from 0), the observation's number, its place (from 1)."""
    found = await ask(session, _EACH, asked_as(agent_id, queries, most, now)) if queries else []
    return [(row[0] - 1, row[1], row[2]) for row in found]


async def related_or_near(
    session: AsyncSession,
    asked: Mapping[str, Any],
    place: tuple[int, int],
    seqs: Sequence[int],
    to_seq: int,
    near: tuple[int, int],
    again: tuple[datetime, int],
) -> list[AbsorbedObservation]:
    """What the queries find (`asked_as`), what lies nearest to the observations of these numbers, was said again or ended.

    `place`: agent and scope; `to_seq`: how far its text has read; `near`: how many for each of them and for all; `again`:
    since when it was, and how many.
    """
    given = {
        **asked,
        "agent_key": place[0],
        "near_scope": place[1],
        "seqs": list(seqs),
        "to_seq": to_seq,
        "each_near": near[0],
        "most_near": near[1],
        "since": again[0],
        "most_again": again[1],
    }
    return [AbsorbedObservation(*row[1:]) for row in await ask(session, _RELATED_OR_NEAR, given)]
