"""Every exception that memory_sql raises on purpose.

    MemorySQLError
    ├── ConfigurationError          a setting is missing or wrong
    ├── InputError                  an argument can't be accepted; nothing was stored
    │   ├── ForkedError             this Memory was opened before the process was forked; open one in each
    │   ├── InvalidIdError          an invalid agent, user, group, conversation or message id
    │   ├── InvalidMessageError     an invalid message of a conversation, identified by its position
    │   ├── TooLargeError           a text over its limit
    │   └── TooManyError            a list over its limit
    ├── SourceError                 the data to import can't be read
    ├── NotFoundError               it doesn't exist, or the principal may not see it
    ├── HeldError                   legal holds forbid erasing all of it, or replacing a message
    ├── VersionError                the observation has changed since the caller read it
    ├── DatabaseError
    │   ├── ConflictError           a concurrent transaction wrote the same rows; try again
    │   │   └── LockTimeoutError    a lock wasn't released within the time that a call waits
    │   ├── PoolFullError           no connection became free in time
    │   ├── ReadOnlyError           the database is a replica, or the transaction is read-only
    │   ├── RestoredError           the database is a backup from before a forgetting: run restore-check first
    │   ├── SchemaError             the schema is missing, older or newer than this release
    │   ├── ShardError              a shard can't be reached, so its agents can't, nor what asks all
    │   ├── DividedAgentError       two shards hold the same agent
    │   └── EmbeddedError           the embedded Postgres can't be installed or started
    ├── BudgetError                 the agent has used up its daily tokens or money; the work waits
    ├── BusyError                   another process holds the lease on this conversation or scope
    ├── StaleError                  the input of a model call has changed since; nothing was written
    └── LanguageModelError
        ├── UnavailableError        no answer: rate limit, server error, timeout, connection
        ├── RefusedError            the model declined to answer
        ├── TruncatedError          the answer was cut off
        ├── PromptTooLongError      the model can't read so long a prompt
        ├── JudgeError              the judge got claims wrong whose right answer is known
        └── AnswerError             the answer isn't what was asked for
            └── GuardError          a new text failed its checks; the old text stays

Messages contain ids, positions, counts and limits. They never contain remembered text, because they end up in logs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Self

from memory_sql.later import later

if TYPE_CHECKING:
    from memory_sql.domain import adding
    from memory_sql.domain import usage as used
else:  # so that `typing.get_type_hints` finds them
    adding, used = later("memory_sql.domain.adding"), later("memory_sql.domain.usage")


class MemorySQLError(Exception):
    """The base class: catch it to handle every exception that this library raises on purpose.

    `added` is set if `add(wait=True)` stored the messages and then failed to form them: it is the result of that call.
    Every error can be pickled and copied, with its text, attributes and notes: pools of processes and task queues do that.
    """

    added: adding.AddResult | None = None

    def __reduce__(self) -> tuple[Callable[..., Self], tuple[Any, ...], dict[str, Any]]:
        """Without `__init__`, whose arguments aren't the text that an exception keeps."""
        return type(self).__new__, (type(self), *self.args), self.__dict__


class ConfigurationError(MemorySQLError):
    """A setting is missing or wrong. The message names the setting, never its value."""


class InputError(MemorySQLError):
    """An argument can't be accepted. Nothing was stored."""


class ForkedError(InputError):
    """This Memory was opened in the process from which this one was forked, and its connections are that one's."""

    def __init__(self) -> None:
        super().__init__(
            "this Memory was opened before this process was forked, and its connections belong to the parent; open a new"
            " Memory after the fork, one in each process"
        )


class InvalidIdError(InputError):
    """An id of the host's that isn't text, an integer or a UUID of 1 to 255 characters, or a malformed id of this library.

    `name` is the argument; `reason` says what is wrong with it.
    """

    name: str
    reason: str

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"{name}: {reason}")
        self.name = name
        self.reason = reason


class InvalidMessageError(InputError):
    """A message can't be accepted. `position` is its index in the call, from 0."""

    position: int
    reason: str

    def __init__(self, position: int, reason: str) -> None:
        super().__init__(f"message {position}: {reason}")
        self.position = position
        self.reason = reason


class TooLargeError(InputError):
    """A text is longer than its limit. `size` and `limit` count characters."""

    what: str
    size: int
    limit: int

    def __init__(self, what: str, size: int, limit: int) -> None:
        super().__init__(f"{what} has {size:,} characters; the limit is {limit:,}")
        self.what = what
        self.size = size
        self.limit = limit


class TooManyError(InputError):
    """A list is longer than its limit. Split it over several calls."""

    what: str
    limit: int

    def __init__(self, what: str, limit: int) -> None:
        super().__init__(f"{what} has more than {limit:,} items; the limit is {limit:,}")
        self.what = what
        self.limit = limit


class SourceError(MemorySQLError):
    """The data to import can't be read. `part` is the file or collection; `reason` says what is wrong.

    `offset` is the position in it, in bytes of the unpacked data.
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
    """Legal holds forbid erasing all of it, or replacing `what`. `holds` is the number of holds; 0: it wasn't counted."""

    holds: int

    def __init__(self, holds: int, what: str | None = None) -> None:
        super().__init__(
            f"{holds} open legal holds; release them first, or forget what they don't cover"
            if what is None
            else f"{what} is covered by a legal hold and can't be replaced; release the hold first"
        )
        self.holds = holds


class VersionError(MemorySQLError):
    """The observation `key` has changed since the caller read it, or isn't active. Nothing was written.

    `found` is its current version. `by` is the observation that superseded it, or None.
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
    """The database can't be reached, or can't do what was asked of it."""


class ConflictError(DatabaseError):
    """A concurrent transaction wrote the same rows. Try again."""


class LockTimeoutError(ConflictError):
    """Another transaction held a lock for longer than this call may wait (`lock_timeout_seconds`, or the host's limit).

    Nothing was written in this transaction. If the call uses several transactions, those that it has committed stay. Try
    again; if it happens often, some transactions are too long.
    """

    def __init__(self, what_to_do: str, limit: str = "lock_timeout_seconds") -> None:
        super().__init__(
            f"another transaction has held a lock that this call needs for longer than {limit}; nothing was written in this"
            f" transaction; {what_to_do}"
        )


class PoolFullError(DatabaseError):
    """No connection became free in time (`pool_timeout_seconds`).

    Either calls are waiting for locks that a long transaction holds, or there are more concurrent calls than connections.
    If the call uses several transactions, those that it has committed stay.
    """

    def __init__(self, seconds: float | None = None) -> None:
        within = "in time" if seconds is None else f"within {seconds:g} s"
        super().__init__(
            f"no connection became free {within}; try again, end the transactions that block others, or raise"
            " MEMORY_SQL_POOL_SIZE (with engine=, the pool_size of the engine)"
        )


class ReadOnlyError(DatabaseError):
    """The database is a replica, or the transaction is read-only: nothing can be written."""


class SchemaError(DatabaseError):
    """The schema is missing, or older or newer than this release. The message names the command that fixes it."""


class ShardError(DatabaseError):
    """A shard can't be reached. `shards`: what each that didn't answer said, by its name.

    Calls for agents of the other shards work. A call that asks all shards raises it rather than leave one out; what it did
    in the others is done.
    """

    shards: dict[str, str]

    def __init__(self, shards: Mapping[str, str]) -> None:
        super().__init__("; ".join(f"shard {name}: {said}" for name, said in shards.items()))
        self.shards = dict(shards)


class MovedAgentError(DatabaseError):
    """The agent is just moving to another shard, or has moved there since the call began. Nothing was written: call again.

    A memory with shards calls again by itself, unless the call joins a transaction of the host or has asked a model.
    """

    def __init__(self) -> None:
        super().__init__("the agent is moving to another shard, or has moved since the call began; call again")


class DividedAgentError(DatabaseError):
    """Two shards hold the same agent, and only a person knows which one is right. Nothing was written.

    `agent_id` is the agent, `shards` are the names.
    """

    agent_id: str
    shards: tuple[str, ...]

    def __init__(self, agent_id: str, shards: Sequence[str]) -> None:
        super().__init__(
            f"the shards {' and '.join(shards)} both hold agent {agent_id}; erase it in all but one: memory-sql forget"
            " --everything with --url of that shard"
        )
        self.agent_id = agent_id
        self.shards = tuple(shards)


class RestoredError(DatabaseError):
    """The database was restored from a backup made before something was forgotten, and may not be read yet.

    Or before an agent moved to another shard. `missing` is the number of forgettings that have to be repeated, and of such
    moves; `copied_from` how many of them belong to each incarnation of the database from which this one was copied or
    restored.
    """

    missing: int
    copied_from: dict[str, int]

    def __init__(self, missing: int, copied_from: Mapping[str, int] | None = None) -> None:
        told = (
            f"{missing} forgettings or moves of the journal are missing in this database: it was restored from an older"
            " backup;"
        )
        told += " run `memory-sql admin restore-check`"
        for incarnation, count in (copied_from or {}).items():
            told += (
                f"; of these {count} were in {incarnation}, from which it was copied: if it takes the place of that"
                f" one, with `--incarnation {incarnation}`; if it is a copy beside it, run `memory-sql db renew` instead"
            )
        super().__init__(told)
        self.missing = missing
        self.copied_from = dict(copied_from or {})


class EmbeddedError(DatabaseError):
    """The embedded Postgres can't be installed or started."""


class BudgetError(MemorySQLError):
    """The agent has used up its `daily_tokens` or its `daily_cost`. The work continues by itself at `until`."""

    until: datetime

    def __init__(self, agent: str, limit: float, until: datetime, what: str = "tokens") -> None:
        of_day = f"{limit:,} daily tokens" if what == "tokens" else f"daily cost of {limit:,.2f}"
        super().__init__(f"agent {agent} has used up its {of_day}; the work waits until {until:%Y-%m-%d %H:%MZ}")
        self.until = until


class BusyError(MemorySQLError):
    """Another process holds the lease on this conversation or scope. Nothing was done."""

    what: str
    key: str

    def __init__(self, what: str, key: str) -> None:
        super().__init__(f"another process is working on {what} {key}")
        self.what = what
        self.key = key


class StaleError(MemorySQLError):
    """The input of a model call changed while the model was answering. Nothing was written; the work is still due.

    Or a claim was accepted that, since it was held, can't be shared any more (`work.decide`); the message says why. Or by now
    something else would be forgotten than a dry run told (`forget`).
    """

    reason = "stale"
    what: str
    key: str

    def __init__(self, what: str, key: str, because: str) -> None:
        super().__init__(f"{what} {key}: {because}; nothing was written")
        self.what = what
        self.key = key


class LanguageModelError(MemorySQLError):
    """The model gave no usable answer. Nothing was changed, and the work is tried again later.

    `reason` is one word, stored in `runs.error_code`. `usage` is what the call cost, None if that isn't known.
    """

    reason: str = "error"
    usage: used.Usage | None = None


ACCOUNT_REFUSED = ("auth", "quota")  # reasons of UnavailableError that say nothing about the request


class UnavailableError(LanguageModelError):
    """There is no answer: rate limit, server error, timeout, connection failure, or a refused key or account."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class AnswerError(LanguageModelError):
    """The answer isn't what was asked for. `raw` is the answer; the message doesn't contain it."""

    reason = "invalid_answer"
    raw: str

    def __init__(self, message: str, *, raw: str = "", reason: str | None = None) -> None:
        super().__init__(message)
        self.raw = raw
        if reason is not None:
            self.reason = reason


class RefusedError(LanguageModelError):
    """The model declined to answer."""

    reason = "refused"


class TruncatedError(LanguageModelError):
    """The answer was cut off at the model's token limit."""

    reason = "truncated"


class PromptTooLongError(LanguageModelError):
    """The model can't read so long a prompt. Less is read at a time."""

    reason = "prompt_too_long"


class JudgeError(LanguageModelError):
    """The judge got decoys wrong twice, so its other answers don't count. The claims wait."""

    reason = "judge"


class GuardError(AnswerError):
    """A new text failed its checks twice: it leaves out too much, or says something that nobody said. The old text stays."""

    reason = "guard"
    held: dict[str, Any] | None = None  # what a person may still accept


# What a service that speaks HTTP answers: 4xx if the caller has to change something, 503 if trying again later may help.
STATUSES: Mapping[type[MemorySQLError], int] = {
    MemorySQLError: 500,
    ConfigurationError: 500,
    InputError: 422,
    ForkedError: 500,
    InvalidIdError: 422,
    InvalidMessageError: 422,
    TooLargeError: 413,
    TooManyError: 413,
    SourceError: 422,
    NotFoundError: 404,
    HeldError: 409,
    VersionError: 409,
    DatabaseError: 503,
    ConflictError: 503,
    LockTimeoutError: 503,
    PoolFullError: 503,
    ReadOnlyError: 503,
    SchemaError: 500,
    ShardError: 503,
    MovedAgentError: 503,
    DividedAgentError: 500,
    RestoredError: 503,
    EmbeddedError: 503,
    BudgetError: 429,
    BusyError: 409,
    StaleError: 409,
    LanguageModelError: 502,
    UnavailableError: 503,
    RefusedError: 502,
    TruncatedError: 502,
    PromptTooLongError: 502,
    JudgeError: 502,
    AnswerError: 502,
    GuardError: 502,
}


def http_status(error: MemorySQLError) -> int:
    """The HTTP status for an error; for one of your own subclasses, that of the nearest class above it."""
    return next(STATUSES[kind] for kind in type(error).__mro__ if kind in STATUSES)
