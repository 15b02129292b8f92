"""Messages in the shapes of chat APIs and agent frameworks → the keys that `Message` reads."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, date, datetime, timedelta
from difflib import get_close_matches
from functools import lru_cache
from typing import Any, cast

from memory_sql.errors import InputError

TIMES = ("timestamp", "time", "date", "ts", "said_at", "create_time", "createdAt", "created", "sent_at", "datetime")
IDS = ("message_id", "messageId", "uuid", "msg_id")
ROLES = {"human": "user", "ai": "assistant", "AIMessageChunk": "assistant", "HumanMessageChunk": "user"}
_LANGCHAIN = {**ROLES, "system": "system", "developer": "developer", "tool": "tool", "function": "function"}
_OURS = ("role", "content", "parts", "id", "name", "user_id", "created_at", "trigger", "tool_calls")
_MAY_BE_MEANT = tuple(key for key in _OURS if key != "content")  # for want of content there is an error of its own
_MISNAMED = {"userId": "user_id", "userid": "user_id"}
_FIELD = re.compile(r"[A-Za-z_]\w{0,30}")
_LIKE = 0.82
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECONDS = 10**11  # as seconds in the year 5138
_MOST = 10**14  # milliseconds in the year 5138


def each(messages: Iterable[Any]) -> Iterable[Any]:
    """A list of one where a single message was given: a text, an object, or something with `model_dump`."""
    if isinstance(messages, str):
        return [{"role": "user", "content": messages}]
    return [messages] if isinstance(messages, Mapping) or _dump_of(messages) else messages


def in_our_shape(given: object) -> object:
    """The message with `role`, `content`, `id` and `created_at` under these names; what isn't known stays as it is.

    Raises `InputError` for a time that can't be read, for two times that differ, and for a misspelt key.
    """
    dump = _dump_of(given)
    data = given if dump is None else dump()
    if not isinstance(data, Mapping):
        return data
    data = _with_role(_unwrapped(data))
    _refuse_misspelt(data)
    return _with_time(_with_id(data))


def _dump_of(given: object) -> Callable[[], object] | None:
    dump = None if isinstance(given, type | Mapping) else getattr(given, "model_dump", None)
    return cast("Callable[[], object]", dump) if callable(dump) else None


def _unwrapped(data: Mapping[Any, Any]) -> Mapping[Any, Any]:
    """LangChain's `{"type": "human", "data": {…}}` without its wrapping."""
    inner = data.get("data")
    if isinstance(inner, Mapping) and data.get("type") in (*_LANGCHAIN, "chat") and "content" not in data:
        return {"type": data["type"], **inner}
    return data


def _with_role(data: Mapping[Any, Any]) -> Mapping[Any, Any]:
    role, kind = data.get("role"), data.get("type")
    if isinstance(role, str):
        role = ROLES.get(role, role)
    elif isinstance(kind, str) and role is None:
        return _of_type(data, kind)
    return {**data, "role": "tool"} if role == "user" and _only_results(data.get("content")) else _put(data, role)


def _put(data: Mapping[Any, Any], role: object) -> Mapping[Any, Any]:
    return data if role is None else {**data, "role": role}


def _of_type(data: Mapping[Any, Any], kind: str) -> Mapping[Any, Any]:
    """A message of LangChain, or an item of OpenAI's Responses API."""
    if kind in _LANGCHAIN:
        return {**data, "role": _LANGCHAIN[kind]}
    if kind.endswith("_call_output"):
        output = data.get("output")
        return {**data, "role": "tool", "content": output if isinstance(output, str | list) else f"[{kind}]"}
    if kind.endswith("_call"):
        said = f"[used tools: {data['name']}]" if isinstance(data.get("name"), str) else f"[{kind}]"
        return {**data, "role": "assistant", "name": None, "content": said}
    return {**data, "role": "assistant", "content": "[reasoning]"} if kind == "reasoning" else data


def _only_results(content: object) -> bool:
    """Whether a tool says all of it, as Anthropic writes it: in the user's turn, though the user said none of it."""
    return (
        isinstance(content, list)
        and bool(content)
        and all(isinstance(part, Mapping) and part.get("type") == "tool_result" for part in content)
    )


def _refuse_misspelt(data: Mapping[Any, Any]) -> None:
    for key in data:
        if key in _OURS or key in TIMES or key in IDS or not isinstance(key, str) or not _FIELD.fullmatch(key):
            continue
        meant = _meant_by(key)
        if meant and data.get(meant[0]) is None:
            raise InputError(f"{key} isn't known; {meant[0]} may be meant")


@lru_cache(1024)  # the keys of a host's messages are the same each time
def _meant_by(key: str) -> list[str]:
    return [_MISNAMED[key]] if key in _MISNAMED else get_close_matches(key, _MAY_BE_MEANT, 1, _LIKE)


def _with_id(data: Mapping[Any, Any]) -> Mapping[Any, Any]:
    if data.get("id") is not None:
        return data
    named = next((data[key] for key in IDS if data.get(key) is not None), None)
    return data if named is None else {**data, "id": named}


def _with_time(data: Mapping[Any, Any]) -> Mapping[Any, Any]:
    if data.get("created_at") is not None:
        return data
    read = {key: moment_of(key, data[key]) for key in TIMES if data.get(key) is not None}
    if len(set(read.values())) > 1:
        raise InputError(f"{_list(read)} name different times; pass the right one as created_at")
    return {**data, "created_at": next(iter(read.values()))} if read else data


def _list(names: Iterable[str]) -> str:
    return " and ".join(names)


def moment_of(name: str, value: object) -> datetime:
    """A time: ISO 8601 with a zone, or seconds or milliseconds since 1970, also as text. Raises `InputError`."""
    problem = InputError(f"{name} must be an ISO 8601 time with a zone, or seconds or milliseconds since 1970")
    if isinstance(value, str):
        try:
            value = float(value) if re.fullmatch(r"\s*[+-]?\d{1,20}(\.\d{1,20})?\s*", value, re.A) else _iso(value)
        except ValueError:
            raise problem from None
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise InputError(f"{name} needs a time zone; pass created_at with one")
        return value
    if isinstance(value, bool | date) or not isinstance(value, int | float):
        raise problem
    if not abs(value) < _MOST:
        raise problem
    seconds = value / 1000 if abs(value) > _MILLISECONDS else value
    return _EPOCH + timedelta(seconds=seconds)


def _iso(text: str) -> datetime:
    return datetime.fromisoformat(text.strip())
