"""Background work: what waits, what was given up, what a person decides; maintain, trim, embed, recheck, learn."""

from __future__ import annotations

from datetime import UTC, date, datetime, time
from typing import TYPE_CHECKING, Annotated

import typer

from memory_sql.cli import output, tree
from memory_sql.cli.options import Actor, Agent, AsJson, Data, Limit, OneAgent, Reason, Url, Yes, run
from memory_sql.cli.progress import Telling
from memory_sql.errors import InputError

if TYPE_CHECKING:
    from memory_sql.domain.guidelines import LearnedGuidelines
    from memory_sql.domain.rechecks import RecheckResult
    from memory_sql.domain.results import (
        Backlog,
        DailyCost,
        DeadRun,
        EmbedResult,
        Late,
        MaintainResult,
        Review,
        Trimmed,
        Waiting,
    )
    from memory_sql.memory import Memory

REFUSALS = {"auth": "the key", "quota": "for lack of credit"}

UNHEARD = " stored nothing though a message asked to be remembered; is the model too weak?"

app = tree.group("Background work: what is due, what was given up, what waits for a person.")

RunId = Annotated[int, typer.Argument(metavar="RUN_ID", help="The run, as `work dead` shows it.")]


@app.command()
def backlog(agent: OneAgent = None, url: Url = None, data: Data = None, as_json: AsJson = False) -> None:
    """Counts the work that waits.

    \b
    memory-sql work backlog

    Due: can be done now, and no worker has it; if this grows, start more workers. Retrying: failed, and is retried
    automatically. Given up: the model's answers were unusable several times in a row; see `work dead`. Held: claims that many
    new users made at once; see `work reviews`. Refused: the model's provider refuses the workers' calls. If the settings of
    this command name no language model, it says so.
    """
    found = run(url, data, lambda memory: memory.work.backlog(agent_id=agent))
    output.one(found, _backlog_text, as_json)


def _backlog_text(backlog: Backlog) -> str:
    b, many = backlog, output.many
    due = f"{many(b.due_conversations, 'conversation')}, {many(b.due_scopes, 'scope')}"
    due += f", {many(b.due_propagations, 'propagation')}" if b.due_propagations else ""
    due += f", {many(b.due_rechecks, 'recheck')}" if b.due_rechecks else ""
    facts = {
        "due": due + (f"; the oldest since {output.minute(b.oldest_due_at)}" if b.oldest_due_at else ""),
        **({"waiting": many(b.waiting_conversations, "conversation")} if b.waiting_conversations else {}),
        "in progress": f"{b.in_progress:,}",
        "retrying": f"{b.retrying:,}",
        "given up": f"{b.dead:,}",
        **({"held": many(b.held, "claim")} if b.held else {}),
        **({"unheard": f"{many(b.unheard, 'formation')} of this week" + UNHEARD} if b.unheard else {}),
        **({"late": f"{b.late:,} for more than a day; memory-sql work late says why"} if b.late else {}),
    }
    lines = [f"{name:<12} {value}" for name, value in facts.items()]
    if not b.has_model:
        from memory_sql.llm.select import NO_MODEL, NO_MODEL_AND_WAITING

        waits = b.due_conversations or b.waiting_conversations
        lines.append(output.indented(NO_MODEL_AND_WAITING if waits else NO_MODEL, ""))
    if b.refusal is not None:
        lines.append(
            f"{'refused':<12} by the model's provider, {REFUSALS[b.refusal]}; last at {output.minute(b.refused_at)}"
        )
    if b.unanswered:
        lines.append(f"{'not counted':<12} shards that don't answer: {', '.join(b.unanswered)}")
    return "\n".join(lines)


@app.command()
def dead(
    agent: OneAgent = None, limit: Limit = 100, url: Url = None, data: Data = None, as_json: AsJson = False
) -> None:
    """Lists work that was given up, oldest first; each is tried again after a day or more.

    \b
    memory-sql work dead
    """
    found = run(url, data, lambda memory: memory.work.dead(agent_id=agent, limit=limit))
    output.rows(found, _dead_line, as_json, "nothing was given up")


def _dead_line(dead: DeadRun) -> str:
    d = dead
    target = f"conversation {d.conversation_id}" if d.conversation_id is not None else f"scope {d.scope_id}"
    reason = d.error_code if not d.error else f"{d.error_code}: {d.error}"
    return output.plain(
        f"run {d.run_id}  {d.agent_id}  {target}  {output.minute(d.finished_at)}  {output.flat(reason)}"
    )


@app.command()
def failures(
    agent: OneAgent = None, limit: Limit = 100, url: Url = None, data: Data = None, as_json: AsJson = False
) -> None:
    """Lists failed runs with the reason, newest first, whether or not a later run succeeded.

    \b
    memory-sql work failures --limit 20
    """
    found = run(url, data, lambda memory: memory.work.failures(agent_id=agent, limit=limit))
    output.rows(found, _dead_line, as_json, "nothing has failed")


@app.command()
def costs(
    agent: OneAgent = None,
    days: Annotated[int, typer.Option("--days", metavar="N", min=1, max=3660, help="So many days back.")] = 30,
    url: Url = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Lists what models have done and cost by day, newest first.

    \b
    memory-sql work costs --agent ada --days 7

    Tokens are as the provider counts them; money by the prices of that day (`model set-price`).
    """
    found = run(url, data, lambda memory: memory.work.costs(agent_id=agent, days=days))
    output.rows(found, _costs_line, as_json, "no model has worked")


def _costs_line(one: DailyCost) -> str:
    failed = f", {one.failures:,} failed" if one.failures else ""
    money = "".join(f", {cost:,.2f} {currency}" for currency, cost in one.costs.items())
    tokens = f"{one.input_tokens:,} tokens in, {one.output_tokens:,} out"
    return f"{one.day}  {output.many(one.runs, 'run')}{failed}, {tokens}{money}"


@app.command()
def waiting(
    agent: OneAgent = None, limit: Limit = 100, url: Url = None, data: Data = None, as_json: AsJson = False
) -> None:
    """Lists the waiting work by agent, starting with the agent whose work has waited longest.

    \b
    memory-sql work waiting
    """
    found = run(url, data, lambda memory: memory.work.waiting(agent_id=agent, limit=limit))
    output.rows(found, _waiting_line, as_json, "nothing waits")


def _waiting_line(waiting: Waiting) -> str:
    w = waiting
    since = f", the oldest since {output.minute(w.oldest_at)}" if w.oldest_at else ""
    return output.plain(f"{w.agent_id}  {w.work}  {w.waiting:,} {w.state.replace('_', ' ')}{since}")


@app.command()
def late(
    agent: OneAgent = None,
    hours: Annotated[int, typer.Option(help="Only what has waited for longer than this.")] = 24,
    limit: Limit = 100,
    url: Url = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Lists work that has waited for more than a day, and why, oldest first.

    \b
    memory-sql work late
    memory-sql work late --hours 1
    """
    found = run(url, data, lambda memory: memory.work.late(agent_id=agent, hours=hours, limit=limit))
    output.rows(found, _late_line, as_json, "nothing has waited for so long")


def _late_line(late: Late) -> str:
    target = f"conversation {late.conversation_id}" if late.scope_id is None else f"scope {late.scope_id}"
    error = f" ({late.error_code})" if late.error_code else ""
    again = f", again at {output.minute(late.due_at)}" if late.due_at and late.reason != "unclaimed" else ""
    since = f" since {output.minute(late.since)}" if late.since else ""
    return output.plain(f"{late.agent_id}  {late.work} of {target}{since}: {REASONS[late.reason]}{error}{again}")


REASONS = {
    "unclaimed": "due, but no worker has taken it",
    "in_progress": "a worker has it",
    "failing": "it fails and is retried",
    "given_up": "it was given up; retried after a day or more (work retry: at once)",
    "left_out": "its text couldn't tell everything; what is left is told word for word until then",
    "not_due": "it waits for a silence, or for the end of a day's limit or of the pause between rechecks",
}


@app.command()
def retry(run_id: RunId, agent: Agent, url: Url = None, data: Data = None, as_json: AsJson = False) -> None:
    """Makes work that was given up due again.

    \b
    memory-sql work retry 17 --agent ada

    Use it when the cause is fixed, for example with another model or prompt. A worker then does the work.
    """
    run(url, data, lambda memory: memory.work.retry(agent_id=agent, run_id=run_id))
    output.one({"run_id": run_id, "state": "due"}, lambda r: f"run {r['run_id']}: due again", as_json)


@app.command()
def discard(
    run_id: RunId,
    agent: Agent,
    yes: Yes = False,
    url: Url = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Drops work that was given up.

    \b
    memory-sql work discard 17 --agent ada --yes

    The messages of a formation are skipped, and nothing is remembered from them. The observations of a consolidation stay
    set aside, neither shown nor absorbed. Nothing is deleted.
    """
    if not yes:
        raise InputError("what the run would have read won't be remembered; use --yes to confirm")
    run(url, data, lambda memory: memory.work.discard(agent_id=agent, run_id=run_id))
    output.one({"run_id": run_id, "state": "discarded"}, lambda r: f"run {r['run_id']}: discarded", as_json)


@app.command()
def reviews(agent: Agent, limit: Limit = 100, url: Url = None, data: Data = None, as_json: AsJson = False) -> None:
    """Lists what waits for a person: held claims, contradictions beyond a bound, refused texts, requests to forget.

    \b
    memory-sql work reviews --agent ada
    """
    found = run(url, data, lambda memory: memory.work.reviews(agent_id=agent, limit=limit))
    output.rows(found, _review_line, as_json, "nothing waits for a person")


def _review_line(review: Review) -> str:
    r = review
    place = f"{r.scope_id} for {r.target_scope_id}" if r.target_scope_id else r.scope_id
    instead = f"\n      instead of: {output.flat(r.instead_of)}" if r.instead_of else ""
    instead += f"\n      means: {', '.join(r.observations)}" if r.observations else ""
    return f"{r.id}  {r.kind} ({r.why}), {place}, {output.minute(r.since)}  {output.flat(r.says)}{instead}"


@app.command()
def decide(
    review: Annotated[
        str, typer.Argument(metavar="ID", help="As `reviews` shows it: o12-3>s4, s12v3-4, g12-3, r17, q12-3 or q17.")
    ],
    agent: Agent,
    accept: Annotated[
        bool | None,
        typer.Option(
            "--accept/--refuse", help="Accept: judge a claim again, supersede, use the text, or keep it; or refuse it."
        ),
    ] = None,
    actor: Actor = None,
    reason: Reason = None,
    url: Url = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Decides what waits for a person.

    \b
    memory-sql work decide s12v3-4 --agent ada --accept --actor desk
    """
    if accept is None:
        raise InputError("use either --accept or --refuse")
    run(
        url,
        data,
        lambda memory: memory.work.decide(review, agent_id=agent, accept=accept, actor=actor, reason=reason),
    )
    done = {"id": review, "accepted": accept}
    output.one(done, lambda _: f"{review}: {'accepted' if accept else 'refused'}", as_json)


@app.command()
def maintain(
    agent: OneAgent = None,
    limit: Annotated[
        int, typer.Option("--limit", metavar="N", help="At most this many messages, and observations.")
    ] = 100_000,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            help="Change nothing; show which stages and tiers would change, and what would be archived or expire.",
        ),
    ] = False,
    at: Annotated[
        str | None, typer.Option("--at", metavar="DAY", help="With --dry-run: as if it were that day.")
    ] = None,
    url: Url = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Deletes the texts of messages past their retention, evicts what exceeds budgets, and goes by the lifecycle.

    \b
    memory-sql work maintain

    A worker does this every maintenance_minutes. The setting message_retention_days of each agent says how long texts are
    kept. Unformed messages are kept until they are formed, and held ones until the legal hold is released. Budgets apply if
    the agent's setting retention is budget, as with `work trim`. Stages of observations are stored if the setting lifecycle
    is on, what is old, unimportant and unused is archived if archival is, and what is old and worth little becomes cold if
    tiering is.
    """
    then = _day(at)
    done = run(url, data, lambda memory: memory.work.maintain(agent_id=agent, limit=limit, dry_run=dry_run, at=then))
    output.one(done, _maintained_text, as_json)


def _day(text: str | None) -> datetime | None:
    """Its beginning in UTC."""
    try:
        return None if text is None else datetime.combine(date.fromisoformat(text), time(), UTC)
    except ValueError:
        raise InputError("--at must be a day: 2026-12-24") from None


def _maintained_text(done: MaintainResult) -> str:
    evicted = f", {output.many(done.evicted, 'observation')} evicted" if done.evicted else ""
    evicted += f", {output.many(done.requested, 'observation')} erased on request" if done.requested else ""
    evicted += f", {output.many(done.classified, 'observation')} classified" if done.classified else ""
    more = "" if done.complete else "; there may be more"
    swept = f"{output.many(done.stages, 'observation')} with another stage, {done.archived} archived"
    swept += f", {done.tiers} in another tier" if done.tiers else ""
    swept += f", {output.many(done.links, 'link')} less sure" if done.links else ""
    swept += f", {done.expired} expired" if done.expired else ""
    if done.dry_run:
        lines = (f"{one.observation_id} of {one.agent_id}: {one.was} to {one.becomes}" for one in done.examples)
        return "\n".join((f"would be: {swept}{more}", *lines))
    evicted += f"; {swept}" if done.stages or done.archived or done.tiers or done.expired else ""
    texts = "its text" if done.messages == 1 else "their texts"
    return f"{output.many(done.messages, 'message')} lost {texts}{evicted}{more}"


@app.command()
def trim(
    agent: Agent,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be evicted.")] = False,
    url: Url = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Evicts what exceeds the agent's budgets.

    \b
    memory-sql configure --agent ada --set retention=budget --set store_note_items=500
    memory-sql work trim --agent ada --dry-run
    memory-sql work trim --agent ada

    Nothing is deleted: evicted observations are no longer shown. Pinned, disputed and held ones stay; if these alone exceed
    the budget, the exit code is 1.
    """
    trimmed = run(url, data, lambda memory: memory.work.trim(agent_id=agent, dry_run=dry_run))
    output.one(trimmed, _trimmed_text, as_json)
    for scope_id in trimmed.over:
        output.complain(f"scope {scope_id} exceeds its budget because of protected observations")
    if trimmed.over:
        raise typer.Exit(1)


def _trimmed_text(trimmed: Trimmed) -> str:
    counts = ", ".join(output.many(count, kind) for kind, count in sorted(trimmed.evicted.items()))
    done = "would evict" if trimmed.dry_run else "evicted"
    return f"{done} {counts} from {output.many(len(trimmed.scopes), 'scope')}" if counts else "nothing to evict"


@app.command()
def embed(
    agent: OneAgent = None,
    limit: Annotated[int, typer.Option("--limit", metavar="N", help="At most this many observations.")] = 10_000,
    newest: Annotated[
        bool, typer.Option("--newest", help="Only observations newer than the newest vector of their scope; fast.")
    ] = False,
    url: Url = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Makes the missing vectors, oldest first. A worker does this automatically.

    \b
    memory-sql work embed --agent ada

    Does nothing if vectors are off; `memory-sql admin stats` says whether they are.
    """

    async def work(memory: Memory) -> EmbedResult:
        with Telling(quiet=as_json) as progress:
            return await memory.work.embed(agent_id=agent, limit=limit, whole=not newest, progress=progress.told)

    done = run(url, data, work)
    output.one(done, _embedded_text, as_json)


def _embedded_text(done: EmbedResult) -> str:
    more = "" if done.complete else "; there may be more"
    without = f", {done.without_direction} without direction" if done.without_direction else ""
    return f"{output.many(done.embedded, 'observation')} embedded{without}{more}"


@app.command()
def recheck(
    agent: OneAgent = None,
    scope: Annotated[
        str | None, typer.Option("--scope", metavar="SCOPE", help="This scope of the agent, whether or not it is due.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", metavar="N", help="At most this many scopes.")] = 100,
    url: Url = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Compares what texts absorbed long ago with what lies near it, and supersedes what no longer holds.

    \b
    memory-sql work recheck
    memory-sql work recheck --agent ada --scope s12

    A worker does this for scopes that are due, if the setting recheck is on. `memory-sql scope undo` takes it back.
    """
    done = run(url, data, lambda memory: memory.work.recheck(agent_id=agent, scope_id=scope, limit=limit))
    output.one(done, _rechecked_text, as_json)
    for name, reason in done.failed.items():
        output.complain(f"{name}: {reason}")
    if done.failed:
        raise typer.Exit(1)


def _rechecked_text(done: RecheckResult) -> str:
    lines = []
    for one in done.rechecked:
        held = f", {one.held} held for a person" if one.held else ""
        pairs = output.many(one.pairs, "pair")
        lines.append(f"{one.scope.id}: {pairs} compared, {output.many(one.superseded, 'observation')} superseded{held}")
    return "\n".join(lines) or "nothing is due"


@app.command()
def learn(agent: Agent, url: Url = None, data: Data = None, as_json: AsJson = False) -> None:
    """Learns guidelines by rule from what became of what an agent did through its tools.

    \b
    memory-sql work learn --agent ada

    Maintenance does this if the setting guidelines is on. Nothing is learnt of an action with fewer than five events.
    """
    output.one(run(url, data, lambda memory: memory.work.learn(agent_id=agent)), _learned_text, as_json)


def _learned_text(learned: LearnedGuidelines) -> str:
    counts = ", ".join(f"{action} {count:,}" for action, count in learned.actions.items())
    outcomes = ", ".join(f"{outcome} {count:,}" for outcome, count in learned.outcomes.items() if count)
    told = [f"{output.many(learned.events, 'event')}: {counts or 'none'}; {outcomes or 'no outcomes'}", *learned.lines]
    if learned.ended:
        told.append(f"{learned.ended} no longer holds")
    return "\n".join(told)
