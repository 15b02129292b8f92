"""docs/migrating.md: its worked example gives the printed results, and its Python runs."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from memory_sql.memory import Memory
from tests.commands import memory_sql
from tests.legacy.formats import dump
from tests.legacy.homes import Document, Home, at
from tests.unit.test_pages import read

HOME = Home(("harbour",))
PAGE = read("docs/migrating.md")


def collections() -> dict[str, list[Document]]:
    """As the page describes it."""
    german = HOME.directive("german", content="Answer in German.", createdAt=at(5))
    short = HOME.directive("short", content="She prefers short answers.", createdAt=at(3))
    doors = HOME.record("fact", "doors", content="Doors open at six.")
    return {
        "users3": [HOME.person(HOME.user), HOME.person(HOME.other, "jonas"), HOME.agent_document()],
        "memory_user": [
            HOME.blob(unabsorbed_memory_ids=[german["_id"]]),
            HOME.blob(HOME.other, content="", unabsorbed_memory_ids=[]),
        ],
        "memory_agent": [HOME.shard(facts=[doors["_id"]])],
        "memory_sessions": [
            german, short, doors, HOME.record("episode"), HOME.directive("blank", content=" "),
            HOME.directive("nobody", related_users=[]),
        ],
    }  # fmt: skip


def steps() -> list[tuple[str, str]]:
    """The commands of the worked example, each with what the page says that it prints."""
    _, _, example = PAGE.partition("## A worked example\n")
    (block,) = re.findall(r"```console\n(.*?)```", example, re.S)
    return re.findall(r"^\$ memory-sql (.*)\n((?:(?!\$ ).*\n)*)", block, re.M)


@pytest.mark.slow
def test_worked_example_comes_out_as_it_is_printed(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dump(tmp_path / "dump" / "eden", collections().items())
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MEMORY_SQL_URL", database_url)
    found = [(command, memory_sql(*shlex.split(command)).out) for command, _ in steps()]
    assert found == steps()
    assert (tmp_path / "import.md").read_text("utf-8").startswith("# Import 1\n\n| collection |")


async def test_python_of_the_page_brings_it_over(
    memory: Memory, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dump(tmp_path, collections().items())
    names: dict[str, Any] = {}
    for code in re.findall(r"^```python\n(.*?)^```", PAGE, re.M | re.S):
        exec(compile(code, "docs/migrating.md", "exec"), names)
    assert await names["bring_over"](memory, tmp_path, b"k" * 32) == 1
    assert "'migrated': 2" in capsys.readouterr().out
