"""What every kind of store to import from has: it is read once, and then says what would be stored."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import Any, NamedTuple, Protocol

from memory_sql.domain.results import Progress
from memory_sql.importers.accounts import Accounts
from memory_sql.importers.ledger import Ledger
from memory_sql.importers.loading import Plan

Told = Callable[[Progress], None]


class Reading(NamedTuple):
    """A store that has been read: what to store, and what became of each document."""

    plan: Plan
    ledger: Ledger


class Origin(Protocol):
    """A store to import from. `options`: a dataclass of plain values, recorded with the import."""

    @property
    def name(self) -> str: ...

    @property
    def options(self) -> Any: ...

    @property
    def is_trusted(self) -> bool:
        """Whether what comes of it counts as confirmed."""

    def read(
        self, accounts: Accounts, now: datetime, progress: Told | None = None
    ) -> AbstractAsyncContextManager[Reading]:
        """Reads all of it. Raises `SourceError`, and `ConfigurationError` if there is no room on disk."""
