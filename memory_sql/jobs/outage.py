"""What a worker says of an outage: one warning when it begins, one line when it is over."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager


class Outage:
    """Of one thing that is asked in several ways: it is over when each way that failed works again.

    `back`: what is said then. `where` comes before all that is said.
    """

    def __init__(self, log: logging.Logger, back: str, where: str = "") -> None:
        self._log = log
        self._back = back
        self._where = where
        self._failing: set[str] = set()

    @property
    def is_on(self) -> bool:
        return bool(self._failing)

    def began(self, way: str, why: str) -> None:
        if not self.is_on:
            self._log.warning("%s%s; trying again until it works", self._where, why)
        self._failing.add(way)

    def ended(self, way: str) -> None:
        if way in self._failing:
            self._failing.discard(way)
            if not self.is_on:
                self._log.info("%s%s", self._where, self._back)

    @contextmanager
    def after(self, seconds: float, way: str, why: str) -> Iterator[None]:
        """It has begun if what is asked inside takes longer: what hangs raises nothing."""
        noticed = asyncio.get_running_loop().call_later(seconds, self.began, way, why)
        try:
            yield
        finally:
            noticed.cancel()
