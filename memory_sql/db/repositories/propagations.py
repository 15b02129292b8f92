"""What may be propagated, the decisions about it, and the results: `memory.shareable`, `judged`, `lineage`."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

from sqlalchemy import (
    ARRAY,
    REAL,
    BigInteger,
    ColumnElement,
    Integer,
    Text,
    and_,
    any_,
    cast,
    exists,
    func,
    insert,
    literal,
    or_,
    select,
    true,
    tuple_,
    update,
)
from sqlalchemy.dialects.postgresql import insert as upsert
from sqlalchemy.ext.asyncio import AsyncSession

from memory_sql.db.arrays import are_among
from memory_sql.db.hashes import content_hashes
from memory_sql.db.models import EvidenceRow, JudgedRow, LineageRow, MemberRow, ObservationRow, RunRow, ScopeRow
from memory_sql.db.repositories.corrections import CorrectionRepository
from memory_sql.db.repositories.observations import ObservationKey
from memory_sql.db.repositories.runs import ABANDONED, didnt_end
from memory_sql.db.repositories.scopes import ScopeRepository, ScopeState, in_scope, leased
from memory_sql.db.repositories.states import active_among
from memory_sql.domain.ids import ScopeKind
from memory_sql.languages.text import content_digest

OPEN = ("waiting", "released")  # outcomes after which it is judged again


@dataclass(frozen=True, slots=True)
class WiderScope:
    """A scope one level up. `scope_id` None: the collective scope, which doesn't exist yet.

    `sharing`: the setting of the group involved, if it has one of its own.
    """

    scope_id: int | None
    kind: ScopeKind
    owner: str
    display_name: str | None
    sharing: str | None = None

    @property
    def place(self) -> int | str | None:
        """A key that doesn't depend on its name: for the collective scope its owner, since it may not exist yet."""
        return self.owner if self.kind == "collective" else self.scope_id

    @property
    def group_id(self) -> str | None:
        return self.owner[2:] if self.kind == "group" else None


@dataclass(frozen=True, slots=True)
class Shareable:
    """An observation that may be judged. `outcome`: the earlier decision about it for this target."""

    scope_id: int
    seq: int
    content: str
    observed_at: datetime
    outcome: str | None = None
    category: str | None = None
    confidence: float | None = None
    until: date | None = None

    @property
    def key(self) -> ObservationKey:
        return self.scope_id, self.seq


@dataclass(frozen=True, slots=True)
class Witness:
    """A person who supports an observation. `established`: they had been known for a while when they said it."""

    name: str
    established: bool


@dataclass(frozen=True, slots=True)
class Judgement:
    source: ObservationKey
    target: int
    outcome: str
    reason: str
    seq: int | None = None


@dataclass(frozen=True, slots=True)
class PropagationRepository:
    """The caller holds the lease on the scope that is judged, or the locks on what it changes."""

    _session: AsyncSession
    _agent_key: int

    async def targets(self, scope_id: int) -> list[WiderScope]:
        found = func.memory.propagation_targets(self._agent_key, scope_id).table_valued(
            "scope_id", "kind", "owner", "display_name", "sharing"
        )
        rows = await self._session.execute(select(found).order_by(found.c.owner))
        return [WiderScope(*row) for row in rows]

    async def scopes(self, excluded: Sequence[str], sharing: str) -> list[int]:
        """The scopes with something undecided that may be judged for a wider scope; individual ones first.

        `sharing`: the agent's setting, for groups that have none of their own.
        """
        s, j = ScopeRow, JudgedRow
        target = (
            func.memory.propagation_targets(self._agent_key, s.scope_id)
            .table_valued("scope_id", "sharing")
            .lateral("target")
        )
        claim = self._shareable(s.scope_id, excluded).lateral("claim")
        same = (
            j.agent_key == self._agent_key,
            j.source_scope_id == s.scope_id,
            j.source_seq == claim.c.seq,
            j.target_scope_id == target.c.scope_id,
        )
        undecided = (
            select(claim.c.seq)
            .select_from(target)
            .join(claim, true())
            .outerjoin(j, and_(*same))
            .where(func.coalesce(target.c.sharing, sharing) != "off", or_(j.outcome.is_(None), j.outcome.in_(OPEN)))
            .where(_concerns(claim.c.proposed, target.c.scope_id))
            .correlate(s)
        )
        wanted = (s.agent_key == self._agent_key, s.kind.in_(("individual", "group")), s.is_active, s.done_seq > 0)
        found = await self._session.scalars(
            select(s.scope_id).where(*wanted, undecided.exists()).order_by(s.kind.desc(), s.scope_id)
        )
        return list(found)

    async def candidates(
        self, scope_id: int, target: WiderScope, excluded: Sequence[str], limit: int, *, new_only: bool = False
    ) -> list[Shareable]:
        """What may be judged for this target: first what never was, then what waits, longest first."""
        shareable, j, o = self._shareable(scope_id, excluded), JudgedRow, ObservationRow

        def judged(of: Any) -> Any:  # each by its key, whatever the planner thinks of how many there are
            its = (j.source_scope_id == scope_id, j.source_seq == of.c.seq, j.target_scope_id == target.scope_id)
            found = select(j.outcome, j.judged_at).where(j.agent_key == self._agent_key, *its)
            return found.correlate(of).offset(0).lateral()

        def undecided(its: Any) -> ColumnElement[bool]:
            return or_(its.c.outcome.is_(None), *(() if new_only else (its.c.outcome.in_(OPEN),)))

        its, before, c = judged(shareable), judged(o.__table__), shareable.c
        # Decided ones are excluded first: checking whether something may be shared takes longer, and most of a scope is old.
        seqs = (
            select(o.seq)
            .outerjoin(before, true())
            .where(o.agent_key == self._agent_key, o.scope_id == scope_id, undecided(before))
        )
        found = await self._session.execute(
            select(c.seq, c.content, c.observed_at, its.c.outcome, c.category, c.confidence, c.until)
            .select_from(shareable)
            .outerjoin(its, true())
            .where(undecided(its), _concerns(shareable.c.proposed, target.scope_id))
            .where(shareable.c.seq == any_(func.array(seqs.scalar_subquery())))
            .order_by(func.coalesce(its.c.outcome == "waiting", False), its.c.judged_at, shareable.c.seq)
            .limit(limit)
        )
        return [Shareable(scope_id, *row) for row in found]

    async def still_shareable(self, keys: Collection[ObservationKey], excluded: Sequence[str]) -> set[ObservationKey]:
        """Those of these that may still be judged."""
        by_scope: dict[int, list[int]] = {}
        for scope_id, seq in sorted(keys):
            by_scope.setdefault(scope_id, []).append(seq)
        still = set[ObservationKey]()
        for scope_id, seqs in by_scope.items():
            shareable = self._shareable(scope_id, excluded)
            found = await self._session.scalars(select(shareable.c.seq).where(shareable.c.seq.in_(seqs)))
            still |= {(scope_id, seq) for seq in found}
        return still

    def _shareable(self, scope_id: Any, excluded: Sequence[str]) -> Any:
        o = ObservationRow
        columns = (o.seq, o.content, o.observed_at, o.proposed, o.category, o.confidence, o.until)
        return func.memory.shareable(self._agent_key, scope_id, cast(list(excluded), ARRAY(Text))).table_valued(
            *(item.expression for item in columns), name="shareable"
        )

    async def peers(self, scope_id: int, target: WiderScope, limit: int) -> list[int]:
        found = func.memory.peers(self._agent_key, scope_id, target.scope_id, limit).table_valued("scope_id")
        return list(await self._session.scalars(select(found.c.scope_id).order_by(found.c.scope_id)))

    async def epochs(self, scope_ids: Sequence[int]) -> dict[int, int]:
        return await ScopeRepository(self._session).epochs(self._agent_key, scope_ids)

    async def outcomes(self, keys: Collection[ObservationKey], target: WiderScope) -> dict[ObservationKey, str]:
        """The decisions about these for the target, where there are any."""
        j = JudgedRow
        found = await self._session.execute(
            select(j.source_scope_id, j.source_seq, j.outcome).where(
                j.agent_key == self._agent_key,
                tuple_(j.source_scope_id, j.source_seq).in_(sorted(keys)),
                j.target_scope_id == target.scope_id,
            )
        )
        return {(row.source_scope_id, row.source_seq): row.outcome for row in found}

    async def alike(
        self, candidate: Shareable, peers: Sequence[int], excluded: Sequence[str], limit: int
    ) -> list[Shareable]:
        """Observations of the peers with words in common with it, the closest first."""
        found = func.memory.alike(
            self._agent_key,
            candidate.scope_id,
            candidate.seq,
            cast(list(excluded), ARRAY(Text)),
            cast(list(peers), ARRAY(BigInteger)),
            limit,
        ).table_valued("scope_id", "seq", "content", "observed_at")
        return [Shareable(*row) for row in await self._session.execute(select(found))]

    async def people(self, keys: Collection[ObservationKey], new_days: float) -> dict[ObservationKey, list[Witness]]:
        """The people who support each of these."""
        ordered = sorted(set(keys))
        found = func.memory.people_behind(
            self._agent_key,
            cast([scope_id for scope_id, _ in ordered], ARRAY(BigInteger)),
            cast([seq for _, seq in ordered], ARRAY(Integer)),
            cast(new_days, REAL),
        ).table_valued("scope_id", "seq", "person", "established")
        people: dict[ObservationKey, list[Witness]] = {key: [] for key in ordered}
        for row in await self._session.execute(select(found).order_by(found.c.person)):
            people[row.scope_id, row.seq].append(Witness(row.person, row.established))
        return people

    async def too_few_behind(
        self, least: int, user_ids: Collection[str] = (), scope_ids: Collection[int] = ()
    ) -> list[ObservationKey]:
        """Collective observations that fewer than `least` people support: of those made of what these users have said, among
        others, or of what stands in these scopes."""
        e, link, s = EvidenceRow, LineageRow, ScopeRow
        said = and_(e.agent_key == link.agent_key, e.scope_id == link.source_scope_id, e.seq == link.source_seq)
        made = select(link.scope_id, link.seq).where(link.agent_key == self._agent_key)
        made = (
            made.where(link.source_scope_id.in_(scope_ids))
            if scope_ids
            else made.join(e, said).where(e.user_id.in_(user_ids))
        )
        line = made.cte("line", recursive=True)
        line = line.union(
            select(link.scope_id, link.seq).where(
                link.agent_key == self._agent_key,
                link.source_scope_id == line.c.scope_id,
                link.source_seq == line.c.seq,
            )
        )
        collective = and_(s.agent_key == self._agent_key, s.scope_id == line.c.scope_id, s.kind == "collective")
        found = await self._session.execute(select(line.c.scope_id, line.c.seq).join(s, collective))
        people = await self.people([(row.scope_id, row.seq) for row in found], 0)
        return [key for key, behind in people.items() if len(behind) < least]

    async def names(self, scope_ids: Collection[int], limit: int) -> set[str]:
        """Names of the people around these scopes: the owners' ids, those of members, and the speakers."""
        s, m = ScopeRow, MemberRow
        here = (s.agent_key == self._agent_key, s.scope_id.in_(sorted(scope_ids)))
        found = await self._session.execute(select(s.kind, s.owner, s.display_name, s.speakers).where(*here))
        names = set[str]()
        for row in found:
            own = {row.owner.partition(":")[2], row.display_name} if row.kind == "individual" else set()
            names |= {*own, *row.speakers}
        own_scope = and_(s.agent_key == m.agent_key, s.owner == func.concat("u:", m.user_id), s.name == "")
        members = await self._session.execute(
            select(m.user_id, s.display_name)
            .outerjoin(s, own_scope)
            .where(m.agent_key == self._agent_key, m.scope_id.in_(sorted(scope_ids)))
            .order_by(m.left_at.is_not(None), m.joined_at.desc())
            .limit(limit)
        )
        return {name for name in (*names, *(name for member in members for name in member)) if name}

    async def group_names(self, scope_ids: Collection[int] | None, limit: int | None = None) -> set[str]:
        """The names of these groups, or of all, most recently active first."""
        s = ScopeRow
        which = s.kind == "group" if scope_ids is None else s.scope_id.in_(sorted(scope_ids))
        found = await self._session.execute(
            select(s.owner, s.display_name)
            .where(s.agent_key == self._agent_key, which)
            .order_by(s.last_activity_at.desc().nulls_last(), s.scope_id)
            .limit(limit)
        )
        return {name for row in found for name in (row.owner.partition(":")[2], row.display_name) if name}

    async def known(self, target: ScopeState, digests: Sequence[bytes]) -> Mapping[bytes | None, int]:
        """Which of these texts an active observation of the target already has, and which observation."""
        hashes = await content_hashes(self._session, [(target.scope_id, digest) for digest in digests])
        active = await active_among(self._session, target, list(hashes.values()))
        return {digest: active[hashed] for (_, digest), hashed in hashes.items() if hashed in active}

    async def digests(self, keys: Collection[ObservationKey]) -> dict[bytes | None, int]:
        """The numbers of these observations, all of one scope, by the digest of their text."""
        o = ObservationRow
        found = await self._session.execute(
            select(o.content, o.seq).where(o.agent_key == self._agent_key, tuple_(o.scope_id, o.seq).in_(sorted(keys)))
        )
        return {content_digest(row.content): row.seq for row in found}

    async def made_by_propagation(self, target: ScopeState, seqs: Sequence[int]) -> set[int]:
        found = await self._session.scalars(
            select(ObservationRow.seq).where(
                in_scope(ObservationRow, target),
                ObservationRow.seq.in_(seqs),
                ObservationRow.source_kind == "propagation",
            )
        )
        return set(found)

    async def vouch(self, made: ObservationKey, run_id: int, now: datetime) -> None:
        """Adds evidence to what was made: it has sources, and names nobody. Only once, even if it had lost its sources."""
        e, columns = EvidenceRow, ("agent_key", "scope_id", "seq", "run_id", "created_at")
        of_it = and_(e.agent_key == self._agent_key, e.scope_id == made[0], e.seq == made[1])
        vouched = exists().where(of_it, e.run_id.is_not(None), e.user_id.is_(None), e.conversation_id.is_(None))
        values = (self._agent_key, made[0], made[1], run_id, now)
        row = select(*(literal(value, e.__table__.c[name].type) for name, value in zip(columns, values, strict=True)))
        await self._session.execute(insert(e).from_select(columns, row.where(~vouched)))

    async def made_of_predecessors(self, source: ObservationKey, target: ScopeState) -> list[int]:
        """Target observations made only from what this one superseded, and that nobody has stated in the target."""
        line = await CorrectionRepository(self._session, self._agent_key).with_predecessors(source)
        older, link = [key for key in line if key != source], LineageRow
        of_them = tuple_(link.source_scope_id, link.source_seq).in_(older)
        e = EvidenceRow
        behind = and_(e.agent_key == link.agent_key, e.scope_id == link.scope_id, e.seq == link.seq)
        said_there = exists().where(behind, or_(e.user_id.is_not(None), e.run_id.is_(None)))
        found = await self._session.scalars(
            select(link.seq)
            .where(in_scope(link, target), ~said_there)
            .group_by(link.seq)
            .having(func.bool_and(of_them))
        )
        return sorted(found) if older else []

    async def judge(self, judgements: Sequence[Judgement], run_id: int | None, now: datetime) -> None:
        """Records the decisions. An earlier one is replaced only if it is open, or held and now propagated with another."""
        if not judgements:
            return
        rows = [
            {
                "agent_key": self._agent_key,
                "source_scope_id": item.source[0],
                "source_seq": item.source[1],
                "target_scope_id": item.target,
                "outcome": item.outcome,
                "reason": item.reason,
                "seq": item.seq,
                "run_id": run_id,
                "judged_at": now,
            }
            for item in judgements
        ]
        statement = upsert(JudgedRow).values(rows)
        await self._session.execute(
            statement.on_conflict_do_update(
                index_elements=["agent_key", "source_scope_id", "source_seq", "target_scope_id"],
                set_={name: statement.excluded[name] for name in ("outcome", "reason", "seq", "run_id", "judged_at")},
                where=or_(
                    JudgedRow.outcome.in_(OPEN),
                    and_(JudgedRow.outcome == "held", statement.excluded.outcome == "propagated"),
                ),
            )
        )

    async def reopen(self, made: Collection[ObservationKey], but: Collection[ObservationKey], now: datetime) -> None:
        """Something merged from several sources is removed because of one of them: the other sources are judged again."""
        j = JudgedRow
        changed = (
            update(j)
            .where(
                j.agent_key == self._agent_key,
                are_among((j.target_scope_id, j.seq), made),
                ~are_among((j.source_scope_id, j.source_seq), but),
            )
            .values(outcome="waiting", reason="lost_a_source", seq=None)
            .returning(j.source_scope_id)
            .cte("changed")
        )
        await self._session.execute(
            update(ScopeRow)
            .where(ScopeRow.agent_key == self._agent_key, ScopeRow.scope_id.in_(select(changed.c.source_scope_id)))
            .values(_due_anew(now))
        )

    async def finish(
        self, scope: ScopeState, again_at: datetime | None, now: datetime, *conditions: ColumnElement[bool]
    ) -> bool:
        """Releases the lease, and ends runs under an older one.

        Returns False if the lease has passed to somebody else, or the scope doesn't meet these conditions.
        """
        r = RunRow
        abandoned = (
            update(r)
            .where(r.agent_key == scope.agent_key, r.scope_id == scope.scope_id, r.fence < scope.fence, didnt_end())
            .values(ABANDONED | {"finished_at": now})
            .cte("abandoned")
        )
        finished = await self._session.scalar(
            update(ScopeRow)
            .where(leased(scope), *conditions)
            .values(
                lease_until=None,
                propagated_at=now,
                propagated_version=scope.version,
                propagate_at=again_at,
                propagation_failures=0,
                propagation_errors=func.greatest(ScopeRow.propagation_errors - 1, 0),  # batches grow again step by step
            )
            .returning(ScopeRow.scope_id)
            .add_cte(abandoned)
        )
        return finished is not None

    async def finish_at_once(self, scope: ScopeState, now: datetime) -> bool:
        """As `finish`, if nothing may be judged; False: the text has changed, or something was deleted, since."""
        return await self.finish(scope, None, now, ScopeRow.version == scope.version, ScopeRow.epoch == scope.epoch)

    async def review(self, source: ObservationKey, target: int, outcome: str, now: datetime) -> bool:
        """A person releases or refuses a held claim; False: it isn't held."""
        j = JudgedRow
        changed = await self._session.scalar(
            update(j)
            .where(
                j.agent_key == self._agent_key,
                j.source_scope_id == source[0],
                j.source_seq == source[1],
                j.target_scope_id == target,
                j.outcome == "held",
            )
            .values(outcome=outcome, reason="reviewed", run_id=None, judged_at=now)
            .returning(j.source_seq)
        )
        if changed is not None and outcome == "released":
            await self._session.execute(
                update(ScopeRow)
                .where(ScopeRow.agent_key == self._agent_key, ScopeRow.scope_id == source[0])
                .values(_due_anew(now))
            )
        return changed is not None


def _concerns(proposed: Any, scope_id: Any) -> Any:
    """Whether it may be offered to this scope: what was meant for one group isn't offered to others."""
    return or_(proposed.is_(None), proposed == "collective", proposed == func.concat("s", scope_id))


def _due_anew(now: datetime) -> dict[str, Any]:
    """Makes the scope due again: work in progress began too early to take this into account."""
    is_leased = ScopeRow.lease_until.is_not(None)
    return {
        "propagate_at": func.coalesce(ScopeRow.propagate_at, now),
        "fence": ScopeRow.fence + cast(is_leased, Integer),
        "lease_until": None,
    }
