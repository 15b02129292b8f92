"""Kind and importance of observations, where the rules that gave them have changed, or knew another text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from sqlalchemy import (
    ARRAY,
    BigInteger,
    ColumnElement,
    Double,
    Integer,
    SmallInteger,
    Text,
    and_,
    bindparam,
    func,
    select,
    text,
    true,
    tuple_,
    update,
)
from sqlalchemy.ext.asyncio import AsyncSession

from memory_sql.db.models import AgentRow, HoldRow, ObservationRow
from memory_sql.db.models.observations import OUTDATED, SOUGHT
from memory_sql.db.models.shards import is_here
from memory_sql.db.repositories.sweeps import Place
from memory_sql.domain.classification import Classified

_o = ObservationRow


class Outdated(NamedTuple):
    agent_key: int
    scope_id: int
    seq: int
    content: str
    category: str | None
    tags: list[str]
    fact_key: str | None


@dataclass(frozen=True, slots=True)
class ClassificationRepository:
    _session: AsyncSession

    async def outdated(self, agent_id: str | None, default: str, after: Place, limit: int) -> list[Outdated]:
        """The next ones, at most so many, of one agent or of all whose `classification` isn't off, in order of their keys.

        Without what is held, set aside or gone. `default`: the setting of agents without one. It locks nothing.
        """
        found = await self._session.execute(
            select(*(getattr(_o, name) for name in Outdated._fields))
            .join(AgentRow, AgentRow.agent_key == _o.agent_key)
            .where(
                text(OUTDATED),
                SOUGHT,
                tuple_(_o.agent_key, _o.scope_id, _o.seq) > tuple_(*after),
                func.coalesce(AgentRow.settings["classification"].astext, default) != "off",
                true() if agent_id is None else AgentRow.agent_id == agent_id,
                is_here(_o.agent_key),
                ~_is_held(),
            )
            .order_by(_o.agent_key, _o.scope_id, _o.seq)
            .limit(limit)
        )
        return [Outdated(*row) for row in found]

    async def store(self, of: Sequence[Outdated], classified: Sequence[Classified]) -> int:
        """How many: those that nobody has changed since they were read, nor works on now."""
        done = await self._session.scalars(
            _STORE,
            {
                **{f"{name}s": [getattr(one, name) for one in of] for name in ("agent_key", "scope_id", "seq")},
                **{f"{name}_then": [getattr(one, name) for one in of] for name in ("category", "fact_key")},
                "tags_then": [_LINE.join(one.tags) for one in of],
                **{f"{name}_now": [getattr(one, name) for one in classified] for name in Classified._fields},
            },
        )
        return len(done.all())


def _is_held() -> ColumnElement[bool]:
    any_hold = select(HoldRow.hold_id).where(HoldRow.agent_key == _o.agent_key, HoldRow.released_at.is_(None)).exists()
    return and_(any_hold, func.memory.is_held_observation(_o.agent_key, _o.scope_id, _o.seq))


def _each(name: str, type_: Any) -> Any:
    return bindparam(name, type_=ARRAY(type_))


_LINE = "\x1f"
_new = (
    func.unnest(
        _each("agent_keys", BigInteger),
        _each("scope_ids", BigInteger),
        _each("seqs", Integer),
        _each("category_then", Text),
        _each("fact_key_then", Text),
        _each("tags_then", Text),
        _each("kind_now", Text),
        _each("importance_now", Double),
        _each("by_now", SmallInteger),
    )
    .table_valued(
        *("of_agent", "of_scope", "number", "was_category", "was_fact_key", "were_tags"),
        *("is_kind", "is_importance", "is_by"),
        name="new",
    )
    .render_derived()
)
_free = (
    select(_o.agent_key, _o.scope_id, _o.seq, _new.c.is_kind, _new.c.is_importance, _new.c.is_by)
    .join(_new, and_(_o.agent_key == _new.c.of_agent, _o.scope_id == _new.c.of_scope, _o.seq == _new.c.number))
    .where(
        text(OUTDATED),
        _o.category.is_not_distinct_from(_new.c.was_category),
        _o.fact_key.is_not_distinct_from(_new.c.was_fact_key),
        func.array_to_string(_o.tags, _LINE) == _new.c.were_tags,
    )
    .with_for_update(of=_o, skip_locked=True, key_share=True)
    .cte("free")
)
_STORE = (
    update(_o)
    .where(_o.agent_key == _free.c.agent_key, _o.scope_id == _free.c.scope_id, _o.seq == _free.c.seq)
    .values(kind=_free.c.is_kind, importance=_free.c.is_importance, classified_by=_free.c.is_by)
    .returning(_o.seq)
)
