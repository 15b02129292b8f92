"""What the readers of exports give: conversations, the messages of each one after another."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

BROKEN = "broken"  # as what a spool notes that something couldn't be read


class Said(NamedTuple):
    """A message as `add` takes it.

    `place`: where it stands, for people. `mark`: what a message without an id is known by within its conversation, with its
    text; else by its position. `order`: what the messages of a conversation are sorted by; else they stay as they come.
    """

    data: Mapping[str, Any]
    place: str = ""
    mark: str = ""
    order: str = ""


class Broken(NamedTuple):
    """A message that can't be read, where it stands, and why. Those beside it can."""

    place: str
    reason: str


class Document(NamedTuple):
    """A conversation. `conversation_id` None: the export gives it no id.

    `place`: where it stands, for people. `mark`: what is put before the positions of its messages, which tell those
    without an id apart. Where the conversation has an id it names no file, so that they are the same in a later export.
    """

    conversation_id: str | None
    messages: Iterable[Said | Broken]
    group_ids: tuple[str, ...] = ()
    place: str = ""
    mark: str = ""
