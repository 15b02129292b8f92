"""Everything that memory_sql raises on purpose.

    MemorySQLError
    ├── ConfigurationError          a setting is missing or wrong
    ├── InputError                  what the caller passed can't be accepted; nothing was stored
    │   ├── InvalidIdError          an agent, user, group, conversation or message id
    │   ├── InvalidMessageError     a message of a conversation, named by its position
    │   ├── TooLargeError           a text over its limit
    │   └── TooManyError            a list over its limit
    ├── SourceError                 what is to be imported can't be read
    ├── NotFoundError               no such thing, or the principal may not see it
    ├── HeldError                   a legal hold forbids to erase all of it
    ├── VersionError                it has changed since the caller read it
    ├── DatabaseError
    │   ├── ConflictError           others were writing the same; try again
    │   │   └── LockTimeoutError    others held it for longer than a call waits
    │   ├── PoolFullError           no connection became free in time
    │   ├── ReadOnlyError           a replica, or a read-only transaction: nothing can be written there
    │   ├── RestoredError           a backup from before a forgetting: run restore-check first
    │   ├── SchemaError             the schema is missing, older or newer than this release
    │   └── EmbeddedError           the embedded Postgres can't be installed or started
    ├── BudgetError                 the agent has used up its tokens of the day; the work waits
    ├── BusyError                   another process has the lease on this conversation or scope
    ├── StaleError                  what a model call was based on has changed; nothing was written
    └── LanguageModelError
        ├── UnavailableError        no answer: rate limit, server error, time-out, connection
        ├── RefusedError            the model declined
        ├── TruncatedError          the answer was cut off
        ├── JudgeError              a model that judges claims got some wrong whose answer is known
        └── AnswerError             an answer that isn't what was asked for
            └── GuardError          a consolidation that fails its checks; the old text stays

Messages name ids, positions, counts and limits, never remembered text: they end up in logs.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from memory_sql.domain.results import AddResult, Usage


class MemorySQLError(Exception):
    """The root of the tree: catch this for everything that this library raises on purpose.

    `added` is the result of an `add(wait=True)` whose messages were stored before forming them failed.
    """

    added: AddResult | None = None


class ConfigurationError(MemorySQLError):
    """A setting is missing or wrong. The message names the setting, never its value."""


class InputError(MemorySQLError):
    """What the caller passed can't be accepted. Nothing was stored."""


class InvalidIdError(InputError):
    """An id of the host's that isn't text, an integer or a UUID of 1 to 255 characters, or an id of ours in another form.

    `name` is the argument, `reason` what is wrong with it.
    """

    name: str
    reason: str

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"{name}: {reason}")
        self.name = name
        self.reason = reason


class InvalidMessageError(InputError):
    """A message of a conversation that can't be accepted. `position` is its place in the call, from 0."""

    position: int
    reason: str

    def __init__(self, position: int, reason: str) -> None:
        super().__init__(f"message {position}: {reason}")
        self.position = position
        self.reason = reason


class TooLargeError(InputError):
    """A text over its limit. `size` and `limit` are characters."""

    what: str
    size: int
    limit: int

    def __init__(self, what: str, size: int, limit: int) -> None:
        super().__init__(f"{what} has {size:,} characters; the limit is {limit:,}")
        self.what = what
        self.size = size
        self.limit = limit


class TooManyError(InputError):
    """A list over its limit; send it in several calls."""

    what: str
    limit: int

    def __init__(self, what: str, limit: int) -> None:
        super().__init__(f"{what} has more than {limit:,} items; the limit is {limit:,}")
        self.what = what
        self.limit = limit


class SourceError(MemorySQLError):
    """What is to be imported can't be read. `part` is its file or collection, `offset` the byte where, of what was unpacked.

    `reason` is what is wrong there.
    """

    part: str
    offset: int
    reason: str

    def __init__(self, part: str, offset: int, reason: str) -> None:
        super().__init__(f"{part}, byte {offset:,}: {reason}")
        self.part = part
        self.offset = offset
        self.reason = reason


class NotFoundError(MemorySQLError):
    """It doesn't exist, or this user may not see it: the two look the same. `key` is its id."""

    what: str
    key: str

    def __init__(self, what: str, key: str) -> None:
        super().__init__(f"no {what} {key}")
        self.what = what
        self.key = key


class HeldError(MemorySQLError):
    """Legal holds forbid to erase all of it. `holds` is how many."""

    holds: int

    def __init__(self, holds: int) -> None:
        super().__init__(f"{holds} open legal holds; release them first, or forget what they don't cover")
        self.holds = holds


class VersionError(MemorySQLError):
    """The observation `key` has changed since the caller read it, or isn't active. Nothing was written.

    `found` is its version now; `by` the observation that has superseded it, if any.
    """

    key: str
    found: int
    by: str | None

    def __init__(self, key: str, found: int, because: str, *, by: str | None = None) -> None:
        super().__init__(f"observation {key} {because}; nothing was written")
        self.key = key
        self.found = found
        self.by = by


class DatabaseError(MemorySQLError):
    """The database can't be used as it should be."""


class ConflictError(DatabaseError):
    """Others were writing the same at the same time. Try again."""


class LockTimeoutError(ConflictError):
    """Others held what this call has to lock for longer than it may wait (`lock_timeout_seconds`, or the host's limit).

    Nothing was written in this transaction; what a call of several has committed before stays. Try again; if it happens
    often, somebody's transactions are too long.
    """

    def __init__(self, what_to_do: str, limit: str = "lock_timeout_seconds") -> None:
        super().__init__(
            f"others hold what this call has to lock, for longer than {limit}; nothing was written in this transaction;"
            f" {what_to_do}"
        )


class PoolFullError(DatabaseError):
    """No connection became free in time (`pool_timeout_seconds`). What a call of several transactions has committed stays.

    Either calls wait for locks that somebody's long transaction holds, or there are more at once than connections.
    """

    def __init__(self, seconds: float | None = None) -> None:
        within = "in time" if seconds is None else f"within {seconds:g} s"
        super().__init__(
            f"no connection became free {within}; try again, end the transactions that others wait for, or raise"
            " MEMORY_SQL_POOL_SIZE (with engine=, the pool_size of the engine)"
        )


class ReadOnlyError(DatabaseError):
    """A replica, or a read-only transaction: nothing can be written there."""


class SchemaError(DatabaseError):
    """The schema is missing, or older or newer than this release. The message says which command mends it."""


class RestoredError(DatabaseError):
    """The database is a backup from before something was forgotten: nobody may read from it yet. `missing` is how many."""

    missing: int

    def __init__(self, missing: int) -> None:
        super().__init__(
            f"this database doesn't know of {missing} forgettings in its journal: it was restored from a backup made before;"
            " run `memory-sql admin restore-check`"
        )
        self.missing = missing


class EmbeddedError(DatabaseError):
    """The embedded Postgres can't be installed or started."""


class BudgetError(MemorySQLError):
    """The agent has used up its tokens of the day (setting `daily_tokens`). The work goes on by itself at `until`."""

    until: datetime

    def __init__(self, agent: str, limit: int, until: datetime) -> None:
        super().__init__(
            f"agent {agent} has used its {limit:,} tokens of the day; the work waits until {until:%Y-%m-%d %H:%MZ}"
        )
        self.until = until


class BusyError(MemorySQLError):
    """Another process has the lease on this conversation or scope. Nothing was done."""

    what: str
    key: str

    def __init__(self, what: str, key: str) -> None:
        super().__init__(f"{what} {key} is being worked on by another process")
        self.what = what
        self.key = key


class StaleError(MemorySQLError):
    """What a model call was based on has changed meanwhile. Nothing was written; the work is still due."""

    reason = "stale"
    what: str
    key: str

    def __init__(self, what: str, key: str, because: str) -> None:
        super().__init__(f"{what} {key}: {because}; nothing was written")
        self.what = what
        self.key = key


class LanguageModelError(MemorySQLError):
    """The model gave no usable answer. What it was asked about stays as it was, and is tried again later.

    `reason` is one word for the ledger (`runs.error_code`); `usage` is what the call cost, if that is known.
    """

    reason: str = "error"
    usage: Usage | None = None


ACCOUNT_REFUSED = ("auth", "quota")  # reasons of UnavailableError that say nothing about what was asked


class UnavailableError(LanguageModelError):
    """There is no answer: rate limit, server error, time-out, connection; a key or an account that is refused."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class AnswerError(LanguageModelError):
    """An answer that isn't what was asked for. `raw` is the answer, for the ledger; the message doesn't hold it."""

    reason = "invalid_answer"
    raw: str

    def __init__(self, message: str, *, raw: str = "", reason: str | None = None) -> None:
        super().__init__(message)
        self.raw = raw
        if reason is not None:
            self.reason = reason


class RefusedError(LanguageModelError):
    """The model declined."""

    reason = "refused"


class TruncatedError(LanguageModelError):
    """The answer was cut off at the model's limit of tokens."""

    reason = "truncated"


class JudgeError(LanguageModelError):
    """A model that judges claims got decoys wrong, twice: nothing that it said of the others counts. They wait."""

    reason = "judge"


class GuardError(AnswerError):
    """A consolidation whose text failed the checks twice: it loses too much, or says what nobody told. The old text stays."""

    reason = "guard"
    held: dict[str, Any] | None = None  # what a person may still accept
