"""Doing what is due: run-due once, worker as a service."""

from __future__ import annotations

import logging
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from memory_sql.cli import output
from memory_sql.cli.batches import end
from memory_sql.cli.options import AsJson, Data, OneAgent, Url, run

if TYPE_CHECKING:
    import asyncio

    from memory_sql.domain.results import RunDueResult
    from memory_sql.memory import Memory
    from memory_sql.worker import Worked


def run_due(
    agent: OneAgent = None,
    limit: Annotated[int, typer.Option("--limit", metavar="N", help="At most that many of each kind.")] = 100,
    url: Url = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Does what is due now: forms conversations, consolidates scopes, propagates, embeds.

    \b
    memory-sql run-due --agent ada

    One thing after another; what fails stays due, and the exit code is 1. `memory-sql worker` does several at once and
    goes on.
    """
    done = run(url, data, lambda memory: memory.run_due(agent_id=agent, limit=limit))
    output.one(done, _done_text, as_json)
    end(done.failed)


def _done_text(done: RunDueResult) -> str:
    many = output.many
    text = (
        f"formed {many(len(done.formed), 'conversation')}, consolidated {many(len(done.consolidated), 'scope')}, "
        f"propagated {many(sum(len(each.propagated) for each in done.propagated), 'claim')}"
    )
    return text + (f", embedded {many(done.embedded, 'observation')}" if done.embedded else "")


def worker(
    agent: OneAgent = None,
    concurrency: Annotated[int, typer.Option("--concurrency", metavar="N", help="Model calls at once.")] = 4,
    poll: Annotated[float, typer.Option("--poll", metavar="SECONDS", help="Look for work at least this often.")] = 5.0,
    grace: Annotated[
        float,
        typer.Option("--grace", metavar="SECONDS", help="After SIGTERM or SIGINT, wait this long for what is running."),
    ] = 10.0,
    once: Annotated[bool, typer.Option("--once", help="Do what is due now, and end.")] = False,
    url: Url = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Does what is due, as it becomes due, until it is stopped.

    \b
    memory-sql worker
    memory-sql worker --once --agent ada       (from cron)

    It forms conversations, consolidates scopes, propagates claims and fills vectors. SIGTERM and SIGINT stop it: it takes
    nothing new, waits for what is running, and gives back the rest, which others can then do at once. Start as many as you
    like, on as many machines. It logs to stderr.
    """

    async def work(memory: Memory) -> Worked:
        from memory_sql.worker import Worker

        worker = Worker(memory, concurrency=concurrency, poll_seconds=poll, agent_id=agent, grace_seconds=grace)
        with _logged(), _stopping() as stop:
            return await (worker.run_once(stop) if once else worker.run(stop))

    worked = run(url, data, work)
    output.one(worked, _worked_text, as_json)
    if once and worked.failed:
        raise typer.Exit(1)


@contextmanager
def _stopping() -> Iterator[asyncio.Event]:
    """An event that the first SIGTERM or SIGINT sets; the next one ends the process as ever."""
    import asyncio

    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def end(_number: int, _frame: object) -> None:
        restore()
        loop.call_soon_threadsafe(stop.set)

    for number in before:
        signal.signal(number, end)
    try:
        yield stop
    finally:
        restore()


class _Stderr(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        output.complain(record.getMessage())


@contextmanager
def _logged() -> Iterator[None]:
    """Meanwhile what the worker logs goes to stderr."""
    log, handler = logging.getLogger("memory_sql"), _Stderr(logging.INFO)
    level = log.level
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    try:
        yield
    finally:
        log.setLevel(level)
        log.removeHandler(handler)


def _worked_text(worked: Worked) -> str:
    many = output.many
    return (
        f"formed {many(worked.formed, 'conversation')}, consolidated {many(worked.consolidated, 'scope')}, "
        f"propagated {many(worked.propagated, 'claim')}, {worked.failed:,} failed, {worked.interrupted:,} interrupted"
        + (f", embedded {many(worked.embedded, 'observation')}" if worked.embedded else "")
    )
