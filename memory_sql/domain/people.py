"""Users, aliases, holds and renamings."""

from __future__ import annotations

from datetime import datetime
from typing import Literal, get_args

from memory_sql.domain.ids import Value

HoldKind = Literal["observation", "user", "conversation", "group"]


RenameKind = Literal["user", "group", "conversation"]


RENAME_KINDS = get_args(RenameKind)


class UserSummary(Value):
    """A user who has written in a conversation, has a memory of their own, or belongs or belonged to a group.

    `stands_for`: the user whom they were merged into. `conversations` in which they have written, and when anybody last
    did in one of them (`last_active_at`); active `observations` of their own scopes; `groups` that they belong to now.
    """

    user_id: str
    stands_for: str | None = None
    conversations: int
    last_active_at: datetime | None
    observations: int
    groups: int


class Alias(Value):
    """`user_id` stands for `into_user_id`, who sees what is its; not the other way round. `ended_at` None: still."""

    user_id: str
    into_user_id: str
    created_at: datetime
    ended_at: datetime | None = None


class Hold(Value):
    """While it is open (`released_at` None), what it covers can't be forgotten. `target` is the id of that."""

    hold_id: int
    kind: HoldKind
    target: str
    actor: str | None
    reason: str | None
    created_at: datetime
    released_at: datetime | None = None


class PlacedHold(Hold):
    """A hold, with how many observations and messages it keeps as it is placed; none where they have gone before."""

    observations: int
    messages: int


class Renamed(Value):
    """`rows` counts what was changed, by table; tables in which nothing was aren't named."""

    kind: RenameKind
    old: str
    new: str
    rows: dict[str, int]
