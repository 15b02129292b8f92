"""What goes when something is forgotten, and taking it out: `memory.forget_closure`, `tainted_versions`, `erase`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Select, and_, any_, cast, exists, func, or_, select, tuple_, union, update
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.dialects.postgresql import insert as upsert
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.types import ARRAY, BigInteger, Integer, Text

from memory_sql.db.arrays import among, are_among
from memory_sql.db.models import (
    Base,
    ConversationRow,
    EventRow,
    EvidenceRow,
    ForgottenRefRow,
    ImportedMessageRow,
    ImportedRow,
    JudgedRow,
    LineageRow,
    MessageRow,
    ObservationRow,
    ScopeRow,
)
from memory_sql.db.participants import took_part
from memory_sql.db.repositories.aliases import user_ids
from memory_sql.db.repositories.events import record
from memory_sql.domain.ids import observation_id, owner_key, parse_observation_id
from memory_sql.domain.query import Query, Weights
from memory_sql.domain.results import Kept, Receipt
from memory_sql.domain.selection import Selection


@dataclass(frozen=True, slots=True)
class Seeds:
    """Where a forgetting begins: all that `users` said, whole `conversations` and `scopes`, single observations, messages.

    `confirmable`: what was said there stays if the same person has said so elsewhere. `attended` are the conversations
    that lose the users as participants; what others said there stays.
    """

    users: tuple[str, ...] = ()
    conversations: tuple[str, ...] = ()
    scopes: tuple[int, ...] = ()
    observations: tuple[tuple[int, int], ...] = ()
    messages: tuple[tuple[str, int], ...] = ()
    confirmable: bool = True
    attended: tuple[str, ...] = ()

    @property
    def arguments(self) -> dict[str, Any]:
        return {
            "users": cast(list(self.users), ARRAY(Text)),
            "conversations": cast(list(self.conversations), ARRAY(Text)),
            "scopes": cast(list(self.scopes), ARRAY(BigInteger)),
            "scope_ids": cast([scope_id for scope_id, _ in self.observations], ARRAY(BigInteger)),
            "seqs": cast([seq for _, seq in self.observations], ARRAY(Integer)),
            "conversation_ids": cast([conversation_id for conversation_id, _ in self.messages], ARRAY(Text)),
            "numbers": cast([number for _, number in self.messages], ARRAY(BigInteger)),
            "confirmable": self.confirmable,
        }


@dataclass(frozen=True, slots=True)
class Taken:
    """Rows that go, each kind in order."""

    observations: tuple[tuple[int, int], ...] = ()
    messages: tuple[tuple[str, int], ...] = ()
    evidence: tuple[int, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.observations or self.messages or self.evidence)

    def __or__(self, other: Taken) -> Taken:
        return Taken(
            tuple(sorted(self.observations + other.observations)),
            tuple(sorted(self.messages + other.messages)),
            tuple(sorted(self.evidence + other.evidence)),
        )

    @property
    def arrays(self) -> dict[str, Any]:
        return {
            "scope_ids": cast([scope_id for scope_id, _ in self.observations], ARRAY(BigInteger)),
            "seqs": cast([seq for _, seq in self.observations], ARRAY(Integer)),
            "conversation_ids": cast([conversation_id for conversation_id, _ in self.messages], ARRAY(Text)),
            "numbers": cast([number for _, number in self.messages], ARRAY(BigInteger)),
            "evidence_ids": cast(list(self.evidence), ARRAY(BigInteger)),
        }


@dataclass(frozen=True, slots=True)
class Closure:
    """All that goes: what is `erased`, and what a legal hold keeps, which is `withdrawn`.

    `heard`: the scopes of the evidence, where what others support as well stays without the speaker's name, and
    those of other sources of what goes.
    """

    erased: Taken = Taken()
    withdrawn: Taken = Taken()
    heard: tuple[int, ...] = ()

    @property
    def going(self) -> Taken:
        return self.erased | self.withdrawn

    @property
    def conversations(self) -> list[str]:
        return sorted({conversation_id for conversation_id, _ in self.going.messages})

    @property
    def scopes(self) -> set[int]:
        """Those that lose something."""
        return {*self.heard, *(scope_id for scope_id, _ in self.going.observations)}


@dataclass(frozen=True, slots=True)
class ForgettingRepository:
    _session: AsyncSession
    _agent_key: int

    async def seeds(self, selection: Selection, words: Query | None = None) -> Seeds:
        """Where to begin; empty where there is nothing of the kind. `words` are those of its query."""
        if selection.message_id is not None:
            return Seeds(messages=await self._message(selection), confirmable=False)
        if selection.selects_observations:
            return Seeds(observations=await self.selected(selection, words))
        if selection.user_id is not None:
            return await self._person(selection.user_id, about=selection.about)
        if selection.group_id is not None:
            scopes = await self._scopes([owner_key("group", selection.group_id)])
            return Seeds(conversations=await self._of_group_alone(selection.group_id), scopes=scopes)
        assert selection.conversation_id is not None  # checked by Selection
        return Seeds(
            conversations=(selection.conversation_id,),
            scopes=await self._scopes([owner_key("conversation", selection.conversation_id)]),
            observations=await self._stated_in(selection.conversation_id),
            confirmable=False,
        )

    async def _message(self, selection: Selection) -> tuple[tuple[str, int], ...]:
        m = MessageRow
        found = await self._session.execute(
            select(m.conversation_id, m.number).where(
                m.agent_key == self._agent_key,
                m.conversation_id == selection.conversation_id,
                m.message_id == selection.message_id,
            )
        )
        return tuple((row.conversation_id, row.number) for row in found)

    async def _person(self, user_id: str, *, about: bool) -> Seeds:
        """The user with the ids that stand for them: their scopes, the conversations in which nobody else spoke.

        With `about` also what speaks of them alone, whoever said it.
        """
        users = await self._ids_of(user_id)
        them = cast(list(users), ARRAY(Text))
        # Who was forgotten is no participant any more; what a hold has kept is still theirs.
        somebodys = or_(ConversationRow.participants != cast([], ARRAY(Text)), ConversationRow.user_id.in_(users))
        conversations = await self._conversations(took_part(self._agent_key, them, "<@"), somebodys)
        owners = [owner_key(kind, user) for user in users for kind in ("individual", "entity")]
        owners += [owner_key("conversation", conversation_id) for conversation_id in conversations]
        o = ObservationRow
        of_them_alone = select(o.scope_id, o.seq).where(_about(users), o.subjects.op("<@")(them))
        return Seeds(
            users=users,
            conversations=conversations,
            scopes=await self._scopes(owners),
            observations=await self._keys(of_them_alone) if about else (),
            attended=await self.attended(users),
        )

    async def attended(self, users: Sequence[str]) -> tuple[str, ...]:
        """The conversations in which any of them took part."""
        return await self._conversations(took_part(self._agent_key, list(users)))

    async def _conversations(self, *conditions: Any) -> tuple[str, ...]:
        found = await self._session.scalars(
            select(ConversationRow.conversation_id).where(*conditions).order_by(ConversationRow.conversation_id)
        )
        return tuple(found)

    async def _ids_of(self, user_id: str) -> tuple[str, ...]:
        ids = user_ids(self._agent_key, user_id)
        return tuple(await self._session.scalars(select(ids.c.user_id).order_by(ids.c.user_id)))

    async def _scopes(self, owners: Sequence[str]) -> tuple[int, ...]:
        found = await self._session.scalars(
            select(ScopeRow.scope_id)
            .where(ScopeRow.agent_key == self._agent_key, ScopeRow.owner == any_(cast(owners, ARRAY(Text))))
            .order_by(ScopeRow.scope_id)
        )
        return tuple(found)

    async def _of_group_alone(self, group_id: str) -> tuple[str, ...]:
        """The group's conversations behind which nothing stands that isn't the group's."""
        e, o, s = EvidenceRow, ObservationRow, ScopeRow
        others = (
            select(e.evidence_id)
            .join(o, and_(o.agent_key == e.agent_key, o.scope_id == e.scope_id, o.seq == e.seq))
            .join(s, and_(s.agent_key == e.agent_key, s.scope_id == e.scope_id))
            .where(
                e.agent_key == self._agent_key,
                e.conversation_id == ConversationRow.conversation_id,
                s.owner != owner_key("group", group_id),
            )
        )
        found = await self._session.scalars(
            select(ConversationRow.conversation_id)
            .where(
                ConversationRow.agent_key == self._agent_key,
                ConversationRow.group_ids == cast([group_id], ARRAY(Text)),
                ~exists(others),
            )
            .order_by(ConversationRow.conversation_id)
        )
        return tuple(found)

    async def _stated_in(self, conversation_id: str) -> tuple[tuple[int, int], ...]:
        """What the host stated in the conversation, or another store had of it, without a message."""
        return await self._keys(
            select(ObservationRow.scope_id, ObservationRow.seq).where(
                ObservationRow.conversation_id == conversation_id,
                ObservationRow.source_kind.in_(("observe", "import")),
            )
        )

    async def selected(self, selection: Selection, words: Query | None = None) -> tuple[tuple[int, int], ...]:
        """The observations with all that the target names, in the order of their keys. `words` are those of its query."""
        o, s, e = ObservationRow, ScopeRow, EvidenceRow
        found = select(o.scope_id, o.seq).join(s, and_(s.agent_key == o.agent_key, s.scope_id == o.scope_id))
        if selection.observation_id is not None:
            scope_id, seq = parse_observation_id(selection.observation_id)
            found = found.where(o.scope_id == scope_id, o.seq == seq)
        if selection.fact_key is not None:
            found = found.where(o.fact_key == selection.fact_key)
        if selection.tag is not None:
            found = found.where(o.tags.op("@>")(cast([selection.tag], ARRAY(Text))))
        if selection.source is not None:
            found = found.where(o.source_kind == selection.source)
        if selection.run_id is not None:
            found = found.where(o.run_id == selection.run_id)
        if words is not None:
            found = found.where(tuple_(o.scope_id, o.seq).in_(self._with(words)))
        if selection.user_id is not None:
            users = await self._ids_of(selection.user_id)
            said = select(e.evidence_id).where(
                e.agent_key == o.agent_key, e.scope_id == o.scope_id, e.seq == o.seq, e.user_id.in_(users)
            )
            owned = s.owner.in_([owner_key("individual", user) for user in users])
            found = found.where(or_(owned, exists(said)))
        if selection.group_id is not None:
            found = found.where(s.owner == owner_key("group", selection.group_id))
        if selection.conversation_id is not None:
            found = found.where(o.conversation_id == selection.conversation_id)
        return await self._keys(found)

    def _with(self, words: Query) -> Select[Any]:
        asked = cast(cast(words.to_json(Weights()), Text), JSONB)
        holding = func.memory.observations_with(self._agent_key, asked).table_valued("scope_id", "seq")
        return select(holding.c.scope_id, holding.c.seq)

    async def _keys(self, found: Select[Any, Any]) -> tuple[tuple[int, int], ...]:
        o = ObservationRow
        rows = await self._session.execute(found.where(o.agent_key == self._agent_key).order_by(o.scope_id, o.seq))
        return tuple((row.scope_id, row.seq) for row in rows)

    async def closure(self, seeds: Seeds) -> Closure:
        columns = ("scope_ids", "seqs", "conversation_ids", "numbers", "evidence_ids")
        found = await self._session.execute(
            select(
                func.memory.forget_closure(self._agent_key, *seeds.arguments.values()).table_valued(
                    *columns, *(f"held_{name}" for name in columns)
                )
            )
        )
        row = found.one()
        closure = await self._heard_of(Closure(_taken(*row[:5]), _taken(*row[5:])))
        told_of = {scope_id for scope_id, _ in await self._told_of(seeds.users)}
        return replace(closure, heard=tuple(sorted({*closure.heard, *told_of})))

    async def _told_of(self, users: Sequence[str]) -> tuple[tuple[int, int], ...]:
        """What speaks of any of these users, whoever said it."""
        o = ObservationRow
        return await self._keys(select(o.scope_id, o.seq).where(_about(users))) if users else ()

    async def kept_about(self, users: Sequence[str], closure: Closure) -> tuple[Kept, ...]:
        """What others have said of these users and stays, in the order of the keys. To be asked before `erase`."""
        left = sorted(set(await self._told_of(users)) - {*closure.going.observations})
        o = ObservationRow
        found = await self._session.execute(
            select(o.scope_id, o.seq, o.related_users)
            .where(o.agent_key == self._agent_key, are_among((o.scope_id, o.seq), left))
            .order_by(o.scope_id, o.seq)
        )
        return tuple(
            Kept(observation=observation_id(row.scope_id, row.seq), reason="about", users=row.related_users)
            for row in found
        )

    async def released(self) -> dict[str, Closure]:
        """What is withdrawn and no hold keeps any more, by the forgetting that waits for that."""
        found = await self._session.execute(
            select(
                func.memory.released(self._agent_key).table_valued(
                    "withdrawn_by", "scope_id", "seq", "conversation_id", "number", "evidence_id"
                )
            )
        )
        waiting = defaultdict[str, list[Any]](list)
        for row in found:
            waiting[str(row.withdrawn_by)].append(row)
        return {key: await self._heard_of(Closure(_released(waiting[key]))) for key in sorted(waiting)}

    async def _heard_of(self, closure: Closure) -> Closure:
        return replace(closure, heard=await self._heard(closure.going))

    async def _heard(self, going: Taken) -> tuple[int, ...]:
        """The scopes of the evidence, and those of other sources of what goes: these are judged again.

        Of arrays, not lists: a statement has at most 32,767 parameters, and each member of a list is one.
        """
        e, link, j = EvidenceRow, LineageRow, JudgedRow
        arrays = going.arrays
        keys = func.unnest(arrays["scope_ids"], arrays["seqs"])
        key = keys.table_valued("scope_id", "seq", name="going").render_derived()
        said = select(e.scope_id).where(e.agent_key == self._agent_key, e.evidence_id == any_(arrays["evidence_ids"]))
        other = select(link.source_scope_id).where(
            link.agent_key == self._agent_key, link.scope_id == key.c.scope_id, link.seq == key.c.seq
        )
        judged = select(j.source_scope_id).where(
            j.agent_key == self._agent_key, j.target_scope_id == key.c.scope_id, j.seq == key.c.seq
        )
        return tuple(sorted(await self._session.scalars(said.union(other, judged))))

    async def first_tainted(self, scopes: Sequence[int], closure: Closure) -> dict[int, int]:
        """For each scope whose text holds what goes, the first live version that does."""
        arrays = closure.going.arrays
        tainted = func.memory.tainted_versions(
            self._agent_key, cast(list(scopes), ARRAY(BigInteger)), arrays["scope_ids"], arrays["seqs"]
        ).table_valued("scope_id", "version", "live")
        found = await self._session.execute(
            select(tainted.c.scope_id, func.min(tainted.c.version).label("version"))
            .where(tainted.c.live)
            .group_by(tainted.c.scope_id)
            .order_by(tainted.c.scope_id)
        )
        return {row.scope_id: row.version for row in found}

    async def kept_beside(self, closure: Closure) -> tuple[Kept, ...]:
        """The observations that lose something with these, or were made of them, and stay, in the order of their keys."""
        arrays = closure.going.arrays
        kept = func.memory.kept_beside(
            self._agent_key, arrays["scope_ids"], arrays["seqs"], arrays["evidence_ids"]
        ).table_valued("scope_id", "seq", "reason", "users")
        found = await self._session.execute(select(kept).order_by(kept.c.scope_id, kept.c.seq))
        return tuple(
            Kept(observation=observation_id(row.scope_id, row.seq), reason=row.reason, users=row.users) for row in found
        )

    async def imported(self, closure: Closure | None, scopes: Sequence[int] = ()) -> tuple[str, ...]:
        """The hashed references of what goes, and of the texts of these scopes; without a closure all of the agent's."""
        i, m = ImportedRow, ImportedMessageRow
        found = select(i.ref_hash).where(i.agent_key == self._agent_key)
        said = select(m.ref_hash).where(m.agent_key == self._agent_key)
        if closure is not None:
            keys = are_among((i.scope_id, i.seq), closure.going.observations)
            found = found.where(or_(keys, and_(among(i.scope_id, scopes), i.seq.is_(None))))
            said = said.where(are_among((m.conversation_id, m.number), closure.going.messages))
        return tuple(sorted(ref.hex() for ref in await self._session.scalars(union(found, said))))

    async def keep_out(self, refs: Sequence[str], now: datetime) -> None:
        """What has these hashed references isn't imported any more."""
        rows = [{"agent_key": self._agent_key, "ref_hash": bytes.fromhex(ref), "forgotten_at": now} for ref in refs]
        if rows:
            await self._session.execute(upsert(ForgottenRefRow).on_conflict_do_nothing(), rows)

    async def erase(
        self, closure: Closure, scopes: Sequence[int], users: Sequence[str], forgetting: str, now: datetime
    ) -> dict[str, int]:
        """Takes it all out, and says how many rows of each table; what is withdrawn waits for `forgetting`, by its id."""
        erased = await self._session.execute(
            select(
                func.memory.erase(
                    self._agent_key,
                    *closure.erased.arrays.values(),
                    *closure.withdrawn.arrays.values(),
                    cast(list(scopes), ARRAY(BigInteger)),
                    cast(list(users), ARRAY(Text)),
                    cast(forgetting, Text),
                    now,
                ).table_valued("what", "counted")
            )
        )
        return {row.what: row.counted for row in erased}

    async def erase_agent(self) -> dict[str, int]:
        """The caller has locked the whole agent."""
        erased = await self._session.execute(
            select(func.memory.erase_agent(self._agent_key).table_valued("what", "counted"))
        )
        return {row.what: row.counted for row in erased}

    async def count_agent(self) -> dict[str, int]:
        """What `erase_agent` would delete."""
        kept = ("agents", "events", "forgotten_refs")
        tables = [t for t in Base.metadata.sorted_tables if t.name not in kept and "agent_key" in t.c]
        counts = [select(func.count()).select_from(t).where(t.c.agent_key == self._agent_key) for t in tables]
        found = await self._session.execute(select(*(count.scalar_subquery() for count in counts)))
        return dict(zip((table.name for table in tables), found.one(), strict=True))

    async def await_rebuild(self, scope_ids: Sequence[int]) -> list[int]:
        """Those of these scopes in which something is left to be rewritten; they are due from now on."""
        s = ScopeRow
        pending = func.memory.pending_observations(s.agent_key, s.scope_id, s.done_seq).table_valued("seq").lateral()
        waiting = await self._session.scalars(
            update(s)
            .where(
                s.agent_key == self._agent_key,
                among(s.scope_id, scope_ids),
                exists(select(pending.c.seq).correlate(s)),
            )
            .values(rebuild=True)
            .returning(s.scope_id)
        )
        return sorted(waiting)

    async def is_recorded(self, receipt_id: str) -> bool:
        """Whether this database knows of that forgetting."""
        found = await self._session.scalar(
            select(EventRow.event_id).where(
                EventRow.agent_key == self._agent_key,
                EventRow.kind == "forget",
                EventRow.detail["id"].astext == receipt_id,
            )
        )
        return found is not None

    async def record(self, receipt: Receipt, *, actor: str | None, reason: str | None) -> None:
        """The tombstone: which ids went, when, and why; no text."""
        detail = {
            "id": receipt.id,
            "target": receipt.target,
            "observations": list(receipt.observations),
            "counts": receipt.counts,
        }
        if receipt.withdrawn:
            detail["withdrawn"] = list(receipt.withdrawn)
        await record(self._session, self._agent_key, "forget", receipt.at, actor=actor, reason=reason, detail=detail)


def _taken(
    scope_ids: Sequence[int],
    seqs: Sequence[int],
    conversation_ids: Sequence[str],
    numbers: Sequence[int],
    evidence: Sequence[int],
) -> Taken:
    return Taken(
        tuple(sorted(zip(scope_ids, seqs, strict=True))),
        tuple(sorted(zip(conversation_ids, numbers, strict=True))),
        tuple(sorted(evidence)),
    )


def _released(rows: Iterable[Any]) -> Taken:
    found = list(rows)
    return Taken(
        tuple(sorted((row.scope_id, row.seq) for row in found if row.seq is not None)),
        tuple(sorted((row.conversation_id, row.number) for row in found if row.number is not None)),
        tuple(sorted(row.evidence_id for row in found if row.evidence_id is not None)),
    )


def _about(users: Sequence[str]) -> ColumnElement[bool]:
    """Whether an observation speaks of any of these users."""
    them = cast(list(users), ARRAY(Text))
    return and_(ObservationRow.subjects != cast([], ARRAY(Text)), ObservationRow.subjects.op("&&")(them))
