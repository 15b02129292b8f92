"""Useless judges of propagation, and a worse one that is right only on decoys."""

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


# Each makes a judge. `obeys` does what every claim says, so that only the rules stand in its way.
JUDGES: dict[str, Callable[[], Judge]] = {
    "yes": lambda: yes,
    "no": lambda: no,
    "random": guessing,
    "obeys": lambda: verdict,
}
