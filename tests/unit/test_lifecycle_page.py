"""The figures of docs/lifecycle.md are those of the formulas."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path

import pytest

from memory_sql.config import Settings
from memory_sql.lifecycle.scores import Life, TierRules, next_tier, scores
from tests.factories import MONDAY

PAGE = (Path(__file__).parents[2] / "docs/lifecycle.md").read_text("utf-8")
SECTIONS = {part.partition("\n")[0]: part for part in PAGE.split("\n## ")}
ROW = re.compile(r"^\| (0\.\d+|not known) \| (\w+) \| (\w+) \| (\w+) \|$", re.MULTILINE)
ROWS = ROW.findall(SECTIONS["Stages"])
TIERS = ROW.findall(SECTIONS["Tiers"])


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


@pytest.mark.parametrize(("confidence", "half", "little", "less"), TIERS)
def test_days_until_something_is_cold_are_those_of_the_page(confidence: str, half: str, little: str, less: str) -> None:
    sure, settings = None if confidence == "not known" else float(confidence), Settings(llm="offline")
    rules = TierRules(settings.tier_demote, settings.tier_promote, settings.tier_days)

    def cold(importance: float) -> str:
        life = Life(confidence=sure, importance=importance, said_at=MONDAY, created_at=MONDAY)
        values = ((day, scores(life, MONDAY + timedelta(days=day)).value) for day in range(5 * 365))
        found = (day for day, value in values if next_tier("hot", value, day, rules, is_protected=False) == "cold")
        return str(next(found, "never"))

    assert tuple(map(cold, (0.5, 0.3, 0.1))) == (half, little, less)


def test_the_page_has_a_row_for_each_confidence() -> None:
    assert (len(ROWS), len(TIERS)) == (5, 5)
