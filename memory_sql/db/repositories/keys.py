"""The keys of the HTTP server."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime
from typing import Any

from sqlalchemy import LargeBinary, any_, bindparam, func, insert, or_, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from memory_sql.db.models import ApiKeyRow, columns_of
from memory_sql.domain.keys import Key

_KEY = columns_of(ApiKeyRow, Key.model_fields)


async def add_key(session: AsyncSession, values: Mapping[str, Any]) -> Key:
    made = await session.execute(insert(ApiKeyRow).values(values).returning(*_KEY))
    return Key(**made.mappings().one())


async def list_keys(session: AsyncSession, now: datetime, *, revoked: bool) -> list[Key]:
    """Those that are accepted, oldest first; `revoked`: also those that aren't any more."""
    k = ApiKeyRow
    statement = select(*_KEY).order_by(k.key_id)
    if not revoked:
        statement = statement.where(k.revoked_at.is_(None), or_(k.expires_at.is_(None), k.expires_at > now))
    return [Key(**row) for row in (await session.execute(statement)).mappings()]


async def key_by_hash(session: AsyncSession, digest: bytes) -> Key | None:
    found = (await session.execute(select(*_KEY).where(ApiKeyRow.secret_hash == digest))).mappings().one_or_none()
    return None if found is None else Key(**found)


async def key_and_signature(
    session: AsyncSession, key_id: int, subject: str, told: bytes
) -> tuple[Key, bytes, bytes] | None:
    """The key with the hash of its secret, and what the database signs `told` with. None: there is no such key."""
    k = ApiKeyRow
    signature = func.memory.keyed_hash(subject, bindparam("told", told, LargeBinary)).label("signature")
    row = (
        (await session.execute(select(*_KEY, k.secret_hash, signature).where(k.key_id == key_id)))
        .mappings()
        .one_or_none()
    )
    if row is None:
        return None
    found = dict(row)
    digest, signed = found.pop("secret_hash"), found.pop("signature")
    return Key(**found), digest, signed


async def note_entered(session: AsyncSession, key_id: int, mark: bytes, ended: bytes) -> bool:
    """Whether the link with this mark hadn't been used yet, by whichever process; now it has. Marks before `ended` go."""
    k = ApiKeyRow
    one = func.unnest(k.entered).column_valued("one")
    left = func.array(select(one).where(one > bindparam("ended", ended, LargeBinary)).scalar_subquery())
    new = bindparam("mark", mark, LargeBinary)
    noted = (
        update(k)
        .where(k.key_id == key_id, ~(new == any_(k.entered)))
        .values(entered=func.array_append(left, new))
        .returning(k.key_id)
    )
    return await session.scalar(noted) is not None


async def revoke_key(session: AsyncSession, key_id: int, now: datetime) -> Key | None:
    """A key that was revoked before keeps its time. None: there is no such key."""
    k = ApiKeyRow
    await session.execute(update(k).where(k.key_id == key_id, k.revoked_at.is_(None)).values(revoked_at=now))
    found = (await session.execute(select(*_KEY).where(k.key_id == key_id))).mappings().one_or_none()
    return None if found is None else Key(**found)


async def note_use(session: AsyncSession, key_id: int, day: date) -> None:
    k = ApiKeyRow
    is_older = or_(k.last_used_on.is_(None), k.last_used_on < day)
    await session.execute(update(k).where(k.key_id == key_id, is_older).values(last_used_on=day))


async def end_keys_of(session: AsyncSession, user_id: str, now: datetime) -> None:
    """Revokes the keys that stand for a user who is forgotten, and takes the user's id and the key's name out of them."""
    k = ApiKeyRow
    ended = {"revoked_at": func.coalesce(k.revoked_at, now), "user_id": None, "name": ""}
    await session.execute(update(k).where(k.user_id == user_id).values(ended))
