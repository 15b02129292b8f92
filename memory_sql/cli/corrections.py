"""Commands that correct what is remembered: replace, confirm, dispute, keep private, set aside."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from memory_sql.cli import output
from memory_sql.cli.options import Agent, AnyUser, AsJson, Data, Url, User, run
from memory_sql.domain.observations import SourceKind
from memory_sql.domain.selection import Selection
from memory_sql.errors import InputError

if TYPE_CHECKING:
    from memory_sql.domain.observations import Marked, Observation, Sensitivity, SetAside

ObservationId = Annotated[str, typer.Argument(metavar="ID", help="The observation: o12-3.")]
MaybeId = Annotated[str | None, typer.Argument(metavar="[ID]", help="The observation, o12-3; needs --user.")]
IfVersion = Annotated[
    int | None, typer.Option("--if-version", metavar="N", help="Only if it still has that version, as --json shows it.")
]
Actor = Annotated[str | None, typer.Option("--actor", metavar="ID", help="Who did it, if not the user; kept.")]
Reason = Annotated[str | None, typer.Option("--reason", metavar="TEXT", help="Why; kept.")]
FromUser = Annotated[str | None, typer.Option("--from-user", metavar="ID", help="What this user said or owns.")]
FromSession = Annotated[str | None, typer.Option("--from-session", metavar="ID", help="What comes from it.")]
Tag = Annotated[str | None, typer.Option("--tag", metavar="TAG", help="What has this tag.")]
Query = Annotated[str | None, typer.Option("--query", metavar="WORDS", help="What has all these words.")]
Source = Annotated[
    str | None, typer.Option("--source", metavar="KIND", help="formation, observe, propagation, import.")
]
RunId = Annotated[int | None, typer.Option("--run", metavar="ID", help="What this run made.")]


def correct(
    observation: ObservationId,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What is so instead.")],
    agent: Agent,
    user: User,
    if_version: IfVersion = None,
    actor: Actor = None,
    reason: Reason = None,
    url: Url = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Puts a new observation in the place of one that is wrong; prints the new one.

    \b
    memory-sql correct o12-3 "Mia lives in Oslo." --agent ada --user mia

    The old one stays in history. A text that holds it is written anew soon.
    """
    done = run(
        url,
        data,
        lambda memory: memory.observations.update(
            observation, agent_id=agent, user_id=user, text=text, if_version=if_version, actor=actor, reason=reason
        ),
    )
    output.one(done, _state_line, as_json)


def supersede(
    old: Annotated[str, typer.Argument(metavar="OLD", help="The observation that isn't so any more: o12-3.")],
    new: Annotated[str, typer.Argument(metavar="NEW", help="What has taken its place: o12-5.")],
    agent: Agent,
    user: User,
    if_version: IfVersion = None,
    actor: Actor = None,
    reason: Reason = None,
    url: Url = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Says that one observation has taken the place of another one.

    \b
    memory-sql supersede o12-3 o12-5 --agent ada --user mia
    """
    asked: dict[str, Any] = {
        "agent_id": agent,
        "user_id": user,
        "if_version": if_version,
        "actor": actor,
        "reason": reason,
    }
    done = run(url, data, lambda memory: memory.observations.supersede(old, new, **asked))
    output.one(done, _state_line, as_json)


def reinstate(
    observation: ObservationId,
    agent: Agent,
    user: User,
    if_version: IfVersion = None,
    actor: Actor = None,
    reason: Reason = None,
    url: Url = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Lets a superseded observation stand again, beside what had taken its place.

    \b
    memory-sql reinstate o12-3 --agent ada --user mia
    """
    asked: dict[str, Any] = {
        "agent_id": agent,
        "user_id": user,
        "if_version": if_version,
        "actor": actor,
        "reason": reason,
    }
    output.one(run(url, data, lambda memory: memory.observations.reinstate(observation, **asked)), _state_line, as_json)


def confirm(
    observation: ObservationId,
    agent: Agent,
    user: User,
    if_version: IfVersion = None,
    actor: Actor = None,
    reason: Reason = None,
    url: Url = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Confirms an observation on the user's word.

    \b
    memory-sql confirm o12-3 --agent ada --user mia
    """
    asked: dict[str, Any] = {
        "agent_id": agent,
        "user_id": user,
        "if_version": if_version,
        "actor": actor,
        "reason": reason,
    }
    output.one(run(url, data, lambda memory: memory.observations.confirm(observation, **asked)), _state_line, as_json)


def dispute(
    observation: ObservationId,
    agent: Agent,
    user: User,
    if_version: IfVersion = None,
    actor: Actor = None,
    reason: Reason = None,
    url: Url = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Says that an observation isn't so; the agent is shown that it is disputed.

    \b
    memory-sql dispute o12-3 --agent ada --user mia --reason "never said that"
    """
    asked: dict[str, Any] = {
        "agent_id": agent,
        "user_id": user,
        "if_version": if_version,
        "actor": actor,
        "reason": reason,
    }
    output.one(run(url, data, lambda memory: memory.observations.dispute(observation, **asked)), _state_line, as_json)


def mark(
    observation: ObservationId,
    agent: Agent,
    user: User,
    private: Annotated[
        bool | None, typer.Option("--private/--no-private", help="It never leaves its scope, or may do so again.")
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
    """Says how private an observation is.

    \b
    memory-sql mark o12-3 --private --agent ada --user mia

    What becomes more private leaves where it has spread: all that was made of it is erased.
    """
    done = run(
        url,
        data,
        lambda memory: memory.observations.mark(
            observation, agent_id=agent, user_id=user, private=private,
            sensitivity=cast("Sensitivity | None", sensitivity),  # checked by Memory
            if_version=if_version, actor=actor, reason=reason,
        ),
    )  # fmt: skip
    output.one(done, _marked_text, as_json)


def quarantine(
    agent: Agent,
    observation: MaybeId = None,
    user: AnyUser = None,
    from_user: FromUser = None,
    from_session: FromSession = None,
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
    """Sets aside an observation, or all of a source, with what says the same and what was made of it.

    \b
    memory-sql quarantine o12-3 --agent ada --user mia
    memory-sql quarantine --agent ada --from-session 42 --reason "injected"

    Neither shown nor told any more; nothing is deleted.
    """
    chosen = _chosen(observation, from_user, from_session, tag, query, source, run_id)
    asked: dict[str, Any] = {"agent_id": agent, "user_id": user, "actor": actor, "reason": reason}
    done = run(url, data, lambda memory: memory.observations.quarantine(chosen, **asked))
    output.one(done, partial(_set_aside_text, "set aside"), as_json)


def unquarantine(
    agent: Agent,
    observation: MaybeId = None,
    user: AnyUser = None,
    from_user: FromUser = None,
    from_session: FromSession = None,
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
    """Takes a quarantine back.

    \b
    memory-sql unquarantine o12-3 --agent ada --user mia
    """
    chosen = _chosen(observation, from_user, from_session, tag, query, source, run_id)
    asked: dict[str, Any] = {"agent_id": agent, "user_id": user, "actor": actor, "reason": reason}
    done = run(url, data, lambda memory: memory.observations.unquarantine(chosen, **asked))
    output.one(done, partial(_set_aside_text, "released"), as_json)


def _chosen(
    observation: str | None,
    from_user: str | None,
    from_session: str | None,
    tag: str | None,
    query: str | None,
    source: str | None,
    run_id: int | None,
) -> Selection | str:
    given = (from_user, from_session, tag, query, source, run_id)
    if (observation is not None) == any(value is not None for value in given):
        raise InputError("say either an observation and --user, or where what is meant comes from")
    return observation or Selection(
        user_id=from_user,
        session_id=from_session,
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
    gone = f"; taken out: {', '.join(marked.retracted)}" if marked.retracted else ""
    return f"{o.id}  {o.sensitivity}, {kept}{gone}{_withheld(marked.withheld)}"


def _set_aside_text(what: str, done: SetAside) -> str:
    ids = f": {', '.join(done.observations)}" if done.observations else ""
    return f"{output.many(len(done.observations), 'observation')} {what}{ids}{_withheld(done.withheld)}"


def _withheld(scopes: tuple[str, ...]) -> str:
    return f"; to be told anew: {', '.join(f's{scope_id}' for scope_id in scopes)}" if scopes else ""
