"""The claims held from a wider scope that, as things are now, may still be shared with it: a person can decide about them."""

from __future__ import annotations

from typing import Any

from sqlalchemy import ARRAY, ColumnElement, Text, and_, bindparam, case, cast, func, literal_column, or_, select
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.ext.asyncio import AsyncSession

from memory_sql.config import Settings
from memory_sql.db.models import AgentRow, JudgedRow, ObservationRow, ObservationStateRow

_j, _a, _o, _t = JudgedRow, AgentRow, ObservationRow, ObservationStateRow


def defaults_of(settings: Settings) -> dict[str, Any]:
    """The parameters of whatever uses `can_be_shared`: what counts for agents that have no settings of their own."""
    return {"sharing": settings.sharing, "excluded": list(settings.propagation_excluded_users)}


_own = _a.settings["propagation_excluded_users"]
_ids = case((func.jsonb_typeof(_own) == "array", _own), else_=bindparam("excluded", type_=JSONB))
_names = select(func.jsonb_array_elements_text(_ids)).correlate(_a).scalar_subquery()
rules = (
    select(
        _a.agent_key,
        func.coalesce(_a.settings["sharing"].astext, bindparam("sharing", type_=Text)).label("sharing"),
        cast(func.array(_names), ARRAY(Text)).label("excluded"),
    )
    .offset(0)  # once an agent; and what is given a query as an argument isn't planned with its caller
    .subquery("rules")
)


def _is_shareable() -> ColumnElement[bool]:
    found = func.memory.shareable(_j.agent_key, _j.source_scope_id, rules.c.excluded).table_valued(
        "seq", "proposed", name="shareable"
    )
    meant = or_(
        found.c.proposed.is_(None),
        found.c.proposed == "collective",
        found.c.proposed == func.concat("s", _j.target_scope_id),
    )
    return select(found.c.seq).where(found.c.seq == _j.source_seq, meant).correlate(_j, rules).exists()


def _reaches(*conditions: Any) -> ColumnElement[bool]:
    found = select(_targets.c.scope_id).where(_targets.c.scope_id == _j.target_scope_id, *conditions)
    return found.correlate(_j, rules).exists()


_targets = func.memory.propagation_targets(_j.agent_key, _j.source_scope_id).table_valued("scope_id", "sharing")
_is_on = func.coalesce(_targets.c.sharing, rules.c.sharing) != "off"
_is_held = _j.outcome == literal_column("'held'", Text)  # as in the condition of its index
can_be_shared = and_(_is_held, _is_shareable(), _reaches(_is_on))
"""Of rows of `judged`, joined with `rules`."""
of_agents = rules.c.agent_key == _j.agent_key
count_held = select(func.count().label("held")).select_from(_j).join(rules, of_agents).where(can_be_shared)

_WHY_NOT = (
    select(
        _t.status,
        _t.verification,
        _o.sensitivity,
        or_(_o.no_propagate, _o.confidential).label("private"),
        _reaches().label("reaches"),
        _reaches(_is_on).label("on"),
        _is_shareable().label("shareable"),
    )
    .select_from(_j)
    .join(rules, of_agents)
    .join(_o, and_(_o.agent_key == _j.agent_key, _o.scope_id == _j.source_scope_id, _o.seq == _j.source_seq))
    .outerjoin(_t, and_(_t.agent_key == _o.agent_key, _t.scope_id == _o.scope_id, _t.seq == _o.seq))
    .where(
        _is_held,
        *(_j.__table__.c[name] == bindparam(f"of_{name}") for name in ("agent_key", "source_scope_id", "source_seq")),
        _j.target_scope_id == bindparam("of_target"),
    )
)


async def why_not(
    session: AsyncSession, agent_key: int, source: tuple[int, int], target: int, settings: Settings
) -> str | None:
    """Why the held claim can't be shared any more; None: it can, or isn't held."""
    of = {"of_agent_key": agent_key, "of_source_scope_id": source[0], "of_source_seq": source[1], "of_target": target}
    row = (await session.execute(_WHY_NOT, {**defaults_of(settings), **of})).one_or_none()
    if row is None or (row.shareable and row.on):
        return None
    reasons = {
        f"its observation is {row.status}": row.status not in (None, "active"),
        "its observation is disputed": row.verification == "disputed",
        "its observation was marked private": row.private,
        "its observation is sensitive": row.sensitivity == "sensitive",
        f"its scope no longer shares with s{target}": not row.reaches,
        f"sharing with s{target} is off": not row.on,
    }
    return next((reason for reason, holds in reasons.items() if holds), "its observation may no longer be shared")
