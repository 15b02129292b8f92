"""Reads conversation files, and exports of other programs (`histories`): JSON or JSON Lines of messages.

A file is valid as a whole or not at all.

An entry is a message in the OpenAI chat format, or a document `{"messages": […], "conversation_id": …}`. Other keys say
where the message belongs: `conversation` or `conversation_id` (`session`, `session_id` mean the same), `group_ids`,
`time_zone`.
"""

from __future__ import annotations

import json
import sys
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from memory_sql.cli import json_input
from memory_sql.domain.ids import host_id
from memory_sql.domain.messages import Message
from memory_sql.errors import InputError, InvalidMessageError, TooLargeError
from memory_sql.histories.archives import files_of, is_several
from memory_sql.histories.recognising import Known, of_files, of_text, of_values
from memory_sql.languages.dates import zone_of

STDIN = "stdin"
_NAME_CHARACTERS = 200  # leaves room for a line number and a digest in a message id


@dataclass(frozen=True, slots=True)
class Conversation:
    """The messages of one conversation, in the order of the file. `user_id` is the user of the conversation.

    `places`: for messages without an id, their places in the file, by position.
    """

    conversation_id: str
    user_id: str
    group_ids: tuple[str, ...]
    messages: tuple[Message, ...]
    time_zone: str | None = None
    places: Mapping[int, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ConversationFile:
    """`name` is the name of the file; conversations are in the order of their first appearance."""

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
    known: Known = field(default_factory=Known)


class _Entry(NamedTuple):
    """A message in the file; `place` is for people, `mark` for a derived id."""

    place: str
    mark: str
    data: Any
    document: Mapping[str, Any]


@dataclass(slots=True)
class _Talk:
    user_id: str | None = None
    groups: dict[str, None] = field(default_factory=dict)
    messages: list[Message] = field(default_factory=list)
    time_zone: str | None = None
    places: dict[int, str] = field(default_factory=dict)


def read_file(name: str, defaults: Defaults) -> ConversationFile:
    """The conversations of a file, folder or zip; `-` is stdin. Raises `InputError` naming the line and what is wrong."""
    if name != "-" and is_several(Path(name)):
        return _parsed(lambda: _of_several(Path(name), defaults), name, defaults)
    return parse(_bytes(name), STDIN if name == "-" else name, defaults)


def _bytes(name: str) -> bytes:
    if name == "-":
        return sys.stdin.buffer.read()
    try:
        return Path(name).read_bytes()
    except OSError as error:
        raise InputError(f"{name}: {error.strerror}") from error


def parse(content: bytes, name: str, defaults: Defaults) -> ConversationFile:
    return _parsed(lambda: _entries(_text(content), Path(name), defaults.known), name, defaults)


def _parsed(entries: Callable[[], Iterable[_Entry]], name: str, defaults: Defaults) -> ConversationFile:
    path = Path(name)
    try:
        conversations = _talks(list(entries()), _label(path.name), _label(path.stem), defaults)
        return ConversationFile(name, tuple(_conversations(conversations, defaults)))
    except InputError as error:
        raise InputError(f"{name}: {error}") from None


def _of_several(path: Path, defaults: Defaults) -> Iterable[_Entry]:
    return _of_documents(of_files(files_of(path), _label(path.stem), defaults.known, _json_of))


def _json_of(name: str, content: bytes) -> Any:
    """One JSON value, or the list of those of JSON Lines."""
    try:
        text = _text(content)
        return [value.value for value in _lines(text)] if name.endswith(".jsonl") else _json(text, 1)
    except InputError as error:
        raise InputError(f"{name}: {error}") from None


def _text(content: bytes) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise InputError(f"line {line}: not UTF-8: byte 0x{content[error.start]:02x} at offset {error.start}") from None


def _label(name: str) -> str:
    """A file's name as part of an id, without the characters that an id can't contain."""
    printable = "".join("_" if unicodedata.category(c) in ("Cc", "Cs", "Cf") else c for c in name)
    return unicodedata.normalize("NFC", printable).strip()[:_NAME_CHARACTERS].strip() or "file"


class _Value(NamedTuple):
    value: Any
    place: str
    inside: str
    mark: str


def _entries(text: str, path: Path, known: Known) -> Iterator[_Entry]:
    """Of an export of another program, if it is one; else of the messages and documents themselves."""
    found = of_text(text, _label(path.stem), known)
    is_text = found is not None or known.format == "whatsapp"
    values = [] if is_text else list(_values(text, lines=path.suffix in (".jsonl", ".ndjson")))
    found = found or of_values([one.value for one in values], _label(path.stem), known)
    if found is None and known.format not in (None, "messages"):
        raise InputError(f"it isn't of the format {known.format}")
    if found is not None:
        yield from _of_documents(found)
    for one in () if found is not None else values:
        yield from _of_value(*one)


def _of_documents(documents: Iterable[Mapping[str, Any]]) -> Iterator[_Entry]:
    for n, document in enumerate(documents, 1):
        yield from _of_value(document, f"conversation {n}", f"conversation {n}, ", str(n))


def _values(text: str, *, lines: bool) -> Iterator[_Value]:
    """JSON Lines if the name says so, or if the first of several lines is an object; else one JSON value."""
    first, _, rest = text.strip().partition("\n")
    if not first:
        return
    if lines or (rest and first.startswith("{") and first.rstrip().endswith("}")):
        yield from _lines(text)
        return
    value = _json(text, 1)
    if isinstance(value, list):
        for n, item in enumerate(value, 1):
            yield _Value(item, f"message {n}", f"item {n}, ", str(n))
    else:
        yield _Value(value, "message 1", "", "1")


def _lines(text: str) -> Iterator[_Value]:
    for n, line in enumerate(text.split("\n"), 1):
        if line.strip():
            yield _Value(_json(line, n), f"line {n}", f"line {n}, ", str(n))


def _json(text: str, line: int) -> Any:
    try:
        return json_input.parsed(text)
    except InputError as error:
        raise InputError(f"line {line}: {error}") from None
    except json.JSONDecodeError as error:
        raise InputError(f"line {line + error.lineno - 1}: not JSON: {error.msg} (column {error.colno})") from None
    except (ValueError, RecursionError) as error:  # a number with thousands of digits, thousands of brackets
        raise InputError(f"line {line}: not JSON: {type(error).__name__}") from None


def _of_value(value: Any, place: str, inside: str, mark: str) -> Iterator[_Entry]:
    """The message itself, or the messages of a document."""
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


def _talks(entries: Sequence[_Entry], name: str, stem: str, defaults: Defaults) -> dict[str, _Talk]:
    conversations: dict[str, _Talk] = {}
    for position, entry in enumerate(entries):
        try:
            message = Message.parse(entry.data, position, defaults.max_characters)
            talk = conversations.setdefault(_conversation_of(entry, stem, defaults), _Talk())
            groups = (*defaults.groups, *_groups(entry.document), *_groups(entry.data))
            talk.time_zone = _zone(entry) or talk.time_zone
        except InvalidMessageError as error:
            raise InputError(f"{entry.place}: {error.reason}") from None
        except TooLargeError as error:
            raise InputError(f"{entry.place}: {error.size:,} characters; the limit is {error.limit:,}") from None
        except InputError as error:
            raise InputError(f"{entry.place}: {error}") from None
        talk.user_id = talk.user_id or entry.document.get("user_id") or message.user_id
        talk.groups.update(dict.fromkeys(groups))
        if message.id is None:
            talk.places[len(talk.messages)] = f"{name}:{entry.mark}"
        talk.messages.append(message)
    return conversations


def _conversation_of(entry: _Entry, stem: str, defaults: Defaults) -> str:
    """The id of the conversation. A number in `conversation` (or `session`) counts the conversations of this file."""
    own = entry.data.get("conversation", entry.data.get("session"))
    if isinstance(own, int) and not isinstance(own, bool):
        return host_id(f"{stem}/{own}", "conversation")
    for value in (own, *_ids(entry), defaults.conversation):
        if value is not None:
            return host_id(value, "conversation")
    return stem


def _ids(entry: _Entry) -> Iterator[object]:
    """The id under our name or the common one."""
    for holder in (entry.data, entry.document):
        yield from (holder.get("conversation_id"), holder.get("session_id"))


def _groups(holder: Mapping[str, Any]) -> Iterable[str]:
    found = holder.get("group_ids")
    if found is None:
        return ()
    if not isinstance(found, list):
        raise InputError("group_ids must be a list")
    return [host_id(group, "group_ids") for group in found]


def _zone(entry: _Entry) -> str | None:
    found = entry.data.get("time_zone", entry.document.get("time_zone"))
    if found is not None and not isinstance(found, str):
        raise InputError("time_zone must be text")
    return None if found is None else zone_of(found).key


def _conversations(conversations: Mapping[str, _Talk], defaults: Defaults) -> Iterator[Conversation]:
    for conversation_id, talk in conversations.items():
        user = defaults.user or talk.user_id
        if user is None:
            raise InputError(
                f"whose is conversation {conversation_id}? pass --user, or give one of its messages a user_id"
            )
        yield Conversation(
            conversation_id,
            host_id(user, "user_id"),
            tuple(talk.groups),
            tuple(talk.messages),
            talk.time_zone or defaults.time_zone,
            talk.places,
        )
