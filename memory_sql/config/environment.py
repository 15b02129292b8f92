"""What the environment says: settings, and names that look like settings but aren't."""

from __future__ import annotations

import logging
import os
import re
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
CONFIG = "CONFIG"  # the settings' file
OF_DEVELOPERS = frozenset({"TEST_URL", "SEED", "BENCH_URL", "BENCH_BUFFERS", "BENCH_TOWNS"})  # never suggested
OTHER_VARIABLES = OF_DEVELOPERS | {CONFIG}
OF_OTHERS = ("DATABASE_URL", "POSTGRES_URL", "POSTGRESQL_URL", "PGHOST")  # where other programs look for a database
NEAR = 0.9  # two names are one with a slip: MEMORYSQL_URL
SLIP = 0.85  # of names after the prefix: POOL_SISE
LIKE = 0.6  # of names after the prefix: TOP for TOP_K
URL = f"{PREFIX}URL"
# Names that were meant for a variable which is called otherwise, after the prefix.
MEANT: Mapping[str, re.Pattern[str]] = {
    "OPENAI_API_KEY": re.compile(r"(.*_)?(API_?)?KEY"),
    "OPENAI_BASE_URL": re.compile(r"((OPENAI|LLM|MODEL)_)?(API_)?BASE_URL|(OPENAI|LLM|MODEL)_(HOST|UR[LI])"),
    URL: re.compile(r"(DATABASE|DB|POSTGRES(QL)?|PG)(_?[A-Z]+)?|DSN|HOST|UR[LI]"),
    f"{PREFIX}READ_URL": re.compile(r"(READ|REPLICA)_(.*_)?(DSN|HOST|UR[LI])"),
}
_PREFIX_OTHERWISE = re.compile(r"(MEMORYSQL|MEM_SQL)_")
_SHORT_PREFIX = "MEMORY_"  # many programs have such names, so only one that names a database was meant for us


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
    names = tuple(settings)
    for name in os.environ:
        upper = name.upper()
        if upper in _known(names):
            continue
        near = _meant(upper, names) if "SQL" in upper or "MEM" in upper else None  # else it is far from any
        if near is not None or upper.startswith(PREFIX):
            _warn_once(name, near)


def _meant(upper: str, settings: tuple[str, ...]) -> str | None:
    """What the name was meant for, if that can be said."""
    slip = difflib.get_close_matches(upper, _suggested(settings), 1, NEAR)
    if slip and not upper.startswith(PREFIX):
        return slip[0]
    other = _PREFIX_OTHERWISE.match(upper)
    if upper.startswith(PREFIX) or other:
        return _after_prefix(upper[other.end() if other else len(PREFIX) :], settings)
    is_database = upper.startswith(_SHORT_PREFIX) and MEANT[URL].fullmatch(upper.removeprefix(_SHORT_PREFIX))
    return URL if is_database else None


def _after_prefix(rest: str, settings: tuple[str, ...]) -> str | None:
    names = [name.removeprefix(PREFIX) for name in _suggested(settings)]
    slip = difflib.get_close_matches(rest, names, 1, SLIP)
    if slip:
        return f"{PREFIX}{slip[0]}"
    meant = next((name for name, pattern in MEANT.items() if pattern.fullmatch(rest)), None)
    like = difflib.get_close_matches(rest, names, 1, LIKE)
    return meant or (f"{PREFIX}{like[0]}" if like else None)


def warn_of_unread(used: str) -> None:
    """Warns if a database is named where only other programs look. `used`: what is used instead."""
    named = next((name for name in OF_OTHERS if os.environ.get(name)), None)
    if named is not None:
        log.warning("%s is set but isn't read: memory is in %s; to use that database, set %sURL", named, used, PREFIX)


@cache
def _known(settings: tuple[str, ...]) -> frozenset[str]:
    return frozenset(f"{PREFIX}{name}" for name in OTHER_VARIABLES.union(map(str.upper, settings)))


@cache
def _suggested(settings: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(sorted(f"{PREFIX}{name.upper()}" for name in (*settings, CONFIG)))


@cache
def _warn_once(name: str, near: str | None) -> None:
    hint = f"; did you mean {near}?" if near else ""
    log.warning("%s isn't a setting and has no effect%s", name, hint)
