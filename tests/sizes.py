"""How much a random test tries: everything under the profile `full` (`make prove`), three tenths in CI, else a tenth.

To override the environment's profile: `pytest --hypothesis-profile=full`. `whole` is the same with all parts of what takes
hours (`parts_of_today`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import settings

PER_TEST = 100  # Hypothesis' default number of examples
settings.register_profile("full", max_examples=PER_TEST, deadline=None)  # no test asserts wall time unless asked to
settings.register_profile("whole", settings.get_profile("full"))
settings.register_profile("ci", max_examples=3 * PER_TEST // 10, deadline=None)
settings.register_profile("fast", max_examples=PER_TEST // 10, deadline=None)
settings.load_profile("ci" if os.environ.get("CI") else "fast")


def share(whole: int) -> int:
    """At least one."""
    return max(1, whole * settings().max_examples // PER_TEST)


def parts_of_today(count: int) -> list[int]:
    """Of a proof that takes hours another part each day, numbered from 1; all of them under the profile `whole`."""
    if settings.get_current_profile_name() == "whole":
        return [*range(1, count + 1)]
    return [datetime.now(UTC).toordinal() % count + 1]


def few_in_every_run(values: Sequence[Any], kept: Collection[Any]) -> list[Any]:
    """For `parametrize`: all values. Of those not in `kept` every eighth is slow, and the rest is left to `make prove`."""
    slow = [value for value in values if value not in kept][::8]
    return _marked(values, kept, lambda value: pytest.mark.slow if value in slow else pytest.mark.prove)


def few_in_ci(values: Sequence[Any], kept: Collection[Any]) -> list[Any]:
    """For `parametrize` of a slow test: all values, with those not in `kept` left to `make prove`."""
    return _marked(values, kept, lambda _: pytest.mark.prove)


def _marked(values: Sequence[Any], kept: Collection[Any], mark: Callable[[Any], pytest.MarkDecorator]) -> list[Any]:
    return [value if value in kept else pytest.param(*_several(value), marks=mark(value)) for value in values]


def _several(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


def examples(whole: int, deadline: int | None = None) -> settings:
    return settings(max_examples=share(whole), deadline=deadline)
