"""Commands about forgetting: forget, restore-check."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from memory_sql.cli import output
from memory_sql.cli.options import Agent, AsJson, Data, Url, run
from memory_sql.domain.selection import Selection
from memory_sql.errors import InputError

if TYPE_CHECKING:
    from memory_sql.domain.observations import SourceKind
    from memory_sql.domain.results import Receipt
    from memory_sql.memory import Memory

SHOWN = 20  # observations of a preview that are printed in full


def forget(
    agent: Agent,
    user: Annotated[
        str | None, typer.Option("--user", metavar="ID", help="All that is this user's, or narrows the choice.")
    ] = None,
    session: Annotated[
        str | None, typer.Option("--session", metavar="ID", help="A conversation, or narrows the choice.")
    ] = None,
    group: Annotated[str | None, typer.Option("--group", metavar="ID", help="A group, or narrows the choice.")] = None,
    message: Annotated[str | None, typer.Option("--message", metavar="ID", help="A message of --session.")] = None,
    observation: Annotated[
        str | None, typer.Option("--observation", metavar="ID", help="One observation: o12-3.")
    ] = None,
    fact_key: Annotated[str | None, typer.Option("--fact-key", metavar="KEY", help="Those with this fact key.")] = None,
    tag: Annotated[str | None, typer.Option("--tag", metavar="TAG", help="Those with this tag.")] = None,
    query: Annotated[str | None, typer.Option("--query", metavar="WORDS", help="Those with all these words.")] = None,
    source: Annotated[
        str | None, typer.Option("--source", metavar="KIND", help="formation, observe, propagation or import.")
    ] = None,
    run_id: Annotated[int | None, typer.Option("--run", metavar="ID", help="Those that this run made.")] = None,
    everything: Annotated[bool, typer.Option("--everything", help="All of the agent.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would go.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Don't ask.")] = False,
    reason: Annotated[str | None, typer.Option("--reason", metavar="TEXT", help="Why; kept with the receipt.")] = None,
    actor: Annotated[str | None, typer.Option("--actor", metavar="ID", help="Who wants it; kept likewise.")] = None,
    url: Url = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Takes something out of memory, with all that was made of it and the words that it was made of.

    \b
    memory-sql forget --agent ada --user mia --dry-run
    memory-sql forget --agent ada --user mia --yes
    memory-sql forget --agent ada --observation o12-3 --reason "wrong person"

    Texts that held it are written anew from what is left; until then they are withheld. What legal holds cover is kept.
    """

    selection = Selection(
        user_id=user, session_id=session, group_id=group, message_id=message, observation_id=observation,
        fact_key=fact_key, tag=tag, query=query, source=cast("SourceKind | None", source), run_id=run_id,
        everything=everything,
    )  # fmt: skip

    async def work(memory: Memory) -> Receipt:
        async def forget(*, dry_run: bool) -> Receipt:
            return await memory.forget(selection, agent_id=agent, dry_run=dry_run, reason=reason, actor=actor)

        if dry_run:
            return await forget(dry_run=True)
        if not yes:
            _ask(await forget(dry_run=True))
        return await forget(dry_run=False)

    receipt = run(url, data, work)
    output.one(receipt, _receipt_text, as_json)


def _ask(planned: Receipt) -> None:
    if not _somebody_is_there():
        raise InputError(
            "nothing was forgotten: say --yes where nobody can be asked, or --dry-run to see what would go"
        )
    print(_receipt_text(planned), file=sys.stderr)
    if not typer.confirm("Forget this?", err=True):
        raise InputError("nothing was forgotten")


def _somebody_is_there() -> bool:
    return sys.stdin.isatty()


def _receipt_text(receipt: Receipt) -> str:
    many = output.many
    counts = ", ".join(f"{count:,} {name}" for name, count in receipt.counts.items() if count) or "nothing"
    lines = [f"{'would go' if receipt.dry_run else 'forgotten'}: {counts}"]
    if receipt.observations:
        more = len(receipt.observations) - SHOWN
        lines.append(f"  {' '.join(receipt.observations[:SHOWN])}{f' and {more:,} more' if more > 0 else ''}")
    if any(receipt.held.values()):
        lines.append(f"kept by legal holds: {', '.join(f'{count:,} {name}' for name, count in receipt.held.items())}")
    if receipt.withheld:
        scopes = " ".join(receipt.withheld)
        lines.append(f"{'to be written anew' if receipt.dry_run else 'withheld until written anew'}: {scopes}")
    if receipt.rebuilt:
        lines.append(f"written anew: {many(len(receipt.rebuilt), 'text')}")
    if not receipt.dry_run:
        lines.append(
            f"receipt {receipt.id}; run `memory-sql db vacuum` to free the space; backups hold it until "
            f"{output.day(receipt.physical.backups_until)}"
        )
    return "\n".join(lines)


def restore_check(
    journal: Annotated[
        Path | None, typer.Option("--journal", metavar="FILE", help="What was forgotten; else the one of the settings.")
    ] = None,
    unsure: Annotated[
        bool, typer.Option("--unsure", help="Also forgettings that may not have been committed.")
    ] = False,
    url: Url = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Forgets again, on a restored backup, what was forgotten since it was made. To be run before anybody reads it.

    \b
    memory-sql restore-check --journal /safe/forgotten.jsonl

    The journal is the file that the setting forget_journal names; it belongs outside the database's backups.
    """

    async def work(memory: Memory) -> list[Receipt]:
        file = journal or memory.settings.forget_journal
        if file is None:
            raise InputError("which journal? say --journal, or set forget_journal")
        return await memory.admin.restore_check(file, unsure=unsure)

    output.rows(run(url, data, work), _receipt_text, as_json, "nothing was forgotten since this backup was made")
