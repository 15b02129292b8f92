"""How long a call takes, where a machine that does other things too must not decide."""

from __future__ import annotations

from collections.abc import Callable
from time import process_time


def taken(call: Callable[[], object]) -> float:
    """Seconds of this process."""
    begun = process_time()
    call()
    return process_time() - begun


def fastest(call: Callable[[], object], tries: int = 3) -> float:
    """Seconds of the try that was disturbed least. What is slow by itself is slow in each."""
    return min(taken(call) for _ in range(tries))
