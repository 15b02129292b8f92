from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from memory_sql.domain.ids import EARLIEST, LATEST, aware, host_id, moved, owner_key, parse_observation_id, stored_id
from memory_sql.domain.messages import Message
from memory_sql.domain.observations import storable_metadata
from memory_sql.domain.selection import Selection
from memory_sql.errors import InputError, InvalidIdError, InvalidMessageError, TooLargeError

LIMIT = 1000


def parse(**data: Any) -> Message:
    return Message.parse({"role": "user", **data}, 3, LIMIT)


@pytest.mark.parametrize("value", ["a", "*", "%", "_", '{"$ne": ""}', "日本", "a b", "'; DROP TABLE x; --", "x" * 255])
def test_id_is_taken_as_it_is(value: str) -> None:
    assert host_id(value) == value


@pytest.mark.parametrize("days", [1, 400, 4_000_000, 999_999_999])
def test_moved_time_can_be_stored(days: int) -> None:
    span, middle = timedelta(days=days), datetime(2026, 3, 2, tzinfo=UTC)
    assert moved(EARLIEST, -span) == EARLIEST
    assert moved(LATEST, span) == LATEST
    assert moved(middle, -span) == (middle - span if days < 4_000_000 else EARLIEST)
    assert moved(middle, span) == (middle + span if days < 4_000_000 else LATEST)


def test_id_may_be_an_integer_or_a_uuid() -> None:
    assert host_id(42) == "42"
    assert host_id(UUID(int=1)) == "00000000-0000-0000-0000-000000000001"


@pytest.mark.parametrize(
    "value",
    [
        "",
        "x" * 256,
        "abc\n",
        " abc",
        "a\x00b",
        "a\tb",
        "\ud83d",
        None,
        True,
        1.5,
        b"x",
        {"$ne": ""},
        ["a"],
        "cafe\u0301",
    ],
    ids=repr,
)
def test_id_that_would_not_come_back_as_it_went_in_is_refused(value: object) -> None:
    with pytest.raises(InvalidIdError):
        host_id(value)


def test_content_may_be_parts() -> None:
    parts = [{"type": "text", "text": "Look:"}, {"type": "image_url", "image_url": {"url": "https://x"}}, "plain"]
    assert parse(content=parts).content == "Look:\n[image_url]\nplain"


def test_content_may_be_null_beside_tool_calls() -> None:
    calls = [{"id": "1", "type": "function", "function": {"name": "find_boat", "arguments": "{}"}}]
    assert parse(role="assistant", content=None, tool_calls=calls).content == "[used tools: find_boat]"
    assert parse(role="assistant", content=None, tool_calls=[{"weird": 1}, None]).content == ""


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"parts": [{"text": "Look:"}, {"functionCall": {"name": "find"}}]}, "Look:\n[used tools: find]"),
        (
            {"parts": [{"text": "Look:"}, {"inline_data": {"mime_type": "image/png", "data": "…"}}]},
            "Look:\n[inline_data]",
        ),
        ({"parts": [{"type": "step-start"}, {"type": "text", "text": "Hi"}]}, "[step-start]\nHi"),
        ({"parts": [{"kind": "text", "text": "Hi"}, {"kind": "file", "file": {"uri": "x"}}]}, "Hi\n[file]"),
        ({"content": "", "parts": [{"type": "text", "text": "Hi"}]}, "Hi"),
        ({"content": "Hi", "parts": [{"type": "text", "text": "Hi"}]}, "Hi"),
        ({"content": [{"text": "Hi"}]}, "Hi"),
        ({"content": None, "refusal": "I can't."}, "I can't."),
        ({"content": ""}, ""),
        ({"content": []}, ""),
        ({"content": "", "text": "", "data": {"seconds": 5}}, ""),
        ({"content": "", "trigger": "cron"}, ""),
        ({"content": [{"type": "text", "text": ""}]}, ""),
        ({"tool_calls": [{"function": {"name": "find"}}]}, "[used tools: find]"),
        ({"content": None, "function_call": {"name": "find", "arguments": "{}"}}, ""),
    ],
)
def test_content_in_other_shapes(given: dict[str, object], text: str) -> None:
    assert parse(role="assistant", **given).content == text


def test_gemini_calls_the_assistant_model() -> None:
    assert parse(role="model", parts=[{"text": "Hi"}]).role == "assistant"


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"contnet": "x"}, "it has no content; pass what stands in contnet as content"),
        ({"Content": "x"}, "it has no content; pass what stands in Content as content"),
        ({"contents": "x"}, "it has no content; pass what stands in contents as content"),
        ({"text": "x"}, "it has no content; pass what stands in text as content"),
        ({"message": "x"}, "it has no content; pass what stands in message as content"),
        ({"parts": []}, "it has no content; pass what stands in parts as content"),
        ({"parts": "x"}, "parts must be a list, not str"),
        ({"parts": [{"text": 5}]}, "a content part must be an object with a type or a text"),
        ({"text": "x", "trigger": "cron"}, "it has no content; pass what stands in text as content"),
        ({"text": "x", "tool_calls": [{"name": "y"}]}, "it has no content; pass what stands in text as content"),
        ({"contnet": "x", "trigger": "cron"}, "it has no content; pass what stands in contnet as content"),
        ({"message": {"text": "x"}, "trigger": "cron"}, "it has no content; pass what stands in message as content"),
        ({"content": None, "body": "x"}, "its content is empty; pass what stands in body as content"),
        ({"content": "", "text": "x"}, "its content is empty; pass what stands in text as content"),
        ({"content": " ", "text": "x"}, "its content is empty; pass what stands in text as content"),
        ({"content": [], "text": "x"}, "its content is empty; pass what stands in text as content"),
        ({"content": "", "Input": ["x"]}, "its content is empty; pass what stands in Input as content"),
        (
            {"content": [{"type": "text", "value": "x"}]},
            "a content part of type text has no text; pass what stands in value as text",
        ),
        (
            {"content": [{"type": "input_text", "content": "x"}]},
            "a content part of type input_text has no text; pass what stands in content as text",
        ),
        (
            {"content": [{"type": "text", "text": None}]},
            'a content part of type text has no text; pass "" if it is meant to be empty',
        ),
        (
            {"content": [{"type": "output_text"}]},
            'a content part of type output_text has no text; pass "" if it is meant to be empty',
        ),
        (
            {"parts": [{"kind": "text", "text": {"words": "x"}}]},
            'a content part of type text has no text; pass "" if it is meant to be empty',
        ),
        ({"content": None}, 'content is null; pass "" if the message is meant to be empty'),
        ({"content": None, "tool_calls": []}, 'content is null; pass "" if the message is meant to be empty'),
        ({"my secret words": "x"}, "it has no content"),
        ({}, "it has no content"),
    ],
    ids=repr,
)
def test_nothing_without_content_is_accepted(given: dict[str, object], says: str) -> None:
    with pytest.raises(InvalidMessageError) as caught:
        Message.parse({"role": "user", **given}, 3, LIMIT)
    assert str(caught.value) == f"message 3: {says}"


def test_message_that_is_made_needs_content_as_well() -> None:
    with pytest.raises(InputError, match="no content"):
        Message(role="user")
    with pytest.raises(InputError, match="contnet"):
        Message(role="user", contnet="x")  # type: ignore[call-arg]


def test_other_keys_of_the_chat_shape_are_ignored() -> None:
    assert parse(content="Hi", refusal=None, annotations=[], logprobs={}).content == "Hi"


def test_cleaning_is_recorded() -> None:
    message = parse(content="a\x00b", name="Mi\ud83da")
    assert (message.content, message.name) == ("a\ufffdb", "Mi\ufffda")
    assert message.cleaned == ("nul", "surrogate")


@pytest.mark.parametrize(
    "data",
    [
        {"role": "wizard", "content": "x"},
        {"role": None, "content": "x"},
        {"content": "x"},
        {"role": "user", "content": 5},
        {"role": "user", "content": {"text": "x"}},
        {"role": "user", "content": [5]},
        {"role": "user", "content": [{"no": "type"}]},
        {"role": "user", "content": "x", "id": ""},
        {"role": "user", "content": "x", "id": {"$ne": ""}},
        {"role": "user", "content": "x", "name": 5},
        {"role": "user", "content": "x", "name": "n" * 256},
        {"role": "user", "content": "x", "created_at": "yesterday"},
        {"role": "user", "content": "x", "created_at": "2026-03-02T10:00:00"},
        {"role": "user", "content": "x", "created_at": datetime(2026, 3, 2)},  # noqa: DTZ001 (that is what is tested)
        {"role": "user", "content": "x", "created_at": "2026-03-02T10:00:00+25:00"},
        {"role": "user", "content": "x", "created_at": "10000-01-01T00:00:00Z"},
        {"role": "user", "content": "x", "created_at": "0000-01-01T00:00:00Z"},
        {"role": "user", "content": "x", "created_at": "9999-12-31T23:59:59-12:00"},
        {"role": "user", "content": "x", "created_at": "infinity"},
        {"role": "user", "content": "x", "created_at": 1e300},
        {"role": "user", "content": "x", "created_at": -100_000_000_000},
        {"role": "user", "content": "x", "created_at": True},
        None,
        [],
    ],
    ids=repr,
)
def test_bad_message_is_named_by_its_position_without_its_text(data: object) -> None:
    with pytest.raises(InvalidMessageError, match=r"^message 3: ") as caught:
        Message.parse(data, 3, LIMIT)
    assert caught.value.position == 3
    assert "wizard" not in str(caught.value)


def test_time_is_kept_in_utc() -> None:
    assert parse(content="x", created_at="2026-03-02T10:00:00+02:00").created_at == datetime(2026, 3, 2, 8, tzinfo=UTC)
    assert parse(content="x", created_at=1772445600).created_at == datetime(2026, 3, 2, 10, tzinfo=UTC)


def test_message_over_the_limit() -> None:
    with pytest.raises(TooLargeError, match=r"message 3 has 1,001 characters; the limit is 1,000"):
        parse(content="x" * 1001)


def test_aware_refuses_a_naive_time() -> None:
    with pytest.raises(InputError, match="time zone"):
        aware(datetime(2026, 3, 2))  # noqa: DTZ001 (that is what is tested)


def test_owner_key() -> None:
    assert owner_key("individual", "mia") == "u:mia"
    assert owner_key("collective") == "c"


@pytest.mark.parametrize("value", ["", "o1", "o0-1", "o1-0", "o1-1 ", "o-1-1", "O1-1", "o1-99999999999", "s1", None, 7])
def test_observation_id_is_read_strictly(value: Any) -> None:
    with pytest.raises(InvalidIdError):
        parse_observation_id(value)
    assert parse_observation_id("o12-3") == (12, 3)


def test_metadata_is_cleaned_and_kept() -> None:
    metadata = {"a\x00": ["b\ud83d", 1, None, {"c": True}]}
    assert storable_metadata(metadata, 100) == {"a\ufffd": ["b\ufffd", 1, None, {"c": True}]}


def test_metadata_that_is_not_json_or_too_much_is_refused() -> None:
    deep: dict[str, Any] = {}
    for _ in range(10_000):
        deep = {"d": deep}
    for bad in ({"x": float("nan")}, {"x": object()}, deep, ["list"]):
        with pytest.raises(InputError):
            storable_metadata(bad, 1_000_000)  # type: ignore[arg-type]
    with pytest.raises(TooLargeError):
        storable_metadata({"x": "y" * 1000}, 1000)


@pytest.mark.parametrize("value", [1_772_442_000, "1772442000", "2026-03-02T09:00:00Z", "2026-03-02T10:00:00+01:00"])
def test_whole_numbers_are_seconds(value: object) -> None:
    assert parse(content="x", created_at=value).created_at == datetime(2026, 3, 2, 9, 0, tzinfo=UTC)


@pytest.mark.parametrize("value", [1_772_442_000_000, "1772442000000", 1_772_442_000_000.0])
def test_large_numbers_are_milliseconds(value: object) -> None:
    at = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
    assert parse(content="x", created_at=value).created_at == at
    assert parse(content="x", created_at=value, status="sent").created_at == at  # a field of others
    assert Message(role="user", content="x", created_at=value).created_at == at  # type: ignore[arg-type]


def test_fraction_of_a_second_is_kept() -> None:
    at = datetime(2026, 3, 2, 9, 0, 0, 250_000, tzinfo=UTC)
    for value in (1_772_442_000.25, "1772442000.25", 1_772_442_000_250):
        assert parse(content="x", created_at=value).created_at == at


@pytest.mark.parametrize("value", [10**14, -(10**14), "1e30", "1_772_442_000", 10**400, "9" * 5000, float("nan"), True])
def test_number_that_is_no_time_is_refused(value: object) -> None:
    with pytest.raises(InvalidMessageError, match=r"created_at must be .* seconds or milliseconds since 1970"):
        parse(content="x", created_at=value)


@pytest.mark.parametrize(
    "hidden",
    [
        *"\u200b\ufeff\u202e\u2066\u2069\u200e\u200f\u061c\x85\u200d",
        *"\u00ad\u034f\u115f\u180e\u2060\u2064\u3164\ufe0f\uffa0\U000e0101",
    ],
)
def test_id_that_looks_like_another_is_refused_and_still_found(hidden: str) -> None:
    value = f"mi{hidden}a"
    with pytest.raises(InvalidIdError, match="aren't seen"):
        host_id(value)
    assert stored_id(value) == value
    assert Selection(user_id=value).user_id == value


def test_only_the_dashed_form_of_a_uuid_is_written_in_lower_case() -> None:
    dashed = "6BA7B810-9DAD-11D1-80B4-00C04FD430C8"
    assert host_id(dashed) == host_id(UUID(dashed)) == dashed.lower()
    for other in (dashed.replace("-", ""), f"{{{dashed}}}", f"urn:uuid:{dashed}", dashed[:-1], "Mia"):
        assert host_id(other) == other


def test_letters_that_join_may_stand_in_an_id() -> None:
    assert host_id("نمی\u200cخواهم") == "نمی\u200cخواهم"
