"""Keys of the HTTP server: who may ask it for what."""

from __future__ import annotations

import asyncio
import hmac
from collections import OrderedDict
from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime, timedelta
from functools import cached_property, partial

from memory_sql.db import Session
from memory_sql.db.hashes import keyed_hashes
from memory_sql.db.principals import service
from memory_sql.db.repositories.keys import (
    add_key,
    key_and_signature,
    key_by_hash,
    list_keys,
    note_entered,
    note_use,
    revoke_key,
)
from memory_sql.domain.arguments import MOST_STORED, flags, moment_of, name_of, needed_text, optional_id, within
from memory_sql.domain.ids import Id, moved
from memory_sql.domain.keys import SHOWN, Key, NewKey, Right, agents_of, hash_of, may_be_secret, new_secret, rights_of
from memory_sql.domain.links import LINK_SECONDS, SUBJECT, code_of, link_of, mark_of, new_link, parts_of, told_of
from memory_sql.errors import InputError, NotFoundError, ReadOnlyError
from memory_sql.resources.runtime import Face

KEPT_SECONDS = 10  # an answer of `find`, so also how long a revocation takes at most
MOST_KEPT = 10_000  # answers, of unknown keys too
HASH_BYTES = 32
STRANGERS = 2  # secrets that weren't known lately are looked up at once


class Keys(Face):
    """Keys of the HTTP server (`memory-sql serve`): who may ask it for what."""

    @cached_property
    def _found(self) -> OrderedDict[bytes, tuple[datetime, Key | None]]:
        """The answers that are kept, by the hash of the secret."""
        return OrderedDict()

    @cached_property
    def _asking(self) -> dict[bytes, asyncio.Task[Key | None]]:
        """The look-ups under way."""
        return {}

    @cached_property
    def _strangers(self) -> asyncio.Semaphore:
        """Made-up keys, however many, take no more connections than this from those who are known."""
        return asyncio.Semaphore(STRANGERS)

    async def create(
        self,
        name: str,
        *,
        rights: Iterable[Right],
        agents: Iterable[Id] | None = None,
        user_id: Id | None = None,
        expires_at: datetime | None = None,
        actor: Id | None = None,
    ) -> NewKey:
        """Makes a key and returns it with its `secret`, which is stored nowhere: only its SHA-256 is.

        `rights`: read, write, forget, admin; each allows only what it says. `agents` None: all agents. With `user_id` the key
        stands for this user alone, and can't have the right admin; without, the host vouches for the user that each request
        names. Raises `InputError`.
        """
        now = self._now()
        called, allowed, user = name_of("name", name), rights_of(rights), optional_id("user_id", user_id)
        if not called:
            raise InputError("name needs some text")
        if user is not None and "admin" in allowed:
            raise InputError("a key with user_id= can't have the right admin")
        ends = moment_of("expires_at", expires_at)
        if ends is not None and ends <= now:
            raise InputError("expires_at is past")
        whose, secret = agents_of(agents), new_secret()
        values = {
            "secret_hash": hash_of(secret),
            "prefix": secret[:SHOWN],
            "name": called,
            "agents": None if whose is None else [*whose],
            "rights": [*allowed],
            "user_id": user,
            "created_at": now,
            "created_by": optional_id("actor", actor),
            "expires_at": ends,
        }
        made = await self._database.write(partial(add_key, values=values), principal=service(None))
        return NewKey(**made.model_dump(), secret=secret)

    async def list(self, *, revoked: bool = False) -> list[Key]:
        """The keys that are accepted, oldest first; `revoked`: also those that were revoked or have expired."""
        flags(revoked=revoked)
        async with self._database.statement(principal=service(None)) as unit:
            return await list_keys(unit, self._now(), revoked=revoked)

    async def revoke(self, key_id: int) -> Key:
        """Ends a key and returns it; servers notice within ten seconds. Repeating it changes nothing.

        Raises `NotFoundError`.
        """
        number, now = within("key_id", key_id, MOST_STORED), self._now()

        async def revoke(unit: Session) -> Key:
            key = await revoke_key(unit, number, now)
            if key is None:
                raise NotFoundError("key", str(number))
            return key

        revoked = await self._database.write(revoke, principal=service(None))
        self._found.clear()
        self._asking.clear()
        return revoked

    async def find(self, secret: str) -> Key | None:
        """The key with this secret; None if there is none, or it was revoked or has expired.

        The answer is kept for ten seconds, also that there is none. Notes the day of use.
        """
        if not isinstance(secret, str):
            raise InputError(f"secret must be text, not {type(secret).__name__}")
        return await self.known(hash_of(secret)) if may_be_secret(secret) else None

    async def known(self, secret_hash: bytes) -> Key | None:
        """As `find`, by the SHA-256 of the secret."""
        if not isinstance(secret_hash, bytes) or len(secret_hash) != HASH_BYTES:
            raise InputError(f"secret_hash must be {HASH_BYTES} bytes")
        digest, now = secret_hash, self._now()
        kept = self._found.get(digest)
        if kept is not None and timedelta(0) <= now - kept[0] < timedelta(seconds=KEPT_SECONDS):
            key = kept[1]
        else:
            key = await self._asked(digest, now)
        return key if key is not None and key.holds_at(now) else None

    async def link(self, secret: str, *, agent_id: Id | None = None, user_id: Id | None = None) -> str:
        """A code that signs a browser in to the inspector, once and within a minute, in any process that serves it.

        To all that the key opens; or, with both, to the page of this user and nothing else, with what the key may do there
        but the right admin. Nothing is stored until it is used; it ends with the key. Raises `InputError`, and
        `NotFoundError` if there is no such key, or it doesn't open that.
        """
        agent, user = optional_id("agent_id", agent_id), optional_id("user_id", user_id)
        if (agent is None) != (user is None):
            raise InputError("give agent_id= and user_id=, or neither")
        key = await self.find(secret)
        if key is None:
            raise NotFoundError("key", "this")
        made = new_link(key.key_id, agent, user, self._now())
        if not made.is_within(key):
            raise NotFoundError("key for user", str(user))
        told = told_of(made)
        async with self._database.statement(principal=service(None)) as unit:
            (signature,) = await keyed_hashes(unit, SUBJECT, [told])
        return code_of(told, signature)

    async def redeem(self, code: str) -> tuple[bytes, str | None, str | None] | None:
        """The hash of the secret of a code's key (`known`), and the agent and the user that `link` was given.

        None: the database hasn't signed it, its key ended or opens less than it does, it was used, or is too old.
        """
        now, parts = self._now(), parts_of(needed_text("code", code))
        link = None if parts is None else link_of(parts[0])
        if parts is None or link is None or not link.holds_at(now):
            return None
        async with self._strangers, self._database.statement(principal=service(None)) as unit:
            found = await key_and_signature(unit, link.key_id, SUBJECT, parts[0])
        if found is None or not hmac.compare_digest(parts[1], found[2]):
            return None
        key, digest, _ = found
        if not key.holds_at(now) or not link.is_within(key):
            return None
        ended = mark_of(moved(now, -timedelta(seconds=LINK_SECONDS)))  # also by clocks that are a minute behind
        use = partial(note_entered, key_id=link.key_id, mark=link.mark, ended=ended)
        is_first = await self._database.write(use, principal=service(None))
        return (digest, link.agent_id, link.user_id) if is_first else None

    async def _asked(self, digest: bytes, now: datetime) -> Key | None:
        """One asks for all who come meanwhile: an answer that ends under load would be asked for by hundreds at once."""
        asking = self._asking.get(digest)
        if asking is None:
            asking = self._asking[digest] = asyncio.create_task(self._answer(digest, now))
            asking.add_done_callback(partial(self._answered, digest))
        return await asyncio.shield(asking)  # whoever gives up doesn't end it for the others

    async def _answer(self, digest: bytes, now: datetime) -> Key | None:
        kept = self._found.get(digest)
        if kept is not None and kept[1] is not None:
            key = await self._looked_up(digest, now)
        else:
            async with self._strangers:
                key = await self._looked_up(digest, now)
        if self._asking.get(digest) is asyncio.current_task():  # else a key was revoked meanwhile
            self._found[digest] = now, key
            self._found.move_to_end(digest)
            while len(self._found) > MOST_KEPT:
                self._found.popitem(last=False)
        return key

    def _answered(self, digest: bytes, asking: asyncio.Task[Key | None]) -> None:
        if self._asking.get(digest) is asking:
            del self._asking[digest]
        if not asking.cancelled():
            asking.exception()  # whoever waits has it; nobody may be left

    async def _looked_up(self, digest: bytes, now: datetime) -> Key | None:
        async with self._database.statement(principal=service(None)) as unit:
            key = await key_by_hash(unit, digest)
        if key is not None and key.holds_at(now) and (key.last_used_on is None or key.last_used_on < now.date()):
            with suppress(ReadOnlyError):  # a standby answers as well, and notes nothing
                use = partial(note_use, key_id=key.key_id, day=now.date())
                await self._database.write(use, principal=service(None))
        return key
