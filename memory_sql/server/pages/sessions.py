"""Who is signed in. A session lives in this process alone, eight hours at most, and ends with its key."""

from __future__ import annotations

import hashlib
import json
import secrets
from collections import OrderedDict
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import NamedTuple

COOKIE = "memory_sql_session"
HOURS = 8
MOST = 10_000  # sessions; the oldest end


class Entry(NamedTuple):
    """What a session opens: all that the key allows whose secret has this hash, or, of one agent, what one person's would."""

    secret_hash: str  # in hex
    agent_id: str | None = None
    user_id: str | None = None


class _Kept(NamedTuple):
    until: datetime
    masked: bytes  # the entry, which only the cookie uncovers


class Sessions:
    """By the hash of a random token, which only the browser has; so the process keeps neither cookies nor keys."""

    def __init__(self, clock: Callable[[], datetime]) -> None:
        self._clock = clock
        self._sessions: OrderedDict[bytes, _Kept] = OrderedDict()

    def begin(self, entry: Entry) -> str:
        """The token of a new session."""
        token = secrets.token_urlsafe(32)
        masked = _masked(json.dumps(entry).encode(), token)
        self._sessions[_hash(token)] = _Kept(self._clock() + timedelta(hours=HOURS), masked)
        while len(self._sessions) > MOST:
            self._sessions.popitem(last=False)
        return token

    def entry(self, token: str) -> Entry | None:
        """None: there is no such session, or it is over."""
        kept = self._sessions.get(_hash(token))
        if kept is None or kept.until <= self._clock():
            return None
        return Entry(*json.loads(_masked(kept.masked, token)))

    def end(self, token: str) -> None:
        self._sessions.pop(_hash(token), None)


def _hash(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()


def _masked(text: bytes, token: str) -> bytes:
    """A token of 32 random bytes is used for one text: its expansion (SHAKE-256) is a pad. Twice gives the text again."""
    pad = hashlib.shake_256(b"memory_sql session " + token.encode()).digest(len(text))
    return bytes(one ^ other for one, other in zip(text, pad, strict=True))
