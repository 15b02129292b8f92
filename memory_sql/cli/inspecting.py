"""inspect: the inspector on this machine, opened in the browser."""

from __future__ import annotations

import webbrowser
from typing import TYPE_CHECKING, Annotated

import typer

from memory_sql.cli import output
from memory_sql.cli.options import Data, Url, resolve, run, tell_database
from memory_sql.errors import ConfigurationError

if TYPE_CHECKING:
    from memory_sql.memory import Memory


def inspect(
    port: Annotated[int, typer.Option("--port", metavar="PORT", help="The port; 0: a free one.")] = 0,
    browser: Annotated[
        bool, typer.Option("--browser/--no-browser", help="Open the browser, or only print the address.")
    ] = True,
    url: Url = None,
    data: Data = None,
) -> None:
    """Opens the inspector in your browser: what memory knows, where from, and how to make it forget.

    \b
    memory-sql inspect
    memory-sql inspect --data /tmp/demo --no-browser

    It listens on this machine only, until it is stopped (Ctrl-C). The address that it prints signs in once, within a
    minute; the key behind it allows everything, and ends with this command. Others sign in with keys of their own at
    the pages of `memory-sql serve`.
    """
    try:
        from memory_sql import server
        from memory_sql.server import serving
    except ModuleNotFoundError as error:
        raise ConfigurationError(f'{error.name} is missing: pip install "memory-sql[server]"') from error

    settings = resolve(url, data)
    tell_database(url, data, settings)

    async def work(memory: Memory) -> None:
        secret = await serving.inspector_key(memory)
        app, code = server.create_app(memory, mcp=False), await memory.keys.link(secret)

        def started(address: str) -> None:
            entrance = f"{address}/enter?code={code}"
            print(f"inspector: {entrance}", flush=True)
            if browser:
                webbrowser.open(entrance)

        try:
            await serving.serve(app, host="127.0.0.1", port=port, grace_seconds=2.0, started=started)
        finally:
            await serving.end_key(memory, secret)

    run(None, None, work, settings=settings)
    output.complain("stopped")
