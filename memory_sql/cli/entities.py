"""What memory names: list, get."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from memory_sql.cli import output, tree
from memory_sql.cli.options import Agent, AsJson, Data, Limit, Url, User, run

if TYPE_CHECKING:
    from memory_sql.domain.entities import Entity, EntitySummary

app = tree.group("What memory names: people, places, things.")


@app.command("list")
def list_entities(
    agent: Agent,
    user: User,
    limit: Limit = 100,
    url: Url = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Lists what the newest 2,000 active observations name, that first which most of them name.

    \b
    memory-sql entity list --agent ada --user mia

    By rules, no model: words with capitals or figures.
    """
    found = run(url, data, lambda memory: memory.entities.list(agent_id=agent, user_id=user, limit=limit))
    output.rows(found, _line, as_json, "nothing is named")


@app.command()
def get(
    name: Annotated[str, typer.Argument(metavar="NAME", help="What is named, in any case.")],
    agent: Agent,
    user: User,
    limit: Limit = 50,
    url: Url = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Prints the active observations that name something, newest first, and how many each scope has.

    \b
    memory-sql entity get "Larch & Latch" --agent ada --user mia
    """
    found = run(url, data, lambda memory: memory.entities.get(name, agent_id=agent, user_id=user, limit=limit))
    output.one(found, _text, as_json)


def _line(one: EntitySummary) -> str:
    days = f"{one.first}" if one.first == one.last else f"{one.first} to {one.last}"
    return output.plain(f"{one.name}  {output.many(one.observations, 'observation')}, {days}")


def _text(one: Entity) -> str:
    scopes = (f"  {scope.scope}: {scope.observations}, {scope.first} to {scope.last}" for scope in one.scopes)
    return "\n".join((_line(one), *map(output.plain, scopes), *map(output.observation_line, one.newest)))
