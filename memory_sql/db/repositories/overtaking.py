"""What is looked at before one observation overtakes another: who said both, what gave way lately, what people decided."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import and_, func, or_, select, union
from sqlalchemy.ext.asyncio import AsyncSession

from memory_sql.db.arrays import among
from memory_sql.db.models import ConsolidationRow, EventRow, EvidenceRow, ObservationRow, ObservationStateRow, ScopeRow
from memory_sql.db.repositories.scopes import ScopeState, in_scope

Authors = set[str | None]  # None: the host
_e, _v, _c, _o, _t = EvidenceRow, EventRow, ConsolidationRow, ObservationRow, ObservationStateRow


@dataclass(frozen=True, slots=True)
class OvertakingRepository:
    _session: AsyncSession

    async def authors(self, scope: ScopeState, seqs: Collection[int]) -> dict[int, Authors]:
        """Who said each of these, whichever of their ids they said it under; None: the host."""
        found = await self._authors(scope.agent_key, {(scope.scope_id, seq) for seq in seqs})
        return {seq: authors for (_, seq), authors in found.items()}

    async def _authors(self, agent_key: int, keys: Collection[tuple[int, int]]) -> dict[tuple[int, int], Authors]:
        authors: dict[tuple[int, int], Authors] = {key: set() for key in keys}
        if not authors:
            return authors
        person = func.memory.person(_e.agent_key, _e.user_id)
        scopes, seqs = ({key[n] for key in keys} for n in (0, 1))
        found = await self._session.execute(
            select(_e.scope_id, _e.seq, person).where(
                _e.agent_key == agent_key,
                among(_e.scope_id, sorted(scopes)),
                among(_e.seq, sorted(seqs)),
                _e.withdrawn_by.is_(None),
            )
        )
        for where, seq, user_id in found:
            authors.get((where, seq), set()).add(user_id)
        return authors

    async def given_way_since(self, scope: ScopeState, since: datetime) -> list[tuple[Authors, Authors]]:
        """Who said the newer and the older observation of what versions written since then have overtaken, undone or not.

        In any scope of the same owner: what is told of a group stands in several.
        """
        found = await self._named_since(scope, since, of_owner=True)
        pairs = [((where, item["newer"]), (where, item["older"])) for where, item in found if not item.get("held")]
        authors = await self._authors(scope.agent_key, {key for pair in pairs for key in pair})
        return [(authors[newer], authors[older]) for newer, older in pairs]

    async def asked_since(self, scope: ScopeState, since: datetime) -> set[int]:
        """What versions written since then would have overtaken, had it not waited for a person."""
        return {item["older"] for _, item in await self._named_since(scope, since) if item.get("held")}

    async def _named_since(
        self, scope: ScopeState, since: datetime, *, of_owner: bool = False
    ) -> list[tuple[int, dict[str, Any]]]:
        """By the keys of their scopes."""
        owned = select(ScopeRow.scope_id).where(ScopeRow.agent_key == scope.agent_key, ScopeRow.owner == scope.owner)
        here = and_(_c.agent_key == scope.agent_key, _c.scope_id.in_(owned)) if of_owner else in_scope(_c, scope)
        found = await self._session.execute(
            select(_c.scope_id, _c.contradictions).where(
                here, _c.created_at > since, func.jsonb_array_length(_c.contradictions) > 0
            )
        )
        return [(where, item) for where, items in found for item in items if item["older"] is not None]

    async def in_use(self, scope: ScopeState, seqs: Collection[int]) -> dict[int, bool]:
        """Those of these that are in use; whether each is disputed."""
        found = await self._session.execute(
            select(_o.seq, _t.verification.is_not_distinct_from("disputed").label("is_disputed"))
            .outerjoin(_t, and_(in_scope(_t, scope), _t.seq == _o.seq))
            .where(in_scope(_o, scope), among(_o.seq, seqs), func.memory.in_use(_t.status))
        )
        return {row.seq: row.is_disputed for row in found}

    async def decided_since(
        self, scope: ScopeState, newer: Collection[int], older: Collection[int], since: datetime, run_id: int
    ) -> set[int]:
        """Those of which a person has decided something since then, and older ones said again after this run had begun.

        Again by what another run found, which may have begun sooner, or by somebody's own statement.

        A legal hold that was placed or ended meanwhile may concern each of them.
        """
        seqs = {*newer, *older}
        by_people: tuple[Any, ...] = (
            _v.agent_key == scope.agent_key,
            _v.run_id.is_(None),
            _v.created_at > since,
        )
        about = select(_v.seq).where(*by_people, in_scope(_v, scope), among(_v.seq, seqs))
        stated = and_(_e.said_at.is_not(None), _e.created_at > since)
        again = select(_e.seq).where(in_scope(_e, scope), among(_e.seq, older), or_(_e.run_id > run_id, stated))
        decided = set(await self._session.scalars(union(about, again)))
        holds = select(func.count()).select_from(_v).where(*by_people, _v.kind == "hold")
        return seqs if await self._session.scalar(holds) else decided
