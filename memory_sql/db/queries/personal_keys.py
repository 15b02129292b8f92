"""Which rows are a person's: the keys from which the queries of an export start.

Each is found by an index that begins with the person's ids, or by a key that was found so: what others have costs nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import ARRAY, CTE, ColumnElement, Select, Text, and_, cast, false, func, or_, select, true, tuple_
from sqlalchemy.orm import aliased

from memory_sql.db.models import ConversationRow, EvidenceRow, LineageRow, ObservationRow, ObservationStateRow, ScopeRow
from memory_sql.db.participants import took_part
from memory_sql.domain.ids import owner_key

SCOPE = ("scope_id",)
KEY = ("scope_id", "seq")  # of an observation, in its agent


class PersonalKeys:
    """A person's rows, as queries for their keys. `ids`: all ids of the person.

    `alone`: the conversations that are theirs alone; `scopes`: their own; `said`: the observations in these (`own`), and what
    they said elsewhere; `derived`: what was derived from those, on all levels.
    """

    def __init__(self, agent_key: int, ids: Sequence[str]) -> None:
        self._agent_key = agent_key
        self._ids = list(ids)
        self._array = cast(self._ids, ARRAY(Text))
        self.alone = self._own_conversations().cte("alone")
        self.scopes = self._own_scopes()
        self.said = self._said_rows()
        derived = self._made_of(self.said).cte("derived", recursive=True)
        self.derived = derived.union(self._made_of(derived))

    def in_agent(self, table: Any) -> ColumnElement[bool]:
        condition: ColumnElement[bool] = table.agent_key == self._agent_key
        return condition

    def overlap(self, users: Any) -> ColumnElement[bool]:
        """Whether any of these users (an array) is the person."""
        condition: ColumnElement[bool] = users.op("&&", is_comparison=True)(self._array)
        return condition

    def is_alone(self) -> ColumnElement[bool]:
        """Whether a conversation is theirs, and nobody else took part."""
        s = ConversationRow
        theirs = s.participants.op("<@", is_comparison=True)(self._array)
        return and_(s.user_id.in_(self._ids), theirs)

    def took_part(self) -> ColumnElement[bool]:
        return took_part(self._agent_key, self._ids)

    def own_conversations(self) -> Select[Any]:
        return select(self.alone.c.conversation_id)

    def own_scopes(self) -> Select[Any]:
        return select(self.scopes.c.scope_id)

    def each(self, table: Any, keys: Any, names: Sequence[str] = KEY) -> Any:
        """The rows of a table with these keys, looked up one by one, whatever the planner thinks of how many there are."""
        return aliased(table, self._looked_up(select(table), table, keys, names))

    def their_words(self, evidence: Any) -> ColumnElement[bool]:
        condition: ColumnElement[bool] = evidence.user_id.in_(self._ids)
        return condition

    def foreign_rows(self, theirs: Any) -> CTE:
        """Of what was derived from theirs: what has other people's sources too, and what was derived from that."""
        derived = self.derived
        line = self.each(LineageRow, derived)
        mixed = select(line.scope_id, line.seq).select_from(derived).join(line, true())
        foreign = mixed.where(source_of(line).not_in(theirs)).cte("foreign_rows", recursive=True)
        return foreign.union(self._made_of(foreign))

    def _own_conversations(self) -> Select[Any]:
        """By the index of participants, which also has those where nobody has written."""
        alone = took_part(self._agent_key, self._ids, "<@")
        return select(ConversationRow.conversation_id).where(alone, self.is_alone())

    def _own_scopes(self) -> CTE:
        s = ScopeRow
        owners = [owner_key(kind, user) for user in self._ids for kind in ("individual", "entity")]
        of_talk = owner_key("conversation", "") + self.alone.c.conversation_id
        talk = select(s.scope_id).where(self.in_agent(s), s.owner == of_talk).correlate(self.alone).offset(0).lateral()
        theirs = select(s.scope_id).where(self.in_agent(s), s.owner.in_(owners))
        return theirs.union_all(select(talk.c.scope_id).select_from(self.alone).join(talk, true())).cte("own_scopes")

    def _said_rows(self) -> CTE:
        """Elsewhere they said what evidence names them for; where that is withdrawn, what still names them itself."""
        e = EvidenceRow
        its = self._looked_up(select(ObservationRow.seq), ObservationRow, self.scopes, SCOPE)
        own = select(self.scopes.c.scope_id, its.c.seq, true().label("own")).select_from(self.scopes).join(its, true())
        word = (
            select(e.scope_id, e.seq, func.bool_or(e.withdrawn_by.is_(None)).label("counts"))
            .where(self.in_agent(e), self.their_words(e), e.scope_id.not_in(self.own_scopes()))
            .group_by(e.scope_id, e.seq)
            .cte("word")
        )
        o = self.each(ObservationRow, word)
        elsewhere = (
            select(word.c.scope_id, word.c.seq, false())
            .select_from(word)
            .join(o, true())
            .where(or_(word.c.counts, self.overlap(o.related_users)))
        )
        both = own.union_all(elsewhere).subquery("both")
        return select(both).where(~self.is_withdrawn(both.c)).cte("said")

    def _made_of(self, keys: CTE) -> Select[Any]:
        line = LineageRow
        made = select(line.scope_id, line.seq).where(
            self.in_agent(line), line.source_scope_id == keys.c.scope_id, line.source_seq == keys.c.seq
        )
        own = made.correlate(keys).offset(0).lateral()
        return select(own.c.scope_id, own.c.seq).select_from(keys).join(own, true())

    def _looked_up(self, rows: Select[Any], table: Any, keys: Any, names: Sequence[str]) -> Any:
        of = getattr(keys, "c", keys)
        same = (getattr(table, name) == getattr(of, name) for name in names)
        return rows.where(self.in_agent(table), *same).correlate(keys).offset(0).lateral()

    def is_withdrawn(self, of: Any) -> ColumnElement[bool]:
        """Whether an observation (its `scope_id` and `seq`) is withdrawn: each is looked up by its key."""
        t = aliased(ObservationStateRow)
        withdrawn = (t.scope_id == of.scope_id, t.seq == of.seq, t.withdrawn_by.is_not(None))
        return select(t.seq).where(self.in_agent(t), *withdrawn).offset(0).exists()


def source_of(line: Any) -> Any:
    return tuple_(line.source_scope_id, line.source_seq)
