"""The host's id for a user, group or conversation has changed: every column that holds it is rewritten in one statement.

One statement, since a conversation's id is part of keys that refer to one another: foreign keys are checked at its end.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import (
    ARRAY,
    CTE,
    ColumnElement,
    Select,
    Text,
    any_,
    case,
    cast,
    exists,
    false,
    func,
    literal,
    literal_column,
    or_,
    select,
    update,
)
from sqlalchemy.dialects.postgresql import JSONB, JSONPATH
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import InstrumentedAttribute

from memory_sql.db.locks import Rows
from memory_sql.db.models import (
    AgentRow,
    Base,
    ConversationRow,
    DepartureRow,
    EpisodeRow,
    EventRow,
    EvidenceRow,
    HoldRow,
    ImportedMessageRow,
    MemberRow,
    MessageRow,
    ObservationRow,
    RunRow,
    ScopeRow,
    UserAliasRow,
)
from memory_sql.db.repositories.runs import ABANDONED, didnt_end
from memory_sql.domain.ids import OWNER_PREFIX, owner_key
from memory_sql.domain.people import RenameKind

Column = InstrumentedAttribute[Any]
UNIQUE_VIOLATION = "23505"

# Columns that contain only ids. `scopes.owner`, `messages.owner`, `holds.target`, `runs.seen`, `events.detail` and
# `agents.settings` hold them in other forms.
IDS: Mapping[RenameKind, Sequence[Column]] = {
    "user": (
        ConversationRow.user_id,
        ConversationRow.participants,
        MessageRow.user_id,
        MemberRow.user_id,
        EvidenceRow.user_id,
        ObservationRow.related_users,
        ObservationRow.subjects,
        UserAliasRow.user_id,
        UserAliasRow.into_user_id,
        EventRow.actor,
        HoldRow.actor,
    ),
    "group": (ConversationRow.group_ids, MessageRow.group_ids),
    "conversation": (
        ConversationRow.conversation_id,
        MessageRow.conversation_id,
        ImportedMessageRow.conversation_id,
        EvidenceRow.conversation_id,
        RunRow.conversation_id,
        ObservationRow.conversation_id,
        EpisodeRow.conversation_id,
        EventRow.conversation_id,
    ),
}
DETAILS: Mapping[RenameKind, Sequence[str]] = {
    "user": ("user_id", "into_user_id"),
    "group": ("group_id",),
    "conversation": ("conversation_id",),
}
SETTINGS: Mapping[RenameKind, Sequence[str]] = {
    "user": ("propagation_excluded_users",),
    "group": ("propagation_names_in",),
    "conversation": (),
}
OWNER_KINDS: Mapping[RenameKind, Sequence[str]] = {
    "user": ("individual", "entity"),
    "group": ("group",),
    "conversation": ("conversation",),
}
TABLES = (
    AgentRow, ScopeRow, MemberRow, ConversationRow, MessageRow, RunRow, ObservationRow, EvidenceRow, EventRow, HoldRow,
    UserAliasRow, DepartureRow, ImportedMessageRow, EpisodeRow,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Rewrite:
    """Where `condition` holds, `column` becomes `value`."""

    column: Column
    condition: ColumnElement[bool]
    value: Any


class RenameRepository:
    """`old` becomes `new`, both ids of that kind. The caller has locked the agent."""

    def __init__(
        self, session: AsyncSession, agent_key: int, kind: RenameKind, old: str, new: str, now: datetime
    ) -> None:
        self._session = session
        self._agent_key = agent_key
        self.kind = kind
        self.old, self.new = old, new
        self._now = now

    async def is_known(self, value: str) -> bool:
        """Whether anything is stored under that id."""
        places: list[tuple[Any, ColumnElement[bool]]] = [
            (ScopeRow, ScopeRow.owner.in_(self._owners(value))),
            (HoldRow, (HoldRow.kind == self.kind) & (HoldRow.target == value)),
            *((column.class_, _holds(column, value)) for column in IDS[self.kind] if not _is_actor(column)),
        ]
        found = [exists().where(self._in_agent(table), condition) for table, condition in places]
        return bool(await self._session.scalar(select(or_(*found))))

    async def touched(self) -> Rows:
        """The rows that will change and that others write to."""
        in_conversations = [change.condition for change in self._changes(ConversationRow)]
        observed = [_holds(column, self.old) for column in IDS[self.kind] if column.class_ is ObservationRow]
        in_scopes = [ScopeRow.owner.in_(self._owners(self.old))] + [
            ScopeRow.scope_id.in_(select(ObservationRow.scope_id).where(self._in_agent(ObservationRow), condition))
            for condition in observed
        ]
        return Rows(
            frozenset(await self._found(ScopeRow.scope_id, in_scopes)),
            frozenset(await self._found(ConversationRow.conversation_id, in_conversations)),
        )

    async def _found(self, key: Column, conditions: Sequence[ColumnElement[bool]]) -> Iterable[Any]:
        return await self._session.scalars(select(key).where(self._in_agent(key.class_), or_(false(), *conditions)))

    async def rewrite(self) -> dict[str, int] | None:
        """Returns how many rows were changed, by table; None: the new id came into use meanwhile, and nothing was changed.

        The first user of an id locks no existing row; the conflict shows when the old row is to get its key. A formation
        that names a user has their memberships locked as it begins: it is waited for, so that the statement sees its run.
        """
        if self.kind == "user":
            theirs = select(MemberRow.user_id).where(self._in_agent(MemberRow), MemberRow.user_id == self.old)
            await self._session.execute(theirs.with_for_update())
        updates = [self._update(table, changes) for table in TABLES if (changes := self._changes(table))]
        counts = [select(func.count()).select_from(cte).scalar_subquery().label(cte.name) for cte in updates]
        try:
            async with (await self._session.connection()).begin_nested():
                row = (await self._session.execute(select(*counts))).mappings().one()
        except IntegrityError as error:
            if getattr(error.orig, "sqlstate", None) != UNIQUE_VIOLATION:
                raise
            return None
        return {name: count for name, count in row.items() if count}

    def told(self, detail: dict[str, Any]) -> Any:
        """The detail of its event: a backup that doesn't know the new id is searched by the hash of the old one."""
        was = func.encode(func.memory.user_hash(self._agent_key, self.old), literal("hex"))
        return literal(detail, JSONB).op("||")(func.jsonb_build_object(literal("was", Text), was))

    def _update(self, table: type[Base], changes: Sequence[Rewrite]) -> CTE:
        values: dict[Column, Any] = {}
        for change in changes:
            before = values.get(change.column, change.column)
            values[change.column] = case((change.condition, change.value), else_=before)
        touched = or_(*(change.condition for change in changes))
        statement = update(table).where(self._in_agent(table), touched).values({**values, **self._fences(table)})
        return statement.returning(literal(1).label("changed")).cte(table.__tablename__)

    def _fences(self, table: type[Base]) -> dict[Column, Any]:
        """Work in progress with the old id is refused."""
        if table is ScopeRow:
            return {ScopeRow.epoch: ScopeRow.epoch + 1}
        if (
            table is ConversationRow and self.kind == "conversation"
        ):  # whoever holds the lease won't find the row to release it
            return {ConversationRow.epoch: ConversationRow.epoch + 1, ConversationRow.lease_until: None}
        return {ConversationRow.epoch: ConversationRow.epoch + 1} if table is ConversationRow else {}

    def _changes(self, table: type[Base]) -> list[Rewrite]:
        changes = [
            Rewrite(column, _holds(column, self.old), self._replaced(column))
            for column in IDS[self.kind]
            if column.class_ is table
        ]
        return changes + self._own_ways().get(table, [])

    def _replaced(self, column: Column) -> Any:
        return func.array_replace(column, self.old, self.new) if _is_array(column) else self.new

    def _own_ways(self) -> dict[type[Base], list[Rewrite]]:
        """Columns that hold ids in other forms."""
        owners = zip(self._owners(self.old), self._owners(self.new), strict=True)
        changes = {
            ScopeRow: [Rewrite(ScopeRow.owner, ScopeRow.owner == old, new) for old, new in owners],
            HoldRow: [Rewrite(HoldRow.target, (HoldRow.kind == self.kind) & (HoldRow.target == self.old), self.new)],
            EventRow: [self._in_detail(key) for key in DETAILS[self.kind]],
            AgentRow: [self._in_settings(key) for key in SETTINGS[self.kind]],
            RunRow: [*self._in_prompts(), *self._in_errors()],
        }
        if self.kind == "user":
            old, new = (owner_key("individual", user) for user in (self.old, self.new))
            changes[DepartureRow] = [self._in_departures()]
            changes[MessageRow] = [Rewrite(MessageRow.owner, MessageRow.owner == old, new)]
        if self.kind == "group":  # named by its id if the host gave it no name
            called = ScopeRow.owner.in_(self._owners(self.old)) & (ScopeRow.display_name == self.old)
            changes[ScopeRow].append(Rewrite(ScopeRow.display_name, called, self.new))
        return changes

    def _in_departures(self) -> Rewrite:
        """A forgotten user who had left stays out under the new id too."""
        d, other = DepartureRow, DepartureRow.__table__.alias("other")
        old, new = (func.memory.user_hash(self._agent_key, user) for user in (self.old, self.new))
        there = exists().where(
            other.c.agent_key == d.agent_key, other.c.scope_id == d.scope_id, other.c.user_hash == new
        )
        return Rewrite(d.user_hash, (d.user_hash == old) & ~there, new)

    def _in_detail(self, key: str) -> Rewrite:
        renamed = func.jsonb_set(EventRow.detail, cast([key], ARRAY(Text)), func.to_jsonb(cast(self.new, Text)))
        return Rewrite(EventRow.detail, EventRow.detail[key].astext == self.old, renamed)

    def _in_settings(self, key: str) -> Rewrite:
        """A list of ids: a user who was excluded stays excluded under the new id."""
        ids = func.jsonb_array_elements_text(AgentRow.settings[key]).table_valued("value")
        renamed = case((ids.c.value == self.old, self.new), else_=ids.c.value)
        listed = select(func.jsonb_agg(renamed)).select_from(ids).scalar_subquery()
        value = func.jsonb_set(AgentRow.settings, cast([key], ARRAY(Text)), listed)
        return Rewrite(AgentRow.settings, AgentRow.settings[key].contains([self.old]), value)

    def _in_prompts(self) -> list[Rewrite]:
        """The names of scopes in a prompt are needed only until its answer is applied, which is now refused.

        Of a member who says nothing in it no epoch would tell: the run is ended.
        """
        owners = func.jsonb_build_object("owners", cast(self._owners(self.old), ARRAY(Text)))
        named = func.jsonb_path_exists(RunRow.seen, cast("$.targets[*][2] ? (@ == $owners[*])", JSONPATH), owners)
        ended = ABANDONED | {"error": "an id that it was shown has changed", "seen": {}}
        columns = [(getattr(RunRow, name), value) for name, value in ended.items()]
        changes = [Rewrite(column, named & didnt_end(), literal(value, column.type)) for column, value in columns]
        return [*changes, Rewrite(RunRow.finished_at, named & didnt_end(), literal(self._now, RunRow.finished_at.type))]

    def _in_errors(self) -> list[Rewrite]:
        """The library's errors name the conversation that they are about."""
        if self.kind != "conversation":
            return []
        named = func.replace(RunRow.error, f"conversation {self.old}", f"conversation {self.new}")
        return [Rewrite(RunRow.error, RunRow.conversation_id == self.old, named)]

    def _owners(self, value: str) -> list[str]:
        """A user's own scopes, and those about them."""
        return [OWNER_PREFIX[kind] + value for kind in OWNER_KINDS[self.kind]]

    def _in_agent(self, table: Any) -> ColumnElement[bool]:
        condition: ColumnElement[bool] = table.agent_key == self._agent_key
        return condition


async def has_renamed(session: AsyncSession, agent_key: int) -> bool:
    """Whether any id of the agent was ever renamed."""
    return bool(await session.scalar(select(exists(_renamings(agent_key)))))


async def renamed(session: AsyncSession, agent_key: int, kind: RenameKind, ids: Iterable[str]) -> dict[str, str]:
    """Of these ids the former ones, with those that they became. One that was given up twice is its first holder's."""
    e, former = EventRow, func.unnest(cast(list(ids), ARRAY(Text))).column_valued("former")
    was = func.encode(func.memory.user_hash(agent_key, former), literal("hex"))
    now = e.detail[f"{kind}_id"].astext.label("now")
    renamings = _renamings(agent_key).with_only_columns(now, former.label("former"))
    of_these = renamings.where(e.detail["what"].astext == kind, was == e.detail["was"].astext)
    found = await session.execute(of_these.order_by(e.event_id.desc()))
    return {row.former: row.now for row in found if row.now not in (None, row.former)}


def _renamings(agent_key: int) -> Select[Any]:
    e = EventRow
    is_rename = e.kind == literal_column("'rename'")  # as in the condition of events_user_id_idx
    return select(e.event_id).where(e.agent_key == agent_key, is_rename)


def _is_actor(column: Column) -> bool:
    """Columns of actors: having done something doesn't make somebody a user."""
    return column.key == "actor"


def _is_array(column: Column) -> bool:
    return isinstance(column.type, ARRAY)


def _holds(column: Column, value: str) -> ColumnElement[bool]:
    return literal(value, Text) == any_(column) if _is_array(column) else column == value
