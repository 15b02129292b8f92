"""A host's own objects, read in the form that memory takes."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from bson import ObjectId

from memory_sql.backends.hosts import HostSession, id_of_host, message_of, session_of, user_id_of
from memory_sql.domain.messages import Message
from memory_sql.errors import InputError

KEY = "64f1a2b3c4d5e6f7a8b9c0d1"
UNIQUE = UUID("5f0c7a8e-5d1c-4f1c-8f0e-1a2b3c4d5e6f")


@pytest.mark.parametrize(
    ("thing", "key"),
    [
        ("mia", "mia"),
        (7, "7"),
        (UNIQUE, str(UNIQUE)),
        (ObjectId(KEY), KEY),
        (SimpleNamespace(id=ObjectId(KEY)), KEY),
        ({"_id": ObjectId(KEY)}, KEY),
        (SimpleNamespace(id=None, _id="mia"), "mia"),
    ],
)
def test_id_is_read_from_whatever_has_one(thing: Any, key: str) -> None:
    assert id_of_host(thing) == key


@pytest.mark.parametrize("thing", [None, {}, SimpleNamespace(name="mia")])
def test_what_has_no_id_is_refused(thing: Any) -> None:
    with pytest.raises(InputError, match="has no id"):
        id_of_host(thing)


def test_user_is_who_they_stand_for() -> None:
    assert user_id_of(SimpleNamespace(id="mia", eden_user_id="m1")) == "m1"
    assert user_id_of({"_id": "mia", "eden_user_id": None}) == "mia"
    assert user_id_of("mia") == "mia"


def test_message_of_before_is_taken_in_our_shape() -> None:
    document = {
        "_id": ObjectId(KEY),
        "role": "eden",
        "sender": ObjectId(KEY),
        "content": "Done.",
        "createdAt": datetime(2026, 3, 2, 9),  # noqa: DTZ001 (as drivers give it)
        "tool_calls": [{"id": "c1", "tool": "draw", "args": {}}],
        "trigger": None,
        "thought": "hidden",
    }
    taken = Message.parse(message_of(document, {}), 0)
    assert (taken.role, taken.id, taken.user_id) == ("assistant", KEY, None)
    assert taken.content == "Done.\n[used tools: draw]"
    assert taken.created_at == datetime(2026, 3, 2, 9, tzinfo=UTC)


def test_sender_of_a_message_is_the_one_that_counts() -> None:
    said = {"role": "user", "content": None, "sender": KEY, "trigger": KEY}
    taken = Message.parse(message_of(said, {KEY: "mia"}), 0)
    assert (taken.user_id, taken.content, taken.trigger) == ("mia", "", KEY)


def test_message_in_our_shape_stays_as_it_is() -> None:
    own = Message(role="user", content="Hello")
    assert message_of(own, {}) is own
    plain = {"id": "m1", "role": "user", "content": "Hello", "user_id": "mia"}
    assert message_of(plain, {}) == plain


def test_ids_of_messages_are_no_messages() -> None:
    with pytest.raises(InputError, match="read_session"):
        message_of(ObjectId(KEY), {})


def test_session_says_whose_it_is_and_what_is_left_out() -> None:
    session = {"_id": "42", "owner": ObjectId(KEY), "extras": {"exclude_memory": True}, "groups": [{"_id": "harbor"}]}
    assert session_of(session, [], {KEY: "mia"}) == HostSession("42", "mia", [], ("harbor",), excluded=True)
    assert session_of({**session, "extras": {"incognito": False}}, []).excluded is False
    assert session_of({**session, "extras": {"is_public": True}}, []).excluded is None
    with pytest.raises(InputError, match="no owner"):
        session_of({"_id": "42"}, [])
