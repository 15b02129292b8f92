"""How much a random test tries: all of it under the profile `full` (CI, `make prove`), a tenth under `fast` (`make test`).

Another than the environment's: `pytest --hypothesis-profile=full`.
"""

from __future__ import annotations

import os

from hypothesis import settings

PER_TEST = 100  # Hypothesis' own number of examples
settings.register_profile("full", max_examples=PER_TEST, deadline=None)  # no test asserts wall time unasked
settings.register_profile("fast", max_examples=PER_TEST // 10, deadline=None)
settings.load_profile("full" if os.environ.get("CI") else "fast")


def share(whole: int) -> int:
    """At least one."""
    return max(1, whole * settings().max_examples // PER_TEST)


def examples(whole: int, deadline: int | None = None) -> settings:
    return settings(max_examples=share(whole), deadline=deadline)
