"""What the tables of schema `memory` have in common.

Analysts read the comments of tables and columns; the migrations are the tables' history.

The agent's key leads every primary and foreign key, so a row can't refer to another agent's. Every text column declares
what happens to it when a person is forgotten (`info["text"]`): `erase` (may hold remembered text), `host_id` (the host's
own identifier) or `constant` (one of the library's own words).
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from sqlalchemy import (
    ARRAY,
    REAL,
    BigInteger,
    CheckConstraint,
    Computed,
    DateTime,
    ForeignKeyConstraint,
    Integer,
    LargeBinary,
    MetaData,
    Text,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB, TSVECTOR
from sqlalchemy.orm import (
    DeclarativeBase,
    InstrumentedAttribute,
    MappedColumn,
    Relationship,
    mapped_column,
    relationship,
)

SCHEMA = "memory"
SEARCHED_CHARACTERS = 100_000  # of one text; more could exceed what a tsvector holds (1 MB)


class Base(DeclarativeBase):
    metadata = MetaData(
        schema=SCHEMA,
        naming_convention={
            "pk": "%(table_name)s_pkey",
            "uq": "%(table_name)s_%(column_0_N_name)s_key",
            "fk": "%(table_name)s_%(column_0_N_name)s_fkey",
            "ck": "%(table_name)s_%(constraint_name)s_check",
            "ix": "%(table_name)s_%(column_0_N_name)s_idx",
        },
    )
    type_annotation_map = {  # noqa: RUF012 (declarative reads it from the class)
        int: BigInteger,
        str: Text,
        float: REAL,
        bytes: LargeBinary,
        datetime: DateTime(timezone=True),
        list[str]: ARRAY(Text),
        list[int]: ARRAY(Integer),
        dict[str, Any]: JSONB,
    }


def columns_of(row: type[Base], names: Iterable[str]) -> tuple[InstrumentedAttribute[Any], ...]:
    """The table's columns with these names, in the order of the names. Names that aren't columns are skipped."""
    stored = row.__table__.c
    return tuple(getattr(row, name) for name in names if name in stored)


def column(comment: str, *arguments: Any, **options: Any) -> MappedColumn[Any]:
    return mapped_column(*arguments, comment=comment, **options)


def constant(comment: str, **options: Any) -> MappedColumn[Any]:
    return mapped_column(comment=comment, info={"text": "constant"}, **options)


def host_id(comment: str, **options: Any) -> MappedColumn[Any]:
    return mapped_column(comment=comment, info={"text": "host_id"}, **options)


def erase(comment: str, **options: Any) -> MappedColumn[Any]:
    return mapped_column(comment=comment, info={"text": "erase"}, **options)


def one_of(name: str, *values: str) -> CheckConstraint:
    """Compared with one array: Postgres reads a table's checks anew for each statement that writes to it, value by value."""
    return CheckConstraint(f"{name} = ANY ('{{{','.join(values)}}}')", name=name)


def key_of(table: str, *columns: str, goes_along: bool = False) -> ForeignKeyConstraint:
    """A foreign key to `table` by columns of the same names. `goes_along`: deleting the referenced row deletes this one."""
    return ForeignKeyConstraint(
        ["agent_key", *columns],
        [f"{SCHEMA}.{table}.{name}" for name in ("agent_key", *columns)],
        ondelete="CASCADE" if goes_along else None,
    )


def related(**options: Any) -> Relationship[Any]:
    """Read-only, since only the library writes. Loaded only by a query that asks for it: no attribute runs a statement."""
    return relationship(viewonly=True, lazy="raise", **options)


def withdrawn_by() -> MappedColumn[Any]:
    return constant(
        "Id of the forgetting that withdrew it and waits for a hold to end; null: not withdrawn.", nullable=True
    )


def standing() -> MappedColumn[Any]:
    return constant(
        "Status of the observation, which a trigger keeps here too: indexes leave out what isn't in use.",
        server_default=text("'active'"),
    )


def search_vector(comment: str, **options: Any) -> MappedColumn[Any]:
    """The words of `content` in the row's `language` and of `search_extra` in no language, without their positions."""
    extra = f"to_tsvector('pg_catalog.simple'::regconfig, left(search_extra, {SEARCHED_CHARACTERS}))"
    return _vector(f"strip({SCHEMA}.search_vector(language, content) || {extra})", comment, **options)


def cue_vector(comment: str) -> MappedColumn[Any]:
    """The words of `terms` in the row's `language`."""
    return _vector(f"strip({SCHEMA}.search_vector(language, terms))", comment)


def _vector(generated: str, comment: str, **options: Any) -> MappedColumn[Any]:
    return mapped_column(
        TSVECTOR,
        Computed(generated, persisted=True),
        deferred=True,
        deferred_raiseload=True,
        comment=comment,
        info={"text": "erase"},
        **options,
    )


SEARCH_EXTRA = "Words that the language's parser would miss: identifiers, n-grams, folded forms, days mentioned."
NOW = text("now()")
ZERO = text("0")
NEVER_JUDGED = 2**31 - 1  # value of waits_below: the next catch-up checks the row
NO_TEXTS = text("'{}'::text[]")
NO_NUMBERS = text("'{}'::integer[]")
NO_PAIRS = text("'{}'::jsonb")
NO_ITEMS = text("'[]'::jsonb")
TRUE = text("true")
FALSE = text("false")
READABLE = "< '9999-01-01 00:00:00+00'::timestamptz"  # later times can be stored, but some drivers can't read them back
