"""The command line has the same nouns and verbs as Memory: a group for each face, a command for each method."""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from memory_sql.memory import Memory
from memory_sql.resources.faces import FACES
from memory_sql.resources.runtime import Face
from tests.commands import commands

PAGE = Path(__file__).parents[2] / "docs" / "commands.md"
NOUNS = {
    "observations": "observation",
    "scopes": "scope",
    "entities": "entity",
    "topics": "topic",
    "prompts": "prompt",
    "conversations": "conversation",
    "episodes": "episode",
    "groups": "group",
    "people": "person",
    "holds": "hold",
    "keys": "key",
    "models": "model",
    "imports": "import",
    "work": "work",
    "admin": "admin",
}
SHORTER = {"add_member": "add", "remove_member": "remove"}  # `group add` says it
WORKERS = {"claim", "catch_up"}  # what a worker calls to work
ASIDE = {("prompts", "get"): "show", ("scopes", "get"): "show", ("episodes", "get"): "show"}  # what a command prints
MORE = {("prompts", "diff")}  # of two that it gets
WITHIN = {"message_ids", "find", "known", "link", "redeem", "takes_part", "note_action"}  # of `add`, `serve` and tools
BY_OPTION = {("people", "forget")}  # `forget --all-agents`
APART = {("work", "lifecycle"), ("admin", "move")}  # a command of its own
OPENING = {"open", "close"}  # every command opens, and closes
ELSEWHERE = {
    "agent",
    "demo",
    "mcp",
    "worker",
    "estimate",
    "lifecycle",
    "serve",
    "inspect",
    "db",
}  # that are no method of Memory


def methods(of: type) -> set[str]:
    return {
        name
        for name, function in inspect.getmembers(of, inspect.isfunction)
        if not name.startswith("_") and (is_awaited(function) or inspect.isasyncgenfunction(function))
    }


def is_awaited(function: Callable[..., object]) -> bool:
    returned = str(inspect.signature(function).return_annotation)
    return inspect.iscoroutinefunction(function) or returned.startswith("Coroutine")


def faces() -> Iterator[tuple[str, type[Face]]]:
    memory = Memory("postgresql://nobody@127.0.0.1:9/nothing")
    for name in FACES:
        face = getattr(memory, name)
        assert isinstance(face, Face)
        yield name, type(face)


def inside(group: str) -> set[str]:
    return {command[1] for command in commands() if len(command) > 1 and command[0] == group}


def test_every_face_has_a_group() -> None:
    assert {name for name, _ in faces()} == set(NOUNS)


@pytest.mark.parametrize(("name", "face"), list(faces()))
def test_group_has_a_command_for_each_method_of_its_face(name: str, face: type[Face]) -> None:
    own = methods(face) - WORKERS - WITHIN - {method for noun, method in BY_OPTION | APART if noun == name}
    called = {ASIDE.get((name, method), SHORTER.get(method, method)) for method in own}
    more = {command for noun, command in MORE if noun == name}
    assert inside(NOUNS[name]) == {command.replace("_", "-") for command in called} | more


def test_main_commands_are_the_methods_of_memory() -> None:
    main = {command[0] for command in commands()} - set(NOUNS.values()) - ELSEWHERE
    assert main == {method.replace("_", "-") for method in methods(Memory) - OPENING}


def test_page_lists_every_command() -> None:
    listed = re.findall(r"^\| `memory-sql ([a-z0-9 -]+)` \|", PAGE.read_text("utf-8"), re.MULTILINE)
    assert sorted(listed) == sorted(" ".join(command) for command in commands())


def test_page_names_the_face_of_each_group() -> None:
    named = re.findall(r"^## (\w+)\n\n.*In Python: `memory\.(\w+)`", PAGE.read_text("utf-8"), re.MULTILINE)
    assert {face: group for group, face in named} == NOUNS


@pytest.mark.parametrize("asked", ["--help", "--version"])
def test_help_and_version_import_neither_a_driver_nor_models(asked: str) -> None:
    code = (
        f"import sys; from memory_sql.cli import main; main([{asked!r}]); print(sorted(sys.modules), file=sys.stderr)"
    )
    ended = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert not {"pydantic", "sqlalchemy", "asyncpg", "asyncio"} & set(ast.literal_eval(ended.stderr))
    assert ended.stdout
