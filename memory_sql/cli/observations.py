"""Single observations: reading, correcting, resolving, setting aside."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from memory_sql.cli import output, tree
from memory_sql.cli.options import (
    Actor,
    Agent,
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
from memory_sql.cli.setting_aside import quarantine, unquarantine, withheld

if TYPE_CHECKING:
    from memory_sql.domain.observations import Marked, Observation, Policy, Resolution, Sensitivity

app = tree.group("Single observations: reading, correcting, setting aside.")

IfVersion = Annotated[
    int | None, typer.Option("--if-version", metavar="N", help="Only if it still has this version, as --json shows it.")
]


@app.command()
def get(
    observation: ObservationId,
    agent: Agent,
    user: User,
    conversation: InConversation = None,
    own: Annotated[bool, typer.Option("--own", help="Only if the user owns it or has said it.")] = False,
    explain: Annotated[
        bool, typer.Option("--explain", help="Also how alive it is: stage, tier, heat, decay, value.")
    ] = False,
    url: Url = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Shows an observation and where it comes from.

    \b
    memory-sql observation get o12-3 --agent ada --user mia
    """
    asked: dict[str, Any] = {"agent_id": agent, "user_id": user, "conversation_id": conversation}
    found = run(url, data, lambda memory: memory.observations.get(observation, **asked, own=own, explain=explain))
    output.one(found, _details, as_json)


def _details(observation: Observation) -> str:
    o, source = observation, observation.source
    run_id = None if source.run_id is None else str(source.run_id)
    facts = {
        "observed": output.minute(o.observed_at),
        "said again": None if o.said_again_at is None else output.minute(o.said_again_at),
        "stored": output.minute(o.created_at),
        "until": None if o.until is None else o.until.isoformat(),
        "resolved": o.resolved,
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
        "sensitivity": o.sensitivity,
        "tags": ", ".join(o.tags),
        "metadata": ", ".join(f"{key}={value}" for key, value in o.metadata.items()),
    }
    if (alive := o.lifecycle) is not None:
        facts["stage"] = f"{alive.stage}, {alive.policy}{', cold' if alive.tier == 'cold' else ''}"
        facts["scores"] = f"heat {alive.heat:.4f}, decay {alive.decay:.4f}, value {alive.value:.4f}"
        last = "" if alive.last_used_at is None else f", last on {alive.last_used_at:%Y-%m-%d}"
        facts["uses"] = f"{alive.uses}{last}"
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
def spread(
    observation: ObservationId,
    agent: Agent,
    user: User,
    conversation: InConversation = None,
    limit: Limit = 50,
    url: Url = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Lists what was made of an observation in wider scopes, as far as the user sees it.

    \b
    memory-sql observation spread o12-3 --agent ada --user mia
    """
    found = run(
        url,
        data,
        lambda memory: memory.observations.spread(
            observation, agent_id=agent, user_id=user, conversation_id=conversation, limit=limit
        ),
    )
    output.rows(found, output.observation_line, as_json, "it hasn't spread")


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
def feedback(
    observation: ObservationId,
    value: Annotated[float, typer.Option("--value", metavar="NUMBER", help="From -1, of no use, to 1, useful.")],
    agent: Agent,
    user: User,
    conversation: InConversation = None,
    url: Url = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Says how useful an observation was, from -1 to 1.

    \b
    memory-sql observation feedback o12-3 --value=-1 --agent ada --user mia
    """
    asked: dict[str, Any] = {"agent_id": agent, "user_id": user, "conversation_id": conversation}
    run(url, data, lambda memory: memory.observations.feedback(observation, value, **asked))
    output.one({"id": observation, "value": value}, lambda _: f"{observation}  {value:+g}", as_json)


@app.command()
def resolve(
    observation: ObservationId,
    agent: Agent,
    user: User,
    resolved: Annotated[str, typer.Argument(metavar="HOW", help="fulfilled or expired; none takes that back.")],
    conversation: InConversation = None,
    if_version: IfVersion = None,
    actor: Actor = None,
    reason: Reason = None,
    url: Url = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Says that a plan or commitment is over, or takes that back.

    \b
    memory-sql observation resolve o12-3 fulfilled --agent ada --user mia
    """
    asked = _asked(agent, user, conversation, if_version, actor, reason)
    end = cast("Resolution | None", None if resolved == "none" else resolved)  # checked by Memory
    done = run(url, data, lambda memory: memory.observations.resolve(observation, end, **asked))
    output.one(done, _state_line, as_json)


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
    policy: Annotated[
        str | None, typer.Option("--policy", metavar="NAME", help="ephemeral, durable or protected (never archived).")
    ] = None,
    if_version: IfVersion = None,
    actor: Actor = None,
    reason: Reason = None,
    url: Url = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Sets how private an observation is, and whether rules may archive it.

    \b
    memory-sql observation mark o12-3 --private --agent ada --user mia

    If it becomes more private, everything derived from it in other scopes is erased.
    """
    done = run(
        url,
        data,
        lambda memory: memory.observations.mark(
            observation, agent_id=agent, user_id=user, conversation_id=conversation, private=private,
            sensitivity=cast("Sensitivity | None", sensitivity), policy=cast("Policy | None", policy),  # checked by Memory
            if_version=if_version, actor=actor, reason=reason,
        ),
    )  # fmt: skip
    output.one(done, partial(_marked_text, policy=policy), as_json)


for command in (quarantine, unquarantine):
    app.command()(command)


def _state_line(observation: Observation) -> str:
    o = observation
    by = f" by {o.superseded_by}" if o.superseded_by else ""
    return f"{output.observation_line(o)}  ({o.status}{by}, {o.verification})"


def _marked_text(marked: Marked, policy: str | None) -> str:
    o = marked.observation
    kept = "never leaves its scope" if o.no_propagate else "may leave its scope"
    gone = f"; erased: {', '.join(marked.retracted)}" if marked.retracted else ""
    gone += f"; kept by legal holds, out of use: {', '.join(marked.withdrawn)}" if marked.withdrawn else ""
    kept += f", {policy}" if policy else ""
    return f"{o.id}  {o.sensitivity}, {kept}{gone}{withheld(marked.withheld)}"
