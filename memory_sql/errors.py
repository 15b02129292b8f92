"""Everything that memory_sql raises on purpose.

    MemorySQLError
    ├── ConfigurationError          a setting is missing or wrong
    ├── InputError                  what the caller passed can't be accepted; nothing was stored
    │   ├── InvalidIdError          an agent, user, group, session or message id
    │   ├── InvalidMessageError     a message of a conversation, named by its position
    │   └── TooLargeError           a text over its limit
    ├── NotFoundError               no such thing, or the principal may not see it
    ├── HeldError                   a legal hold forbids to forget it
    ├── VersionError                what is to be changed isn't any more what the caller has seen
    ├── DatabaseError
    │   ├── ConflictError           others were writing the same; try again
    │   ├── ReadOnlyError           a replica, or a read-only transaction: nothing can be written there
    │   ├── SchemaError             the schema is missing, older or newer than this release
    │   └── EmbeddedError           the embedded Postgres can't be had or started
    ├── BudgetError                 the agent has used up its tokens of the day; the work waits
    ├── BusyError                   somebody else holds the lease on this session or scope
    ├── StaleError                  what a model call was based on has changed; nothing was written
    └── LanguageModelError
        ├── UnavailableError        no answer: rate limit, server error, time-out, connection
        ├── RefusedError            the model declined
        ├── TruncatedError          the answer was cut off
        └── AnswerError             an answer that isn't what was asked for
            └── GuardError          a consolidation that would do harm; the old text stays

Messages name ids, positions, counts and limits, never remembered text: they end up in logs.
"""

from __future__ import annotations

from datetime import datetime


class MemorySQLError(Exception):
    """The root of the tree.

    `added` is the `domain.AddResult` of an `add(wait=True)` whose messages were stored before it failed.
    """

    added: object = None


class ConfigurationError(MemorySQLError):
    pass


class InputError(MemorySQLError):
    pass


class InvalidIdError(InputError):
    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"{name}: {reason}")
        self.name = name
        self.reason = reason


class InvalidMessageError(InputError):
    def __init__(self, position: int, reason: str) -> None:
        super().__init__(f"message {position}: {reason}")
        self.position = position
        self.reason = reason


class TooLargeError(InputError):
    def __init__(self, what: str, size: int, limit: int) -> None:
        super().__init__(f"{what} has {size:,} characters; the limit is {limit:,}")
        self.what = what
        self.size = size
        self.limit = limit


class NotFoundError(MemorySQLError):
    def __init__(self, what: str, key: str) -> None:
        super().__init__(f"no {what} {key}")
        self.what = what
        self.key = key


class HeldError(MemorySQLError):
    def __init__(self, holds: int) -> None:
        super().__init__(f"{holds} open legal holds; release them first, or forget what they don't cover")
        self.holds = holds


class VersionError(MemorySQLError):
    """`found` is the version that it has now; `by` the observation that has taken its place, if any."""

    def __init__(self, key: str, found: int, because: str, *, by: str | None = None) -> None:
        super().__init__(f"observation {key} {because}; nothing was written")
        self.key = key
        self.found = found
        self.by = by


class DatabaseError(MemorySQLError):
    pass


class ConflictError(DatabaseError):
    pass


class ReadOnlyError(DatabaseError):
    pass


class SchemaError(DatabaseError):
    pass


class EmbeddedError(DatabaseError):
    pass


class BudgetError(MemorySQLError):
    """`until` is when the work goes on."""

    def __init__(self, agent: str, limit: int, until: datetime) -> None:
        super().__init__(
            f"agent {agent} has used its {limit:,} tokens of the day; the work waits until {until:%Y-%m-%d %H:%MZ}"
        )
        self.until = until


class BusyError(MemorySQLError):
    def __init__(self, what: str, key: str) -> None:
        super().__init__(f"{what} {key} is being worked on by another process")
        self.what = what
        self.key = key


class StaleError(MemorySQLError):
    reason = "stale"

    def __init__(self, what: str, key: str, because: str) -> None:
        super().__init__(f"{what} {key}: {because}; nothing was written")
        self.what = what
        self.key = key


class LanguageModelError(MemorySQLError):
    """`reason` is one word for the ledger (`runs.error_code`); `usage` is the `domain.Usage` of the call, if known."""

    reason = "error"
    usage: object = None


class UnavailableError(LanguageModelError):
    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class AnswerError(LanguageModelError):
    """`raw` is the answer as it came, for the ledger; it isn't part of the message."""

    reason = "invalid_answer"

    def __init__(self, message: str, *, raw: str = "", reason: str | None = None) -> None:
        super().__init__(message)
        self.raw = raw
        if reason is not None:
            self.reason = reason


class RefusedError(LanguageModelError):
    reason = "refused"


class TruncatedError(LanguageModelError):
    reason = "truncated"


class GuardError(AnswerError):
    reason = "guard"
