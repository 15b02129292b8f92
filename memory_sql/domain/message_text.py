"""The text of a message in the shapes in which chat APIs write it: content, parts, tool calls."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from itertools import islice
from typing import Any, NoReturn

from memory_sql.domain.limits import MOST_PARTS, limited
from memory_sql.errors import InputError

_CALLS = frozenset(("tool_use", "tool_call", "tool-call", "toolUse", "functionCall", "function_call"))
_RESULTS = frozenset(("tool_result", "tool-result", "toolResult", "functionResponse", "function_response"))
_THOUGHTS = frozenset((
    "thinking", "redacted_thinking",
    "reasoning", "redacted-reasoning", "reasoning_text", "reasoning_content", "reasoningContent",
))  # fmt: skip
WHY_EMPTY = ("tool_calls", "function_call", "trigger")  # beside these a message needs no content
ALSO_CALLED = ("text", "message", "body", "value", "msg", "input", "output", "data", "prompt", "transcript", "parts")
_OF_TEXT = ("text", "input_text", "output_text")  # types of parts that are nothing but text
_FIELD = re.compile(r"[A-Za-z_]\w{0,30}")  # may stand in an error; any other key may be somebody's words
_ALIKE = 0.85


def text_of(data: Mapping[Any, Any]) -> str:
    """The text that the message is stored with. Raises `InputError` if it is elsewhere, or missing for no reason."""
    said = _said(data)
    if not said.strip():
        _refuse_text_elsewhere(data)
    text = _joined((said, _text_of_calls(data.get("tool_calls"))))
    if not text and data.get("content") is None and not any(map(data.get, (*WHY_EMPTY, "parts"))):
        _refuse(data)
    return text


def _said(data: Mapping[Any, Any]) -> str:
    content, parts = data.get("content"), data.get("parts")
    match content:
        case str() if content or parts is None:
            return content
        case list() if content or parts is None:
            return _text_of_parts("content", content)
        case None | "" | []:
            return _text_of_parts("parts", parts) if parts is not None else _in_its_place(data)
    raise InputError(f"content must be text, a list of parts or null, not {type(content).__name__}")


def _in_its_place(data: Mapping[Any, Any]) -> str:
    """OpenAI's assistant refuses and speaks beside the content."""
    audio = data.get("audio")
    spoken = audio.get("transcript") if isinstance(audio, Mapping) else None
    return next((text for text in (data.get("refusal"), spoken) if isinstance(text, str)), "")


def _refuse_text_elsewhere(data: Mapping[Any, Any]) -> None:
    """Whatever else says why the message is empty: what was said would be lost."""
    fields = [field for field in _fields(data) if field not in ("content", "parts") and _holds_text(data[field])]
    misspelt = [] if "content" in data else get_close_matches("content", fields, 1, _ALIKE)
    found = misspelt or [field for field in fields if field.lower() in ALSO_CALLED]
    if found:
        lacks = "its content is empty" if "content" in data else "it has no content"
        raise InputError(f"{lacks}; pass what stands in {found[0]} as content")


def _holds_text(value: object) -> bool:
    """Also as a part, or in a list of parts."""
    parts = value if isinstance(value, list | tuple) else [value]
    texts = (
        _words(one) or one.get("content") if isinstance(one, Mapping) else one for one in islice(parts, MOST_PARTS)
    )
    return any(isinstance(text, str) and text.strip() for text in texts)


def _refuse(data: Mapping[Any, Any]) -> NoReturn:
    if "content" in data:
        raise InputError('content is null; pass "" if the message is meant to be empty')
    fields = _fields(data)
    near = get_close_matches("content", fields, 1) or [field for field in fields if field.lower() in ALSO_CALLED]
    raise InputError("it has no content" + (f"; pass what stands in {near[0]} as content" if near else ""))


def _fields(data: Mapping[Any, Any]) -> list[str]:
    return [field for field in data if isinstance(field, str) and _FIELD.fullmatch(field)]


def _text_of_parts(name: str, parts: object) -> str:
    if not isinstance(parts, list | tuple):
        raise InputError(f"{name} must be a list, not {type(parts).__name__}")
    said = list(limited(name, parts, MOST_PARTS))
    results = [is_result(part) for part in said]
    if any(results) and not all(results):  # beside somebody's words, what a tool says would be theirs
        said = [{"text": f"[{_kind(part)}]"} if is_one else part for part, is_one in zip(said, results, strict=True)]
    return _joined(map(_text_of_part, said))


def _joined(texts: Iterable[str]) -> str:
    return "\n".join(filter(None, texts))


def _kind(part: object) -> object:
    """`type` with OpenAI, Anthropic and the AI SDK, `kind` in A2A, the only key with Gemini and Bedrock."""
    return part.get("type", part.get("kind", _only_key(part))) if isinstance(part, Mapping) else None


def _is_of(kinds: frozenset[str], part: object) -> bool:
    kind = _kind(part)
    return isinstance(kind, str) and kind in kinds


def is_result(part: object) -> bool:
    """Whether it is the result of a tool."""
    return _is_of(_RESULTS, part)


def _is_thought(part: Mapping[Any, Any]) -> bool:
    """A model's, who doesn't say it: Gemini marks a text as one."""
    return part.get("thought") is True or _is_of(_THOUGHTS, part)


def _about(part: Mapping[Any, Any]) -> Mapping[Any, Any]:
    """What a part says of its call or result: Gemini and Bedrock put it under its only key."""
    inner = part.get(_only_key(part)) if "type" not in part else None
    return inner if isinstance(inner, Mapping) else part


def _text_of_result(part: Mapping[Any, Any]) -> str:
    """A text, or blocks, none of which is a result; Gemini's and the AI SDK's stand one deeper."""
    about = _about(part)
    content = next((about[name] for name in ("content", "response", "output", "result") if about.get(name)), "")
    if isinstance(content, Mapping):
        content = next((content[name] for name in ("output", "result", "value") if name in content), content)
    if isinstance(content, list):
        blocks = limited("content", content, MOST_PARTS)
        return _joined(_text_of_part(one) for one in blocks if not is_result(one))
    return content if isinstance(content, str) else f"[{_kind(part)}]"


def _text_of_part(part: object) -> str:
    """The text, or what it is in place of one."""
    if isinstance(part, str):
        return part
    if not isinstance(part, Mapping):
        raise InputError("a content part must be an object with a type or a text")
    if _is_thought(part):
        return ""
    if _is_of(_CALLS, part):
        return _text_of_calls([_about(part)]) or f"[{_kind(part)}]"
    if is_result(part):
        return _text_of_result(part)
    text = _words(part)
    if text is not None:
        return text
    kind = _kind(part)
    if not isinstance(kind, str):
        raise InputError("a content part must be an object with a type or a text")
    if kind in _OF_TEXT:
        _refuse_part(kind, part)
    return f"[{kind}]"


def _words(part: Mapping[Any, Any]) -> str | None:
    """What was written or spoken; Assistants write a text as an object with a value."""
    text = part.get("text")
    value = text.get("value") if isinstance(text, Mapping) else text
    found = [one for one in (value, part.get("refusal"), part.get("transcript")) if isinstance(one, str)]
    return next(filter(None, found), found[0] if found else None)


def _refuse_part(kind: str, part: Mapping[Any, Any]) -> NoReturn:
    others = [field for field in ("content", *ALSO_CALLED) if field != "text" and isinstance(part.get(field), str)]
    what_to_do = f"pass what stands in {others[0]} as text" if others else 'pass "" if it is meant to be empty'
    raise InputError(f"a content part of type {kind} has no text; {what_to_do}")


def _only_key(part: Mapping[Any, Any]) -> object:
    keys = [key for key, value in part.items() if isinstance(value, Mapping)]
    return keys[0] if len(keys) == 1 else None


def _text_of_calls(tool_calls: object) -> str:
    if not isinstance(tool_calls, list):
        return ""
    calls = limited("tool_calls", tool_calls, MOST_PARTS)
    functions = [call.get("function", call) for call in calls if isinstance(call, Mapping)]
    named = [f.get("name", f.get("toolName")) for f in functions if isinstance(f, Mapping)]
    names = [name for name in named if isinstance(name, str)]
    return f"[used tools: {', '.join(names)}]" if names else ""
