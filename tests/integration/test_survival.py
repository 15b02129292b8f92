"""The judge of `benchmarks/survival` says what is so: of this library, and of a store that does everything wrong."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.survival import scenarios
from benchmarks.survival.__main__ import earlier, keep, table
from benchmarks.survival.model import Asked, Fact, told
from benchmarks.survival.scenarios import FACT, SCENARIOS, Outcome, Patience, conversation, judged
from benchmarks.survival.system import Known, NoSuchCallError, Place, Said
from benchmarks.survival.systems import KNOWN, ours

SOON = Patience(outage_seconds=0.1, afterwards_seconds=20)


class Careless:
    """One list for everybody in a file; ids are its places, and nothing is taken out of the file."""

    def __init__(self, place: Place) -> None:
        self._file, self._hidden = place.folder / "said.txt", place.folder / "hidden"

    def _said(self) -> list[str]:
        is_left = self._file.exists() and not self._hidden.exists()
        return self._file.read_text().splitlines() if is_left else []

    async def add(self, said: Sequence[Said], user: str, conversation: str) -> None:
        self._hidden.unlink(missing_ok=True)
        with self._file.open("a") as file:
            file.writelines(f"{one['content']}\n" for one in said)

    async def texts(self, user: str) -> list[str]:
        return self._said()

    async def search(self, query: str, user: str) -> list[str]:
        return self._said()

    async def ids(self, user: str) -> list[str]:
        return [str(n) for n, text in enumerate(self._said()) if FACT.name in text]

    async def get(self, memory_id: str, user: str) -> str | None:
        return self._said()[int(memory_id)]

    async def delete(self, memory_id: str, user: str) -> None:
        self._hidden.touch()

    async def forget(self, user: str) -> None:
        self._hidden.touch()


class Forgetful(Careless):
    """Acknowledges, and keeps what it is told in a file that it doesn't read."""

    async def add(self, said: Sequence[Said], user: str, conversation: str) -> None:
        await super().add(said, user, conversation)
        self._hidden.touch()


class Refusing(Careless):
    async def add(self, said: Sequence[Said], user: str, conversation: str) -> None:
        raise ConnectionError

    async def ids(self, user: str) -> list[str]:
        raise NoSuchCallError("ids")


def bad(kind: type[Careless]) -> Known:
    @asynccontextmanager
    async def opened(place: Place) -> AsyncIterator[Careless]:
        yield kind(place)

    return Known("bad", lambda: True, str, opened, lambda _: "", works_later=False)


async def judge(known: Known, accident: str, server_url: str) -> str:
    return (await judged(known, SCENARIOS[accident], server_url, SOON)).words


@pytest.mark.direct
@pytest.mark.slow
@pytest.mark.parametrize(
    ("accident", "expected"),
    {
        "an answer is cut": "kept",
        "eight identical adds": "stored once",
        "a foreign id": "not read, not deleted",
        "a wildcard id": "kept apart",
        "forgotten, then dumped": "gone",
    }.items(),
)
async def test_this_library_survives(accident: str, expected: str, server_url: str) -> None:
    assert await judge(ours.KNOWN, accident, server_url) == expected


@pytest.mark.direct
@pytest.mark.slow
async def test_a_process_that_is_killed_has_kept_what_it_acknowledged(server_url: str) -> None:
    assert await judge(ours.KNOWN, "killed after acknowledging", server_url) == "kept"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("accident", "expected"),
    {
        "an answer is cut": "asks no model",
        "eight identical adds": "stored 8 times",
        "a foreign id": "read, deleted",
        "forgotten, then dumped": "still there",
    }.items(),
)
async def test_what_a_careless_store_does_is_seen(accident: str, expected: str, server_url: str) -> None:
    assert await judge(bad(Careless), accident, server_url) == expected


@pytest.mark.slow
async def test_an_id_under_which_somebody_else_is_reached_is_named(server_url: str) -> None:
    words = await judge(bad(Careless), "a wildcard id", server_url)
    assert words.startswith('shows to "%", "*"')
    assert 'deletes by "%", "*"' in words


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "expected"), [(Forgetful, "lost"), (Refusing, "lost, and says so")])
async def test_what_isnt_remembered_is_lost(kind: type[Careless], expected: str, server_url: str) -> None:
    outcome = await judged(bad(kind), SCENARIOS["the model is down"], server_url, SOON)
    assert outcome.words == expected
    assert ("said.txt" in outcome.detail) == (kind is Forgetful)


@pytest.mark.slow
async def test_what_cant_be_called_is_said(server_url: str) -> None:
    known = bad(Careless)

    class Without(Careless):
        async def ids(self, user: str) -> list[str]:
            raise NoSuchCallError("no ids")

    known = replace(known, opened=bad(Without).opened)
    assert await judged(known, SCENARIOS["a foreign id"], server_url, SOON) == Outcome("no such call", "no ids")


def test_a_fact_is_told_once_and_isnt_news_where_it_is_known() -> None:
    said = conversation(FACT)[2]["content"]
    assert told(f"{said} {said}") == [FACT]
    assert told(FACT.text) == []
    assert Asked({"messages": [{"content": said}]}).news(said) == [FACT]
    assert Asked({"messages": [{"content": FACT.text}, {"content": said}]}).news(said) == []


def test_results_of_earlier_runs_stand_beside(tmp_path: Path) -> None:
    file = tmp_path / "results.json"
    keep(file, {"a 1": {"a foreign id": Outcome("read, deleted", "read")}})
    columns = earlier(file) | {"b 2": {"a wildcard id": Outcome("kept apart")}}
    told_in = table(columns)
    assert "| a foreign id | read, deleted | – |" in told_in
    assert "- a 1: read" in told_in


def test_each_system_has_a_name_of_its_own_and_each_accident_a_fact() -> None:
    assert all(name == known.name for name, known in KNOWN.items())
    assert scenarios.FACT != scenarios.OTHER
    assert isinstance(FACT, Fact)
