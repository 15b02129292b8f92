"""People: list, merge, unmerge, aliases, rename, export."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from memory_sql.cli import output, tree
from memory_sql.cli.options import Actor, After, Agent, AsJson, Data, Limit, Person, Reason, Url, run
from memory_sql.cli.progress import Telling

if TYPE_CHECKING:
    from memory_sql.domain.exports import ExportHeader, ExportLine
    from memory_sql.domain.people import Alias, Merged, Renamed, UserSummary
    from memory_sql.memory import Memory

LINES_BETWEEN = 100  # two looks at the clock

app = tree.group("People: their ids, and everything that is stored about them.")


@app.command("list")
def list_users(
    agent: Agent,
    after: After = None,
    limit: Limit = 100,
    url: Url = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Lists an agent's users, in the order of their ids.

    \b
    memory-sql person list --agent ada
    memory-sql person list --agent ada --after mia --limit 1000

    These are the users who have written in a conversation, have a memory of their own, or belong or belonged to a group.
    """
    found = run(url, data, lambda memory: memory.people.list(agent_id=agent, after=after, limit=limit))
    output.rows(found, _user_line, as_json, "no users")


def _user_line(user: UserSummary) -> str:
    u = user
    active = f", last active {output.minute(u.last_active_at)}" if u.last_active_at else ""
    counts = (output.many(u.conversations, "conversation"), output.many(u.observations, "observation"))
    stands_for = f"; stands for {u.stands_for}" if u.stands_for else ""
    return output.plain(f"{u.user_id}  {', '.join(counts)}, {output.many(u.groups, 'group')}{active}{stands_for}")


@app.command()
def merge(
    agent: Agent,
    user: Annotated[str, typer.Option("--user", metavar="ID", help="The user who becomes an alias.")],
    into: Annotated[str, typer.Option("--into", metavar="ID", help="The user who then sees what both may see.")],
    actor: Actor = None,
    reason: Reason = None,
    url: Url = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Makes one user id an alias of another, for example when a visitor has logged in.

    \b
    memory-sql person merge --agent ada --user visitor-17 --into mia

    Nothing is copied or moved; `unmerge` undoes it exactly.
    """
    merged = run(
        url,
        data,
        lambda memory: memory.people.merge(agent_id=agent, user_id=user, into_user_id=into, actor=actor, reason=reason),
    )
    output.one(merged, _merged_text, as_json)


@app.command()
def unmerge(
    agent: Agent,
    user: Annotated[str, typer.Option("--user", metavar="ID", help="The user who is an alias.")],
    actor: Actor = None,
    reason: Reason = None,
    url: Url = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Undoes a merge: the user id isn't an alias any more.

    \b
    memory-sql person unmerge --agent ada --user visitor-17
    """
    alias = run(
        url, data, lambda memory: memory.people.unmerge(agent_id=agent, user_id=user, actor=actor, reason=reason)
    )
    output.one(alias, _alias_text, as_json)


@app.command()
def aliases(agent: Agent, user: Person, url: Url = None, data: Data = None, as_json: AsJson = False) -> None:
    """Lists the aliases of a user, also indirect ones, oldest first.

    \b
    memory-sql person aliases --agent ada --user mia
    """
    found = run(url, data, lambda memory: memory.people.aliases(agent_id=agent, user_id=user))
    output.rows(found, _alias_text, as_json, "this user has no aliases")


def _merged_text(merged: Merged) -> str:
    gone = f"\nerased from the collective scope: {' '.join(merged.retracted)}" if merged.retracted else ""
    heard = f"\nheard by one, see `work reviews`: {' '.join(merged.heard_by_one)}" if merged.heard_by_one else ""
    return f"{_alias_text(merged)}{gone}{heard}"


def _alias_text(alias: Alias) -> str:
    ended = f", until {output.minute(alias.ended_at)}" if alias.ended_at else ""
    return f"{alias.user_id} stands for {alias.into_user_id}, since {output.minute(alias.created_at)}{ended}"


@app.command()
def rename(
    old: Annotated[str, typer.Argument(metavar="OLD", help="The current id.")],
    new: Annotated[str, typer.Argument(metavar="NEW", help="The new id.")],
    agent: Agent,
    kind: Annotated[Literal["user", "group", "conversation"], typer.Option("--kind", help="The kind of the id.")],
    actor: Actor = None,
    reason: Reason = None,
    url: Url = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Changes the id of a user, group or conversation everywhere, in one transaction.

    \b
    memory-sql person rename mia@old.example mia@new.example --kind user --agent ada

    Stop using the old id first: what is added under it later belongs to a new user. If the new id exists, nothing is
    changed; merge two users instead.
    """
    of: Literal["user", "group", "conversation"] = "conversation" if kind == "conversation" else kind
    renamed = run(
        url,
        data,
        lambda memory: memory.people.rename(agent_id=agent, kind=of, old=old, new=new, actor=actor, reason=reason),
    )
    output.one(renamed, _renamed_text, as_json)


def _renamed_text(renamed: Renamed) -> str:
    changed = ", ".join(f"{count:,} of {table}" for table, count in renamed.rows.items())
    kind = "conversation" if renamed.kind == "conversation" else renamed.kind
    return f"{kind} {renamed.old} is {renamed.new} now (rows: {changed})"


@app.command()
def export(
    agent: Agent,
    user: Person,
    file: Annotated[Path | None, typer.Argument(metavar="[FILE]", help="Where to write it; default: stdout.")] = None,
    url: Url = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Writes everything that is stored about a person, as JSON Lines.

    \b
    memory-sql person export --agent ada --user mia mia.jsonl
    memory-sql person export --agent ada --user mia | jq 'select(.type == "observation").content'

    The first line counts the others, by type. The file appears only when it is complete, readable by you alone.
    """

    async def work(memory: Memory) -> ExportHeader:
        async with aclosing(memory.people.export(agent_id=agent, user_id=user)) as lines:
            if file is None:
                return await _write(lines, output.json_line, quiet=True)
            with output.whole_file(file) as to:
                return await _write(lines, lambda line: print(line.model_dump_json(), file=to), quiet=as_json)

    header = run(url, data, work)
    if file is not None:
        output.one(header, lambda header: _header_text(header, file), as_json)


async def _write(lines: AsyncIterator[ExportLine], put: Callable[[ExportLine], None], *, quiet: bool) -> ExportHeader:
    from memory_sql.domain.exports import ExportHeader
    from memory_sql.domain.results import Progress

    header = await anext(lines)
    assert isinstance(header, ExportHeader)  # guaranteed by `people.export`
    put(header)
    most, count = sum(header.counts.values()), 0
    with Telling(quiet=quiet) as progress:
        async for line in lines:
            put(line)
            count += 1
            if count % LINES_BETWEEN == 0:
                progress.told(Progress(step="exporting", count=count, unit="lines", of=most, done=count, total=most))
    return header


def _header_text(header: ExportHeader, file: Path) -> str:
    counted = ", ".join(output.many(count, kind) for kind, count in header.counts.items() if count)
    return f"{file}: {counted or 'nothing is stored about them'}"
