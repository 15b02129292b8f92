"""memory-sql observation update, supersede, reinstate, confirm, dispute, mark, quarantine, unquarantine."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from memory_sql.config import Settings
from memory_sql.memory import Memory
from tests.commands import Ran, memory_sql
from tests.fakes import Parrot

Run = Callable[..., Ran]
MIA: dict[str, Any] = {"agent_id": "ada", "user_id": "mia"}
ME = ("--agent", "ada", "--user", "mia")


@pytest.fixture
def run(database_url: str) -> Run:
    """Mia has two observations, o1-1 and o1-2."""

    async def fill() -> None:
        async with Memory(database_url, Parrot(), Settings(llm="offline")) as memory:
            await memory.observe("Mia lives in Rome.", **MIA)
            await memory.observe("Mia lives in Bonn.", **MIA)

    asyncio.run(fill())
    return lambda *args, **options: memory_sql(*args, "--url", database_url, **options)


def test_correct(run: Run) -> None:
    new = run("observation", "update", "o1-1", "Mia lives in Oslo.", *ME, "--reason", "she called", "--json").value
    assert (new["id"], new["content"], new["version"]) == ("o1-3", "Mia lives in Oslo.", 1)
    assert run("observation", "list", *ME).out.count("Mia") == 2
    refused = run("observation", "update", "o1-1", "Mia lives in Lima.", *ME, code=1)
    assert refused.err == "memory-sql: observation o1-1 is superseded by o1-3; nothing was written\n"
    assert "has version 1, not 7" in run("observation", "update", "o1-3", "x", *ME, "--if-version", "7", code=1).err
    assert "no observation o9-9" in run("observation", "update", "o9-9", "x", *ME, code=1).err


def test_supersede_and_reinstate(run: Run) -> None:
    assert "(superseded by o1-2, unverified)" in run("observation", "supersede", "o1-1", "o1-2", *ME).out
    assert "(active, unverified)" in run("observation", "reinstate", "o1-1", *ME, "--actor", "desk").out


def test_confirm_and_dispute(run: Run) -> None:
    assert "(active, confirmed)" in run("observation", "confirm", "o1-1", *ME).out
    assert run("observation", "dispute", "o1-1", *ME, "--json").value["verification"] == "disputed"
    assert "disputed)" in run("context", *ME).out


@pytest.mark.slow
def test_mark(run: Run) -> None:
    assert run("observation", "mark", "o1-1", *ME, "--private").out == "o1-1  private, never leaves its scope\n"
    done = run("observation", "mark", "o1-1", *ME, "--no-private", "--sensitivity", "sensitive", "--json").value
    assert (done["observation"]["sensitivity"], done["retracted"]) == ("sensitive", [])
    marked = run("observation", "mark", "o1-1", *ME, "--policy", "protected").out
    assert marked == "o1-1  sensitive, may leave its scope, protected\n"
    shown = run("observation", "get", "o1-1", *ME, "--explain").out
    assert "stage         candidate, protected" in shown
    assert "scores        heat 0." in shown
    assert "uses          0" in shown
    assert "stage" not in run("observation", "get", "o1-1", *ME).out
    assert "pass private=" in run("observation", "mark", "o1-1", *ME, code=1).err
    assert "policy must be one of" in run("observation", "mark", "o1-1", *ME, "--policy", "eternal", code=1).err
    assert (
        "sensitivity must be one of" in run("observation", "mark", "o1-1", *ME, "--sensitivity", "secret", code=1).err
    )


@pytest.mark.slow
def test_quarantine_and_back(run: Run) -> None:
    assert (
        run("observation", "quarantine", "o1-1", *ME, "--reason", "injected").out == "1 observation quarantined: o1-1\n"
    )
    assert run("observation", "list", *ME).out.count("Mia") == 1
    assert run("observation", "quarantine", "--agent", "ada", "--source", "observe", "--json").value[
        "observations"
    ] == ["o1-1", "o1-2"]
    assert "o1-1" in run("observation", "unquarantine", "o1-1", *ME, code=1).err  # it is the operator's now
    assert (
        run("observation", "unquarantine", "--agent", "ada", "--from-user", "mia").out
        == "2 observations unquarantined: o1-1, o1-2\n"
    )
    assert "a source" in run("observation", "quarantine", "--agent", "ada", code=1).err
