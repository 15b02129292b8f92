"""Storing: add, observe."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from memory_sql.cli import output
from memory_sql.cli.added import UNFORMED, Added, would_add, would_text
from memory_sql.cli.batches import form_into
from memory_sql.cli.options import Agent, AsJson, Data, Url, day, moment, resolve, run
from memory_sql.cli.progress import Telling
from memory_sql.domain import json_input
from memory_sql.errors import InputError, InvalidMessageError
from memory_sql.histories.documents import BROKEN
from memory_sql.privacy import Sensitivity

if TYPE_CHECKING:
    from memory_sql.domain.messages import Message
    from memory_sql.domain.results import FormResult, ObserveResult
    from memory_sql.histories.spool import File, Stretch
    from memory_sql.memory import Memory

MESSAGES_AT_ONCE, CHARACTERS_AT_ONCE = 2_000, 1_000_000
COMPLAINTS = 20
MEGABYTE = 1_000_000

Groups = Annotated[
    list[str] | None,
    typer.Option("--group", metavar="ID", help="A group that the conversation belongs to; repeatable."),
]
FileUser = Annotated[
    str | None,
    typer.Option(
        "--user", metavar="ID", help="The user of the conversation; default: the first user_id among its messages."
    ),
]
FileConversation = Annotated[
    str | None,
    typer.Option(
        "--conversation", metavar="ID", help="The conversation of messages that name none; default: the file's name."
    ),
]


def add(
    files: Annotated[
        list[str], typer.Argument(metavar="FILE", help="Conversation files, exports, folders, zips; - reads stdin.")
    ],
    agent: Agent,
    user: FileUser = None,
    group: Groups = None,
    conversation: FileConversation = None,
    time_zone: Annotated[
        str | None,
        typer.Option(
            "--time-zone",
            metavar="ZONE",
            help='The zone in which "yesterday" is meant: Europe/Berlin; default: the setting.',
        ),
    ] = None,
    replace: Annotated[
        bool,
        typer.Option(
            "--replace",
            help="Messages whose id is known with another text get this one, and are formed anew; each needs an id.",
        ),
    ] = False,
    form: Annotated[
        bool, typer.Option("--form/--no-form", help="Form observations at once, or only store the messages.")
    ] = True,
    file_format: Annotated[
        Literal["messages", "chatgpt", "claude", "slack", "whatsapp", "sharegpt", "finetuning"] | None,
        typer.Option("--format", metavar="NAME", help="What wrote the file; default: found out."),
    ] = None,
    person: Annotated[
        list[str] | None,
        typer.Option("--person", metavar="NAME=ID", help="The user id of a name in the export; repeatable."),
    ] = None,
    dates: Annotated[
        Literal["dmy", "mdy", "ymd"] | None,
        typer.Option("--dates", metavar="ORDER", help="dmy, mdy or ymd, where WhatsApp's dates may be read two ways."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be stored, without asking the database.")
    ] = False,
    url: Url = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Stores conversation files and forms observations.

    \b
    memory-sql add monday.jsonl --agent ada --user mia
    cat chat.json | memory-sql add - --agent ada --user mia --conversation chat-17

    Exports of ChatGPT, Claude, Slack, WhatsApp and ShareGPT, and files for fine-tuning, are recognised, zipped or not.
    What of an export can't be read is named and left out, the rest is stored, and the exit code is 1.
    Else a file is JSON or JSON Lines of messages: role and content, optionally name, id, created_at, conversation, user_id,
    group_ids. Or of documents: {"messages": […], "conversation_id": …, "time_zone": …}. conversation is the
    conversation's id; a number counts the conversations of the file. If one such file has a mistake, no file of the
    command is stored.

    Adding a file again adds nothing: a message is identified by its id, or without one by file, line and text.
    """
    from memory_sql.cli.files import Defaults, read_into
    from memory_sql.histories.recognising import Known
    from memory_sql.histories.spool import Spool
    from memory_sql.languages.dates import zone_of

    zone, most = zone_of(time_zone or "UTC"), resolve(url, data).message_max_characters
    known = Known(file_format, zone, _people(person or ()), dates, conversation)
    defaults = Defaults(user, conversation, tuple(group or ()), most, time_zone, replace, known)
    with Spool() as spool:
        with Telling(quiet=as_json) as progress:
            read = [read_into(spool, name, defaults, _watch(progress, name)) for name in files]
        if dry_run:
            whole = [_tell_would(file, as_json) for file in read]
        else:
            whole = run(url, data, lambda memory: _add_files(memory, read, agent, form, replace, as_json))
    if not all(whole):
        raise typer.Exit(1)


def _people(given: Sequence[str]) -> dict[str, str]:
    pairs = [unicodedata.normalize("NFC", one).rpartition("=") for one in given]
    if any(not (name and user) for name, _, user in pairs):
        raise InputError("--person must be NAME=ID")
    return {name: user for name, _, user in pairs}


def _watch(progress: Telling, name: str) -> Callable[[int], Callable[[float], None]]:
    """Shows how much of a file has been read."""
    from memory_sql.domain.results import Progress

    def watch(size: int) -> Callable[[float], None]:
        done = 0.0

        def read(count: float) -> None:
            nonlocal done
            done += count
            told = {"count": int(done / MEGABYTE), "of": size // MEGABYTE, "done": int(done), "total": size}
            progress.told(Progress(step="reading", what=name, unit="MB", **told))

        return read

    return watch


def _tell_would(file: File, as_json: bool) -> bool:
    would = would_add(file)
    output.one(would, would_text, as_json)
    return _complain_of_broken(file)


def _complain_of_broken(file: File) -> bool:
    """Returns whether all of it could be read."""
    broken = file.notes(BROKEN)
    for reason in broken[:COMPLAINTS]:
        output.complain(f"{file.name}: left out: {reason}")
    if len(broken) > COMPLAINTS:
        output.complain(f"{file.name}: left out: {len(broken) - COMPLAINTS:,} more, which --json lists")
    return not broken


async def _add_files(
    memory: Memory, files: Sequence[File], agent: str, form: bool, replace: bool, as_json: bool
) -> list[bool]:
    """For each file, whether all of it is stored, and formed if asked."""
    if form:
        memory.require_llm()  # fails before anything is stored if there is none
    return [await _add_file(memory, file, agent, form, replace, as_json) for file in files]


async def _add_file(memory: Memory, file: File, agent: str, form: bool, replace: bool, as_json: bool) -> bool:
    added, total = Added(file), file.messages()
    try:
        await _store(memory, added, agent, total, replace=replace, quiet=as_json)
        if form:
            await _finish(memory, agent, added, quiet=as_json)
    except BaseException:
        stored = f"at least {added.stored:,}" if added.stored < total else "all"
        output.complain(f"{file.name}: stopped; of {output.many(total, 'message')} {stored} are stored, and stay")
        raise
    output.one(added.as_json() if as_json else added, lambda one: added.as_text(agent), as_json)
    output.complain_of(added.failed)
    return _complain_of_broken(file) and not added.failed


async def _store(memory: Memory, added: Added, agent: str, total: int, *, replace: bool, quiet: bool) -> None:
    """A conversation is left out from a message on that isn't taken, such as a secret where these are refused."""
    from memory_sql.domain.results import Progress

    with Telling(quiet=quiet) as progress:
        for talk in added.file.stretches(MESSAGES_AT_ONCE, CHARACTERS_AT_ONCE):
            if talk.conversation_id in added.failed:
                continue
            messages = await _with_ids(memory, talk)
            try:
                added.take(
                    await memory.add(
                        messages, agent_id=agent, user_id=talk.user_id,
                        conversation_id=talk.conversation_id, group_ids=talk.group_ids, time_zone=talk.time_zone,
                        replace=replace,
                    )
                )  # fmt: skip
            except InvalidMessageError as error:
                added.failed[talk.conversation_id] = f"message {messages[error.position].id} {error.reason}"
            told = {"count": added.stored, "of": total, "done": added.stored, "total": total}
            progress.told(Progress(step="storing", what=added.file.name, unit="messages", **told))


async def _with_ids(memory: Memory, talk: Stretch) -> list[Message]:
    """Gives a message without an id one made from file, place and text.

    So adding the same file again adds nothing, while another file of that name, or a changed line, is new. The text is
    hashed under the database's own key, so that nobody can use ids to confirm a guess at it.
    """
    messages = list(talk.messages)
    said = [f"{m.role}\0{m.name or ''}\0{m.content}" for m in (messages[at] for at in talk.places)]
    ids = await memory.conversations.message_ids(said) if said else ()
    for (at, place), known in zip(talk.places.items(), ids, strict=True):
        messages[at] = messages[at].model_copy(update={"id": f"{place}:{known}"})
    return messages


async def _finish(memory: Memory, agent: str, added: Added, *, quiet: bool = False) -> None:
    """A file contains finished conversations: forms them, then does what has become due.

    And says which of them another process (a worker) has formed meanwhile (`elsewhere`), or is forming (`busy`).
    """
    unformed = set(await memory.conversations.unformed(agent_id=agent))
    stored, busy = list(added.file.outcomes()), set[str]()
    asked = [one.conversation_id for one in stored if one.conversation_id in unformed]
    for one in stored:
        if one.fresh and one.formation not in UNFORMED and one.conversation_id not in unformed:
            added.file.outcome(one.conversation_id, "elsewhere")

    def take(result: FormResult) -> None:
        added.take_formed(result)
        if not result.run_ids:
            added.file.outcome(result.conversation_id, "elsewhere")

    added.failed.update(await form_into(take, memory, agent, asked, busy, quiet=quiet))
    added.take_due(await memory.run_due(agent_id=agent))
    for conversation in busy:
        added.file.outcome(conversation, "busy")
    added.was_formed = True


def observe(
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What to remember.")],
    agent: Agent,
    user: Annotated[
        str | None,
        typer.Option("--user", metavar="ID", help="The user it belongs to; with --group or --collective, who said it."),
    ] = None,
    group: Annotated[str | None, typer.Option("--group", metavar="ID", help="Store it for this group.")] = None,
    collective: Annotated[bool, typer.Option("--collective", help="Store it for all users of the agent.")] = False,
    scope_kind: Annotated[
        Literal["conversation", "agent", "guideline"] | None,
        typer.Option(
            "--scope-kind",
            metavar="KIND",
            help="Store it for the conversation (--conversation), for the agent, or as its guideline.",
        ),
    ] = None,
    observed_at: Annotated[
        str | None,
        typer.Option("--observed-at", metavar="TIME", help="When it was true; default: now. ISO 8601 with a zone."),
    ] = None,
    conversation: Annotated[
        str | None, typer.Option("--conversation", metavar="ID", help="The conversation that it comes from.")
    ] = None,
    speaker: Annotated[str | None, typer.Option("--speaker", metavar="NAME", help="Who said it, by name.")] = None,
    scope: Annotated[
        str | None,
        typer.Option("--scope", metavar="NAME", help="The owner's scope of this name, instead of the main one."),
    ] = None,
    lane: Annotated[
        Literal["absorb", "buffer"] | None,
        typer.Option("--lane", metavar="LANE", help="absorb or buffer, in a scope that has both."),
    ] = None,
    tag: Annotated[list[str] | None, typer.Option("--tag", metavar="TAG", help="Repeatable.")] = None,
    metadata: Annotated[
        str | None, typer.Option("--metadata", metavar="JSON", help='Stored with it: {"ticket": 17}.')
    ] = None,
    kind: Annotated[
        Literal["fact", "note", "procedure", "episode"] | None,
        typer.Option(
            "--kind", metavar="KIND", help="fact, note, procedure or episode: a digest has a budget for each."
        ),
    ] = None,
    category: Annotated[
        str | None, typer.Option("--category", metavar="WORD", help="A word of yours: preference, decision …")
    ] = None,
    confidence: Annotated[
        float | None, typer.Option("--confidence", metavar="SHARE", help="How certain it is, 0 to 1.")
    ] = None,
    importance: Annotated[float | None, typer.Option("--importance", metavar="SHARE", help="0 to 1.")] = None,
    until: Annotated[
        str | None, typer.Option("--until", metavar="DAY", help="The day with which it is over: 2026-12-24.")
    ] = None,
    sensitivity: Annotated[
        Sensitivity | None,
        typer.Option(
            "--sensitivity", metavar="LEVEL", help="sensitive: more private than the rules find its text to be."
        ),
    ] = None,
    url: Url = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Stores one observation, without a language model.

    \b
    memory-sql observe "Mia is allergic to nuts." --agent ada --user mia
    memory-sql observe "We ship on 24 April." --agent ada --group harbor --observed-at 2026-03-17T10:36:00Z
    memory-sql observe "Answers name their source." --agent ada --scope-kind guideline
    memory-sql observe "Restart the pump twice." --agent ada --group harbor --kind procedure --importance 0.9
    """
    at, extra, last = moment("--observed-at", observed_at), _metadata(metadata), day("--until", until)
    observation = run(
        url,
        data,
        lambda memory: memory.observe(
            text, agent_id=agent, user_id=user, group_id=group, collective=collective, scope_kind=scope_kind,
            observed_at=at, conversation_id=conversation, speaker=speaker, scope=scope, tags=tag or (), metadata=extra,
            lane=lane, kind=kind, category=category, confidence=confidence, importance=importance, sensitivity=sensitivity,
            until=last,
        ),
    )  # fmt: skip
    output.one(observation, _observed, as_json)


def _observed(observation: ObserveResult) -> str:
    line = output.observation_line(observation)
    return f"{line}\nnobody sees it yet: the group has no members" if observation.empty_group else line


def _metadata(text: str | None) -> dict[str, Any]:
    try:
        metadata = json_input.parsed(text or "{}")
    except InputError as error:
        raise InputError(f"--metadata: {error}") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"--metadata is not JSON: {error}") from None
    if not isinstance(metadata, dict):
        raise InputError("--metadata must be a JSON object")
    return metadata
