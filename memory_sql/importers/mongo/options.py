"""The options of an import."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from memory_sql.config.kinds import Secrets
from memory_sql.domain.ids import host_id
from memory_sql.errors import InputError


def groups_of(value: object) -> dict[str, tuple[str, ...]]:
    """The groups of a JSON mapping, `{"harbour": ["<user>", …], …}`. Raises `InputError`."""
    if not isinstance(value, Mapping):
        raise InputError("a mapping of groups must be an object with the users of each group by its id")
    return {host_id(group, "group_id"): _users(group, users) for group, users in value.items()}


def _users(group: str, users: object) -> tuple[str, ...]:
    if not isinstance(users, list):
        raise InputError(f"group {group}: its users must be a list")
    return tuple(dict.fromkeys(host_id(user, "user_id") for user in users))


@dataclass(frozen=True, slots=True)
class ImportOptions:
    """How legacy memory is imported where there is a choice.

    `groups`: the users of each group by its id, `default` for one group of all users of an agent, or None.
    `keep_shards`: merge the texts of shards into one collective scope, or make a named scope for each. `episodes`: skip
    them, or keep the newest in their conversation's own scope. `without_text`: the state of observations that count as
    absorbed though their scope has no text. `evicted_facts`: whether a search finds facts that have left their list
    (archived) or not (evicted). `requeue_lost`: observations that are newer than their blob and wait nowhere become pending.
    `missing_agents`: import their memory as inactive, or skip it. `messages`: also import the sessions and their messages.
    `trusted`: imported memory counts as confirmed.
    """

    groups: Mapping[str, tuple[str, ...]] | Literal["default"] | None = "default"
    keep_shards: Literal["merged", "named"] = "merged"
    episodes: Literal["skip", "conversation"] = "skip"
    without_text: Literal["pending", "archived"] = "pending"
    evicted_facts: Literal["archived", "evicted"] = "archived"
    requeue_lost: bool = False
    missing_agents: Literal["inactive", "skip"] = "inactive"
    messages: bool = False
    trusted: bool = False
    secrets: Secrets = "mask"
