"""ShareGPT: `{"conversations": [{"from": "human", "value": …}]}`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memory_sql.errors import InputError
from memory_sql.histories.documents import Document, Said

_ROLES = {
    "human": "user", "user": "user", "gpt": "assistant", "chatgpt": "assistant", "assistant": "assistant", "bot": "assistant",
    "bing": "assistant", "bard": "assistant", "model": "assistant", "system": "system", "tool": "tool",
    "function_call": "assistant", "observation": "tool", "function": "function",
}  # fmt: skip


def is_mine(first: Mapping[str, Any]) -> bool:
    turns = first.get("conversations")
    return isinstance(turns, list) and (not turns or (isinstance(turns[0], Mapping) and "from" in turns[0]))


def document(talk: Mapping[str, Any]) -> Document:
    return Document(talk.get("id"), [_message(turn) for turn in talk["conversations"]])


def _message(turn: object) -> Said:
    if not isinstance(turn, Mapping) or not isinstance(turn.get("value"), str):
        raise InputError("a turn must be an object with from and value")
    speaker = turn.get("from")
    role = _ROLES.get(speaker) if isinstance(speaker, str) else None
    if role is None:
        raise InputError(f"from must be one of {', '.join(_ROLES)}")
    return Said({"role": role, "content": turn["value"]})
