"""memory-sql forget, admin restore-check, db vacuum."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from memory_sql.config import Settings
from memory_sql.db.vacuum import PHYSICAL
from memory_sql.lifecycle import journal
from memory_sql.memory import Memory
from tests.commands import Ran, memory_sql
from tests.factories import MONDAY, message
from tests.fakes import Parrot
from tests.integration.test_forgetting import everything

Run = Callable[..., Ran]
MIA: dict[str, Any] = {"agent_id": "ada", "user_id": "mia"}
FORGET = ("forget", "--agent", "ada", "--user", "mia")


@pytest.fixture
def run(database_url: str) -> Run:
    async def fill() -> None:
        async with Memory(database_url, Parrot(), Settings(llm="offline")) as memory:
            await memory.add([message("I hide my ruby.")], **MIA, conversation_id="s")
            await memory.conversations.form(agent_id="ada", conversation_id="s")

    asyncio.run(fill())
    return lambda *args, **options: memory_sql(*args, "--url", database_url, **options)


def dumped(url: str) -> str:
    async def read() -> str:
        async with Memory(url, Parrot(), Settings(llm="offline")) as memory:
            return await everything(memory)

    return asyncio.run(read())


def test_preview_forgets_nothing(run: Run, database_url: str) -> None:
    planned = run(*FORGET, "--dry-run")
    assert planned.out.startswith("would be forgotten: 1 evidence, 1 observations, 1 messages")
    assert "ruby" in dumped(database_url)


def test_forget_with_yes(run: Run, database_url: str) -> None:
    receipt = run(*FORGET, "--yes", "--actor", "dpo", "--reason", "asked", "--json").value
    assert receipt["counts"]["observations"] == 1
    assert receipt["target"] == {"user_id": "mia"}
    assert "ruby" not in dumped(database_url)
    assert "forgotten: nothing" in run(*FORGET, "--yes").out


def test_nobody_to_ask_means_no(run: Run, database_url: str) -> None:
    refused = run(*FORGET, code=1)
    assert "--yes" in refused.err
    assert "ruby" in dumped(database_url)


@pytest.mark.parametrize(("said", "goes"), [("y", True), ("n", False)])
def test_person_is_asked(run: Run, database_url: str, monkeypatch: pytest.MonkeyPatch, said: str, goes: bool) -> None:
    monkeypatch.setattr("memory_sql.cli.output.can_ask", lambda: True)
    monkeypatch.setattr("typer.confirm", lambda *_, **__: said == "y")
    if goes:
        run(*FORGET)
    else:
        monkeypatch.setattr("memory_sql.cli.forgetting.receipt_text", lambda _: "memory-sql: planned")
        assert "nothing was forgotten" in run(*FORGET, code=1).err
    assert ("ruby" in dumped(database_url)) is not goes


def test_unclear_target(run: Run) -> None:
    assert "select what to forget" in run("forget", "--agent", "ada", "--yes", code=1).err


def test_journal_from_the_environment(
    run: Run, database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "forgotten.jsonl"
    monkeypatch.setenv("MEMORY_SQL_FORGET_JOURNAL", str(path))
    run(*FORGET, "--yes")
    assert path.read_text().count("\n") == 2
    assert "nothing was forgotten after" in run("admin", "restore-check").out


def test_restore_check_opens_what_nobody_else_may(
    run: Run, database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a backup from before: the journal lists what the database doesn't know of, and what isn't its own."""
    path = tmp_path / "forgotten.jsonl"
    monkeypatch.setenv("MEMORY_SQL_FORGET_JOURNAL", str(path))
    own = run("admin", "journal-status", "--json").value["database"]
    for n, database in enumerate((own, "another")):
        journal.plan(path, journal.Entry(id=f"f{n}", at=MONDAY, agent_id="ada", users=("mia",), database=database))
        journal.done(path, f"f{n}")
    with path.open("a") as file:
        file.write('{"id": "f2", "at')
    refused = run("observation", "list", "--agent", "ada", "--user", "mia", code=1)
    assert refused.err.startswith("memory-sql: 1 forgettings or moves of the journal are missing in this database")
    status = run("admin", "journal-status").out
    assert "restore-check`: f0\n" in status
    assert "skipped, of other databases: 1" in status
    restored = run("admin", "restore-check")
    assert "skipped, of other databases: 1\nlines that were cut off while being written: 5\n" in restored.err
    assert "1 observations" in restored.out
    assert run("observation", "list", "--agent", "ada", "--user", "mia", "--json").rows == []


def test_restore_check_needs_a_journal(run: Run) -> None:
    assert "which journal" in run("admin", "restore-check", code=1).err


@pytest.mark.open
def test_vacuum_runs_every_statement(run: Run) -> None:
    assert f"ran {len(PHYSICAL)} statements" in run("db", "vacuum").out
