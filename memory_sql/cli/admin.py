"""The whole store: agents, stats, export, models, prices, verify, settings, restore-check."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO, cast

import typer

from memory_sql.cli import output, tree
from memory_sql.cli.forgetting import receipt_text
from memory_sql.cli.options import After, Agent, AsJson, Data, Limit, OneAgent, Url, resolve, run
from memory_sql.errors import InputError

if TYPE_CHECKING:
    from memory_sql.config import Settings
    from memory_sql.domain.reading import RetrievalStats
    from memory_sql.domain.results import AgentSummary, JournalStatus, Receipt, Stats, Violation
    from memory_sql.memory import Memory

Journal = Annotated[
    Path | None, typer.Option("--journal", metavar="FILE", help="The journal; default: the one in the settings.")
]

ENDLESS = ("message_retention_days", "speculative_days", "commitment_days")  # where no value means for ever

app = tree.group("The whole store: agents, counts, prices, invariants, settings, restored backups.")


@app.command()
def agents(
    after: After = None, limit: Limit = 100, url: Url = None, data: Data = None, as_json: AsJson = False
) -> None:
    """Lists the agents, in the order of their ids.

    \b
    memory-sql admin agents
    memory-sql admin agents --after bob --limit 1000
    """
    found = run(url, data, lambda memory: memory.admin.agents(after=after, limit=limit))
    output.rows(found, _agent_line, as_json, "no agents yet")


def _agent_line(agent: AgentSummary) -> str:
    own = f"; its own: {', '.join(agent.settings)}" if agent.settings else ""
    return output.plain(f"{agent.id}  since {output.minute(agent.created_at)}{own}")


@app.command()
def stats(agent: Agent, url: Url = None, data: Data = None, as_json: AsJson = False) -> None:
    """Counts messages, observations, runs, tokens.

    \b
    memory-sql admin stats --agent ada
    """
    found = run(url, data, lambda memory: memory.admin.stats(agent_id=agent))
    output.one(found, _stats_text, as_json)


def _stats_text(stats: Stats) -> str:
    s = stats
    facts = {
        "conversations": f"{s.conversations:,}, {s.due_conversations:,} due",
        "messages": f"{s.messages:,}, {s.unformed_messages:,} not formed yet",
        "observations": f"{s.observations:,}, {s.pending:,} pending",
        "scopes": _counts(s.scopes) + (f"; {s.due_scopes:,} due" if s.due_scopes else ""),
        "texts": f"{s.consolidations:,} versions",
        "propagated": f"{output.many(s.propagated, 'observation')}{_propagations(s)}",
        "runs": _counts(s.runs),
        "tokens": f"{s.input_tokens:,} in, {s.output_tokens:,} out",
        "cost": ", ".join(f"{cost:,.2f} {currency}" for currency, cost in s.costs.items()) or "no prices",
        "queries": _queries(s.retrieval),
        "vectors": s.vectors,
        "shared": f"by rules and a judge in {', '.join(s.judged_languages)}; in other languages by a person alone",
    }
    if any(judge.wrong for judge in s.judges):
        facts["judge"] = ", ".join(
            f"{j.model}: {j.wrong:,} of {j.answers:,} answers got a decoy wrong" for j in s.judges
        )
    if s.vectors_advised:
        facts["vectors"] += f"; advised for {', '.join(s.vectors_advised)}"
    return "\n".join(f"{name:<13} {value}" for name, value in facts.items())


def _propagations(stats: Stats) -> str:
    due = f", {output.many(stats.due_propagations, 'scope')} due" if stats.due_propagations else ""
    return due + (f", {output.many(stats.held, 'claim')} held" if stats.held else "")


def _queries(retrieval: RetrievalStats) -> str:
    r = retrieval
    took = "" if r.mean_ms is None else f", {r.mean_ms:.1f} ms on average, {r.slowest_ms:.1f} at most"
    return f"{r.queries:,}, {r.fired:,} searched, {r.without_hit:,} of these found nothing{took}"


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{count:,} {name}" for name, count in counts.items()) or "none"


@app.command()
def export(
    view: Annotated[str, typer.Argument(metavar="VIEW", help="A view of docs/views.md, such as v_observations.")],
    file: Annotated[Path | None, typer.Argument(metavar="[FILE]", help="Where to write it; default: stdout.")] = None,
    agent: OneAgent = None,
    url: Url = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Writes the rows of an analyst view as CSV.

    \b
    memory-sql admin export v_observations ada.csv --agent ada
    memory-sql admin export v_model_cost | duckdb -c "COPY (FROM '/dev/stdin') TO 'cost.parquet'"

    The file appears only when it is complete, readable by you alone. It may contain what people said.
    """

    async def work(memory: Memory) -> int:
        if file is None:
            sys.stdout.flush()
            return await memory.admin.export(view, sys.stdout.buffer, agent_id=agent)
        with output.whole_file(file) as to:
            return await memory.admin.export(view, cast("BinaryIO", to.buffer), agent_id=agent)

    written = run(url, data, work)
    if file is not None:
        told = {"view": view, "file": str(file), "rows": written}
        output.one(told, lambda _: f"{file}: {output.many(written, 'row')} of {view}", as_json)


@app.command()
def verify(
    hashes: Annotated[
        bool, typer.Option("--hashes", help="Read and hash every text again, not only about 5,000, others each day.")
    ] = False,
    url: Url = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Checks every invariant on a live database.

    \b
    memory-sql admin verify
    memory-sql admin verify --hashes

    Reads in one snapshot, writes nothing, and can run every few minutes. Prints a line for each violation; then the exit code
    is 1.
    """
    violations = run(url, data, lambda memory: memory.admin.verify(hashes=hashes))
    output.rows(violations, _violation_line, as_json, "everything holds")
    if violations:
        raise typer.Exit(1)


def _violation_line(violation: Violation) -> str:
    v = violation
    return output.plain(f"{v.invariant}  {v.agent_id or '(database)'}  {v.key}  {v.detail}")


@app.command()
def position(url: Url = None, data: Data = None, as_json: AsJson = False) -> None:
    """Shows where the database is: everything committed by now lies before it. Reads of a replica take it as `after`.

    \b
    memory-sql admin position
    """
    output.one(run(url, data, lambda memory: memory.admin.position()), str, as_json)


@app.command()
def settings(
    agent: Annotated[
        str | None, typer.Option("--agent", metavar="ID", help="The settings as they apply to this agent.")
    ] = None,
    url: Url = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Prints every setting with its value, its source and its meaning.

    \b
    memory-sql admin settings > memory-sql.toml
    MEMORY_SQL_TOP_K=10 memory-sql admin settings | grep top_k
    memory-sql admin settings --agent ada

    The output is a memory-sql.toml; settings that are not set are commented out. A setting comes from the command line, else
    from MEMORY_SQL_… in the environment, else from memory-sql.toml in the working directory (or the file that
    MEMORY_SQL_CONFIG names), else it is the default. An agent's own settings (`memory-sql configure`) are kept in the
    database and override all of these. Passwords are not shown.
    """
    own = {} if agent is None else run(url, data, lambda memory: memory.admin.settings(agent_id=agent))
    output.rows(_rows(resolve(url, data), own), _toml, as_json, "")


def _rows(settings: Settings, own: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    from memory_sql.config import FOREVER
    from memory_sql.config.describe import described

    derived = {"data_dir": str(settings.embedded_data_dir), "llm": settings.llm_name}
    sources = settings.sources()
    for name, field in type(settings).model_fields.items():
        value = own.get(name, getattr(settings, name))
        if name in ENDLESS and value is None:
            value = FOREVER
        secret = hasattr(value, "get_secret_value")
        shown = output.masked(value.get_secret_value()) if secret else derived.get(name, value)
        yield {
            "name": name,
            "value": shown,
            "is_set": value is not None,
            "source": "agent" if name in own else sources[name],
            "description": described(field),
        }


def _toml(row: dict[str, Any]) -> str:
    value = "" if row["value"] is None else json.dumps(row["value"], ensure_ascii=False)
    hidden = isinstance(row["value"], str) and output.HIDDEN in row["value"]
    line = f"{row['name']} = {value}".rstrip()
    source = "" if row["source"] == "default" else f" (from: {row['source']})"
    return output.plain(f"# {row['description']}{source}\n{line if row['is_set'] and not hidden else f'# {line}'}\n")


@app.command("restore-check")
def restore_check(
    journal: Journal = None,
    unsure: Annotated[bool, typer.Option("--unsure", help="Also those that may not have been committed.")] = False,
    incarnation: Annotated[
        str | None,
        typer.Option(
            metavar="ID", help="Also those of the database from which this one was restored: its incarnation."
        ),
    ] = None,
    url: Url = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Repeats, on a restored backup, what was forgotten after the backup. Run it before anybody reads from it.

    \b
    memory-sql admin restore-check --journal /safe/forgotten.jsonl

    The journal is the file that the setting forget_journal names. Keep it outside the database's backups. If this database
    isn't the restored one itself but a copy beside it, run `memory-sql db renew` instead.
    """

    async def work(memory: Memory) -> tuple[list[Receipt], JournalStatus]:
        file = journal or memory.settings.forget_journal
        if file is None:
            raise InputError("which journal? pass --journal, or set forget_journal")
        receipts = await memory.admin.restore_check(file, unsure=unsure, incarnation=incarnation)
        return receipts, await memory.admin.journal_status(file)

    receipts, left = run(url, data, work, restoring=True)
    if left.planned or left.others or left.cut_off or left.copied_from:
        print(_journal_text(left), file=sys.stderr)
    output.rows(receipts, receipt_text, as_json, "nothing was forgotten after this backup")


@app.command("journal-status")
def journal_status(
    journal: Journal = None,
    url: Url = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Lists the forgettings of the journal that are missing in this database; works also if it is refused for them.

    \b
    memory-sql admin journal-status
    """
    output.one(
        run(url, data, lambda memory: memory.admin.journal_status(journal), restoring=True), _journal_text, as_json
    )


def _journal_text(status: JournalStatus) -> str:
    lines = [
        _listed(
            "forgotten, or moved to another shard, after this backup; run `memory-sql admin restore-check`",
            status.missing,
        ),
        *(f"of these, forgotten in {it}, from which this was copied: {n:,}" for it, n in status.copied_from.items()),
        _listed("planned, maybe not committed; `restore-check --unsure` repeats them", status.planned),
        f"skipped, of other databases: {status.others:,}" if status.others else "",
        _listed("lines that were cut off while being written", [str(number) for number in status.cut_off]),
    ]
    return "\n".join(filter(None, lines)) or "nothing in the journal is missing in the database"


def _listed(what: str, ids: Sequence[str]) -> str:
    return f"{what}: {' '.join(ids)}" if ids else ""
