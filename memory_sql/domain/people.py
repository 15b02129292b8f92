"""Users, aliases, holds and renamed ids."""

from __future__ import annotations

from datetime import datetime
from typing import Literal, get_args

from memory_sql.domain.ids import Value

HoldKind = Literal["observation", "user", "conversation", "group"]


RenameKind = Literal["user", "group", "conversation"]


RENAME_KINDS = get_args(RenameKind)


class UserSummary(Value):
    """A user who has written in a conversation, has a memory of their own, or belongs or belonged to a group.

    `stands_for`: the user whom they were merged into. `conversations`: how many they have written in; `last_active_at`: when
    anybody last wrote in one of those. `observations`: the active ones of their own scopes. `groups`: their current ones.
    """

    user_id: str
    stands_for: str | None = None
    conversations: int
    last_active_at: datetime | None
    observations: int
    groups: int


ForgottenKind = Literal["user", "conversation", "group", "agent"]


class Alias(Value):
    """`user_id` stands for `into_user_id`, who sees the memory of both. `ended_at` None: it still does."""

    user_id: str
    into_user_id: str
    created_at: datetime
    ended_at: datetime | None = None


class Merged(Alias):
    """What a merge made of two people who are one.

    `retracted`: collective observations that too few people stand behind now, which were erased. `heard_by_one`: what a
    group was told because two of its members had spoken there, who are this one; it stays, and waits in `work.reviews`.
    """

    retracted: tuple[str, ...] = ()
    heard_by_one: tuple[str, ...] = ()


class Hold(Value):
    """A legal hold. While it is open (`released_at` None), what it covers can't be erased. `target` is the id of that."""

    hold_id: int
    kind: HoldKind
    target: str
    actor: str | None
    reason: str | None
    created_at: datetime
    released_at: datetime | None = None


class PlacedHold(Hold):
    """A hold, with how many observations and messages it covers when it is placed; 0 if they were erased before."""

    observations: int
    messages: int


class Renamed(Value):
    """A renamed id. `rows`: how many rows were changed, by table; only tables with changes."""

    kind: RenameKind
    old: str
    new: str
    rows: dict[str, int]
