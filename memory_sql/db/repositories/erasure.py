"""What is deleted when something is forgotten, and deleting it: `memory.forget_closure`, `tainted_versions`, `erase`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from sqlalchemy import (
    JSON,
    ColumnElement,
    Select,
    Table,
    and_,
    any_,
    bindparam,
    cast,
    exists,
    func,
    insert,
    select,
    update,
)
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.dialects.postgresql import insert as upsert
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.types import ARRAY, BigInteger, DateTime, Integer, Text

from memory_sql.db.arrays import among
from memory_sql.db.closures import (
    ABOUT,
    ALL_IMPORTED,
    AROUND_CONVERSATION,
    AROUND_ONE,
    AROUND_USER,
    BEGUN_BY,
    BEGUN_BY_USER,
    BESIDE,
    CLOSED,
    CLOSED_BESIDE,
    CLOSED_IF_THERE,
    CLOSED_OF_USERS,
    CLOSED_OF_USERS_BESIDE,
    HEARD,
    TAINTED,
    TAKEN,
    Closure,
    Seeds,
    closure_of_row,
    released_rows,
)
from memory_sql.db.locks import Locks, locked_of
from memory_sql.db.models import (
    Base,
    ConversationRow,
    EventRow,
    EvidenceRow,
    ForgottenIdRow,
    ForgottenRefRow,
    MessageRow,
    ObservationRow,
    ScopeRow,
)
from memory_sql.db.participants import took_part
from memory_sql.db.queries.selections import Selections
from memory_sql.domain.ids import observation_id, owner_key, parse_observation_id
from memory_sql.domain.query import Query
from memory_sql.domain.results import Kept, Receipt
from memory_sql.domain.selection import Selection


@dataclass(frozen=True, slots=True)
class Beside:
    """What is to be known before a closure goes: by scope the first live version of its text that holds any of it.

    `kept` are the observations that lose something with it, or were made of it, and stay, in the order of their keys; `refs`
    the hashed references of what goes; `about` what others have said of who is forgotten, and stays, in the same order.
    """

    tainted: Mapping[int, int]
    kept: tuple[Kept, ...]
    refs: tuple[str, ...]
    about: tuple[Kept, ...] = ()


@dataclass(frozen=True, slots=True)
class Erased:
    """How many rows of each table went, and what has to follow.

    `standing`: the scopes in which something gave way to what isn't there any more. `left`: the scopes of groups with former
    members in which something that stays lost support. `is_unsettled`: something hasn't the state any more that what it
    was made of leaves it.
    """

    counts: dict[str, int]
    standing: tuple[int, ...]
    left: frozenset[int]
    is_unsettled: bool


async def lock_around(session: AsyncSession, agent_id: str, selection: Selection) -> Locks | None:
    """Locks what will most likely be needed to forget a user, an observation or a conversation; None: no such agent.

    In one statement; the agent is shared.
    """
    conversation_id, given = selection.conversation_id, dict[str, Any]()
    if selection.is_one_user:
        around, given = AROUND_USER, {"user_id": selection.user_id}
    elif conversation_id is None:
        around, key = AROUND_ONE, parse_observation_id(str(selection.observation_id))
        given = dict(zip(("scope_id", "seq"), key, strict=True))
    else:
        around, owner = AROUND_CONVERSATION, owner_key("conversation", conversation_id)
        given = {"conversation_id": conversation_id, "owner": owner}
    row = (await session.execute(around, {"agent_id": agent_id, **given})).one_or_none()
    return None if row is None else locked_of(row)


@dataclass(frozen=True, slots=True)
class ForgettingRepository:
    _session: AsyncSession
    _agent_key: int

    async def seeds(self, selection: Selection, words: Query | None = None) -> Seeds:
        """Where to begin; empty where there is nothing of the kind. `words` are those of its query."""
        if selection.message_id is not None:
            return Seeds(messages=await self._message(selection), confirmable=False)
        if selection.selects_observations:
            return Seeds(observations=await Selections(self._session, self._agent_key).chosen(selection, words))
        if selection.user_id is not None:
            return await self._person(selection.user_id, about=selection.about)
        if selection.group_id is not None:
            scopes = await self._scopes([owner_key("group", selection.group_id)])
            talks = await self._of_group_alone(selection.group_id)
            return Seeds(conversations=talks, scopes=scopes, named=(("group", selection.group_id),))
        assert selection.conversation_id is not None  # checked by Selection
        return await self._conversation(selection.conversation_id)

    async def _conversation(self, conversation_id: str) -> Seeds:
        given = self._given({"conversation_id": conversation_id, "owner": owner_key("conversation", conversation_id)})
        begun = (await self._session.execute(BEGUN_BY, given)).one()
        return Seeds(
            conversations=(conversation_id,) if begun.is_there else (),  # it can't be locked before
            scopes=tuple(begun.scopes),
            observations=tuple(zip(begun.scope_ids, begun.seqs, strict=True)),
            confirmable=False,
            named=(("conversation", conversation_id),),
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
        given = self._given({"user_id": user_id, "about": about})
        begun = (await self._session.execute(BEGUN_BY_USER, given)).one()
        users = tuple(begun.users)
        return Seeds(
            users=users,
            conversations=tuple(begun.conversations),
            scopes=tuple(begun.scopes),
            observations=tuple(zip(begun.scope_ids, begun.seqs, strict=True)),
            attended=tuple(begun.attended),
            named=tuple(("user", user) for user in users),
        )

    async def attended(self, users: Sequence[str]) -> tuple[str, ...]:
        """The conversations in which any of them took part."""
        return await self._conversations(took_part(self._agent_key, list(users)))

    async def _conversations(self, *conditions: Any) -> tuple[str, ...]:
        found = await self._session.scalars(
            select(ConversationRow.conversation_id).where(*conditions).order_by(ConversationRow.conversation_id)
        )
        return tuple(found)

    async def _scopes(self, owners: Sequence[str]) -> tuple[int, ...]:
        found = await self._session.scalars(
            select(ScopeRow.scope_id)
            .where(ScopeRow.agent_key == self._agent_key, ScopeRow.owner == any_(cast(owners, ARRAY(Text))))
            .order_by(ScopeRow.scope_id)
        )
        return tuple(found)

    async def _of_group_alone(self, group_id: str) -> tuple[str, ...]:
        """The group's own conversations that are evidence only for what belongs to the group."""
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

    async def _keys(self, found: Select[Any, Any]) -> tuple[tuple[int, int], ...]:
        o = ObservationRow
        rows = await self._session.execute(found.where(o.agent_key == self._agent_key).order_by(o.scope_id, o.seq))
        return tuple((row.scope_id, row.seq) for row in rows)

    async def closure_of(self, key: tuple[int, int]) -> tuple[Seeds, Closure, Beside] | None:
        """All that is deleted with this observation; None: it doesn't exist."""
        seeds = Seeds(observations=(key,))
        found = await self._session.execute(CLOSED_IF_THERE, self._given(seeds.arguments, texts=[]))
        row = found.one_or_none()
        return None if row is None else (seeds, closure_of_row(row), _beside_of(row))

    async def closure_beside(self, seeds: Seeds) -> tuple[Closure, Beside]:
        """`closure` and `beside` in one statement."""
        closed = CLOSED_OF_USERS_BESIDE if seeds.users else CLOSED_BESIDE
        row = (await self._session.execute(closed, self._given(seeds.arguments, texts=[]))).one()
        closure, beside = closure_of_row(row), _beside_of(row)
        return closure, replace(beside, about=_about_of(row.about, closure)) if seeds.users else beside

    async def closure(self, seeds: Seeds, texts: Iterable[int] = ()) -> Closure:
        """All that is deleted with these. `texts`: scopes that lose something else."""
        closed = CLOSED_OF_USERS if seeds.users else CLOSED
        found = await self._session.execute(closed, self._given(seeds.arguments, texts=list(texts)))
        return closure_of_row(found.one())

    def _given(self, given: Mapping[str, Any], **more: Any) -> dict[str, Any]:
        """The parameters of a statement."""
        return {"agent_key": self._agent_key, **given, **more}

    async def kept_about(self, users: Sequence[str], closure: Closure) -> tuple[Kept, ...]:
        """What others have said of these users and stays, in the order of the keys. To be asked before `erase`."""
        if not users:
            return ()
        found = await self._session.scalar(ABOUT, self._given({"users": list(users)}))
        return _about_of(found or (), closure)

    async def released(self) -> dict[str, Closure]:
        """What is withdrawn and no hold keeps any more, by the forgetting that waits for it."""
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
        return {key: await self._heard_of(Closure(released_rows(waiting[key]))) for key in sorted(waiting)}

    async def _heard_of(self, closure: Closure) -> Closure:
        row = (await self._session.execute(HEARD, self._given(closure.going.arrays))).one()
        return replace(closure, heard=tuple(row.heard), reached=tuple(row.reached))

    async def first_tainted(self, scopes: Sequence[int], closure: Closure) -> dict[int, int]:
        """For each scope whose text holds what is deleted, the first live version that does."""
        given = self._given(closure.going.arrays, scopes=list(scopes))
        return {row.scope_id: row.version for row in await self._session.execute(TAINTED, given)}

    async def beside(self, closure: Closure, scopes: Sequence[int]) -> Beside:
        """What is to be known before it goes, in one statement."""
        found = await self._session.execute(BESIDE, self._given(closure.going.arrays, scopes=list(scopes)))
        return _beside_of(found.one())

    async def imported(self) -> tuple[str, ...]:
        """The hashed references of all that the agent has."""
        return tuple(sorted(ref.hex() for ref in await self._session.scalars(ALL_IMPORTED, self._given({}))))

    async def keep_out(self, refs: Sequence[str], now: datetime) -> None:
        """What has these hashed references isn't imported any more."""
        rows = [{"agent_key": self._agent_key, "ref_hash": bytes.fromhex(ref), "forgotten_at": now} for ref in refs]
        if rows:
            await self._session.execute(upsert(ForgottenRefRow).on_conflict_do_nothing(), rows)

    async def erase(self, closure: Closure, forgetting: str, now: datetime) -> None:
        """Takes it all out; what is withdrawn waits for `forgetting`, by its id."""
        await self._session.execute(_ERASE, self._erasing(closure, closure.scopes, Seeds(), forgetting, now))

    async def erase_told(
        self,
        closure: Closure,
        losing: Collection[int],
        seeds: Seeds,
        receipt: Receipt,
        threshold: int,
        event: str = "forget",
        **cause: str | None,
    ) -> Erased:
        """As `erase`, with what `seeds` name, and leaves a tombstone: which ids went, when, and why; no text.

        What they name is remembered as forgotten, as hashes. And `refresh_due` of the scopes that are `losing` something.
        """
        detail = {"id": receipt.id, "target": receipt.target, "observations": list(receipt.observations)}
        if receipt.withdrawn:
            detail["withdrawn"] = list(receipt.withdrawn)
        given = self._erasing(closure, losing, seeds, receipt.id, receipt.at)
        kinds, ids = ([one[place] for one in seeds.named] for place in (0, 1))
        told = {
            **given,
            **cause,
            "detail": detail,
            "threshold": threshold,
            "event": event,
            "named_kinds": kinds,
            "named_ids": ids,
        }
        row = (await self._session.execute(_ERASE_TOLD, told)).one()
        left = frozenset[int](row.left or ())
        return Erased(row.counts or {}, tuple(sorted(row.standing or ())), left, row.is_unsettled)

    def _erasing(
        self,
        closure: Closure,
        losing: Collection[int],
        seeds: Seeds,
        forgetting: str,
        now: datetime,
    ) -> dict[str, Any]:
        return self._given(
            closure.erased.arrays,
            **{f"held_{name}": rows for name, rows in closure.withdrawn.arrays.items()},
            losing=sorted(losing),
            scopes=list(seeds.scopes),
            users=list(seeds.users),
            attended=list(seeds.attended),
            forgetting=forgetting,
            now=now,
        )

    async def erase_agent(self, now: datetime) -> dict[str, int]:
        """The caller has locked the whole agent."""
        at = cast(now, DateTime(timezone=True))
        erased = func.memory.erase_agent(self._agent_key, at).table_valued("what", "counted")
        return {row.what: row.counted for row in await self._session.execute(select(erased))}

    async def count_agent(self) -> dict[str, int]:
        """What `erase_agent` would delete."""
        kept = ("agents", "forgotten_refs", "forgotten_ids")
        tables = [t for t in Base.metadata.sorted_tables if t.name not in kept and "agent_key" in t.c]
        counts = [
            select(func.count()).select_from(t).where(t.c.agent_key == self._agent_key, *_only_actions(t))
            for t in tables
        ]
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


def _about_of(rows: Iterable[Any], closure: Closure) -> tuple[Kept, ...]:
    going = {*closure.going.observations}
    return tuple(
        Kept(observation=observation_id(scope_id, seq), reason="about", users=users)
        for scope_id, seq, users in sorted(rows, key=lambda one: (one[0], one[1]))
        if (scope_id, seq) not in going
    )


def _beside_of(row: Any) -> Beside:
    return Beside(
        dict(row.tainted),
        tuple(
            Kept(observation=observation_id(scope_id, seq), reason=reason, users=users)
            for scope_id, seq, reason, users in sorted(row.kept, key=lambda one: (one[0], one[1]))
        ),
        tuple(sorted(ref for (ref,) in row.refs)),
    )


_AGENT, _NOW = bindparam("agent_key", type_=BigInteger), bindparam("now", type_=DateTime(timezone=True))
_LOSING = bindparam("losing", type_=ARRAY(BigInteger))
_erased = func.memory.erase(
    _AGENT,
    *(bindparam(f"{held}{name}", type_=ARRAY(kind)) for held in ("", "held_") for name, kind in TAKEN.items()),
    _LOSING,
    bindparam("scopes", type_=ARRAY(BigInteger)),
    bindparam("users", type_=ARRAY(Text)),
    bindparam("attended", type_=ARRAY(Text)),
    bindparam("forgetting", type_=Text),
    _NOW,
).table_valued("what", "counted")
_ERASE = select(_erased)


def _erase_told() -> Select[Any]:
    """The erasing comes first: what is told of it and what is due by it ask for its rows."""
    rows = select(_erased).cte("erased").prefix_with("MATERIALIZED")
    what, counted = rows.c.what, rows.c.counted
    is_count = what.not_in(("standing", "left", "unsettled"))
    counts = func.json_object_agg(what, counted, type_=JSON).filter(
        is_count
    )  # keeps the order in which they are deleted
    detail = bindparam("detail", type_=JSONB).op("||")(func.jsonb_build_object("counts", counts))
    cause = (bindparam("actor", type_=Text), bindparam("reason", type_=Text))
    told = insert(EventRow).from_select(
        ["agent_key", "kind", "created_at", "actor", "reason", "detail"],
        select(_AGENT, bindparam("event", type_=Text), _NOW, *cause, detail).select_from(rows),
    )
    return select(
        counts.label("counts"),
        func.array_agg(counted).filter(what == "standing").label("standing"),
        func.array_agg(counted).filter(what == "left").label("left"),
        func.count().filter(what == "unsettled").op(">")(0).label("is_unsettled"),
        func.memory.refresh_due(_AGENT, _LOSING, bindparam("threshold", type_=Integer), _NOW),
    ).add_cte(told.cte("told"), _remembered())


def _only_actions(table: Table) -> list[ColumnElement[bool]]:
    """Other events stay."""
    return [table.c.kind == "action"] if table.name == EventRow.__tablename__ else []


def _remembered() -> Any:
    f = ForgottenIdRow
    given = func.unnest(bindparam("named_kinds", type_=ARRAY(Text)), bindparam("named_ids", type_=ARRAY(Text)))
    named = given.table_valued("kind", "id", name="named").render_derived()
    hashed = func.memory.user_hash(_AGENT, named.c.id)
    columns = [f.agent_key.key, f.kind.key, f.id_hash.key, f.forgotten_at.key]
    noted = upsert(f).from_select(columns, select(_AGENT, named.c.kind, hashed, _NOW))
    latest = func.greatest(f.forgotten_at, noted.excluded.forgotten_at)
    return noted.on_conflict_do_update(index_elements=columns[:3], set_={"forgotten_at": latest}).cte("remembered")


_ERASE_TOLD = _erase_told()
