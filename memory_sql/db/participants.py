"""The participants of a conversation, as a condition in statements (`sql/visibility/user_tokens.sql`)."""

from __future__ import annotations

from typing import Any

from sqlalchemy import ARRAY, ColumnElement, Text, and_, cast, func

from memory_sql.db.models import ConversationRow


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
