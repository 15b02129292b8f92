import asyncio
import json
import os
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from memory_sql.config import Settings
from memory_sql.domain.messages import Message
from memory_sql.domain.results import AddResult, RunDueResult
from memory_sql.domain.selection import Selection
from memory_sql.errors import (
    BudgetError,
    BusyError,
    DatabaseError,
    InputError,
    InvalidMessageError,
    LanguageModelError,
    TooLargeError,
    TooManyError,
    UnavailableError,
)
from memory_sql.memory import Memory
from memory_sql.resources import clock
from tests.database import rows, statements
from tests.factories import MONDAY, conversation, message
from tests.fakes import Parrot, Scripted, extracted

HERE: dict[str, Any] = {"agent_id": "ada", "user_id": "mia", "conversation_id": "s"}


async def test_messages_are_stored_once_whoever_sends_them_again(memory: Memory) -> None:
    first = await memory.add(conversation(3), **HERE)
    again = await memory.add(conversation(5), **HERE)
    assert (first.accepted, first.duplicates) == (3, 0)
    assert (again.accepted, again.duplicates) == (2, 3)
    assert await rows(memory, "SELECT number, message_id FROM memory.messages ORDER BY number") == [
        (n, f"m{n}") for n in range(1, 6)
    ]


class Said(BaseModel):
    type: str = "human"
    content: str
    id: str


@pytest.mark.parametrize(
    "given",
    [
        "Tea.",
        {"role": "user", "content": "Tea."},
        ("human", "Tea."),
        Said(content="Tea.", id="run-1"),
        Message(role="user", content="Tea."),
        ["Tea."],
        [Said(content="Tea.", id="run-1")],
    ],
    ids=repr,
)
async def test_one_message_is_as_a_list_of_it(memory: Memory, given: Any) -> None:
    assert (await memory.add(given, **HERE)).accepted == 1
    assert await rows(memory, "SELECT role, content FROM memory.messages") == [("user", "Tea.")]


async def test_conversation_without_a_message_is_not_due(memory: Memory) -> None:
    ways: list[dict[str, Any]] = [{}, {"group_ids": ["harbour"]}, {"idempotency_key": "k"}, {"excluded": False}]
    for n, given in enumerate(ways):
        empty = await memory.add([], **{**HERE, "conversation_id": f"s{n}"}, **given)
        assert (empty.accepted, empty.formation) == (0, "not_due")
    assert await rows(memory, "SELECT due_at FROM memory.conversations WHERE due_at IS NOT NULL") == []
    assert await memory.admin.verify() == []
    await memory.add(conversation(1), **{**HERE, "conversation_id": "s0"})
    assert len(await rows(memory, "SELECT due_at FROM memory.conversations WHERE due_at IS NOT NULL")) == 1


async def test_message_that_stands_twice_in_one_call_is_stored_once(memory: Memory) -> None:
    result = await memory.add([message("one"), message("two"), message("three", n=2)], **HERE)
    assert (result.accepted, result.duplicates) == (2, 1)
    assert await rows(memory, "SELECT content FROM memory.messages ORDER BY number") == [("one",), ("three",)]


@pytest.mark.parametrize("field", ["contnet", "text", "message"])
async def test_message_without_content_leaves_its_id_free(memory: Memory, field: str) -> None:
    with pytest.raises(InvalidMessageError, match=f"message 1: it has no content; pass what stands in {field}"):
        await memory.add([message("one", n=1), {"id": "m2", "role": "user", field: "two"}], **HERE)
    assert (await memory.add([message("one", n=1), message("two", n=2)], **HERE)).accepted == 2


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
        assert await memory.run_due() == RunDueResult()
        now += timedelta(minutes=2)
        llm.then(extracted(("Boats were talked about.", "individual")))
        formed = (await memory.run_due()).formed
    assert [(result.conversation_id, result.messages) for result in formed] == [("s", 4)]
    assert llm.windows == [4]


async def test_wait_forms_what_is_due(memory: Memory, llm: Scripted) -> None:
    assert (await memory.add(conversation(2), **HERE, wait=True)).run_id is None
    llm.then(extracted(("Mia prefers tea.", "individual")))
    result = await memory.add([message("Actually, I prefer tea.", n=9)], **HERE, wait=True)
    assert result.run_id is not None
    assert [o.content for o in result.observations] == ["Mia prefers tea."]


async def test_result_says_what_became_of_the_conversation(memory: Memory, llm: Scripted) -> None:
    signal = message("Actually, I prefer tea.", n=9)
    assert (await memory.add(conversation(2), **HERE)).formation == "not_due"
    assert (await memory.add(conversation(1, first=3), **HERE, wait=True)).formation == "not_due"
    assert (await memory.add([signal], **HERE)).formation == "due"
    llm.then(extracted(("Mia prefers tea.", "individual")))
    assert (await memory.add([signal], **HERE, wait=True)).formation == "formed"  # known already, and still due
    llm.then(extracted(), '{"facts": []}')
    assert (await memory.add([message("I prefer milk.", n=10)], **HERE, wait=True)).formation == "nothing"
    assert (await memory.add([signal], **HERE, wait=True, excluded=True)).formation == "excluded"
    assert len(llm.requests) == 3


async def test_error_of_waiting_says_why_nothing_was_formed(memory: Memory, llm: Scripted) -> None:
    said = [message("Actually, I prefer tea.", n=9)]
    await memory.add(said, **HERE)
    claimed = await memory.work.claim("formation")
    assert claimed is not None
    with pytest.raises(BusyError) as busy:
        await memory.add(said, **HERE, wait=True)
    llm.then(UnavailableError("rate_limit", "later"))
    with pytest.raises(LanguageModelError) as down:
        await memory.add(said, **{**HERE, "conversation_id": "t"}, wait=True)
    await memory.configure(agent_id="ada", daily_tokens=1)
    llm.then(extracted(("Mia prefers tea.", "individual")))
    await memory.add(said, **{**HERE, "conversation_id": "u"}, wait=True)
    with pytest.raises(BudgetError) as spent:
        await memory.add(said, **{**HERE, "conversation_id": "v"}, wait=True)
    assert [error.value.added.formation for error in (busy, down, spent) if error.value.added] == [
        "busy", "failed", "no_budget"
    ]  # fmt: skip


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
    await memory.add([message(n=1), message(n=3, user_id="jonas")], **HERE, group_ids=["harbor"])
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


@pytest.mark.parametrize("users", [("mia",), ("mia", "jonas")])
async def test_same_call_again_is_known_after_its_user_was_forgotten(memory: Memory, users: tuple[str, ...]) -> None:
    said = [{"role": "user", "content": "one"}, {"role": "assistant", "content": "two"}]
    for user in users:
        await memory.add(said, **{**HERE, "user_id": user}, idempotency_key=f"k-{user}")
    await memory.forget(Selection(user_id="mia"), agent_id="ada")
    again = await memory.add(said, **HERE, idempotency_key="k-mia")
    assert (again.accepted, again.duplicates) == (0, 2)
    for user in users[1:]:
        with pytest.raises(InvalidMessageError, match="idempotency key"):
            await memory.add(said, **HERE, idempotency_key=f"k-{user}")


async def test_hosts_own_id_is_known_whatever_comes_with_it(memory: Memory) -> None:
    """Hosts edit messages; the id is the host's promise that it is the same one."""
    await memory.add([message("one")], **HERE, idempotency_key="k")
    assert (await memory.add([message("one, edited")], **HERE, idempotency_key="k")).duplicates == 1


@pytest.mark.slow
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


@pytest.mark.prove
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


HUGE = "x" * 1001


@pytest.fixture
async def narrow(database_url: str, llm: Scripted) -> AsyncIterator[Memory]:
    async with Memory(database_url, llm, Settings(llm="offline", message_max_characters=1000)) as memory:
        yield memory


async def contents(memory: Memory) -> list[str]:
    return [text for (text,) in await rows(memory, "SELECT content FROM memory.messages ORDER BY number")]


@pytest.mark.parametrize("known_by", ["id", "key"])
@pytest.mark.parametrize("at", [0, 1, 2])
async def test_message_over_the_limit_refuses_only_itself(narrow: Memory, known_by: str, at: int) -> None:
    """And what is sent again with it mended stores that one alone."""
    texts = ["one", "two", "three"]
    said: list[dict[str, Any]] = [{"role": "user", "content": text} for text in texts]
    more: dict[str, Any] = {"idempotency_key": "k"} if known_by == "key" else {}
    if known_by == "id":
        said = [{**each, "id": f"m{n}"} for n, each in enumerate(said)]
    with_huge = [{**each, "content": HUGE} if n == at else each for n, each in enumerate(said)]
    for accepted, duplicates in ((2, 0), (0, 2)):
        result = await narrow.add(with_huge, **HERE, **more)
        assert (result.accepted, result.duplicates) == (accepted, duplicates)
        assert [(one.position, one.id, one.size, one.limit) for one in result.refused] == [
            (at, said[at].get("id"), 1001, 1000)
        ]
    mended = await narrow.add(said, **HERE, **more)
    assert (mended.accepted, mended.duplicates, mended.refused) == (1, 2, ())
    rest = [text for n, text in enumerate(texts) if n != at]
    assert await contents(narrow) == [*rest, texts[at]]
    assert (await narrow.add(said, **HERE, **more)).duplicates == 3
    assert await rows(narrow, "SELECT refused FROM memory.conversations") == [([],)]
    if known_by == "key":
        for other in ([*said, said[0]], said[:2], [*said[:2], {"role": "user", "content": "other"}]):
            with pytest.raises(InvalidMessageError, match="idempotency key"):
                await narrow.add(other, **HERE, **more)
    assert await narrow.admin.verify() == []


async def test_gap_that_no_refusal_has_left_is_another_call(narrow: Memory) -> None:
    said: list[dict[str, Any]] = [{"role": "user", "content": text} for text in ("one", HUGE)]
    await narrow.add(said, **HERE, idempotency_key="k")
    with pytest.raises(InvalidMessageError) as caught:
        await narrow.add([said[0], {"role": "user", "content": "two"}, said[0]], **HERE, idempotency_key="k")
    assert caught.value.position == 2


async def test_call_of_nothing_but_messages_over_the_limit_is_an_error(narrow: Memory) -> None:
    with pytest.raises(TooLargeError, match=r"message 0 has 1,001 characters; the limit is 1,000"):
        await narrow.add([message(HUGE)], **HERE)
    assert await narrow.admin.agents() == []


@pytest.mark.parametrize(
    ("what", "given"),
    [("group_ids", {"group_ids": [f"g{n}" for n in range(101)]}), ("messages", {"messages": ({} for _ in range(10_001))}),
     ("content", {"messages": [{"role": "user", "content": ["x"] * 1001}]}),
     ("tool_calls", {"messages": [{"role": "assistant", "tool_calls": [{}] * 1001}]})],
)  # fmt: skip
async def test_list_that_is_too_long_is_refused_naming_the_limit(
    memory: Memory, what: str, given: dict[str, Any]
) -> None:
    limit = {"group_ids": "100", "messages": "10,000"}.get(what, "1,000")
    with pytest.raises(InputError, match=f"{what} .*the limit is {limit}"):
        await memory.add(**{"messages": [message()], **HERE, **given})
    with pytest.raises(TooManyError, match="tags has more than 100 items; the limit is 100") as caught:
        await memory.observe("Boats.", agent_id="ada", user_id="mia", tags=[f"t{n}" for n in range(101)])
    assert (caught.value.what, caught.value.limit) == ("tags", 100)
    for too_long in ({"tags": ["x" * 256]}, {"speaker": "x" * 256}):
        with pytest.raises(TooLargeError):
            await memory.observe("Boats.", agent_id="ada", user_id="mia", **too_long)
    assert await memory.admin.agents() == []


async def test_key_stands_for_user_time_and_group_too(memory: Memory) -> None:
    said = [
        {"role": "user", "content": "one", "created_at": "2026-03-02T09:00:00Z"},
        {"role": "user", "content": "two"},
    ]
    await memory.add(said, **HERE, idempotency_key="k", group_ids=["harbor"])
    later = [{**said[0], "created_at": "2026-03-02T09:00:01Z"}, said[1]]
    others: list[dict[str, Any]] = [
        {"messages": later},
        {"user_id": "jonas"},
        {"group_ids": ["harbor", "crew"]},
        {"group_ids": ["crew"]},
        {"group_ids": []},
    ]
    for other in others:
        with pytest.raises(InvalidMessageError, match="idempotency key"):
            await memory.add(**{"messages": said, **HERE, "group_ids": ["harbor"], "idempotency_key": "k", **other})
    assert await rows(memory, "SELECT group_ids, participants FROM memory.conversations") == [(["harbor"], ["mia"])]
    assert (await memory.add(said, **HERE, idempotency_key="k", group_ids=["harbor"])).duplicates == 2


async def test_key_stands_for_the_groups_of_its_call_whatever_they_are_called_now(memory: Memory) -> None:
    said = [{"role": "user", "content": "one"}]
    first = {**HERE, "idempotency_key": "k"}
    await memory.add(said, **first, group_ids=["harbor", "crew"])
    await memory.add(said, **HERE, group_ids=["club"])
    assert (await memory.add(said, **first, group_ids=["crew", "harbor", "crew"])).duplicates == 1
    await memory.people.rename(agent_id="ada", kind="group", old="crew", new="staff")
    assert (await memory.add(said, **first, group_ids=["harbor", "staff"])).duplicates == 1
    for others in (["harbor", "crew"], ["harbor"], ["harbor", "staff", "club"]):
        with pytest.raises(InvalidMessageError, match="idempotency key"):
            await memory.add(said, **first, group_ids=others)


async def test_hosts_own_id_does_not_occupy_a_key(memory: Memory) -> None:
    hello = {"role": "user", "content": "Hello"}
    await memory.add([{**hello, "id": "k2#0"}], **HERE)
    await memory.add([hello], **HERE, idempotency_key="k2#0")
    assert (await memory.add([hello, hello], **HERE, idempotency_key="k2")).accepted == 2
    assert (await memory.add([hello], **HERE, idempotency_key="k" * 255)).accepted == 1


async def test_time_far_ahead_counts_as_now_and_is_kept(memory: Memory) -> None:
    """Else what is dated 9998 would be the newest for ever."""
    ahead, soon = datetime(9998, 1, 1, tzinfo=UTC), datetime.now(UTC) + timedelta(hours=20)
    said = [message("one", n=1, created_at=ahead), message("two", n=2, created_at=soon), message("three", n=3)]
    before = datetime.now(UTC)
    await memory.add([{**each, "created_at": at} for each, at in zip(said, (ahead, soon, ahead), strict=True)], **HERE)
    found = await rows(memory, "SELECT said_at, given_at, created_at FROM memory.messages ORDER BY number")
    assert [given for _, given, _ in found] == [ahead, None, ahead]
    assert [found[0][0], found[2][0]] == [found[0][2]] * 2
    assert before - timedelta(seconds=1) <= found[0][0] <= datetime.now(UTC)
    assert found[1][0] == soon
    assert [kept.given_at for kept in await memory.conversations.messages(agent_id="ada", user_id="mia")] == [
        None, ahead, ahead
    ]  # fmt: skip
    found_again = await memory.search("three", agent_id="ada", user_id="mia", messages=1)
    assert [hit.message.given_at for hit in found_again.messages] == [ahead]


async def test_time_far_ahead_wins_no_fact(memory: Memory) -> None:
    mia: dict[str, Any] = {"agent_id": "ada", "user_id": "mia"}
    first = await memory.observe(
        "Home is Gate 1.", **mia, fact_key="home", observed_at=datetime(9998, 1, 1, tzinfo=UTC)
    )
    assert first.given_at == datetime(9998, 1, 1, tzinfo=UTC)
    assert first.observed_at <= datetime.now(UTC)
    second = await memory.observe("Home is Gate 2.", **mia, fact_key="home")
    assert (await memory.observations.get(first.id, **mia)).status == "superseded"
    assert (await memory.observations.get(second.id, **mia)).given_at is None


@pytest.mark.parametrize("calls", [1, 2])
async def test_message_dated_far_ahead_does_not_win_for_ever(database_url: str, calls: int) -> None:
    """It counts as said when it came: what comes later contradicts it, at the same moment what has the higher number."""
    parrot = Parrot()
    ahead, later = "I moor at gate 1.", "I moor at gate 2."
    said = [message(ahead, n=1, created_at=datetime(9998, 1, 1, tzinfo=UTC)), message(later, n=2, created_at=None)]
    async with Memory(database_url, parrot, Settings(llm="offline")) as memory:
        for part in [said] if calls == 1 else [said[:1], said[1:]]:
            await memory.add(part, **HERE)
        formed = (await memory.conversations.form(agent_id="ada", conversation_id="s")).observations
        assert {one.content for one in formed} == {ahead, later}
        parrot.contradicts(ahead)
        await memory.scopes.consolidate(agent_id="ada", scope_id=formed[0].scope.id)
        left = await memory.observations.list(agent_id="ada", user_id="mia")
        assert [one.content for one in left] == [later]


@pytest.mark.parametrize("off", [timedelta(days=-400), timedelta(days=400)])
async def test_clock_of_a_host_that_is_wrong_counts_for_nothing(
    database_url: str, llm: Scripted, monkeypatch: pytest.MonkeyPatch, off: timedelta
) -> None:
    monkeypatch.setattr(clock, "own_time", lambda: datetime.now(UTC) + off)
    async with Memory(database_url, llm, Settings(llm="offline")) as memory:
        await memory.add([message("one")], **HERE)
        await memory.observe("Boats.", agent_id="ada", user_id="mia")
        stored = await rows(
            memory,
            "SELECT abs(extract(epoch FROM now() - created_at)) < 60 FROM memory.messages"
            " UNION ALL SELECT abs(extract(epoch FROM now() - created_at)) < 60 FROM memory.observations",
        )
        assert stored == [(True,), (True,)]
        monkeypatch.undo()  # somebody sets the host's clock right
        assert abs(memory.now() - datetime.now(UTC)) < timedelta(minutes=1)


async def test_maintenance_asks_the_database_for_the_time(
    database_url: str, llm: Scripted, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For what stands still meanwhile, as a machine's counter may in its sleep."""
    async with Memory(database_url, llm, Settings(llm="offline")) as memory:
        behind = clock.steady() - 3600
        monkeypatch.setattr(clock, "steady", lambda: behind)
        assert datetime.now(UTC) - memory.now() > timedelta(minutes=59)
        await memory.work.maintain()
        assert abs(memory.now() - datetime.now(UTC)) < timedelta(minutes=1)
