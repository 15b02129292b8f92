"""Lists of any length as arrays: a statement can have at most 32,767 parameters, and each item of a list would be one."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from sqlalchemy import ARRAY, ColumnElement, FromClause, and_, any_, cast, func, select, true, tuple_
from sqlalchemy.orm import QueryableAttribute

Column = QueryableAttribute[Any] | ColumnElement[Any]
_MANY = 50


def among(column: Column, values: Collection[Any]) -> ColumnElement[bool]:
    """Whether the column's value is one of these values."""
    return column == any_(cast(sorted(values), ARRAY(column.type)))


def are_among(columns: tuple[Column, ...], keys: Collection[tuple[Any, ...]]) -> ColumnElement[bool]:
    """Whether the values of these columns together are one of these keys.

    Where they are many, as one table of hashes: else all might be gone through for each row, since the planner doesn't know
    how long an array is. By the values of each column it still finds them in an index, and reads nothing beside them.
    """
    found = tuple_(*columns).in_(select(unnested(columns, keys)))
    if len(keys) <= _MANY:
        return found
    each = (among(column, {key[n] for key in keys}) for n, column in enumerate(columns))
    return and_(*each, found.is_(true()))


def unnested(columns: tuple[Column, ...], keys: Collection[tuple[Any, ...]]) -> FromClause:
    """One row for each key, in columns of the same names and types."""
    ordered = sorted(keys)
    arrays = [cast([key[n] for key in ordered], ARRAY(column.type)) for n, column in enumerate(columns)]
    return func.unnest(*arrays).table_valued(*(str(column.key) for column in columns)).render_derived()
