"""person list, merge, unmerge, aliases, rename, export; hold place, list, release."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.commands import Ran, memory_sql

Run = Callable[..., Ran]

ADA = ("--agent", "ada")
MIA = (*ADA, "--user", "mia")


@pytest.fixture
def run(database_url: str) -> Run:
    return lambda *args, **options: memory_sql(*args, "--url", database_url, **options)


@pytest.fixture
def known(run: Run) -> str:
    """The id of what is remembered of Mia."""
    observation: str = run("observe", "Likes tea ☕.", *MIA, "--json").value["id"]
    return observation


@pytest.mark.slow
def test_users_are_listed_page_by_page(run: Run, known: str) -> None:
    assert run("person", "list", "--agent", "bob").out == "no users\n"
    run("person", "merge", *MIA, "--into", "zoe")
    run("group", "create", "harbor", *ADA)
    run("group", "add", "harbor", *ADA, "--user", "zoe")
    mia, zoe = run("person", "list", *ADA).out.splitlines()
    assert mia == "mia  0 conversations, 1 observation, 0 groups; stands for zoe"
    assert zoe == "zoe  0 conversations, 0 observations, 1 group"
    assert run("person", "list", *ADA, "--after", "mia").out.splitlines() == [zoe]
    assert [row["user_id"] for row in run("person", "list", *ADA, "--limit", "1", "--json").rows] == ["mia"]


@pytest.mark.slow
def test_merged_users_are_told_and_unmerged(run: Run, known: str) -> None:
    merged = run("person", "merge", *MIA, "--into", "zoe", "--actor", "support", "--reason", "Logged in.").out
    assert merged.startswith("mia stands for zoe, since 2")
    assert run("person", "aliases", *ADA, "--user", "zoe").out == merged
    assert [row["id"] for row in run("observation", "list", *ADA, "--user", "zoe", "--json").rows] == [known]
    assert "circle" in run("person", "merge", *ADA, "--user", "zoe", "--into", "mia", code=1).err
    assert run("person", "unmerge", *MIA, "--json").value["ended_at"] is not None
    assert run("person", "aliases", *ADA, "--user", "zoe").out == "this user has no aliases\n"
    assert run("person", "unmerge", *MIA, code=1).err == "memory-sql: no merged user mia\n"


def test_renamed_user_is_told_with_what_was_changed(run: Run, known: str) -> None:
    renamed = run("person", "rename", "mia", "zoe", "--kind", "user", *ADA).out
    assert renamed == "user mia is zoe now (rows: 1 of scopes, 1 of observations, 1 of evidence)\n"
    assert [row["id"] for row in run("observation", "list", *ADA, "--user", "zoe", "--json").rows] == [known]
    assert run("person", "rename", "mia", "zoe", "--kind", "user", *ADA, code=1).err == "memory-sql: no user mia\n"
    run("person", "rename", "mia", "zoe", "--kind", "agent", *ADA, code=2)


def test_holds_are_listed_until_they_are_released(run: Run, known: str) -> None:
    placed = run("hold", "place", *ADA, "--observation", known, "--reason", "Case 7").out
    assert placed.endswith(": Case 7 (keeps 1 observation and 0 messages)\n")
    held = run("hold", "place", *ADA, "--observation", known, "--json").value
    assert (held["observations"], held["messages"]) == (1, 0)
    assert (held["kind"], held["target"], held["reason"]) == ("observation", known, "Case 7")
    shown = run("hold", "list", *ADA).out
    assert shown.startswith(f"{held['hold_id']}  observation {known}, since 2")
    assert shown.endswith(": Case 7\n")
    assert ", released 2" in run("hold", "release", held["hold_id"], *ADA).out
    assert run("hold", "list", *ADA).out == "nothing is held\n"
    assert [row["hold_id"] for row in run("hold", "list", *ADA, "--released", "--json").rows] == [held["hold_id"]]
    assert "pass one of" in run("hold", "place", *ADA, code=1).err
    assert run("hold", "release", 99, *ADA, code=1).err == "memory-sql: no hold 99\n"


@pytest.mark.slow
def test_export_goes_to_a_pipe_or_into_a_file_of_ones_own(run: Run, known: str, tmp_path: Path) -> None:
    header, *lines = run("person", "export", *MIA).rows
    assert (header["type"], header["counts"]["observation"]) == ("header", 1)
    assert [line["content"] for line in lines if line["type"] == "observation"] == ["Likes tea ☕."]
    file = tmp_path / "mia.jsonl"
    assert run("person", "export", *MIA, file).out == f"{file}: 1 scope, 1 observation\n"
    written = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
    assert written[1:] == lines
    assert file.stat().st_mode & 0o077 == 0
    assert run("person", "export", *MIA, file, "--json").value["counts"] == header["counts"]
    assert [path.name for path in tmp_path.iterdir()] == ["mia.jsonl"]


@pytest.mark.slow
def test_export_replaces_no_pipe_and_no_link(run: Run, known: str, tmp_path: Path) -> None:
    """As root, `/dev/stdout` or `/dev/null` would be gone."""
    pipe, link, mine = tmp_path / "pipe", tmp_path / "link", tmp_path / "mine"
    os.mkfifo(pipe)
    reading = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    run("person", "export", *MIA, pipe)
    assert json.loads(os.read(reading, 100_000).splitlines()[0])["type"] == "header"
    os.close(reading)
    mine.write_text("before")
    link.symlink_to(mine)
    run("person", "export", *MIA, link)
    assert link.is_symlink()
    assert json.loads(mine.read_text().splitlines()[0])["type"] == "header"


def test_export_that_fails_leaves_no_file(run: Run, known: str, tmp_path: Path) -> None:
    file = tmp_path / "mia.jsonl"
    file.write_text("before")
    assert run("person", "export", "--agent", "bob", "--user", "mia", file, code=1).err == "memory-sql: no agent bob\n"
    assert file.read_text() == "before"
    assert [path.name for path in tmp_path.iterdir()] == ["mia.jsonl"]
    assert "can't be written" in run("person", "export", *MIA, tmp_path / "none" / "mia.jsonl", code=1).err
