"""Groups and who belongs to them."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from memory_sql.config.kinds import Sharing
from memory_sql.domain.ids import ScopeId, Value, parse_scope_id

MemberSource = Literal["host", "import", "inferred"]


class Group(Value):
    """A group of an agent's users, who share the memory of its scope. `members` counts the current ones.

    `sharing`: the group's own rule for propagation into it and out of it; None: the agent's applies.
    """

    group_id: str
    scope_id: ScopeId
    display_name: str | None
    members: int
    created_at: datetime
    sharing: Sharing | None = None

    @property
    def scope_key(self) -> int:
        return parse_scope_id(self.scope_id)


class Member(Value):
    """A membership of a user in a group. `left_at` None: it continues. `source`: who declared it."""

    group_id: str
    user_id: str
    source: MemberSource
    joined_at: datetime
    left_at: datetime | None = None


class Departure(Value):
    """The end of a membership at `left_at`, for all ids of the user (`user_ids`).

    `archived`: the observations that only they had contributed. `retracted`: what was derived from those in other scopes,
    and was erased. `held`: how many of these a legal hold covers; `withdrawn`: their ids, out of use until the hold ends.
    `withheld` as in `Receipt`.
    """

    group_id: str
    user_id: str
    user_ids: tuple[str, ...]
    left_at: datetime
    archived: tuple[str, ...] = ()
    retracted: tuple[str, ...] = ()
    held: int = 0
    withdrawn: tuple[str, ...] = ()
    withheld: tuple[ScopeId, ...] = ()
