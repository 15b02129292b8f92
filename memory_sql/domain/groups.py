"""Groups and who belongs to them."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from memory_sql.config.kinds import Sharing
from memory_sql.domain.ids import ScopeId, Value, parse_scope_id

MemberSource = Literal["host", "import", "inferred"]


class Group(Value):
    """A group of an agent's users, who share the memory of its scope. `members` counts those who belong to it now.

    `sharing`: its own rule for what goes into it and out of it, None where it has the agent's.
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
    """A time that a user belonged to a group; `left_at` None: still. `source`: who said so."""

    group_id: str
    user_id: str
    source: MemberSource
    joined_at: datetime
    left_at: datetime | None = None


class Departure(Value):
    """Somebody isn't a member of a group any more, since `left_at`, by none of `user_ids`: those that they go by.

    `archived`: what only they had contributed. `retracted`: what was made of that in other scopes, and had to go. `held`:
    how much of this a legal hold keeps; `withdrawn`: that, out of use until the hold ends. `withheld` as in `Receipt`.
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
