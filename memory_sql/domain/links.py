"""Links that sign a browser in, once and within a minute: signed, so that any process of the server can read them.

A link names the key behind it. The database signs it (`memory.keyed_hash`), with the key that none of its readers can read.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from datetime import datetime
from typing import Any, NamedTuple

from memory_sql.domain.keys import Key

LINK_SECONDS = 60
MOST_CHARACTERS = 5_000  # of a code
SUBJECT = "link 1"  # of the signature


class Link(NamedTuple):
    """`agent_id` and `user_id` None: all that the key opens; else the page of this person. `ends`: in seconds since 1970."""

    key_id: int
    agent_id: str | None
    user_id: str | None
    ends: int
    nonce: str

    def holds_at(self, now: datetime) -> bool:
        """Whether it has begun to hold, by clocks that agree on the second, and not ended."""
        return 0 < self.ends - now.timestamp() <= LINK_SECONDS + 1

    def is_within(self, key: Key) -> bool:
        """Whether it opens no more than the key does now."""
        if self.user_id is None or self.agent_id is None:
            return self.user_id is None and self.agent_id is None
        return (
            key.user_id in (None, self.user_id)
            and "read" in key.rights
            and (key.agents is None or self.agent_id in key.agents)
        )

    @property
    def mark(self) -> bytes:
        """By which it is known that it was used: sorted by when it ends, and nothing that tells whose it was."""
        return self.ends.to_bytes(8, "big") + hashlib.sha256(self.nonce.encode()).digest()[:16]


def new_link(key_id: int, agent_id: str | None, user_id: str | None, now: datetime) -> Link:
    return Link(key_id, agent_id, user_id, int(now.timestamp()) + LINK_SECONDS, secrets.token_urlsafe(16))


def told_of(link: Link) -> bytes:
    """What is signed."""
    return json.dumps(link, separators=(",", ":")).encode()


def code_of(told: bytes, signature: bytes) -> str:
    """For an address."""
    return f"{_encoded(told)}.{_encoded(signature)}"


def parts_of(code: str) -> tuple[bytes, bytes] | None:
    """What was signed, and the signature; None: it isn't a code."""
    told, _, signature = code.partition(".")
    if len(code) > MOST_CHARACTERS or not code.isascii():
        return None
    try:
        return _decoded(told), _decoded(signature)
    except ValueError:
        return None


def link_of(told: bytes) -> Link | None:
    """The link in it, whoever has signed it; None: it isn't one of ours."""
    try:
        found: Any = json.loads(told)
    except ValueError:
        return None
    kinds = ((int,), (str, type(None)), (str, type(None)), (int,), (str,))
    if not isinstance(found, list) or len(found) != len(kinds):
        return None
    if not all(type(one) in kind for one, kind in zip(found, kinds, strict=True)):
        return None
    link = Link(*found)
    return link if 0 <= link.key_id < 2**63 and 0 <= link.ends < 2**63 else None


def mark_of(now: datetime) -> bytes:
    """All marks before it are of links that have ended."""
    return max(0, int(now.timestamp())).to_bytes(8, "big")


def _encoded(text: bytes) -> str:
    return urlsafe_b64encode(text).rstrip(b"=").decode()


def _decoded(text: str) -> bytes:
    return urlsafe_b64decode(text + "=" * (-len(text) % 4))
