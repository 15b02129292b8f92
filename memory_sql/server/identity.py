"""Who asks, and what that allows. A key never is a role of Postgres: the principal is the agent and user of each call."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import NamedTuple

from fastapi import Request

from memory_sql.domain.keys import Key, Right
from memory_sql.memory import Memory
from memory_sql.server.problems import denied, too_many_requests

MOST_BUCKETS = 10_000


class Identity(NamedTuple):
    """Who asks. `agents` None: all. `user_id`: the user that it stands for; None: it vouches for the user of each request.

    `expires_at`: from when on it isn't accepted, nor may be any key that it makes; None: it has no end.
    """

    name: str
    agents: frozenset[str] | None
    rights: frozenset[Right]
    user_id: str | None = None
    expires_at: datetime | None = None

    def may(self, right: Right, agent_id: str | None) -> bool:
        """`agent_id` None: the call is about all agents."""
        return right in self.rights and (self.agents is None or agent_id in self.agents)


Identify = Callable[[Request], Awaitable[Identity | None]]
"""Says who sends a request; None: nobody known, which is answered with 401."""


def allowed(identity: Identity, right: Right, agent_id: str | None) -> None:
    """Raises the one 403."""
    if not identity.may(right, agent_id):
        raise denied()


class Bearer:
    """Identifies by the key in the header Authorization, and counts its requests in this process."""

    def __init__(self, memory: Callable[[Request], Memory], requests_per_minute: int) -> None:
        self._memory = memory
        self._buckets = Buckets(requests_per_minute)

    async def __call__(self, request: Request) -> Identity | None:
        given = request.headers.getlist("authorization")
        scheme, _, secret = given[0].partition(" ") if len(given) == 1 else ("", "", "")
        if scheme.lower() != "bearer" or not secret:
            return None
        return await self.identity(request, secret.strip())

    async def identity(self, request: Request, secret: str) -> Identity | None:
        """Whose key has this secret. Raises `RefusalError` for too many requests with it."""
        return self._of(await self._memory(request).keys.find(secret))

    async def known(self, request: Request, secret_hash: bytes) -> Identity | None:
        """As `identity`, by the SHA-256 of the secret."""
        return self._of(await self._memory(request).keys.known(secret_hash))

    def _of(self, key: Key | None) -> Identity | None:
        if key is None:
            return None
        wait = self._buckets.take(key.key_id)
        if wait > 0:
            raise too_many_requests(wait)
        return identity_of(key)


def identity_of(key: Key) -> Identity:
    agents = None if key.agents is None else frozenset(key.agents)
    return Identity(key.name or f"key {key.key_id}", agents, frozenset(key.rights), key.user_id, key.expires_at)


class Buckets:
    """A token bucket for each key: `per_minute` at once, filled again evenly."""

    def __init__(self, per_minute: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._size, self._clock = float(per_minute), clock
        self._left: OrderedDict[int, tuple[float, float]] = OrderedDict()  # how much is left, and since when

    def take(self, key_id: int) -> float:
        """0, or the seconds until there is one."""
        now = self._clock()
        left, at = self._left.get(key_id, (self._size, now))
        left = min(self._size, left + (now - at) * self._size / 60)
        has_one = left >= 1
        self._left[key_id] = (left - 1 if has_one else left, now)
        self._left.move_to_end(key_id)
        if len(self._left) > MOST_BUCKETS:
            self._left.popitem(last=False)
        return 0.0 if has_one else (1 - left) * 60 / self._size
