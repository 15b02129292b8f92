"""When work that failed is tried again, and when it is given up. Pure.

No answer at all (rate limit, outage, time-out, no database), or a judge that can't be trusted, says nothing about the
work: it waits, however often. An answer that can't be used may be the work's fault: after `max_errors` in a row it is given
up, and a person decides.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from memory_sql.config import Settings
from memory_sql.errors import BudgetError, JudgeError, LanguageModelError, StaleError, UnavailableError


@dataclass(frozen=True, slots=True)
class Verdict:
    """`retry_at` None: as before the attempt. `failures` and `errors` are the counts in a row, this one included."""

    failures: int
    errors: int
    retry_at: datetime | None = None
    gives_up: bool = False


def judge(
    error: BaseException, failures: int, errors: int, settings: Settings, now: datetime, *, counts: bool
) -> Verdict:
    """`counts` False: somebody asked for the work and sees the error; it isn't held against it."""
    if not counts or isinstance(error, StaleError | BudgetError) or not isinstance(error, Exception):
        return Verdict(failures, errors)  # asked for, overtaken, out of tokens, interrupted: not a bad answer
    if is_unusable(error):
        if errors + 1 >= settings.max_errors:
            return Verdict(failures, errors + 1, gives_up=True)
        return Verdict(failures, errors + 1, now + pause(errors, settings))
    # No answer, no database, or a mistake of ours: without a pause the same would be paid for again at once.
    return Verdict(failures + 1, errors, now + pause(failures, settings))


def is_unusable(error: BaseException) -> bool:
    """There was an answer, and nothing could be made of it: it may be the work's fault. A bad judge isn't."""
    return isinstance(error, LanguageModelError) and not isinstance(error, UnavailableError | JudgeError)


def pause(before: int, settings: Settings) -> timedelta:
    """After so many failures in a row before this one: twice as long each time, up to a limit."""
    return timedelta(seconds=min(settings.retry_first_seconds * 2.0 ** min(before, 60), settings.retry_longest_seconds))
