"""The command line: each command parses, calls Memory and prints. Imports late what a command doesn't need."""

from __future__ import annotations

import io
import os
import signal
import sys
from collections.abc import Callable, Sequence
from typing import Annotated

import typer

from memory_sql import __version__
from memory_sql.cli import (
    configuration,
    conversations,
    corrections,
    demo,
    forgetting,
    knowledge,
    output,
    people,
    propagation,
    reading,
    work,
)
from memory_sql.cli.database import db
from memory_sql.cli.groups import group
from memory_sql.errors import MemorySQLError

app = typer.Typer(
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
COMMANDS: dict[str, Callable[..., None]] = {
    "demo": demo.demo,
    "add": conversations.add,
    "form": conversations.form,
    "observe": knowledge.observe,
    "consolidate": knowledge.consolidate,
    "propagate": propagation.propagate,
    "held-claims": propagation.held_claims,
    "review": propagation.review,
    "context": reading.context,
    "digest": reading.digest,
    "search": reading.search,
    "scopes": reading.scopes,
    "list": reading.list_observations,
    "messages": reading.messages,
    "show": reading.show,
    "history": reading.history,
    "diff": reading.diff,
    "stats": reading.stats,
    "worker": work.worker,
    "maintain": work.maintain,
    "status": work.status,
    "retry": work.retry,
    "discard": work.discard,
    "undo": work.undo,
    "trim": work.trim,
    "verify": work.verify,
    "correct": corrections.correct,
    "supersede": corrections.supersede,
    "reinstate": corrections.reinstate,
    "confirm": corrections.confirm,
    "dispute": corrections.dispute,
    "mark": corrections.mark,
    "quarantine": corrections.quarantine,
    "unquarantine": corrections.unquarantine,
    "forget": forgetting.forget,
    "restore-check": forgetting.restore_check,
    "export": people.export,
    "merge-users": people.merge_users,
    "unmerge-users": people.unmerge_users,
    "aliases": people.aliases,
    "rename": people.rename,
    "hold": people.hold,
    "holds": people.holds,
    "release": people.release,
    "settings": configuration.settings,
}
for name, command in COMMANDS.items():
    app.command(name)(command)
app.add_typer(group, name="group")
app.add_typer(db, name="db")


@app.callback(invoke_without_command=True)
def about(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Show the version and exit.")] = False,
) -> None:
    """Long-term memory for AI agents, kept in Postgres.

    \b
    memory-sql demo                                            see it all on an example
    memory-sql add chat.jsonl --agent ada --user mia           conversations go in
    memory-sql context --agent ada --user mia                  what the agent should know comes out

    Without --url, --data or MEMORY_SQL_URL an embedded Postgres is used; it starts and stops by itself.
    """
    if version:
        print(f"memory-sql {__version__}")
    elif context.invoked_subcommand is None:
        print(context.get_help())


def main(args: Sequence[str] | None = None) -> int:
    """Runs a command and says its exit code: 1 for an error or a partial failure, 2 for a command that can't be read."""
    signal.signal(signal.SIGTERM, _end)
    if isinstance(sys.stdout, io.TextIOWrapper):  # what the terminal can't show is no reason to fail
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        code = app(args, prog_name="memory-sql", standalone_mode=False)
        sys.stdout.flush()
    except MemorySQLError as error:
        output.complain(str(error))
        return 1
    except typer.TyperException as error:
        output.complain(_usage(error))
        return error.exit_code
    except BrokenPipeError:  # whoever read our output has had enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return code or 0


def _end(number: int, _frame: object) -> None:
    """Ends as after an error, so that what is open gets closed and the embedded server loses a user."""
    raise SystemExit(128 + number)


def _usage(error: typer.TyperException) -> str:
    context = getattr(error, "ctx", None)
    path = context.command_path if context else "memory-sql"
    return f"{error.format_message().rstrip('.')} (see {path} --help)"
