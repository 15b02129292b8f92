"""Serializes what a plan's rows need of a record, for the spool's own file.

It is read back once for each of millions of rows.
"""

from __future__ import annotations

import pickle
from datetime import datetime, timedelta
from typing import NamedTuple

from memory_sql.domain.message_shapes import EPOCH
from memory_sql.importers.mongo.documents import Record, RecordType
from memory_sql.importers.mongo.values import ObjectKey

_TICK = timedelta(microseconds=1)  # reading back a datetime would take as long as everything else


class Kept(NamedTuple):
    """`digest` is that of the content; None: there is none. `is_plain`: see `Text`. `updated_at` is in ISO 8601."""

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
    """Accepts only bytes made by `packed`."""
    *kept, ticks = pickle.loads(body)
    return Kept._make((*kept, EPOCH + timedelta(microseconds=ticks)))


def _plain(key: ObjectKey | None) -> str | None:
    return None if key is None else str(key)
