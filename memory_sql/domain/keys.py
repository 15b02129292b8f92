"""Keys of the HTTP server: who may ask for what."""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Iterable
from datetime import date, datetime
from typing import Literal, get_args

from pydantic import Field

from memory_sql.domain.arguments import listed
from memory_sql.domain.ids import Id, Value, host_id
from memory_sql.domain.limits import limited
from memory_sql.errors import InputError

Right = Literal["read", "write", "forget", "admin"]
"""What a key allows: to read; to store and correct; to delete; to operate (people, holds, settings, work)."""

RIGHTS: tuple[Right, ...] = get_args(Right)
MOST_AGENTS = 1000
PREFIX = "ms_"
SHOWN = 10  # characters of a secret that lists show
_SECRET = re.compile(rf"{PREFIX}[\w-]{{43}}", re.ASCII)


class Key(Value):
    """A key of the HTTP server, without its secret, of which `prefix` is the beginning.

    `agents` None: all agents. `user_id`: the user that it stands for; None: the host, which names the user of each request.
    `last_used_on`: the day (UTC) of its last use.
    """

    key_id: int
    name: str
    prefix: str
    agents: tuple[str, ...] | None
    rights: tuple[Right, ...]
    user_id: str | None
    created_at: datetime
    created_by: str | None
    expires_at: datetime | None
    revoked_at: datetime | None
    last_used_on: date | None = None

    def holds_at(self, now: datetime) -> bool:
        """Whether it is neither revoked nor expired."""
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)


class NewKey(Key):
    """A key that was just made, with its `secret`, which is stored nowhere and shown only this once."""

    secret: str = Field(repr=False)


def new_secret() -> str:
    """32 random bytes as text, with a prefix by which a leaked one is recognised."""
    return PREFIX + secrets.token_urlsafe(32)


def may_be_secret(text: str) -> bool:
    """Whether it is written like one of ours, so that it is worth a look into the database."""
    return _SECRET.fullmatch(text) is not None


def hash_of(secret: str) -> bytes:
    """SHA-256: of so long a random secret a slow hash protects nothing more."""
    return hashlib.sha256(secret.encode()).digest()


def rights_of(values: Iterable[str]) -> tuple[Right, ...]:
    """The rights, each once, in the order of `RIGHTS`. Raises `InputError`."""
    given = limited("rights", listed("rights", values), 100)
    if not given or not all(value in RIGHTS for value in given):
        raise InputError(f"rights must be a list of one or more of {', '.join(RIGHTS)}")
    return tuple(right for right in RIGHTS if right in given)


def agents_of(values: Iterable[Id] | None) -> tuple[str, ...] | None:
    """Raises `InputError` for an empty list: it would be a key for nothing."""
    if values is None:
        return None
    given = limited("agents", listed("agents", values), MOST_AGENTS)
    named = tuple(dict.fromkeys(host_id(value, "agents") for value in given))
    if not named:
        raise InputError("agents must name at least one agent; None: all agents")
    return named
