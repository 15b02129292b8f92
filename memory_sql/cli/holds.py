"""Legal holds: place, list, release."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from memory_sql.cli import output, tree
from memory_sql.cli.options import Actor, Agent, AsJson, Data, Reason, Url, run

if TYPE_CHECKING:
    from memory_sql.domain.people import Hold, PlacedHold
    from memory_sql.memory import Memory

app = tree.group("Legal holds: what they cover can't be erased.")


@app.command()
def place(
    agent: Agent,
    user: Annotated[str | None, typer.Option("--user", metavar="ID", help="Everything of this user.")] = None,
    conversation: Annotated[
        str | None, typer.Option("--conversation", metavar="ID", help="Everything of this conversation.")
    ] = None,
    group: Annotated[str | None, typer.Option("--group", metavar="ID", help="Everything of this group.")] = None,
    observation: Annotated[
        str | None, typer.Option("--observation", metavar="ID", help="This observation, o12-3.")
    ] = None,
    actor: Actor = None,
    reason: Reason = None,
    url: Url = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Places a legal hold: what it covers can't be erased until it is released.

    \b
    memory-sql hold place --agent ada --user mia --reason "Case 7"

    Placing an existing hold again changes nothing. Prints how much the hold keeps, which is nothing if it was erased before.
    """

    async def work(memory: Memory) -> PlacedHold:
        return await memory.holds.place(
            agent_id=agent, user_id=user, conversation_id=conversation, group_id=group, observation_id=observation,
            actor=actor, reason=reason,
        )  # fmt: skip

    output.one(run(url, data, work), _placed_text, as_json)


@app.command("list")
def list_holds(
    agent: Agent,
    released: Annotated[bool, typer.Option("--released", help="Also show released ones.")] = False,
    url: Url = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Lists the legal holds, oldest first.

    \b
    memory-sql hold list --agent ada
    """
    found = run(url, data, lambda memory: memory.holds.list(agent_id=agent, released=released))
    output.rows(found, _hold_text, as_json, "nothing is held")


@app.command()
def release(
    hold_id: Annotated[int, typer.Argument(metavar="HOLD_ID", help="The hold, as `hold list` shows it.")],
    agent: Agent,
    actor: Actor = None,
    reason: Reason = None,
    url: Url = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Releases a legal hold: what it covers can be erased again.

    \b
    memory-sql hold release 3 --agent ada
    """
    ended = run(url, data, lambda memory: memory.holds.release(hold_id, agent_id=agent, actor=actor, reason=reason))
    output.one(ended, _hold_text, as_json)


def _placed_text(hold: PlacedHold) -> str:
    observations, messages = output.many(hold.observations, "observation"), output.many(hold.messages, "message")
    return f"{_hold_text(hold)} (keeps {observations} and {messages})"


def _hold_text(hold: Hold) -> str:
    released = f", released {output.minute(hold.released_at)}" if hold.released_at else ""
    why = f": {output.flat(hold.reason)}" if hold.reason else ""
    return f"{hold.hold_id}  {hold.kind} {hold.target}, since {output.minute(hold.created_at)}{released}{why}"
