"""The progress of long work, with the time that is left."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from memory_sql.cli.progress import Telling, as_line, duration, each
from memory_sql.domain.results import Progress
from memory_sql.importers.accounts import Accounts
from memory_sql.importers.mongo import survey
from memory_sql.importers.mongo.options import ImportOptions
from memory_sql.importers.mongo.sources.dump import DumpSource
from memory_sql.importers.mongo.sources.extended_json import ExtendedJsonSource
from memory_sql.importers.mongo.sources.source import Source
from tests.legacy.formats import FORMATS
from tests.legacy.generator import Legacy
from tests.legacy.surveying import spooled


@pytest.fixture
def times(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(survey, "_STEP", 10)


async def told(source: Source) -> list[Progress]:
    found: list[Progress] = []
    with spooled() as spool:
        await survey.Survey(source, spool, ImportOptions(), Accounts(), found.append).run()
    return found


@pytest.mark.usefixtures("times")
@pytest.mark.parametrize("form", ["dump", "packed dump", "relaxed lines", "packed lines", "canonical array"])
async def test_what_is_read_grows_to_the_size_of_all_files(tmp_path: Path, form: str) -> None:
    legacy = Legacy(agents=3, cases=())
    FORMATS[form](tmp_path, legacy.collections())
    source = DumpSource(tmp_path) if "dump" in form else ExtendedJsonSource(tmp_path)
    found = await told(source)
    sizes = sum(part.size for part in await source.parts())
    assert {now.total for now in found} == {sizes}
    assert [now.done for now in found] == sorted(now.done for now in found)
    assert (found[-1].done, found[-1].count) == (sizes, sum(legacy.manifest().source.values()))
    assert len({now.done for now in found}) > 5
    assert {now.step for now in found} == {"reading"}


@pytest.mark.parametrize(
    ("now", "seconds", "line"),
    [
        (Progress(step="reading", what="f", count=3000, unit="documents", done=25, total=100), 10,
         "reading f: 3,000 documents, 300 a second, about 30 s left"),
        (Progress(step="storing", what="a", count=10, unit="observations", done=1, total=1000), 10,
         "storing a: 10 observations, 1 a second, about 2 h 46 min left"),
        (Progress(step="reading", what="f", count=10, unit="documents", done=0, total=0), 0.0,
         "reading f: 10 documents, 10,000 a second"),
        (Progress(step="looking", what="a", count=0, unit="observations", done=0, total=9), 5,
         "looking a: 0 observations, 0 a second"),
        (Progress(step="forming", count=50, unit="conversations", of=200, done=50, total=200), 10,
         "forming: 50 of 200 conversations, 5 a second, about 30 s left"),
        (Progress(step="reading", what="a\x1b[2J", count=1, unit="MB", of=1, done=1, total=1), 1,
         "reading a\ufffd[2J: 1 of 1 MB, 1 a second, about 0 s left"),
    ],
)  # fmt: skip
def test_line_has_rate_and_time_left_where_that_is_known(now: Progress, seconds: float, line: str) -> None:
    assert as_line(now, seconds) == line


@pytest.mark.parametrize(
    ("seconds", "said"), [(0.2, "0 s"), (99, "99 s"), (100, "2 min"), (3540, "59 min"), (3600, "1 h 0 min")]
)
def test_durations_are_short(seconds: float, said: str) -> None:
    assert duration(seconds) == said


def reading(done: int) -> Progress:
    return Progress(step="reading", what="f", count=done, unit="documents", done=done, total=100)


def test_without_a_terminal_there_is_a_line_now_and_then(capsys: pytest.CaptureFixture[str]) -> None:
    clock = iter(range(0, 1000, 4))
    with Telling(lambda: float(next(clock))) as progress:
        for done in range(10, 90, 10):
            progress.told(reading(done))
    assert capsys.readouterr().err.splitlines() == [
        "memory-sql: reading f: 30 documents, 4 a second, about 19 s left",
        "memory-sql: reading f: 60 documents, 3 a second, about 13 s left",
    ]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def watched(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    made = Terminal()
    monkeypatch.setattr(sys, "stderr", made)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "160")
    return made


def test_on_a_terminal_items_have_a_bar_where_there_are_several(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = watched(monkeypatch)
    assert list(each([7, 8], "consolidating", "scopes")) == [7, 8]
    assert "50 % consolidating: 1 of 2 scopes" in terminal.getvalue()
    shown = terminal.getvalue()
    assert list(each([7], "consolidating", "scopes")) == [7]
    assert list(each([7, 8], "consolidating", "scopes", quiet=True)) == [7, 8]
    assert terminal.getvalue() == shown


def test_bar_of_an_unknown_total_shows_no_share(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = watched(monkeypatch)
    with Telling() as progress:
        progress.told(Progress(step="reading", what="f", count=3, unit="documents", done=3, total=0))
    assert "reading f: 3 documents" in terminal.getvalue()
    assert "%" not in terminal.getvalue().replace("\x1b[2K", "")


def test_time_left_starts_anew_with_another_file(capsys: pytest.CaptureFixture[str]) -> None:
    clock = iter(range(0, 1000, 12))
    with Telling(lambda: float(next(clock))) as progress:
        for what, done in (("a", 50), ("a", 100), ("b", 0), ("b", 50)):
            progress.told(Progress(step="reading", what=what, count=done, unit="MB", of=100, done=done, total=100))
    assert capsys.readouterr().err.splitlines()[-1] == (
        "memory-sql: reading b: 50 of 100 MB, 4 a second, about 12 s left"
    )


def test_on_a_terminal_there_is_a_bar_that_goes_when_all_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = watched(monkeypatch)
    clock = iter(range(0, 1000, 4))
    with Telling(lambda: float(next(clock))) as progress:
        progress.told(reading(25))
        progress.told(reading(50))
    assert "50 % reading f: 50 documents" in terminal.getvalue()
    assert "about 4 s left" in terminal.getvalue()
    assert "memory-sql:" not in terminal.getvalue()
