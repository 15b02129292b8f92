"""Hashes by which a scope recognizes a text without revealing it to readers of the table: under the database's own key."""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import ARRAY, BigInteger, LargeBinary, cast, func, select
from sqlalchemy.ext.asyncio import AsyncSession

TextKey = tuple[int, bytes | None]
"""`(scope_id, content_digest)`."""


async def keyed_hashes(session: AsyncSession, subject: str, values: Collection[bytes]) -> list[bytes]:
    """`memory.keyed_hash` of each value under this subject, in the same order; one statement."""
    if not values:
        return []
    hashed = func.memory.keyed_hashes(subject, cast(list(values), ARRAY(LargeBinary))).table_valued("place", "hash")
    return list(await session.scalars(select(hashed.c.hash).order_by(hashed.c.place)))


async def content_hashes(session: AsyncSession, texts: Collection[TextKey]) -> dict[TextKey, bytes]:
    """The `content_hash` that an observation with that text has in that scope; one statement. None has no hash."""
    wanted = sorted((scope_id, digest) for scope_id, digest in set(texts) if digest is not None)
    if not wanted:
        return {}
    scope_ids, digests = zip(*wanted, strict=True)
    arrays = cast(list(scope_ids), ARRAY(BigInteger)), cast(list(digests), ARRAY(LargeBinary))
    hashed = func.memory.content_hashes(*arrays).table_valued("place", "hash")
    found = await session.scalars(select(hashed.c.hash).order_by(hashed.c.place))
    return dict(zip(wanted, found, strict=True))
