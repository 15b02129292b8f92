"""Commands on what is known: observe, consolidate."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from memory_sql.cli import output
from memory_sql.cli.conversations import consolidate_each, end
from memory_sql.cli.options import Agent, AnyUser, AsJson, Data, ScopeId, Url, moment, run
from memory_sql.errors import InputError

if TYPE_CHECKING:
    from memory_sql.domain.results import ConsolidateResult
    from memory_sql.memory import Memory


def observe(
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What to remember.")],
    agent: Agent,
    user: Annotated[
        str | None,
        typer.Option("--user", metavar="ID", help="Whose it is; beside --group or --collective, who said it."),
    ] = None,
    group: Annotated[str | None, typer.Option("--group", metavar="ID", help="It is this group's.")] = None,
    collective: Annotated[bool, typer.Option("--collective", help="It is for all users of the agent.")] = False,
    observed_at: Annotated[
        str | None,
        typer.Option("--observed-at", metavar="TIME", help="When it was so; else now. ISO 8601 with a zone."),
    ] = None,
    session: Annotated[
        str | None, typer.Option("--session", metavar="ID", help="The conversation that it comes from.")
    ] = None,
    speaker: Annotated[str | None, typer.Option("--speaker", metavar="NAME", help="Who said it, by name.")] = None,
    scope: Annotated[
        str | None, typer.Option("--scope", metavar="NAME", help="A scope of its own beside the owner's main one.")
    ] = None,
    tag: Annotated[list[str] | None, typer.Option("--tag", metavar="TAG", help="Repeatable.")] = None,
    metadata: Annotated[
        str | None, typer.Option("--metadata", metavar="JSON", help='Kept beside it: {"ticket": 17}.')
    ] = None,
    url: Url = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Stores one observation, without a language model.

    \b
    memory-sql observe "Mia is allergic to nuts." --agent ada --user mia
    memory-sql observe "We ship on 24 April." --agent ada --group harbor --observed-at 2026-03-17T10:36:00Z
    """
    at, extra = moment("--observed-at", observed_at), _metadata(metadata)
    observation = run(
        url,
        data,
        lambda memory: memory.observe(
            text, agent_id=agent, user_id=user, group_id=group, collective=collective, observed_at=at,
            session_id=session, speaker=speaker, scope=scope, tags=tag or (), metadata=extra,
        ),
    )  # fmt: skip
    output.one(observation, output.observation_line, as_json)


def _metadata(text: str | None) -> dict[str, Any]:
    try:
        metadata = json.loads(text or "{}")
    except (ValueError, RecursionError) as error:
        raise InputError(f"--metadata is not JSON: {error}") from None
    if not isinstance(metadata, dict):
        raise InputError("--metadata must be a JSON object")
    return metadata


def consolidate(
    agent: Agent,
    user: AnyUser = None,
    scope_id: ScopeId = None,
    url: Url = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Rewrites a scope's text from what is pending.

    \b
    memory-sql consolidate --agent ada --user mia
    memory-sql consolidate --agent ada --scope-id s12

    Without --scope-id: every scope that the user may see and in which something is pending. A text that fails its
    checks isn't used; the old one stays and the exit code is 1.
    """

    async def work(memory: Memory) -> tuple[list[ConsolidateResult], dict[str, str]]:
        if scope_id is not None:
            return await consolidate_each(memory, agent, [scope_id])
        if user is None:
            raise InputError("which scopes? say --user, or --scope-id")
        scopes = await memory.scopes.list(agent_id=agent, user_id=user)
        return await consolidate_each(memory, agent, [scope.ref.id for scope in scopes if scope.pending])

    consolidated, failed = run(url, data, work)
    if as_json:
        output.json_line({"consolidated": consolidated, "failed": failed})
    else:
        print("\n".join(map(_consolidated_text, consolidated)) or ("" if failed else "nothing is pending"))
    end(failed)


def _consolidated_text(result: ConsolidateResult) -> str:
    head = f"{result.scope.id}  {result.scope}"
    if result.version is None:
        return f"{head}  nothing is pending"
    absorbed = output.many(result.absorbed, "observation")
    text = output.indented(result.content or "")
    return f"{head}  v{result.version}, {absorbed} absorbed ({result.model})\n{text}"
