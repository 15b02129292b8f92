"""The LIMIT of a statement, as a literal.

Statements are planned once, for any parameters. If the LIMIT is a parameter, the planner assumes that it returns a tenth of
all rows, and then joins them by reading whole tables.
"""

from __future__ import annotations

from sqlalchemy import ColumnElement, Integer, literal_column


def number(most: int) -> ColumnElement[int]:
    return literal_column(str(int(most)), Integer)


ONE = number(1)
