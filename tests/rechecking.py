"""The pairs of `tests/rechecked`: observations of which the later contradicts the earlier, or only seems to."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Literal, NamedTuple

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
