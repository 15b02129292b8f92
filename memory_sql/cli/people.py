"""Commands on people's own rights: export, merge-users, unmerge-users, aliases, rename, hold, holds, release."""

from __future__ import annotations

import os
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import aclosing, contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Literal

import typer

from memory_sql.cli import output
from memory_sql.cli.options import Agent, AsJson, Data, Url, run
from memory_sql.errors import InputError

if TYPE_CHECKING:
    from memory_sql.domain.exports import ExportHeader, ExportLine
    from memory_sql.domain.people import Alias, Hold, Renamed
    from memory_sql.memory import Memory

Person = Annotated[str, typer.Option("--user", metavar="ID", help="The user.")]
Actor = Annotated[str | None, typer.Option("--actor", metavar="ID", help="Who does it, for the record.")]
Reason = Annotated[str | None, typer.Option("--reason", metavar="TEXT", help="Why, for the record.")]


def export(
    agent: Agent,
    user: Annotated[str, typer.Option("--user", metavar="ID", help="The person.")],
    file: Annotated[Path | None, typer.Argument(metavar="[FILE]", help="Where to write it; else stdout.")] = None,
    url: Url = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Writes everything that is kept about a person, as JSON Lines.

    \b
    memory-sql export --agent ada --user mia mia.jsonl
    memory-sql export --agent ada --user mia | jq 'select(.type == "observation").content'

    The first line counts the others, by type. A file appears when it is whole, readable by nobody else.
    """

    async def work(memory: Memory) -> ExportHeader:
        async with aclosing(memory.people.export(agent_id=agent, user_id=user)) as lines:
            if file is None:
                return await _write(lines, output.json_line)
            with _whole(file) as to:
                return await _write(lines, lambda line: print(line.model_dump_json(), file=to))

    header = run(url, data, work)
    if file is not None:
        output.one(header, lambda header: _header_text(header, file), as_json)


async def _write(lines: AsyncIterator[ExportLine], put: Callable[[ExportLine], None]) -> ExportHeader:
    from memory_sql.domain.exports import ExportHeader

    header = await anext(lines)
    assert isinstance(header, ExportHeader)  # by promise of `Memory.export`
    put(header)
    async for line in lines:
        put(line)
    return header


@contextmanager
def _whole(file: Path) -> Iterator[IO[str]]:
    """A file beside, readable by nobody else, that takes the place of `file` when all has been written."""
    try:
        descriptor, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
    except OSError as error:
        raise InputError(f"{file} can't be written: {error.strerror}") from error
    try:
        with open(descriptor, "w", encoding="utf-8", newline="\n") as to:
            yield to
        os.replace(name, file)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(name)
        raise


def _header_text(header: ExportHeader, file: Path) -> str:
    counted = ", ".join(output.many(count, kind) for kind, count in header.counts.items() if count)
    return f"{file}: {counted or 'nothing is kept about them'}"


def merge_users(
    agent: Agent,
    user: Annotated[str, typer.Option("--user", metavar="ID", help="The user who stands for another from now on.")],
    into: Annotated[str, typer.Option("--into", metavar="ID", help="The other, who sees what both may see.")],
    actor: Actor = None,
    reason: Reason = None,
    url: Url = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Makes a user stand for another: who was anonymous has logged in.

    \b
    memory-sql merge-users --agent ada --user visitor-17 --into mia

    Nothing is copied or moved; `unmerge-users` undoes it exactly.
    """
    alias = run(
        url,
        data,
        lambda memory: memory.people.merge(agent_id=agent, user_id=user, into_user_id=into, actor=actor, reason=reason),
    )
    output.one(alias, _alias_text, as_json)


def unmerge_users(
    agent: Agent,
    user: Annotated[str, typer.Option("--user", metavar="ID", help="The user who stands for another.")],
    actor: Actor = None,
    reason: Reason = None,
    url: Url = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Makes a merged user stand for nobody but itself again.

    \b
    memory-sql unmerge-users --agent ada --user visitor-17
    """
    alias = run(
        url, data, lambda memory: memory.people.unmerge(agent_id=agent, user_id=user, actor=actor, reason=reason)
    )
    output.one(alias, _alias_text, as_json)


def aliases(agent: Agent, user: Person, url: Url = None, data: Data = None, as_json: AsJson = False) -> None:
    """Lists what stands for a user, also through others, oldest first.

    \b
    memory-sql aliases --agent ada --user mia
    """
    found = run(url, data, lambda memory: memory.people.aliases(agent_id=agent, user_id=user))
    output.rows(found, _alias_text, as_json, "nobody stands for this user")


def _alias_text(alias: Alias) -> str:
    ended = f", until {output.minute(alias.ended_at)}" if alias.ended_at else ""
    return f"{alias.user_id} stands for {alias.into_user_id}, since {output.minute(alias.created_at)}{ended}"


def rename(
    old: Annotated[str, typer.Argument(metavar="OLD", help="The id that is there.")],
    new: Annotated[str, typer.Argument(metavar="NEW", help="The id that it becomes.")],
    agent: Agent,
    kind: Annotated[Literal["user", "group", "session"], typer.Option("--kind", help="What it is the id of.")],
    actor: Actor = None,
    reason: Reason = None,
    url: Url = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Changes the id of a user, group or session wherever it stands, all at once.

    \b
    memory-sql rename mia@old.example mia@new.example --kind user --agent ada

    Let nobody use the old id any more before: what comes in under it afterwards begins anew. Where the new id exists,
    nothing is done; a user can be merged into another.
    """
    renamed = run(
        url,
        data,
        lambda memory: memory.people.rename(agent_id=agent, kind=kind, old=old, new=new, actor=actor, reason=reason),
    )
    output.one(renamed, _renamed_text, as_json)


def _renamed_text(renamed: Renamed) -> str:
    changed = ", ".join(f"{count:,} of {table}" for table, count in renamed.rows.items())
    return f"{renamed.kind} {renamed.old} is {renamed.new} now (rows: {changed})"


def hold(
    agent: Agent,
    user: Annotated[str | None, typer.Option("--user", metavar="ID", help="Of this user, everything.")] = None,
    session: Annotated[str | None, typer.Option("--session", metavar="ID", help="Of this session, everything.")] = None,
    group: Annotated[str | None, typer.Option("--group", metavar="ID", help="Of this group, everything.")] = None,
    observation: Annotated[
        str | None, typer.Option("--observation", metavar="ID", help="This observation, as `list` shows it: o12-3.")
    ] = None,
    actor: Actor = None,
    reason: Reason = None,
    url: Url = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Keeps something from being forgotten (a legal hold), until it is released.

    \b
    memory-sql hold --agent ada --user mia --reason "Case 7"

    What is held already stays held once.
    """

    async def work(memory: Memory) -> Hold:
        held = await memory.holds.place(
            agent_id=agent, user_id=user, session_id=session, group_id=group, observation_id=observation,
            actor=actor, reason=reason,
        )  # fmt: skip
        return next(one for one in await memory.holds.list(agent_id=agent) if one.hold_id == held)

    output.one(run(url, data, work), _hold_text, as_json)


def holds(
    agent: Agent,
    released: Annotated[bool, typer.Option("--released", help="Show those that were released as well.")] = False,
    url: Url = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Lists the legal holds, oldest first.

    \b
    memory-sql holds --agent ada
    """
    found = run(url, data, lambda memory: memory.holds.list(agent_id=agent, released=released))
    output.rows(found, _hold_text, as_json, "nothing is held")


def release(
    hold_id: Annotated[int, typer.Argument(metavar="HOLD_ID", help="The hold, as `holds` shows it.")],
    agent: Agent,
    actor: Actor = None,
    reason: Reason = None,
    url: Url = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Ends a legal hold: what it covers can be forgotten again.

    \b
    memory-sql release 3 --agent ada
    """
    ended = run(url, data, lambda memory: memory.holds.release(hold_id, agent_id=agent, actor=actor, reason=reason))
    output.one(ended, _hold_text, as_json)


def _hold_text(hold: Hold) -> str:
    released = f", released {output.minute(hold.released_at)}" if hold.released_at else ""
    why = f": {output.flat(hold.reason)}" if hold.reason else ""
    return f"{hold.hold_id}  {hold.kind} {hold.target}, since {output.minute(hold.created_at)}{released}{why}"
