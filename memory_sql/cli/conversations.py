"""Commands on conversations: add, form."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from memory_sql.cli import output
from memory_sql.cli.options import Agent, AsJson, Data, Url, resolve, run
from memory_sql.errors import ConfigurationError, DatabaseError, InputError, MemorySQLError, NotFoundError

if TYPE_CHECKING:
    from memory_sql.cli.files import ConversationFile
    from memory_sql.domain.results import AddResult, ConsolidateResult, FormResult, RunDueResult
    from memory_sql.memory import Memory

K = TypeVar("K")
T = TypeVar("T")

HOPELESS = (ConfigurationError, DatabaseError, InputError, NotFoundError)  # going on would help nothing

Groups = Annotated[
    list[str] | None,
    typer.Option("--group", metavar="ID", help="A group that the conversation belongs to; repeatable."),
]
FileUser = Annotated[
    str | None,
    typer.Option(
        "--user", metavar="ID", help="Whose conversation it is; else the first user_id among a session's messages."
    ),
]
FileSession = Annotated[
    str | None,
    typer.Option("--session", metavar="ID", help="The session of messages that name none; else the file's name."),
]


def add(
    files: Annotated[list[str], typer.Argument(metavar="FILE", help="Conversation files; - reads stdin.")],
    agent: Agent,
    user: FileUser = None,
    group: Groups = None,
    session: FileSession = None,
    time_zone: Annotated[
        str | None,
        typer.Option(
            "--time-zone", metavar="ZONE", help='Where "yesterday" was said: Europe/Berlin; else the setting.'
        ),
    ] = None,
    form: Annotated[
        bool, typer.Option("--form/--no-form", help="Form observations at once, or only store the messages.")
    ] = True,
    url: Url = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Stores conversation files and forms observations.

    \b
    memory-sql add monday.jsonl --agent ada --user mia
    cat chat.json | memory-sql add - --agent ada --user mia --session chat-17

    A file is JSON or JSON Lines of messages: role and content, and if you like name, id, created_at, session, user_id,
    group_ids. Or of documents: {"messages": […], "session_id": …, "time_zone": …}. A number as session counts the sessions
    of the file. A file with a mistake is not stored at all, nor is any file beside it.

    Adding a file again adds nothing: a message is known by its id, and without one by file, line and text.
    """
    from memory_sql.cli.files import Defaults, read_file

    defaults = Defaults(user, session, tuple(group or ()), resolve(url, data).message_max_characters, time_zone)
    read = [read_file(name, defaults) for name in files]
    if any(run(url, data, lambda memory: _add_files(memory, read, agent, form, as_json))):
        raise typer.Exit(1)


async def _add_files(
    memory: Memory, files: Sequence[ConversationFile], agent: str, form: bool, as_json: bool
) -> list[bool]:
    """For each file whether something failed."""
    if form:
        memory.require_llm()  # if there is none, that had better be known before anything is stored
    return [await _add_file(memory, file, agent, form, as_json) for file in files]


async def _add_file(memory: Memory, file: ConversationFile, agent: str, form: bool, as_json: bool) -> bool:
    added = []
    with output.Progress("storing sessions", len(file.conversations)) as progress:
        for talk in file.conversations:
            added.append(
                await memory.add(
                    talk.messages, agent_id=agent, user_id=talk.user_id, session_id=talk.session_id,
                    group_ids=talk.group_ids, time_zone=talk.time_zone,
                )
            )  # fmt: skip
            progress.step()
    done = await _finish(memory, agent, [result.session_id for result in added]) if form else None
    report = _report(file, added, done)
    output.one(report, lambda r: _report_text(r, agent, hint=not form), as_json)
    output.complain_of(report["failed"])
    return bool(report["failed"])


async def _finish(memory: Memory, agent: str, sessions: Sequence[str]) -> RunDueResult:
    """A file holds conversations that are over: forms them, then does what has become due."""
    unformed = set(await memory.conversations.unformed(agent_id=agent))
    formed, failed = await form_each(memory, agent, [session for session in sessions if session in unformed])
    due = await memory.run_due(agent_id=agent)
    return due.model_copy(update={"formed": (*formed, *due.formed), "failed": {**failed, **due.failed}})


async def form_each(memory: Memory, agent: str, sessions: Sequence[str]) -> tuple[list[FormResult], dict[str, str]]:
    """What was formed, and of which session it failed and why."""
    return await _each(
        "forming sessions",
        sessions,
        lambda s: memory.conversations.form(agent_id=agent, session_id=s),
        lambda s: f"session {s} of agent {agent}",
    )


async def consolidate_each(
    memory: Memory, agent: str, scopes: Sequence[str]
) -> tuple[list[ConsolidateResult], dict[str, str]]:
    return await _each(
        "consolidating scopes",
        scopes,
        lambda s: memory.scopes.consolidate(agent_id=agent, scope_id=s),
        lambda s: f"scope {s} of agent {agent}",
    )


async def _each(
    what: str, keys: Sequence[K], work: Callable[[K], Awaitable[T]], name: Callable[[K], str]
) -> tuple[list[T], dict[str, str]]:
    """Each piece of work done, or why not: one that fails stops no other."""
    done, failed = [], {}
    with output.Progress(what, len(keys)) as progress:
        for key in keys:
            try:
                done.append(await work(key))
            except HOPELESS:
                raise
            except MemorySQLError as error:
                failed[name(key)] = str(error)
            progress.step()
    return done, failed


def _report(file: ConversationFile, added: Sequence[AddResult], done: RunDueResult | None) -> dict[str, Any]:
    formed = done.formed if done else ()
    return {
        "file": file.name,
        "messages": file.messages,
        "accepted": sum(result.accepted for result in added),
        "duplicates": sum(result.duplicates for result in added),
        "cleaned": sum(result.cleaned for result in added),
        "masked": sum(result.masked for result in added),
        "sessions": len(added),
        "formed": sum(result.messages for result in formed),
        "observations": sum(len(result.observations) for result in formed),
        "consolidated": sum(result.version is not None for result in done.consolidated) if done else 0,
        "propagated": sum(len(result.propagated) for result in done.propagated) if done else 0,
        "refused": refused(formed),
        "failed": done.failed if done else {},
        "model": model_of(formed),
        "due": {} if done else {result.session_id: result.trigger for result in added if result.trigger},
    }


def refused(formed: Sequence[FormResult]) -> dict[str, int]:
    """By reason, over all."""
    reasons = dict.fromkeys(reason for result in formed for reason in result.refused)
    return {reason: sum(result.refused.get(reason, 0) for result in formed) for reason in reasons}


def model_of(formed: Sequence[FormResult]) -> str | None:
    """`none` is what formations say that had nothing to ask."""
    models = [result.model for result in formed if result.model]
    return next((model for model in models if model != "none"), models[0] if models else None)


def _report_text(report: dict[str, Any], agent: str, *, hint: bool) -> str:
    many = output.many
    lines = [
        f"{report['file']}: {many(report['messages'], 'message')} in {many(report['sessions'], 'session')}: "
        f"{report['accepted']:,} new, {report['duplicates']:,} known already"
        + (f", {report['cleaned']:,} cleaned" if report["cleaned"] else "")
        + (f", secrets masked in {report['masked']:,}" if report["masked"] else "")
    ]
    if report["formed"]:
        lines.append(
            f"formed {many(report['formed'], 'message')} into {many(report['observations'], 'observation')}"
            f" ({report['model']})"
        )
    if report["consolidated"]:
        lines.append(f"consolidated {many(report['consolidated'], 'scope')}")
    if report["propagated"]:
        lines.append(f"propagated {many(report['propagated'], 'claim')}")
    if report["refused"]:
        lines.append("refused: " + ", ".join(f"{count} × {reason}" for reason, count in report["refused"].items()))
    if hint:
        due = f"{len(report['due'])} of {many(report['sessions'], 'session')}"
        lines.append(f"due: {due}; form whatever is new with: memory-sql form --agent {agent}")
    return output.plain("\n".join(lines))


def form(
    agent: Agent,
    session: Annotated[
        str | None, typer.Option("--session", metavar="ID", help="Only this session; else every one with new messages.")
    ] = None,
    url: Url = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Forms observations from buffered messages now.

    \b
    memory-sql form --agent ada
    memory-sql form --agent ada --session monday

    It asks the language model whatever the triggers say. Where the model fails the messages stay and can be formed
    later; other sessions go on.
    """

    async def work(memory: Memory) -> tuple[list[FormResult], dict[str, str]]:
        sessions = [session] if session else await memory.conversations.unformed(agent_id=agent)
        return await form_each(memory, agent, sessions)

    formed, failed = run(url, data, work)
    if as_json:
        output.json_line({"formed": formed, "failed": failed})
    else:
        print("\n".join(map(_formed_text, formed)) or ("nothing was formed" if failed else "nothing to form"))
    end(failed)


def _formed_text(result: FormResult) -> str:
    if not result.messages:
        return f"{result.session_id}: nothing to form"
    known = f", {result.duplicates} known already" if result.duplicates else ""
    head = (
        f"{result.session_id}: {output.many(result.messages, 'message')} → "
        f"{output.many(len(result.observations), 'observation')}{known} ({result.model})"
    )
    more = [f"  {output.observation_line(observation)}" for observation in result.observations]
    more += [f"  refused: {count} × {reason}" for reason, count in result.refused.items()]
    return "\n".join((head, *more))


def end(failed: dict[str, str]) -> None:
    output.complain_of(failed)
    if failed:
        raise typer.Exit(1)
