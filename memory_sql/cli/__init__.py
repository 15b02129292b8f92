"""The command line. Each command parses, calls Memory and prints; what only some commands need is imported late."""

from __future__ import annotations

import atexit
import gc
import io
import os
import signal
import sys
from collections.abc import Callable, Sequence
from functools import cache
from typing import Annotated

import typer
from typer.core import TyperGroup
from typer.main import get_group

from memory_sql import __version__
from memory_sql.cli import (
    adding,
    admin,
    agents,
    configuring,
    conversations,
    database,
    demo,
    entities,
    episodes,
    estimating,
    forgetting,
    groups,
    holds,
    importing,
    inspecting,
    keys,
    lifecycle,
    mcp,
    models,
    observations,
    output,
    people,
    prompts,
    reading,
    scopes,
    serve,
    topics,
    tree,
    work,
    worker,
)
from memory_sql.cli.logs import warned
from memory_sql.errors import InputError, MemorySQLError

VERSION = f"memory-sql {__version__}"
MAIN: dict[str, Callable[..., None]] = {
    "demo": demo.demo,
    "add": adding.add,
    "observe": adding.observe,
    "context": reading.context,
    "digest": reading.digest,
    "search": reading.search,
    "forget": forgetting.forget,
    "run-due": worker.run_due,
    "configure": configuring.configure,
}
FACES = {
    "observation": observations.app,
    "scope": scopes.app,
    "prompt": prompts.app,
    "entity": entities.app,
    "topic": topics.app,
    "conversation": conversations.app,
    "episode": episodes.app,
    "group": groups.app,
    "person": people.app,
    "hold": holds.app,
    "key": keys.app,
    "model": models.app,
    "import": importing.app,
    "work": work.app,
    "admin": admin.app,
}

app = tree.Commands(
    cls=tree.ByPanel,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
for name, command in MAIN.items():
    app.command(name, rich_help_panel=tree.MAIN)(command)
for name, face in FACES.items():
    app.add_typer(face, name=name, rich_help_panel=tree.FACES)
app.command("estimate", rich_help_panel=tree.OPERATIONS)(estimating.estimate)
app.command("lifecycle", rich_help_panel=tree.OPERATIONS)(lifecycle.lifecycle)
app.command("serve", rich_help_panel=tree.OPERATIONS)(serve.serve)
app.command("inspect", rich_help_panel=tree.OPERATIONS)(inspecting.inspect)
app.command("mcp", rich_help_panel=tree.OPERATIONS)(mcp.mcp)
app.command("worker", rich_help_panel=tree.OPERATIONS)(worker.worker)
app.add_typer(agents.app, name="agent", rich_help_panel=tree.OPERATIONS)
app.add_typer(database.app, name="db", rich_help_panel=tree.OPERATIONS)


@app.callback(invoke_without_command=True)
def about(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Show the version and exit.")] = False,
) -> None:
    """Long-term memory for AI agents, kept in Postgres.

    \b
    memory-sql demo                                            see it work on an example
    memory-sql add chat.jsonl --agent ada --user mia           store conversations
    memory-sql context --agent ada --user mia                  print what the agent should know

    Without --url, --data or MEMORY_SQL_URL an embedded Postgres is used; it starts and stops automatically.
    """
    if version:
        print(VERSION)
    elif context.invoked_subcommand is None:
        print(context.get_help())


@cache
def commands() -> TyperGroup:
    """All commands, for parsing. Built once, because that takes longer than most commands."""
    return get_group(app)


def main(args: Sequence[str] | None = None) -> int:
    """Runs a command and returns its exit code: 1 for an error or a partial failure, 2 if the command can't be parsed."""
    signal.signal(signal.SIGTERM, _end)
    for stream, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, stream) is None:  # closed by who has started this
            setattr(sys, stream, open(os.devnull, mode))  # noqa: SIM115
    atexit.register(gc.freeze)  # at its end a process would go through all that was imported, several times
    if isinstance(sys.stdout, io.TextIOWrapper):  # a character that the terminal can't show is no reason to fail
        sys.stdout.reconfigure(errors="backslashreplace")
    given = sys.argv[1:] if args is None else [*args]
    if given == ["--version"]:  # running a command would import pydantic
        print(VERSION)
        return 0
    try:
        _refuse_bytes(given)
        with warned():
            code = commands()(args, prog_name="memory-sql", standalone_mode=False)
        sys.stdout.flush()
    except MemorySQLError as error:
        output.complain(str(error))
        return 1
    except typer.TyperException as error:
        output.complain(_usage(error))
        return error.exit_code
    except OSError as error:
        if not isinstance(error, BrokenPipeError):  # then the reader of our output has gone
            output.complain(": ".join(filter(None, (error.filename, error.strerror or str(error)))))
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return code or 0


def _refuse_bytes(args: Sequence[str]) -> None:
    """Refuses what isn't text in this encoding and names no file: it would be stored with other characters."""
    for arg in args:
        try:
            arg.encode()
        except UnicodeEncodeError:
            if not os.path.exists(arg):
                raise InputError("an argument isn't valid in this terminal's encoding") from None


def _end(number: int, _frame: object) -> None:
    """Ends as after an error, so that everything is closed and the embedded server is released."""
    raise SystemExit(128 + number)


def _usage(error: typer.TyperException) -> str:
    context = getattr(error, "ctx", None)
    path = context.command_path if context else "memory-sql"
    return f"{error.format_message().rstrip('.')} (see {path} --help)"
