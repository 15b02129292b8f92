"""The public names: in order, importable, and the same for whoever checks types."""

from __future__ import annotations

import ast
from pathlib import Path

import memory_sql


def imported_for_type_checkers() -> set[str]:
    tree = ast.parse(Path(memory_sql.__file__).read_text("utf-8"))
    (block,) = [node for node in tree.body if isinstance(node, ast.If) and isinstance(node.test, ast.Name)]
    return {alias.name for node in block.body if isinstance(node, ast.ImportFrom) for alias in node.names}


def test_public_names_stand_in_order_and_are_there() -> None:
    assert memory_sql.__all__ == sorted(memory_sql.__all__)
    assert all(getattr(memory_sql, name) is not None for name in memory_sql.__all__)


def test_type_checkers_see_the_same_names() -> None:
    assert imported_for_type_checkers() | {"__version__"} == set(memory_sql.__all__)
