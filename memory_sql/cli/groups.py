"""Commands on groups: group create, rename, add, remove, members, list."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from memory_sql.cli import output
from memory_sql.cli.options import Agent, AnyUser, AsJson, AsOf, Data, Url, moment, run

if TYPE_CHECKING:
    from memory_sql.domain.groups import Departure, Group, Member

group = typer.Typer(help="Groups, and who belongs to them.", rich_markup_mode=None)

GroupId = Annotated[str, typer.Argument(metavar="GROUP", help="The group.")]
Person = Annotated[str, typer.Option("--user", metavar="ID", help="The user.")]
Actor = Annotated[str | None, typer.Option("--actor", metavar="ID", help="Who does it, for the record.")]
Reason = Annotated[str | None, typer.Option("--reason", metavar="TEXT", help="Why, for the record.")]


@group.callback(invoke_without_command=True)
def about(context: typer.Context) -> None:
    """Groups, and who belongs to them."""
    if context.invoked_subcommand is None:
        print(context.get_help())


@group.command()
def create(
    group_id: GroupId,
    agent: Agent,
    name: Annotated[
        str | None, typer.Option("--name", metavar="TEXT", help="How it is called, if not by its id.")
    ] = None,
    actor: Actor = None,
    reason: Reason = None,
    url: Url = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Makes a group; one that is there stays as it is.

    \b
    memory-sql group create harbor --agent ada --name "Harbor team"
    """
    made = run(
        url,
        data,
        lambda memory: memory.groups.create(group_id, agent_id=agent, display_name=name, actor=actor, reason=reason),
    )
    output.one(made, _group_text, as_json)


@group.command()
def rename(
    group_id: GroupId,
    name: Annotated[str, typer.Argument(metavar="NAME", help="How it is called from now on.")],
    agent: Agent,
    actor: Actor = None,
    reason: Reason = None,
    url: Url = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Changes how a group is called; `memory-sql rename` changes its id.

    \b
    memory-sql group rename harbor "Harbor and quay" --agent ada
    """
    renamed = run(
        url,
        data,
        lambda memory: memory.groups.rename(group_id, name, agent_id=agent, actor=actor, reason=reason),
    )
    output.one(renamed, _group_text, as_json)


@group.command()
def add(
    group_id: GroupId,
    agent: Agent,
    user: Person,
    source: Annotated[
        Literal["host", "import", "inferred"], typer.Option("--source", help="Who says that they belong to it.")
    ] = "host",
    actor: Actor = None,
    reason: Reason = None,
    url: Url = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Makes a user a member, also one who has left.

    \b
    memory-sql group add harbor --agent ada --user mia
    """
    member = run(
        url,
        data,
        lambda memory: memory.groups.add_member(
            group_id, user, agent_id=agent, source=source, actor=actor, reason=reason
        ),
    )
    output.one(member, _member_text, as_json)


@group.command()
def remove(
    group_id: GroupId,
    agent: Agent,
    user: Person,
    keep: Annotated[bool, typer.Option("--keep", help="Keep what only they have contributed.")] = False,
    actor: Actor = None,
    reason: Reason = None,
    url: Url = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Ends a membership: the user sees nothing of the group any more.

    \b
    memory-sql group remove harbor --agent ada --user mia --reason "Changed teams"

    What only they have contributed is archived, and the group's text is told anew by the next consolidation.
    """
    left = run(
        url,
        data,
        lambda memory: memory.groups.remove_member(
            group_id, user, agent_id=agent, keep=keep, actor=actor, reason=reason
        ),
    )
    output.one(left, _departure_text, as_json)


@group.command()
def members(
    group_id: GroupId,
    agent: Agent,
    as_of: AsOf = None,
    url: Url = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Lists who belongs to a group, or did at a past moment.

    \b
    memory-sql group members harbor --agent ada
    """
    past = moment("--as-of", as_of)
    found = run(url, data, lambda memory: memory.groups.members(group_id, agent_id=agent, as_of=past))
    output.rows(found, _member_text, as_json, "nobody belongs to this group")


@group.command("list")
def list_groups(
    agent: Agent, user: AnyUser = None, url: Url = None, data: Data = None, as_json: AsJson = False
) -> None:
    """Lists an agent's groups, or those that a user belongs to.

    \b
    memory-sql group list --agent ada --user mia
    """
    found = run(url, data, lambda memory: memory.groups.list(agent_id=agent, user_id=user))
    output.rows(found, _group_text, as_json, "there are no groups")


def _group_text(group: Group) -> str:
    called = f" ({output.flat(group.display_name)})" if group.display_name not in (None, group.group_id) else ""
    return f"{group.group_id}{called}  {group.scope_id}, {output.many(group.members, 'member')}"


def _member_text(member: Member) -> str:
    left = f", until {output.minute(member.left_at)}" if member.left_at else ""
    return f"{member.user_id}  {member.group_id}, since {output.minute(member.joined_at)}{left} ({member.source})"


def _departure_text(left: Departure) -> str:
    told = [f"{left.user_id} left {left.group_id}, {output.minute(left.left_at)}"]
    if left.archived:
        told.append(f"archived: {', '.join(left.archived)}")
    if left.retracted:
        told.append(f"retracted: {', '.join(left.retracted)}")
    if left.withheld:
        told.append(f"to be told anew: {', '.join(left.withheld)}")
    return "\n".join(told)
