"""The reviews that wait for a person: one list of five kinds."""

from __future__ import annotations

import re
from dataclasses import dataclass

from sqlalchemy import BigInteger, Boolean, Integer, and_, column, exists, func, literal_column, select, true
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import aliased

from memory_sql.config import Settings
from memory_sql.db.models import ConversationRow, EventRow, JudgedRow, ObservationRow, RunRow, ScopeRow
from memory_sql.db.participants import members_who_spoke
from memory_sql.db.queries.held_claims import can_be_shared, defaults_of, of_agents, rules
from memory_sql.db.queries.requests import RequestKey, Requests, SpokenKey, looked_up
from memory_sql.db.scope_parts import pending_observations
from memory_sql.domain.ids import observation_id
from memory_sql.domain.results import Review
from memory_sql.errors import InvalidIdError

_IS_ALIAS = EventRow.kind == literal_column("'alias'")  # as in the condition of its index
HEARD_BY_ONE = "heard_by_one"  # in the event of a merge: the keys of what it has found
REVIEW_IDS = "must look like o12-3>s4, s12v3-4, g12-3, r17, q12-3 or q17"
_ID = re.compile(
    r"o(?P<source_scope>\d{1,18})-(?P<source>\d{1,9})>s(?P<target>\d{1,18})"
    r"|s(?P<scope>\d{1,18})v(?P<version>\d{1,9})-(?P<older>\d{1,9})|r(?P<run>\d{1,18})"
    r"|g(?P<group>\d{1,18})-(?P<seq>\d{1,9})|q(?P<spoken>\d{1,18})|q(?P<asked_scope>\d{1,18})-(?P<asked>\d{1,9})"
)


@dataclass(frozen=True, slots=True)
class HeldClaimKey:
    source: tuple[int, int]
    target_scope_id: int

    def __str__(self) -> str:
        return f"{observation_id(*self.source)}>s{self.target_scope_id}"


@dataclass(frozen=True, slots=True)
class HeldContradictionKey:
    scope_id: int
    version: int
    older: int

    def __str__(self) -> str:
        return f"s{self.scope_id}v{self.version}-{self.older}"


@dataclass(frozen=True, slots=True)
class HeldContradiction:
    """`still`: what else the older one says and still holds."""

    newer: int
    still: str | None


@dataclass(frozen=True, slots=True)
class HeardByOneKey:
    scope_id: int
    seq: int

    def __str__(self) -> str:
        return f"g{self.scope_id}-{self.seq}"


@dataclass(frozen=True, slots=True)
class HeldTextKey:
    run_id: int

    def __str__(self) -> str:
        return f"r{self.run_id}"


ReviewKey = HeldClaimKey | HeldContradictionKey | HeardByOneKey | HeldTextKey | RequestKey | SpokenKey


def parse_review_id(value: str) -> ReviewKey:
    """Raises `InvalidIdError`."""
    found = _ID.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        raise InvalidIdError("review id", REVIEW_IDS)
    if found["run"]:
        return HeldTextKey(int(found["run"]))
    if found["spoken"]:
        return SpokenKey(int(found["spoken"]))
    if found["asked"]:
        return RequestKey(int(found["asked_scope"]), int(found["asked"]))
    if found["group"]:
        return HeardByOneKey(int(found["group"]), int(found["seq"]))
    if found["scope"]:
        return HeldContradictionKey(int(found["scope"]), int(found["version"]), int(found["older"]))
    return HeldClaimKey((int(found["source_scope"]), int(found["source"])), int(found["target"]))


@dataclass(frozen=True, slots=True)
class Reviews:
    _session: AsyncSession
    _agent_key: int

    async def waiting(self, limit: int, settings: Settings) -> list[Review]:
        """Reviews of all kinds, oldest first. Not of a claim that, as things are now, can't be shared any more."""
        found = [*await self._claims(limit, settings), *await self._contradictions(limit), *await self._texts(limit)]
        found += await self.heard_by_one(limit)
        requests = Requests(self._session, self._agent_key)
        found += [*await requests.waiting(limit), *await requests.spoken(limit)]
        return sorted(found, key=lambda item: (item.since, item.id))[:limit]

    async def _claims(self, limit: int, settings: Settings) -> list[Review]:
        j, o = JudgedRow, ObservationRow
        found = await self._session.execute(
            select(j.source_scope_id, j.source_seq, j.target_scope_id, j.reason, j.judged_at, o.content)
            .join(o, and_(o.agent_key == j.agent_key, o.scope_id == j.source_scope_id, o.seq == j.source_seq))
            .join(rules, of_agents)
            .where(j.agent_key == self._agent_key, can_be_shared)
            .order_by(j.judged_at, j.source_scope_id, j.source_seq)
            .limit(limit),
            defaults_of(settings),
        )
        return [
            Review(
                id=str(HeldClaimKey((row.source_scope_id, row.source_seq), row.target_scope_id)),
                kind="claim",
                scope_id=row.source_scope_id,
                why=row.reason,
                since=row.judged_at,
                says=row.content,
                target_scope_id=row.target_scope_id,
            )
            for row in found
        ]

    async def _contradictions(self, limit: int) -> list[Review]:
        held = func.memory.held_contradictions(self._agent_key).table_valued(
            "scope_id", "version", "older", "says", "instead_of", "still", column("too_much", Boolean), "created_at"
        )
        found = await self._session.execute(
            select(held).order_by(held.c.created_at, held.c.scope_id, held.c.older).limit(limit)
        )
        return [
            Review(
                id=str(HeldContradictionKey(row.scope_id, row.version, row.older)),
                kind="contradiction",
                scope_id=row.scope_id,
                why="too_many" if row.too_much else "still",
                since=row.created_at,
                says=row.says if row.too_much else row.still,
                instead_of=row.instead_of,
                still=row.still,
            )
            for row in found
        ]

    async def _texts(self, limit: int) -> list[Review]:
        """Of scopes that are as they were, with all that these texts would absorb."""
        s = ScopeRow
        # In the order of their index, since nothing tells the planner how few they are: it would read all runs.
        held = select(RunRow).where(RunRow.agent_key == self._agent_key, literal_column("runs.held IS NOT NULL"))
        r = held.order_by(RunRow.scope_id, RunRow.run_id).offset(0).subquery("held").c
        absorbed = func.jsonb_array_elements_text(r.held["inputs"]).column_valued("absorbed")
        pending = pending_observations(s.agent_key, s.scope_id, s.done_seq)
        waits = absorbed.cast(Integer).in_(select(pending.c.seq))
        found = await self._session.execute(
            select(
                r.run_id,
                r.scope_id,
                r.finished_at,
                r.held["text"].astext.label("text"),
                r.held["unsaid"].label("unsaid"),
                (r.state == "succeeded").label("is_beside"),
                s.consolidation,
            )
            .join(s, and_(s.agent_key == r.agent_key, s.scope_id == r.scope_id))
            .where(
                r.held["version"].astext.cast(Integer) == s.version,
                r.held["epoch"].astext.cast(Integer) == s.epoch,
                ~exists(select(absorbed).where(~waits)),
            )
            .order_by(r.run_id)
            .limit(limit)
        )
        return [
            Review(
                id=str(HeldTextKey(row.run_id)),
                kind="text",
                scope_id=row.scope_id,
                why="left_out" if row.unsaid is None else "unsaid",
                since=row.finished_at,
                says="\n".join(row.unsaid) if row.unsaid and row.is_beside else row.text,
                instead_of=None if row.unsaid and row.is_beside else row.consolidation,
            )
            for row in found
        ]

    async def heard_by_one(self, limit: int, key: HeardByOneKey | None = None) -> list[Review]:
        """What a merge of users has found in a group (`people.merge`), while it is in use and they are one; or that one."""
        e, o, s, c, v, main = EventRow, ObservationRow, ScopeRow, ConversationRow, aliased(EventRow), aliased(ScopeRow)
        item = (
            func.jsonb_array_elements(e.detail[HEARD_BY_ONE])
            .table_valued(column("key", JSONB), name="item")
            .render_derived()
        )
        scope_id, seq = item.c.key[0].astext.cast(BigInteger), item.c.key[1].astext.cast(Integer)
        decided = looked_up(
            v,
            v.agent_key == e.agent_key,
            v.kind == "review",
            v.event_id > e.event_id,
            v.scope_id == o.scope_id,
            v.seq == o.seq,
            v.version.is_(None),  # not of a contradiction
            ~v.detail.has_key("for"),  # nor of a claim
        )
        counted = members_who_spoke(self._agent_key, main)
        found = await self._session.execute(
            select(o.scope_id, o.seq, o.content, func.min(e.created_at).label("since"))
            .select_from(e)
            .join(item, true())
            .join(o, and_(o.agent_key == e.agent_key, o.scope_id == scope_id, o.seq == seq))
            .join(s, and_(s.agent_key == o.agent_key, s.scope_id == o.scope_id))
            .join(main, and_(main.agent_key == s.agent_key, main.owner == s.owner, main.name == ""))
            .join(c, and_(c.agent_key == o.agent_key, c.conversation_id == o.conversation_id))
            .join(counted, true())
            .where(e.agent_key == self._agent_key, _IS_ALIAS, e.detail.has_key(HEARD_BY_ONE))
            .where(o.standing == "active", counted.c.person, ~decided)
            .where(true() if key is None else and_(o.scope_id == key.scope_id, o.seq == key.seq))
            .group_by(o.scope_id, o.seq, o.content)
            .order_by(func.min(e.created_at), o.scope_id, o.seq)
            .limit(limit)
        )
        return [
            Review(
                id=str(HeardByOneKey(row.scope_id, row.seq)),
                kind="group",
                scope_id=row.scope_id,
                why="heard_by_one",
                since=row.since,
                says=row.content,
            )
            for row in found
        ]

    async def named_by(self, key: HeldContradictionKey) -> HeldContradiction | None:
        """What would supersede the older one; None: the contradiction no longer waits."""
        held = func.memory.held_contradictions(self._agent_key).table_valued(
            *map(column, ("scope_id", "version", "older", "newer", "still"))
        )
        found = await self._session.execute(
            select(held.c.newer, held.c.still).where(
                held.c.scope_id == key.scope_id, held.c.version == key.version, held.c.older == key.older
            )
        )
        row = found.one_or_none()
        return None if row is None else HeldContradiction(row.newer, row.still)
