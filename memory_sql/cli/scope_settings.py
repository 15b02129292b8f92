"""Scopes' settings: create, show, set."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from memory_sql.cli import output
from memory_sql.cli.configuring import changes_of
from memory_sql.cli.options import Actor, Agent, AsJson, Data, Reason, Scope, Url, run

if TYPE_CHECKING:
    from memory_sql.config import ScopeSettings
    from memory_sql.domain.scopes import ScopeDetails

Set = Annotated[list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="Set its own value; repeatable.")]
Unset = Annotated[list[str] | None, typer.Option("--unset", metavar="NAME", help="Remove its own value; repeatable.")]


def create(
    kind: Annotated[
        Literal["individual", "group", "collective", "conversation", "agent", "guideline"],
        typer.Argument(metavar="KIND", help="individual, group, collective, conversation, agent or guideline."),
    ],
    agent: Agent,
    owner: Annotated[
        str | None, typer.Option("--owner", metavar="ID", help="Its owner: a user, group or conversation.")
    ] = None,
    name: Annotated[
        str | None, typer.Option("--name", metavar="NAME", help="The name of a scope beside the owner's main one.")
    ] = None,
    display_name: Annotated[
        str | None, typer.Option("--display-name", metavar="TEXT", help="Its name for people.")
    ] = None,
    template: Annotated[
        Literal["profile", "identity"] | None,
        typer.Option(
            "--template",
            metavar="TEMPLATE",
            help="profile (how somebody works) or identity (what the agent has learnt).",
        ),
    ] = None,
    given: Set = None,
    actor: Actor = None,
    reason: Reason = None,
    url: Url = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Creates a scope, which is a separate memory; an existing one is left unchanged.

    \b
    memory-sql scope create collective --name lessons --agent ada --set consolidation_threshold=16
    memory-sql scope create individual --owner mia --name boat --agent ada --set lanes=both
    memory-sql scope create individual --owner mia --template profile --agent ada

    Say what belongs to it with `memory-sql prompt set`.
    """
    settings = _settings(dict(changes_of(given, None)) if given else {})
    made = run(
        url,
        data,
        lambda memory: memory.scopes.create(
            kind,
            agent_id=agent,
            owner_id=owner,
            name=name,
            display_name=display_name,
            settings=settings,
            template=template,
            actor=actor,
            reason=reason,
        ),
    )
    output.one(made, _details_text, as_json)


def show(scope: Scope, agent: Agent, url: Url = None, data: Data = None, as_json: AsJson = False) -> None:
    """Prints a scope's effective settings, each with its source.

    \b
    memory-sql scope show s12 --agent ada

    The source is the scope itself, its agent (`memory-sql configure`), the environment, a file, or the default.
    """
    found = run(url, data, lambda memory: memory.scopes.get(scope, agent_id=agent))
    output.one(found, _details_text, as_json)


def change(
    scope: Scope,
    agent: Agent,
    given: Set = None,
    unset: Unset = None,
    actor: Actor = None,
    reason: Reason = None,
    url: Url = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Changes a scope's own settings, and prints the effective ones.

    \b
    memory-sql scope set s12 --agent ada --set consolidation_max_words=1000 --unset observation_max_items
    """
    settings = _settings(changes_of(given, unset))
    changed = run(
        url, data, lambda memory: memory.scopes.set(scope, settings, agent_id=agent, actor=actor, reason=reason)
    )
    output.one(changed, _details_text, as_json)


def _settings(changes: dict[str, str | None]) -> ScopeSettings:
    from memory_sql.config.scopes import settings_of_scope

    return settings_of_scope(changes)


def _details_text(found: ScopeDetails) -> str:
    lines = [f"{found.ref.id}  {found.ref}"]
    lines += [f"{found.display_name}"] if found.display_name else []
    lines += [f"{name} = {_value(setting.value)}  ({setting.source})" for name, setting in found.settings.items()]
    lines += [f"{name} prompt: version {version}" for name, version in found.prompts.items()]
    return output.plain("\n".join(lines))


def _value(value: Any) -> str:
    return "unset" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
