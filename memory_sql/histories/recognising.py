"""Which program wrote an export, by its content, and its conversations as documents."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any, Literal, NamedTuple, Protocol, cast
from zoneinfo import ZoneInfo

from memory_sql.errors import InputError
from memory_sql.histories import chatgpt, claude, sharegpt, slack, whatsapp

Format = Literal["messages", "chatgpt", "claude", "slack", "whatsapp", "sharegpt", "finetuning"]
_KEYS_OF_TALK = ("conversation", "conversation_id", "session", "session_id", "user_id", "group_ids")


class _Talks(Protocol):
    def is_mine(self, first: Mapping[str, Any]) -> bool: ...
    def document(self, talk: Mapping[str, Any], place: str) -> dict[str, Any]: ...


_OF_JSON: dict[str, _Talks] = {
    "chatgpt": cast("_Talks", chatgpt), "claude": cast("_Talks", claude), "sharegpt": cast("_Talks", sharegpt),
}  # fmt: skip


class Known(NamedTuple):
    """What the reader was told: the format, if any; the zone of times without one; ids by the names in the export.

    `dates`: the order of WhatsApp's dates, where the file leaves it open. `together`: lines are one conversation.
    """

    format: Format | None = None
    zone: ZoneInfo = ZoneInfo("UTC")
    people: Mapping[str, str] = {}
    dates: str | None = None
    together: bool = False


def of_files(
    files: Mapping[str, bytes], name: str, known: Known, parsed: Callable[[str, bytes], Any]
) -> list[dict[str, Any]]:
    """The conversations of a folder or zip. Raises `InputError` where nothing in it is known."""
    if known.format in (None, "slack") and slack.is_mine(files):
        return list(slack.documents(files, parsed, known.people))
    read = [found for one in sorted(files) if (found := _of_one(one, files[one], name, known, parsed)) is not None]
    if not read:
        raise InputError("no export of ChatGPT, Claude, Slack, WhatsApp or ShareGPT is in it")
    return [document for found in read for document in found]


def _of_one(
    one: str, content: bytes, name: str, known: Known, parsed: Callable[[str, bytes], Any]
) -> list[dict[str, Any]] | None:
    if PurePosixPath(one).suffix == ".txt":
        return of_text(_text(one, content), name, known)
    value = parsed(one, content)
    return of_values(value if isinstance(value, list) else [value], name, known)


def _text(name: str, content: bytes) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{name}: not UTF-8: byte 0x{content[error.start]:02x} at offset {error.start}") from None


def of_text(text: str, name: str, known: Known) -> list[dict[str, Any]] | None:
    """The conversation of a text export; None if it is none."""
    if known.format not in (None, "whatsapp") or not whatsapp.is_mine(text):
        return None
    return [whatsapp.document(text, name, known.zone, known.people, known.dates)]


def of_values(values: Sequence[Any], name: str, known: Known) -> list[dict[str, Any]] | None:
    """The conversations of JSON; None for messages, and documents of messages, in our own form."""
    first = values[0] if values else None
    if not isinstance(first, Mapping) or known.format == "messages":
        return None
    for called, module in _OF_JSON.items():
        if known.format in (None, called) and module.is_mine(first):
            return [_numbered(module, value, name, n) for n, value in enumerate(values, 1)]
    examples = len(values) > 1 and not known.together and all(map(_is_example, values))
    if known.format == "finetuning" or (known.format is None and examples):
        return [{**value, "conversation_id": f"{name}/{n}"} for n, value in enumerate(values, 1)]
    return None


def _numbered(module: _Talks, value: Any, name: str, n: int) -> dict[str, Any]:
    place = f"conversation {n}"
    if not isinstance(value, Mapping) or not module.is_mine(value):
        raise InputError(f"{place}: isn't of the same form as the first")
    document = module.document(value, place)
    return {**document, "conversation_id": document["conversation_id"] or f"{name}/{n}"}


def _is_example(value: object) -> bool:
    """A line of a file for fine-tuning: messages, and nothing that says where they belong."""
    if not isinstance(value, Mapping) or not isinstance(value.get("messages"), list):
        return False
    return not any(key in holder for holder in (value, *_objects(value["messages"])) for key in _KEYS_OF_TALK)


def _objects(values: list[Any]) -> Iterator[Mapping[str, Any]]:
    return (value for value in values if isinstance(value, Mapping))
