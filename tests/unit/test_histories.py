"""Exports of other programs, as small as they may be, and what is read from them."""

from __future__ import annotations

import json
import tracemalloc
import zipfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from memory_sql.cli.files import Conversation, Defaults, read_file, read_into
from memory_sql.domain.messages import Message
from memory_sql.errors import InputError
from memory_sql.histories.documents import BROKEN
from memory_sql.histories.recognising import Format, Known
from memory_sql.histories.spool import Spool
from memory_sql.histories.values import texts, values

SECONDS = 1772359200  # 2026-03-01T10:00:00Z
AT = datetime(2026, 3, 1, 10, tzinfo=UTC)


def node(key: str, parent: str | None, role: str, text: str, **about: Any) -> dict[str, Any]:
    content = {"content_type": "text", "parts": [text]}
    author: dict[str, Any] = {"role": role, "name": None, "metadata": {}}
    message = {
        "id": key, "author": author, "create_time": SECONDS + 0.5, "update_time": None, "content": content,
        "status": "finished_successfully", "end_turn": True, "weight": 1.0, "metadata": about, "recipient": "all",
        "channel": None,
    }  # fmt: skip
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
        {
            "uuid": "m2",
            "sender": "assistant",
            "text": "",
            "content": [{"type": "text", "text": "Hello", "citations": []}],
        },
        {"uuid": "m3", "sender": "assistant", "text": "", "content": [], "attachments": [], "files": []},
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


@pytest.mark.slow
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


# What real exports have besides


def test_chatgpt_leaves_out_calls_of_tools_and_keeps_what_was_spoken_and_shown(tmp_path: Path) -> None:
    def said(key: str, parent: str, content: dict[str, Any], role: str = "user", to: str = "all") -> dict[str, Any]:
        made = node(key, parent, role, "")
        made["message"] |= {"content": content, "recipient": to, "create_time": None}
        return made

    image = {"content_type": "image_asset_pointer", "asset_pointer": "sediment://file_1", "size_bytes": 5}
    heard = {"content_type": "audio_transcription", "text": "And this?", "direction": "in", "decoding_id": None}
    mapping = {
        "root": {"id": "root", "message": None, "parent": None, "children": ["a"]},
        "a": said("a", "root", {"content_type": "multimodal_text", "parts": [image, heard, "Look."]}),
        "b": said("b", "a", {"content_type": "code", "language": "json", "text": "{}"}, "assistant", "bio"),
        "c": said("c", "b", {"content_type": "text", "parts": ["Model set context updated."]}, "tool"),
        "d": said("d", "c", {"content_type": "thoughts", "thoughts": []}, "assistant"),
        "e": said("e", "d", {"content_type": "text", "parts": [""]}, "assistant"),
        "f": said("f", "e", {"content_type": "text", "parts": ["A boat."]}, "assistant"),
    }
    (talk,) = read(tmp_path / "conversations.json", [{"id": "c1", "mapping": mapping, "current_node": "f"}])
    assert [(m.role, m.content, m.created_at) for m in talk.messages] == [
        ("user", "[image_asset_pointer]\nAnd this?\nLook.", None),
        ("tool", "Model set context updated.", None),
        ("assistant", "A boat.", None),
    ]


def test_claude_says_nothing_for_a_block_that_text_only_stands_in_for(tmp_path: Path) -> None:
    stands_in = "```\nThis block is not supported on your current device yet.\n```"
    used = {"type": "tool_use", "name": "web_search", "input": {}}
    file = {"file_name": "a.pdf", "file_size": 3, "file_type": "pdf", "extracted_content": "Secret"}
    said_by = {"sender": "human", "created_at": "2026-03-01T10:00:00.123456Z"}
    messages = [
        {"uuid": "1", "text": "Old", **said_by},
        {"uuid": "2", "text": "", "content": [{"type": "text", "text": ""}], "attachments": [file], **said_by},
        {"uuid": "3", "text": stands_in, "content": [used], **said_by, "sender": "assistant"},
        {"uuid": "4", "text": stands_in, "content": [used, {"type": "text", "text": "Found."}], **said_by},
    ]
    (talk,) = read(tmp_path / "conversations.json", [{"uuid": "k", "name": "x", "chat_messages": messages}])
    assert [(m.id, m.content) for m in talk.messages] == [("1", "Old"), ("4", "Found.")]


def test_slack_knows_bots_and_guests_and_special_mentions(tmp_path: Path) -> None:
    folder = slack(tmp_path / "export")
    users = json.loads((folder / "users.json").read_text())
    users.append({"id": "B9", "name": "robot", "is_bot": True, "profile": {"real_name": "Robot"}})
    (folder / "users.json").write_text(json.dumps(users))

    def at(n: int, **more: Any) -> dict[str, Any]:
        return {"type": "message", "ts": f"{SECONDS + n}.000000", "user": "U1", "text": f"m{n}", **more}

    said = [
        at(1, user="B9"),
        at(2, user="USLACKBOT"),
        at(3, bot_id="B1"),
        at(4, subtype="bot_message"),
        at(5, text="", files=[{"id": "F1", "name": "a.png"}]),
        at(6, subtype="file_share", text="Here", files=[{"id": "F2"}], edited={"user": "U1", "ts": "1"}),
        at(7, user="U77", user_profile={"display_name": "", "real_name": "Guest", "name": "g"}),
        at(8, text="<!here> <!subteam^S1|@crew> <@U77|guest> &lt;3 <mailto:a@b.org|a@b.org>"),
        at(9, subtype="tombstone", user="U1", text="This message was deleted."),
        at(10, bot_id=None, text="By hand"),
    ]
    (folder / "harbor" / "2026-03-01.json").write_text(json.dumps(said))
    (folder / "harbor" / "2026-03-02.json").unlink()
    (talk,) = read_file(str(folder), Defaults()).conversations
    assert [(m.name, m.content) for m in talk.messages] == [
        ("Mia", "Here"),
        ("Guest", "m7"),
        ("Mia", "@here @crew @guest <3 a@b.org (mailto:a@b.org)"),
        ("Mia", "By hand"),
    ]


def test_two_workspaces_in_one_folder_are_refused(tmp_path: Path) -> None:
    slack(tmp_path / "both" / "one")
    slack(tmp_path / "both" / "two")
    with pytest.raises(InputError, match="2 exports of Slack are in it: add each on its own"):
        read_file(str(tmp_path / "both"), Defaults())


WHATSAPP: dict[str, tuple[str, datetime]] = {
    "iOS, British": ("[13/02/2026, 21:15:09] Mia: Hi", datetime(2026, 2, 13, 21, 15, 9, tzinfo=UTC)),
    "iOS, German": ("[13.02.26, 21:15:09] Mia: Hi", datetime(2026, 2, 13, 21, 15, 9, tzinfo=UTC)),
    "iOS, Turkish": ("[13.02.2026 21:15:09] Mia: Hi", datetime(2026, 2, 13, 21, 15, 9, tzinfo=UTC)),
    "iOS, US": ("[2/13/26, 9:15:09\u202fPM] Mia: Hi", datetime(2026, 2, 13, 21, 15, 9, tzinfo=UTC)),
    "iOS, Finnish": ("[13.2.2026 klo 21.15.09] Mia: Hi", datetime(2026, 2, 13, 21, 15, 9, tzinfo=UTC)),
    "Android, British": ("13/02/2026, 21:15 - Mia: Hi", datetime(2026, 2, 13, 21, 15, tzinfo=UTC)),
    "Android, German": ("13.02.26, 21:15 - Mia: Hi", datetime(2026, 2, 13, 21, 15, tzinfo=UTC)),
    "Android, US": ("2/13/26, 9:15\u202fPM - Mia: Hi", datetime(2026, 2, 13, 21, 15, tzinfo=UTC)),
    "Android, Brazilian": ("13/02/2026 21:15 - Mia: Hi", datetime(2026, 2, 13, 21, 15, tzinfo=UTC)),
    "Android, Dutch": ("13-02-2026 21:15 - Mia: Hi", datetime(2026, 2, 13, 21, 15, tzinfo=UTC)),
    "Android, Swedish": ("2026-02-13 21:15 - Mia: Hi", datetime(2026, 2, 13, 21, 15, tzinfo=UTC)),
    "Android, Spanish": ("13/2/26, 9:15 p.\u00a0m. - Mia: Hi", datetime(2026, 2, 13, 21, 15, tzinfo=UTC)),
    "Android, Japanese": ("2026/02/13 21:15 - Mia: Hi", datetime(2026, 2, 13, 21, 15, tzinfo=UTC)),
    "Android, Chinese": ("2026/2/13 下午9:15 - Mia: Hi", datetime(2026, 2, 13, 21, 15, tzinfo=UTC)),
    "midnight": ("2/13/26, 12:05 AM - Mia: Hi", datetime(2026, 2, 13, 0, 5, tzinfo=UTC)),
}


@pytest.mark.parametrize(("line", "at"), WHATSAPP.values(), ids=WHATSAPP.keys())
@pytest.mark.parametrize("end", ["\n", "\r\n"], ids=["lf", "crlf"])
def test_whatsapp_of_phones_in_several_countries(tmp_path: Path, line: str, at: datetime, end: str) -> None:
    (talk,) = read(tmp_path / "chat.txt", f"\ufeff{line}{end}", None)
    assert [(m.name, m.content, m.created_at) for m in talk.messages] == [("Mia", "Hi", at)]


def test_whatsapp_leaves_out_what_the_phone_says(tmp_path: Path) -> None:
    text = (
        "[19/10/2025, 01:02:19] Crew: \u200eRudi added you\r\n"
        "[19/10/2025, 01:02:20] ~\u202fRudi: Hello @\u2068Mia\u2069\r\n"
        "\u200e[19/10/2025, 01:02:21] Rudi: \u200eimage omitted\r\n"
        "[19/10/2025, 01:02:22] Rudi: See \u200e<attached: 1-PHOTO.jpg>\r\n"
        "[19/10/2025, 01:02:23] Mia: Fixed \u200e<This message was edited>\r\n"
        "[19/10/2025, 01:02:24] +12 345 changed the subject to “Trip: north”\r\n"
        "[19/10/2025, 01:02:25] Bo: IMG-1.jpg (Datei angehängt)\n"
        "A sail\r\n"
    )
    (talk,) = read(tmp_path / "_chat.txt", text, None)
    assert [(m.name, m.content) for m in talk.messages] == [
        ("Rudi", "Hello @Mia"),
        ("Rudi", "See"),
        ("Mia", "Fixed"),
        ("Bo", "A sail"),
    ]
    assert talk.group_ids == ("_chat",)


def test_day_that_there_is_not_is_left_out_alone(tmp_path: Path) -> None:
    text = "13/02/2026, 09:16 - Mia: one\n31/02/2026, 09:17 - Mia: two\n01/03/2026, 09:18 - Mia: three\n"
    with Spool() as spool:
        (tmp_path / "chat.txt").write_text(text)
        file = read_into(spool, str(tmp_path / "chat.txt"), Defaults())
        assert file.notes(BROKEN) == ["line 2: there is no such day or time"]
        assert file.messages() == 2


# Ids that stay the same


def marks(talk: Conversation) -> list[str]:
    return [message.id or talk.places[at] for at, message in enumerate(talk.messages)]


def test_whatsapps_messages_are_known_by_time_and_text_wherever_they_stand(tmp_path: Path) -> None:
    """A later export begins later, where it is too long, and its file has another name."""
    old = "01/12/2025, 09:15 - Mia: a\n13/02/2026, 09:16 - Bo: b\n13/02/2026, 09:16 - Bo: b\n"
    new = "13/02/2026, 09:16 - Bo: b\n13/02/2026, 09:16 - Bo: b\n14/02/2026, 10:00 - Mia: c\n"
    (before,) = read(tmp_path / "chat.txt", old, None)
    (after,) = read(tmp_path / "chat (1).txt", new, None)
    assert marks(before)[1:] == marks(after)[:2]
    assert len(set(marks(before))) == len(set(marks(after))) == 3
    in_lisbon = read(tmp_path / "chat.txt", old, None, zone=ZoneInfo("Asia/Tokyo"))
    assert marks(in_lisbon[0]) == marks(before)


def test_sharegpts_messages_are_known_by_their_conversation_not_by_the_file(tmp_path: Path) -> None:
    (alone,) = read(tmp_path / "old.json", [SHAREGPT])
    _, again = read(tmp_path / "new.json", [{**SHAREGPT, "id": "s0"}, SHAREGPT])
    assert (again.conversation_id, marks(again)) == (alone.conversation_id, marks(alone))


def test_conversations_of_several_files_without_ids_stay_apart(tmp_path: Path) -> None:
    folder = tmp_path / "chats"
    folder.mkdir()
    for name in ("a", "b"):
        (folder / f"{name}.json").write_text(json.dumps([{"conversations": SHAREGPT["conversations"]}]))
        (folder / f"With {name}.txt").write_text(f"13/02/2026, 09:16 - Mia: {name}\n")
    talks = read_file(str(folder), Defaults(user="mia")).conversations
    assert [talk.conversation_id for talk in talks] == ["With a", "With b", "chats/a/1", "chats/b/1"]


def test_conversation_of_a_chat_may_be_named(tmp_path: Path) -> None:
    text = "13/02/2026, 09:16 - Mia: a\n13/02/2026, 09:16 - Bo: b\n13/02/2026, 09:16 - Cy: c\n"
    (talk,) = read(tmp_path / "chat (2).txt", text, None, conversation="crew")
    assert (talk.conversation_id, talk.group_ids) == ("crew", ("crew",))


# What of an export can't be read


def broken(path: Path, content: str, **defaults: Any) -> tuple[int, list[str]]:
    """How many messages are read, and what isn't."""
    path.write_text(content)
    with Spool() as spool:
        file = read_into(spool, str(path), Defaults(**{"user": "mia", **defaults}))
        return file.messages(), file.notes(BROKEN)


def test_cut_off_export_gives_what_came_before(tmp_path: Path) -> None:
    whole = json.dumps([{**CLAUDE, "uuid": f"k{n}"} for n in range(3)])
    count, reasons = broken(tmp_path / "c.json", whole[:-40])
    assert (count, len(reasons)) == (4, 1)
    assert reasons[0].startswith("line 1: not JSON: ")
    assert reasons[0].endswith("; what follows isn't read")
    count, reasons = broken(tmp_path / "c.json", whole[:-1])
    assert (count, reasons) == (6, ["line 1: not JSON: Expecting ',' delimiter (column 1053); what follows isn't read"])


def test_broken_conversations_and_messages_are_left_out_alone(tmp_path: Path) -> None:
    loop = {**CHATGPT, "conversation_id": "c2", "current_node": "gone"}
    long = json.loads(json.dumps(CHATGPT).replace("I live in Porto.", "x" * 101).replace('"c1"', '"c3"'))
    odd = json.loads(json.dumps(CHATGPT).replace(f"{SECONDS}.5", "1e99").replace('"c1"', '"c4"'))
    content = json.dumps([CHATGPT, loop, 3, long, odd, {**CHATGPT, "conversation_id": ["c"]}])
    count, reasons = broken(tmp_path / "c.json", content, max_characters=100)
    assert count == 2 + 1
    assert reasons[:4] == [
        "conversation 2: its tree of messages is broken",
        "conversation 3: isn't of the same form as the first",
        "conversation 4, message 1: 101 characters; the limit is 100",
        "conversation 5, message 1: create_time must be an ISO 8601 time with a zone, or seconds or milliseconds since 1970",
    ]
    assert reasons[-1].startswith("conversation 6: conversation: must be text")


def test_one_broken_file_of_an_archive_is_named_and_shadows_are_not_read(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        archive.writestr("conversations.json", json.dumps([CHATGPT]))
        archive.writestr("conversations-001.json", '[{"mapping": ')
        archive.writestr("user.json", '{"id": "user-1", "email": "a@b.org"}')
        archive.writestr("README.txt", "Café".encode("latin-1"))
        archive.writestr("__MACOSX/._conversations.json", b"\x00\x05\x16\x07")
        archive.writestr("file-1.zip", b"PK")
    with Spool() as spool:
        file = read_into(spool, str(tmp_path / "x.zip"), Defaults(user="mia"))
        assert file.messages() == 2
        (reason,) = file.notes(BROKEN)
    assert reason.startswith("conversations-001.json: line 1: not JSON")


def test_one_chat_of_several_whose_dates_are_open_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "chats"
    folder.mkdir()
    (folder / "a.txt").write_text("01/02/2026, 09:15 - Mia: Hi\n")
    (folder / "b.txt").write_text("13/02/2026, 09:15 - Mia: Hi\n")
    (folder / "c.jsonl").write_text('{"role": "user", "content": "Tea."}\n{"role": "robot"}\n')
    with Spool() as spool:
        file = read_into(spool, str(folder), Defaults(user="mia"))
        assert [part.conversation_id for part in file.stretches(9, 9)] == ["b"]
        dates, robot = file.notes(BROKEN)
    assert dates == "a.txt: its dates may be day/month or month/day: pass --dates dmy or --dates mdy"
    assert robot.startswith("c.jsonl: line 2: role: Input should be")


def test_whatsapps_names_have_one_spelling(tmp_path: Path) -> None:
    text = "13/02/2026, 09:15 - Jose\u0301: a\n13/02/2026, 09:16 - \u2060Jos\u00e9: b\n13/02/2026, 09:17 - 👩\u200d👧 M: c\n"
    (talk,) = read(tmp_path / "chat.txt", text, None, people={"José": "jose-7"})
    assert [m.user_id for m in talk.messages] == ["jose-7", "jose-7", "👩\u200d👧 M"]


def test_zip_in_a_zip_is_refused_by_name(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        archive.writestr("inner/chats.zip", b"PK")
    with pytest.raises(
        InputError, match=r"a zip is inside, which isn't read: unpack inner/chats\.zip, and add what it"
    ):
        read_file(str(tmp_path / "x.zip"), Defaults(user="mia"))


def test_zip_with_a_password_is_refused_by_a_sentence(tmp_path: Path) -> None:
    path = tmp_path / "x.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("conversations.json", "[]")
    content = bytearray(path.read_bytes())
    for signature, flags in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        content[content.index(signature) + flags] |= 1
    path.write_bytes(bytes(content))
    with pytest.raises(InputError, match="the zip has a password: unpack it, and add the folder"):
        read_file(str(path), Defaults(user="mia"))


def test_zip_that_is_damaged_inside_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("conversations.json", json.dumps([CHATGPT]))
    content = bytearray(path.read_bytes())
    content[60:80] = b"\xff" * 20
    path.write_bytes(bytes(content))
    with pytest.raises(InputError, match=r"conversations\.json: a broken zip"):
        read_file(str(path), Defaults(user="mia"))


def test_messages_of_langchain_are_read_from_a_zip(tmp_path: Path) -> None:
    said = [{"type": "human", "data": {"content": "Tea."}}, {"type": "ai", "data": {"content": "Noted."}}]
    with zipfile.ZipFile(tmp_path / "lang.zip", "w") as archive:
        archive.writestr("messages.json", json.dumps(said))
    (talk,) = read_file(str(tmp_path / "lang.zip"), Defaults(user="mia")).conversations
    assert [(m.role, m.content) for m in talk.messages] == [("user", "Tea."), ("assistant", "Noted.")]
    assert talk.conversation_id == "lang"


def test_text_in_utf16_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"not UTF-8: byte 0xff at offset 0 .it looks like UTF-16: save it as"):
        read(tmp_path / "chat.txt", ANDROID.encode("utf-16"), None)


def test_plain_text_among_messages_is_a_users(tmp_path: Path) -> None:
    (talk,) = read(tmp_path / "x.json", {"messages": ["Tea."]})
    assert [(m.role, m.content) for m in talk.messages] == [("user", "Tea.")]


# Memory


@pytest.mark.slow
def test_one_conversation_is_held_at_a_time(tmp_path: Path) -> None:
    """Of 16 MB; the spool keeps what it holds out of this count."""
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive, archive.open("conversations.json", "w") as file:
        for n in range(200):
            long = [{"uuid": f"m{at}", "sender": "human", "text": f"{n}." * 10_000} for at in range(2)]
            file.write(("," if n else "[").encode() + json.dumps({"uuid": f"k{n}", "chat_messages": long}).encode())
        file.write(b"]")
    tracemalloc.start()
    try:
        with Spool() as spool:
            read_in = read_into(spool, str(tmp_path / "x.zip"), Defaults(user="mia"))
            assert sum(len(part.messages) for part in read_in.stretches(10, 100_000)) == 400
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (tmp_path / "x.zip").stat().st_size > 12_000_000
    assert most < 4_000_000


def test_work_on_a_conversation_does_not_grow_with_their_number() -> None:
    """It did: SQLite sorted all of them to find the next."""

    def steps(conversations: int) -> int:
        """Of SQLite, in hundreds."""
        count = 0

        def counted() -> None:
            nonlocal count
            count += 1

        with Spool() as spool:
            file = spool.file("x", None)
            file._base.set_progress_handler(counted, 100)
            with file.reading():
                for n in range(conversations):
                    tea = Message(role="user", content="Tea.")
                    file.put(f"c{n}", tea, user="mia", groups=(), zone=None, place=str(n))
            for part in file.stretches(10, 100):
                file.outcome(part.conversation_id, "due")
            assert len(list(file.outcomes())) == conversations
        return count

    assert steps(2000) < 3 * steps(1000)


def test_values_of_json_end_where_a_piece_does() -> None:
    """Wherever the pieces of the stream are cut, also inside of a character or an escape."""
    given = [{"a": ["😀 é", "\ud83d", 1.5e3, None, {"b": '\\"\n'}]}, {}, {"c": -12}]
    for text in (json.dumps(given), json.dumps(given, ensure_ascii=True, indent=1), "\n".join(map(json.dumps, given))):
        content = f"\ufeff {text} \r\n".encode()
        for size in (1, 2, 3, 7):
            pieces = (content[at : at + size] for at in range(0, len(content), size))
            assert [one.value for one in values(texts(pieces), by_line=False)] == given
