"""`tests/requirements.md` is complete, and the tests that it names exist."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCUMENT = ROOT / "tests" / "requirements.md"

REQUIREMENTS = [f"R{n:03}" for n in range(1, 349)]
CONTRADICTIONS = [f"C{n}" for n in range(1, 31)]
ODDITIES = [f"A{n}" for n in range(1, 31)]
FORGETTING = ["D92", "D94", "D96", "D98", "D100"]

_ROW = re.compile(r"^\| ([RCAD]\d.*) \|$", re.MULTILINE)
_NODE = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")
_NOT_YET = re.compile(r"(to come|nothing to show): \w")
_NUMBERS = re.compile(r"(?P<letter>[RCAD])(?P<first>\d+)(?:–(?P=letter)(?P<last>\d+))?")


def table(markdown: str) -> list[list[str]]:
    """The cells of every row that begins with a number."""
    return [row.split(" | ") for row in _ROW.findall(markdown)]


def numbers(cell: str) -> Iterator[str]:
    """`R001, R003–R005` → R001, R003, R004, R005; raises `ValueError` for anything else."""
    for part in cell.split(", "):
        found = _NUMBERS.fullmatch(part)
        if found is None:
            raise ValueError(part)
        first, last = found["first"], found["last"] or found["first"]
        for n in range(int(first), int(last) + 1):
            yield f"{found['letter']}{n:0{len(first)}}"


@cache
def functions(path: str) -> frozenset[str]:
    """The tests of a file; none when there is no such file."""
    file = ROOT / path
    if not file.is_file():
        return frozenset()
    body = ast.parse(file.read_text("utf-8")).body
    return frozenset(node.name for node in body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def missing(nodes: Iterable[tuple[str, str]]) -> list[str]:
    return sorted({f"{path}::{name}" for path, name in nodes if name not in functions(path)})


@pytest.fixture(scope="module")
def markdown() -> str:
    return DOCUMENT.read_text("utf-8")


@pytest.mark.parametrize(
    ("letter", "wanted"), [("R", REQUIREMENTS), ("C", CONTRADICTIONS), ("A", ODDITIES), ("D", FORGETTING)]
)
def test_every_number_stands_exactly_once_and_in_order(markdown: str, letter: str, wanted: list[str]) -> None:
    found = [n for cells in table(markdown) if cells[0][0] == letter for n in numbers(cells[0])]
    assert {n: times for n, times in Counter(found).items() if times > 1} == {}
    assert found == wanted


def test_every_number_is_shown_or_to_come(markdown: str) -> None:
    for cells in table(markdown):
        assert len(cells) == (3 if cells[0].startswith("C") else 4), cells[0]
        shown = [_NODE.fullmatch(s) or _NOT_YET.match(s) for s in cells[-1].split("; ")]
        assert all(shown), cells[0]


def test_every_contradiction_that_is_named_is_explained(markdown: str) -> None:
    named = {n for cells in table(markdown) for cell in cells[1:] for n in re.findall(r"\bC\d+\b", cell)}
    assert named <= set(CONTRADICTIONS)


@pytest.mark.slow
def test_every_test_that_is_named_exists(markdown: str) -> None:
    nodes = _NODE.findall(markdown)
    assert len(nodes) == markdown.count("::") > 100
    assert all(name.startswith("test_") for _, name in nodes)
    assert missing(nodes) == []


def test_what_is_missing_is_found() -> None:
    here = "tests/unit/test_requirements.py"
    assert missing([(here, "test_what_is_missing_is_found"), (here, "test_no"), ("tests/no.py", "test_x")]) == [
        "tests/no.py::test_x",
        f"{here}::test_no",
    ]


def test_ranges_are_read_and_anything_else_is_refused() -> None:
    assert list(numbers("R001, R003–R005")) == ["R001", "R003", "R004", "R005"]
    assert list(numbers("C9–C11")) == ["C9", "C10", "C11"]
    for wrong in ("R001 R002", "R001-R002", "R001–C002", "R001,R002", "R"):
        with pytest.raises(ValueError, match="R"):
            list(numbers(wrong))
