"""The pairs of `tests/rechecked`: observations of which the later contradicts the earlier, or only seems to."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, NamedTuple

FOLDER = Path(__file__).parent / "rechecked"
Kind = Literal["gone", "both", "interval", "people", "part"]


class Pair(NamedTuple):
    """`was`: the words of the earlier one that give way; "": it stands. `still`: what else it says that holds."""

    kind: Kind
    language: str
    earlier: str
    later: str
    was: str = ""
    still: str | None = None


def contradictions() -> list[Pair]:
    """All of the earlier one has to give way."""
    return [Pair("gone", *cells) for cells in _lines("contradictions.txt")]


def lookalikes() -> list[Pair]:
    """None of the earlier ones may go; of kind part: not the part that still holds."""
    return [Pair(*cells) for cells in _lines("lookalikes.txt")]  # type: ignore[arg-type]


def _lines(name: str) -> Iterator[list[str]]:
    for line in (FOLDER / name).read_text("utf-8").splitlines():
        if line and not line.startswith("#"):
            yield [cell.strip() for cell in line.split("|")]


class Asked(NamedTuple):
    """What a prompt showed, and the answer that was written by hand."""

    pairs: tuple[tuple[str, str], ...]
    answer: str

    @property
    def said(self) -> dict[tuple[str, str], dict[str, Any]]:
        """By the texts of the pair, what isn't unrelated."""
        named = json.loads(self.answer)["pairs"]
        return {self.pairs[one["pair"] - 1]: {key: one[key] for key in one if key != "pair"} for one in named}


def honest() -> list[Asked]:
    found = tomllib.loads((FOLDER / "honest.toml").read_text("utf-8"))["asked"]
    return [Asked(tuple((one, other) for one, other in item["pairs"]), item["answer"]) for item in found]
