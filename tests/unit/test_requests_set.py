"""The sentences by which requests that are spoken are measured: as many and as varied as they must be."""

from __future__ import annotations

import tomllib
from collections import Counter
from pathlib import Path

SENTENCES = tomllib.loads((Path(__file__).parents[1] / "acceptance" / "requests.toml").read_text(encoding="utf-8"))


def test_the_set_has_twenty_of_each_two_in_each_of_ten_languages() -> None:
    for cases in SENTENCES.values():
        assert sorted(Counter(one["language"] for one in cases).values()) == [2] * 10
    assert [*SENTENCES] == ["asks", "looks", "talk"]
    assert Counter(one["kind"] for one in SENTENCES["asks"]) == {"forget": 10, "correct": 10}
    assert all(set(one["meant"]) < set(range(len(one["knows"]))) for one in SENTENCES["asks"])
    assert len({one["says"] for cases in SENTENCES.values() for one in cases}) == 60
