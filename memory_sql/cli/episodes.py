"""Episodes: list, show, seal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from memory_sql.cli import output, tree
from memory_sql.cli.options import Agent, AsJson, Data, Limit, Url, User, run

if TYPE_CHECKING:
    from memory_sql.domain.episodes import Episode
    from memory_sql.memory import Memory

app = tree.group("Episodes: what was talked about, stretch by stretch of a conversation.")
Here = Annotated[str | None, typer.Option("--conversation", metavar="ID", help="Only this conversation.")]


@app.command("list")
def list_episodes(
    agent: Agent,
    user: User,
    conversation: Here = None,
    limit: Limit = 50,
    before: Annotated[str | None, typer.Option("--before", metavar="ID", help="Older than this episode, e12.")] = None,
    url: Url = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Lists the episodes that the user may see, newest first.

    \b
    memory-sql episode list --agent ada --user mia

    There are none unless the setting episodes is on.
    """
    found = run(
        url,
        data,
        lambda memory: memory.episodes.list(
            agent_id=agent, user_id=user, conversation_id=conversation, limit=limit, before=before
        ),
    )
    output.rows(found, _line, as_json, "no episodes")


@app.command()
def show(
    episode: Annotated[str, typer.Argument(metavar="ID", help="The episode, e12.")],
    agent: Agent,
    user: User,
    url: Url = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Shows an episode with what is remembered of it, as far as the user may see it.

    \b
    memory-sql episode show e12 --agent ada --user mia
    """

    async def work(memory: Memory) -> Episode:
        return await memory.episodes.get(episode, agent_id=agent, user_id=user)

    output.one(run(url, data, work), _text, as_json)


@app.command()
def seal(
    conversation: Annotated[str, typer.Argument(metavar="ID", help="The conversation.")],
    agent: Agent,
    url: Url = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Ends the open episode of a conversation; what is formed next begins another.

    \b
    memory-sql episode seal monday --agent ada
    """
    sealed = run(url, data, lambda memory: memory.episodes.seal(agent_id=agent, conversation_id=conversation))
    if as_json:
        output.json_line({"sealed": sealed})
    else:
        print("sealed" if sealed else "no episode was open")


def _line(one: Episode) -> str:
    topics = ", ".join(one.topics) or "no topic"
    memories = output.many(one.observations, "observation")
    return output.plain(f"{one.id}  {one.conversation_id}  {output.minute(one.opened_at)}  {topics} ({memories})")


def _text(one: Episode) -> str:
    ended = "open" if one.sealed_at is None else f"ended {output.minute(one.sealed_at)}, {one.seal_reason}"
    since = "" if one.trace_since is None else f", goes on from {output.minute(one.trace_since)} ({one.trace})"
    return "\n".join([_line(one), f"  {ended}{since}", *(f"  {output.observation_line(o)}" for o in one.members)])
