"""Ids that users and conversations of a store have here, where they were renamed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

Names = Mapping[str, str]  # ids here, by those in the source


def each_once(names: Names, is_free: Callable[[str], bool]) -> Names:
    """Without those whose new id another has as well, or that isn't free."""
    times = Counter(names.values())
    return {old: new for old, new in names.items() if times[new] == 1 and is_free(new)}
