"""What the engine asks of a kind of background work.

Two things differ from kind to kind and are never mixed: what talks to the database takes a session, what talks to a model
takes none. Whatever a kind's own steps are called with stands here once.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Protocol, TypeVar

from memory_sql.config import Settings
from memory_sql.db import Session
from memory_sql.domain.results import RunDueResult

Key = TypeVar("Key")  # what is worked on, as it is asked for
Held = TypeVar("Held", bound="OfAgent")  # the same, under a lease
Loaded = TypeVar("Loaded")  # a batch of it
Decided = TypeVar("Decided")
Applied = TypeVar("Applied")
Result = TypeVar("Result")


class OfAgent(Protocol):
    @property
    def agent_settings(self) -> Mapping[str, Any]:
        """Those that the agent has of its own; they go before the process's."""


Step = Callable[[Session], Awaitable[object]]


class Job(Protocol[Key, Held, Loaded, Decided, Applied, Result]):
    """Work that can be asked for, in batches: load, decide, apply, and fail where one of the last two goes wrong."""

    def load(
        self, session: Session, key: Key, settings: Settings, now: datetime, reason: str, so_far: Sequence[Result]
    ) -> Awaitable[tuple[Held, Loaded | None]]:
        """Takes the lease and reads the next batch; None: there is nothing. `so_far`: of the batches before it.

        Raises `BusyError` where somebody else has the lease, `NotFoundError`.
        """

    def extend(self, session: Session, held: Held, lease: timedelta) -> Awaitable[bool]:
        """False: the lease has passed to somebody else, or there is none."""

    def decide(self, loaded: Loaded, settings: Settings) -> Awaitable[Decided]:
        """Asks the model. No connection is held meanwhile."""

    def keep(self, loaded: Loaded, decided: Decided, settings: Settings) -> Step | None:
        """One statement that stores the answer before it is applied; None: it isn't stored."""

    def apply(
        self, session: Session, loaded: Loaded, decided: Decided, settings: Settings, now: datetime
    ) -> Awaitable[Applied]:
        """Stores what was decided; raises `StaleError` where what the model saw has changed."""

    def fail(
        self, session: Session, loaded: Loaded, error: BaseException, settings: Settings, now: datetime
    ) -> Awaitable[None]:
        """Records why, gives the lease back and says when to try again."""

    def result(self, loaded: Loaded, decided: Decided, applied: Applied) -> tuple[Result, bool]:
        """What came of the batch, and whether there may be another."""

    def total(self, held: Held, results: Sequence[Result]) -> Result:
        """What came of all batches; of none where there was nothing."""

    def key(self, held: Held) -> Key:
        """To ask for the next batch."""


class DueJob(Job[Key, Held, Loaded, Decided, Applied, Result], Protocol):
    """A job that becomes due by itself: any worker may claim it, and give it back."""

    def claim(self, session: Session, agent_id: str | None, by: datetime, lease: timedelta) -> Awaitable[Held | None]:
        """The lease on what has been due longest, of one agent or of all; None: nothing is due."""

    def load_claimed(
        self, session: Session, held: Held, settings: Settings, now: datetime, reason: str
    ) -> Awaitable[Loaded | None]:
        """As `load`, of what was claimed before; raises `StaleError` where that lease has been lost."""

    def give_back(
        self, session: Session, held: Held, error: BaseException, settings: Settings, now: datetime
    ) -> Awaitable[None]:
        """The lease of what couldn't even be loaded, and when to try again."""

    def postpone(self, session: Session, held: Held, until: datetime) -> Awaitable[None]:
        """It stays due, but later."""

    @property
    def due_reason(self) -> str:
        """What the ledger says where nobody asked."""

    def name(self, held: Held) -> str:
        """For people, of what has failed."""

    def report(self, result: Result) -> RunDueResult: ...


AnyDueJob = DueJob[Any, Any, Any, Any, Any, Any]
