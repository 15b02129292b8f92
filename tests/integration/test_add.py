import asyncio
import json
import os
import sys
from asyncio.subprocess import PIPE
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from memory_sql.config import Settings
from memory_sql.domain.results import AddResult
from memory_sql.errors import DatabaseError, InputError, InvalidMessageError, UnavailableError
from memory_sql.memory import Memory
from tests.database import rows, statements
from tests.factories import MONDAY, conversation, message
from tests.fakes import Scripted, extracted

HERE: dict[str, Any] = {"agent_id": "ada", "user_id": "mia", "conversation_id": "s"}


async def test_messages_are_stored_once_whoever_sends_them_again(memory: Memory) -> None:
    first = await memory.add(conversation(3), **HERE)
    again = await memory.add(conversation(5), **HERE)
    assert (first.accepted, first.duplicates) == (3, 0)
    assert (again.accepted, again.duplicates) == (2, 3)
    assert await rows(memory, "SELECT number, message_id FROM memory.messages ORDER BY number") == [
        (n, f"m{n}") for n in range(1, 6)
    ]


async def test_message_that_stands_twice_in_one_call_is_stored_once(memory: Memory) -> None:
    result = await memory.add([message("one"), message("two"), message("three", n=2)], **HERE)
    assert (result.accepted, result.duplicates) == (2, 1)
    assert await rows(memory, "SELECT content FROM memory.messages ORDER BY number") == [("one",), ("three",)]


async def test_idempotency_key_stands_for_the_ids_of_a_call(memory: Memory) -> None:
    said = [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Hello"}]
    results = [await memory.add(said, **HERE, idempotency_key=key) for key in ("k1", "k1", "k2")]
    assert [(r.accepted, r.duplicates) for r in results] == [(2, 0), (0, 2), (2, 0)]


async def test_without_id_or_key_every_call_is_new(memory: Memory) -> None:
    said = [{"role": "user", "content": "Hello"}]
    assert [(await memory.add(said, **HERE)).accepted for _ in range(2)] == [1, 1]


async def test_same_id_in_another_conversation_or_of_another_agent_is_another_message(memory: Memory) -> None:
    for where in (HERE, {**HERE, "conversation_id": "t"}, {**HERE, "agent_id": "bob"}):
        assert (await memory.add(conversation(1), **where)).accepted == 1


async def test_concurrent_calls_store_each_message_once_and_miss_no_trigger(memory: Memory) -> None:
    """Each of the calls alone is below the threshold; whichever comes last must see them all."""
    calls = [memory.add(conversation(9, first=first), **HERE) for first in (1, 10, 19, 28, 37) for _ in range(2)]
    results = await asyncio.gather(*calls)
    assert sum(r.accepted for r in results) == 45
    assert sum(r.duplicates for r in results) == 45
    assert await rows(memory, "SELECT last_number, unformed_messages, due_reason FROM memory.conversations") == [
        (45, 45, "messages")
    ]
    numbers = await rows(memory, "SELECT array_agg(number ORDER BY number) FROM memory.messages")
    assert numbers == [(list(range(1, 46)),)]


async def test_add_is_one_statement(memory: Memory) -> None:
    await memory.add(conversation(1), **HERE)
    with statements(memory) as seen:
        await memory.add(conversation(9), **HERE, group_ids=["harbor"])
    assert len(seen) == 1


@pytest.mark.parametrize(
    ("messages", "trigger"),
    [
        (conversation(3), None),
        (conversation(44), None),
        (conversation(45), "messages"),
        ([message("x" * 4500)], None),
        ([*conversation(3), message("x" * 4500, n=4)], "tokens"),
        ([*conversation(3), message("x" * 4500, n=4, role="assistant")], None),
        ([message("x" * 4500, n=n, role="system") for n in range(1, 50)], None),
        ([message("Actually, I prefer tea.")], "signal"),
        ([message("Actually, I prefer tea.", role="assistant")], None),
    ],
    ids=["three", "forty-four", "forty-five", "one long", "four long", "agent's words", "system", "signal", "agent's"],
)
async def test_trigger(memory: Memory, messages: list[dict[str, object]], trigger: str | None) -> None:
    """R003, R004, R147, R279, R280, R283."""
    assert (await memory.add(messages, **HERE)).trigger == trigger


async def test_silence_makes_a_conversation_due(database_url: str, llm: Scripted, settings: Settings) -> None:
    """R281: after ten minutes, with at least four messages."""
    now = MONDAY
    async with Memory(database_url, llm, settings, clock=lambda: now) as memory:
        await memory.add(conversation(4), **HERE)
        await memory.add(conversation(3), **{**HERE, "conversation_id": "short"})
        now += timedelta(minutes=9)
        assert (await memory.run_due()).formed == ()
        now += timedelta(minutes=2)
        llm.then(extracted(("Boats were talked about.", "individual")))
        formed = (await memory.run_due()).formed
    assert [(result.conversation_id, result.messages) for result in formed] == [("s", 4)]


async def test_wait_forms_what_is_due(memory: Memory, llm: Scripted) -> None:
    assert (await memory.add(conversation(2), **HERE, wait=True)).run_id is None
    llm.then(extracted(("Mia prefers tea.", "individual")))
    result = await memory.add([message("Actually, I prefer tea.", n=9)], **HERE, wait=True)
    assert result.run_id is not None
    assert [o.content for o in result.observations] == ["Mia prefers tea."]


async def test_bad_message_stores_nothing_of_the_call(memory: Memory) -> None:
    with pytest.raises(InvalidMessageError, match="message 1"):
        await memory.add([message(), {"role": "wizard", "content": "x"}], **HERE)
    for wrong in ({"agent_id": ""}, {"user_id": None}, {"conversation_id": {"$ne": ""}}):
        with pytest.raises(InputError):
            await memory.add(conversation(1), **{**HERE, **wrong})
    assert await rows(
        memory, "SELECT (SELECT count(*) FROM memory.messages) + (SELECT count(*) FROM memory.agents)"
    ) == [(0,)]


async def test_what_postgres_cannot_hold_is_cleaned_and_the_rest_survives(memory: Memory) -> None:
    result = await memory.add([message("a\x00b"), message("c\ud83d", n=2), message("fine", n=3)], **HERE)
    assert (result.accepted, result.cleaned) == (3, 2)
    assert await rows(memory, "SELECT content, cleaned FROM memory.messages ORDER BY number") == [
        ("a\ufffdb", ["nul"]), ("c\ufffd", ["surrogate"]), ("fine", []),
    ]  # fmt: skip


@pytest.mark.parametrize("hostile", ["*", "%", "_", '{"$ne": ""}', "日本", "'; DROP TABLE x; --", "x" * 255])
async def test_odd_ids_are_only_ids(memory: Memory, hostile: str) -> None:
    await memory.add(conversation(1), agent_id=hostile, user_id=hostile, conversation_id=hostile, group_ids=[hostile])
    await memory.observe("Tea.", agent_id=hostile, user_id=hostile)
    assert [str(s.ref) for s in await memory.scopes.list(agent_id=hostile, user_id=hostile)] == [
        f"group:{hostile}", f"individual:{hostile}",
    ]  # fmt: skip
    assert await memory.scopes.list(agent_id=hostile, user_id="other") == []


async def test_adding_to_a_group_makes_members_but_brings_nobody_back(memory: Memory) -> None:
    await memory.add([message(user_id="jonas")], **HERE, group_ids=["harbor"])
    members = "SELECT user_id, left_at IS NULL FROM memory.members ORDER BY user_id"
    assert await rows(memory, members) == [("jonas", True), ("mia", True)]
    await rows(memory, "UPDATE memory.members SET left_at = now() WHERE user_id = 'jonas'")
    await memory.add([message(n=2, user_id="jonas")], **HERE, group_ids=["harbor"])
    assert await rows(memory, members) == [("jonas", False), ("mia", True)]


async def test_database_itself_refuses_a_message_that_is_there(memory: Memory) -> None:
    """The second wall: whoever writes past `add`."""
    await memory.add(conversation(1), **HERE)
    with pytest.raises(DatabaseError):
        await rows(
            memory,
            "INSERT INTO memory.messages (agent_key, conversation_id, number, message_id, role, weight, said_at)"
            " SELECT agent_key, conversation_id, 2, message_id, role, weight, said_at FROM memory.messages",
        )


async def test_key_with_other_messages_is_refused_naming_the_first(memory: Memory) -> None:
    """Failure model B.1: the same key, another request."""
    said = [{"role": "user", "content": text} for text in ("one", "two", "three")]
    await memory.add(said, **HERE, idempotency_key="k")
    others: dict[int, list[dict[str, str]]] = {
        0: [{"role": "assistant", "content": "one"}, *said[1:]],
        1: [said[0], {"role": "user", "content": "other"}, {"role": "user", "content": "others"}],
        2: said[:2],
        3: [*said, {"role": "user", "content": "four"}],
    }
    for position, other in others.items():
        with pytest.raises(InvalidMessageError, match="idempotency key") as caught:
            await memory.add(other, **HERE, idempotency_key="k", group_ids=["harbor"], excluded=True)
        assert caught.value.position == position
    assert await rows(memory, "SELECT last_number, excluded, group_ids FROM memory.conversations") == [(3, False, [])]
    assert (await memory.add(said, **HERE, idempotency_key="k")).duplicates == 3


async def test_key_is_kept_when_the_text_has_gone(memory: Memory) -> None:
    """What can't be compared any more counts as known."""
    said = [{"role": "user", "content": text} for text in ("one", "two")]
    await memory.add(said, **HERE, idempotency_key="k")
    await rows(memory, "UPDATE memory.messages SET content = NULL WHERE number = 1")
    assert (await memory.add([{"role": "user", "content": "1"}, said[1]], **HERE, idempotency_key="k")).duplicates == 2


async def test_hosts_own_id_is_known_whatever_comes_with_it(memory: Memory) -> None:
    """Hosts edit messages; the id is the host's promise that it is the same one."""
    await memory.add([message("one")], **HERE, idempotency_key="k")
    assert (await memory.add([message("one, edited")], **HERE, idempotency_key="k")).duplicates == 1


@pytest.mark.parametrize("key", [None, "k"], ids=["message ids", "idempotency key"])
async def test_eight_identical_calls_at_once_are_one(
    memory: Memory, database_url: str, llm: Scripted, settings: Settings, key: str | None
) -> None:
    said: list[dict[str, Any]] = [message("Actually, I prefer tea.", n=1), message("And boats.", n=2)]
    if key is not None:
        said = [{"role": m["role"], "content": m["content"]} for m in said]
    llm.then(extracted(("Tea.", "individual"), ("Boats.", "individual")))
    async with Memory(database_url, llm, settings) as other:
        results = await asyncio.gather(
            *((memory, other)[n % 2].add(said, **HERE, idempotency_key=key) for n in range(8))
        )
        assert sorted(r.accepted for r in results) == [0] * 7 + [2]
        await asyncio.gather(*(one.run_due() for one in (memory, other) for _ in range(4)))
    assert sorted(o.content for o in await memory.observations.list(agent_id="ada", user_id="mia")) == [
        "Boats.",
        "Tea.",
    ]


@pytest.mark.slow
async def test_eight_processes_that_add_the_same_file_are_one(
    memory: Memory, database_url: str, tmp_path: Path
) -> None:
    talk = tmp_path / "talk.jsonl"
    talk.write_text("".join(f'{{"role": "user", "content": "I never eat fish number {n}."}}\n' for n in range(5)))
    command = ["-m", "memory_sql.cli", "add", str(talk), "--agent", "ada", "--user", "mia", "--url", database_url]
    environment = {**os.environ, "MEMORY_SQL_LLM": "offline"}
    processes = [
        await asyncio.create_subprocess_exec(
            sys.executable, *command, "--json", env=environment, stdout=PIPE, stderr=PIPE
        )
        for _ in range(8)
    ]
    reports = [json.loads((await process.communicate())[0]) for process in processes]
    assert sum(report["accepted"] for report in reports) == 5
    assert await rows(memory, "SELECT count(*), count(DISTINCT message_id) FROM memory.messages") == [(5, 5)]
    assert await memory.conversations.unformed(agent_id="ada") == []
    observed = [o.content for o in await memory.observations.list(agent_id="ada", user_id="mia")]
    assert len(observed) == len(set(observed)) > 0
    assert list(await memory.admin.verify()) == []


async def test_error_of_the_model_says_that_the_messages_are_stored(memory: Memory, llm: Scripted) -> None:
    llm.then(UnavailableError("timeout", "no answer"))
    with pytest.raises(UnavailableError) as caught:
        await memory.add([message("Actually, I prefer tea.")], **HERE, wait=True)
    added = caught.value.added
    assert isinstance(added, AddResult)
    assert (added.accepted, added.trigger) == (1, "signal")
    assert await rows(memory, "SELECT count(*) FROM memory.messages") == [(1,)]


async def test_memory_that_is_open_is_not_opened_again(memory: Memory) -> None:
    """It would have left a pool behind."""
    before = memory.database
    with pytest.raises(InputError, match="open already"):
        await memory.open()
    assert memory.database is before
