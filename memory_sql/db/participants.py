"""The participants of a conversation, as a condition in statements (`sql/visibility/user_tokens.sql`)."""

from __future__ import annotations

from typing import Any

from sqlalchemy import ARRAY, ColumnElement, Text, and_, cast, exists, func, select

from memory_sql.db.models import ConversationRow, MemberRow


def took_part(agent_key: Any, users: Any, how: str = "&&") -> ColumnElement[bool]:
    """Whether any of these users of an agent took part in a conversation; with `<@`, whether nobody else did.

    Compares by the index first, then exactly. The agent is compared so that no plan starts from all of its conversations.
    """
    c, tokens = ConversationRow, func.memory.user_tokens
    given = cast(users, ARRAY(Text))
    found = tokens(c.agent_key, c.participants).op(how)(tokens(agent_key, given))
    exactly = c.agent_key.is_not_distinct_from(agent_key), c.participants.op(how)(given)
    condition: ColumnElement[bool] = and_(found, *exactly)
    return condition


def members_who_spoke(agent_key: Any, main: Any) -> Any:
    """Of a conversation, by the group whose main scope is `main`: whether several ids spoke, and whether one person did."""
    c, m = ConversationRow, MemberRow
    spoke = func.unnest(c.participants).table_valued("user_id", name="spoke").render_derived()
    who = spoke.c.user_id
    belongs = exists().where(m.agent_key == agent_key, m.scope_id == main.scope_id, m.user_id == who)
    return (
        select(
            (func.count(who.distinct()) > 1).label("ids"),
            (func.count(func.memory.person(agent_key, who).distinct()) < 2).label("person"),
        )
        .select_from(spoke)
        .where(belongs.correlate(main, spoke))
        .correlate(c, main)
        .lateral("counted")
    )
