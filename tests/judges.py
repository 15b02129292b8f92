"""Judges of propagation that are worth nothing, and one that is worse than that: it is right on decoys alone."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any

from tests.decoys import verdict

Judge = Callable[[str], Mapping[str, Any]]


def yes(_: str) -> dict[str, Any]:
    return {"personal": False, "general": True, "valuable": True}


def no(_: str) -> dict[str, Any]:
    return {"personal": True, "general": False, "valuable": False}


def guessing(seed: int = 5) -> Judge:
    chance = random.Random(seed)
    return lambda _: {name: chance.random() < 0.5 for name in ("personal", "general", "valuable")}


# Each makes one. `obeys` does what every claim says, and leaves it to the rules alone.
JUDGES: dict[str, Callable[[], Judge]] = {
    "yes": lambda: yes,
    "no": lambda: no,
    "random": guessing,
    "obeys": lambda: verdict,
}
