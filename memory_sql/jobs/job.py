"""What the engine asks of a kind of background work.

Two things differ from kind to kind and are never mixed: what talks to the database takes a session, what talks to a model
takes none. Whatever a kind's own steps are called with stands here once.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NoReturn, Protocol, TypeVar

from memory_sql.config import Settings
from memory_sql.db import Session
from memory_sql.domain.results import RunDueResult

Key = TypeVar("Key")  # what is worked on, as it is asked for
Held = TypeVar("Held", bound="OfAgent")  # the same, under a lease
Loaded = TypeVar("Loaded")  # a batch of it
Decided = TypeVar("Decided")
Applied = TypeVar("Applied")
Result = TypeVar("Result")
Key_co = TypeVar("Key_co", covariant=True)
Held_contra = TypeVar("Held_contra", bound="OfAgent", contravariant=True)
Loaded_contra = TypeVar("Loaded_contra", contravariant=True)


class OfAgent(Protocol):
    @property
    def agent_settings(self) -> Mapping[str, Any]:
        """Those that the agent has of its own; they go before the process's."""


Step = Callable[[Session], Awaitable[object]]


class Work(Protocol[Key_co, Held_contra, Loaded_contra, Decided, Applied, Result]):
    """What is done in batches under a lease: decide, apply, and fail where one of them goes wrong."""

    @property
    def applies_alone(self) -> bool:
        """Whether `apply` is one statement, which names its principal itself."""

    def extend(self, session: Session, held: Held_contra, lease: timedelta) -> Awaitable[bool]:
        """False: the lease has passed to somebody else, or there is none."""

    def decide(self, loaded: Loaded_contra, settings: Settings) -> Awaitable[Decided]:
        """Asks the model. No connection is held meanwhile."""

    def keep(self, loaded: Loaded_contra, decided: Decided, settings: Settings) -> Step | None:
        """One statement that stores the answer before it is applied; None: it isn't stored."""

    def apply(
        self, session: Session, loaded: Loaded_contra, decided: Decided, settings: Settings, now: datetime
    ) -> Awaitable[Applied]:
        """Stores what was decided; raises `StaleError` where what the model saw has changed."""

    def fail(
        self, session: Session, loaded: Loaded_contra, error: BaseException, settings: Settings, now: datetime
    ) -> Awaitable[None]:
        """Records why, gives the lease back and says when to try again."""

    def result(self, loaded: Loaded_contra, decided: Decided, applied: Applied) -> tuple[Result, bool]:
        """What came of the batch, and whether there may be another."""

    def total(self, held: Held_contra, results: Sequence[Result]) -> Result:
        """What came of all batches; of none where there was nothing."""

    def key(self, held: Held_contra) -> Key_co:
        """To ask for the next batch."""


class Job(Work[Key, Held, Loaded, Decided, Applied, Result], Protocol):
    """Work that can be asked for, and takes its lease in the transaction that reads it."""

    def load(
        self, session: Session, key: Key, settings: Settings, now: datetime, reason: str, so_far: Sequence[Result]
    ) -> Awaitable[tuple[Held, Loaded | None]]:
        """Takes the lease and reads the next batch; None: there is nothing. `so_far`: of the batches before it.

        Raises `BusyError` where somebody else has the lease, `NotFoundError`.
        """


class DueJob(Work[Key_co, Held, Loaded, Decided, Applied, Result], Protocol):
    """Work that becomes due by itself: any worker may claim it, and give it back."""

    def claim(self, session: Session, agent_id: str | None, by: datetime, lease: timedelta) -> Awaitable[Held | None]:
        """The lease on what has been due longest, of one agent or of all, by one statement; None: nothing is due."""

    def may_be_more(self, held: Held) -> bool:
        """Whether anything else may be due."""

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


class TakenJob(DueJob[Key, Held, Loaded, Decided, Applied, Result], Protocol):
    """Work that can be asked for, and takes its lease before it reads anything. What it loads then isn't locked.

    `load_claimed` loads it, whoever asked, each statement by itself.
    """

    def take(self, session: Session, key: Key, settings: Settings) -> Awaitable[Held | None]:
        """What is worked on, leased, by one statement; None where it can't be had."""

    def refuse(self, session: Session, key: Key) -> Awaitable[NoReturn]:
        """Says why it couldn't be taken. Raises `BusyError`, `NotFoundError`."""

    def let_go(
        self, session: Session, held: Held, error: BaseException, settings: Settings, now: datetime
    ) -> Awaitable[None]:
        """As `give_back`, where somebody waits for it and gets the error."""


Read = Callable[[Step], Awaitable[Any]]


class FollowedWork(Work[Key_co, Held_contra, Loaded_contra, Decided, Applied, Result], Protocol):
    """Work whose answer may ask for another look at the database, and for another answer."""

    def settle(self, loaded: Loaded_contra, decided: Decided, settings: Settings, read: Read) -> Awaitable[Decided]:
        """What is decided once that is done; the same where nothing is asked for. `read` runs a step that only reads."""

    def applies_more(self, decided: Decided) -> bool:
        """Whether `apply` is more than one statement this time."""


class SharedJob(DueJob[Key_co, Held, Loaded, Decided, Applied, Result], Protocol):
    """Work of which several pieces may be decided by one call."""

    def beside(
        self, session: Session, held: Held, settings: Settings, now: datetime, lease: timedelta
    ) -> Awaitable[Sequence[Held]]:
        """Leases on what may be done along with it, by one statement."""

    def together(self, loaded: Sequence[Loaded]) -> DueJob[Key_co, Held, Loaded, Decided, Applied, Result]:
        """The work on all of these, each of which is decided, kept and applied by itself."""


AnyDueJob = DueJob[Any, Any, Any, Any, Any, Any]
