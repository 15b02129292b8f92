"""Commands on what goes to wider scopes: propagate, held-claims, review."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from memory_sql.cli import output
from memory_sql.cli.conversations import end
from memory_sql.cli.options import Agent, AsJson, Data, Limit, ScopeId, Url, run
from memory_sql.errors import InputError

if TYPE_CHECKING:
    from memory_sql.domain.results import HeldClaim, Judged, PropagateResult

Source = Annotated[str, typer.Argument(metavar="ID", help="The observation, as `held-claims` shows it: o12-3.")]
Target = Annotated[str, typer.Option("--scope-id", metavar="ID", help="The scope that it is held from: 12 or s12.")]
Actor = Annotated[str | None, typer.Option("--actor", metavar="ID", help="Who says so, for the record.")]
Reason = Annotated[str | None, typer.Option("--reason", metavar="TEXT", help="Why, for the record.")]


def propagate(
    agent: Agent,
    scope_id: ScopeId = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say what would go; the model is asked all the same.")
    ] = False,
    url: Url = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Judges what scopes know for the scopes one level up, and stores there what may go.

    \b
    memory-sql propagate --agent ada --dry-run
    memory-sql propagate --agent ada --scope-id s12

    Of one scope, else of every scope that has something to judge. Only what is in a scope's text is judged, and once. Where
    the model fails nothing has gone anywhere, other scopes go on, and the exit code is 1.
    """
    done = run(url, data, lambda memory: memory.scopes.propagate(agent_id=agent, scope_id=scope_id, dry_run=dry_run))
    output.one(done, _propagated_text, as_json)
    end(done.failed)


def _propagated_text(done: PropagateResult) -> str:
    if not done.judged:
        return "nothing was judged" if done.failed else "nothing to judge"
    goes = "would be propagated" if done.dry_run else "propagated"
    head = f"{len(done.propagated):,} of {output.many(len(done.judged), 'claim')} {goes} ({done.model})"
    return "\n".join((head, *map(_judged_line, done.judged)))


def _judged_line(judged: Judged) -> str:
    j = judged
    what = f"  {output.flat(j.text)}" if j.text else ""
    place = f" as {j.observation}" if j.observation else ""
    return f"{j.source}  {output.plain(j.target)}  {j.outcome}{place}: {j.reason}{what}"


def held_claims(agent: Agent, limit: Limit = 100, url: Url = None, data: Data = None, as_json: AsJson = False) -> None:
    """Lists claims that many new users made at once, which go nowhere before a person has looked.

    \b
    memory-sql held-claims --agent ada
    """
    found = run(url, data, lambda memory: memory.work.held_claims(agent_id=agent, limit=limit))
    output.rows(found, _held_line, as_json, "nothing is held")


def _held_line(held: HeldClaim) -> str:
    h = held
    return f"{h.source}  from {h.target_scope_id}, {output.minute(h.judged_at)}  {output.flat(h.content)}"


def review(
    observation: Source,
    agent: Agent,
    scope_id: Target,
    release: Annotated[
        bool | None, typer.Option("--release/--refuse", help="It is judged again; or it never goes there.")
    ] = None,
    actor: Actor = None,
    reason: Reason = None,
    url: Url = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Says of a held claim whether it may go to that scope.

    \b
    memory-sql review o12-3 --agent ada --scope-id s4 --release --actor desk

    Released, it is judged again as if those who said it weren't new; a worker does that, or `propagate`.
    """
    if release is None:
        raise InputError("say either --release or --refuse")
    number = scope_id
    run(
        url,
        data,
        lambda memory: memory.work.review(
            observation, agent_id=agent, target_scope_id=number, share=release, actor=actor, reason=reason
        ),
    )
    done = {"observation": observation, "scope_id": number, "outcome": "released" if release else "refused"}
    output.one(done, lambda r: f"{r['observation']}: {r['outcome']} for s{r['scope_id']}", as_json)
