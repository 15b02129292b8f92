"""ChatGPT's `conversations.json`: each conversation is a tree, of which `current_node` ends the branch that was shown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from memory_sql.errors import InputError
from memory_sql.histories.documents import Document, Said

_HIDDEN = ("user_editable_context", "model_editable_context", "thoughts", "reasoning_recap")
_TO_PEOPLE = (None, "all")  # other recipients are tools


def is_mine(first: Mapping[str, Any]) -> bool:
    return isinstance(first.get("mapping"), Mapping)


def document(talk: Mapping[str, Any]) -> Document:
    """The messages of the branch that was shown, the oldest first. Raises `InputError` for a tree that isn't one."""
    messages = [message for node in reversed(list(_branch(talk))) if (message := _message(node)) is not None]
    return Document(talk.get("conversation_id") or talk.get("id"), messages)


def _branch(talk: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    nodes, at, seen = talk["mapping"], talk.get("current_node"), set()
    if at is None:  # older exports: the node that was added last
        at = next(reversed(nodes), None)
    while at is not None:
        node = nodes.get(at) if isinstance(at, str) else None
        if not isinstance(node, Mapping) or at in seen:
            raise InputError("its tree of messages is broken")
        seen.add(at)
        yield node
        at = node.get("parent")


def _message(node: Mapping[str, Any]) -> Said | None:
    given = node.get("message")
    if not isinstance(given, Mapping):
        return None
    author, content, about = (_object(given.get(key)) for key in ("author", "content", "metadata"))
    hidden = about.get("is_visually_hidden_from_conversation") or content.get("content_type") in _HIDDEN
    if hidden or author.get("role") not in ("user", "assistant", "tool"):
        return None
    if author["role"] == "assistant" and given.get("recipient") not in _TO_PEOPLE:
        return None
    parts = content.get("parts")
    text = "\n".join(filter(None, map(_text, parts))) if isinstance(parts, list) else content.get("text")
    if not isinstance(text, str) or not text.strip():
        return None
    return Said(
        {"role": author["role"], "content": text, "id": given.get("id"), "create_time": given.get("create_time")}
    )


def _object(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _text(part: object) -> str:
    if isinstance(part, str):
        return part
    kind = _object(part).get("content_type")
    said = _object(part).get("text")
    return said if isinstance(said, str) else f"[{kind}]" if isinstance(kind, str) else ""
