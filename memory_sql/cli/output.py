"""Printing: JSON, or short text in which remembered words can't control the terminal."""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from memory_sql.errors import InputError

if TYPE_CHECKING:
    from memory_sql.domain.messages import RetainedMessage
    from memory_sql.domain.observations import Observation

T = TypeVar("T")

HIDDEN = "***"

_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")  # with those that reverse text


def json_line(value: Any) -> None:
    """Prints a value of the domain, or any JSON value."""
    from pydantic_core import to_jsonable_python

    utf8 = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
    print(json.dumps(to_jsonable_python(value), ensure_ascii=not utf8))


def one(value: T, text: Callable[[T], str], as_json: bool) -> None:
    if as_json:
        json_line(value)
    else:
        print(text(value))


def rows(items: Iterable[T], line: Callable[[T], str], as_json: bool, nothing: str) -> None:
    """Prints a list, one line per row; as text, `nothing` (if it isn't empty) for an empty list."""
    found = list(items)
    for item in found:
        one(item, line, as_json)
    if not found and nothing and not as_json:
        print(nothing)


def complain(text: str) -> None:
    """One line on stderr."""
    print(f"memory-sql: {' '.join(plain(text).split())}", file=sys.stderr)


def complain_of(failed: Mapping[str, str]) -> None:
    for what, reason in failed.items():
        complain(f"{what}: {reason}")


def can_ask() -> bool:
    """Whether somebody can answer a prompt."""
    return sys.stdin.isatty()


def plain(text: str) -> str:
    """The text without control characters, which could control the terminal; each becomes U+FFFD."""
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", text)


def masked(url: str) -> str:
    """The URL without its password. Text that doesn't look like a URL is hidden."""
    if not re.match(r"[\w+.-]+://", url):
        return HIDDEN
    url = re.sub(r"(://[^:@/?]*:).*@", rf"\1{HIDDEN}@", url, flags=re.DOTALL)
    return re.sub(r"(?i)([?&][^=&]*pass[^=&]*=)[^&]*", rf"\1{HIDDEN}", url)


def flat(text: str) -> str:
    return plain(" ".join(text.split()))


def indented(text: str, indent: str = "  ", width: int = 96, hanging: str = "  ") -> str:
    """The text, wrapped but not at no-break spaces; continued lines are indented by `hanging`."""
    return "\n".join(
        textwrap.fill(
            plain(line), width, initial_indent=indent, subsequent_indent=indent + hanging, break_long_words=False,
            break_on_hyphens=False,
        )
        for line in text.split("\n")
    ).replace("\N{NO-BREAK SPACE}", " ")  # fmt: skip


def day(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%d}"


def minute(moment: datetime | None) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M} UTC" if moment else "never"


def many(count: int, what: str) -> str:
    """`1 message`, `2 messages`, `1,200 messages`."""
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def observation_line(observation: Observation) -> str:
    o = observation
    return f"{o.id}  {o.scope}  {day(o.said_at)}  {flat(o.content)}"


def message_line(message: RetainedMessage) -> str:
    m = message
    who = m.speaker or m.user_id or m.role
    return plain(f"{m.conversation_id}  {m.id}  {minute(m.said_at)}  {who}: {flat(m.content)}")


@contextmanager
def whole_file(file: Path) -> Iterator[TextIOWrapper]:
    """A temporary file, readable by nobody else, that replaces `file` when it is complete.

    What is no regular file, such as a pipe or `/dev/stdout`, is written to.
    """
    if file.exists() and not file.is_file():
        with file.open("w", encoding="utf-8", newline="\n") as to:
            yield to
        return
    file = file.resolve()  # a link stays
    try:
        descriptor, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
    except OSError as error:
        raise InputError(f"{file} can't be written: {error.strerror}") from error
    try:
        with open(descriptor, "w", encoding="utf-8", newline="\n") as to:
            yield to
        os.replace(name, file)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(name)
        raise
