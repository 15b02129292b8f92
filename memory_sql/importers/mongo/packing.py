"""What the rows of a plan need of a record, as bytes of the spool's own file: read back once for each of millions of rows."""

from __future__ import annotations

import pickle
from datetime import datetime, timedelta
from typing import NamedTuple

from memory_sql.domain.messages import EPOCH
from memory_sql.importers.mongo.documents import Record, RecordType
from memory_sql.importers.mongo.values import ObjectKey

_TICK = timedelta(microseconds=1)  # a moment takes as long to read back as all the rest


class Kept(NamedTuple):
    """`digest` is that of the content; None: there is none. `is_plain`: as of `Text`. `updated_at` is in ISO 8601."""

    ref: str
    type: RecordType
    content: str
    source_hash: bytes
    digest: bytes | None
    is_plain: bool
    updated_at: str | None
    session: str | None
    shard: str | None
    messages: tuple[str, ...]
    users: tuple[str, ...]
    created_at: datetime


def packed(record: Record, digest: bytes | None) -> bytes:
    r = record
    kept = (
        r.ref, r.type, r.text.content, r.text.source_hash, digest, r.text.is_plain,
        r.updated_at and r.updated_at.isoformat(), _plain(r.session), _plain(r.shard), tuple(map(str, r.messages)),
        tuple(map(str, r.users)),
        (r.created_at - EPOCH) // _TICK,
    )  # fmt: skip
    return pickle.dumps(kept, pickle.HIGHEST_PROTOCOL)


def unpacked(body: bytes) -> Kept:
    """Only of what `packed` has made."""
    *kept, ticks = pickle.loads(body)
    return Kept._make((*kept, EPOCH + timedelta(microseconds=ticks)))


def _plain(key: ObjectKey | None) -> str | None:
    return None if key is None else str(key)
