"""Messages as agents and their frameworks write them, in the shape of a chat message.

OpenAI's chat and Responses, Anthropic, Gemini, LangChain (also pairs), objects with `model_dump()`, and plain text, which is
a user's. Times and ids are also taken from other common names.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from itertools import islice
from typing import Any, NamedTuple, Protocol, cast

from memory_sql.domain.message_text import ALSO_CALLED, is_result
from memory_sql.errors import InputError

OURS = frozenset(("role", "content", "parts", "tool_calls", "id", "name", "user_id", "created_at", "trigger"))
ROLES = {
    "human": "user", "HumanMessage": "user", "HumanMessageChunk": "user",
    "ai": "assistant", "AIMessage": "assistant", "AIMessageChunk": "assistant", "model": "assistant",
    "SystemMessage": "system", "SystemMessageChunk": "system",
    "ToolMessage": "tool", "ToolMessageChunk": "tool",
    "FunctionMessage": "function", "FunctionMessageChunk": "function",
}  # fmt: skip
TYPES = frozenset(("user", "assistant", "system", "tool", "function", "developer"))
IDS = ("message_id", "messageId", "uuid", "_id")
USERS = ("userId",)
SPEAKER = "speaker"  # as our own messages say that are read
TIMES = ("createdAt", "timestamp", "time", "date", "ts", "said_at", "sent_at", "create_time")
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MOST_SECONDS = 10**11  # in the year 5138; as milliseconds in 1973
MOST_MILLISECONDS = 10**14
NO_MOMENT = "must be an ISO 8601 time with a zone, or seconds or milliseconds since 1970"
_NUMBER = re.compile(r"[+-]?\d{1,20}(\.\d{0,20})?")
_ROLE = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,30}")
_SPELT = ("created_at", "user_id", "trigger")
_NAMES = {"id": IDS, "user_id": USERS, "created_at": TIMES, "trigger": (), "name": (SPEAKER,), "role": ()}
_MEANT = {  # nobody's name for anything else; whatever else is a time or a person may be another one
    "id": "msg_id message_uuid msg_uuid guid",
    "user_id": "user uid user_uuid author_id sender_id speaker_id from_id author sender from",
    "created_at": (
        "created created_on created_time created_date date_created time_created datetime date_time"
        " timestamp_ms unix_time unix_timestamp epoch message_time sent_on sent_time time_sent posted_at"
    ),
    "name": "speaker_name author_name sender_name",
}
_ALIKE = 0.85
_MOST_KEYS = 50  # that are compared with ours


class Dumpable(Protocol):
    """As Pydantic's models are, with which most packages make their messages."""

    def model_dump(self) -> Mapping[str, Any]: ...


MessageLike = Mapping[str, Any] | Dumpable | tuple[str, Any] | str
"""One message, in any of these shapes."""


class Pair(NamedTuple):
    """A message as LangChain takes it in short."""

    role: str
    content: Any


def as_list(given: Iterable[MessageLike] | MessageLike) -> Iterable[MessageLike]:
    """One message, or a text that a user has said, as a list of it."""
    is_one = _is_pair(given) or isinstance(given, str | Mapping) or callable(getattr(given, "model_dump", None))
    return [cast("MessageLike", given)] if is_one else cast("Iterable[MessageLike]", given)


def _is_pair(given: object) -> bool:
    """One word before a text is meant as a role, even if there is no such role: nobody has said it."""
    if not isinstance(given, tuple) or len(given) != len(Pair._fields):
        return False
    role, content = given
    if not isinstance(role, str):
        return False
    return role in ROLES or role in TYPES or (isinstance(content, str) and _ROLE.fullmatch(role) is not None)


def as_chat(given: object) -> Mapping[str, Any]:
    """Raises `InputError` for what has no one reading."""
    data = _mapping(given)
    role = data.get("role")
    is_chat = isinstance(role, str) and role in TYPES and data.keys() <= OURS
    return data if is_chat and not _has_results(data) else _read(data)


def _mapping(given: object) -> Mapping[str, Any]:
    if isinstance(given, Mapping):
        return given
    if isinstance(given, str):
        return {"role": "user", "content": given}
    if isinstance(given, tuple) and len(given) == len(Pair._fields) and isinstance(given[0], str):
        return Pair(*given)._asdict()
    dump = getattr(given, "model_dump", None)
    if callable(dump) and not isinstance(given, type):
        return _dumped(type(given).__name__, dump)
    raise InputError(f"must be an object, not {type(given).__name__}")


def _dumped(name: str, dump: Any) -> Mapping[str, Any]:
    try:
        dumped = dump()
    except Exception as error:  # noqa: BLE001  # somebody else's code, whose message may quote what was said
        raise InputError(f"{name}.model_dump() failed: {type(error).__name__}") from None
    if not isinstance(dumped, Mapping):
        raise InputError(f"{name}.model_dump() must give an object, not {type(dumped).__name__}")
    return dumped


def _read(data: Mapping[str, Any]) -> dict[str, Any]:
    kind = data.get("type")
    if "role" not in data and "data" in data and isinstance(kind, str):
        data = {**_object("data", data["data"]), "type": kind}
    found = dict(data)
    if "role" not in data and isinstance(kind, str):
        said = _of_type(kind, data)
        others = ALSO_CALLED if "content" in said else ()  # as the input of a call
        found = {name: value for name, value in data.items() if name not in others} | said
    role = found.get("role")
    if isinstance(role, str) and role in ROLES:
        found["role"] = ROLES[role]
    if found.get("role") == "user" and _has_results(found):
        found["role"] = "tool"
    _rename(found)
    return found


def _object(name: str, value: object) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise InputError(f"{name} must be an object, not {type(value).__name__}")
    return value


def _of_type(kind: str, data: Mapping[str, Any]) -> dict[str, Any]:
    """What `type` says where there is no role: LangChain's messages, and the items of OpenAI's Responses beside messages."""
    if kind in ROLES or kind in TYPES:
        return {"role": ROLES.get(kind, kind)}
    if kind.endswith("_call_output"):
        if "output" not in data:
            raise InputError("it has no output")
        output = data["output"]
        return {"role": "tool", "content": [output] if isinstance(output, Mapping) else output}
    if kind == "reasoning":
        return {"role": "assistant", "content": ""}
    if kind in ("function_call", "custom_tool_call"):
        return {"role": "assistant", "content": None, "tool_calls": [{"name": data.get("name")}]}
    return {"role": "assistant", "content": [{"type": kind}]} if kind.endswith("_call") else {}


def _has_results(data: Mapping[str, Any]) -> bool:
    """Whether it is nothing but results of tools, which users send with Anthropic, Bedrock and Gemini."""
    content = data.get("content") or data.get("parts")
    if not isinstance(content, Sequence) or isinstance(content, str):
        return False
    return bool(content) and all(map(is_result, content))


def _rename(found: dict[str, Any]) -> None:
    for ours, others in (("id", IDS), ("user_id", USERS)):
        if found.get(ours) is None:
            found[ours] = next((found[name] for name in others if found.get(name) is not None), None)
    if found.get("name") is None and not _is_role(found.get(SPEAKER)):
        found["name"] = found.get(SPEAKER)
    if found.get("created_at") is None:
        time = next((name for name in TIMES if found.get(name) is not None), None)
        found["created_at"] = None if time is None else moment(time, found[time])
    _refuse_misspelt(found)


def _refuse_misspelt(found: Mapping[str, Any]) -> None:
    """A message without its id would be stored again, and without its user be somebody else's."""
    missing = [name for name in _SPELT if found.get(name) is None]
    for key in islice(found.keys() - OURS - {*IDS, *USERS, *TIMES}, _MOST_KEYS):
        if not isinstance(key, str):
            continue
        near = get_close_matches(key, missing, 1, _ALIKE)
        meant = near[0] if near else _WRITTEN_OTHERWISE.get(_letters(key))
        if meant in _PERSONS and _is_role(found[key]):
            meant = "role"
        if meant is not None and found.get(meant) is None and found[key] is not None:
            raise InputError(f"{key} is unknown; did you mean {meant}?")


def _is_role(value: object) -> bool:
    return isinstance(value, str) and (value in ROLES or value in TYPES)


def _letters(key: str) -> str:
    """The same for userID, User-Id and USER_ID."""
    return "".join(filter(str.isalnum, key)).lower()


_WRITTEN_OTHERWISE = {
    **{_letters(name): ours for ours, others in _MEANT.items() for name in others.split()},
    **{_letters(name): ours for ours, others in _NAMES.items() for name in (ours, *others)},
}
_PERSONS = ("user_id", "name")


def moment(name: str, value: object) -> datetime:
    """The time that a host gave under that name: ISO 8601 with a zone, or seconds or milliseconds since 1970.

    Whole numbers of more than 10¹¹ are milliseconds. Raises `InputError`.
    """
    found = None
    if isinstance(value, datetime):
        found = value
    elif isinstance(value, int | float) and not isinstance(value, bool):
        found = _since_epoch(value)
    elif isinstance(value, str):
        found = _since_epoch(float(value)) if _NUMBER.fullmatch(value.strip()) else _written(value)
    if found is None or found.tzinfo is None:
        raise InputError(f"{name} {NO_MOMENT}")
    return found


def _written(value: str) -> datetime | None:
    try:
        return datetime.fromisoformat(value.strip())
    except ValueError:
        return None


def _since_epoch(value: float) -> datetime | None:
    if not -MOST_MILLISECONDS < value < MOST_MILLISECONDS or (isinstance(value, float) and math.isnan(value)):
        return None
    seconds = value if abs(value) <= MOST_SECONDS else value / 1000
    try:
        return EPOCH + timedelta(seconds=seconds)
    except OverflowError:
        return None
