"""Messages in the shapes in which agents and their frameworks pass them around."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, NamedTuple

import pytest
from pydantic import BaseModel

from memory_sql.domain.message_shapes import as_list
from memory_sql.domain.messages import Message, RetainedMessage
from memory_sql.errors import InvalidMessageError


class Shape(NamedTuple):
    given: Any
    role: str
    content: str


SHAPES = {
    "chat": Shape({"role": "user", "content": "Tea."}, "user", "Tea."),
    "chat_parts": Shape({"role": "user", "content": [{"type": "text", "text": "Tea."}]}, "user", "Tea."),
    "chat_tool_calls": Shape(
        {"role": "assistant", "content": None, "tool_calls": [{"type": "function", "function": {"name": "kettle"}}]},
        "assistant",
        "[used tools: kettle]",
    ),
    "chat_spoken": Shape(
        {"role": "assistant", "content": None, "audio": {"id": "a1", "data": "…", "transcript": "Green?"}},
        "assistant",
        "Green?",
    ),
    "assistants": Shape(
        {
            "id": "msg_1", "created_at": 1700000000, "role": "user",
            "content": [{"type": "text", "text": {"value": "Tea.", "annotations": []}}],
        },
        "user",
        "Tea.",
    ),
    "realtime_user": Shape(
        {"id": "i1", "type": "message", "role": "user", "content": [{"type": "input_audio", "transcript": "Tea."}]},
        "user",
        "Tea.",
    ),
    "realtime_assistant": Shape(
        {
            "id": "i2", "type": "message", "role": "assistant",
            "content": [{"type": "output_audio", "transcript": "Green?"}],
        },
        "assistant",
        "Green?",
    ),
    "realtime_not_yet_transcribed": Shape(
        {"type": "message", "role": "user", "content": [{"type": "input_audio", "transcript": None}]},
        "user",
        "[input_audio]",
    ),
    "responses_message": Shape(
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Tea."}]}, "user", "Tea."
    ),
    "responses_easy_message": Shape({"role": "developer", "content": "Be brief."}, "developer", "Be brief."),
    "responses_answer": Shape(
        {
            "type": "message", "role": "assistant", "id": "msg_1", "status": "completed",
            "content": [{"type": "output_text", "text": "Green?", "annotations": []}],
        },
        "assistant",
        "Green?",
    ),
    "responses_call": Shape(
        {"type": "function_call", "name": "kettle", "arguments": "{}", "call_id": "c1"},
        "assistant",
        "[used tools: kettle]",
    ),
    "responses_custom_call": Shape(
        {"type": "custom_tool_call", "name": "kettle", "input": "boil", "call_id": "c1"},
        "assistant",
        "[used tools: kettle]",
    ),
    "responses_output": Shape(
        {"type": "function_call_output", "call_id": "c1", "output": "It boils."}, "tool", "It boils."
    ),
    "responses_output_in_parts": Shape(
        {"type": "function_call_output", "call_id": "c1", "output": [{"type": "input_text", "text": "It boils."}]},
        "tool",
        "It boils.",
    ),
    "responses_search": Shape({"type": "web_search_call", "id": "ws_1"}, "assistant", "[web_search_call]"),
    "responses_reasoning": Shape({"type": "reasoning", "id": "rs_1", "summary": []}, "assistant", ""),
    "anthropic_blocks": Shape({"role": "user", "content": [{"type": "text", "text": "Tea."}]}, "user", "Tea."),
    "anthropic_use": Shape(
        {"role": "assistant", "content": [
            {"type": "thinking", "thinking": "Hm.", "signature": "x"}, {"type": "text", "text": "I'll see."},
            {"type": "tool_use", "id": "t1", "name": "kettle", "input": {}},
        ]},
        "assistant",
        "I'll see.\n[used tools: kettle]",
    ),
    "anthropic_result": Shape(
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "It boils."}]},
        "tool",
        "It boils.",
    ),
    "anthropic_result_in_blocks": Shape(
        {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "It boils."}]},
        ]},
        "tool",
        "It boils.",
    ),
    "anthropic_result_and_words": Shape(
        {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "t1", "content": "It boils."}, {"type": "text", "text": "Thanks."},
        ]},
        "user",
        "[tool_result]\nThanks.",
    ),
    "bedrock_use": Shape(
        {"role": "assistant", "content": [{"text": "I'll see."}, {"toolUse": {"name": "kettle", "input": {}}}]},
        "assistant",
        "I'll see.\n[used tools: kettle]",
    ),
    "bedrock_result": Shape(
        {"role": "user", "content": [
            {"toolResult": {"toolUseId": "t1", "content": [{"text": "It boils."}, {"json": {}}], "status": "success"}},
        ]},
        "tool",
        "It boils.\n[json]",
    ),
    "bedrock_result_and_words": Shape(
        {"role": "user", "content": [{"toolResult": {"content": [{"text": "It boils."}]}}, {"text": "Thanks."}]},
        "user",
        "[toolResult]\nThanks.",
    ),
    "langchain_role": Shape({"role": "human", "content": "Tea."}, "user", "Tea."),
    "langchain_ai_role": Shape({"role": "ai", "content": "Green?"}, "assistant", "Green?"),
    "langchain_type": Shape({"type": "human", "content": "Tea.", "additional_kwargs": {}}, "user", "Tea."),
    "langchain_data": Shape(
        {"type": "ai", "data": {"content": "", "tool_calls": [{"name": "kettle", "args": {}, "id": "c1"}]}},
        "assistant",
        "[used tools: kettle]",
    ),
    "langchain_tool": Shape({"type": "tool", "content": "It boils.", "tool_call_id": "c1"}, "tool", "It boils."),
    "langchain_chunk": Shape({"type": "AIMessageChunk", "content": "Green?"}, "assistant", "Green?"),
    "langchain_pair": Shape(("human", "Tea."), "user", "Tea."),
    "gemini": Shape({"role": "model", "parts": [{"text": "Green?"}]}, "assistant", "Green?"),
    "gemini_user": Shape({"role": "user", "parts": [{"text": "Tea."}, {"inlineData": {}}]}, "user", "Tea.\n[inlineData]"),
    "gemini_call": Shape(
        {"role": "model", "parts": [{"functionCall": {"name": "kettle", "args": {}}}]}, "assistant", "[used tools: kettle]"
    ),
    "gemini_result": Shape(
        {"role": "user", "parts": [{"functionResponse": {"name": "kettle", "response": {"output": "It boils."}}}]},
        "tool",
        "It boils.",
    ),
    "gemini_result_dumped": Shape(
        {"role": "user", "parts": [{"text": None, "function_response": {"name": "kettle", "response": {"degrees": 100}}}]},
        "tool",
        "[function_response]",
    ),
    "ai_sdk_call": Shape(
        {"role": "assistant", "content": [{"type": "tool-call", "toolCallId": "t1", "toolName": "kettle", "input": {}}]},
        "assistant",
        "[used tools: kettle]",
    ),
    "ai_sdk_result": Shape(
        {"role": "tool", "content": [
            {"type": "tool-result", "toolName": "kettle", "output": {"type": "text", "value": "It boils."}},
        ]},
        "tool",
        "It boils.",
    ),
    "gemini_thought": Shape(
        {"role": "model", "parts": [{"text": "I must not say so.", "thought": True}, {"text": "Green?", "thought": None}]},
        "assistant",
        "Green?",
    ),
    "gemini_nothing_but_a_thought": Shape({"role": "model", "parts": [{"text": "Hm.", "thought": True}]}, "assistant", ""),
    "ai_sdk_reasoning": Shape(
        {"role": "assistant", "content": [{"type": "reasoning", "text": "Hm."}, {"type": "text", "text": "Green?"}]},
        "assistant",
        "Green?",
    ),
    "bedrock_reasoning": Shape(
        {"role": "assistant", "content": [
            {"reasoningContent": {"reasoningText": {"text": "Hm.", "signature": "x"}}}, {"text": "Green?"},
        ]},
        "assistant",
        "Green?",
    ),
    "gemini_content": Shape({"role": "model", "content": "Green?"}, "assistant", "Green?"),
    "ai_sdk": Shape({"role": "user", "id": "m1", "parts": [{"type": "text", "text": "Tea."}]}, "user", "Tea."),
    "plain_text": Shape("Tea.", "user", "Tea."),
}  # fmt: skip


@pytest.mark.parametrize("name", SHAPES)
def test_shape_is_read(name: str) -> None:
    given, role, content = SHAPES[name]
    message = Message.parse(given, 0)
    assert (message.role, message.content) == (role, content)


@pytest.mark.parametrize("given", [("human", "Tea."), ("human", [{"text": "Tea."}]), ("User", "Tea."), ("bot", "Tea.")])
def test_pair_is_one_message(given: Any) -> None:
    assert list(as_list(given)) == [given]


@pytest.mark.parametrize("role", ["User", "bot"])
def test_pair_of_an_unknown_role_is_refused(role: str) -> None:
    with pytest.raises(InvalidMessageError, match="role"):
        [Message.parse(one, n) for n, one in enumerate(as_list((role, "Tea.")))]


@pytest.mark.parametrize(
    "given",
    [("I like tea.", "Green tea."), ("Hello!", "Tea."), ("茶", "緑茶"), ("Tea", {"role": "user", "content": "Tea."})],
)
def test_other_tuple_is_a_list_of_messages(given: Any) -> None:
    assert list(as_list(given)) == list(given)


def test_shapes_of_objects_are_those_of_their_dumps() -> None:
    class Part(BaseModel):
        type: str = "text"
        text: str

    class Said(BaseModel):
        type: str = "human"
        content: list[Part]
        id: str = "run-1"

    class Frozen:
        def model_dump(self) -> dict[str, Any]:
            return {"role": "user", "content": "Tea."}

    message = Message.parse(Said(content=[Part(text="Tea.")]), 0)
    assert (message.role, message.content, message.id) == ("user", "Tea.", "run-1")
    assert Message.parse(Frozen(), 0).content == "Tea."


NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
TIMES = {
    "created_at": "2026-03-01T12:00:00Z",
    "createdAt": "2026-03-01T13:00:00+01:00",
    "timestamp": 1772366400,
    "time": 1772366400.0,
    "date": "2026-03-01T12:00:00+00:00",
    "ts": "1772366400.000000",
    "said_at": NOON,
    "sent_at": "2026-03-01 12:00:00+00:00",
    "create_time": 1772366400000,  # milliseconds: as seconds it would be in the year 58133
}


@pytest.mark.parametrize("name", TIMES)
def test_time_is_taken_from_a_common_name(name: str) -> None:
    message = Message.parse({"role": "user", "content": "Tea.", name: TIMES[name]}, 0)
    assert message.created_at == NOON


def test_our_own_name_comes_first() -> None:
    given: dict[str, Any] = {
        "role": "user", "content": "Tea.", "created_at": NOON, "timestamp": 0, "id": "a", "uuid": "b",
    }  # fmt: skip
    message = Message.parse(given, 0)
    assert (message.created_at, message.id) == (NOON, "a")


def test_whole_seconds_may_be_written_as_a_fraction() -> None:
    assert Message.parse({"role": "user", "content": "Tea.", "created_at": 1772366400.0}, 0).created_at == NOON


def test_time_with_a_fraction_keeps_it() -> None:
    message = Message.parse({"role": "user", "content": "Tea.", "ts": "1772366400.250100"}, 0)
    assert message.created_at == NOON.replace(microsecond=250100)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("timestamp", "yesterday"),
        ("time", "12:00"),
        ("date", "2026-03-01"),
        ("ts", [1]),
        ("ts", True),
        ("timestamp", float("nan")),
        ("timestamp", float("inf")),
        ("timestamp", 10**400),
        ("timestamp", "9" * 5000),
        ("said_at", "2026-03-01T12:00:00"),
    ],
)
def test_time_that_can_not_be_read_is_refused_by_its_name(name: str, value: object) -> None:
    with pytest.raises(InvalidMessageError, match=name):
        Message.parse({"role": "user", "content": "Tea.", name: value}, 0)


@pytest.mark.parametrize("name", ["id", "message_id", "messageId", "uuid", "_id"])
def test_id_is_taken_from_a_common_name(name: str) -> None:
    assert Message.parse({"role": "user", "content": "Tea.", name: "m1"}, 0).id == "m1"


@pytest.mark.parametrize("name", ["user_id", "userId"])
def test_user_is_taken_from_a_common_name(name: str) -> None:
    assert Message.parse({"role": "user", "content": "Tea.", name: "mia"}, 0).user_id == "mia"


@pytest.mark.parametrize(
    ("wrong", "right"), [("creatd_at", "created_at"), ("user_ids", "user_id"), ("triger", "trigger")]
)
def test_misspelt_field_is_refused_by_its_name(wrong: str, right: str) -> None:
    with pytest.raises(InvalidMessageError, match=f"{wrong}.*{right}"):
        Message.parse({"role": "user", "content": "Tea.", wrong: "x"}, 0)


@pytest.mark.parametrize(
    ("meant", "written"),
    [
        ("id", "Id ID message-id messageID MessageId Message_Id _ID UUID msg_id msgId guid"),
        (
            "user_id",
            "userID UserId User_Id USER_ID User-Id user uid UID author_id authorId sender_id sender author from",
        ),
        ("created_at", "Created_At CreatedAt Timestamp timeStamp time_stamp TS Date sentAt SaidAt createTime"),
        ("created_at", "created createdOn datetime dateTime date_created timestamp_ms unixTime"),
        ("trigger", "TRIGGER Trigger"),
        ("name", "Name NAME Speaker sender_name authorName"),
    ],
)
def test_field_in_other_letters_is_refused_with_the_one_that_is_meant(meant: str, written: str) -> None:
    for field in written.split():
        with pytest.raises(InvalidMessageError, match=f"{field} is unknown; did you mean {meant}\\?"):
            Message.parse({"role": "user", "content": "Tea.", field: "2026-03-01T12:00:00Z"}, 0)
        assert Message.parse({"role": "user", "content": "Tea.", field: None}, 0).id is None


@pytest.mark.parametrize("field", ["id", "user_id", "trigger"])
def test_id_that_cannot_be_used_is_told_by_its_field(field: str) -> None:
    for wrong in (["z"], 1.5, "", " x", "x" * 256):
        with pytest.raises(InvalidMessageError, match=f"message 3: {field}: "):
            Message.parse({"role": "user", "content": "Tea.", field: wrong}, 3)


def test_role_in_other_letters_is_refused_with_the_one_that_is_meant() -> None:
    with pytest.raises(InvalidMessageError, match="Role is unknown; did you mean role"):
        Message.parse({"Role": "user", "content": "Tea."}, 0)


@pytest.mark.parametrize("field", ["sender", "author", "speaker", "from", "user"])
def test_role_under_another_name_is_refused_where_there_is_none(field: str) -> None:
    with pytest.raises(InvalidMessageError, match=f"{field} is unknown; did you mean role\\?"):
        Message.parse({field: "assistant", "content": "Tea."}, 0)
    read = Message.parse({"role": "assistant", "content": "Tea.", field: "assistant"}, 0)
    assert (read.role, read.name, read.user_id) == ("assistant", None, None)


def test_message_that_was_read_from_memory_can_be_added_again() -> None:
    """Its speaker is the name."""
    stored = RetainedMessage(
        conversation_id="s", id="m1", number=1, role="user", speaker="Mia", user_id="mia", content="Tea.",
        said_at=datetime(2026, 3, 1, tzinfo=UTC),
    )  # fmt: skip
    for given in (stored, stored.model_dump(), stored.model_dump(mode="json")):
        read = Message.parse(given, 0)
        assert (read.id, read.name, read.user_id, read.created_at) == ("m1", "Mia", "mia", stored.said_at)


def test_field_in_other_letters_is_ignored_beside_the_one_that_counts() -> None:
    given = {"role": "user", "content": "Tea.", "id": "m1", "ID": 7, "user_id": "mia", "UserId": "ben", "Name": None}
    assert (Message.parse(given, 0).id, Message.parse(given, 0).user_id) == ("m1", "mia")


def test_fields_of_others_are_ignored() -> None:
    given: dict[str, Any] = {
        "role": "assistant", "content": "Green?", "refusal": None, "annotations": [], "audio": None,
        "additional_kwargs": {}, "response_metadata": {}, "usage_metadata": {}, "status": "completed", "example": False,
        "title": "x", "conversation": 3, "session_id": "s", "group_ids": [], "time_zone": None,
        "updated_at": "2026-03-01", "metadata": {"user": "mia"}, "username": "mia", "index": 3, "model": "m", "source": "x",
    }  # fmt: skip
    assert Message.parse(given, 0).content == "Green?"


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"type": "human"}, "no content"),
        ({"type": "ai", "data": 7}, "data"),
        ({"type": "function_call_output", "call_id": "c1"}, "output"),
        ({"role": "narrator", "content": "Tea."}, "role"),
        ({"type": "narrator", "content": "Tea."}, "role"),
        ({"role": ["user"], "content": "Tea."}, "role"),
        ({"content": "Tea."}, "role"),
        (("human", "Tea.", "more"), "tuple"),
        (7, "int"),
        (None, "NoneType"),
    ],
)
def test_what_has_no_one_reading_is_refused(given: object, says: str) -> None:
    with pytest.raises(InvalidMessageError, match=says):
        Message.parse(given, 0)


@pytest.mark.slow
def test_results_within_results_end() -> None:
    deep: Any = "It boils."
    for _ in range(100_000):
        deep = [{"type": "tool_result", "content": deep}]
    assert Message.parse({"role": "user", "content": deep}, 0).role == "tool"


def test_dump_that_fails_says_whose() -> None:
    class Broken:
        def model_dump(self) -> dict[str, Any]:
            raise ValueError("a secret")

    with pytest.raises(InvalidMessageError, match=r"Broken\.model_dump\(\) failed: ValueError") as told:
        Message.parse(Broken(), 0)
    assert "secret" not in str(told.value)
