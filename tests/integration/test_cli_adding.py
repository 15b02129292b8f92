"""`memory-sql add` of exports: its options, what is left out, a later export, and how much memory it takes."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from memory_sql.cli import adding
from memory_sql.errors import DatabaseError
from memory_sql.memory import Memory
from tests.commands import Ran, memory_sql

Run = Callable[..., Ran]
ADA = ("--agent", "ada")
MIA = (*ADA, "--user", "mia")
STORED = (*MIA, "--no-form", "--json")
CHAT = (
    "01/02/2026, 09:15 - Mia Ruiz: I live in Porto.\n"
    "02/02/2026, 09:16 - Bo: Fine.\n"
    "03/02/2026, 09:17 - Mia Ruiz: And I row.\n"
)
MOST_MEGABYTES = 150


@pytest.fixture
def run(database_url: str) -> Run:
    """A command on a database of this test's own."""
    return lambda *args, **options: memory_sql(*args, "--url", database_url, **options)


def claude(n: int, *said: str) -> dict[str, Any]:
    messages = [
        {"uuid": f"m{n}-{at}", "sender": "human", "text": text, "created_at": f"2026-03-{at % 27 + 1:02}T10:00:00Z"}
        for at, text in enumerate(said)
    ]
    return {"uuid": f"k{n}", "name": "", "chat_messages": messages}


def write(path: Path, value: Any) -> Path:
    path.write_text(value if isinstance(value, str) else json.dumps(value))
    return path


def test_dry_run_says_what_would_be_stored_and_asks_no_database(tmp_path: Path) -> None:
    chat = write(tmp_path / "With Bo.txt", CHAT)
    asked = (
        "add",
        chat,
        *ADA,
        "--dry-run",
        "--dates",
        "dmy",
        "--person",
        "Mia Ruiz=mia",
        "--url",
        "postgresql://nowhere/x",
    )
    assert memory_sql(*asked).out == (
        f"{chat}: 3 messages in 1 conversation by Bo, mia, 2026-02-01 to 2026-02-03; nothing was stored\n"
    )
    assert memory_sql(*asked, "--json").value == {
        "file": str(chat), "conversations": 1, "messages": 3, "people": ["Bo", "mia"], "groups": [],
        "first": "2026-02-01T09:15:00+00:00", "last": "2026-02-03T09:17:00+00:00",
    }  # fmt: skip


def test_dry_run_counts_a_message_that_stands_twice_once(tmp_path: Path) -> None:
    said = write(tmp_path / "x.json", [claude(1, "Tea."), claude(1, "Tea.", "Rum.")])
    assert memory_sql("add", said, *MIA, "--dry-run", "--json").value["messages"] == 2


@pytest.mark.parametrize(("dates", "day"), [("dmy", "2026-02-01"), ("mdy", "2026-01-02")])
def test_people_and_dates_are_stored_as_they_were_told(run: Run, tmp_path: Path, dates: str, day: str) -> None:
    chat = write(tmp_path / "With Bo.txt", CHAT)
    assert "pass --dates dmy or --dates mdy" in run("add", chat, *ADA, code=1).err
    told = ("--dates", dates, "--person", "Mia Ruiz=mia", "--person", "Bo=bo-7", "--time-zone", "Europe/Lisbon")
    assert run("add", chat, *ADA, *told, "--no-form", "--json").value["accepted"] == 3
    listed = run("conversation", "messages", *MIA, "--json").rows
    assert {row["user_id"] for row in listed} == {"mia", "bo-7"}
    assert min(row["said_at"] for row in listed) == f"{day}T09:15:00Z"
    assert run("add", chat, *ADA, *told, "--no-form", "--json").value["duplicates"] == 3


@pytest.mark.parametrize("given", ["mia", "=mia", "Mia="])
def test_person_without_a_name_or_id_is_refused(tmp_path: Path, given: str) -> None:
    chat = write(tmp_path / "x.txt", CHAT)
    assert memory_sql("add", chat, *ADA, "--person", given, code=1).err == "memory-sql: --person must be NAME=ID\n"


def test_format_forces_one(run: Run, tmp_path: Path) -> None:
    line = {"messages": [{"role": "user", "content": "Tea."}]}
    one = write(tmp_path / "one.jsonl", line)
    forced = run("add", one, *STORED, "--format", "finetuning").value
    assert list(forced["formation"]) == ["one/1"]
    assert list(run("add", one, *STORED, "--format", "messages").value["formation"]) == ["one"]
    refused = run("add", one, *MIA, "--format", "claude", code=1).err
    assert refused == f"memory-sql: {one}: it isn't of the format claude\n"
    assert "--format" in memory_sql("add", one, *MIA, "--format", "telegram", code=2).err


def test_later_export_adds_only_what_is_new(run: Run, tmp_path: Path) -> None:
    first = write(tmp_path / "a.json", [claude(1, "Tea."), claude(2, "Rum.")])
    assert run("add", first, *STORED).value["accepted"] == 2
    with zipfile.ZipFile(tmp_path / "later.zip", "w") as later:
        later.writestr(
            "conversations.json", json.dumps([claude(3, "Ale."), claude(2, "Rum.", "Gin."), claude(1, "Tea.")])
        )
    again = run("add", tmp_path / "later.zip", *STORED).value
    assert (again["accepted"], again["duplicates"], again["conversations"]) == (2, 2, 3)
    assert run("add", tmp_path / "later.zip", *STORED).value["accepted"] == 0


def said(text: str, **more: Any) -> dict[str, Any]:
    return {"role": "user", "content": text, "user_id": "mia", **more}


@pytest.mark.parametrize("dry", [(), ("--dry-run",)])
@pytest.mark.parametrize(
    ("lines", "place"),
    [
        ([said("I like tea.", id="m1"), said("I row.")], "line 2"),
        ([{"messages": [said("I like tea.", id="m1"), said("I row.")]}], "line 1, message 2"),
    ],
)
def test_what_replaces_needs_an_id(
    run: Run, tmp_path: Path, lines: list[dict[str, Any]], place: str, dry: tuple[str, ...]
) -> None:
    """One made of the text would be another for the new text, and both would be stored."""
    file = write(tmp_path / "half.jsonl", "\n".join(map(json.dumps, lines)))
    refused = run("add", file, *STORED, "--replace", *dry, code=1).err
    assert refused == f"memory-sql: {file}: {place}: --replace goes by ids; give it one\n"
    assert run("add", file, *STORED).value["messages"] == 2


def test_what_replaces_with_ids_does(run: Run, tmp_path: Path) -> None:
    for text in ("I like tea.", "I like rum."):
        file = write(tmp_path / "one.jsonl", json.dumps(said(text, uuid="m1")))
        added = run("add", file, *STORED, "--replace").value
    assert added["replaced"] == ["m1"]


def test_export_without_ids_replaces_nothing(run: Run, tmp_path: Path) -> None:
    chat = write(tmp_path / "With Bo.txt", CHAT)
    refused = run("add", chat, *STORED, "--replace", "--dates", "dmy", code=1).err
    assert "--replace goes by ids, and its messages have none" in refused
    folder = tmp_path / "both"
    folder.mkdir()
    write(folder / "With Bo.txt", CHAT)
    write(folder / "conversations.json", [claude(1, "I like tea.")])
    added = run("add", folder, *STORED, "--replace", "--dates", "dmy", code=1)
    assert (added.value["messages"], "its messages have none" in added.err) == (1, True)


def test_cut_off_export_is_stored_as_far_as_it_goes_and_says_so(run: Run, tmp_path: Path) -> None:
    whole = json.dumps([claude(n, f"I like the number {n}.") for n in range(4)])
    cut = write(tmp_path / "c.json", whole[:-30])
    for accepted in (3, 0):
        ran = run("add", cut, *STORED, code=1)
        (reason,) = ran.value["broken"]
        assert (ran.value["accepted"], ran.value["messages"], ran.value["conversations"]) == (accepted, 3, 3)
        assert ran.err == f"memory-sql: {cut}: left out: {reason}\n"
        assert reason.endswith("; what follows isn't read")
    dry = run("add", cut, *MIA, "--dry-run", code=1)
    assert dry.out.startswith(f"{cut}: 3 messages in 3 conversations by mia")
    assert run("add", write(cut, whole), *STORED).value["accepted"] == 1


def test_much_that_is_left_out_is_counted(run: Run, tmp_path: Path) -> None:
    odd = [{**claude(n, "x"), "chat_messages": [{"sender": "robot"}]} for n in range(30)]
    ran = run("add", write(tmp_path / "c.json", [claude(31, "Tea."), *odd]), *MIA, "--no-form", code=1)
    complaints = ran.err.splitlines()
    assert complaints[0].endswith("left out: conversation 2: the sender of a message must be human or assistant")
    assert complaints[-1].endswith("left out: 10 more, which --json lists")


def test_long_message_is_named_and_the_others_are_stored(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMORY_SQL_MESSAGE_MAX_CHARACTERS", "1000")
    ran = run("add", write(tmp_path / "c.json", [claude(1, "x" * 1001, "Tea.")]), *STORED, code=1)
    assert ran.value["accepted"] == 1
    assert ran.value["broken"] == ["conversation 1, message 1: 1,001 characters; the limit is 1,000"]


def test_conversation_with_a_secret_is_left_out_where_these_are_refused(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMORY_SQL_SECRETS", "refuse")
    talks = [claude(1, "My password is hunter2xyz."), claude(2, "Tea.")]
    ran = run("add", write(tmp_path / "c.json", talks), *STORED, code=1)
    assert ran.value["accepted"] == 1
    assert ran.value["failed"] == {"k1": "message m1-0 contains a secret: password"}
    assert "hunter2xyz" not in ran.out + ran.err


def test_what_was_stored_before_a_failure_is_said(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    talks = write(tmp_path / "c.json", [claude(n, "Tea.") for n in range(3)])
    add, calls = Memory.add, 0

    async def failing(memory: Memory, *args: Any, **given: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 3:
            raise DatabaseError("the server has gone")
        return await add(memory, *args, **given)

    with monkeypatch.context() as patched:
        patched.setattr(Memory, "add", failing)
        ran = run("add", talks, *MIA, "--no-form", code=1)
    assert ran.err.splitlines()[0] == f"memory-sql: {talks}: stopped; of 3 messages at least 2 are stored, and stay"
    again = run("add", talks, *STORED).value
    assert (again["accepted"], again["duplicates"]) == (1, 2)


def test_long_conversation_is_stored_in_stretches_and_formed_once(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(adding, "MESSAGES_AT_ONCE", 4)
    said = [{"role": "user", "content": f"I like the number {n}."} for n in range(10)]
    path = write(tmp_path / "n.json", said)
    ran = run("add", path, *MIA, "--json").value
    assert (ran["accepted"], ran["conversations"], ran["formed"], ran["observations"]) == (10, 1, 10, 10)
    assert ran["formation"] == {"n": "formed"}
    assert run("add", path, *MIA, "--json").value["duplicates"] == 10


def test_messages_of_a_slack_channel_are_stored_in_the_order_of_its_threads(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "export" / "harbor"
    folder.mkdir(parents=True)
    days: dict[str, list[tuple[str, str, str | None]]] = {
        "2026-03-01": [("U1", "1772359200.000100", None), ("U2", "1772359260.000100", None)],
        "2026-03-02": [("U2", "1772449200.000100", "1772359200.000100")],
    }
    for day, said in days.items():
        write(folder / f"{day}.json", [
            {"type": "message", "user": user, "text": f"at {ts}", "ts": ts, **({"thread_ts": of} if of else {})}
            for user, ts, of in said
        ])  # fmt: skip
    added = run("add", folder.parent, *ADA, "--no-form", "--json").value
    assert (added["accepted"], list(added["formation"])) == (3, ["slack/harbor"])
    listed = run("conversation", "messages", *ADA, "--user", "U1", "--json").rows
    in_order = sorted(listed, key=lambda row: row["number"])
    assert [row["id"] for row in in_order] == ["1772359200.000100", "1772449200.000100", "1772359260.000100"]


# Memory

PEAK = """
import re, sys
from memory_sql import cli
code = cli.main(sys.argv[1:])
peak = re.search(r"VmHWM:\\s+(\\d+) kB", open("/proc/self/status").read())
print(code, int(peak[1]) // 1024, file=sys.stderr)
"""


def peak(*args: object) -> int:
    """The most memory that a command in a process of its own has taken, in megabytes."""
    ran = subprocess.run([sys.executable, "-c", PEAK, *map(str, args)], capture_output=True, text=True, check=True)
    code, megabytes = ran.stderr.splitlines()[-1].split()
    assert code == "0", ran.stderr
    return int(megabytes)


def exported(path: Path, messages: int, each: int) -> Path:
    """Of Claude, with so many messages in each conversation, in a zip."""
    text = "We moored at the harbor and talked about the sails. "
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("conversations.json", "w") as file:
        for n in range(messages // each):
            talk = claude(n, *(f"{text * 6}{n * each + at}{hash((n, at)):x}" for at in range(each)))
            file.write(("[" if n == 0 else ",").encode() + json.dumps(talk).encode())
        file.write(b"]")
    return path


@pytest.mark.skipif(sys.platform != "linux", reason="asks /proc")
@pytest.mark.parametrize(
    ("messages", "each", "most"),
    [
        pytest.param(20_000, 100, MOST_MEGABYTES, marks=pytest.mark.slow, id="20,000"),
        pytest.param(200_000, 100, MOST_MEGABYTES, marks=pytest.mark.prove, id="200,000"),
        pytest.param(200_000, 20_000, 2 * MOST_MEGABYTES, marks=pytest.mark.prove, id="200,000 in long conversations"),
    ],
)
def test_any_number_of_messages_is_stored_in_little_memory(
    database_url: str, tmp_path: Path, messages: int, each: int, most: int
) -> None:
    file = exported(tmp_path / "export.zip", messages, each)
    asked = ("add", file, *MIA, "--no-form", "--url", database_url)
    assert peak(*asked) < most
    again = memory_sql(*asked, "--json").value
    assert (again["accepted"], again["duplicates"]) == (0, messages)
