"""Single observations: get, list, sources, update, supersede, reinstate, confirm, dispute, mark, quarantine, unquarantine."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from memory_sql.cli import output, tree
from memory_sql.cli.options import (
    Actor,
    Agent,
    AnyUser,
    AsJson,
    AsOf,
    Before,
    Data,
    InConversation,
    Limit,
    ObservationId,
    Reason,
    Url,
    User,
    moment,
    run,
)
from memory_sql.errors import InputError

if TYPE_CHECKING:
    from memory_sql.domain.observations import Marked, Observation, Sensitivity, SetAside, SourceKind
    from memory_sql.domain.selection import Selection

app = tree.group("Single observations: reading, correcting, setting aside.")

MaybeId = Annotated[str | None, typer.Argument(metavar="[ID]", help="The observation, o12-3; needs --user.")]
IfVersion = Annotated[
    int | None, typer.Option("--if-version", metavar="N", help="Only if it still has this version, as --json shows it.")
]
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


@app.command()
def get(
    observation: ObservationId,
    agent: Agent,
    user: User,
    conversation: InConversation = None,
    own: Annotated[bool, typer.Option("--own", help="Only if the user owns it or has said it.")] = False,
    url: Url = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Shows an observation and where it comes from.

    \b
    memory-sql observation get o12-3 --agent ada --user mia
    """
    asked: dict[str, Any] = {"agent_id": agent, "user_id": user, "conversation_id": conversation}
    found = run(url, data, lambda memory: memory.observations.get(observation, **asked, own=own))
    output.one(found, _details, as_json)


def _details(observation: Observation) -> str:
    o, source = observation, observation.source
    run_id = None if source.run_id is None else str(source.run_id)
    facts = {
        "observed": output.minute(o.observed_at),
        "stored": output.minute(o.created_at),
        "status": f"{o.status}, {'pending' if o.pending else 'consolidated'}",
        "source": source.kind,
        "conversation": source.conversation_id,
        "messages": ", ".join(source.message_ids),
        "speaker": source.speaker,
        "run": run_id,
        "kind": o.kind,
        "category": o.category,
        "confidence": _share(o.confidence),
        "importance": _share(o.importance),
        "until": o.until.isoformat() if o.until else None,
        "sensitivity": o.sensitivity,
        "tags": ", ".join(o.tags),
        "metadata": ", ".join(f"{key}={value}" for key, value in o.metadata.items()),
    }
    lines = [f"{name:<13} {output.flat(value)}" for name, value in facts.items() if value]
    return "\n".join((f"{o.id}  {o.scope}", output.indented(o.content, hanging=""), "", *lines))


def _share(value: float | None) -> str | None:
    return None if value is None else f"{value:.2f}"


@app.command("list")
def list_observations(
    agent: Agent,
    user: User,
    conversation: InConversation = None,
    scope: Annotated[str | None, typer.Option("--scope-id", metavar="ID", help="Only of this scope: s12.")] = None,
    limit: Limit = 50,
    before: Before = None,
    as_of: AsOf = None,
    url: Url = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Lists observations, newest first.

    \b
    memory-sql observation list --agent ada --user mia --limit 10
    """
    found = run(
        url,
        data,
        lambda memory: memory.observations.list(
            agent_id=agent,
            user_id=user,
            conversation_id=conversation,
            scope_id=scope,
            limit=limit,
            before=before,
            as_of=moment("--as-of", as_of),
        ),
    )
    output.rows(found, output.observation_line, as_json, "no observations")


@app.command()
def sources(
    observation: ObservationId,
    agent: Agent,
    user: User,
    conversation: InConversation = None,
    limit: Limit = 50,
    url: Url = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Lists the messages that support an observation and are still kept, oldest first.

    \b
    memory-sql observation sources o12-3 --agent ada --user mia
    """
    found = run(
        url,
        data,
        lambda memory: memory.observations.sources(
            observation, agent_id=agent, user_id=user, conversation_id=conversation, limit=limit
        ),
    )
    output.rows(found, output.message_line, as_json, "no messages")


@app.command()
def update(
    observation: ObservationId,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What is true instead.")],
    agent: Agent,
    user: User,
    conversation: InConversation = None,
    if_version: IfVersion = None,
    actor: Actor = None,
    reason: Reason = None,
    url: Url = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Corrects an observation: a new one supersedes it. Prints the new one.

    \b
    memory-sql observation update o12-3 "Mia lives in Oslo." --agent ada --user mia

    The old one stays in history. A text that contains it is rewritten soon.
    """
    asked = _asked(agent, user, conversation, if_version, actor, reason)
    done = run(
        url,
        data,
        lambda memory: memory.observations.update(observation, text=text, **asked),
    )
    output.one(done, _state_line, as_json)


def _asked(
    agent: str, user: str, conversation: str | None, version: int | None, actor: str | None, reason: str | None
) -> dict[str, Any]:
    who = {"agent_id": agent, "user_id": user, "conversation_id": conversation}
    return {**who, "if_version": version, "actor": actor, "reason": reason}


@app.command()
def supersede(
    old: Annotated[str, typer.Argument(metavar="OLD", help="The observation that is no longer true: o12-3.")],
    new: Annotated[str, typer.Argument(metavar="NEW", help="The observation that supersedes it: o12-5.")],
    agent: Agent,
    user: User,
    conversation: InConversation = None,
    if_version: IfVersion = None,
    actor: Actor = None,
    reason: Reason = None,
    url: Url = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Marks one observation as superseded by another.

    \b
    memory-sql observation supersede o12-3 o12-5 --agent ada --user mia
    """
    asked = _asked(agent, user, conversation, if_version, actor, reason)
    done = run(url, data, lambda memory: memory.observations.supersede(old, new, **asked))
    output.one(done, _state_line, as_json)


@app.command()
def reinstate(
    observation: ObservationId,
    agent: Agent,
    user: User,
    conversation: InConversation = None,
    if_version: IfVersion = None,
    actor: Actor = None,
    reason: Reason = None,
    url: Url = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Makes a superseded observation active again, beside the one that superseded it.

    \b
    memory-sql observation reinstate o12-3 --agent ada --user mia
    """
    asked = _asked(agent, user, conversation, if_version, actor, reason)
    output.one(run(url, data, lambda memory: memory.observations.reinstate(observation, **asked)), _state_line, as_json)


@app.command()
def confirm(
    observation: ObservationId,
    agent: Agent,
    user: User,
    conversation: InConversation = None,
    if_version: IfVersion = None,
    actor: Actor = None,
    reason: Reason = None,
    url: Url = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Confirms an observation on the user's word.

    \b
    memory-sql observation confirm o12-3 --agent ada --user mia
    """
    asked = _asked(agent, user, conversation, if_version, actor, reason)
    output.one(run(url, data, lambda memory: memory.observations.confirm(observation, **asked)), _state_line, as_json)


@app.command()
def dispute(
    observation: ObservationId,
    agent: Agent,
    user: User,
    conversation: InConversation = None,
    if_version: IfVersion = None,
    actor: Actor = None,
    reason: Reason = None,
    url: Url = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Marks an observation as disputed; the context shows this to the agent.

    \b
    memory-sql observation dispute o12-3 --agent ada --user mia --reason "never said that"
    """
    asked = _asked(agent, user, conversation, if_version, actor, reason)
    output.one(run(url, data, lambda memory: memory.observations.dispute(observation, **asked)), _state_line, as_json)


@app.command()
def mark(
    observation: ObservationId,
    agent: Agent,
    user: User,
    conversation: InConversation = None,
    private: Annotated[
        bool | None, typer.Option("--private/--no-private", help="Keep it in its scope, or let it be shared again.")
    ] = None,
    sensitivity: Annotated[
        str | None, typer.Option("--sensitivity", metavar="LEVEL", help="public, private or sensitive.")
    ] = None,
    if_version: IfVersion = None,
    actor: Actor = None,
    reason: Reason = None,
    url: Url = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Sets how private an observation is.

    \b
    memory-sql observation mark o12-3 --private --agent ada --user mia

    If it becomes more private, everything derived from it in other scopes is erased.
    """
    done = run(
        url,
        data,
        lambda memory: memory.observations.mark(
            observation, agent_id=agent, user_id=user, conversation_id=conversation, private=private,
            sensitivity=cast("Sensitivity | None", sensitivity),  # checked by Memory
            if_version=if_version, actor=actor, reason=reason,
        ),
    )  # fmt: skip
    output.one(done, _marked_text, as_json)


@app.command()
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
    chosen = _chosen(observation, from_user, from_conversation, tag, query, source, run_id)
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


@app.command()
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
) -> Selection | str:
    given = (from_conversation, tag, query, source, run_id)
    is_source = any(value is not None for value in given) or (from_user is not None and observation is None)
    if (observation is not None) == is_source:
        raise InputError("name either an observation and --user, or a source, such as --from-conversation")
    if observation is not None and from_user is None:
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
    )


def _state_line(observation: Observation) -> str:
    o = observation
    by = f" by {o.superseded_by}" if o.superseded_by else ""
    return f"{output.observation_line(o)}  ({o.status}{by}, {o.verification})"


def _marked_text(marked: Marked) -> str:
    o = marked.observation
    kept = "never leaves its scope" if o.no_propagate else "may leave its scope"
    gone = f"; erased: {', '.join(marked.retracted)}" if marked.retracted else ""
    gone += f"; kept by legal holds, out of use: {', '.join(marked.withdrawn)}" if marked.withdrawn else ""
    return f"{o.id}  {o.sensitivity}, {kept}{gone}{_withheld(marked.withheld)}"


def _set_aside_text(what: str, done: SetAside) -> str:
    ids = f": {', '.join(done.observations)}" if done.observations else ""
    return f"{output.many(len(done.observations), 'observation')} {what}{ids}{_withheld(done.withheld)}"


def _withheld(scopes: tuple[str, ...]) -> str:
    return f"; to be rewritten: {', '.join(scopes)}" if scopes else ""
