"""How rows of observations are read.

Apart from the mapped tables: what only reads needn't wait for SQLAlchemy to map them. A test compares the columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from operator import attrgetter
from typing import Any

from sqlalchemy import (
    ARRAY,
    BigInteger,
    Boolean,
    ColumnElement,
    Date,
    DateTime,
    Double,
    Integer,
    Label,
    Select,
    SmallInteger,
    Text,
    column,
    select,
    true,
)
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.sql.elements import Grouping

from memory_sql.db.scope_rows import scope_ref
from memory_sql.domain.ids import observation_id
from memory_sql.domain.observations import Observation, Source

_MOMENT, _TEXTS = DateTime(timezone=True), ARRAY(Text)
_TYPES: dict[str, Any] = {
    "scope_id": BigInteger,
    "seq": Integer,
    "content": Text,
    "observed_at": _MOMENT,
    "given_at": _MOMENT,
    "said_again_at": _MOMENT,
    "created_at": _MOMENT,
    "category": Text,
    "kind": Text,
    "confidence": Double,
    "importance": Double,
    "classified_by": SmallInteger,
    "until": Date,
    "sensitivity": Text,
    "no_propagate": Boolean,
    "confidential": Boolean,
    "proposed": Text,
    "lane": Text,
    "fact_key": Text,
    "tags": _TEXTS,
    "source_kind": Text,
    "conversation_id": Text,
    "speaker": Text,
    "message_ids": _TEXTS,
    "run_id": BigInteger,
    "metadata": JSONB,
}
# What is called the same in a row and in a value passes by its name.
PLAIN = tuple(name for name in Observation.model_fields if name in _TYPES and name != "metadata")
OF_SOURCE = tuple(name for name in Source.model_fields if name in _TYPES and name != "kind")


def columns(*names: str) -> tuple[ColumnElement[Any], ...]:
    return tuple(column(name, _TYPES[name]) for name in names)


OWN = (
    *columns("scope_id", "seq", *PLAIN, "source_kind", *OF_SOURCE),
    column("metadata", JSONB).label("own_metadata"),
)
"""What `to_observation` reads of the observation's own row."""


def read_from(row: ColumnElement[Any], items: Iterable[Any], prefix: str = "") -> Iterator[Label[Any]]:
    """These columns of a table, of a column that holds a row of it: `(matches.observation) . content`."""
    for item in items:
        of_table = item.element if isinstance(item, Label) else item
        read = Grouping(row).op(".", return_type=of_table.type)(column(of_table.name))
        yield read.label(prefix + item.name)


def select_read(found: Any, *beside: ColumnElement[Any], each: Any = None) -> Select[Any]:
    """Rows for `to_observation`, of a function that returns what `memory.observation_as_read` does, and these `beside`.

    `each`: a table, for each row of which it is called.
    """
    read = found.table_valued(
        column("observation"),
        *(column(name, Text) for name in ("scope_kind", "owner", "name", "status", "verification")),
        *(column(name, Integer) for name in ("superseded_by", "version")),
        column("pending", Boolean),
        column("resolved", Text),
        *beside,
        name="found",
    )
    read = read if each is None else read.lateral("found")
    rows = select(*(item for item in read.c if item.name != "observation"), *read_from(read.c.observation, OWN))
    return rows if each is None else rows.select_from(each.join(read, true()))


def to_observation(row: Any) -> Observation:
    return Observation(
        **dict(zip(PLAIN, _plain(row), strict=True)),
        id=observation_id(row.scope_id, row.seq),
        scope=scope_ref(row.scope_id, row.scope_kind, row.owner, row.name),
        status=row.status,
        pending=row.pending,
        verification=row.verification,
        resolved=None if row.status == "active" else row.resolved,  # as it was at a past moment
        superseded_by=None
        if row.superseded_by is None or row.status != "superseded"
        else observation_id(row.scope_id, row.superseded_by),
        version=row.version,
        metadata=row.own_metadata,
        source=Source(kind=row.source_kind, **dict(zip(OF_SOURCE, _of_source(row), strict=True))),
    )


_plain, _of_source = attrgetter(*PLAIN), attrgetter(*OF_SOURCE)
