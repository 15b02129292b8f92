"""When failed work is tried again, and when it is given up. Pure.

If there was no answer at all (rate limit, outage, time-out, no database), or the judge can't be trusted, the work isn't
at fault: it is retried without limit. If an answer can't be used, the work may be at fault: after `max_errors` such
answers in a row it is given up, and a person decides.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from memory_sql.config import Settings
from memory_sql.errors import BudgetError, JudgeError, LanguageModelError, StaleError, UnavailableError

BACKOFF_SECONDS = 8.0  # the longest pause that a client makes between two attempts


@dataclass(frozen=True, slots=True)
class Verdict:
    """`retry_at` None: unchanged. `failures` and `errors`: the counts in a row, including this attempt."""

    failures: int
    errors: int
    retry_at: datetime | None = None
    gives_up: bool = False


def judge(
    error: BaseException, failures: int, errors: int, settings: Settings, now: datetime, *, counts: bool
) -> Verdict:
    """`counts` False: somebody asked for the work and sees the error, so it isn't counted."""
    if not counts or isinstance(error, StaleError | BudgetError) or not isinstance(error, Exception):
        return Verdict(failures, errors)  # asked for, overtaken, out of tokens or interrupted: not a bad answer
    if is_unusable(error):
        if errors + 1 >= settings.max_errors:
            return Verdict(failures, errors + 1, gives_up=True)
        return Verdict(failures, errors + 1, now + pause(errors, settings))
    # No answer, no database, or a bug of ours. Without a pause the same call would at once be paid for again.
    return Verdict(failures + 1, errors, now + pause(failures, settings))


def is_unusable(error: BaseException) -> bool:
    """There was an answer, but it can't be used, which may be the work's fault. A bad judge isn't."""
    return isinstance(error, LanguageModelError) and not isinstance(error, UnavailableError | JudgeError)


def pause(before: int, settings: Settings) -> timedelta:
    """The pause after `before` earlier failures in a row: twice as long each time, up to a limit."""
    return timedelta(seconds=min(settings.retry_first_seconds * 2.0 ** min(before, 60), settings.retry_longest_seconds))


def deadline_of(timeout_seconds: float, max_retries: int) -> float:
    """The longest that a call with its retries may take, in seconds."""
    return (timeout_seconds + BACKOFF_SECONDS) * (max_retries + 1)
