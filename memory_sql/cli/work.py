"""Commands about work in the background: worker, maintain, status, retry, discard, undo, trim, verify."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from memory_sql.cli import output
from memory_sql.cli.options import Agent, AsJson, Data, Limit, Url, run
from memory_sql.errors import InputError

if TYPE_CHECKING:
    from memory_sql.domain.results import Backlog, ConsolidateResult, DeadRun, MaintainResult, Trimmed, Violation
    from memory_sql.memory import Memory
    from memory_sql.worker import Worked

OneAgent = Annotated[str | None, typer.Option("--agent", metavar="ID", help="Only this agent; else all.")]
RunId = Annotated[int, typer.Argument(metavar="RUN_ID", help="The run, as `status` shows it.")]


def worker(
    agent: OneAgent = None,
    concurrency: Annotated[int, typer.Option("--concurrency", metavar="N", help="Model calls at once.")] = 4,
    poll: Annotated[
        float, typer.Option("--poll", metavar="SECONDS", help="Look at least so often, where nothing is heard.")
    ] = 5.0,
    grace: Annotated[
        float, typer.Option("--grace", metavar="SECONDS", help="How long what runs may go on after SIGTERM or SIGINT.")
    ] = 10.0,
    once: Annotated[bool, typer.Option("--once", help="Do what is due now, and end.")] = False,
    url: Url = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Forms sessions, consolidates scopes and propagates what they have learnt, as that becomes due.

    \b
    memory-sql worker
    memory-sql worker --once --agent ada       (from cron)

    It goes on until SIGTERM or SIGINT. Then it takes nothing new, gives what runs time to end and gives back the rest,
    so that others, or itself later, can do it at once. Start as many as you like, on as many machines. What it does is
    told on stderr.
    """

    async def work(memory: Memory) -> Worked:
        from memory_sql.worker import Worker

        worker = Worker(memory, concurrency=concurrency, poll_seconds=poll, agent_id=agent, grace_seconds=grace)
        with _told(), _stopping() as stop:
            return await (worker.run_once(stop) if once else worker.run(stop))

    worked = run(url, data, work)
    output.one(worked, _worked_text, as_json)
    if once and worked.failed:
        raise typer.Exit(1)


@contextmanager
def _stopping() -> Iterator[asyncio.Event]:
    """An event that the first SIGTERM or SIGINT sets; the next one ends the process as ever."""
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def end(_number: int, _frame: object) -> None:
        restore()
        loop.call_soon_threadsafe(stop.set)

    for number in before:
        signal.signal(number, end)
    try:
        yield stop
    finally:
        restore()


class _Stderr(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        output.complain(record.getMessage())


@contextmanager
def _told() -> Iterator[None]:
    """What the worker logs goes to stderr meanwhile."""
    log, handler = logging.getLogger("memory_sql"), _Stderr(logging.INFO)
    level = log.level
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    try:
        yield
    finally:
        log.setLevel(level)
        log.removeHandler(handler)


def _worked_text(worked: Worked) -> str:
    many = output.many
    return (
        f"formed {many(worked.formed, 'session')}, consolidated {many(worked.consolidated, 'scope')}, "
        f"propagated {many(worked.propagated, 'claim')}, {worked.failed:,} failed, {worked.interrupted:,} interrupted"
        + (f", embedded {many(worked.embedded, 'observation')}" if worked.embedded else "")
    )


def maintain(
    agent: OneAgent = None,
    limit: Annotated[
        int, typer.Option("--limit", metavar="N", help="At most that many messages, and observations.")
    ] = 100_000,
    url: Url = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Takes the texts of messages whose retention is over, and evicts what is more than budgets.

    \b
    memory-sql maintain

    A worker does it by itself, every maintenance_minutes. How long texts are kept is the setting message_retention_days,
    of each agent. What hasn't been formed yet stays until it has been, and what a legal hold covers until it is released.
    What exceeds a scope's budgets goes where the agent's setting retention is budget, as with `trim`.
    """
    done = run(url, data, lambda memory: memory.work.maintain(agent_id=agent, limit=limit))
    output.one(done, _maintained_text, as_json)


def _maintained_text(done: MaintainResult) -> str:
    evicted = f", {output.many(done.evicted, 'observation')} evicted" if done.evicted else ""
    more = "" if done.complete else "; there may be more"
    texts = "its text" if done.messages == 1 else "their texts"
    return f"{output.many(done.messages, 'message')} lost {texts}{evicted}{more}"


def status(
    agent: OneAgent = None, limit: Limit = 20, url: Url = None, data: Data = None, as_json: AsJson = False
) -> None:
    """Shows what waits, and what was given up.

    \b
    memory-sql status

    Due: could be done now, and nobody is at it; if that grows, start more workers. Retrying: failed, and tried again by
    itself. Given up: the model's answers were unusable several times in a row; the oldest are listed, for `retry` or
    `discard`. Held: claims that many new users made at once; see `held-claims`.
    """

    async def work(memory: Memory) -> tuple[Backlog, list[DeadRun]]:
        return await memory.work.backlog(agent_id=agent), [*await memory.work.dead(agent_id=agent, limit=limit)]

    backlog, dead = run(url, data, work)
    if as_json:
        output.json_line({**backlog.model_dump(), "dead_runs": dead})
    else:
        print("\n".join((_backlog_text(backlog), *map(_dead_line, dead))))


def _backlog_text(backlog: Backlog) -> str:
    b, many = backlog, output.many
    due = f"{many(b.due_sessions, 'session')}, {many(b.due_scopes, 'scope')}"
    due += f", {many(b.due_propagations, 'propagation')}" if b.due_propagations else ""
    facts = {
        "due": due + (f"; the oldest since {output.minute(b.oldest_due_at)}" if b.oldest_due_at else ""),
        "in progress": f"{b.in_progress:,}",
        "retrying": f"{b.retrying:,}",
        "given up": f"{b.dead:,}",
        **({"held": many(b.held, "claim")} if b.held else {}),
    }
    return "\n".join(f"{name:<12} {value}" for name, value in facts.items())


def _dead_line(dead: DeadRun) -> str:
    d = dead
    target = f"session {d.session_id}" if d.session_id is not None else f"scope {d.scope_id}"
    reason = d.error_code if not d.error else f"{d.error_code}: {d.error}"
    return output.plain(
        f"run {d.run_id}  {d.agent_id}  {target}  {output.minute(d.finished_at)}  {output.flat(reason)}"
    )


def retry(run_id: RunId, agent: Agent, url: Url = None, data: Data = None, as_json: AsJson = False) -> None:
    """Makes work that was given up due again.

    \b
    memory-sql retry 17 --agent ada

    For when its cause is mended: another model, another prompt. A worker will do it.
    """
    run(url, data, lambda memory: memory.work.retry(agent_id=agent, run_id=run_id))
    output.one({"run_id": run_id, "state": "due"}, lambda r: f"run {r['run_id']}: due again", as_json)


def discard(
    run_id: RunId,
    agent: Agent,
    yes: Annotated[bool, typer.Option("--yes", help="Really.")] = False,
    url: Url = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Goes on without work that was given up.

    \b
    memory-sql discard 17 --agent ada --yes

    The messages of a formation are skipped: nothing will be remembered of them. The observations of a consolidation are
    quarantined: neither shown nor absorbed. Nothing is deleted.
    """
    if not yes:
        raise InputError("what the run was to read will not be remembered; say --yes if that is meant")
    run(url, data, lambda memory: memory.work.discard(agent_id=agent, run_id=run_id))
    output.one({"run_id": run_id, "state": "discarded"}, lambda r: f"run {r['run_id']}: discarded", as_json)


def undo(
    agent: Agent,
    scope_id: Annotated[str, typer.Option("--scope-id", metavar="ID", help="12 or s12, as `scopes` shows it.")],
    url: Url = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Takes back the newest consolidation of a scope.

    \b
    memory-sql undo --agent ada --scope-id s12

    The text before it is back, under a new version; what it absorbed is pending again, and not due before the scope
    learns something new.
    """
    number = scope_id
    undone = run(url, data, lambda memory: memory.scopes.undo(agent_id=agent, scope_id=number))
    output.one(undone, _undone_text, as_json)


def _undone_text(undone: ConsolidateResult) -> str:
    head = f"{undone.scope.id}  {undone.scope}  v{undone.version}"
    return f"{head}\n{output.indented(undone.content)}" if undone.content else f"{head}, no text"


def trim(
    agent: Agent,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would go.")] = False,
    url: Url = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Evicts what scopes keep beyond the agent's budgets.

    \b
    memory-sql settings --agent ada --set retention=budget --set store_note_items=500
    memory-sql trim --agent ada --dry-run
    memory-sql trim --agent ada

    Nothing is deleted: what goes isn't shown any more. What is pinned, disputed or under a legal hold stays; where that alone
    is more than the budget the exit code is 1.
    """
    trimmed = run(url, data, lambda memory: memory.work.trim(agent_id=agent, dry_run=dry_run))
    output.one(trimmed, _trimmed_text, as_json)
    for scope_id in trimmed.over:
        output.complain(f"scope s{scope_id} exceeds its budget by what is protected")
    if trimmed.over:
        raise typer.Exit(1)


def _trimmed_text(trimmed: Trimmed) -> str:
    counts = ", ".join(output.many(count, kind) for kind, count in sorted(trimmed.evicted.items()))
    done = "would evict" if trimmed.dry_run else "evicted"
    return f"{done} {counts} from {output.many(len(trimmed.scopes), 'scope')}" if counts else "nothing to evict"


def verify(url: Url = None, data: Data = None, as_json: AsJson = False) -> None:
    """Checks, on a live database, that everything holds that must hold at any moment.

    \b
    memory-sql verify

    Reads in one snapshot, writes nothing, and can run every few minutes. One line for each thing that is wrong, and the
    exit code 1; nothing wrong, nothing on standard output but a word for people.
    """
    violations = run(url, data, lambda memory: memory.admin.verify())
    output.rows(violations, _violation_line, as_json, "everything holds")
    if violations:
        raise typer.Exit(1)


def _violation_line(violation: Violation) -> str:
    v = violation
    return output.plain(f"{v.invariant}  {v.agent_id or '(database)'}  {v.key}  {v.detail}")
