"""Agents over several shards: move."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from memory_sql.cli import output, tree
from memory_sql.cli.options import AsJson, run

if TYPE_CHECKING:
    from memory_sql.domain.results import AgentMove

app = tree.group("Agents over several databases.")


@app.command()
def move(
    agent: Annotated[str, typer.Argument(metavar="AGENT", help="The agent's id.")],
    to: Annotated[
        str, typer.Option("--to", metavar="SHARD", help="The name of the shard, as MEMORY_SQL_SHARDS has it.")
    ],
    as_json: AsJson = False,
) -> None:
    """Moves an agent, whole, to another shard, while it is used.

    \b
    memory-sql agent move ada --to b

    Run it as the owner of the databases. It takes 30 seconds and more; run it again if it was stopped.
    """
    output.one(run(None, None, lambda memory: memory.admin.move(agent_id=agent, to=to)), _text, as_json)


def _text(done: AgentMove) -> str:
    if done.source == done.target:
        return output.plain(f"{done.agent_id} is in {done.target}")
    took = f"{sum(done.rows.values()):,} rows in {done.seconds:.1f} s, {done.held_seconds:.1f} s without changes"
    return output.plain(f"{done.agent_id} has moved from {done.source} to {done.target}: {took}")
