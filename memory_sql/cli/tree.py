"""Groups of commands, and a help page that lists them under headings."""

from __future__ import annotations

from collections import Counter
from operator import itemgetter
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

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


class OnceEach(TyperCommand):
    """Refuses an option that is given twice and takes one value: the last one would count, and nobody would say so."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        _, _, given = self.make_parser(ctx).parse_args(args=[*args])
        for option, times in Counter(filter(_takes_one, given)).items():
            if times > 1:
                ctx.fail(f"{option.opts[0]} is given {times} times and takes one value")
        return super().parse_args(ctx, args)


def _takes_one(parameter: Any) -> bool:
    """A flag may be repeated: it says the same again, unless another name of it says the opposite."""
    is_plain = getattr(parameter, "is_flag", False) and not parameter.secondary_opts
    return parameter.param_type_name == "option" and not (parameter.multiple or is_plain)


class Commands(typer.Typer):
    """All its commands are of this kind."""

    def command(self, name: str | None = None, *, cls: type[TyperCommand] | None = None, **options: Any) -> Any:
        return super().command(name, cls=cls or OnceEach, **options)


def _in_short(command: Any) -> str:
    names = ", ".join(getattr(command, "commands", ()))
    return names or str(command.get_short_help_str(limit=1000))


def group(help: str) -> typer.Typer:
    """A group of commands that prints its help if no command is given."""
    made = Commands(cls=ByPanel, rich_markup_mode=None, help=help)
    made.callback(invoke_without_command=True, help=help)(_show_help)
    return made


def _show_help(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        print(context.get_help())
