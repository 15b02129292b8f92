import json
import os
import sys
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_sql.cli.files import Conversation, ConversationFile, Defaults, parse, read_file
from memory_sql.errors import InputError
from tests.commands import memory_sql

MIA = Defaults(user="mia")


def said(content: str = "Hello", **more: Any) -> dict[str, Any]:
    return {"role": "user", "content": content, **more}


def lines(*messages: Any) -> bytes:
    return "\n".join(json.dumps(message) for message in messages).encode()


def read(content: bytes, name: str = "talk.jsonl", defaults: Defaults = MIA) -> list[Conversation]:
    return list(parse(content, name, defaults).conversations)


def texts(conversation: Conversation) -> list[str]:
    return [message.content for message in conversation.messages]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("talk.jsonl", lines(said("one"), said("two"))),
        ("talk.txt", lines(said("one"), said("two"))),
        ("talk.json", json.dumps([said("one"), said("two")], indent=2).encode()),
        ("talk.json", json.dumps({"messages": [said("one"), said("two")]}, indent=2).encode()),
        ("talk.json", json.dumps({"messages": [said("one"), said("two")]}).encode()),
        ("talk.json", json.dumps([{"messages": [said("one")]}, said("two")]).encode()),
        ("talk.jsonl", b"\xef\xbb\xbf" + lines(said("one"), said("two")).replace(b"\n", b"\r\n\r\n") + b"\r\n \r\n"),
    ],
)
def test_messages_come_as_json_lines_as_a_list_or_as_documents(name: str, content: bytes) -> None:
    (conversation,) = read(content, name)
    assert (conversation.conversation_id, conversation.user_id, texts(conversation)) == ("talk", "mia", ["one", "two"])


def test_line_separators_of_unicode_inside_a_text_end_no_line() -> None:
    content = json.dumps(said("a\u2028b\u2029c"), ensure_ascii=False).encode()
    (conversation,) = read(content + b"\n" + content)
    assert texts(conversation) == ["a\u2028b\u2029c"] * 2


def test_empty_file_holds_no_messages() -> None:
    assert read(b"") == read(b"\xef\xbb\xbf\n \n") == []


def test_conversation_of_a_message_is_its_own_then_the_documents_then_the_given_one_then_the_files_name() -> None:
    document = {"messages": [said("own", session="a"), said("document's")], "conversation_id": "b"}
    content = lines(document, said("none"), said("by id", conversation_id="c"))
    given = Defaults(user="mia", conversation="given")
    assert [(c.conversation_id, texts(c)) for c in read(content, defaults=given)] == [
        ("a", ["own"]),
        ("b", ["document's"]),
        ("given", ["none"]),
        ("c", ["by id"]),
    ]
    assert read(content)[2].conversation_id == "talk"


def test_number_counts_the_conversations_of_the_file_and_a_text_is_the_id_itself() -> None:
    conversations = read(lines(said(session=1), said(session="1"), said(session=2)), "/tmp/conv-26.jsonl")
    assert [c.conversation_id for c in conversations] == ["conv-26/1", "1", "conv-26/2"]


def test_interleaved_conversations_are_one_conversation_each_in_the_order_of_first_appearance() -> None:
    content = lines(said("1", session="b"), said("2", session="a"), said("3", session="b"))
    assert [(c.conversation_id, texts(c)) for c in read(content)] == [("b", ["1", "3"]), ("a", ["2"])]


def test_groups_are_those_given_those_of_the_document_and_those_of_the_messages() -> None:
    content = lines({"messages": [said(group_ids=["x", 7]), said(group_ids=["y", "x"])], "group_ids": ["d"]})
    (conversation,) = read(content, defaults=Defaults(user="mia", groups=("given",)))
    assert conversation.group_ids == ("given", "d", "x", "7", "y")


def test_user_is_the_one_given_else_the_documents_else_the_first_that_a_message_names() -> None:
    content = lines(said(session="a"), said(session="a", user_id="jonas"), said(session="a", user_id="mia"))
    assert [c.user_id for c in read(content, defaults=Defaults())] == ["jonas"]
    assert [c.user_id for c in read(content, defaults=Defaults(user="elin"))] == ["elin"]
    document = lines({"messages": [said(user_id="jonas")], "user_id": 17})
    assert [c.user_id for c in read(document, defaults=Defaults())] == ["17"]


def test_conversation_without_a_user_is_an_error_that_says_what_to_do() -> None:
    with pytest.raises(InputError, match=r"talk\.jsonl: whose is conversation talk\? pass --user"):
        read(lines(said()), defaults=Defaults())


def places(content: bytes, name: str = "talk.jsonl") -> dict[int, str]:
    (conversation,) = read(content, name)
    return dict(conversation.places)


def test_message_without_an_id_is_known_by_file_and_line() -> None:
    content = lines(said("one"), said("one"), said("two", id="m2"))
    assert places(content) == {0: "talk.jsonl:1", 1: "talk.jsonl:2"}
    assert places(content, "elsewhere/talk.jsonl") == places(content)
    assert places(content + b"\n" + lines(said("three"))) == {**places(content), 3: "talk.jsonl:4"}


def test_ids_and_conversations_from_names_that_no_id_can_hold() -> None:
    for name in ("a" * 250 + ".jsonl", "line\nbreak\udcff.jsonl", " .jsonl", "cafe\u0301.jsonl"):
        (conversation,) = read(lines(said()), name)
        assert conversation.places[0]
    assert conversation.conversation_id == "café"


BAD: dict[str, tuple[bytes, str]] = {
    "broken line": (b'{"role": "user", "content": "x"}\n{"role": "user"', "line 2: not JSON: Expecting ',' delimiter"),
    "number": (b"17", "line 1: must be an object, not int"),
    "list on a line": (lines(said(), [said()]), "line 2: must be an object, not list"),
    "unknown role": (lines(said(), {"role": "robot", "content": "x"}), "line 2: role: Input should be"),
    "no role": (lines({"content": "x"}), "line 1: role: Field required"),
    "content": (lines(said(), ""), "line 2: must be an object, not str"),
    "blank lines count": (b"\n\n" + lines({"role": "user", "content": 3}), "line 3: content must be text"),
    "naive time": (lines(said(created_at="2026-03-02T10:00:00")), "line 1: created_at needs a time zone"),
    "empty id": (lines(said(id="")), "line 1: id: must have 1 to 255 characters"),
    "conversation that is no id": (lines(said(session=1.5)), "line 1: conversation: must be text"),
    "conversation too long": (lines(said(session="x" * 300)), "line 1: conversation: must have 1 to 255"),
    "groups": (lines(said(group_ids="harbor")), "line 1: group_ids must be a list"),
    "time zone": (lines(said(time_zone="Mars/Olympus")), "line 1: the time zone isn't known"),
    "time zone that is no text": (lines(said(time_zone=3)), "line 1: time_zone must be text"),
    "messages of a document": (lines({"messages": {}}), "line 1, messages: must be a list"),
    "message of a document": (lines(said(), {"messages": [said(), 3]}), "line 2, message 2: must be an object"),
    "too large": (lines(said("x" * 200_001)), "line 1: 200,001 characters; the limit is 200,000"),
    "not UTF-8": (lines(said()) + b'\n{"role": "\xe9"}', "line 2: not UTF-8: byte 0xe9 at offset 47"),
    "UTF-16": (lines(said()).decode().encode("utf-16"), "line 1: not UTF-8: byte 0xff at offset 0"),
    "endless brackets": (b"[" * 100_000, "line 1: not JSON"),
    "endless number": (b'{"role": "user", "id": ' + b"9" * 5000 + b"}", "line 1: not JSON"),
}


@pytest.mark.parametrize(("content", "reason"), BAD.values(), ids=BAD.keys())
def test_mistake_is_named_by_its_line_and_no_text_is_quoted(content: bytes, reason: str) -> None:
    with pytest.raises(InputError) as raised:
        read(content)
    assert str(raised.value).startswith(f"talk.jsonl: {reason}")
    assert len(str(raised.value)) < 200


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ([said(), {"role": "robot"}], "message 2: role"),
        ({"messages": [said(), {"role": "robot"}]}, "message 2: role"),
        ([said(), {"messages": [{"role": "robot"}]}], "item 2, message 1: role"),
    ],
)
def test_mistake_in_a_json_file_is_named_by_its_position(value: Any, reason: str) -> None:
    with pytest.raises(InputError, match=rf"talk\.json: {reason}"):
        read(json.dumps(value, indent=1).encode(), "talk.json")


def test_broken_json_file_is_named_by_the_line_of_the_break() -> None:
    with pytest.raises(InputError, match=r"talk\.json: line 3: not JSON: Expecting ',' delimiter"):
        read(b'[\n {"role": "user", "content": "x"}\n {"role": "user"}]', "talk.json")


def test_text_that_postgres_cant_hold_passes_and_is_cleaned() -> None:
    (conversation,) = read(b'{"role": "user", "content": "a\\ud83d\\u0000b"}')
    assert texts(conversation) == ["a\ufffd\ufffdb"]
    assert conversation.messages[0].cleaned == ("nul", "surrogate")


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("nowhere.json", "No such file or directory"),
        ("memory_sql/languages/english", "no export of ChatGPT, Claude, Slack, WhatsApp or ShareGPT is in it"),
    ],
)
def test_file_that_cant_be_read(name: str, reason: str) -> None:
    with pytest.raises(InputError, match=f"{name}: {reason}"):
        read_file(name, MIA)
    ran = memory_sql("add", name, "--agent", "ada", "--user", "mia", code=1)
    assert (ran.out, ran.err) == ("", f"memory-sql: {name}: {reason}\n")


@pytest.mark.skipif(sys.platform == "win32", reason="has no such pipes")
def test_pipe_is_read_although_it_gives_its_content_once(tmp_path: Path) -> None:
    pipe = tmp_path / "talk.jsonl"
    os.mkfifo(pipe)
    writing = Thread(target=pipe.write_bytes, args=[lines(said("one"), said("two"))])
    writing.start()
    (conversation,) = read_file(str(pipe), MIA).conversations
    writing.join()
    assert (conversation.conversation_id, texts(conversation)) == ("talk", ["one", "two"])


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["role", "content", "messages", "conversation", "conversation_id", "id", "user_id", "group_ids"]
            ),
            inner,
        )
    ),
    max_leaves=8,
)


@given(st.binary(max_size=50) | st.lists(_json, max_size=3).map(lambda values: lines(*values)) | _json.map(lines))
def test_whatever_a_file_holds_it_is_read_or_refused(content: bytes) -> None:
    for name in ("talk.json", "talk.jsonl"):
        with suppress(InputError):
            assert isinstance(parse(content, name, MIA), ConversationFile)


@pytest.mark.parametrize(
    "twice", [b'{"role": "user", "role": "tool", "content": "x"}', b'[{"content": {"a": 1, "a": 2}}]']
)
def test_key_that_stands_twice_is_refused(twice: bytes) -> None:
    with pytest.raises(InputError, match="an object has a duplicate key"):
        read(twice)
