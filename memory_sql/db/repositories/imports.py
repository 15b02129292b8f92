"""Imports from another store: rows are staged with COPY, then stored in sets of a few hundred scopes.

Staged rows are in temporary tables, since COPY can't write to a table with row-level policies. What is already known by its
reference is left out, and so is what was forgotten. The rest is numbered and stored with a handful of statements.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any
from typing import cast as cast_type

from sqlalchemy import (
    ARRAY,
    BigInteger,
    Boolean,
    DateTime,
    Double,
    Integer,
    LargeBinary,
    SmallInteger,
    Table,
    Text,
    TextClause,
    and_,
    any_,
    bindparam,
    cast,
    exists,
    func,
    insert,
    literal_column,
    or_,
    select,
    text,
    union,
    update,
)
from sqlalchemy.dialects.postgresql import insert as upsert
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.types import TypeEngine

from memory_sql.db.closures import Closure, Taken
from memory_sql.db.direct import driver_of
from memory_sql.db.models import (
    AgentRow,
    EventRow,
    EvidenceRow,
    ForgottenIdRow,
    ForgottenRefRow,
    ImportedMessageRow,
    ImportedRow,
    ImportRejectRow,
    ImportRow,
    MemberRow,
    MessageRow,
    ObservationRow,
    PromptRow,
    RunRow,
    ScopeRow,
)
from memory_sql.db.naming import of_schema
from memory_sql.db.staging import (
    ANALYZE,
    EMPTY,
    IS_STAGED,
    LINK,
    NUMBER,
    REPEATED,
    STAGE,
    STAGE_ONCE,
    STAGED,
    STORE,
    TEXTS,
    WAITING,
)
from memory_sql.domain.ids import OWNER_PREFIX
from memory_sql.languages.text import HASH_VERSION

_SPREAD = """
    UPDATE memory.scopes s SET due_at = :now + f.place * :pause * interval '1 second'
    FROM (
        SELECT scope_id, row_number() OVER (ORDER BY scope_id) AS place
        FROM memory.scopes
        WHERE agent_key = :agent_key AND scope_id = ANY (:scope_ids) AND due_at IS NOT NULL
    ) f
    WHERE s.agent_key = :agent_key AND s.scope_id = f.scope_id
    RETURNING s.scope_id
"""
_JOINING = """
    SELECT u.user_id
    FROM unnest(CAST(:users AS text[])) WITH ORDINALITY AS u (user_id, place)
    WHERE EXISTS (
        SELECT FROM memory.scopes s
        JOIN memory.imported i ON i.agent_key = s.agent_key AND i.scope_id = s.scope_id
        WHERE s.agent_key = :agent_key AND s.owner = 'u:' || u.user_id
    ) AND NOT EXISTS (
        SELECT FROM memory.scopes g
        JOIN memory.members m ON m.agent_key = g.agent_key AND m.scope_id = g.scope_id AND m.user_id = u.user_id
        WHERE g.agent_key = :agent_key AND g.owner = 'g:' || :group_id AND g.name = ''
    ) AND NOT EXISTS (
        SELECT FROM memory.left_groups(:agent_key, u.user_id, NULL, ARRAY[CAST(:group_id AS text)])
    )
    ORDER BY u.place
"""
_CHANGED = """
    SELECT i.legacy_ref FROM memory.imported i
    JOIN memory.observations o USING (agent_key, scope_id, seq)
    WHERE i.agent_key = :agent_key AND i.import_id = :import_id AND i.legacy_ref = o.legacy_ref
      AND sha256(convert_to(o.content, 'UTF8')) <> i.stored_hash
    ORDER BY 1 LIMIT :most
"""

_NAMES = re.compile(r"(?<![:\w]):([a-z_]+)")
_scopes = cast_type(Table, ScopeRow.__table__)  # with the class, each row with a null would take a separate statement
_LOCK = of_schema("imports")  # so that installations in one database don't wait for each other
_PLANNED = "memory_sql.planned"  # in a connection's `info`: for how many staged rows, when, and how often since
_LIKE = 4  # plans are made again for this many times more or fewer rows
_TYPES: Mapping[str, TypeEngine[Any]] = {
    "agent_key": BigInteger(),
    "import_id": BigInteger(),
    "now": DateTime(timezone=True),
    "hash_version": SmallInteger(),
    "scope_ids": ARRAY(BigInteger),
    "pause": Double(),
    "users": ARRAY(Text),
    "group_id": Text(),
    "most": Integer(),
    "links": Boolean(),
    "by_rules": Boolean(),
}


@cache
def _typed(statement: str) -> TextClause:
    return text(statement).bindparams(*(bindparam(name, type_=_TYPES[name]) for name in _NAMES.findall(statement)))


@dataclass(frozen=True, slots=True)
class Stored:
    """`merged`: documents that became evidence for pending observations. `due`: scopes that wait for their turn."""

    observations: int = 0
    scopes: int = 0
    due: int = 0
    merged: frozenset[str] = frozenset()

    def __add__(self, other: Stored) -> Stored:
        return Stored(
            self.observations + other.observations,
            self.scopes + other.scopes,
            self.due + other.due,
            self.merged | other.merged,
        )


@dataclass(frozen=True, slots=True)
class ImportRepository:
    session: AsyncSession

    async def in_turn(self) -> None:
        """Imports begin one after the other: the second sees the first."""
        await self.session.execute(select(func.pg_advisory_xact_lock(func.hashtextextended(_LOCK, 0))))

    async def begin(self, source: str, options: Mapping[str, Any], key_hash: bytes, now: datetime) -> int:
        """The interrupted import, if it had the same source and options, else a new one."""
        i = ImportRow
        found = await self.session.scalar(
            select(i.import_id)
            .where(i.state == "running", i.source == source, i.options == dict(options), i.key_hash == key_hash)
            .order_by(i.import_id.desc())
            .limit(1)
        )
        if found is not None:
            return int(found)
        made = await self.session.scalar(
            insert(i)
            .values(source=source, options=dict(options), key_hash=key_hash, state="running", started_at=now)
            .returning(i.import_id)
        )
        return int(made or 0)

    async def other_key(self, key_hash: bytes) -> bool:
        """Whether references are stored under another key."""
        found = await self.session.scalar(select(ImportRow.import_id).where(ImportRow.key_hash != key_hash).limit(1))
        return found is not None

    async def finish(self, import_id: int, accounts: Mapping[str, Any], now: datetime) -> bool:
        """Returns False if somebody has rolled it back meanwhile. Of two processes that ran it, the first finishes it."""
        await self.session.execute(
            update(ImportRow)
            .where(ImportRow.import_id == import_id, ImportRow.state == "running")
            .values(state="finished", accounts=dict(accounts), finished_at=now)
        )
        return await self.session.scalar(select(ImportRow.state).where(ImportRow.import_id == import_id)) == "finished"

    async def put_rejects(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """After an interrupted import, some of them are stored already."""
        await self.session.execute(upsert(ImportRejectRow).on_conflict_do_nothing(), list(rows))

    async def get(self, import_id: int) -> Mapping[str, Any] | None:
        found = await self.session.execute(select(ImportRow.__table__).where(ImportRow.import_id == import_id))
        row = found.mappings().one_or_none()
        return None if row is None else dict(row)

    async def all(self) -> Sequence[Mapping[str, Any]]:
        found = await self.session.execute(select(ImportRow.__table__).order_by(ImportRow.import_id))
        return [dict(row) for row in found.mappings()]

    async def before(self, agent_key: int) -> tuple[set[int], bool]:
        """The imports of which the agent still has anything, and whether anything imported was forgotten."""
        brought = union(
            *(select(row.import_id).where(row.agent_key == agent_key) for row in (ImportedRow, ImportedMessageRow))
        ).subquery()
        forgotten = (exists().where(f.agent_key == agent_key) for f in (ForgottenRefRow, ForgottenIdRow))
        found = await self.session.execute(
            select(select(func.array_agg(brought.c.import_id)).scalar_subquery(), or_(*forgotten))
        )
        by, forgets = found.one()
        return set(by or ()), forgets

    async def known(self, agent_key: int, refs: Sequence[str]) -> dict[str, list[int]]:
        """The imports that brought those of these references that are stored, in any scope."""
        i = ImportedRow
        found = await self.session.execute(
            select(i.legacy_ref, i.import_id)
            .where(i.agent_key == agent_key, i.legacy_ref == any_(cast(list(refs), ARRAY(Text))))
            .distinct()
        )
        by: dict[str, list[int]] = {}
        for row in found:
            by.setdefault(row.legacy_ref, []).append(row.import_id)
        return by

    async def owners_of(self, agent_key: int, kind: str, name: str, refs: Sequence[str]) -> list[tuple[str, str]]:
        """These references with the owners of the scopes of that kind and name in which they are stored."""
        if not refs:
            return []
        i, s = ImportedRow, ScopeRow
        found = await self.session.execute(
            select(i.legacy_ref, s.owner)
            .join(s, and_(s.agent_key == i.agent_key, s.scope_id == i.scope_id))
            .where(i.agent_key == agent_key, s.kind == kind, s.name == name)
            .where(i.legacy_ref == any_(cast(list(refs), ARRAY(Text))))
        )
        return [(row.legacy_ref, row.owner) for row in found]

    async def renamed(self, agent_key: int, kind: str, owner_id: str | None) -> set[str]:
        """The owners that this owner was renamed to here, as the events say."""
        what, e = "user" if kind == "individual" else kind, EventRow
        was = func.encode(func.memory.user_hash(agent_key, owner_id), literal_column("'hex'"))
        found = await self.session.scalars(
            select(e.detail[f"{what}_id"].astext)
            .where(e.agent_key == agent_key, e.kind == "rename")
            .where(e.detail["what"].astext == what, e.detail["was"].astext == was)
        )
        return {OWNER_PREFIX[kind] + owner_id for owner_id in found}

    async def own(self, agent_key: int, import_id: int, refs: Sequence[str]) -> set[str]:
        """Those of these documents that have a row of their own from the import."""
        i, o = ImportedRow, ObservationRow
        found = await self.session.scalars(
            select(i.legacy_ref)
            .join(o, and_(o.agent_key == i.agent_key, o.scope_id == i.scope_id, o.seq == i.seq))
            .where(i.agent_key == agent_key, i.import_id == import_id, o.legacy_ref == i.legacy_ref)
            .where(i.legacy_ref == any_(cast(list(refs), ARRAY(Text))))
        )
        return set(found)

    async def agents(self, import_id: int) -> list[tuple[int, str]]:
        """Key and id of the agents for whom it imported anything, in the order of the keys."""
        a = AgentRow
        brought = [
            select(row.agent_key).where(row.agent_key == a.agent_key, row.import_id == import_id).exists()
            for row in (ScopeRow, RunRow, MemberRow, PromptRow, ImportedRow, ImportedMessageRow)
        ]
        found = await self.session.execute(select(a.agent_key, a.agent_id).where(or_(*brought)).order_by(a.agent_key))
        return [(row.agent_key, row.agent_id) for row in found]

    async def observations(self, agent_key: int, import_id: int) -> list[tuple[int, int]]:
        """The keys of the agent's observations that come from this import alone; not those that somebody has also stated."""
        o, r, e = ObservationRow, RunRow, EvidenceRow
        ours = select(r.run_id).where(r.agent_key == agent_key, r.import_id == import_id)
        others = (
            select(e.evidence_id)
            .where(e.agent_key == o.agent_key, e.scope_id == o.scope_id, e.seq == o.seq)
            .where(or_(e.run_id.is_(None), e.run_id.not_in(ours)))
        )
        found = await self.session.execute(
            select(o.scope_id, o.seq)
            .where(o.agent_key == agent_key, o.run_id.in_(ours), ~others.exists())
            .order_by(o.scope_id, o.seq)
        )
        return [(row.scope_id, row.seq) for row in found]

    async def beside(
        self, agent_key: int, import_id: int, observations: Sequence[tuple[int, int]]
    ) -> tuple[Closure, set[int]]:
        """What it brought besides these observations, and the scopes of the evidence."""
        scope_ids = cast([scope_id for scope_id, _ in observations], ARRAY(BigInteger))
        seqs = cast([seq for _, seq in observations], ARRAY(Integer))
        names = ("conversation_id", "number", "evidence_id", "scope_id", "held")
        beside = func.memory.imported_beside(agent_key, import_id, scope_ids, seqs).table_valued(*names)
        found = (await self.session.execute(select(beside))).all()
        erased, withdrawn = (
            Taken(
                messages=tuple((row.conversation_id, row.number) for row in found if row.held is held and row.number),
                evidence=tuple(row.evidence_id for row in found if row.held is held and row.evidence_id),
            )
            for held in (False, True)
        )
        return Closure(erased, withdrawn), {row.scope_id for row in found if row.scope_id is not None}

    async def texts(self, agent_key: int, import_id: int) -> dict[int, int]:
        """For each scope, the first live version that it brought, or that was rewritten from one."""
        texts = func.memory.imported_texts(agent_key, import_id).table_valued("scope_id", "version", "live")
        found = await self.session.execute(
            select(texts.c.scope_id, func.min(texts.c.version).label("version"))
            .where(texts.c.live)
            .group_by(texts.c.scope_id)
        )
        return {row.scope_id: row.version for row in found}

    async def source_hashes(self, agent_key: int, refs: Sequence[str]) -> dict[str, dict[int, set[bytes]]]:
        """For those of these that are stored, by import, the hashes of their source texts; one may be in several scopes."""
        i = ImportedRow
        found = await self.session.execute(
            select(i.legacy_ref, i.import_id, i.source_hash).where(
                i.agent_key == agent_key, i.legacy_ref == any_(cast(list(refs), ARRAY(Text)))
            )
        )
        hashes: dict[str, dict[int, set[bytes]]] = {}
        for row in found:
            hashes.setdefault(row.legacy_ref, {}).setdefault(row.import_id, set()).add(row.source_hash)
        return hashes

    async def undo(self, agent_key: int, import_id: int) -> list[int]:
        """Deletes what it brought besides what was said and remembered; returns the deleted scopes."""
        gone = select(func.memory.undo_import(agent_key, import_id))
        return sorted(await self.session.scalars(gone))

    async def rolled_back(self, import_id: int, now: datetime) -> None:
        await self.session.execute(
            update(ImportRow).where(ImportRow.import_id == import_id).values(state="rolled_back", rolled_back_at=now)
        )

    async def open(self, agent_key: int, *, keeps: bool) -> None:
        """Prepares the staging tables; no other import can work on the agent meanwhile.

        What other imports have brought is looked up once, at the beginning. `keeps`: the caller keeps the connection until
        it is closed, so the tables and the plans of the statements that read them last as long.
        """
        locked = select(func.pg_advisory_xact_lock(func.hashtextextended(_LOCK, agent_key)), literal_column(IS_STAGED))
        _, is_staged = (await self.session.execute(locked)).one()
        if not is_staged:
            (await self._info()).pop(_PLANNED, None)
            await (await driver_of(self.session)).execute(STAGE if keeps else STAGE_ONCE)

    async def empty(self) -> None:
        """Empties the staging tables, for more rows of the agent."""
        await self.session.execute(text(EMPTY))

    async def stage_rows(self, rows: Iterable[Sequence[Any]]) -> int:
        """Rows with the columns of `STAGED`, those of a scope in its order. Returns how many there were."""
        staged = await (await driver_of(self.session)).copy_records_to_table(
            "import_rows", records=rows, columns=list(STAGED)
        )
        return int(staged.rpartition(" ")[2])

    async def stage_texts(self, texts: Iterable[Sequence[Any]]) -> None:
        """Rows with the columns of `TEXTS`."""
        await (await driver_of(self.session)).copy_records_to_table("import_texts", records=texts, columns=list(TEXTS))

    async def _info(self) -> dict[Any, Any]:
        return (await self.session.connection()).info

    async def store(
        self,
        agent_key: int,
        import_id: int,
        begun: Sequence[int],
        now: datetime,
        *,
        rows: int,
        repeats: bool,
        links: bool,
        by_rules: bool,
    ) -> Stored:
        """Stores what is staged, in scopes that the caller has locked; `begun`: those of them that had anything before.

        `rows`: how many are staged. `repeats`: some rows say the same as others. `links`: there are messages from which
        they may have been made. `by_rules`: `work.maintain` is to classify them.
        """
        values = {
            "agent_key": agent_key,
            "import_id": import_id,
            "now": now,
            "hash_version": HASH_VERSION,
            "links": links,
            "by_rules": by_rules,
        }
        merged = frozenset[str]()
        if begun:
            given = {"agent_key": agent_key, "scope_ids": list(begun)}
            merged = frozenset(await self.session.scalars(_typed(WAITING), given))
            await self._run([NUMBER], values)
        await self._run([REPEATED] * repeats, values)
        await self._plan_for(rows)
        observations, scopes = (await self.session.execute(_typed(STORE), values)).one()
        await self._run(LINK if repeats or merged or links else [], values)
        return Stored(observations, scopes, merged=frozenset(ref for ref in merged if "#" not in ref))

    async def _plan_for(self, rows: int) -> None:
        """Plans again for many more or fewer rows, or after as many runs again: the other tables have grown by then."""
        info = await self._info()
        before, planned, times = info.get(_PLANNED, (0, 0, 0))
        if before and before / _LIKE <= rows <= before * _LIKE and times < 2 * planned:
            info[_PLANNED] = before, planned, times + 1
            return
        await self._run([ANALYZE], {})
        info[_PLANNED] = max(1, rows), times + 1, times + 1

    async def _run(self, statements: Iterable[str], values: Mapping[str, Any]) -> None:
        for statement in statements:
            await self.session.execute(_typed(statement), values)

    async def spread(self, agent_key: int, scope_ids: Sequence[int], after: datetime, pause: float) -> int:
        """Spreads the due times, `pause` seconds apart; returns the number of scopes."""
        given = {"agent_key": agent_key, "scope_ids": list(scope_ids), "pause": pause, "now": after}
        return len((await self.session.execute(_typed(_SPREAD), given)).all())

    async def last_due(self, import_id: int) -> datetime | None:
        """When the last of the imported work is due."""
        return await self.session.scalar(select(func.max(ScopeRow.due_at)).where(ScopeRow.import_id == import_id))

    async def make_scopes(self, rows: Sequence[Mapping[str, Any]]) -> dict[tuple[str, str], int]:
        """Creates those of these scopes that don't exist yet; returned by owner and name."""
        if not rows:
            return {}
        made = upsert(_scopes).on_conflict_do_nothing().returning(_scopes.c.scope_id, _scopes.c.owner, _scopes.c.name)
        found = await self.session.execute(made, list(rows))
        return {(row.owner, row.name): row.scope_id for row in found}

    async def joining(self, agent_key: int, group_id: str, users: Sequence[str]) -> list[str]:
        """Those of these users who have imported memory and were never members of the group: who has left stays out."""
        given = {"agent_key": agent_key, "group_id": group_id, "users": list(users)}
        return list(await self.session.scalars(_typed(_JOINING), given))

    async def forgotten_among(self, agent_key: int, ref_hashes: Sequence[bytes]) -> set[bytes]:
        f = ForgottenRefRow
        found = await self.session.scalars(
            select(f.ref_hash).where(
                f.agent_key == agent_key, f.ref_hash == any_(cast(list(ref_hashes), ARRAY(LargeBinary)))
            )
        )
        return set(found)

    async def has_messages(self, agent_key: int) -> bool:
        m = MessageRow
        return await self.session.scalar(select(m.number).where(m.agent_key == agent_key).limit(1)) is not None

    async def put_prompts(self, rows: Sequence[Mapping[str, Any]]) -> None:
        await self.session.execute(insert(PromptRow), list(rows))

    async def group_of(self, agent_key: int, ref: str) -> str | None:
        """The id here of the group that was imported with this reference; None: it wasn't imported, or is gone."""
        i, s = ImportedRow, ScopeRow
        owner = await self.session.scalar(
            select(s.owner)
            .join(i, and_(i.agent_key == s.agent_key, i.scope_id == s.scope_id))
            .where(i.agent_key == agent_key, i.legacy_ref == ref)
        )
        return None if owner is None else owner[len(OWNER_PREFIX["group"]) :]

    async def note_group(self, agent_key: int, scope_id: int, import_id: int, ref: str, ref_hash: bytes) -> None:
        """Records that the group was imported."""
        row = {
            "agent_key": agent_key,
            "scope_id": scope_id,
            "legacy_ref": ref,
            "import_id": import_id,
            "source_hash": b"",
            "stored_hash": b"",
            "ref_hash": ref_hash,
        }
        await self.session.execute(upsert(ImportedRow).on_conflict_do_nothing(), [row])

    async def put_members(self, rows: Sequence[Mapping[str, Any]]) -> None:
        await self.session.execute(insert(MemberRow), list(rows))

    async def changed(self, agent_key: int, import_id: int, most: int) -> list[str]:
        """The references of what it brought that is no longer stored as it was."""
        given = {"agent_key": agent_key, "import_id": import_id, "most": most}
        return list(await self.session.scalars(_typed(_CHANGED), given))
