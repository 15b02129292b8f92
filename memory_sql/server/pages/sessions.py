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
CODE_SECONDS = 60
MOST = 10_000  # sessions, and codes; the oldest end


class Entry(NamedTuple):
    """What a session opens: all that the key allows, or, of one agent, what a key of one person would."""

    secret: str
    agent_id: str | None = None
    user_id: str | None = None


class _Kept(NamedTuple):
    until: datetime
    masked: bytes  # the entry, which only the cookie or the code uncovers


class Sessions:
    """By the hash of a random token, which only the browser has; so the process keeps neither cookies nor keys."""

    def __init__(self, clock: Callable[[], datetime]) -> None:
        self._clock = clock
        self._sessions: OrderedDict[bytes, _Kept] = OrderedDict()
        self._codes: OrderedDict[bytes, _Kept] = OrderedDict()

    def begin(self, entry: Entry) -> str:
        """The token of a new session."""
        return self._keep(self._sessions, entry, timedelta(hours=HOURS))

    def entry(self, token: str) -> Entry | None:
        """None: there is no such session, or it is over."""
        return self._read(self._sessions.get(_hash(token)), token)

    def end(self, token: str) -> None:
        self._sessions.pop(_hash(token), None)

    def code(self, entry: Entry) -> str:
        """Opens a session once, within a minute."""
        return self._keep(self._codes, entry, timedelta(seconds=CODE_SECONDS))

    def redeem(self, code: str) -> Entry | None:
        """None: there is no such code, it was used, or it is too old."""
        return self._read(self._codes.pop(_hash(code), None), code)

    def _keep(self, kept: OrderedDict[bytes, _Kept], entry: Entry, lasts: timedelta) -> str:
        token = secrets.token_urlsafe(32)
        kept[_hash(token)] = _Kept(self._clock() + lasts, _masked(json.dumps(entry).encode(), token))
        while len(kept) > MOST:
            kept.popitem(last=False)
        return token

    def _read(self, kept: _Kept | None, token: str) -> Entry | None:
        if kept is None or kept.until <= self._clock():
            return None
        return Entry(*json.loads(_masked(kept.masked, token)))


def _hash(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()


def _masked(text: bytes, token: str) -> bytes:
    """A token of 32 random bytes is used for one text: its expansion (SHAKE-256) is a pad. Twice gives the text again."""
    pad = hashlib.shake_256(b"memory_sql session " + token.encode()).digest(len(text))
    return bytes(one ^ other for one, other in zip(text, pad, strict=True))
