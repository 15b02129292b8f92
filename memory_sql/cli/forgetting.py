"""Deletion for good: forget."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from memory_sql.cli import output
from memory_sql.cli.options import AsJson, Data, Url, run
from memory_sql.errors import InputError

if TYPE_CHECKING:
    from memory_sql.domain.observations import SourceKind
    from memory_sql.domain.results import Kept, Naming, PersonReceipt, Receipt
    from memory_sql.memory import Memory

ALONE = "--all-agents goes with --user, and only with that and --about"
SHOWN = 20  # observations of a preview that are printed in full


def forget(
    agent: Annotated[str | None, typer.Option("--agent", metavar="ID", help="The agent whose memory it is.")] = None,
    user: Annotated[
        str | None, typer.Option("--user", metavar="ID", help="Everything of this user; or narrows the selection.")
    ] = None,
    about: Annotated[
        bool, typer.Option("--about", help="With --user: also what others have said about this user alone.")
    ] = False,
    all_agents: Annotated[
        bool, typer.Option("--all-agents", help="With --user, instead of --agent: what any agent has of this user.")
    ] = False,
    conversation: Annotated[
        str | None, typer.Option("--conversation", metavar="ID", help="A conversation; or narrows the selection.")
    ] = None,
    group: Annotated[
        str | None, typer.Option("--group", metavar="ID", help="A group; or narrows the selection.")
    ] = None,
    message: Annotated[str | None, typer.Option("--message", metavar="ID", help="A message of --conversation.")] = None,
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
    replaced: Annotated[
        bool, typer.Option("--replaced", help="With observations: also what they replaced, which else stands again.")
    ] = False,
    everything: Annotated[bool, typer.Option("--everything", help="Everything of the agent.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be forgotten.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Don't ask.")] = False,
    reason: Annotated[
        str | None, typer.Option("--reason", metavar="TEXT", help="Why; stored with the receipt.")
    ] = None,
    actor: Annotated[
        str | None, typer.Option("--actor", metavar="ID", help="Who asks for it; stored likewise.")
    ] = None,
    url: Url = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Deletes from memory, with everything derived from it, the messages that it came from and the answers to them.

    \b
    memory-sql forget --agent ada --user mia --dry-run
    memory-sql forget --agent ada --user mia --yes
    memory-sql forget --all-agents --user mia --dry-run
    memory-sql forget --agent ada --observation o12-3 --reason "wrong person"

    Texts that contained it are rewritten from what is left, and withheld until then. What legal holds cover is kept but not
    used, and is erased when the last hold is released.
    """
    from memory_sql.domain.selection import Selection

    if all_agents and user is None:
        raise InputError(ALONE)
    selection = Selection(
        user_id=user, about=about, conversation_id=conversation, group_id=group, message_id=message,
        observation_id=observation, fact_key=fact_key, tag=tag, query=query,
        source=cast("SourceKind | None", source), run_id=run_id, replaced=replaced, everything=everything,
    )  # fmt: skip

    if all_agents and selection != Selection(user_id=user, about=about):
        raise InputError(ALONE)
    if all_agents == (agent is not None):
        raise InputError("whose memory is it? pass --agent, or for a user --all-agents")

    async def work(memory: Memory) -> Receipt | PersonReceipt:
        async def forget(*, dry_run: bool) -> Receipt | PersonReceipt:
            cause: dict[str, Any] = {"dry_run": dry_run, "reason": reason, "actor": actor}
            if agent is None:
                return await memory.people.forget(str(user), about=about, **cause)
            return await memory.forget(selection, agent_id=agent, **cause)

        if dry_run:
            return await forget(dry_run=True)
        if not yes:
            _ask(await forget(dry_run=True))
        return await forget(dry_run=False)

    receipt = run(url, data, work)
    output.one(receipt, _text, as_json)


def _ask(planned: Receipt | PersonReceipt) -> None:
    if not output.can_ask():
        raise InputError(
            "nothing was forgotten: use --yes if nobody can answer, or --dry-run to see what would be forgotten"
        )
    print(_text(planned), file=sys.stderr)
    if not typer.confirm("Forget this?", err=True):
        raise InputError("nothing was forgotten")


def _why(kept: Kept) -> str:
    users = ", ".join(kept.users)
    match kept.reason:
        case "another":
            return f"also said by {users}"
        case "elsewhere":
            return f"said elsewhere too, by {users}"
        case "host":
            return "stated by the host"
        case "source":
            return "derived from something else as well"
        case "again":
            return f"in other words, by {users or 'the host'}; it stands again"
        case "about":
            return f"said about them by {users or 'the host'}"


def _text(receipt: Receipt | PersonReceipt) -> str:
    from memory_sql.domain.results import PersonReceipt

    if not isinstance(receipt, PersonReceipt):
        return receipt_text(receipt)
    if not receipt.agents:
        return f"receipt {receipt.id}: no agent has anything of {output.plain(receipt.user_id)}"
    parts = [f"agent {output.plain(agent)}\n{receipt_text(one)}" for agent, one in receipt.agents.items()]
    return "\n\n".join([*parts, f"receipt {receipt.id}, of {output.many(len(parts), 'agent')} together"])


def _naming(naming: Sequence[Naming]) -> list[str]:
    """Which texts of others still name who is forgotten; none of what they say."""
    versions, observations = (sum(len(getattr(one, kind)) for one in naming) for kind in ("versions", "observations"))
    counted = f"{output.many(versions, 'version')} of texts and {output.many(observations, 'observation')}"
    lines = [f"still named by others: {counted} in {output.many(len(naming), 'scope')}"]
    for one in naming[:SHOWN]:
        told = [f"versions {', '.join(map(str, one.versions))}"] if one.versions else []
        lines.append(
            f"  {one.scope_id}  {'; '.join([*told, *([' '.join(one.observations)] if one.observations else [])])}"
        )
    return lines + ([f"  and {len(naming) - SHOWN:,} more"] if len(naming) > SHOWN else [])


def receipt_text(receipt: Receipt) -> str:
    many = output.many
    counts = ", ".join(f"{count:,} {name}" for name, count in receipt.counts.items() if count) or "nothing"
    lines = [f"{'would be forgotten' if receipt.dry_run else 'forgotten'}: {counts}"]
    if receipt.observations:
        more = len(receipt.observations) - SHOWN
        lines.append(f"  {' '.join(receipt.observations[:SHOWN])}{f' and {more:,} more' if more > 0 else ''}")
    if any(receipt.held.values()):
        lines.append(
            f"kept by legal holds, out of use: {', '.join(f'{count:,} {name}' for name, count in receipt.held.items())}"
        )
    if receipt.kept:
        lines.append(f"stays: {many(len(receipt.kept), 'observation')}")
        more = len(receipt.kept) - SHOWN
        lines += [f"  {kept.observation}  {output.plain(_why(kept))}" for kept in receipt.kept[:SHOWN]]
        lines += [f"  and {more:,} more"] if more > 0 else []
    if receipt.standing:
        more = len(receipt.standing) - SHOWN
        again = f"{' '.join(receipt.standing[:SHOWN])}{f' and {more:,} more' if more > 0 else ''}"
        lines.append(f"{'would stand again' if receipt.dry_run else 'stands again'}, as before they gave way: {again}")
    if receipt.naming:
        lines += _naming(receipt.naming)
    if receipt.withheld:
        scopes = " ".join(receipt.withheld)
        lines.append(f"{'to be rewritten' if receipt.dry_run else 'withheld until rewritten'}: {scopes}")
    if receipt.rebuilt:
        lines.append(f"rewritten: {many(len(receipt.rebuilt), 'text')}")
    if not receipt.dry_run and receipt.physical is None:
        lines.append(f"receipt {receipt.id}; there was nothing of the kind, so nothing had to be deleted")
    elif not receipt.dry_run and receipt.physical is not None:
        lines.append(
            f"receipt {receipt.id}; run `memory-sql db vacuum` to free the space; backups contain it until "
            f"{output.day(receipt.physical.backups_until)}"
        )
    return "\n".join(lines)
