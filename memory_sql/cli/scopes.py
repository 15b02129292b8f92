"""Scopes and their texts: create, show, set, list, history, diff, consolidate, undo, propagate."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from memory_sql.cli import output, scope_settings, tree
from memory_sql.cli.batches import consolidate_each, end
from memory_sql.cli.options import (
    Agent,
    AnyUser,
    AsJson,
    AsOf,
    Data,
    InConversation,
    Limit,
    MaybeScope,
    Scope,
    Url,
    User,
    moment,
    run,
)
from memory_sql.errors import InputError

if TYPE_CHECKING:
    from memory_sql.domain import scopes
    from memory_sql.domain.results import ConsolidateResult, Judged, PropagateResult
    from memory_sql.memory import Memory

app = tree.group("Scopes, their settings and their texts.")
app.command("create")(scope_settings.create)
app.command("show")(scope_settings.show)
app.command("set")(scope_settings.change)


@app.command("list")
def list_scopes(
    agent: Agent,
    user: User,
    conversation: InConversation = None,
    text: Annotated[bool, typer.Option("--text", help="Also print their texts.")] = False,
    url: Url = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Lists the scopes that the user may see.

    \b
    memory-sql scope list --agent ada --user mia --text
    """
    found = run(
        url, data, lambda memory: memory.scopes.list(agent_id=agent, user_id=user, conversation_id=conversation)
    )
    output.rows(found, _with_text if text else _line, as_json, f"no scope of {agent} yet that {user} may see")


def _with_text(scope: scopes.Scope) -> str:
    return "\n".join((_line(scope), *([output.indented(scope.consolidation)] if scope.consolidation else [])))


def _line(scope: scopes.Scope) -> str:
    text = f"text v{scope.version} of {output.minute(scope.consolidated_at)}" if scope.version else "no text yet"
    return (
        f"{scope.ref.id}  {scope.ref}  {output.many(scope.observations, 'observation')}, {scope.pending:,} pending, "
        f"{text}{'' if scope.is_active else ', switched off'}"
    )


@app.command()
def history(
    agent: Agent,
    user: User,
    conversation: InConversation = None,
    scope: MaybeScope = None,
    limit: Limit = 50,
    as_of: AsOf = None,
    url: Url = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Lists the versions of scopes' texts, newest first.

    \b
    memory-sql scope history s12 --agent ada --user mia
    """
    found = run(
        url,
        data,
        lambda memory: memory.scopes.history(
            agent_id=agent,
            user_id=user,
            conversation_id=conversation,
            scope_id=scope,
            limit=limit,
            as_of=moment("--as-of", as_of),
        ),
    )
    output.rows(found, _version_text, as_json, "no text has been written yet")


def _version_text(version: scopes.Consolidation) -> str:
    v = version
    absorbed = f"observations {v.from_seq + 1}–{v.to_seq}" if v.to_seq > v.from_seq else "no new observations"
    head = (
        f"{v.scope.id} v{v.version}  {v.scope}  {output.minute(v.created_at)}  {v.words} words of {absorbed}, "
        f"{v.reason} ({v.model or 'no model'}){'' if v.live else ', undone'}"
    )
    return f"{head}\n{output.indented(v.content)}"


@app.command()
def diff(
    scope: Scope,
    agent: Agent,
    user: User,
    conversation: InConversation = None,
    from_version: Annotated[
        str | None,
        typer.Option(
            "--from", metavar="V", help="This version, or the one at this time; default: the one before --to."
        ),
    ] = None,
    to_version: Annotated[
        str | None, typer.Option("--to", metavar="V", help="And this one; default: the newest.")
    ] = None,
    url: Url = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Shows what changed in a scope's text between two versions.

    \b
    memory-sql scope diff s12 --agent ada --user mia
    memory-sql scope diff s12 --agent ada --user mia --from 3 --to 7
    memory-sql scope diff s12 --agent ada --user mia --from 2026-03-02T00:00:00Z

    Sentence by sentence: - was removed, + was added. Version 0 is the state before the first text.
    """
    found = run(
        url,
        data,
        lambda memory: memory.scopes.diff(
            agent_id=agent,
            user_id=user,
            conversation_id=conversation,
            scope_id=scope,
            from_version=_version("--from", from_version),
            to_version=_version("--to", to_version),
        ),
    )
    output.one(found, _diff_text, as_json)


def _version(option: str, text: str | None) -> int | datetime | None:
    """`7` and `v7` are version 7, anything else a time."""
    digits = (text or "").removeprefix("v")
    return int(digits) if digits.isascii() and digits.isdecimal() and len(digits) < 10 else moment(option, text)


def _diff_text(diff: scopes.Diff) -> str:
    head = [f"--- {diff.scope.id} v{diff.from_version}", f"+++ {diff.scope.id} v{diff.to_version}"]
    mark = {"kept": " ", "removed": "-", "added": "+"}
    lines = [f"{mark[sentence.change]} {output.flat(sentence.text)}" for sentence in diff.sentences]
    what = {"absorbed": diff.absorbed, "given back": diff.given_back}
    return "\n".join([*head, *lines, *(f"{name}: {', '.join(ids)}" for name, ids in what.items() if ids)])


@app.command()
def consolidate(
    agent: Agent,
    scope: MaybeScope = None,
    user: AnyUser = None,
    url: Url = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Rewrites a scope's text with its pending observations.

    \b
    memory-sql scope consolidate --agent ada --user mia
    memory-sql scope consolidate s12 --agent ada

    Without SCOPE: every scope that the user may see and that has pending observations. A text that fails its checks
    isn't used; the old one stays, and the exit code is 1.
    """

    async def work(memory: Memory) -> tuple[list[ConsolidateResult], dict[str, str]]:
        if scope is not None:
            return await consolidate_each(memory, agent, [scope])
        if user is None:
            raise InputError("which scopes? name one, or pass --user")
        visible = await memory.scopes.list(agent_id=agent, user_id=user)
        return await consolidate_each(memory, agent, [one.ref.id for one in visible if one.pending], quiet=as_json)

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


@app.command()
def undo(
    scope: Scope,
    agent: Agent,
    url: Url = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Undoes the newest consolidation of a scope.

    \b
    memory-sql scope undo s12 --agent ada

    The previous text is back, as a new version. The observations that the undone version absorbed are pending again, and
    not due until the scope learns something new.
    """
    undone = run(url, data, lambda memory: memory.scopes.undo(agent_id=agent, scope_id=scope))
    output.one(undone, _undone_text, as_json)


def _undone_text(undone: ConsolidateResult) -> str:
    head = f"{undone.scope.id}  {undone.scope}  v{undone.version}"
    return f"{head}\n{output.indented(undone.content)}" if undone.content else f"{head}, no text"


@app.command()
def propagate(
    agent: Agent,
    scope: MaybeScope = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show what would be shared; this calls the model too.")
    ] = False,
    url: Url = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Judges what scopes know for the next wider scopes, and stores there what may be shared.

    \b
    memory-sql scope propagate --agent ada --dry-run
    memory-sql scope propagate s12 --agent ada

    Without SCOPE: every scope that has something to judge. Only observations that a scope's text has absorbed are judged,
    each once. If the model fails, nothing of that scope is shared, other scopes continue, and the exit code is 1.
    """
    done = run(url, data, lambda memory: memory.scopes.propagate(agent_id=agent, scope_id=scope, dry_run=dry_run))
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
