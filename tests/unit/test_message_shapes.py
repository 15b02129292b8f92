"""The shapes in which agents pass messages around, and what each becomes."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import BaseModel

from memory_sql.domain.message_shapes import each
from memory_sql.domain.messages import Message
from memory_sql.errors import InvalidMessageError

AT = datetime(2026, 3, 1, 10, tzinfo=UTC)
SECONDS = int(AT.timestamp())


class Dumped(BaseModel):
    type: str = "ai"
    content: str = "Hi"


@pytest.mark.parametrize(
    ("given", "role", "text"),
    [
        ({"role": "user", "content": "Hi"}, "user", "Hi"),
        ({"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hi"}]}, "user", "Hi"),
        (
            {"type": "function_call", "name": "find", "arguments": "{}", "call_id": "c"},
            "assistant",
            "[used tools: find]",
        ),
        ({"type": "function_call_output", "call_id": "c", "output": "3 found"}, "tool", "3 found"),
        ({"type": "web_search_call", "id": "w"}, "assistant", "[web_search_call]"),
        ({"type": "reasoning", "summary": []}, "assistant", "[reasoning]"),
        ({"role": "user", "content": [{"type": "tool_result", "content": "12 °C"}]}, "tool", "12 °C"),
        (
            {"role": "user", "content": [{"type": "tool_result", "content": [{"type": "text", "text": "12 °C"}]}]},
            "tool",
            "12 °C",
        ),
        (
            {"role": "user", "content": [{"type": "tool_result", "content": "x"}, {"type": "text", "text": "So?"}]},
            "user",
            "[tool_result]\nSo?",
        ),
        ({"type": "human", "content": "Hi"}, "user", "Hi"),
        ({"role": "human", "content": "Hi"}, "user", "Hi"),
        ({"role": "ai", "content": "Hi"}, "assistant", "Hi"),
        ({"type": "human", "data": {"content": "Hi", "type": "human"}}, "user", "Hi"),
        ({"type": "tool", "content": "12 °C", "tool_call_id": "c"}, "tool", "12 °C"),
        (
            {"type": "ai", "content": "", "tool_calls": [{"name": "find", "args": {}, "id": "c"}]},
            "assistant",
            "[used tools: find]",
        ),
        ({"role": "model", "parts": [{"text": "Hi"}]}, "assistant", "Hi"),
        (Dumped(), "assistant", "Hi"),
    ],
)
def test_shape_is_read(given: object, role: str, text: str) -> None:
    message = Message.parse(given, 0)
    assert (message.role, message.content) == (role, text)


@pytest.mark.parametrize("key", ["timestamp", "time", "date", "ts", "said_at", "create_time", "createdAt"])
@pytest.mark.parametrize(
    "value", [SECONDS, SECONDS * 1000, float(SECONDS), f"{SECONDS}.000000", "2026-03-01T11:00:00+01:00", AT]
)
def test_time_under_a_common_name_is_used(key: str, value: object) -> None:
    assert Message.parse({"role": "user", "content": "x", key: value}, 0).created_at == AT


@pytest.mark.parametrize(
    ("extra", "says"),
    [
        ({"timestamp": "2026-03-01T10:00:00"}, "timestamp needs a time zone"),
        ({"time": "yesterday"}, "time must be"),
        ({"ts": True}, "ts must be"),
        ({"ts": float("nan")}, "ts must be"),
        ({"ts": 10**400}, "ts must be"),
        ({"time": SECONDS, "ts": SECONDS + 1}, "time and ts name different times"),
        ({"creatd_at": SECONDS}, "creatd_at isn't known; created_at may be meant"),
        ({"userId": "mia"}, "userId isn't known; user_id may be meant"),
    ],
)
def test_what_cannot_be_used_is_refused_by_name(extra: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidMessageError, match=says):
        Message.parse({"role": "user", "content": "x", **extra}, 0)


def test_id_under_a_common_name_is_used() -> None:
    assert Message.parse({"role": "user", "content": "x", "message_id": "m-1"}, 0).id == "m-1"
    assert Message.parse({"role": "user", "content": "x", "message_id": "m-1", "id": "m-2"}, 0).id == "m-2"


def test_one_message_stands_for_a_list() -> None:
    assert each("Hi") == [{"role": "user", "content": "Hi"}]
    assert each({"role": "user", "content": "Hi"}) == [{"role": "user", "content": "Hi"}]
    assert each([1, 2]) == [1, 2]
    one = Dumped()
    assert each(one) == [one]
