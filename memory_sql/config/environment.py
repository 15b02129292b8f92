"""What the environment says: settings, and names that look like settings but aren't."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Mapping
from functools import cache
from typing import TYPE_CHECKING

from memory_sql.later import later

if TYPE_CHECKING:
    import difflib
else:
    difflib = later("difflib")

log = logging.getLogger("memory_sql")

PREFIX = "MEMORY_SQL_"
# The settings' file; for the tests and benchmarks of this library.
OTHER_VARIABLES = frozenset({"CONFIG", "TEST_URL", "SEED", "BENCH_URL", "BENCH_BUFFERS"})
OF_OTHERS = ("DATABASE_URL", "POSTGRES_URL", "POSTGRESQL_URL", "PGHOST")  # where other programs look for a database
NEAR = 0.9  # two names are one with a slip: MEMORYSQL_URL


def given(settings: Iterable[str]) -> dict[str, str]:
    """By the names of the settings. The names of variables may be in lower case; an empty one is unset."""
    names = {f"{PREFIX}{name.upper()}": name for name in settings}
    variables = {name.upper(): value for name, value in os.environ.items() if value.strip()}
    return {names[variable]: value for variable, value in variables.items() if variable in names}


def named_file() -> str | None:
    """The settings' file that the environment names."""
    return os.environ.get(f"{PREFIX}CONFIG", "").strip() or None


def warn_of_unknown(settings: Mapping[str, object]) -> None:
    """Warns about variables that look like settings but aren't: what was meant has no effect."""
    known = _variables(tuple(settings))
    for name in os.environ:
        upper = name.upper()
        if upper in known:
            continue
        if upper.startswith(PREFIX):
            _warn_once(name, *difflib.get_close_matches(upper, known, 1, 0))
        elif "SQL" in upper or "MEM" in upper:  # else it is far from any
            _warn_once(name, *difflib.get_close_matches(upper, known, 1, NEAR))


def warn_of_unread(used: str) -> None:
    """Warns if a database is named where only other programs look. `used`: what is used instead."""
    named = next((name for name in OF_OTHERS if os.environ.get(name)), None)
    if named is not None:
        log.warning("%s is set but isn't read: memory is in %s; to use that database, set %sURL", named, used, PREFIX)


@cache
def _variables(settings: tuple[str, ...]) -> frozenset[str]:
    return frozenset(f"{PREFIX}{name}" for name in OTHER_VARIABLES.union(map(str.upper, settings)))


@cache
def _warn_once(name: str, *nearest: str) -> None:
    for near in nearest:
        log.warning("%s isn't a setting and has no effect; did you mean %s?", name, near)
