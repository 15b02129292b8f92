"""Claude's `conversations.json`: `chat_messages` with `sender` human or assistant."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memory_sql.errors import InputError
from memory_sql.histories.documents import Document, Said


def is_mine(first: Mapping[str, Any]) -> bool:
    return isinstance(first.get("chat_messages"), list)


def document(talk: Mapping[str, Any]) -> Document:
    messages = [message for given in talk["chat_messages"] if (message := _message(given)) is not None]
    return Document(talk.get("uuid"), messages)


def _message(given: object) -> Said | None:
    """None for a message of which nothing was said, as one that was stopped.

    `text` stands in for what `content` has, also for its calls of tools ("This block is not supported …"), so it is read only
    where there is nothing else.
    """
    if not isinstance(given, Mapping) or given.get("sender") not in ("human", "assistant"):
        raise InputError("the sender of a message must be human or assistant")
    parts = given.get("content")
    said = [part["text"] for part in parts if _is_text(part)] if isinstance(parts, list) else []
    text = "\n".join(said) or ("" if _has_others(parts) else given.get("text")) or ""
    if not isinstance(text, str) or not text.strip():
        return None
    return Said(
        {"role": given["sender"], "content": text, "id": given.get("uuid"), "created_at": given.get("created_at")}
    )


def _is_text(part: object) -> bool:
    return isinstance(part, Mapping) and part.get("type") == "text" and isinstance(part.get("text"), str)


def _has_others(parts: object) -> bool:
    return isinstance(parts, list) and any(isinstance(part, Mapping) and part.get("type") != "text" for part in parts)
