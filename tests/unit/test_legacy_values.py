"""Values and texts of legacy documents, in every form that has been seen."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_sql.importers.mongo.packing import Kept, packed, unpacked
from memory_sql.importers.mongo.reading import read_record, read_shard
from memory_sql.importers.mongo.shards import names_of_shards
from memory_sql.importers.mongo.texts import blob_text, statements
from memory_sql.importers.mongo.values import Notes, ObjectKey, UnreadableError, legacy_id, moment

KEY = ObjectKey("68b55280b4c8d7a601855652")
MOMENT = datetime(2025, 11, 3, 4, 5, 6, 789_000, tzinfo=UTC)
MILLISECONDS = 1_762_142_706_789


@pytest.mark.parametrize("value", [str(KEY), str(KEY).upper(), {"$oid": str(KEY)}])
def test_ids_of_every_form_are_the_same(value: Any) -> None:
    notes = Notes()
    assert legacy_id(value, "user_id", notes) == KEY
    assert notes == {"A5"}
    assert legacy_id(KEY, "user_id", notes := Notes()) == KEY
    assert notes == set()


@pytest.mark.parametrize(
    "value", ["", "68b5", str(KEY) + "\n", f" {KEY}", "g" * 24, 7, {"$oid": 7}, {"id": str(KEY)}, []]
)
def test_what_is_no_id_is_refused(value: Any) -> None:
    with pytest.raises(UnreadableError) as caught:
        legacy_id(value, "user_id", Notes())
    assert caught.value.reason == "bad_id"


@pytest.mark.parametrize(
    "value",
    [
        "2025-11-03T04:05:06.789Z",
        "2025-11-03T04:05:06.789+00:00",
        "2025-11-03T04:05:06.789",
        "2025-11-03T05:05:06.789+01:00",
        {"$date": "2025-11-03T04:05:06.789Z"},
        {"$date": MILLISECONDS},
        {"$date": {"$numberLong": str(MILLISECONDS)}},
    ],
)
def test_times_of_every_form_are_the_same(value: Any) -> None:
    notes = Notes()
    assert moment(value, notes) == MOMENT
    assert notes == {"A6"}


def test_a_time_without_a_zone_is_in_utc_and_nothing_odd() -> None:
    assert moment(MOMENT.replace(tzinfo=None), notes := Notes()) == MOMENT
    assert notes == set()


@pytest.mark.parametrize("value", ["yesterday", "", {"$date": 2**70}, {"$date": {"$numberLong": "x"}}, 5, True, [], {}])
def test_what_is_no_time_is_noted_and_left_out(value: Any) -> None:
    notes = Notes()
    assert moment(value, notes) is None
    assert "bad_time" in notes


@pytest.mark.parametrize("value", [datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)])
def test_a_time_that_no_driver_reads_back_is_left_out(value: datetime) -> None:
    assert moment(value, Notes()) is None


def test_statements_are_without_headings_bullets_dividers_and_ages() -> None:
    text = (
        "# Mia\n\n- Sails on Sundays. (age: 3 days ago)\n* Likes tea!\n2. Rows.\n---\n***\n…\nShe said 3.5 is too much."
        "\n- Has a son, Ben (age: 7)"
    )
    assert [(s.number, s.content) for s in statements(text)] == [
        (1, "Sails on Sundays."),
        (2, "Likes tea!"),
        (3, "Rows."),
        (4, "She said 3.5 is too much."),
        (5, "Has a son, Ben (age: 7)"),
    ]


def test_number_of_a_point_is_no_statement() -> None:
    found = [s.content for s in statements("She said: 1. Likes tea. 2. Rows daily.\n3.\nSails.")]
    assert not any(one.rstrip(".").isdecimal() for one in found)
    assert "Sails." in found


@pytest.mark.parametrize(
    ("text", "content", "version"),
    [
        ("VERSION: 12\n\nThe stage.\n\n-- Total word count: 1,002\n", "The stage.", 12),
        ("version: 3\nThe stage.", "The stage.", 3),
        ("The stage.\n-- Total word count: 2 words", "The stage.\n-- Total word count: 2 words", None),
        ("VERSION: 3 Mia rows.\nThe stage.", "VERSION: 3 Mia rows.\nThe stage.", 3),
        ("VERSION: 3 Mia rows.", "VERSION: 3 Mia rows.", 3),
        ("VERSION: 1234567890\nThe stage.", "VERSION: 1234567890\nThe stage.", None),
        ("VERSION: 2.5 is out.", "VERSION: 2.5 is out.", None),
        ("In VERSION: 4 it was blue.", "In VERSION: 4 it was blue.", None),
        ("-- Total word count: 0\nThe stage.", "-- Total word count: 0\nThe stage.", None),
    ],
)
def test_only_the_first_line_and_the_last_are_no_text(text: str, content: str, version: int | None) -> None:
    found = blob_text(text, 400, "mask", Notes())
    assert found is not None
    assert (found.content, found.version) == (content, version)


@pytest.mark.slow
@pytest.mark.parametrize("blank", ["\n", " ", " \n", "\t\r\n"])
def test_long_white_space_takes_no_longer_than_it_is_long(blank: str) -> None:
    """Of a megabyte, each character was once tried with all that follow: that took hours."""
    text = f"Mia sails.{blank * (1_000_000 // len(blank))}-- Total word count: 2{' ' * 1_000_000}x"
    found = blob_text(text, 400, "mask", Notes())
    assert found is not None
    assert found.content == text
    assert len(list(statements(text))) in (1, 2)


def test_a_text_that_is_nothing_but_a_version_and_a_count_is_empty() -> None:
    assert blob_text("VERSION: 1\n\n-- Total word count: 0", 400, "mask", notes := Notes()) is None
    assert notes == {"A3", "A4"}


@given(st.lists(st.none() | st.text(max_size=300), max_size=6))
def test_whatever_shards_are_called_no_two_scopes_are(names: list[str | None]) -> None:
    shards = [
        read_shard({"_id": ObjectKey(f"{n:024x}"), "agent_id": KEY, "shard_name": name, "facts": []}, Notes(), "mask")
        for n, name in enumerate(names)
    ]
    found = names_of_shards(shards)
    assert len(set(found.values())) == len(names)
    assert all(1 <= len(name) <= 255 for name in found.values())


@given(st.text(min_size=1).filter(str.strip), st.lists(st.binary(min_size=12, max_size=12), max_size=4, unique=True))
def test_a_record_comes_back_from_the_spool_as_it_was(text: str, keys: list[bytes]) -> None:
    ids = [ObjectKey(key.hex()) for key in keys]
    document = {
        "_id": KEY, "agent_id": KEY, "memory_type": "fact", "content": f"x{text}", "source_message_ids": ids,
        "related_users": ids[::-1], "shard_id": ids[0] if ids else None, "createdAt": MOMENT,
    }  # fmt: skip
    record = read_record(document, Notes(), "mask")
    assert unpacked(packed(record, b"digest")) == Kept(
        record.ref, "fact", record.text.content, record.text.source_hash, b"digest", record.text.is_plain, None, None,
        record.shard, record.messages, record.users, MOMENT,
    )  # fmt: skip
