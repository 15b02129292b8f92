"""Conversations: messages, form, unformed, exclude."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from memory_sql.cli import output, tree
from memory_sql.cli.batches import end, form_each
from memory_sql.cli.options import Agent, AsJson, Before, Data, Limit, Url, User, run
from memory_sql.errors import InputError

if TYPE_CHECKING:
    from memory_sql.domain.results import FormResult
    from memory_sql.memory import Memory

app = tree.group("Conversations: their messages, and whether these are formed into observations.")


@app.command()
def messages(
    agent: Agent,
    user: User,
    conversation: Annotated[
        str | None, typer.Option("--conversation", metavar="ID", help="Only this conversation.")
    ] = None,
    limit: Limit = 50,
    before: Before = None,
    url: Url = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Lists messages whose text is still kept, newest first.

    \b
    memory-sql conversation messages --agent ada --user mia --conversation monday

    From conversations in which the user took part. The setting message_retention_days says how long texts are kept.
    """
    found = run(
        url,
        data,
        lambda memory: memory.conversations.messages(
            agent_id=agent, user_id=user, conversation_id=conversation, limit=limit, before=before
        ),
    )
    output.rows(found, output.message_line, as_json, "no messages")


@app.command()
def form(
    agent: Agent,
    conversation: Annotated[
        str | None,
        typer.Option("--conversation", metavar="ID", help="Only this one; default: every one with new messages."),
    ] = None,
    again: Annotated[
        str | None, typer.Option("--again", metavar="ID", help="Form this conversation again, as with another model.")
    ] = None,
    url: Url = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Forms observations from messages now, whether or not they are due.

    \b
    memory-sql conversation form --agent ada
    memory-sql conversation form --agent ada --conversation monday
    memory-sql conversation form --agent ada --again monday

    If the model fails, the messages stay and can be formed later; other conversations continue. --again supersedes what was
    formed from the conversation before, except what a person has confirmed or corrected; unformed messages wait.
    """
    if again and conversation:
        raise InputError("use either --conversation or --again")

    async def work(memory: Memory) -> tuple[list[FormResult], dict[str, str]]:
        if again:
            return [await memory.conversations.form(agent_id=agent, conversation_id=again, again=True)], {}
        chosen = [conversation] if conversation else await memory.conversations.unformed(agent_id=agent)
        return await form_each(memory, agent, chosen, quiet=as_json)

    formed, failed = run(url, data, work)
    if as_json:
        output.json_line({"formed": formed, "failed": failed})
    else:
        print("\n".join(map(_formed_text, formed)) or ("nothing was formed" if failed else "nothing to form"))
    end(failed)


def _formed_text(result: FormResult) -> str:
    if not result.messages:
        return f"{result.conversation_id}: nothing to form"
    known = f", {result.duplicates} known already" if result.duplicates else ""
    known += f", {result.superseded} superseded" if result.superseded else ""
    known += f", {len(result.hidden)} hidden" if result.hidden else ""
    head = (
        f"{result.conversation_id}: {output.many(result.messages, 'message')} → "
        f"{output.many(len(result.observations), 'observation')}{known} ({result.model})"
    )
    more = [f"  {output.observation_line(observation)}" for observation in result.observations]
    more += [f"  refused: {count} × {reason}" for reason, count in result.refused.items()]
    return "\n".join((head, *more))


@app.command()
def unformed(agent: Agent, url: Url = None, data: Data = None, as_json: AsJson = False) -> None:
    """Lists the conversations with messages that aren't formed yet, oldest first.

    \b
    memory-sql conversation unformed --agent ada
    """
    found = run(url, data, lambda memory: memory.conversations.unformed(agent_id=agent))
    output.rows(({"conversation": one} for one in found), lambda row: output.flat(row["conversation"]), as_json, "none")


@app.command()
def exclude(
    conversation: Annotated[str, typer.Argument(metavar="ID", help="The conversation.")],
    agent: Agent,
    include: Annotated[
        bool, typer.Option("--include", help="End the exclusion: remember what is said from now on.")
    ] = False,
    url: Url = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Stops remembering what is said in a conversation from now on.

    \b
    memory-sql conversation exclude monday --agent ada
    memory-sql conversation exclude monday --agent ada --include

    What was said while it was excluded is never formed.
    """
    run(
        url,
        data,
        lambda memory: memory.conversations.exclude(agent_id=agent, conversation_id=conversation, excluded=not include),
    )
    done = {"conversation": conversation, "excluded": not include}
    output.one(done, lambda row: f"{output.flat(conversation)}: {'included' if include else 'excluded'}", as_json)


@app.command()
def share(
    conversation: Annotated[str, typer.Argument(metavar="CONVERSATION", help="The conversation.")],
    agent: Agent,
    undo: Annotated[
        bool, typer.Option("--undo", help="End it: from now on at least two members have to have spoken.")
    ] = False,
    url: Url = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Declares that all members of a conversation's groups hear what is said in it.

    \b
    memory-sql conversation share standup --agent ada
    memory-sql conversation share standup --agent ada --undo
    """
    run(
        url,
        data,
        lambda memory: memory.conversations.share(agent_id=agent, conversation_id=conversation, shared=not undo),
    )
    done = {"conversation": conversation, "shared": not undo}
    output.one(done, lambda row: f"{output.flat(conversation)}: {'not shared' if undo else 'shared'}", as_json)
