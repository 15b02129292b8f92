"""Requests to forget behind another clause: the rules of each language find them, and nothing that looks like them."""

from __future__ import annotations

import tomllib
from collections import Counter
from pathlib import Path

import pytest

from memory_sql.languages.requests import requests_in

FILE = Path(__file__).parents[1] / "acceptance" / "requests_behind.toml"
SENTENCES = tomllib.loads(FILE.read_text(encoding="utf-8"))


def test_the_set_has_thirty_of_each_three_in_each_of_ten_languages() -> None:
    assert [*SENTENCES] == ["asks", "looks"]
    for cases in SENTENCES.values():
        assert sorted(Counter(one["language"] for one in cases).values()) == [3] * 10
    assert len({one["says"] for cases in SENTENCES.values() for one in cases}) == 60


@pytest.mark.parametrize("case", SENTENCES["asks"], ids=lambda case: case["says"])
def test_what_is_asked_behind_another_clause_is_found(case: dict[str, str]) -> None:
    assert [(one.kind, one.what) for one in requests_in(case["says"])] == [("forget", case["what"])]


@pytest.mark.parametrize("case", SENTENCES["looks"], ids=lambda case: case["says"])
def test_what_looks_like_it_is_none(case: dict[str, str]) -> None:
    assert requests_in(case["says"]) == []
