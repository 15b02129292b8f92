"""A message that was edited: the result of `add` says so, `replace=True` corrects it, and nothing of the old text is left."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Coroutine
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine

from memory_sql import sync
from memory_sql.config import Settings
from memory_sql.domain.selection import Selection
from memory_sql.errors import BusyError, HeldError, InputError, InvalidMessageError, StaleError
from memory_sql.memory import Memory
from tests.commands import Ran, memory_sql
from tests.database import rows
from tests.factories import MONDAY, message
from tests.fakes import Parrot, Scripted, extracted

REFUSED = (BusyError, HeldError, StaleError)
HERE: dict[str, Any] = {"agent_id": "ada", "user_id": "mia", "conversation_id": "s"}
TALK: dict[str, Any] = {"agent_id": "ada", "conversation_id": "s"}
HALF, WHOLE = message("I prefer gre", n=2), message("I prefer green tea.", n=2)
TEXTS = "SELECT content FROM memory.observations ORDER BY created_at, scope_id, seq"


async def sound(memory: Memory) -> None:
    assert list(await memory.admin.verify()) == []


async def contents(memory: Memory) -> list[str | None]:
    return [one for (one,) in await rows(memory, "SELECT content FROM memory.messages ORDER BY number")]


async def everything(memory: Memory) -> str:
    """All that any table holds."""
    named = "SELECT relname FROM pg_class WHERE relnamespace = 'memory'::regnamespace AND relkind = 'r'"
    tables = [table for (table,) in await rows(memory, named)]
    return str([await rows(memory, f"SELECT t::text FROM memory.{table} t") for table in tables])  # noqa: S608 (our tables)


async def test_result_says_which_texts_differ(memory: Memory) -> None:
    await memory.add([message("one", n=1), HALF], **HERE)
    again = await memory.add([message("one", n=1), WHOLE, message("three", n=3)], **HERE)
    assert (again.accepted, again.duplicates, again.differing, again.replaced) == (1, 2, ("m2",), ())
    assert await contents(memory) == ["one", "I prefer gre", "three"]
    assert (await memory.add([message("one", n=1), HALF], **HERE)).differing == ()


async def test_second_text_of_one_call_differs_and_so_does_another_role(memory: Memory) -> None:
    assert (await memory.add([message("one"), message("two")], **HERE)).differing == ("m1",)
    assert (await memory.add([message("one", role="assistant")], **HERE)).differing == ("m1",)


async def test_what_an_idempotency_key_names_is_compared_as_ever(memory: Memory) -> None:
    said = [{"role": "user", "content": "Hello"}]
    for _ in range(2):
        result = await memory.add(said, **HERE, idempotency_key="k")
    assert (result.duplicates, result.differing, result.forgotten) == (1, (), ())


async def test_text_past_its_retention_is_compared_by_its_hash(database_url: str, llm: Scripted) -> None:
    async with Memory(database_url, llm, Settings(llm="offline", message_retention_days=0)) as memory:
        await memory.add([HALF], **HERE)
        llm.then(extracted(), '{"facts": []}')
        await memory.conversations.form(**TALK)
        assert await contents(memory) == [None]
        results = [(await memory.add([one], **HERE)).differing for one in (HALF, WHOLE)]
        assert results == [(), ("m2",)]
        assert (await memory.add([WHOLE], **HERE, replace=True)).replaced == ("m2",)
        assert await contents(memory) == ["I prefer green tea."]
        await sound(memory)
        await memory.forget(Selection(user_id="mia"), agent_id="ada")
        assert await rows(memory, "SELECT content, content_hash FROM memory.messages") == [(None, None)]


async def test_forgetting_takes_the_hash_of_a_text_past_its_retention(database_url: str, llm: Scripted) -> None:
    async with Memory(database_url, llm, Settings(llm="offline", message_retention_days=0)) as memory:
        await memory.add([HALF], **HERE)
        llm.then(extracted(), '{"facts": []}')
        await memory.conversations.form(**TALK)
        assert await rows(memory, "SELECT 1 FROM memory.messages WHERE content_hash IS NOT NULL")
        await memory.forget(Selection(message_id="m2", conversation_id="s"), agent_id="ada")
        assert await rows(memory, "SELECT 1 FROM memory.messages WHERE content_hash IS NOT NULL") == []


@pytest.mark.parametrize("replace", [False, True])
async def test_what_was_forgotten_is_said_anew_under_a_new_id(memory: Memory, replace: bool) -> None:
    await memory.add([HALF], **HERE)
    await memory.forget(Selection(message_id="m2", conversation_id="s"), agent_id="ada")
    again = await memory.add([WHOLE], **HERE, replace=replace)
    assert (again.accepted, again.duplicates, again.forgotten, again.differing, again.replaced) == (
        0,
        1,
        ("m2",),
        (),
        (),
    )
    anew = await memory.add([{**WHOLE, "id": "m2b"}], **HERE)
    assert (anew.accepted, anew.forgotten) == (1, ())
    assert await contents(memory) == [None, "I prefer green tea."]


async def test_unformed_text_is_replaced_in_its_place(memory: Memory, llm: Scripted) -> None:
    await memory.add([message("one", n=1), HALF, message("three", n=3)], **HERE)
    result = await memory.add([WHOLE], **HERE, replace=True)
    assert (result.replaced, result.differing, result.duplicates) == (("m2",), (), 1)
    assert await contents(memory) == ["one", "I prefer green tea.", "three"]
    assert await rows(memory, "SELECT unformed_messages FROM memory.conversations") == [(3,)]
    await sound(memory)
    llm.then(extracted(("Mia prefers green tea.", "individual", [2])))
    formed = await memory.conversations.form(**TALK)
    assert [one.content for one in formed.observations] == ["Mia prefers green tea."]


async def formed_half(memory: Memory, llm: Scripted) -> None:
    await memory.add([message("I keep boats.", n=1), HALF], **HERE)
    llm.then(extracted(("Mia keeps boats.", "individual", [1]), ("Mia prefers gre.", "individual", [2])))
    await memory.conversations.form(**TALK)


async def test_what_was_formed_of_the_old_text_is_formed_anew(memory: Memory, llm: Scripted) -> None:
    await formed_half(memory, llm)
    result = await memory.add([WHOLE], **HERE, replace=True)
    assert (result.replaced, result.trigger, result.formation) == (("m2",), "signal", "due")
    assert await rows(memory, TEXTS) == [("Mia keeps boats.",)]
    await sound(memory)
    llm.then(extracted(("Mia keeps boats.", "individual", [1]), ("Mia prefers green tea.", "individual", [2])))
    done = await memory.run_due()
    assert [len(one.observations) for one in done.formed] == [1]
    assert await rows(memory, TEXTS) == [("Mia keeps boats.",), ("Mia prefers green tea.",)]
    await sound(memory)


async def test_what_others_say_as_well_stays_and_no_other_message_loses_its_text(memory: Memory, llm: Scripted) -> None:
    await memory.add([message("I like tea.", n=1), HALF], **HERE)
    llm.then(extracted(("Mia likes gre and tea.", "individual", [1, 2]), ("Mia likes tea.", "individual", [1])))
    await memory.conversations.form(**TALK)
    await memory.add([WHOLE], **HERE, replace=True)
    assert await rows(memory, TEXTS) == [("Mia likes tea.",)]
    assert await contents(memory) == ["I like tea.", "I prefer green tea."]
    await sound(memory)


async def test_nothing_of_the_old_text_stays_in_what_was_made_of_it(database_url: str) -> None:
    """A text that holds everything word for word, and what was shared with everybody."""
    parrot = Parrot()
    async with Memory(database_url, parrot, Settings(llm="offline", consolidation_threshold=1)) as memory:
        await memory.add([message("My boat is called Quxhalf.", n=1)], **HERE)
        await memory.conversations.form(**TALK)
        while (await memory.run_due()).consolidated:
            pass
        assert "Quxhalf" in str(await memory.context(agent_id="ada", user_id="mia"))
        await memory.add([message("My boat is called Seagull.", n=1)], **HERE, replace=True)
        assert "Quxhalf" not in await everything(memory)
        await memory.run_due()
        assert "Seagull" in str(await memory.context(agent_id="ada", user_id="mia"))
        assert "Quxhalf" not in await everything(memory)
        await sound(memory)


async def test_answer_about_the_old_text_is_void(database_url: str) -> None:
    parrot = Parrot()
    async with Memory(database_url, parrot, Settings(llm="offline")) as working:
        await working.add([message("My boat is called Quxhalf.", n=1)], **HERE)

        async def edited() -> None:
            await working.add([message("My boat is called Seagull.", n=1)], **HERE, replace=True)

        parrot.meanwhile = edited
        with pytest.raises(StaleError):
            await working.conversations.form(**TALK)
        formed = await working.conversations.form(**TALK)
        assert len(formed.observations) == 1
        assert "Quxhalf" not in await everything(working)
        await sound(working)


async def test_text_that_is_being_written_of_the_old_text_is_void(database_url: str) -> None:
    parrot = Parrot()
    async with Memory(database_url, parrot, Settings(llm="offline")) as memory:
        await memory.add([message("My boat is called Quxhalf.", n=1)], **HERE)
        (formed,) = (await memory.conversations.form(**TALK)).observations

        async def edited() -> None:
            await memory.add([message("My boat is called Seagull.", n=1)], **HERE, replace=True)

        parrot.meanwhile = edited
        with pytest.raises(StaleError):
            await memory.scopes.consolidate(agent_id="ada", scope_id=formed.scope.id)
        assert "Quxhalf" not in await everything(memory)
        await sound(memory)


@pytest.mark.slow
async def test_edits_among_everything_else_end_sound(database_url: str) -> None:
    """Formations, forgettings, holds and edits of the same messages at once."""
    async with Memory(database_url, Parrot(), Settings(llm="offline")) as memory:
        await memory.add([message(f"I keep boat {n}.", n=n) for n in range(1, 5)], **HERE)
        await memory.conversations.form(**TALK)

        async def edit(n: int, text: str) -> None:
            await memory.add([message(text, n=n)], **HERE, replace=True)

        async def hold() -> None:
            held = await memory.holds.place(agent_id="ada", user_id="mia", reason="case 7")
            await memory.holds.release(held.hold_id, agent_id="ada")

        work: list[Coroutine[Any, Any, Any]] = [
            edit(n, f"I keep boat {n}{letter}.") for n in range(1, 4) for letter in "ab"
        ]
        work += [hold(), memory.forget(Selection(message_id="m4", conversation_id="s"), agent_id="ada")]
        work += [memory.conversations.form(**TALK), memory.run_due()]
        done = await asyncio.gather(*work, return_exceptions=True)
        assert [one for one in done if isinstance(one, Exception) and not isinstance(one, REFUSED)] == []
        await memory.conversations.form(**TALK)
        await sound(memory)
        said = [text for text in await contents(memory) if text]
        found = [text for (text,) in await rows(memory, TEXTS)]
        assert len(found) == len(said) == 3
        assert all(any(one in text for one in said) for text in found)


async def test_answer_that_waits_to_be_applied_is_void(memory: Memory, llm: Scripted) -> None:
    await formed_half(memory, llm)
    await memory.add([message("And I sail.", n=3)], **HERE)
    await rows(
        memory,
        "INSERT INTO memory.runs (agent_key, kind, conversation_id, from_number, to_number, fence, state, answer, seen)"
        " SELECT agent_key, 'formation', 's', 2, 3, 0, 'answered', 'I prefer gre', '{}' FROM memory.agents",
    )
    await memory.add([WHOLE], **HERE, replace=True)
    assert await rows(memory, "SELECT state, answer FROM memory.runs ORDER BY run_id DESC LIMIT 1") == [
        ("failed", None)
    ]


async def test_several_at_once_keep_one_text_and_its_observations(memory: Memory, llm: Scripted) -> None:
    await formed_half(memory, llm)
    texts = [f"I prefer {what} tea." for what in ("green", "black", "white", "red")]
    results = await asyncio.gather(
        *(memory.add([message(text, n=2)], **HERE, replace=True) for text in texts), memory.add([HALF], **HERE)
    )
    assert [one.replaced for one in results[:-1]] == [("m2",)] * 4
    assert (await contents(memory))[1] in texts
    assert await rows(memory, TEXTS) == [("Mia keeps boats.",)]
    await sound(memory)


async def test_later_messages_are_read_again_and_nothing_of_them_doubled(memory: Memory, llm: Scripted) -> None:
    await formed_half(memory, llm)
    await memory.add([message("I sail on Sundays.", n=3)], **HERE)
    llm.then(extracted(("Mia sails on Sundays.", "individual")))
    await memory.conversations.form(**TALK)
    await memory.add([WHOLE], **HERE, replace=True)
    await sound(memory)
    llm.then(
        extracted(
            ("Mia keeps boats.", "individual", [1]), ("Mia prefers green tea.", "individual", [2]),
            ("Mia sails on Sundays.", "individual", [3]),
        )
    )  # fmt: skip
    assert (await memory.conversations.form(**TALK)).duplicates == 2
    assert sorted(await rows(memory, TEXTS)) == [
        ("Mia keeps boats.",), ("Mia prefers green tea.",), ("Mia sails on Sundays.",)
    ]  # fmt: skip
    await sound(memory)


async def test_message_whose_neighbour_was_forgotten_is_formed_anew_without_it(memory: Memory, llm: Scripted) -> None:
    await formed_half(memory, llm)
    await memory.forget(Selection(message_id="m1", conversation_id="s"), agent_id="ada")
    await memory.add([WHOLE], **HERE, replace=True)
    await sound(memory)
    assert await rows(memory, "SELECT unformed_messages FROM memory.conversations") == [(1,)]
    llm.then(extracted(("Mia prefers green tea.", "individual")))
    assert (await memory.conversations.form(**TALK)).messages == 2
    assert llm.windows[-1] == 1
    await sound(memory)


async def test_held_message_cannot_be_replaced(memory: Memory, llm: Scripted) -> None:
    await formed_half(memory, llm)
    hold = await memory.holds.place(agent_id="ada", conversation_id="s", reason="case 7")
    with pytest.raises(HeldError, match="conversation s is covered by a legal hold"):
        await memory.add([WHOLE], **HERE, replace=True)
    assert await contents(memory) == ["I keep boats.", "I prefer gre"]
    await memory.holds.release(hold.hold_id, agent_id="ada")
    assert (await memory.add([WHOLE], **HERE, replace=True)).replaced == ("m2",)


@pytest.mark.parametrize(
    "other", [{**WHOLE, "role": "assistant"}, {**WHOLE, "user_id": "ben"}], ids=["another role", "somebody else"]
)
async def test_only_the_text_is_replaced(memory: Memory, other: dict[str, Any]) -> None:
    await memory.add([HALF], **HERE)
    with pytest.raises(InvalidMessageError, match="message 1: only its text can be replaced"):
        await memory.add([message("new", n=7), other], **HERE, replace=True)
    with pytest.raises(InvalidMessageError, match="message 2: only its text can be replaced"):
        await memory.add([WHOLE, message("new", n=7), other], **HERE, replace=True)  # which comes in place of the first
    assert await contents(memory) == ["I prefer gre"]


async def test_replacing_goes_by_ids(memory: Memory) -> None:
    with pytest.raises(InputError, match="idempotency_key"):
        await memory.add([WHOLE], **HERE, replace=True, idempotency_key="k")
    with pytest.raises(InputError, match="replace must be True or False"):
        await memory.add([WHOLE], **HERE, replace="yes")  # type: ignore[arg-type]
    assert (await memory.add([WHOLE], **HERE, replace=True)).accepted == 1


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize(("said", "last"), [([HALF, WHOLE], WHOLE), ([WHOLE, HALF], HALF)], ids=["whole", "half"])
async def test_of_one_id_the_last_text_of_the_call_counts(
    memory: Memory, known: bool, said: list[dict[str, Any]], last: dict[str, Any]
) -> None:
    if known:
        await memory.add([HALF], **HERE)
    result = await memory.add([message("one", n=1), *said], **HERE, replace=True)
    assert result.accepted + result.duplicates == 3
    assert result.differing == ()
    assert result.replaced == (("m2",) if known and last is WHOLE else ())
    assert sorted(await contents(memory)) == sorted(["one", last["content"]])  # type: ignore[type-var]


PROTECTED: dict[str, Callable[[Memory, str], Awaitable[Any]]] = {
    "asked": lambda memory, o: memory.observations.quarantine(
        Selection(user_id="mia", observation_id=o), agent_id="ada", request="Forget that, please."
    ),
    "quarantined": lambda memory, o: memory.observations.quarantine(o, agent_id="ada", user_id="mia"),
    "private": lambda memory, o: memory.observations.mark(o, agent_id="ada", user_id="mia", private=True),
    "sensitive": lambda memory, o: memory.observations.mark(o, agent_id="ada", user_id="mia", sensitivity="sensitive"),
}


@pytest.mark.parametrize("decision", PROTECTED)
async def test_what_a_person_took_out_of_sight_doesnt_come_back_by_an_edit(
    memory: Memory, llm: Scripted, decision: str
) -> None:
    await formed_half(memory, llm)
    (made,) = [one for one in await memory.observations.list(agent_id="ada", user_id="mia") if "gre" in one.content]
    await PROTECTED[decision](memory, made.id)
    with pytest.raises(InvalidMessageError, match=f"quarantined or hidden {made.id}"):
        await memory.add([WHOLE], **HERE, replace=True)
    assert await contents(memory) == ["I keep boats.", "I prefer gre"]
    assert len(await memory.work.reviews(agent_id="ada")) == (decision == "asked")
    assert (await memory.add([message("I keep bees.", n=1)], **HERE, replace=True)).replaced == (
        "m1",
    )  # nobody hid that
    await sound(memory)


async def test_excluded_stays_unformed(memory: Memory) -> None:
    await memory.add([HALF], **HERE, excluded=True)
    await memory.conversations.exclude(**TALK, excluded=False)
    await memory.add([WHOLE], **HERE, replace=True)
    assert await rows(memory, "SELECT eligible FROM memory.messages") == [(False,)]
    await sound(memory)


async def test_secrets_are_masked(memory: Memory) -> None:
    await memory.add([HALF], **HERE)
    result = await memory.add([message("My password is hunter2xyz99.", n=2)], **HERE, replace=True)
    assert (result.replaced, result.masked) == (("m2",), 1)
    assert "hunter2" not in await everything(memory)


async def test_it_is_recorded_without_a_word(memory: Memory, llm: Scripted) -> None:
    await formed_half(memory, llm)
    await memory.add([WHOLE], **HERE, replace=True)
    ((detail,),) = await rows(memory, "SELECT detail FROM memory.events WHERE kind = 'replace'")
    assert detail["target"] == {"conversation_id": "s", "message_ids": ["m2"]}
    assert (len(detail["observations"]), detail["counts"]["observations"]) == (1, 1)
    assert "gre" not in str(detail)


async def test_it_joins_the_hosts_transaction(memory: Memory, llm: Scripted, database_url: str) -> None:
    await formed_half(memory, llm)
    engine = create_async_engine(database_url.replace("postgresql://", "postgresql+asyncpg://"))
    async with AsyncSession(engine) as host, host.begin() as begun:
        assert (await memory.add([WHOLE], **HERE, replace=True, session=host)).replaced == ("m2",)
        await begun.rollback()
    assert await contents(memory) == ["I keep boats.", "I prefer gre"]
    async with AsyncSession(engine) as host, host.begin():
        await memory.add([WHOLE], **HERE, replace=True, session=host)
    await engine.dispose()
    assert await contents(memory) == ["I keep boats.", "I prefer green tea."]
    assert await rows(memory, TEXTS) == [("Mia keeps boats.",)]
    await sound(memory)


async def test_it_waits_for_formation_on_request(memory: Memory, llm: Scripted) -> None:
    await formed_half(memory, llm)
    llm.then(extracted(("Mia prefers green tea.", "individual", [2])))
    result = await memory.add([WHOLE], **HERE, replace=True, wait=True)
    assert (result.formation, [one.content for one in result.observations]) == ("formed", ["Mia prefers green tea."])


def test_sync_face_replaces(database_url: str) -> None:
    with sync.Memory(database_url, settings=Settings(llm="offline")) as memory:
        memory.add([HALF], **HERE)
        assert memory.add([WHOLE], **HERE).differing == ("m2",)
        assert memory.add([WHOLE], **HERE, replace=True).replaced == ("m2",)


def test_command_replaces_on_request(database_url: str, tmp_path: Path) -> None:
    talk = tmp_path / "talk.jsonl"
    command = (
        "add",
        talk,
        "--agent",
        "ada",
        "--user",
        "mia",
        "--conversation",
        "s",
        "--no-form",
        "--url",
        database_url,
    )

    def add(said: dict[str, Any], *options: str) -> Ran:
        talk.write_text(json.dumps(said, default=str))
        return memory_sql(*command, *options)

    add(HALF)
    assert "\nstored with another text, which stays (--replace replaces it): m2\n" in add(WHOLE).out
    assert "\nreplaced, to be formed anew: m2\n" in add(WHOLE, "--replace").out
    found = add(WHOLE, "--json").value
    assert (found["duplicates"], found["replaced"], found["differing"], found["forgotten"]) == (1, [], [], [])
    memory_sql("forget", "--message", "m2", "--conversation", "s", "--agent", "ada", "--yes", "--url", database_url)
    assert "\nforgotten, so not stored again; give what is to be said anew a new id: m2\n" in add(WHOLE).out


async def test_silence_after_the_old_text_is_none_after_the_new(database_url: str, llm: Scripted) -> None:
    now = MONDAY
    async with Memory(database_url, llm, Settings(llm="offline"), clock=lambda: now) as memory:
        await formed_half(memory, llm)
        now += timedelta(days=3)
        assert (await memory.add([WHOLE], **HERE, replace=True)).formation == "due"
