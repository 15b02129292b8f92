"""Reads conversation files, and exports of other programs (`histories`), into a spool: JSON or JSON Lines of messages.

A file of messages is valid as a whole or not at all: whoever wrote it can mend it. Of an export what can't be read is named,
and the rest is read.

An entry is a message in the OpenAI chat format, or a document `{"messages": […], "conversation_id": …}`. Other keys say
where the message belongs: `conversation` or `conversation_id` (`session`, `session_id` mean the same), `group_ids`,
`time_zone`.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, NamedTuple

from memory_sql.domain.ids import host_id
from memory_sql.domain.messages import Message
from memory_sql.errors import InputError, InvalidMessageError, TooLargeError
from memory_sql.histories import slack
from memory_sql.histories.documents import BROKEN, Broken, Document
from memory_sql.histories.recognising import Found, Known, Read, by_line, documents, format_of, found_in, label
from memory_sql.histories.sources import Source, Sources, is_several, of_bytes, of_file, of_stream, sources_of
from memory_sql.histories.spool import File, Spool, Stretch
from memory_sql.histories.values import Value, texts, values
from memory_sql.languages.dates import zone_of

STDIN = "stdin"
_WHOLE = sys.maxsize
_IN_MEMORY = 1024**2  # of stdin
Conversation = Stretch


@dataclass(frozen=True, slots=True)
class ConversationFile:
    """`name` is the name of the file; conversations are whole, in the order of their first appearance."""

    name: str
    conversations: tuple[Conversation, ...]

    @property
    def messages(self) -> int:
        return sum(len(conversation.messages) for conversation in self.conversations)


@dataclass(frozen=True, slots=True)
class Defaults:
    """Values for messages that don't have their own."""

    user: str | None = None
    conversation: str | None = None
    groups: tuple[str, ...] = ()
    max_characters: int = 200_000
    time_zone: str | None = None
    replace: bool = False
    known: Known = field(default_factory=Known)


class _Entry(NamedTuple):
    """A message in the file; `place` is for people, `mark` for a derived id."""

    place: str
    mark: str
    data: Any
    document: Mapping[str, Any]


class _NobodysError(InputError):
    """It isn't said whose a conversation is, which is so for the others too."""

    def __init__(self, conversation_id: str) -> None:
        super().__init__(f"whose is conversation {conversation_id}? pass --user, or give one of its messages a user_id")


def read_file(name: str, defaults: Defaults) -> ConversationFile:
    """All conversations of a file, folder or zip; `-` is stdin. Raises `InputError` naming the line and what is wrong."""
    with Spool() as spool:
        return _whole(read_into(spool, name, defaults))


def parse(content: bytes, name: str, defaults: Defaults) -> ConversationFile:
    with Spool() as spool:
        file = spool.file(name, defaults.time_zone)
        _read(file, lambda: _of_source(file, of_bytes(content, Path(name).name), defaults, _nobody))
        return _whole(file)


def _whole(file: File) -> ConversationFile:
    if broken := file.notes(BROKEN):
        raise InputError(f"{file.name}: {broken[0]}")
    return ConversationFile(file.name, tuple(file.stretches(_WHOLE, _WHOLE)))


def _nobody(count: float) -> None:
    """Nobody asks how far it is."""


def read_into(spool: Spool, name: str, defaults: Defaults, watch: Callable[[int], Read] = lambda size: _nobody) -> File:
    """As `read_file`, into the spool; `notes(BROKEN)` of the result says what of an export couldn't be read.

    `watch` is told how many bytes there are, and gives what hears how many have been read.
    """
    file, path = spool.file(STDIN if name == "-" else name, defaults.time_zone), Path(name)
    with ExitStack() as opened:

        def read() -> None:
            if name == "-":
                source = _once(sys.stdin.buffer, STDIN, opened)
            elif path.is_fifo() or path.is_char_device():
                source = _once(opened.enter_context(path.open("rb")), path.name, opened)
            elif is_several(path):
                sources = opened.enter_context(sources_of(path))
                _of_several(file, sources, path, defaults, watch(sum(one.size for one in sources.files)))
                return
            else:
                source = of_file(path, path.name)
            _of_source(file, source, defaults, watch(source.size))

        _read(file, read)
    return file


def _once(given: IO[bytes], name: str, opened: ExitStack) -> Source:
    """What can be read only once, kept to be read again."""
    held = opened.enter_context(tempfile.SpooledTemporaryFile(_IN_MEMORY))  # noqa: SIM115  # `opened` closes it
    shutil.copyfileobj(given, held)
    return of_stream(held, name)


def _read(file: File, read: Callable[[], None]) -> None:
    try:
        with file.reading():
            read()
    except InputError as error:
        raise InputError(f"{file.name}: {error}") from None
    if (nobodys := file.nobodys()) is not None:
        raise InputError(f"{file.name}: {_NobodysError(nobodys)}")


def _of_source(file: File, source: Source, defaults: Defaults, read: Read) -> None:
    kind, name = format_of(source, defaults.known), label(source.stem)
    if kind is None:
        raise InputError(f"it isn't of the format {defaults.known.format}")
    if kind == "messages":
        _put_messages(file, source, name, defaults, read)
    else:
        _put_all(file, documents(Found(source, kind, name), defaults.known, read), defaults)


def _of_several(file: File, sources: Sources, path: Path, defaults: Defaults, read: Read) -> None:
    known = defaults.known
    if known.format in (None, "slack") and slack.is_mine(sources.files):
        _put_all(file, slack.documents(sources.files, known.people, read), defaults)
        return
    for one in list(found_in(sources, label(path.resolve().stem), known)):
        if isinstance(one, Broken):
            file.note(BROKEN, [f"{one.place}: {one.reason}"])
            continue
        try:
            if one.format == "messages":
                with file.whole():
                    _put_messages(file, one.source, one.name, defaults, read)
            else:
                _put_all(file, documents(one, known, read), defaults, f"{one.source.name}: ")
        except _NobodysError:
            raise
        except InputError as error:
            file.note(BROKEN, [f"{one.source.name}: {error}"])
    if not file.conversations():
        raise InputError(next(iter(file.notes(BROKEN)), _nothing(sources)))


def _nothing(sources: Sources) -> str:
    if sources.zips:
        return f"a zip is inside, which isn't read: unpack {sources.zips[0]}, and add what it holds"
    return "no export of ChatGPT, Claude, Slack, WhatsApp or ShareGPT is in it"


# Exports


def _put_all(file: File, found: Iterable[Document | Broken], defaults: Defaults, before: str = "") -> None:
    """Raises `InputError` where nothing can be read; else notes what can't. `before`: says in which file that is."""
    first: str | None = None
    good = 0
    try:
        for one in found:
            reason = one.reason if isinstance(one, Broken) else _put_whole(file, one, defaults, before)
            good += reason is None
            if reason is not None:
                said = f"{one.place}: {reason}" if one.place else reason
                first = first or said
                file.note(BROKEN, [f"{before}{said}"])
    except _NobodysError:
        raise
    except InputError as error:
        if not good:
            raise
        file.note(BROKEN, [f"{before}{error}; what follows isn't read"])
    if first is not None and not good:
        raise InputError(first)


def _put_whole(file: File, document: Document, defaults: Defaults, before: str) -> str | None:
    """What is wrong with the conversation; it is then left out."""
    try:
        with file.whole():
            _put_document(file, document, defaults, before)
    except _NobodysError:
        raise
    except InputError as error:
        return str(error)
    return None


def _put_document(file: File, document: Document, defaults: Defaults, before: str) -> None:
    conversation = host_id(document.conversation_id, "conversation")
    groups = [*defaults.groups, *(host_id(group, "group_ids") for group in document.group_ids)]
    count = 0
    for position, said in enumerate(document.messages):
        try:
            if isinstance(said, Broken):
                raise InputError(said.reason)
            message = _parsed(said.data, position, defaults)
        except InputError as error:
            file.note(BROKEN, [f"{before}{said.place or f'{document.place}, message {position + 1}'}: {error}"])
            continue
        if defaults.replace and message.id is None:
            raise InputError("--replace goes by ids, and its messages have none")
        count += 1
        file.put(
            conversation, message, user=defaults.user or message.user_id, groups=groups, zone=None,
            place=f"{document.mark}{position + 1}", mark=said.mark, order=said.order,
        )  # fmt: skip
    if count and defaults.user is None and not file.has_owner(conversation):
        raise _NobodysError(conversation)


def _parsed(data: Any, position: int, defaults: Defaults) -> Message:
    try:
        return Message.parse(data, position, defaults.max_characters)
    except InvalidMessageError as error:
        raise InputError(error.reason) from None
    except TooLargeError as error:
        raise InputError(f"{error.size:,} characters; the limit is {error.limit:,}") from None


# Messages and documents of our own form


def _put_messages(file: File, source: Source, stem: str, defaults: Defaults, read: Read) -> None:
    name = label(source.name)
    entries = (
        entry for value in values(texts(source.pieces(read)), by_line=by_line(source)) for entry in _of_value(value)
    )
    for position, entry in enumerate(entries):
        try:
            message = _parsed(entry.data, position, defaults)
            if defaults.replace and message.id is None:
                raise InputError("--replace goes by ids; give it one")
            file.put(
                _conversation_of(entry, stem, defaults), message, user=_user(entry, message, defaults),
                groups=(*defaults.groups, *_groups(entry.document), *_groups(_said_by(entry))), zone=_zone(entry),
                place=f"{name}:{entry.mark}",
            )  # fmt: skip
        except InputError as error:
            raise InputError(f"{entry.place}: {error}") from None


def _of_value(one: Value) -> Iterator[_Entry]:
    """The message itself, or the messages of a document."""
    value, place, inside, mark = one
    if not isinstance(value, dict):
        raise InputError(f"{place}: must be an object, not {type(value).__name__}")
    if "messages" not in value:
        yield _Entry(place, mark, value, {})
        return
    if not isinstance(value["messages"], list):
        raise InputError(f"{inside}messages: must be a list")
    document = {
        key: value[key]
        for key in ("conversation_id", "session_id", "user_id", "group_ids", "time_zone")
        if value.get(key) is not None
    }
    for n, message in enumerate(value["messages"], 1):
        yield _Entry(f"{inside}message {n}", f"{mark}.{n}", message, document)


def _said_by(entry: _Entry) -> Mapping[str, Any]:
    """What the message says of itself; a plain text says nothing."""
    return entry.data if isinstance(entry.data, Mapping) else {}


def _user(entry: _Entry, message: Message, defaults: Defaults) -> str | None:
    named = defaults.user or entry.document.get("user_id") or message.user_id
    return None if named is None else host_id(named, "user_id")


def _conversation_of(entry: _Entry, stem: str, defaults: Defaults) -> str:
    """The id of the conversation. A number in `conversation` (or `session`) counts the conversations of this file."""
    own = _said_by(entry).get("conversation", _said_by(entry).get("session"))
    if isinstance(own, int) and not isinstance(own, bool):
        return host_id(f"{stem}/{own}", "conversation")
    for value in (own, *_ids(entry), defaults.conversation):
        if value is not None:
            return host_id(value, "conversation")
    return stem


def _ids(entry: _Entry) -> Iterator[object]:
    """The id under our name or the common one."""
    for holder in (_said_by(entry), entry.document):
        yield from (holder.get("conversation_id"), holder.get("session_id"))


def _groups(holder: Mapping[str, Any]) -> Iterable[str]:
    found = holder.get("group_ids")
    if found is None:
        return ()
    if not isinstance(found, list):
        raise InputError("group_ids must be a list")
    return [host_id(group, "group_ids") for group in found]


def _zone(entry: _Entry) -> str | None:
    found = _said_by(entry).get("time_zone", entry.document.get("time_zone"))
    if found is not None and not isinstance(found, str):
        raise InputError("time_zone must be text")
    return None if found is None else zone_of(found).key
