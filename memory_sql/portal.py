"""An event loop in a thread of its own, for callers that block.

It is a thread of the system also where gevent has made greenlets of threads: these share one, of which asyncio knows a single
running loop. Only the greenlet that waits stands still.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import queue
import socket
import sys
import threading
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, cast

from memory_sql.errors import ForkedError, InputError
from memory_sql.later import later

if TYPE_CHECKING:
    from memory_sql.db import blocking
else:
    blocking = later("memory_sql.db.blocking")

R = TypeVar("R")

AHEAD = 100  # items read ahead at most while iterating
IN_A_LOOP = "memory_sql.sync would block the event loop that runs here; use memory_sql.Memory and await it"
EVENTLET = (
    "memory_sql.sync needs a thread of its own, and the locks that eventlet has put in place of Python's hold within one"
    " thread only; use workers of threads (gthread) or of gevent"
)
IN_TRIO = "memory_sql.sync would block the trio loop that runs here; call it with trio.to_thread.run_sync"
WITHIN = "a call of memory_sql.sync waits for this coroutine; await the methods of the Memory that it was given"
NO_COROUTINE = "run() takes a function that returns a coroutine, such as `lambda awaited: awaited.context(…)`, not {}"
NOT_OPEN = "this Memory is not open; use `with Memory(…) as memory`"
CLOSED = "this Memory was closed by another thread during the call"


class Inbox(Protocol):
    """What another thread tells the one that waits."""

    def put(self, item: Any) -> None: ...
    def get(self) -> Any: ...
    def close(self) -> None: ...


class _Inbox(queue.SimpleQueue[Any]):
    """Between threads of the system."""

    def close(self) -> None:
        """Whoever still tells something isn't heard."""


class _GreenInbox:
    """The greenlet that waits reads from a socket, which gevent has patched."""

    def __init__(self) -> None:
        self._items = deque[Any]()
        self._hears, self._rings = socket.socketpair()

    def put(self, item: Any) -> None:
        self._items.append(item)
        with suppress(OSError):  # closed
            self._rings.send(b".")

    def get(self) -> Any:
        self._hears.recv(1)
        return self._items.popleft()

    def close(self) -> None:
        self._hears.close()
        self._rings.close()


def _gevent() -> Any:
    """Its module `gevent.monkey`, where it has patched sockets, on which greenlets wait; else None."""
    monkey = sys.modules.get("gevent.monkey")
    return monkey if monkey is not None and monkey.is_module_patched("socket") else None


def _inbox() -> Inbox:
    return _GreenInbox() if _gevent() else _Inbox()


def _start_thread(run: Callable[[], None]) -> threading.Thread | None:
    """None: one that `threading` doesn't know."""
    monkey = _gevent()
    if monkey is not None:
        monkey.get_original("_thread", "start_new_thread")(run, ())
        return None
    thread = threading.Thread(target=run, name="memory_sql.sync", daemon=True)
    thread.start()
    return thread


class Portal:
    """An event loop in a thread of its own, from `start` to `stop`."""

    def __init__(self, dialect: Callable[[], Any]) -> None:
        """`dialect`: that of the open memory's database."""
        self._dialect = dialect
        self._loop: asyncio.AbstractEventLoop | None = None
        self._process = 0

    @property
    def is_running(self) -> bool:
        return self._loop is not None and self._process == os.getpid()

    def start(self) -> None:
        """Raises `InputError` where no such thread can run, or nobody may wait for it."""
        _refuse_a_loop()
        _refuse_eventlet()
        self._told, self._waiting = _inbox(), set[Inbox]()
        self._thread = _start_thread(partial(_run_loop, self._told, self._waiting))
        self._loop, self._stopping = self._told.get()
        self._process = os.getpid()

    def stop(self) -> None:
        """Cancels what is still running."""
        loop, self._loop = self._loop, None
        if loop is not None and self._process == os.getpid():
            loop.call_soon_threadsafe(self._stopping.set)
            self._told.get()
            self._told.close()
            if self._thread is not None:
                self._thread.join()

    def call(self, work: Callable[[], Coroutine[Any, Any, R]]) -> R:
        """The result. Interrupting the wait (Ctrl-C) cancels the work. Raises `InputError` where waiting isn't possible."""
        return self._wait_for(Call(self._check(), work))

    def run(self, work: Callable[[], Coroutine[Any, Any, R]]) -> R:
        """As `call`, also where another loop runs in the thread that calls, which stands still meanwhile."""
        return self._wait_for(Call(self._check_open(), work))

    def join(self, given: object, work: Callable[[Any], Coroutine[Any, Any, R]]) -> R:
        """As `call`, with a session in the transaction that a host passed as `session=`, served by this thread."""
        loop, host = self._check(), blocking.host_of(given)

        async def joined() -> R:
            async with blocking.lent(host, self._dialect(), call.ask) as session:
                return await work(session)

        call = Call(loop, joined, lambda: blocking.spoil(host))
        return self._wait_for(call)

    def _wait_for(self, call: Call[R]) -> R:
        self._waiting.add(call.inbox)
        try:
            return call.result()
        finally:
            self._waiting.discard(call.inbox)

    def _check(self) -> asyncio.AbstractEventLoop:
        _refuse_a_loop()
        return self._check_open()

    def _check_open(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            raise InputError(NOT_OPEN)
        if self._process != os.getpid():
            raise ForkedError
        if _running() is self._loop:
            raise InputError(WITHIN)
        return self._loop

    def iterate(self, items: AsyncGenerator[R, None]) -> Iterator[R]:
        """Each item as soon as it is there. One task reads them, as an asynchronous generator requires."""
        ready = asyncio.Queue[R | _End](AHEAD)
        taking = self.call(lambda: _begin(items, ready))
        try:
            while not isinstance(item := self.call(ready.get), _End):
                yield item
            self.call(lambda: _result(taking))
        finally:
            self._drop(taking)

    def _drop(self, taking: asyncio.Task[None]) -> None:
        """Doesn't wait: this may be the garbage collector, anywhere, or the end of the process, when no thread answers."""
        loop = self._loop
        if loop is not None and self.is_running:
            with suppress(RuntimeError):  # closed meanwhile
                loop.call_soon_threadsafe(taking.cancel)


class Call(Generic[R]):
    """A coroutine in the loop, and the thread that waits for it, which does meanwhile what the coroutine asks of it."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        work: Callable[[], Coroutine[Any, Any, R]],
        interrupted: Callable[[], None] | None = None,
    ) -> None:
        """`interrupted`: called where the wait is interrupted after something was asked."""
        self.inbox = _inbox()
        self._loop = loop
        self._work = work
        self._task: asyncio.Task[R] | None = None
        self._interrupted = interrupted
        self._has_asked = False
        self._is_over = False

    def result(self) -> R:
        try:
            self._loop.call_soon_threadsafe(self._begin)
            while (asked := self.inbox.get()) is not None:
                asked()
        except BaseException:
            self._is_over = True
            with suppress(RuntimeError):  # closed meanwhile
                self._loop.call_soon_threadsafe(self._cancel)
            if self._interrupted is not None and self._has_asked:
                self._interrupted()
            raise
        finally:
            self.inbox.close()
        return self._told()

    def _begin(self) -> None:
        if not self._is_over:
            self._task = self._loop.create_task(self._done())
            self._task.add_done_callback(lambda _: self.inbox.put(None))

    async def _done(self) -> R:
        """Within the task, so that the caller also gets what is raised before there is a coroutine."""
        work = self._work()
        if not inspect.isawaitable(work):
            raise InputError(NO_COROUTINE.format(type(work).__name__))
        return await work

    def _told(self) -> R:
        if self._task is None or self._task.cancelled():
            raise InputError(CLOSED)
        return self._task.result()

    def _cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()

    def ask(self, work: Callable[[], None]) -> asyncio.Future[None]:
        """Done by the thread that waits; cancelled if it doesn't any more."""
        answer = self._loop.create_future()
        if self._is_over:
            answer.cancel()
        else:
            self.inbox.put(lambda: self._do(work, answer))
        return answer

    def _do(self, work: Callable[[], None], answer: asyncio.Future[None]) -> None:
        failed: Exception | None = None
        self._has_asked = True
        try:
            work()
        except Exception as error:  # noqa: BLE001  # whoever asked gets it
            failed = error
        with suppress(RuntimeError):  # closed meanwhile
            self._loop.call_soon_threadsafe(_answer, answer, failed)


def _answer(answer: asyncio.Future[None], error: Exception | None) -> None:
    if answer.done():  # cancelled
        return
    if error is None:
        answer.set_result(None)
    else:
        answer.set_exception(error)


class _End:
    """After the last item."""


async def _begin(items: AsyncGenerator[R, None], ready: asyncio.Queue[R | _End]) -> asyncio.Task[None]:
    async def take() -> None:
        try:
            async for item in items:
                await ready.put(item)
        finally:
            await items.aclose()
            if not cast("asyncio.Task[None]", asyncio.current_task()).cancelling():
                await ready.put(_End())

    return asyncio.create_task(take())


async def _result(taking: asyncio.Task[None]) -> None:
    await taking


def _run_loop(told: Inbox, waiting: set[Inbox]) -> None:
    async def until_stopped() -> None:
        stopping = asyncio.Event()
        told.put((asyncio.get_running_loop(), stopping))
        await stopping.wait()

    try:
        asyncio.run(until_stopped())  # which cancels what is left
    finally:
        for inbox in list(waiting):  # of calls that came too late to begin
            inbox.put(None)
        told.put(None)
        if _gevent():
            sys.modules["gevent"].get_hub().destroy(destroy_loop=True)  # this thread's


def _refuse_eventlet() -> None:
    patcher = sys.modules.get("eventlet.patcher")
    if patcher is not None and any(patcher.is_monkey_patched(name) for name in ("thread", "socket", "select")):
        raise InputError(EVENTLET)


def _refuse_a_loop() -> None:
    trio = sys.modules.get("trio.lowlevel")
    if trio is not None and trio.in_trio_run():
        raise InputError(IN_TRIO)
    if _running() is not None:
        raise InputError(IN_A_LOOP)


def _running() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
