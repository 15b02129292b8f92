"""Which program wrote an export, by its content, and its conversations, one after another."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any, Literal, NamedTuple, Protocol, cast
from zoneinfo import ZoneInfo

from memory_sql.domain.messages import Message
from memory_sql.errors import InputError
from memory_sql.histories import chatgpt, claude, sharegpt, whatsapp
from memory_sql.histories.documents import Broken, Document, Said
from memory_sql.histories.sources import Source, Sources
from memory_sql.histories.values import lines, texts, values

Format = Literal["messages", "chatgpt", "claude", "slack", "whatsapp", "sharegpt", "finetuning"]
Read = Callable[[float], None]
_HALF = 100  # characters of an id that two names share with a number
_KEYS_OF_TALK = ("conversation", "conversation_id", "session", "session_id", "user_id", "group_ids")


class _Talks(Protocol):
    def is_mine(self, first: Mapping[str, Any]) -> bool: ...
    def document(self, talk: Mapping[str, Any]) -> Document: ...


_OF_JSON: dict[str, _Talks] = {
    "chatgpt": cast("_Talks", chatgpt), "claude": cast("_Talks", claude), "sharegpt": cast("_Talks", sharegpt),
}  # fmt: skip


class Known(NamedTuple):
    """What the reader was told: the format, if any; the zone of times without one; ids by the names in the export.

    `dates`: the order of WhatsApp's dates, where the file leaves it open. `conversation`: what belongs to no other.
    """

    format: Format | None = None
    zone: ZoneInfo = ZoneInfo("UTC")
    people: Mapping[str, str] = {}
    dates: str | None = None
    conversation: str | None = None


def label(name: str, most: int = 200) -> str:
    """A file's name as part of an id, without the characters that an id can't contain."""
    printable = "".join("_" if unicodedata.category(c) in ("Cc", "Cs", "Cf") else c for c in name)
    return unicodedata.normalize("NFC", printable).strip()[:most].strip() or "file"


class Found(NamedTuple):
    """A file and what is in it. `name`: of its conversations that have none."""

    source: Source
    format: Format
    name: str


def by_line(source: Source) -> bool:
    return source.name.lower().endswith((".jsonl", ".ndjson"))


def format_of(source: Source, known: Known) -> Format | None:
    """None: it isn't what was said of it. Raises `InputError` for a file whose beginning can't be read."""
    found = _format_of(source, known)
    return found if known.format in (None, found) else None


def _format_of(source: Source, known: Known) -> Format:
    if known.format in (None, "whatsapp") and whatsapp.is_mine(source.head().decode("utf-8-sig", "replace")):
        return "whatsapp"
    if known.format in ("messages", "whatsapp"):
        return "messages"
    first = next(_values(source), None)
    for called, module in _OF_JSON.items():
        if isinstance(first, Mapping) and known.format in (None, called) and module.is_mine(first):
            return cast("Format", called)
    if _is_of_examples(source, known):
        return "finetuning"
    return "messages"


def _is_of_examples(source: Source, known: Known) -> bool:
    """Reads as far as they are examples. `--format` asks for no more than that each has messages."""
    if known.format not in (None, "finetuning") or known.conversation is not None:
        return False
    count = 0
    with suppress(InputError):  # said when the conversations are read
        for value in _values(source):
            if not (_is_example(value) if known.format is None else _has_messages(value)):
                return False
            count += 1
    return count > (known.format is None)


def found_in(sources: Sources, name: str, known: Known) -> Iterator[Found | Broken]:
    """The exports in a folder or zip, and what is broken so much that nobody can tell."""
    for source in sources.files:
        try:
            kind = format_of(source, known)
            if kind is None or (kind == "messages" and not _is_messages(source)):
                continue
        except InputError as error:
            if not source.name.lower().endswith(".txt"):  # those may be anything
                yield Broken(source.name, str(error))
            continue
        own = name if len(sources.files) == 1 or source.stem == "_chat" else label(source.stem)
        yield Found(source, kind, own if kind == "whatsapp" or own == name else f"{name[:_HALF]}/{own[:_HALF]}")


def documents(found: Found, known: Known, read: Read) -> Iterator[Document | Broken]:
    """Its conversations; `read` hears how many bytes have been read. Raises `InputError` where reading ends early."""
    source = found.source
    if found.format == "whatsapp":
        chat = known.conversation or found.name
        yield whatsapp.document(_reading(source, read), chat, known.zone, known.people, known.dates)
        return
    for n, value in enumerate(_values(source, read), 1):
        place = f"conversation {n}"
        try:
            document = _document(found.format, value)
        except InputError as error:
            yield Broken(place, str(error))
        else:
            own = document.conversation_id
            mark = f"{found.format}:" if own else f"{label(source.name)}:{n}."
            yield document._replace(conversation_id=own or f"{found.name}/{n}", place=place, mark=mark)


def _reading(source: Source, read: Read) -> Callable[[], Iterator[tuple[int, str]]]:
    """It is read twice, so each time counts as half."""
    return lambda: lines(texts(source.pieces(lambda count: read(count / 2))))


def _document(kind: Format, value: Any) -> Document:
    if kind == "finetuning":
        if not _has_messages(value):
            raise InputError("it has no messages")
        return Document(None, [Said(message) for message in value["messages"]])
    module = _OF_JSON[kind]
    if not isinstance(value, Mapping) or not module.is_mine(value):
        raise InputError("isn't of the same form as the first")
    return module.document(value)


def _values(source: Source, read: Read | None = None) -> Iterator[Any]:
    return (one.value for one in values(texts(source.pieces(read)), by_line=by_line(source)))


def _is_messages(source: Source) -> bool:
    """Whether it begins as ours do; other files of JSON lie in the same folders."""
    first = next(_values(source), None)
    if not isinstance(first, Mapping):
        return False
    if isinstance(first.get("messages"), list):
        return all(isinstance(one, Mapping) for one in first["messages"])
    try:
        Message.parse(first, 0)
    except InputError:
        return False
    return True


def _has_messages(value: object) -> bool:
    return isinstance(value, Mapping) and isinstance(value.get("messages"), list)


def _is_example(value: object) -> bool:
    """A line of a file for fine-tuning: messages, and nothing that says where they belong."""
    if not isinstance(value, Mapping) or not isinstance(value.get("messages"), list):
        return False
    return not any(key in holder for holder in (value, *_objects(value["messages"])) for key in _KEYS_OF_TALK)


def _objects(values: list[Any]) -> Iterator[Mapping[str, Any]]:
    return (value for value in values if isinstance(value, Mapping))
