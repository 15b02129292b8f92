"""Claude's `conversations.json`: `chat_messages` with `sender` human or assistant."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memory_sql.errors import InputError


def is_mine(first: Mapping[str, Any]) -> bool:
    return isinstance(first.get("chat_messages"), list)


def document(talk: Mapping[str, Any], place: str) -> dict[str, Any]:
    messages = [message for given in talk["chat_messages"] if (message := _message(given, place)) is not None]
    return {"conversation_id": talk.get("uuid"), "messages": messages}


def _message(given: object, place: str) -> dict[str, Any] | None:
    """None for a message of which nothing was said, as one that was stopped."""
    if not isinstance(given, Mapping) or given.get("sender") not in ("human", "assistant"):
        raise InputError(f"{place}: the sender of a message must be human or assistant")
    parts = given.get("content")
    said = [part["text"] for part in parts if _is_text(part)] if isinstance(parts, list) else []
    text = "\n".join(said) or given.get("text") or ""
    if not isinstance(text, str) or not text.strip():
        return None
    return {"role": given["sender"], "content": text, "id": given.get("uuid"), "created_at": given.get("created_at")}


def _is_text(part: object) -> bool:
    return isinstance(part, Mapping) and part.get("type") == "text" and isinstance(part.get("text"), str)
