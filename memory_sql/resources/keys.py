"""Keys of the HTTP server: who may ask it for what."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime, timedelta
from functools import cached_property, partial

from memory_sql.db import Session
from memory_sql.db.principals import service
from memory_sql.db.repositories.keys import add_key, key_by_hash, list_keys, note_use, revoke_key
from memory_sql.domain.arguments import MOST_STORED, flags, moment_of, name_of, optional_id, within
from memory_sql.domain.ids import Id
from memory_sql.domain.keys import (
    SECRET_MAX_CHARACTERS,
    SHOWN,
    Key,
    NewKey,
    Right,
    agents_of,
    hash_of,
    new_secret,
    rights_of,
)
from memory_sql.errors import InputError, NotFoundError, ReadOnlyError
from memory_sql.resources.runtime import Face

KEPT_SECONDS = 10  # an answer of `find`, so also how long a revocation takes at most
MOST_KEPT = 10_000  # answers, of unknown keys too


class Keys(Face):
    """Keys of the HTTP server (`memory-sql serve`): who may ask it for what."""

    @cached_property
    def _found(self) -> OrderedDict[bytes, tuple[datetime, Key | None]]:
        """The answers that are kept, by the hash of the secret."""
        return OrderedDict()

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
        self._found.clear()

        async def revoke(unit: Session) -> Key:
            key = await revoke_key(unit, number, now)
            if key is None:
                raise NotFoundError("key", str(number))
            return key

        return await self._database.write(revoke, principal=service(None))

    async def find(self, secret: str) -> Key | None:
        """The key with this secret; None if there is none, or it was revoked or has expired.

        The answer is kept for ten seconds, also that there is none. Notes the day of use.
        """
        if not isinstance(secret, str):
            raise InputError(f"secret must be text, not {type(secret).__name__}")
        if not 1 <= len(secret) <= SECRET_MAX_CHARACTERS:
            return None
        digest, now = hash_of(secret), self._now()
        kept = self._found.get(digest)
        if kept is None or not timedelta(0) <= now - kept[0] < timedelta(seconds=KEPT_SECONDS):
            kept = now, await self._looked_up(digest, now)
            self._found[digest] = kept
            self._found.move_to_end(digest)
            while len(self._found) > MOST_KEPT:
                self._found.popitem(last=False)
        key = kept[1]
        return key if key is not None and key.holds_at(now) else None

    async def _looked_up(self, digest: bytes, now: datetime) -> Key | None:
        async with self._database.statement(principal=service(None)) as unit:
            key = await key_by_hash(unit, digest)
        if key is not None and key.holds_at(now) and (key.last_used_on is None or key.last_used_on < now.date()):
            with suppress(ReadOnlyError):  # a standby answers as well, and notes nothing
                use = partial(note_use, key_id=key.key_id, day=now.date())
                await self._database.write(use, principal=service(None))
        return key
