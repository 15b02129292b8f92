"""The figures of docs/lifecycle.md are those of the formulas."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path

import pytest

from memory_sql.config import Settings
from memory_sql.lifecycle.scores import Life, scores
from tests.factories import MONDAY

PAGE = (Path(__file__).parents[2] / "docs/lifecycle.md").read_text("utf-8")
ROWS = re.findall(r"^\| (0\.\d+|not known) \| (\d+) \| (\w+) \| (\w+) \|$", PAGE, re.MULTILINE)


def first_day(confidence: float | None, threshold: float) -> str:
    life = Life(confidence=confidence, importance=0.5, said_at=MONDAY, created_at=MONDAY)
    days = (day for day in range(5 * 365) if scores(life, MONDAY + timedelta(days=day)).decay >= threshold)
    return str(next(days, "never"))


@pytest.mark.parametrize(("confidence", "stale", "archived", "later"), ROWS)
def test_days_until_something_fades_are_those_of_the_page(
    confidence: str, stale: str, archived: str, later: str
) -> None:
    sure, settings = None if confidence == "not known" else float(confidence), Settings(llm="offline")
    thresholds = (settings.stage_stale, settings.stage_archive, 0.85)
    assert tuple(first_day(sure, threshold) for threshold in thresholds) == (stale, archived, later)


def test_the_page_has_a_row_for_each_tier() -> None:
    assert len(ROWS) == 5
