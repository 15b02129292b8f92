"""serve: the memory over HTTP."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from memory_sql import __version__
from memory_sql.cli import output
from memory_sql.cli.logs import logged
from memory_sql.cli.options import Data, Url, resolve, run, tell_database
from memory_sql.cli.worker import metrics_text
from memory_sql.errors import ConfigurationError

if TYPE_CHECKING:
    from memory_sql.memory import Memory


def serve(
    host: Annotated[
        str, typer.Option("--host", metavar="ADDRESS", help="Where it listens; 0.0.0.0: on all addresses.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", metavar="PORT", help="The port; 0: a free one.")] = 8765,
    grace: Annotated[
        float,
        typer.Option(
            "--grace", metavar="SECONDS", help="After SIGTERM or SIGINT, wait this long for running requests."
        ),
    ] = 30.0,
    per_minute: Annotated[
        int, typer.Option("--requests-per-minute", metavar="N", min=1, help="Of one key in this process; more are 429.")
    ] = 600,
    body_bytes: Annotated[
        int, typer.Option("--body-bytes", metavar="N", min=1024, help="The largest body; a larger one is 413.")
    ] = 2**20,
    allow_host: Annotated[
        list[str] | None,
        typer.Option("--allow-host", metavar="NAME", help="A name by which MCP may be asked for; may be repeated."),
    ] = None,
    frame_origin: Annotated[
        list[str] | None,
        typer.Option(
            "--frame-origin",
            metavar="ORIGIN",
            help="May show a person's own page in a frame: https://app.example.com; may be repeated.",
        ),
    ] = None,
    log_format: Annotated[
        Literal["text", "json"] | None,
        typer.Option("--log-format", help="Format of the log on stderr; default: the setting log_format."),
    ] = None,
    url: Url = None,
    data: Data = None,
) -> None:
    """Serves the memory over HTTP, until it is stopped.

    \b
    memory-sql key create "chat service" --agent ada
    memory-sql serve --host 0.0.0.0 --port 8765

    Each request needs a key. If there is none yet, it makes one for its own life and prints it, and listens on this machine
    only. SIGTERM and SIGINT stop it: it accepts nothing new and answers what it has accepted. /docs and /openapi.json say
    what can be asked for; /live, /health and /metrics are for monitoring. It logs ids of requests and counts, never
    remembered text.
    """
    try:
        from memory_sql import server
        from memory_sql.server import serving
    except ModuleNotFoundError as error:
        raise ConfigurationError(f'{error.name} is missing: pip install "memory-sql[server]"') from error

    metrics = metrics_text()
    settings = resolve(url, data)
    tell_database(url, data, settings)
    asked = {"log_format": log_format, "telemetry": metrics is not None or None}
    settings = settings.model_copy(update={name: said for name, said in asked.items() if said is not None})

    async def work(memory: Memory) -> None:
        secret = await serving.own_key(memory, host)
        hosts = serving.allowed_hosts(host, allow_host or ())
        app = server.create_app(
            memory,
            allowed_hosts=hosts,
            frame_origins=frame_origin or (),
            body_bytes=body_bytes,
            requests_per_minute=per_minute,
            metrics=metrics,
        )

        def started(address: str) -> None:
            if secret is not None:
                print(f"key for this run: {secret}", flush=True)
            logging.getLogger("memory_sql.server").info(
                "memory-sql %s serves at %s",
                __version__,
                address,
                extra={"facts": {"event": "started", "url": address}},
            )

        with logged(settings.log_format):
            try:
                await serving.serve(app, host=host, port=port, grace_seconds=grace, started=started)
            finally:
                if secret is not None:
                    await serving.end_key(memory, secret)

    run(None, None, work, settings=settings)
    output.complain("stopped")
