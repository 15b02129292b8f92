"""conversation form, unformed, exclude; run-due, admin agents, work embed."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tests.commands import Ran, memory_sql

Run = Callable[..., Ran]

ADA = ("--agent", "ada")
MIA = (*ADA, "--user", "mia")


@pytest.fixture
def run(database_url: str) -> Run:
    return lambda *args, **options: memory_sql(*args, "--url", database_url, **options)


def said(text: str) -> bytes:
    return json.dumps({"role": "user", "content": text}).encode()


def add(run: Run, text: str, conversation: str) -> None:
    run("add", "-", *MIA, "--conversation", conversation, "--no-form", stdin=said(text))


def test_unformed_conversations_are_listed_until_they_are_formed(run: Run) -> None:
    assert run("conversation", "unformed", *ADA).out == "none\n"
    add(run, "I prefer tea to coffee.", "monday")
    add(run, "I prefer rain to snow.", "tuesday")
    assert run("conversation", "unformed", *ADA).out == "monday\ntuesday\n"
    run("conversation", "form", *ADA, "--conversation", "monday")
    assert run("conversation", "unformed", *ADA, "--json").rows == [{"conversation": "tuesday"}]


def test_what_is_said_while_a_conversation_is_excluded_is_never_formed(run: Run) -> None:
    add(run, "I prefer tea to coffee.", "monday")
    assert run("conversation", "exclude", "monday", *ADA).out == "monday: excluded\n"
    add(run, "I prefer silence to music.", "monday")
    assert run("conversation", "exclude", "monday", *ADA, "--include", "--json").value == {
        "conversation": "monday",
        "excluded": False,
    }
    run("conversation", "form", *ADA)
    assert "silence" not in run("observation", "list", *MIA).out
    assert run("conversation", "exclude", "sunday", *ADA, code=1).err.endswith("sunday\n")


def test_run_due_does_what_is_due_and_says_what_failed(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    nothing = "formed 0 conversations, consolidated 0 scopes, propagated 0 claims\n"
    assert run("run-due").out == nothing
    add(run, "From now on I prefer tea.", "monday")
    with monkeypatch.context() as broken:
        for name, value in {
            "MEMORY_SQL_LLM": "openai", "MEMORY_SQL_LLM_MAX_RETRIES": "0", "OPENAI_API_KEY": "none",
            "OPENAI_BASE_URL": "http://127.0.0.1:9/v1",
        }.items():  # fmt: skip
            broken.setenv(name, value)
        failed = run("run-due", *ADA, "--json", code=1)
    assert len(failed.value["failed"]) == 1
    assert failed.err.startswith("memory-sql: ")
    add(run, "From now on I prefer silence.", "tuesday")
    assert run("run-due", "--agent", "eve").out == nothing
    assert run("run-due", *ADA, "--json").value["formed"][0]["conversation_id"] == "tuesday"


def test_agents_are_listed_with_what_each_has_of_its_own(run: Run) -> None:
    assert run("admin", "agents").out == "no agents yet\n"
    run("observe", "It rains.", "--agent", "bob", "--collective")
    run("configure", *ADA, "--set", "daily_tokens=7")
    ada, bob = run("admin", "agents").out.splitlines()
    assert (ada[:5], ada.partition("; ")[2], bob[:5]) == ("ada  ", "its own: daily_tokens", "bob  ")
    assert [row["settings"] for row in run("admin", "agents", "--json").rows] == [{"daily_tokens": 7}, {}]
    assert run("admin", "agents", "--limit", "1").out.splitlines() == [ada]
    assert run("admin", "agents", "--after", "ada").out.splitlines() == [bob]


def test_nothing_is_embedded_where_vectors_are_off(run: Run) -> None:
    run("observe", "It rains.", *MIA)
    assert run("work", "embed", *ADA).out == "0 observations embedded\n"
    assert run("work", "embed", "--newest", "--json").value == {
        "embedded": 0,
        "without_direction": 0,
        "complete": True,
    }
