"""Groups of commands, and a help page that lists them under headings."""

from __future__ import annotations

from operator import itemgetter
from typing import Any

import typer
from typer.core import TyperGroup

MAIN = "Main commands"
FACES = "Commands by subject"
OPERATIONS = "Operations"


class ByPanel(TyperGroup):
    """Lists commands under their `rich_help_panel`, and a group by the names of its commands; as plain text."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        panels: dict[str, list[tuple[str, str]]] = {MAIN: [], FACES: [], OPERATIONS: []}
        for name in self.list_commands(ctx):
            command: Any = self.get_command(ctx, name)
            rows = panels.setdefault(getattr(command, "rich_help_panel", None) or "Commands", [])
            rows.append((name, _in_short(command)))
        for panel, rows in filter(itemgetter(1), panels.items()):
            with formatter.section(panel):
                formatter.write_dl(rows)


def _in_short(command: Any) -> str:
    names = ", ".join(getattr(command, "commands", ()))
    return names or str(command.get_short_help_str(limit=1000))


def group(help: str) -> typer.Typer:
    """A group of commands that prints its help if no command is given."""
    made = typer.Typer(cls=ByPanel, rich_markup_mode=None, help=help)
    made.callback(invoke_without_command=True, help=help)(_show_help)
    return made


def _show_help(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        print(context.get_help())
