"""Doing due work: run-due once, worker as a service."""

from __future__ import annotations

import logging
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from memory_sql import __version__
from memory_sql.cli import output
from memory_sql.cli.batches import end
from memory_sql.cli.logs import logged
from memory_sql.cli.options import AsJson, Data, OneAgent, Url, named_database, resolve, run
from memory_sql.cli.progress import Telling

if TYPE_CHECKING:
    import asyncio

    from memory_sql.domain.results import RunDueResult
    from memory_sql.memory import Memory
    from memory_sql.worker import Health, Worked


def run_due(
    agent: OneAgent = None,
    limit: Annotated[int, typer.Option("--limit", metavar="N", help="At most this many of each kind.")] = 100,
    url: Url = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Does the work that is due now: forms conversations, consolidates scopes, propagates, embeds.

    \b
    memory-sql run-due --agent ada

    Does one thing after another. What fails stays due, and the exit code is 1. `memory-sql worker` does several at once and
    runs continuously.
    """

    async def work(memory: Memory) -> RunDueResult:
        with Telling(quiet=as_json) as progress:
            return await memory.run_due(agent_id=agent, limit=limit, progress=progress.told)

    done = run(url, data, work)
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
    concurrency: Annotated[int, typer.Option("--concurrency", metavar="N", help="Concurrent model calls.")] = 4,
    poll: Annotated[float, typer.Option("--poll", metavar="SECONDS", help="Look for work at least this often.")] = 5.0,
    grace: Annotated[
        float,
        typer.Option("--grace", metavar="SECONDS", help="After SIGTERM or SIGINT, wait this long for running work."),
    ] = 10.0,
    once: Annotated[bool, typer.Option("--once", help="Do what is due now, then exit.")] = False,
    log_format: Annotated[
        Literal["text", "json"] | None,
        typer.Option("--log-format", help="Format of the log on stderr; default: the setting log_format."),
    ] = None,
    health_port: Annotated[
        int | None,
        typer.Option("--health-port", metavar="PORT", help="Serve /health, /live and /metrics on this port."),
    ] = None,
    health_host: Annotated[
        str, typer.Option("--health-host", metavar="ADDRESS", help="Where the port listens; 0.0.0.0: on all addresses.")
    ] = "127.0.0.1",
    health_file: Annotated[
        Path | None,
        typer.Option(
            "--health-file",
            metavar="FILE",
            help="Write this file every few seconds while all is well; default: the setting health_file.",
        ),
    ] = None,
    url: Url = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Does work as it becomes due, until it is stopped.

    \b
    memory-sql worker
    memory-sql worker --once --agent ada       (from cron)

    It forms conversations, consolidates scopes, propagates claims and makes vectors. SIGTERM and SIGINT stop it: it takes
    nothing new, waits for running work, and gives back the rest, which other workers can then do at once. Start as many as
    you like, on as many machines. It logs ids and counts to stderr, never remembered text.
    """

    metrics = None if health_port is None else metrics_text()
    asked = {"log_format": log_format, "health_file": health_file, "telemetry": metrics is not None or None}
    settings = resolve(url, data).model_copy(update={name: said for name, said in asked.items() if said is not None})

    async def work(memory: Memory) -> Worked:
        from memory_sql.worker import Worker

        with ExitStack() as meanwhile:
            stop = meanwhile.enter_context(_stopping())
            meanwhile.enter_context(logged(settings.log_format))
            watch = _watch(meanwhile, health_host, health_port, settings.health_file, metrics)
            worker = Worker(
                memory, concurrency=concurrency, poll_seconds=poll, agent_id=agent, grace_seconds=grace, watch=watch
            )
            memory.require_llm()
            _tell_start(memory, agent, concurrency)
            return await (worker.run_once(stop) if once else worker.run(stop))

    worked = run(None, None, work, settings=settings)
    output.one(worked, _worked_text, as_json)
    if once and worked.failed:
        raise typer.Exit(1)


def _tell_start(memory: Memory, agent: str | None, concurrency: int) -> None:
    settings, database = memory.settings, output.masked(memory.database.url.render_as_string())
    if settings.shards is not None:
        database = named_database(settings)
    models = sorted({settings.fast_model, settings.slow_model}) if settings.llm_name == "openai" else []
    model = " ".join([settings.llm_name or "none", *models])
    facts = {
        "event": "started",
        "version": __version__,
        "database": database,
        "model": model,
        "concurrency": concurrency,
        "agent_id": agent,
    }
    whose = "all agents" if agent is None else f"agent {agent}"
    words = f"memory-sql {__version__} works for {whose}, {concurrency} at once; model {model}; database {database}"
    logging.getLogger("memory_sql.worker").info("%s", words, extra={"facts": facts})


def metrics_text() -> Callable[[], bytes] | None:
    """Prometheus metrics, collected from now on. None: not installed, or the process sends them elsewhere."""
    from importlib import import_module

    try:
        exposed: Callable[[], Callable[[], bytes] | None] = import_module("memory_sql.telemetry.prometheus").exposed
    except ModuleNotFoundError:
        return None
    return exposed()


def _watch(
    meanwhile: ExitStack, host: str, port: int | None, file: Path | None, metrics: Callable[[], bytes] | None
) -> Callable[[Health], None] | None:
    """The function that gets the worker's health; None: nobody asked for it."""
    from memory_sql.cli import health

    watches: list[Callable[[Health], None]] = []
    if port is not None:
        watch = health.Watch(metrics)
        meanwhile.enter_context(health.served(watch, host, port))
        watches.append(watch)
    if file is not None:
        watches.append(meanwhile.enter_context(health.noted(file)))

    def tell(state: Health) -> None:
        for watch in watches:
            watch(state)

    return tell if watches else None


@contextmanager
def _stopping() -> Iterator[asyncio.Event]:
    """An event that the first SIGTERM or SIGINT sets; the next one ends the process as usual."""
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


def _worked_text(worked: Worked) -> str:
    many = output.many
    return (
        f"formed {many(worked.formed, 'conversation')}, consolidated {many(worked.consolidated, 'scope')}, "
        f"propagated {many(worked.propagated, 'claim')}, {worked.failed:,} failed, {worked.interrupted:,} interrupted"
        + (f", embedded {many(worked.embedded, 'observation')}" if worked.embedded else "")
    )
