"""Groups: create, rename, add, remove, members, list."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from memory_sql.cli import output, tree
from memory_sql.cli.options import Actor, Agent, AnyUser, AsJson, AsOf, Data, Person, Reason, Url, moment, run

if TYPE_CHECKING:
    from memory_sql.domain.groups import Departure, Group, Member

app = tree.group("Groups and their members.")

GroupId = Annotated[str, typer.Argument(metavar="GROUP", help="The group.")]


@app.command()
def create(
    group_id: GroupId,
    agent: Agent,
    name: Annotated[str | None, typer.Option("--name", metavar="TEXT", help="Its name; default: its id.")] = None,
    actor: Actor = None,
    reason: Reason = None,
    url: Url = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Creates a group; an existing one is left unchanged.

    \b
    memory-sql group create harbor --agent ada --name "Harbor team"
    """
    made = run(
        url,
        data,
        lambda memory: memory.groups.create(group_id, agent_id=agent, display_name=name, actor=actor, reason=reason),
    )
    output.one(made, _group_text, as_json)


@app.command()
def rename(
    group_id: GroupId,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Its new name.")],
    agent: Agent,
    actor: Actor = None,
    reason: Reason = None,
    url: Url = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Changes the name of a group; `memory-sql person rename` changes its id.

    \b
    memory-sql group rename harbor "Harbor and quay" --agent ada
    """
    renamed = run(
        url,
        data,
        lambda memory: memory.groups.rename(group_id, name, agent_id=agent, actor=actor, reason=reason),
    )
    output.one(renamed, _group_text, as_json)


@app.command()
def share(
    group_id: GroupId,
    sharing: Annotated[
        Literal["auto", "review", "off", "default"],
        typer.Argument(help="What is propagated into the group and out of it; default: the agent's setting."),
    ],
    agent: Agent,
    actor: Actor = None,
    reason: Reason = None,
    url: Url = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Sets whether claims go into the group and out of it automatically, after a person's decision, or never.

    \b
    memory-sql group share harbor review --agent ada
    """
    rule = None if sharing == "default" else sharing
    found = run(
        url, data, lambda memory: memory.groups.share(group_id, rule, agent_id=agent, actor=actor, reason=reason)
    )
    output.one(found, _group_text, as_json)


@app.command()
def add(
    group_id: GroupId,
    agent: Agent,
    user: Person,
    source: Annotated[
        Literal["host", "import", "inferred"], typer.Option("--source", help="Who declares the membership.")
    ] = "host",
    actor: Actor = None,
    reason: Reason = None,
    url: Url = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Makes a user a member, also one who has left before.

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


@app.command()
def remove(
    group_id: GroupId,
    agent: Agent,
    user: Person,
    keep: Annotated[bool, typer.Option("--keep", help="Keep what only they contributed.")] = False,
    actor: Actor = None,
    reason: Reason = None,
    url: Url = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Ends a membership: the user no longer sees anything of the group.

    \b
    memory-sql group remove harbor --agent ada --user mia --reason "Changed teams"

    What only they contributed is archived, and the group's text is rewritten by the next consolidation.
    """
    left = run(
        url,
        data,
        lambda memory: memory.groups.remove_member(
            group_id, user, agent_id=agent, keep=keep, actor=actor, reason=reason
        ),
    )
    output.one(left, _departure_text, as_json)


@app.command()
def members(
    group_id: GroupId,
    agent: Agent,
    as_of: AsOf = None,
    url: Url = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Lists the members of a group, now or at a past moment.

    \b
    memory-sql group members harbor --agent ada
    """
    past = moment("--as-of", as_of)
    found = run(url, data, lambda memory: memory.groups.members(group_id, agent_id=agent, as_of=past))
    output.rows(found, _member_text, as_json, "nobody belongs to this group")


@app.command("list")
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
    sharing = f", sharing {group.sharing}" if group.sharing else ""
    return f"{group.group_id}{called}  {group.scope_id}, {output.many(group.members, 'member')}{sharing}"


def _member_text(member: Member) -> str:
    left = f", until {output.minute(member.left_at)}" if member.left_at else ""
    return f"{member.user_id}  {member.group_id}, since {output.minute(member.joined_at)}{left} ({member.source})"


def _departure_text(left: Departure) -> str:
    lines = [f"{left.user_id} left {left.group_id}, {output.minute(left.left_at)}"]
    if left.archived:
        lines.append(f"archived: {', '.join(left.archived)}")
    if left.retracted:
        lines.append(f"retracted: {', '.join(left.retracted)}")
    if left.withdrawn:
        lines.append(f"kept by legal holds, out of use: {', '.join(left.withdrawn)}")
    if left.withheld:
        lines.append(f"to be rewritten: {', '.join(left.withheld)}")
    return "\n".join(lines)
