"""What the recall benchmark reads, what it removes from a ranking, and how it reports its results."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_args
from xml.etree import ElementTree

import pytest

from benchmarks.recall import __main__ as command
from benchmarks.recall.ablation import Ablated, AblationError, changes, variants, weighted
from benchmarks.recall.data import DataError, Dataset, Question, Turn, read, spread
from benchmarks.recall.metrics import Scores
from benchmarks.recall.recorded import INVENTED, RecordedError, RecordedModel, recorded, said_at
from benchmarks.recall.recorded import Question as RecordedQuestion
from benchmarks.recall.report import Report, as_json, markdown, picture, text
from benchmarks.recall.run import Answers, Measured, ask_all, score_all
from benchmarks.recall.systems import SYSTEMS, Corpus
from benchmarks.recall.whole_path import Line, Shown
from benchmarks.recall.year import begin, events, fields_of, stretched, weeks_of
from memory_sql.config.kinds import CATEGORIES
from memory_sql.formation.answers import Sure
from memory_sql.llm import Request
from memory_sql.retrieval import search as search_module

NOTHING = Scores(0, 0, 0, 0, 0, 0, 0)


def lines(*items: dict[str, Any]) -> str:
    return "".join(json.dumps(item) + "\n" for item in items)


def message(number: int, session: int) -> dict[str, Any]:
    said = {"id": f"c/{number}", "role": "user", "name": "Mia", "content": f"Text {number}", "session": session}
    return {**said, "created_at": f"2026-03-0{session}T09:00:00Z"}


def question(number: int, category: int, *evidence: str) -> dict[str, Any]:
    asked = {"id": f"q{number}", "conv": "conv-1", "category": category, "question": "Who?"}
    return {**asked, "evidence": list(evidence)}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "conv-1.jsonl").write_text(lines(message(1, 1), message(2, 1), message(3, 2)), "utf-8")
    (tmp_path / "questions.jsonl").write_text(
        lines(question(1, 4, "c/1"), question(2, 2, "c/2", "c/3"), question(3, 4), question(4, 5, "c/3")), "utf-8"
    )
    return tmp_path


@pytest.fixture
def dataset(folder: Path) -> Dataset:
    return read(folder)


def measured(dataset: Dataset, system: str, form: Any, *found: Sequence[str]) -> Measured:
    answers = Answers(tuple(map(tuple, found)), tuple(float(n) for n in range(1, len(found) + 1)))
    return Measured(system, form, 0.5, answers, score_all(answers, dataset))


def test_questions_without_evidence_are_left_out(dataset: Dataset) -> None:
    assert [item.id for item in dataset.questions] == ["q1", "q2", "q4"]
    assert dataset.sessions == {"c/1": "conv-1/1", "c/2": "conv-1/1", "c/3": "conv-1/2"}
    assert [turn.id for turn in dataset.turns] == ["c/1", "c/2", "c/3"]


def test_evidence_that_names_no_turn_is_refused(folder: Path) -> None:
    (folder / "questions.jsonl").write_text(lines(question(1, 4, "c/1", "c/9")), "utf-8")
    with pytest.raises(DataError, match="1 pieces of evidence"):
        read(folder)


def test_folder_without_turns_questions_or_answers_is_refused(folder: Path, tmp_path: Path) -> None:
    (folder / "questions.jsonl").write_text(lines(question(1, 5, "c/1")), "utf-8")
    with pytest.raises(DataError, match="can be answered"):
        read(folder)
    (folder / "questions.jsonl").unlink()
    with pytest.raises(DataError, match=r"no questions\.jsonl"):
        read(folder)
    with pytest.raises(DataError, match="no turns"):
        read(tmp_path / "elsewhere")


def test_limit_spreads_the_questions_evenly() -> None:
    questions = [Question(str(n), "conv-1", 4, "Who?", frozenset({"c/1"})) for n in range(10)]
    assert [item.id for item in spread(questions, 4)] == ["0", "2", "5", "7"]
    assert spread(questions, 10) == spread(questions, 11) == spread(questions, None) == tuple(questions)


def test_text_says_who_and_when_only_where_it_is_to(dataset: Dataset) -> None:
    turn = dataset.turns[0]
    assert [turn.text(form) for form in ("plain", "speaker", "date")] == [
        "Text 1",
        "Mia: Text 1",
        "[01 March 2026] Mia: Text 1",
    ]
    assert Corpus(dataset.turns[:1], "speaker").texts == ["Mia: Text 1"]


async def test_answers_are_scored_in_the_order_of_the_questions(dataset: Dataset) -> None:
    asked: list[str] = []

    async def ask(question: Question) -> list[str]:
        asked.append(question.id)
        return {"q1": ["c/1"], "q2": ["c/1", "c/3"], "q4": []}[question.id]

    answers = await ask_all(ask, dataset.questions)
    assert asked == ["q1", "q2", "q4"] * 2  # once before the clock runs
    assert len(answers.milliseconds) == 3
    assert [score.recall_5 for score in score_all(answers, dataset)] == [1, 0.5, 0]


@dataclass(frozen=True)
class Weights:
    speaker: float = 3.0
    length: float = field(default=0.4, metadata={"neutral": 1.0})
    window: int = 5
    asks: bool = True
    unused: float = 0.0
    language: str = "english"


def test_one_number_at_a_time_is_taken_out() -> None:
    assert dict(variants(Weights())) == {
        "speaker": Weights(speaker=0),
        "length": Weights(length=1),
        "window": Weights(window=0),
        "asks": Weights(asks=False),
    }


def test_only_the_numbers_that_were_named_are_taken_out() -> None:
    assert [name for name, _ in variants(Weights(), ["window"])] == ["window"]
    with pytest.raises(AblationError, match="names: langauge, language"):
        list(variants(Weights(), ["langauge", "language", "speaker"]))


async def test_searches_go_by_the_weights_and_only_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[object] = []

    async def search(_unit: object, *, weights: object = "whole") -> None:
        seen.append(weights)

    monkeypatch.setattr(search_module, "search", search)
    called: Any = search_module
    with weighted("other"):
        await called.search(None)
        await called.search(None, weights="whole")
    await called.search(None)
    assert seen == ["other", "other", "whole"]


def test_weights_that_reach_no_search_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    async def search(_unit: object, *, weights: object) -> None:
        raise AssertionError("not to be called")

    monkeypatch.setattr(search_module, "search", search)
    with pytest.raises(AblationError, match="no search went by"), weighted("other"):
        pass
    assert vars(search_module)["search"] is search


def test_search_that_takes_no_weights_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    async def search(_unit: object) -> None:
        raise AssertionError("not to be called")

    monkeypatch.setattr(search_module, "search", search)
    with pytest.raises(AblationError, match="takes no weights"), weighted("other"):
        pass


async def test_weights_that_are_not_there_are_said_before_anything_is_measured(
    dataset: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    def measured_all_the_same() -> None:
        raise AssertionError("nothing is to be measured")

    monkeypatch.setattr(command, "server", measured_all_the_same)
    monkeypatch.setitem(sys.modules, "memory_sql.domain.query", SimpleNamespace(Weights=Weights))
    options = command.arguments(["--data", "x", "--system", "ours", "--ablate", "langauge"])
    with pytest.raises(AblationError, match="langauge"):
        await command.run(options, dataset)
    monkeypatch.setitem(sys.modules, "memory_sql.domain.query", SimpleNamespace())
    with pytest.raises(AblationError, match="no weights"):
        await command.run(options, dataset)


def test_changes_are_points_of_each_measure() -> None:
    whole = [Scores(1, 1, 1, 1, 1, 0.5, 1), NOTHING]
    found = changes(whole, [NOTHING, NOTHING])
    assert {name: change.points for name, change in found.items()} == {
        "recall_5": -50,
        "recall_10": -50,
        "ndcg_10": -25,
    }
    assert (found["recall_5"].interval.low, found["recall_5"].interval.high) == (-100, 0)


def test_best_form_of_a_system_is_reported_and_all_are_kept(dataset: Dataset) -> None:
    worse = measured(dataset, "bm25s", "plain", [], ["c/2"], ["c/3"])
    better = measured(dataset, "bm25s", "speaker", ["c/1"], ["c/2"], [])
    report = Report(dataset, [worse, better], {"mem0": "not installed: mem0"})
    assert report.best == [better]
    found = as_json(report)
    assert [item["text"] for item in found["systems"]] == ["plain", "speaker"]
    assert found["systems"][1]["answerable"]["recall_5"] == 0.75
    assert found["systems"][1]["categories"]["temporal"]["recall_5"] == 0.5
    assert found["missing"] == {"mem0": "not installed: mem0"}
    assert json.loads(json.dumps(found)) == found


def test_table_counts_answerable_questions_and_says_what_is_missing(dataset: Dataset) -> None:
    right = measured(dataset, "ours", "plain", ["c/1"], ["c/2"], [])
    silent = measured(dataset, "messages", "plain", [], [], [])
    change = changes([NOTHING], [Scores(1, 1, 1, 1, 1, 1, 1)])
    report = Report(
        dataset, [right, silent], {"mem0": "not installed: mem0"}, [Ablated("ours", "speaker", 3, 0, change)]
    )
    overall, by_category, ablations = (part.splitlines() for part in markdown(report).split("\n\n"))
    assert overall[2].startswith("| ours | plain | 75.0 | 50.0–100.0 | 75.0 |")
    assert overall[3].startswith("| messages | arm empty |")
    assert overall[4].startswith("| mem0 | not installed: mem0 |")
    assert by_category[0] == "| R@5 | temporal (1) | single-hop (1) | adversarial (1) |"
    assert by_category[2:] == ["| ours | 50.0 | 100.0 | 0.0 |"]
    assert ablations[2].startswith("| ours: speaker | 3 → 0 | +100.0 (+100.0 … +100.0) |")
    assert len({row.count("|") for row in overall}) == 1
    assert "75.0" in text(report)


def test_picture_has_a_bar_for_each_system_that_answered(dataset: Dataset) -> None:
    half = measured(dataset, "ours", "plain", ["c/1"], [], [])
    silent = measured(dataset, "messages", "plain", [], [], [])
    svg = ElementTree.fromstring(picture(Report(dataset, [half, silent])))
    bars = svg.findall("{http://www.w3.org/2000/svg}rect")
    assert [float(bar.attrib["width"]) for bar in bars] == [260]


def test_command_takes_systems_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    options = command.arguments(["--data", "x", "--system", "ours, bm25s", "--limit", "7", "--ablate", "all"])
    assert (options.system, options.limit, options.ablate) == (["ours", "bm25s"], 7, ["all"])
    assert command.arguments(["--data", "x"]).system == list(SYSTEMS)
    for wrong in (["--system", "oura"], ["--limit", "0"], ["--limit", "x"], ["--system", "bm25s", "--ablate", "all"]):
        with pytest.raises(SystemExit):
            command.arguments(["--data", "x", *wrong])
        assert "--system" in capsys.readouterr().err


async def test_rival_that_is_not_installed_is_said_so(dataset: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(_name: str) -> object:
        raise ModuleNotFoundError("No module named 'bm25s'", name="bm25s")

    monkeypatch.setenv("MEMORY_SQL_BENCH_URL", "postgresql://nowhere/none")
    monkeypatch.setattr("benchmarks.recall.systems.import_module", absent)
    report = await command.run(command.arguments(["--data", "x", "--system", "bm25s"]), dataset)
    assert (report.measured, report.missing) == ([], {"bm25s": "not installed: bm25s"})
    assert "not installed: bm25s" in text(report)


def test_turn_is_known_by_its_conversation(dataset: Dataset) -> None:
    other = Turn("d/1", "conv-2", "conv-2/1", "user", "Jonas", "Text", dataset.turns[0].said_at)
    grouped = Corpus((*dataset.turns, other), "plain").by_conversation()
    assert {name: [turn.id for turn in turns] for name, turns in grouped.items()} == {
        "conv-1": ["c/1", "c/2", "c/3"],
        "conv-2": ["d/1"],
    }


def shown(*lines: tuple[str, ...], in_text: bool = False) -> Shown:
    asked = RecordedQuestion("q1", "mia", "update", "Where?", frozenset({"new"}), frozenset({"old"}), in_text=in_text)
    return Shown(asked, in_text, [_line(*sources) for sources in lines])


def _line(*sources: str) -> Line:
    return Line(frozenset(sources), holds="old" not in sources, text="- a line", retrieved=True)


def test_evidence_is_shown_by_lines_made_of_it_and_answered_by_texts_too() -> None:
    assert shown(("new", "other")).is_shown
    assert not shown(("other",)).is_answered
    assert shown(in_text=True).is_answered


@pytest.mark.parametrize(
    ("lines", "first"), [((("old",), ("new",)), True), ((("new",), ("old",)), False), ((("other",), ("old",)), True)]
)
def test_what_was_overtaken_stands_first_where_nothing_newer_stands_above(
    lines: tuple[tuple[str, ...], ...], first: bool
) -> None:
    assert shown(*lines).is_stale_first is first


def test_the_invented_conversations_have_a_source_for_everything_that_is_recorded() -> None:
    for conversations in recorded():
        said = {message["id"] for message in conversations.messages}
        assert all(said.issuperset(row["sources"]) for row in conversations.observations)
        assert all(said >= asked.evidence | asked.stale for asked in conversations.questions)
        assert len(conversations.by_time) == len(said)


async def test_the_recorded_model_answers_nothing_that_it_does_not_know() -> None:
    model = RecordedModel(recorded()[0])
    with pytest.raises(RecordedError):
        await model.generate(Request("propagation", "", "", "", str))


# A year


def test_a_year_keeps_sessions_as_they_are_and_in_order() -> None:
    for one in recorded():
        year = stretched(one, 2.5)
        assert list(year.by_session) == list(one.by_session)
        for session, said in one.by_session.items():
            moved = {
                said_at(later) - said_at(message) for message, later in zip(said, year.by_session[session], strict=True)
            }
            (longer,) = moved
            assert abs(longer / timedelta(days=1) - 1.5 * (said_at(said[0]).date() - begin(one).date()).days) <= 0.5
        for row, later in zip(one.observations, year.observations, strict=True):
            assert later["moved"] == datetime.fromisoformat(later["observed_at"]) - datetime.fromisoformat(
                row["observed_at"]
            )


def test_fields_are_written_for_each_observation_and_a_day_is_none_before_it_was_said() -> None:
    for one in recorded():
        year = stretched(one, 2.5)
        fields = fields_of(year, INVENTED)
        assert len(fields) == len(year.observations)
        assert {said.category for said in fields} <= set(CATEGORIES)
        assert {said.sure for said in fields} == {*get_args(Sure)}
        for row, said in zip(year.observations, fields, strict=True):
            assert said.until is None or f"{said.until}" >= row["observed_at"][:10]


def test_a_year_has_all_its_weeks_and_asks_nothing_before_it_was_said() -> None:
    (one, _) = recorded()
    year = stretched(one, 2.3)
    weeks = weeks_of(events(year))
    assert len(weeks) == 54
    heard = set[str]()
    for event in (event for week in weeks for event in week):
        if event.session is not None:
            heard |= {message["id"] for message in year.by_session[event.session]}
        elif event.question is not None:
            assert event.question.evidence <= heard
