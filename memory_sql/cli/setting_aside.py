"""Setting observations aside, and taking that back: quarantine, unquarantine."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from memory_sql.cli import output
from memory_sql.cli.options import Actor, Agent, AnyUser, AsJson, Data, InConversation, Reason, Url, run
from memory_sql.errors import InputError

if TYPE_CHECKING:
    from memory_sql.domain.observations import SetAside, SourceKind
    from memory_sql.domain.selection import Selection

MaybeId = Annotated[str | None, typer.Argument(metavar="[ID]", help="The observation, o12-3; needs --user.")]
FromUser = Annotated[str | None, typer.Option("--from-user", metavar="ID", help="What this user said or owns.")]
FromConversation = Annotated[
    str | None, typer.Option("--from-conversation", metavar="ID", help="What was formed from this conversation.")
]
Tag = Annotated[str | None, typer.Option("--tag", metavar="TAG", help="Observations with this tag.")]
Query = Annotated[str | None, typer.Option("--query", metavar="WORDS", help="Observations with all these words.")]
Source = Annotated[
    str | None, typer.Option("--source", metavar="KIND", help="formation, observe, propagation, import.")
]
RunId = Annotated[int | None, typer.Option("--run", metavar="ID", help="Observations that this run made.")]


def quarantine(
    agent: Agent,
    observation: MaybeId = None,
    user: AnyUser = None,
    conversation: InConversation = None,
    from_user: FromUser = None,
    from_conversation: FromConversation = None,
    tag: Tag = None,
    query: Query = None,
    source: Source = None,
    run_id: RunId = None,
    request: Annotated[
        str | None,
        typer.Option("--request", metavar="TEXT", help="In which words --from-user asked to forget the observation."),
    ] = None,
    replaced: Annotated[
        bool, typer.Option("--replaced", help="Also what it has replaced, which else stands again; not with --user.")
    ] = False,
    actor: Actor = None,
    reason: Reason = None,
    url: Url = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Quarantines an observation, or all of a source, with duplicates and what was derived from it.

    \b
    memory-sql observation quarantine o12-3 --agent ada --user mia
    memory-sql observation quarantine --agent ada --from-conversation 42 --reason "injected"

    It is no longer shown and in no text; nothing is deleted. An observation with --from-user is only one of that user's, or
    that they have said. What they asked to forget (--request) waits in `work reviews`, and is forgotten after a while.
    """
    chosen = _chosen(observation, from_user, from_conversation, tag, query, source, run_id, replaced=replaced)
    asked: dict[str, Any] = {
        "agent_id": agent,
        "user_id": user,
        "conversation_id": conversation,
        "actor": actor,
        "reason": reason,
        "request": request,
    }
    done = run(url, data, lambda memory: memory.observations.quarantine(chosen, **asked))
    output.one(done, partial(_set_aside_text, "quarantined"), as_json)


def unquarantine(
    agent: Agent,
    observation: MaybeId = None,
    user: AnyUser = None,
    conversation: InConversation = None,
    from_user: FromUser = None,
    from_conversation: FromConversation = None,
    tag: Tag = None,
    query: Query = None,
    source: Source = None,
    run_id: RunId = None,
    actor: Actor = None,
    reason: Reason = None,
    url: Url = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Ends a quarantine.

    \b
    memory-sql observation unquarantine o12-3 --agent ada --user mia
    """
    chosen = _chosen(observation, from_user, from_conversation, tag, query, source, run_id)
    asked: dict[str, Any] = {
        "agent_id": agent,
        "user_id": user,
        "conversation_id": conversation,
        "actor": actor,
        "reason": reason,
    }
    done = run(url, data, lambda memory: memory.observations.unquarantine(chosen, **asked))
    output.one(done, partial(_set_aside_text, "unquarantined"), as_json)


def _chosen(
    observation: str | None,
    from_user: str | None,
    from_conversation: str | None,
    tag: str | None,
    query: str | None,
    source: str | None,
    run_id: int | None,
    *,
    replaced: bool = False,
) -> Selection | str:
    given = (from_conversation, tag, query, source, run_id)
    is_source = any(value is not None for value in given) or (from_user is not None and observation is None)
    if (observation is not None) == is_source:
        raise InputError("name either an observation and --user, or a source, such as --from-conversation")
    if observation is not None and from_user is None:
        if replaced:
            raise InputError("--replaced goes with --from-user or a source")
        return observation
    from memory_sql.domain.selection import Selection

    return Selection(
        user_id=from_user,
        observation_id=observation,
        conversation_id=from_conversation,
        tag=tag,
        query=query,
        source=cast("SourceKind | None", source),
        run_id=run_id,
        replaced=replaced,
    )


def _set_aside_text(what: str, done: SetAside) -> str:
    ids = f": {', '.join(done.observations)}" if done.observations else ""
    again = f"; stands again: {', '.join(done.standing)}" if done.standing else ""
    return f"{output.many(len(done.observations), 'observation')} {what}{ids}{again}{withheld(done.withheld)}"


def withheld(scopes: tuple[str, ...]) -> str:
    return f"; to be rewritten: {', '.join(scopes)}" if scopes else ""
