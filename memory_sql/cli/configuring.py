"""An agent's own settings: configure."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from memory_sql.cli import output
from memory_sql.cli.options import Agent, AsJson, Data, Url, run
from memory_sql.errors import InputError


def configure(
    agent: Agent,
    given: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="Set the agent's own value; repeatable.")
    ] = None,
    unset: Annotated[
        list[str] | None, typer.Option("--unset", metavar="NAME", help="Remove the agent's own value; repeatable.")
    ] = None,
    url: Url = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Changes an agent's own settings, and prints them.

    \b
    memory-sql configure --agent ada --set formation_messages=20 --unset time_zone

    They are kept in the database and apply from the next call on, in every process. `memory-sql admin settings` prints all
    settings and what they mean.
    """
    changes = changes_of(given, unset)
    own = run(url, data, lambda memory: memory.configure(agent_id=agent, **changes))
    output.one(own, _own_text, as_json)


def changes_of(given: list[str] | None, unset: list[str] | None) -> dict[str, Any]:
    """The changes of --set and --unset, by name. Raises `InputError` without any, and for a name that is given twice."""
    changes: dict[str, Any] = {}
    for name, value in (*map(_pair, given or ()), *((name, None) for name in unset or ())):
        if name in changes:
            raise InputError(f"{name} is given twice; set it or unset it once")
        changes[name] = value
    if not changes:
        raise InputError("pass what to change: --set NAME=VALUE or --unset NAME")
    return changes


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (equals and name and value):
        raise InputError("--set takes NAME=VALUE")
    return name, value


def _own_text(own: dict[str, Any]) -> str:
    return (
        "\n".join(f"{name} = {json.dumps(value, ensure_ascii=False)}" for name, value in own.items())
        or "no settings of its own"
    )
