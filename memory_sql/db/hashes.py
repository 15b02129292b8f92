"""By what a scope knows a text again, without telling it to whoever reads the table: hashes under the database's own key."""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import ARRAY, BigInteger, LargeBinary, cast, column, func, select
from sqlalchemy.ext.asyncio import AsyncSession

TextKey = tuple[int, bytes | None]
"""`(scope_id, content_digest)`."""


async def keyed_hashes(session: AsyncSession, subject: str, values: Collection[bytes]) -> list[bytes]:
    """Of each its `memory.keyed_hash` under this subject, in their order; one statement."""
    if not values:
        return []
    given = func.unnest(cast(list(values), ARRAY(LargeBinary)))
    one = given.table_valued(column("value", LargeBinary), with_ordinality="place").render_derived()
    hashed = select(func.memory.keyed_hash(subject, one.c.value)).order_by(one.c.place)
    return list(await session.scalars(hashed))


async def content_hashes(session: AsyncSession, texts: Collection[TextKey]) -> dict[TextKey, bytes]:
    """What `content_hash` of an observation with that text is in that scope; one statement. None has none."""
    wanted = sorted((scope_id, digest) for scope_id, digest in set(texts) if digest is not None)
    if not wanted:
        return {}
    scope_ids, digests = zip(*wanted, strict=True)
    arrays = cast(list(scope_ids), ARRAY(BigInteger)), cast(list(digests), ARRAY(LargeBinary))
    columns = column("scope_id", BigInteger), column("digest", LargeBinary)
    one = func.unnest(*arrays).table_valued(*columns, with_ordinality="place").render_derived()
    hashed = select(func.memory.content_hash(one.c.scope_id, one.c.digest)).order_by(one.c.place)
    return dict(zip(wanted, await session.scalars(hashed), strict=True))
