"""A pool that lends connections in the order in which they were asked for."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TypeVar

from sqlalchemy.pool import AsyncAdaptedQueuePool, ConnectionPoolEntry
from sqlalchemy.util import await_only
from sqlalchemy.util.queue import Empty, Full, QueueCommon

T = TypeVar("T")


class InOrder(QueueCommon[T]):
    """Hands what is returned to whoever has waited longest; while somebody waits, it is empty to all others.

    SQLAlchemy's own wakes one who waits, but whoever comes before that one runs takes the connection, and the one who was
    woken waits again, behind all others. Under load some never had their turn.
    """

    def __init__(self, maxsize: int = 0, use_lifo: bool = False) -> None:
        self.maxsize, self.use_lifo = maxsize, use_lifo
        self._idle, self._waiting = deque[T](), deque[asyncio.Future[T]]()

    def empty(self) -> bool:
        return not self._idle

    def full(self) -> bool:
        return 0 < self.maxsize <= len(self._idle)

    def qsize(self) -> int:
        return len(self._idle)

    def put_nowait(self, item: T) -> None:
        if self._handed(item):
            return
        if self.full():
            raise Full
        self._idle.append(item)

    def put(self, item: T, block: bool = True, timeout: float | None = None) -> None:
        """The pool never waits for room: it closes what is too much."""
        self.put_nowait(item)

    def get_nowait(self) -> T:
        if not self._idle:
            raise Empty
        return self._idle.pop() if self.use_lifo else self._idle.popleft()

    def get(self, block: bool = True, timeout: float | None = None) -> T:
        if self._idle or not block:
            return self.get_nowait()
        found: T = await_only(self._handed_over(timeout))
        return found

    def _handed(self, item: T) -> bool:
        while self._waiting:
            waiting = self._waiting.popleft()
            if not waiting.done():
                waiting.set_result(item)
                return True
        return False

    async def _handed_over(self, seconds: float | None) -> T:
        waiting: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._waiting.append(waiting)
        try:
            async with asyncio.timeout(seconds):
                return await waiting
        except BaseException as error:
            self._gave_up(waiting)
            if isinstance(error, TimeoutError):
                raise Empty from None
            raise

    def _gave_up(self, waiting: asyncio.Future[T]) -> None:
        """What was handed over at that very moment goes to the next, or back, where there may be one too many for once."""
        if not waiting.done() or waiting.cancelled():
            waiting.cancel()
        elif not self._handed(waiting.result()):
            self._idle.append(waiting.result())


class Pool(AsyncAdaptedQueuePool):
    _sqla_logger_namespace = "sqlalchemy.pool"  # it would name the logger after our module
    _queue_class: type[QueueCommon[ConnectionPoolEntry]] = InOrder
