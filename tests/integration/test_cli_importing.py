"""import mongo, list, verify, rollback."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import bson
import pytest

from tests.commands import Ran, memory_sql
from tests.legacy.formats import dump, export
from tests.legacy.homes import Home, at

Run = Callable[..., Ran]

HOME = Home(("command",))
AGENT = str(HOME.agent)
DIRECTIVES = [HOME.directive(n, content=f"Sail on day {n}.", createdAt=at(n)) for n in range(3)]
COLLECTIONS = {
    "users3": [HOME.person(HOME.user), HOME.person(HOME.other, "jonas"), HOME.agent_document()],
    "memory_user": [HOME.blob(), HOME.blob(HOME.other, content="Jonas rows.")],
    "memory_agent": [HOME.shard()],
    "memory_sessions": DIRECTIVES,
}


@pytest.fixture
def run(database_url: str) -> Run:
    return lambda *args, **options: memory_sql(*args, "--url", database_url, **options)


@pytest.fixture
def source(tmp_path: Path) -> tuple[str, ...]:
    dump(tmp_path / "dump", COLLECTIONS.items())
    return "--dump", str(tmp_path / "dump"), "--key-file", str(tmp_path / "import.key")


def contents(run: Run) -> list[str]:
    """Of the directives."""
    found = run("observation", "list", "--agent", AGENT, "--user", HOME.user, "--json").rows
    return sorted(row["content"] for row in found if row["content"].startswith("Sail"))


@pytest.mark.slow
def test_an_import_is_made_listed_checked_and_taken_back(run: Run, source: tuple[str, ...]) -> None:
    planned = run("import", "mongo", *source, "--dry-run")
    assert planned.out.startswith("dry run: nothing was written\n")
    made = run("import", "mongo", *source)
    assert made.out.startswith("import 1\n")
    assert made.out.splitlines()[1:] == planned.out.splitlines()[1:]
    assert made.err.startswith("memory-sql: created ")
    assert "Sail on day 1." in contents(run)
    assert run("import", "list").out.endswith("  6 documents\n")
    assert run("import", "verify", 1, *source[:2]).out.startswith("no differences (")
    assert run("import", "rollback", 1, code=1).err.startswith("memory-sql: this removes everything")
    assert "would be removed" in run("import", "rollback", 1, "--dry-run").out
    assert run("import", "rollback", 1, "--yes", "--json").value["dry_run"] is False
    assert run("import", "list", "--json").value["state"] == "rolled_back"


def test_json_is_one_object_with_the_sums_of_each_collection(run: Run, source: tuple[str, ...]) -> None:
    report = run("import", "mongo", *source, "--json").value
    assert report["run"] == 1
    assert report["collections"]["memory_user"] == {
        "source": 2, "migrated": 2, "merged": 0, "skipped": 0, "rejected": 0,
    }  # fmt: skip
    assert report["anomalies"] == {}


@pytest.mark.slow
def test_the_report_is_markdown_in_a_file_or_instead_of_text(run: Run, source: tuple[str, ...], tmp_path: Path) -> None:
    file = tmp_path / "import.md"
    printed = run("import", "mongo", *source, "--dry-run", "--markdown", "-").out
    assert printed.startswith("# What an import would do\n")
    assert run("import", "mongo", *source, "--json", "--markdown", file).value["run"] == 1
    assert file.read_text("utf-8").startswith("# Import 1\n")
    both = run("import", "mongo", *source, "--json", "--markdown", "-", code=1)
    assert both.err == "memory-sql: use either --json or --markdown -\n"
    assert len(run("import", "list", "--json").rows) == 1


# Groups


@pytest.mark.slow
def test_groups_are_those_of_a_file(run: Run, source: tuple[str, ...], tmp_path: Path) -> None:
    groups = tmp_path / "groups.json"
    groups.write_text(json.dumps({"harbour": [str(HOME.user), str(HOME.other)], "quay": [str(HOME.other), "f" * 24]}))
    run("import", "mongo", *source, "--groups", groups)
    members = {
        group: {row["user_id"] for row in run("group", "members", group, "--agent", AGENT, "--json").rows}
        for group in ("harbour", "quay")
    }
    assert members == {"harbour": {str(HOME.user), str(HOME.other)}, "quay": {str(HOME.other)}}


def test_there_need_be_no_group(run: Run, source: tuple[str, ...]) -> None:
    run("import", "mongo", *source, "--groups", "none")
    assert run("group", "list", "--agent", AGENT, "--json").rows == []


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, "can't be read as JSON"),
        ("{", "can't be read as JSON"),
        ("[]", "groups"),
        ('{"harbour": "mia"}', "group harbour: its users must be a list"),
    ],
)
def test_a_file_of_groups_that_is_none_is_refused(
    run: Run, source: tuple[str, ...], tmp_path: Path, content: str | None, reason: str
) -> None:
    groups = tmp_path / "groups.json"
    if content is not None:
        groups.write_text(content)
    assert reason in run("import", "mongo", *source, "--groups", groups, code=1).err
    assert run("import", "list", "--json").rows == []


# Files that are broken


@pytest.fixture
def cut(source: tuple[str, ...]) -> int:
    """The last directive is cut off; where it begins."""
    whole = b"".join(map(bson.encode, DIRECTIVES[:2]))
    (Path(source[1]) / "memory_sessions.bson").write_bytes(whole + bson.encode(DIRECTIVES[2])[:-9])
    return len(whole)


def test_a_broken_file_is_named_with_its_byte_and_nothing_is_stored(
    run: Run, source: tuple[str, ...], cut: int
) -> None:
    failed = run("import", "mongo", *source, code=1).err.splitlines()[-1]
    assert failed.startswith(f"memory-sql: memory_sessions.bson, byte {cut:,}: it is truncated")
    assert run("import", "list", "--json").rows == []


def test_the_rest_of_a_broken_file_comes_where_that_is_wanted(run: Run, source: tuple[str, ...], cut: int) -> None:
    done = run("import", "mongo", *source, "--keep-going", code=1)
    assert f"cut off: memory_sessions.bson, byte {cut:,}: it is truncated" in done.out
    assert contents(run) == ["Sail on day 0.", "Sail on day 1."]
    assert run("import", "list", "--json").value["state"] == "finished"


@pytest.mark.slow
def test_a_document_that_cant_be_read_is_named_and_the_rest_comes(run: Run, source: tuple[str, ...]) -> None:
    first, *others = map(bson.encode, DIRECTIVES)
    unknown = b"\x0c\0\0\0\x60a\0\0\0\0\0\0"  # a type that BSON doesn't have
    (Path(source[1]) / "memory_sessions.bson").write_bytes(b"".join([first, unknown, *others]))
    named = f"memory_sessions.bson, byte {len(first)}: it isn't valid BSON"
    assert named in run("import", "mongo", *source, code=1).err
    planned = run("import", "mongo", *source, "--keep-going", "--dry-run", code=1)
    assert f"can't be read: {named}" in planned.out
    assert run("import", "mongo", *source, "--keep-going", "--json", code=1).value["unreadable"] == [named]
    assert contents(run) == ["Sail on day 0.", "Sail on day 1.", "Sail on day 2."]


@pytest.mark.slow
def test_a_broken_line_is_named_and_the_rest_comes(run: Run, source: tuple[str, ...], tmp_path: Path) -> None:
    folder = tmp_path / "export"
    export(folder, COLLECTIONS.items(), canonical=False, array=False)
    file = folder / "memory_sessions.json"
    first, *others = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join([first, b"{nonsense}\n", *others]))
    where = ("--export", str(folder), *source[2:])
    named = f"memory_sessions.json, byte {len(first)}: "
    assert named in run("import", "mongo", *where, code=1).err
    assert f"can't be read: {named}" in run("import", "mongo", *where, "--keep-going", code=1).out
    assert contents(run) == ["Sail on day 0.", "Sail on day 1.", "Sail on day 2."]
