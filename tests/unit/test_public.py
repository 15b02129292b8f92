"""The public names: sorted, importable, the same for type checkers, and including everything in public signatures."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import get_args, get_origin, get_type_hints

import memory_sql
from memory_sql import errors, models
from memory_sql.resources.faces import FACES

NOT_NAMED_BY_HOSTS = {"Database", "Dumpable"}


def imported_for_type_checkers() -> set[str]:
    tree = ast.parse(Path(memory_sql.__file__).read_text("utf-8"))
    (block,) = [node for node in tree.body if isinstance(node, ast.If) and isinstance(node.test, ast.Name)]
    return {alias.name for node in block.body if isinstance(node, ast.ImportFrom) for alias in node.names}


def is_ours(hint: object) -> bool:
    return isinstance(hint, type) and hint.__module__.startswith("memory_sql.")


def classes_in(hint: object) -> Iterator[type]:
    if isinstance(hint, type) and is_ours(hint):
        yield hint
    for part in (*get_args(hint), *(hint if isinstance(hint, list) else ())):
        yield from classes_in(part)


def used_by(cls: type) -> Iterator[type]:
    """The classes of ours that are in its attributes and the signatures of its public methods."""
    members = [member for name, member in vars(cls).items() if not name.startswith("_") or name == "__init__"]
    functions = [member.fget if isinstance(member, property) else member for member in members]
    for member in (cls, *filter(inspect.isfunction, functions)):
        for hint in get_type_hints(member).values():
            yield from classes_in(hint)


def reached() -> set[type]:
    """All that a host comes upon, from `Memory`, its faces and the errors on."""
    memory = memory_sql.Memory("postgresql://nowhere/none")
    faces = [type(getattr(memory, name)) for name in ("settings", *FACES)]
    found: set[type] = set()
    waiting = [memory_sql.Memory, *faces, *(e for e in vars(errors).values() if is_ours(e))]
    while waiting:
        cls = waiting.pop()
        if cls not in found and cls.__name__ not in NOT_NAMED_BY_HOSTS:
            found.add(cls)
            waiting += used_by(cls)
    return found


def test_public_names_stand_in_order_and_are_there() -> None:
    assert memory_sql.__all__ == sorted(memory_sql.__all__)
    assert all(getattr(memory_sql, name) is not None for name in memory_sql.__all__)


def test_type_checkers_see_the_same_names() -> None:
    assert imported_for_type_checkers() | {"__version__"} == set(memory_sql.__all__)


def test_signatures_can_be_resolved() -> None:
    """By whoever makes a tool or a route of a method, though what it returns is imported late."""
    memory = memory_sql.Memory("postgresql://nowhere/none")
    for cls in (memory_sql.Memory, memory_sql.Worker, *(type(getattr(memory, name)) for name in FACES)):
        for _, function in inspect.getmembers(cls, inspect.isfunction):
            assert get_type_hints(function) is not None


def test_annotations_of_tables_can_be_resolved() -> None:
    """Though their modules name one another in circles."""
    for name in models.__all__:
        assert get_type_hints(getattr(models, name))


def test_every_list_is_a_list() -> None:
    memory = memory_sql.Memory("postgresql://nowhere/none")
    methods = [getattr(type(getattr(memory, name)), "list", None) for name in FACES]
    assert {get_origin(get_type_hints(method)["return"]) for method in methods if method} == {list}


def test_whatever_a_host_comes_upon_is_public() -> None:
    assert {cls.__name__ for cls in reached()} <= set(memory_sql.__all__)
