"""How many rows a statement wants at most, as a literal.

Statements are planned once, for any parameters: of a LIMIT that is one the planner thinks it means a tenth of what is there,
and joins what comes of it by reading whole tables.
"""

from __future__ import annotations

from sqlalchemy import ColumnElement, Integer, literal_column


def number(most: int) -> ColumnElement[int]:
    return literal_column(str(int(most)), Integer)


ONE = number(1)
