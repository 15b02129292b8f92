"""Storing: add, observe."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from memory_sql.cli import json_input, output
from memory_sql.cli.batches import form_each, model_of, refused
from memory_sql.cli.options import Agent, AsJson, Data, Url, moment, resolve, run
from memory_sql.domain.limits import MOST_MESSAGES
from memory_sql.errors import InputError
from memory_sql.privacy import Sensitivity

if TYPE_CHECKING:
    from memory_sql.cli.files import Conversation, ConversationFile
    from memory_sql.domain.messages import Message
    from memory_sql.domain.results import AddResult, FormationOutcome, FormResult, ObserveResult, RunDueResult
    from memory_sql.memory import Memory

KNOWN = {
    "replaced": "replaced, to be formed anew",
    "differing": "stored with another text, which stays (--replace replaces it)",
    "forgotten": "forgotten, so not stored again; give what is to be said anew a new id",
}
BESIDE = {
    "elsewhere": "formed by another process meanwhile (a worker)",
    "busy": "being formed by another process (a worker)",
}
SHOWN = 5  # ids
UNFORMED = ("excluded", "given_up", "retrying")

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
            "--replace", help="Messages whose id is known with another text get this one, and are formed anew."
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
    Else a file is JSON or JSON Lines of messages: role and content, optionally name, id, created_at, conversation, user_id,
    group_ids. Or of documents: {"messages": […], "conversation_id": …, "time_zone": …}. conversation is the
    conversation's id; a number counts the conversations of the file. If one file has a mistake, no file of the command is
    stored.

    Adding a file again adds nothing: a message is identified by its id, or without one by file, line and text.
    """
    from memory_sql.cli.files import Defaults, read_file
    from memory_sql.histories.recognising import Known
    from memory_sql.languages.dates import zone_of

    zone, alone = zone_of(time_zone or "UTC"), conversation is not None
    known = Known(file_format, zone, _people(person or ()), dates, alone)
    most = resolve(url, data).message_max_characters
    defaults = Defaults(user, conversation, tuple(group or ()), most, time_zone, known)
    read = [read_file(name, defaults) for name in files]
    if dry_run:
        for file in read:
            output.one(_would(file), _would_text, as_json)
        return
    if any(run(url, data, lambda memory: _add_files(memory, read, agent, form, replace, as_json))):
        raise typer.Exit(1)


def _people(given: Sequence[str]) -> dict[str, str]:
    pairs = [one.rpartition("=") for one in given]
    if any(not (name and user) for name, _, user in pairs):
        raise InputError("--person must be NAME=ID")
    return {name: user for name, _, user in pairs}


def _would(file: ConversationFile) -> dict[str, Any]:
    """What storing the file would add to a database that knows none of it."""
    said = [message for talk in file.conversations for message in talk.messages]
    times = sorted(message.created_at for message in said if message.created_at is not None)
    speaking = {m.user_id or talk.user_id for talk in file.conversations for m in talk.messages if m.role == "user"}
    return {
        "file": file.name,
        "conversations": len(file.conversations),
        "messages": file.messages,
        "people": sorted(speaking),
        "groups": sorted({group for talk in file.conversations for group in talk.group_ids}),
        "first": times[0].isoformat() if times else None,
        "last": times[-1].isoformat() if times else None,
    }


def _would_text(would: dict[str, Any]) -> str:
    many, people = output.many, would["people"]
    period = f", {would['first'][:10]} to {would['last'][:10]}" if would["first"] else ""
    who = f" by {_ids(people)}" if people else ""
    groups = f", in {_ids(would['groups'])}" if would["groups"] else ""
    said = f"{many(would['messages'], 'message')} in {many(would['conversations'], 'conversation')}"
    return output.plain(f"{would['file']}: {said}{who}{groups}{period}; nothing was stored")


async def _add_files(
    memory: Memory, files: Sequence[ConversationFile], agent: str, form: bool, replace: bool, as_json: bool
) -> list[bool]:
    """For each file, whether something failed."""
    if form:
        memory.require_llm()  # fails before anything is stored if there is none
    return [await _add_file(memory, file, agent, form, replace, as_json) for file in files]


async def _add_file(
    memory: Memory, file: ConversationFile, agent: str, form: bool, replace: bool, as_json: bool
) -> bool:
    added = []
    with output.Progress("storing conversations", len(file.conversations)) as progress:
        for talk in file.conversations:
            messages = await _with_ids(memory, talk)
            for first in range(0, len(messages), MOST_MESSAGES):
                added.append(
                    await memory.add(
                        messages[first : first + MOST_MESSAGES], agent_id=agent, user_id=talk.user_id,
                        conversation_id=talk.conversation_id, group_ids=talk.group_ids, time_zone=talk.time_zone,
                        replace=replace,
                    )
                )  # fmt: skip
            progress.step()
    done, beside = await _finish(memory, agent, added) if form else (None, {})
    report = _report(file, added, done, beside)
    output.one(report, lambda r: _report_text(r, agent, hint=not form), as_json)
    output.complain_of(report["failed"])
    return bool(report["failed"])


async def _with_ids(memory: Memory, talk: Conversation) -> list[Message]:
    """Gives a message without an id one made from file, place and text.

    So adding the same file again adds nothing, while another file of that name, or a changed line, is new. The text is
    hashed under the database's own key, so that nobody can use ids to confirm a guess at it.
    """
    messages = list(talk.messages)
    said = [f"{m.role}\0{m.name or ''}\0{m.content}" for m in (messages[at] for at in talk.places)]
    ids = await memory.conversations.message_ids(said)
    for (at, place), known in zip(talk.places.items(), ids, strict=True):
        messages[at] = messages[at].model_copy(update={"id": f"{place}:{known}"})
    return messages


async def _finish(memory: Memory, agent: str, added: Sequence[AddResult]) -> tuple[RunDueResult, dict[str, str]]:
    """A file contains finished conversations: forms them, then does what has become due.

    And which of them another process (a worker) has formed meanwhile (`elsewhere`), or is forming (`busy`).
    """
    unformed = set(await memory.conversations.unformed(agent_id=agent))
    asked = [talk for talk in dict.fromkeys(one.conversation_id for one in added) if talk in unformed]
    busy: set[str] = set()
    formed, failed = await form_each(memory, agent, asked, busy)
    new = {one.conversation_id for one in added if (one.accepted or one.replaced) and one.formation not in UNFORMED}
    elsewhere = new - unformed | {one.conversation_id for one in formed if not one.run_ids}
    due = await memory.run_due(agent_id=agent)
    done = due.model_copy(update={"formed": (*formed, *due.formed), "failed": {**failed, **due.failed}})
    return done, dict.fromkeys(elsewhere, "elsewhere") | dict.fromkeys(busy, "busy")


def _report(
    file: ConversationFile, added: Sequence[AddResult], done: RunDueResult | None, beside: dict[str, str]
) -> dict[str, Any]:
    formed = done.formed if done else ()
    return {
        "file": file.name,
        "messages": file.messages,
        "accepted": sum(result.accepted for result in added),
        "duplicates": sum(result.duplicates for result in added),
        **{
            kind: [one for result in added for one in getattr(result, kind)]
            for kind in ("replaced", "differing", "forgotten")
        },
        "cleaned": sum(result.cleaned for result in added),
        "masked": sum(result.masked for result in added),
        "conversations": len(file.conversations),
        "formed": sum(result.messages for result in formed),
        "observations": sum(len(result.observations) for result in formed),
        "known": sum(result.duplicates for result in formed),
        "consolidated": sum(result.version is not None for result in done.consolidated) if done else 0,
        "propagated": sum(len(result.propagated) for result in done.propagated) if done else 0,
        "refused": refused(formed),
        "failed": done.failed if done else {},
        "formation": {**{result.conversation_id: result.formation for result in added}, **beside, **_formation(formed)},
        "empty_groups": sorted({group for result in added for group in result.empty_groups}),
        "model": model_of(formed),
        "due": {} if done else {result.conversation_id: result.trigger for result in added if result.trigger},
    }


def _formed(report: dict[str, Any]) -> str:
    """Where nothing came of it, why."""
    many, messages = output.many, output.many(report["formed"], "message")
    known = f"{many(report['known'], 'observation')} known already"
    if report["observations"]:
        return f"formed {messages} into {many(report['observations'], 'observation')} ({report['model']})"
    if report["known"]:
        return f"read {messages}: nothing new, {known} ({report['model']})"
    return f"read {messages}: nothing to remember in them ({report['model']})"


def _ids(ids: Sequence[str]) -> str:
    more = len(ids) - SHOWN
    return ", ".join(ids[:SHOWN]) + (f" and {more:,} more" if more > 0 else "")


def _formation(formed: Sequence[FormResult]) -> dict[str, FormationOutcome]:
    return {
        result.conversation_id: "formed" if result.observations else "nothing" for result in formed if result.run_ids
    }


def _report_text(report: dict[str, Any], agent: str, *, hint: bool) -> str:
    many = output.many
    lines = [
        f"{report['file']}: {many(report['messages'], 'message')} in {many(report['conversations'], 'conversation')}: "
        f"{report['accepted']:,} new, {report['duplicates']:,} known already"
        + (f", {report['cleaned']:,} cleaned" if report["cleaned"] else "")
        + (f", secrets masked in {report['masked']:,}" if report["masked"] else "")
    ]
    lines += [f"{told}: {_ids(report[kind])}" for kind, told in KNOWN.items() if report[kind]]
    if report["formed"]:
        lines.append(_formed(report))
    for why, told in BESIDE.items():
        if count := list(report["formation"].values()).count(why):
            lines.append(f"{told}: {many(count, 'conversation')}")
    if report["observations"] and (found_nothing := list(report["formation"].values()).count("nothing")):
        lines.append(f"nothing to remember in {many(found_nothing, 'conversation')}")
    if report["consolidated"]:
        lines.append(f"consolidated {many(report['consolidated'], 'scope')}")
    if report["propagated"]:
        lines.append(f"propagated {many(report['propagated'], 'claim')}")
    if left := Counter(why for why in report["formation"].values() if why in UNFORMED):
        lines.append("not formed: " + ", ".join(f"{count} × {why}" for why, count in left.items()))
    if report["empty_groups"]:
        lines.append(f"groups without members, so nobody sees their memory: {', '.join(report['empty_groups'])}")
    if report["refused"]:
        lines.append("refused: " + ", ".join(f"{count} × {reason}" for reason, count in report["refused"].items()))
    if hint:
        due = f"{len(report['due'])} of {many(report['conversations'], 'conversation')}"
        lines.append(f"due: {due}; form what is new with: memory-sql conversation form --agent {agent}")
    return output.plain("\n".join(lines))


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
    at, extra = moment("--observed-at", observed_at), _metadata(metadata)
    observation = run(
        url,
        data,
        lambda memory: memory.observe(
            text, agent_id=agent, user_id=user, group_id=group, collective=collective, scope_kind=scope_kind,
            observed_at=at, conversation_id=conversation, speaker=speaker, scope=scope, tags=tag or (), metadata=extra,
            lane=lane, kind=kind, category=category, confidence=confidence, importance=importance, sensitivity=sensitivity,
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
