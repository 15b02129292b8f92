"""Imports of legacy memory: mongo, mem0, list, verify, rollback."""

from __future__ import annotations

import json
import os
import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from memory_sql.cli import output, tree
from memory_sql.cli.import_report import as_markdown, as_text
from memory_sql.cli.options import Actor, Agent, AsJson, Data, Reason, Url, Yes, run
from memory_sql.cli.progress import Telling
from memory_sql.errors import InputError

if TYPE_CHECKING:
    from memory_sql.domain.results import ImportCheck, ImportReport, ImportRun, RolledBack
    from memory_sql.memory import Memory

app = tree.group("Imports from another memory store.")

Dump = Annotated[Path | None, typer.Option("--dump", metavar="DIR", help="A folder written by mongodump.")]
Export = Annotated[
    Path | None, typer.Option("--export", metavar="DIR", help="A folder of files written by mongoexport.")
]
Live = Annotated[
    str | None,
    typer.Option("--mongo-url", metavar="URL", help="A server, with the name of the database. It is only read."),
]
KeepGoing = Annotated[
    bool, typer.Option("--keep-going", help="Skip files and documents that can't be read, and list them.")
]
Mem0 = Annotated[
    str | None, typer.Option("--mem0-url", metavar="URL", help="The Postgres database of mem0. It is only read.")
]
KeyFile = Annotated[
    Path,
    typer.Option(
        "--key-file", metavar="FILE", help="The key for references, the same for each import; created if missing."
    ),
]
Trusted = Annotated[bool, typer.Option("--trusted", help="It counts as confirmed, and may be propagated.")]
Pause = Annotated[
    float,
    typer.Option("--pause", metavar="SECONDS", help="Time between two scopes becoming due; default: all at once."),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Write nothing; print what would be written.")]
Markdown = Annotated[
    Path | None,
    typer.Option("--markdown", metavar="FILE", help="Write the report as Markdown to this file; - prints it instead."),
]
Run = Annotated[int, typer.Argument(metavar="RUN", help="The number of the import, as it printed it.")]
KEY_BYTES = 32
STDOUT = "-"


@app.command()
def mongo(
    key_file: KeyFile,
    dump: Dump = None,
    export: Export = None,
    live: Live = None,
    groups: Annotated[
        str,
        typer.Option("--groups", metavar="WHICH", help="default: one of all users of an agent; none; or a JSON file."),
    ] = "default",
    shards: Annotated[
        Literal["merged", "named"],
        typer.Option(
            "--shards", metavar="HOW", help="merged: into one collective text; named: a named scope for each."
        ),
    ] = "merged",
    episodes: Annotated[
        Literal["skip", "conversation"],
        typer.Option("--episodes", metavar="HOW", help="skip them, or keep the newest in their conversation's scope."),
    ] = "skip",
    without_text: Annotated[
        Literal["pending", "archived"],
        typer.Option("--without-text", metavar="HOW", help="What becomes of absorbed observations without a text."),
    ] = "pending",
    missing_agents: Annotated[
        Literal["inactive", "skip"],
        typer.Option("--missing-agents", metavar="HOW", help="Memory of agents that are deleted or missing."),
    ] = "inactive",
    messages: Annotated[
        bool, typer.Option("--messages", help="Also import the messages of sessions, and link memory to them.")
    ] = False,
    trusted: Trusted = False,
    pause: Pause = 0.0,
    keep_going: KeepGoing = False,
    dry_run: DryRun = False,
    markdown: Markdown = None,
    url: Url = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Imports the memory of the previous system from MongoDB.

    \b
    memory-sql import mongo --dump dump/eden --key-file import.key --dry-run
    memory-sql import mongo --dump dump/eden --key-file import.key

    The old store is only read. The command can be run again at any time: what was imported before or forgotten here is
    skipped.
    """
    from memory_sql.importers.importing import key_of_file
    from memory_sql.importers.mongo.options import ImportOptions

    if as_json and str(markdown) == STDOUT:
        raise InputError("use either --json or --markdown -")
    options = ImportOptions(
        groups=_groups(groups), keep_shards=shards, episodes=episodes, without_text=without_text,
        missing_agents=missing_agents, messages=messages, trusted=trusted,
    )  # fmt: skip
    key = key_of_file(_key(key_file, dry_run=dry_run))

    async def work(memory: Memory) -> ImportReport:
        with Telling(quiet=as_json) as progress:
            return await memory.imports.mongo(
                key=key, dump=dump, export=export, mongo_url=live, keep_going=keep_going, options=options,
                dry_run=dry_run, pause=pause, progress=progress.told,
            )  # fmt: skip

    _tell(run(url, data, work), markdown, as_json)


@app.command()
def mem0(
    key_file: KeyFile,
    agent: Agent,
    mem0_url: Annotated[
        str, typer.Option("--mem0-url", metavar="URL", help="The Postgres database of mem0. It is only read.")
    ],
    collection: Annotated[
        str, typer.Option("--collection", metavar="NAME", help="Its table: collection_name of the vector store.")
    ] = "mem0",
    trusted: Trusted = False,
    pause: Pause = 0.0,
    dry_run: DryRun = False,
    markdown: Markdown = None,
    url: Url = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Imports the memories of mem0 from its pgvector store.

    \b
    memory-sql import mem0 --mem0-url postgresql://mem0@db/mem0 --agent assistant --key-file import.key --dry-run
    memory-sql import mem0 --mem0-url postgresql://mem0@db/mem0 --agent assistant --key-file import.key

    Memories that name no agent go to the one of --agent. The command can be run again at any time: what was imported before
    or forgotten here is skipped.
    """
    from memory_sql.importers.importing import key_of_file

    if as_json and str(markdown) == STDOUT:
        raise InputError("use either --json or --markdown -")
    key = key_of_file(_key(key_file, dry_run=dry_run))

    async def work(memory: Memory) -> ImportReport:
        with Telling() as progress:
            return await memory.imports.mem0(
                key=key, mem0_url=mem0_url, collection=collection, agent_id=agent, trusted=trusted, dry_run=dry_run,
                pause=pause, progress=progress.told,
            )  # fmt: skip

    _tell(run(url, data, work), markdown, as_json)


def _tell(report: ImportReport, markdown: Path | None, as_json: bool) -> None:
    if markdown is not None:
        _keep(report, markdown)
    if markdown is None or str(markdown) != STDOUT:
        output.one(report, as_text, as_json)
    if report.unaccounted or report.cut_off or report.unreadable:
        raise typer.Exit(1)


def _keep(report: ImportReport, markdown: Path) -> None:
    if str(markdown) == STDOUT:
        print(as_markdown(report), end="")
        return
    with output.whole_file(markdown) as to:
        to.write(as_markdown(report))


def _groups(which: str) -> Any:
    from memory_sql.importers.mongo.options import groups_of

    if which in ("default", "none"):
        return "default" if which == "default" else None
    try:
        return groups_of(json.loads(Path(which).read_text("utf-8")))
    except (OSError, ValueError) as error:
        raise InputError(f"--groups: {which} can't be read as JSON") from error


def _key(path: Path, *, dry_run: bool) -> bytes:
    """The content of the file. A missing one is created, readable by this user alone; a dry run needs none."""
    if path.exists():
        return path.read_bytes()
    made = secrets.token_hex(KEY_BYTES).encode()
    if not dry_run:
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(made)
        output.complain(f"created {path}: keep it outside the database; every import needs it")
    return made


@app.command("list")
def list_imports(url: Url = None, data: Data = None, as_json: AsJson = False) -> None:
    """Lists the imports.

    \b
    memory-sql import list
    """
    output.rows(run(url, data, lambda memory: memory.imports.list()), _run_line, as_json, "no imports")


def _run_line(one: ImportRun) -> str:
    brought = sum(counts["migrated"] for counts in one.accounts.get("collections", {}).values())
    return f"{one.run}  {one.state}  {output.minute(one.started_at)}  {one.source}  {brought:,} documents"


@app.command()
def verify(
    number: Run,
    dump: Dump = None,
    export: Export = None,
    live: Live = None,
    mem0_url: Mem0 = None,
    keep_going: KeepGoing = False,
    url: Url = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Compares the imported data with what the import stored and, if given, with its source.

    \b
    memory-sql import verify 1 --dump dump/eden
    """

    async def work(memory: Memory) -> ImportCheck:
        return await memory.imports.verify(
            number, dump=dump, export=export, mongo_url=live, mem0_url=mem0_url, keep_going=keep_going
        )

    found = run(url, data, work)
    output.one(found, _check_text, as_json)
    if found.changed_here or found.changed_there:
        raise typer.Exit(1)


def _check_text(found: ImportCheck) -> str:
    kinds = {
        "changed here": found.changed_here,
        "changed in the source": found.changed_there,
        "in the source, but not here": found.missing,
    }
    lines = [f"{what}: {', '.join(refs)}" for what, refs in kinds.items() if refs]
    compared = "" if found.compared is None else f" ({found.compared:,} rows compared)"
    return "\n".join(lines) or f"no differences{compared}"


@app.command()
def rollback(
    number: Run,
    yes: Yes = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be removed.")] = False,
    actor: Actor = None,
    reason: Reason = None,
    url: Url = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Removes what an import stored, and nothing else.

    \b
    memory-sql import rollback 1 --dry-run
    memory-sql import rollback 1 --yes

    What was formed since stays. Texts that contained imported data are rewritten from what is left.
    """
    if not yes and not dry_run:
        raise InputError("this removes everything that the import stored: use --yes to confirm, or --dry-run to see it")
    done = run(url, data, lambda memory: memory.imports.rollback(number, dry_run=dry_run, actor=actor, reason=reason))
    output.one(done, _rolled_back_text, as_json)


def _rolled_back_text(done: RolledBack) -> str:
    texts = f"; to be rewritten: {', '.join(done.withheld)}" if done.withheld else ""
    said = f", {output.many(done.messages, 'message')}" if done.messages else ""
    what = f"{output.many(done.observations, 'observation')}{said} and {output.many(done.scopes, 'scope')}"
    kept = ", ".join(f"{count:,} {name}" for name, count in done.held.items())
    held = f"; kept by legal holds, out of use: {kept}" if kept else ""
    return f"{what} {'would be ' if done.dry_run else ''}removed{texts}{held}"
