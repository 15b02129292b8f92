"""Exports of other programs, as small as they may be, and what is read from them."""

from __future__ import annotations

import json
import zipfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from memory_sql.cli.files import Conversation, Defaults, read_file
from memory_sql.errors import InputError
from memory_sql.histories.recognising import Format, Known

SECONDS = 1772359200  # 2026-03-01T10:00:00Z
AT = datetime(2026, 3, 1, 10, tzinfo=UTC)


def node(key: str, parent: str | None, role: str, text: str, **about: Any) -> dict[str, Any]:
    content = {"content_type": "text", "parts": [text]}
    message = {"id": key, "author": {"role": role}, "create_time": SECONDS + 0.5, "content": content, "metadata": about}
    return {"id": key, "parent": parent, "children": [], "message": message}


CHATGPT = {
    "title": "Trip",
    "conversation_id": "c1",
    "current_node": "d",
    "mapping": {
        "root": {"id": "root", "parent": None, "children": ["s"], "message": None},
        "s": node("s", "root", "system", "", is_visually_hidden_from_conversation=True),
        "a": node("a", "s", "user", "I live in Porto."),
        "b": node("b", "a", "assistant", "An answer that was asked for again."),
        "d": node("d", "a", "assistant", "Noted."),
    },
}
CLAUDE = {
    "uuid": "k1",
    "chat_messages": [
        {"uuid": "m1", "sender": "human", "text": "Hi", "content": [], "created_at": "2026-03-01T10:00:00Z"},
        {"uuid": "m2", "sender": "assistant", "text": "", "content": [{"type": "text", "text": "Hello"}]},
        {"uuid": "m3", "sender": "assistant", "text": "", "content": []},
    ],
}
SHAREGPT = {"id": "s1", "conversations": [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Hello"}]}


def read(path: Path, content: Any, user: str | None = "mia", **known: Any) -> tuple[Conversation, ...]:
    if not isinstance(content, bytes):
        content = (content if isinstance(content, str) else json.dumps(content)).encode()
    path.write_bytes(content)
    return read_file(str(path), Defaults(user=user, known=Known(**known))).conversations


def said(talk: Conversation) -> list[tuple[str, str]]:
    return [(message.role, message.content) for message in talk.messages]


def test_chatgpt_keeps_the_branch_that_was_shown(tmp_path: Path) -> None:
    (talk,) = read(tmp_path / "conversations.json", [CHATGPT])
    assert said(talk) == [("user", "I live in Porto."), ("assistant", "Noted.")]
    assert (talk.conversation_id, talk.messages[0].id) == ("c1", "a")
    assert talk.messages[0].created_at == AT.replace(microsecond=500_000)


@pytest.mark.parametrize(
    "broken", [{"current_node": "gone"}, {"mapping": {"a": node("a", "a", "user", "x")}, "current_node": "a"}]
)
def test_broken_tree_is_refused(tmp_path: Path, broken: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="conversation 1: its tree of messages is broken"):
        read(tmp_path / "conversations.json", [{**CHATGPT, **broken}])


def test_tree_may_be_deep(tmp_path: Path) -> None:
    nodes = {str(n): node(str(n), str(n - 1) if n else None, "user", f"x{n}") for n in range(3000)}
    (talk,) = read(tmp_path / "c.json", [{"mapping": nodes, "current_node": "2999", "id": "deep"}])
    assert [message.id for message in talk.messages[:2]] == ["0", "1"]
    assert len(talk.messages) == 3000


def test_claude_and_sharegpt(tmp_path: Path) -> None:
    (talk,) = read(tmp_path / "conversations.json", [CLAUDE])
    assert said(talk) == [("user", "Hi"), ("assistant", "Hello")]
    assert talk.messages[0].created_at == AT
    (talk,) = read(tmp_path / "share.json", [SHAREGPT])
    assert (talk.conversation_id, said(talk)) == ("s1", [("user", "Hi"), ("assistant", "Hello")])


def test_examples_for_tuning_are_a_conversation_each(tmp_path: Path) -> None:
    line = json.dumps({"messages": [{"role": "user", "content": "Hi"}]})
    talks = read(tmp_path / "tune.jsonl", f"\ufeff{line}\r\n{line}\r\n")
    assert [talk.conversation_id for talk in talks] == ["tune/1", "tune/2"]


def slack(folder: Path) -> Path:
    (folder / "harbor").mkdir(parents=True)
    users = [
        {"id": "U1", "name": "mia", "profile": {"display_name": "Mia"}},
        {"id": "U2", "name": "bo", "real_name": "Bo"},
    ]
    (folder / "users.json").write_text(json.dumps(users))
    later = [
        {
            "type": "message",
            "user": "U2",
            "text": "Yes &amp; soon",
            "ts": f"{SECONDS + 90000}.000100",
            "thread_ts": f"{SECONDS}.000100",
        }
    ]
    day = [
        {"type": "message", "user": "U1", "text": "<@U2> ship <https://x.org|it>?", "ts": f"{SECONDS}.000100"},
        {"type": "message", "user": "U2", "text": "Lunch", "ts": f"{SECONDS + 60}.000100"},
        {"type": "message", "subtype": "channel_join", "user": "U2", "text": "joined", "ts": f"{SECONDS + 1}.0"},
    ]
    (folder / "harbor" / "2026-03-01.json").write_text(json.dumps(day))
    (folder / "harbor" / "2026-03-02.json").write_text(json.dumps(later))
    return folder


def test_slack_channel_is_a_group_and_replies_follow_what_they_answer(tmp_path: Path) -> None:
    folder = slack(tmp_path / "export")
    with zipfile.ZipFile(tmp_path / "export.zip", "w") as archive:
        for one in folder.rglob("*.json"):
            archive.write(one, one.relative_to(folder))
    for name in (folder, tmp_path / "export.zip"):
        (talk,) = read_file(str(name), Defaults(known=Known(people={"Bo": "bo-7"}))).conversations
        assert [m.content for m in talk.messages] == ["@Bo ship it (https://x.org)?", "Yes & soon", "Lunch"]
        assert [m.user_id for m in talk.messages] == ["U1", "bo-7", "bo-7"]
        assert (talk.group_ids, talk.messages[0].name) == (("harbor",), "Mia")


ANDROID = "13/02/2026, 09:15 - Messages and calls are end-to-end encrypted.\n13/02/2026, 09:16 - Mia: one\ntwo: three\n02/03/2026, 10:00 - Bo: <Media omitted>\n02/03/2026, 10:01 - Bo: Fine\n"  # noqa: E501


def test_whatsapp_decides_the_order_of_dates_by_the_file(tmp_path: Path) -> None:
    (talk,) = read(tmp_path / "chat.txt", ANDROID, None)
    assert [(m.name, m.content) for m in talk.messages] == [("Mia", "one\ntwo: three"), ("Bo", "Fine")]
    assert talk.messages[1].created_at == datetime(2026, 3, 2, 10, 1, tzinfo=UTC)
    assert talk.group_ids == ()


def test_whatsapp_of_a_phone_with_twelve_hours(tmp_path: Path) -> None:
    text = (
        "\u200e[3/13/26, 12:05:09\u202fAM] Mia: Hi\r\n[3/13/26, 1:05:09\u202fPM] Bo: Ho\r\n"
        "\u200e[3/14/26, 1:00:00\u202fPM] Bo: \u200eimage omitted\r\n"
    )
    (talk,) = read(tmp_path / "_chat.txt", text, None, people={"Mia": "mia-7"})
    assert [m.created_at.hour for m in talk.messages if m.created_at] == [0, 13]
    assert [m.user_id for m in talk.messages] == ["mia-7", "Bo"]


def test_whatsapp_asks_where_dates_may_be_read_two_ways(tmp_path: Path) -> None:
    text = "01/02/2026, 09:15 - Mia: Hi\n"
    with pytest.raises(InputError, match="pass --dates dmy or --dates mdy"):
        read(tmp_path / "chat.txt", text, None)
    (talk,) = read(tmp_path / "chat.txt", text, None, dates="mdy")
    assert talk.messages[0].created_at == datetime(2026, 1, 2, 9, 15, tzinfo=UTC)


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("../conversations.json", "[]", "leads out of it"),
        ("/etc/x.json", "[]", "leads out of it"),
        ("a.json", " " * 11_000_000, "would unpack to"),
        ("a.json", "[" * 100_000, "not JSON"),
        ("a.json", "[]", "no export of"),
        ("a.png", "x", "no export of"),
    ],
    ids=["up", "root", "bomb", "nested", "empty", "other"],
)
def test_hostile_zip_is_refused(tmp_path: Path, name: str, content: str, says: str) -> None:
    with zipfile.ZipFile(tmp_path / "x.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, content)
    with pytest.raises(InputError, match=says):
        read_file(str(tmp_path / "x.zip"), Defaults(user="mia"))


def test_zipped_text_that_is_not_utf8_is_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        archive.writestr("_chat.txt", "13/02/2026, 09:16 - Mia: Café\n".encode("latin-1"))
    with pytest.raises(InputError, match=r"_chat\.txt: line 1: not UTF-8: byte 0xe9"):
        read_file(str(tmp_path / "x.zip"), Defaults(user="mia"))


@pytest.mark.parametrize("forced", ["chatgpt", "claude", "slack", "whatsapp", "sharegpt"])
def test_file_of_another_format_than_said_is_refused(tmp_path: Path, forced: Format) -> None:
    said = [{"role": "user", "content": "Tea."}]
    with pytest.raises(InputError, match=f"it isn't of the format {forced}"):
        read(tmp_path / "x.json", json.dumps(said), format=forced)


@pytest.mark.parametrize(
    "content", [b"\xff\xfe[\x00", b"[" * 1_000_000, b'{"a": NaN'], ids=["encoding", "nested", "cut"]
)
def test_hostile_file_is_refused_by_name(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(InputError, match=r"x\.json: line 1"):
        read(tmp_path / "x.json", content)
