"""The text of a message in the shapes in which chat APIs write it: content, parts, tool calls."""

from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any, NoReturn

from memory_sql.domain.limits import MOST_PARTS, limited
from memory_sql.errors import InputError

WHY_EMPTY = ("tool_calls", "function_call", "trigger")  # beside these a message needs no content
_ALSO_CALLED = ("text", "message", "body", "value", "msg", "input", "output", "data", "prompt", "parts")
_FIELD = re.compile(r"[A-Za-z_]\w{0,30}")  # may stand in an error; any other key may be somebody's words


def text_of(data: Mapping[Any, Any]) -> str:
    """The text that the message is stored with. Raises `InputError` where there is none and nothing says why."""
    text = "\n".join(filter(None, (_said(data), _text_of_calls(data.get("tool_calls")))))
    if not text and data.get("content") is None and not any(map(data.get, WHY_EMPTY)):
        _refuse(data)
    return text


def _said(data: Mapping[Any, Any]) -> str:
    content, parts = data.get("content"), data.get("parts")
    match content:
        case str() if content or parts is None:
            return content
        case list() if content or parts is None:
            return _text_of_parts("content", content, data.get("role") == "tool")
        case None | "" | []:
            refusal = data.get("refusal")
            return _text_of_parts("parts", parts) if parts is not None else refusal if isinstance(refusal, str) else ""
    raise InputError(f"content must be text, a list of parts or null, not {type(content).__name__}")


def _refuse(data: Mapping[Any, Any]) -> NoReturn:
    if "content" in data:
        raise InputError('content is null; pass "" if the message is meant to be empty')
    fields = [field for field in data if isinstance(field, str) and _FIELD.fullmatch(field)]
    near = get_close_matches("content", fields, 1) or [field for field in fields if field.lower() in _ALSO_CALLED]
    raise InputError("it has no content" + (f"; pass what stands in {near[0]} as content" if near else ""))


def _text_of_parts(name: str, parts: object, told_by_tool: bool = False) -> str:
    if not isinstance(parts, list | tuple):
        raise InputError(f"{name} must be a list, not {type(parts).__name__}")
    texts = (_text_of_part(part, told_by_tool) for part in limited(name, parts, MOST_PARTS))
    return "\n".join(filter(None, texts))


def _text_of_part(part: object, told_by_tool: bool = False) -> str:
    """The text, or what it is in place of one: `type` with OpenAI and the AI SDK, `kind` in A2A, the only key with Gemini."""
    if isinstance(part, str):
        return part
    if not isinstance(part, Mapping):
        raise InputError("a content part must be an object with a type or a text")
    text = part.get("text", part.get("refusal"))
    if isinstance(text, str):
        return text
    if part.get("type") == "tool_result" and told_by_tool:
        return _text_of_result(part.get("content"))
    kind = part.get("type", part.get("kind", _only_key(part)))
    if not isinstance(kind, str):
        raise InputError("a content part must be an object with a type or a text")
    return f"[{kind}]"


def _text_of_result(content: object) -> str:
    """The text of what a tool answered; of what is no text, its kind."""
    if isinstance(content, str | None):
        return content or "[tool_result]"
    return _text_of_parts("the content of a tool_result", content) or "[tool_result]"


def _only_key(part: Mapping[Any, Any]) -> object:
    keys = [key for key, value in part.items() if isinstance(value, Mapping)]
    return keys[0] if len(keys) == 1 else None


def _text_of_calls(tool_calls: object) -> str:
    if not isinstance(tool_calls, list):
        return ""
    calls = limited("tool_calls", tool_calls, MOST_PARTS)
    functions = [
        call.get("function", call) for call in calls if isinstance(call, Mapping)
    ]  # LangChain: the call itself
    names = [f["name"] for f in functions if isinstance(f, Mapping) and isinstance(f.get("name"), str)]
    return f"[used tools: {', '.join(names)}]" if names else ""
