"""How much a random test tries: everything under the profile `full` (CI, `make prove`), a tenth under `fast` (`make test`).

To override the environment's profile: `pytest --hypothesis-profile=full`.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from typing import Any

import pytest
from hypothesis import settings

PER_TEST = 100  # Hypothesis' default number of examples
settings.register_profile("full", max_examples=PER_TEST, deadline=None)  # no test asserts wall time unless asked to
settings.register_profile("fast", max_examples=PER_TEST // 10, deadline=None)
settings.load_profile("full" if os.environ.get("CI") else "fast")


def share(whole: int) -> int:
    """At least one."""
    return max(1, whole * settings().max_examples // PER_TEST)


def few_in_every_run(values: Sequence[Any], kept: Collection[Any]) -> list[Any]:
    """For `parametrize`: all values, with those not in `kept` marked slow."""
    return [value if value in kept else pytest.param(*_several(value), marks=pytest.mark.slow) for value in values]


def _several(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


def examples(whole: int, deadline: int | None = None) -> settings:
    return settings(max_examples=share(whole), deadline=deadline)
