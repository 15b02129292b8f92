"""`memory_sql.integrations.mem0`: what was written for mem0 runs, and nobody's memory reaches anybody else."""

from __future__ import annotations

import asyncio
import inspect
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from itertools import product
from typing import Any, cast

import pytest

from memory_sql import sync
from memory_sql.config import Settings
from memory_sql.db.urls import asyncpg_url
from memory_sql.errors import ConfigurationError, InputError, UnavailableError
from memory_sql.integrations.mem0 import AsyncMemory, Memory
from memory_sql.integrations.mem0.config import configured
from memory_sql.memory import Memory as Own
from tests.fakes import Meanings, Scripted, extracted
from tests.mem0_store import WRITTEN, write
from tests.recycling import administer, named
from tests.unit.test_pages import blocks

ALICE: dict[str, Any] = {"user_id": "alice"}
OF_ALICE: dict[str, Any] = {"filters": ALICE}

SIGNATURES = {
    "add": "messages * user_id agent_id run_id metadata timestamp expiration_date infer memory_type prompt",
    "search": "query * top_k filters threshold rerank explain reference_date show_expired",
    "get_all": "* filters top_k show_expired",
    "get": "memory_id",
    "update": "memory_id text metadata expiration_date data",
    "delete": "memory_id",
    "delete_all": "user_id agent_id run_id",
    "history": "memory_id",
    "reset": "",
}
"""The parameters of mem0ai 2.2.1; those after * by name only."""
REFUSED = {"timestamp", "memory_type", "prompt", "rerank", "explain", "reference_date"}
ITEM = {"id", "memory", "hash", "metadata", "score", "created_at", "updated_at", "user_id"}
"""What a result of its `search` has for a memory of a user alone; `get_all` has no score."""


@pytest.fixture
def facade(memory: Own) -> AsyncMemory:
    return AsyncMemory(memory=memory)


@pytest.fixture
async def checked(memory: Own) -> AsyncIterator[None]:
    yield
    assert await memory.admin.verify() == []


def texts(found: dict[str, Any]) -> list[str]:
    return [item["memory"] for item in found["results"]]


async def keep(facade: AsyncMemory, text: str, **who: Any) -> str:
    (item,) = (await facade.add(text, infer=False, **who))["results"]
    return str(item["id"])


@pytest.mark.parametrize("kind", [Memory, AsyncMemory])
@pytest.mark.parametrize("name", SIGNATURES)
def test_calls_take_what_those_of_mem0_take(kind: type, name: str) -> None:
    by_position, _, by_name = SIGNATURES[name].partition("*")
    parameters = inspect.signature(inspect.getattr_static(kind, name).__get__(object(), kind)).parameters
    assert [*parameters][: len(by_position.split())] == by_position.split()
    assert {*by_name.split()} - REFUSED <= parameters.keys()
    for other in REFUSED.intersection(by_name.split()):
        assert any(one.kind == one.VAR_KEYWORD for one in parameters.values()), other


# Adding


async def test_add_forms_now_and_what_is_new_is_found(facade: AsyncMemory, llm: Scripted, checked: None) -> None:
    llm.then(extracted(("Alice prefers green tea.", "individual"), ("Alice lives in Lisbon.", "individual")))
    said = [
        {"role": "user", "content": "I prefer green tea, and I live in Lisbon."},
        {"role": "assistant", "content": "Ok."},
    ]
    added = await facade.add(said, **ALICE)
    assert [(item["memory"], item["event"]) for item in added["results"]] == [
        ("Alice prefers green tea.", "ADD"),
        ("Alice lives in Lisbon.", "ADD"),
    ]
    (item,) = (await facade.search("Who drinks tea?", **OF_ALICE))["results"]
    assert item.keys() == ITEM
    assert item["id"] == added["results"][0]["id"]
    assert (item["user_id"], item["metadata"]) == ("alice", None)
    assert 0 < item["score"] <= 1
    got = await facade.get(item["id"])
    assert got == item | {"score": None}
    (first, second) = (await facade.get_all(**OF_ALICE))["results"]
    assert first.keys() == second.keys() == ITEM - {"score"}


async def test_one_message_or_a_text_is_a_users(facade: AsyncMemory, llm: Scripted) -> None:
    for given in ("I sail.", {"role": "user", "content": "I sail."}):
        llm.then(extracted())
        assert await facade.add(given, **ALICE) == {"results": []}
        assert "I sail." in str(llm.requests[-1].material)


async def test_what_memory_said_is_not_learnt_from(facade: AsyncMemory, memory: Own, llm: Scripted) -> None:
    """Programs put what they found into a system message, and add that with the rest."""
    llm.then(extracted())
    said = [{"role": "system", "content": "User Memories: Bob is ill."}, {"role": "user", "content": "Hello, I sail."}]
    await facade.add(said, **ALICE)
    assert "Bob" not in str(llm.requests[-1].material)
    kept = await memory.conversations.messages(agent_id="mem0", user_id="alice")
    assert [one.content for one in kept] == ["Hello, I sail."]
    assert await facade.add(said[:1], **ALICE) == {"results": []}
    assert texts(await facade.add(said, infer=False, **ALICE)) == ["Hello, I sail."]


async def test_failure_of_forming_keeps_the_messages_and_says_so(
    facade: AsyncMemory, memory: Own, llm: Scripted, caplog: pytest.LogCaptureFixture
) -> None:
    llm.then(UnavailableError("down", "the model is away"))
    added = await facade.add("I prefer green tea.", **ALICE)
    assert (added["results"], added["stored"]) == ([], 1)
    assert added["not_formed"].startswith("UnavailableError")
    assert "green tea" not in caplog.text
    assert "not formed yet: UnavailableError" in caplog.text
    llm.then(extracted(("Alice prefers green tea.", "individual")))
    await memory.conversations.form(agent_id="mem0", conversation_id="/ alice")
    assert texts(await facade.search("tea", **OF_ALICE)) == ["Alice prefers green tea."]
    assert len(await memory.conversations.messages(agent_id="mem0", user_id="alice")) == 1


async def test_two_calls_at_once_are_both_formed(facade: AsyncMemory, llm: Scripted, checked: None) -> None:
    llm.then(extracted(("Alice sails.", "individual")), extracted(("Alice rows.", "individual")))
    added = await asyncio.gather(*(facade.add(f"I {verb} a lot.", **ALICE) for verb in ("sail", "row")))
    assert sorted(text for one in added for text in texts(one)) == ["Alice rows.", "Alice sails."]


async def test_what_is_formed_has_the_metadata_of_its_call(facade: AsyncMemory, llm: Scripted, checked: None) -> None:
    given: dict[str, Any] = {
        "metadata": {"topic": "sea", "login": "password: hunter2!x"},
        "expiration_date": "2999-01-01",
    }
    llm.then(extracted(("Alice sails.", "individual")), extracted(("Alice rows.", "individual")))
    (added,) = (await facade.add("I sail.", **ALICE, run_id="r1", **given))["results"]
    await facade.add("I row.", **ALICE, run_id="r1")
    (found,) = (await facade.search("sails rows", filters={**ALICE, "topic": "sea"}))["results"]
    assert (found["id"], found["expiration_date"], found["run_id"]) == (added["id"], "2999-01-01", "r1")
    assert found["metadata"].keys() == {"topic", "login"}
    assert "hunter2" not in str(found)
    llm.then(extracted(("Alice swims.", "individual")))
    await facade.add("I swim.", **ALICE, expiration_date="2026-01-01")
    assert "Alice swims." not in texts(await facade.get_all(**ALICE))


async def test_infer_false_stores_as_said(facade: AsyncMemory, memory: Own, checked: None) -> None:
    said = [{"role": "user", "content": "Ship on Fridays.", "name": "Al"}, {"role": "assistant", "content": "I will."}]
    added = await facade.add(said, **ALICE, infer=False, metadata={"topic": "work"}, run_id="r1")
    assert [{**item, "id": ""} for item in added["results"]] == [
        {"id": "", "memory": "Ship on Fridays.", "event": "ADD", "actor_id": "Al", "role": "user"},
        {"id": "", "memory": "I will.", "event": "ADD", "actor_id": None, "role": "assistant"},
    ]
    got = await facade.get(added["results"][0]["id"])
    assert got is not None
    assert (got["metadata"], got["run_id"], got["actor_id"], got["role"]) == ({"topic": "work"}, "r1", "Al", "user")


async def test_too_long_a_message_stores_nothing(facade: AsyncMemory, memory: Own) -> None:
    long = "x" * (memory.settings.message_max_characters + 1)
    for infer in (True, False):
        with pytest.raises(InputError, match="message 1"):
            await facade.add(["Short.", long], **ALICE, infer=infer)
    assert await memory.admin.agents() == []


async def test_empty_message_among_others_stores_nothing(facade: AsyncMemory, memory: Own) -> None:
    with pytest.raises(InputError):
        await facade.add(["Short.", " "], **ALICE, infer=False)
    assert await memory.admin.agents() == []


async def test_same_text_again_is_one_memory_and_what_was_set_aside_stays_so(facade: AsyncMemory, memory: Own) -> None:
    key = await keep(facade, "Alice sails.", **ALICE)
    assert await keep(facade, "Alice sails.", **ALICE) == key
    assert len(texts(await facade.get_all(**ALICE))) == 1
    await memory.observations.quarantine(key.rpartition(":")[2], agent_id="mem0", **ALICE)
    assert await facade.add("Alice sails.", **ALICE, infer=False) == {"results": []}
    assert (await facade.get(key), texts(await facade.get_all(**ALICE))) == (None, [])


async def test_without_a_model_nothing_is_stored(database_url: str) -> None:
    async with Own(
        database_url, settings=Settings.model_construct(**{**dict(Settings(llm="offline")), "llm": None})
    ) as own:
        with pytest.raises(ConfigurationError, match="OPENAI_API_KEY"):
            await AsyncMemory(memory=own).add("I sail.", **ALICE)
        assert await own.admin.agents() == []


WRONG: list[tuple[Callable[[AsyncMemory], Any], str]] = [
    (lambda one: one.add("x", user_id="a", colour="red"), "colour: add has no such argument here"),
    (lambda one: one.add("x", user_id="a", timestamp=1), "created_at into the messages"),
    (lambda one: one.add("x", user_id="a", prompt="p"), "prompts.set"),
    (lambda one: one.add("x", user_id="a", metadata=cast("Any", ["a"])), "a mapping"),
    (lambda one: one.add("x", user_id="a", metadata={"mem0": 1}, infer=False), "use another name"),
    (lambda one: one.add("x", user_id="a", infer=False, expiration_date="soon"), "2026-12-31"),
    (lambda one: one.add("x"), "at least one of user_id, agent_id and run_id"),
    (lambda one: one.search("x", **OF_ALICE, reference_date="2026"), "as_of"),
    (lambda one: one.search("x", **OF_ALICE, rerank=True), "ranked"),
    (lambda one: one.search(" ", **OF_ALICE), "not empty"),
    (lambda one: one.search("x", **OF_ALICE, top_k=101), "top_k"),
    (lambda one: one.search("x"), "at least one of"),
    (lambda one: one.search("x", user_id="bob", **OF_ALICE), "isn't the same"),
    (lambda one: one.search("x", filters={"user_id": "alice", "n": {"near": 1}}), "no operator near"),
    (lambda one: one.get_all(filters={"user_id": "alice", "OR": {"n": 1}}), "OR takes a list"),
    (lambda one: one.get_all(filters={"user_id": "alice", "NOT": [{"n": {"in": 1}}]}), "take a list"),
    (lambda one: one.get_all(), "at least one of"),
    (lambda one: one.get_all(filters=cast("Any", ["alice"])), "a mapping"),
    (lambda one: one.delete_all(), "at least one of"),
    (lambda one: one.update("mem0:alice:o1-1"), "needs text="),
    (lambda one: one.reset(), "confirm=True"),
]


async def test_what_is_not_known_here_is_refused_by_name(facade: AsyncMemory) -> None:
    await keep(facade, "Alice sails.", **ALICE)
    for call, told in WRONG:
        with pytest.raises(InputError, match=told):
            await call(facade)
    assert len((await facade.get_all(**OF_ALICE))["results"]) == 1


async def test_what_mem0_leaves_at_its_default_is_taken(facade: AsyncMemory) -> None:
    await keep(facade, "Alice sails.", **ALICE, memory_type=None, prompt=None, timestamp=None)
    assert texts(await facade.search("sails", **OF_ALICE, rerank=False, explain=False, threshold=0.1)) == [
        "Alice sails."
    ]


# Finding


async def test_both_forms_say_whose_memory_it_is(facade: AsyncMemory) -> None:
    await keep(facade, "Alice sails.", **ALICE)
    await keep(facade, "Bob sails.", user_id="bob")
    for found in (
        await facade.search("sails", **ALICE),
        await facade.search("sails", **OF_ALICE),
        await facade.search("sails", user_id="alice", limit=5, **OF_ALICE),
        await facade.get_all(**ALICE),
        await facade.get_all(**OF_ALICE),
    ):
        assert texts(found) == ["Alice sails."]


async def test_agent_and_run_narrow_and_neither_means_all(facade: AsyncMemory) -> None:
    await keep(facade, "Sails alone.", **ALICE)
    await keep(facade, "Sails by day.", **ALICE, agent_id="travel")
    await keep(facade, "Sails by night.", **ALICE, agent_id="travel", run_id="r1")
    asked = {
        "user": ALICE,
        "agent": {**ALICE, "agent_id": "travel"},
        "run": {**ALICE, "run_id": "r1"},
        "none": {**ALICE, "run_id": "r2"},
        "other": {**ALICE, "agent_id": "hotel"},
    }
    found = {name: len(texts(await facade.search("sails", filters=who))) for name, who in asked.items()}
    assert found == {"user": 3, "agent": 2, "run": 1, "none": 0, "other": 0}
    listed = {name: len(texts(await facade.get_all(filters=who))) for name, who in asked.items()}
    assert listed == found


async def test_run_of_what_was_formed_is_known(facade: AsyncMemory, llm: Scripted) -> None:
    llm.then(extracted(("Alice sails.", "individual")))
    await facade.add("I sail.", **ALICE, agent_id="travel", run_id="r1")
    (item,) = (await facade.search("sails", **ALICE, run_id="r1"))["results"]
    assert (item["run_id"], item["agent_id"], item["user_id"]) == ("r1", "travel", "alice")


async def test_filters_of_metadata_pass_what_they_name(facade: AsyncMemory) -> None:
    for n, topic in enumerate(("work", "home", "sea")):
        await keep(facade, f"Sails {n}.", **ALICE, metadata={"topic": topic, "n": n})
    await keep(facade, "Sails.", **ALICE)
    cases: list[tuple[dict[str, Any], int]] = [
        ({"topic": "sea"}, 1), ({"topic": ["sea", "home"]}, 2), ({"topic": "*"}, 3), ({"topic": {"ne": "sea"}}, 3),
        ({"n": {"gte": 1, "lt": 2}}, 1), ({"n": {"in": [0, 2]}}, 2), ({"topic": {"nin": ["sea"]}}, 3),
        ({"topic": {"contains": "o"}}, 2), ({"topic": {"icontains": "SE"}}, 1), ({"n": {"gt": "x"}}, 0),
        ({"OR": [{"topic": "sea"}, {"n": 0}]}, 2), ({"AND": [{"topic": "sea"}, {"n": 0}]}, 0),
        ({"NOT": [{"topic": "sea"}]}, 3), ({"colour": "red"}, 0), ({"role": "user"}, 4),
    ]  # fmt: skip
    for filters, count in cases:
        asked: dict[str, Any] = {"filters": {**ALICE, **filters}}
        assert len(texts(await facade.search("sails", **asked))) == count, filters
        assert len(texts(await facade.get_all(**asked))) == count, filters


async def test_what_expired_is_hidden(facade: AsyncMemory) -> None:
    await keep(facade, "Sails today.", **ALICE, expiration_date="2026-01-01")
    await keep(facade, "Sails always.", **ALICE, expiration_date="2999-01-01")
    assert texts(await facade.search("sails", **ALICE)) == texts(await facade.get_all(**ALICE)) == ["Sails always."]
    assert len(texts(await facade.get_all(**ALICE, show_expired=True))) == 2
    assert len(texts(await facade.search("sails", **ALICE, show_expired=True))) == 2


async def test_as_many_come_as_are_asked_for(facade: AsyncMemory) -> None:
    for n in range(25):
        await keep(facade, f"Sails boat {n}.", **ALICE)
    asked: list[tuple[dict[str, Any], int]] = [({}, 20), ({"top_k": 3}, 3), ({"limit": 0}, 0), ({"limit": 24}, 24)]
    for most, count in asked:
        assert len(texts(await facade.search("sails", **ALICE, **most))) == count
        assert len(texts(await facade.get_all(**ALICE, **most))) == count
    assert texts(await facade.get_all(**ALICE, limit=1)) == ["Sails boat 24."]


async def test_threshold_is_of_the_score_that_is_returned(facade: AsyncMemory) -> None:
    await keep(facade, "Alice sails a boat.", **ALICE)
    await keep(facade, "Alice sails a boat to Porto.", **ALICE)
    first, second = (await facade.search("boat Porto", **ALICE))["results"]
    assert first["score"] > second["score"]
    (only,) = (await facade.search("boat Porto", **ALICE, threshold=first["score"]))["results"]
    assert only == first


@pytest.mark.parametrize("query", ['"green tea', "from:bob tea", "tea -green", "-tea", "before:1999 tea", "tag:x tea"])
async def test_query_is_plain_words(facade: AsyncMemory, query: str) -> None:
    await keep(facade, "Alice drinks green tea.", **ALICE)
    assert texts(await facade.search(query, **ALICE)) == ["Alice drinks green tea."]


async def test_what_is_new_is_found_by_its_meaning_at_once(
    database_url: str, llm: Scripted, settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    model = Meanings(dimensions=16)
    async with Own(database_url, llm, settings, embeddings=model) as own:
        facade = AsyncMemory(memory=own)
        for text in ("The mole is closed.", "Rent is due on Friday.", "Jonas moved to Bergen.", "Alice owns a sloop."):
            await keep(facade, text, **ALICE)
        first, *_ = texts(await facade.search("Which vessel has she got?", **ALICE))
        assert first == "Alice owns a sloop."
        model.failing = UnavailableError("down", "the model is away")
        await keep(facade, "Alice drinks tea.", **ALICE)
        assert "no vectors yet: UnavailableError" in caplog.text
        assert "Alice drinks tea." in texts(await facade.get_all(**ALICE))


# Changing


async def test_update_keeps_the_id_and_the_history(facade: AsyncMemory, checked: None) -> None:
    key = await keep(facade, "Alice sails.", **ALICE, metadata={"topic": "sea", "n": 1}, run_id="r1")
    before = await facade.get(key)
    assert before is not None
    assert await facade.update(key, "Alice rows.", {"n": 2}) == {"message": "Memory updated successfully!"}
    await facade.update(memory_id=key, data="Alice swims.")
    got = await facade.get(key)
    assert got is not None
    assert (got["id"], got["memory"], got["metadata"]) == (key, "Alice swims.", {"topic": "sea", "n": 2})
    assert (got["created_at"], got["run_id"]) == (before["created_at"], "r1")
    assert got["updated_at"] > before["updated_at"]
    assert (await facade.get_all(**ALICE))["results"] == [{k: v for k, v in got.items() if k != "score"}]
    assert texts(await facade.search("sails rows swims", **ALICE)) == ["Alice swims."]
    changes = await facade.history(key)
    assert [(one["event"], one["old_memory"], one["new_memory"]) for one in changes] == [
        ("ADD", None, "Alice sails."),
        ("UPDATE", "Alice sails.", "Alice rows."),
        ("UPDATE", "Alice rows.", "Alice swims."),
    ]
    assert {one["memory_id"] for one in changes} == {key}


async def test_deleted_is_gone_with_every_text_that_it_had(facade: AsyncMemory, memory: Own, checked: None) -> None:
    key = await keep(facade, "Alice sails.", **ALICE)
    await facade.update(key, "Alice rows.")
    assert await facade.delete(key) == {"message": "Memory deleted successfully!"}
    assert (await facade.get(key), await facade.history(key)) == (None, [])
    assert (await memory.search("sails rows", agent_id="mem0", **ALICE, include_superseded=True)).results == ()
    for call in (facade.delete(key), facade.update(key, "Alice swims.")):
        with pytest.raises(ValueError, match="not found"):
            await call


async def test_deleted_is_gone_with_what_other_calls_made_of_it(
    facade: AsyncMemory, memory: Own, checked: None
) -> None:
    key = await keep(facade, "Alice sails.", **ALICE)
    for old, text in (("o1-1", "Alice rows."), ("o1-2", "Alice swims.")):
        await memory.observations.update(old, agent_id="mem0", **ALICE, text=text)
    await facade.update(key, "Alice dives.")
    assert [item["id"] for item in (await facade.get_all(**OF_ALICE))["results"]] == [key]
    assert await facade.delete(key) == {"message": "Memory deleted successfully!"}
    assert texts(await facade.get_all(**OF_ALICE)) == []
    assert (
        await memory.search("sails rows swims dives", agent_id="mem0", **ALICE, include_superseded=True)
    ).results == ()


async def test_what_goes_with_a_deleted_one_is_named(facade: AsyncMemory, memory: Own, llm: Scripted) -> None:
    """The message goes that it was made of, and so does what else was made of that alone."""
    llm.then(extracted(("Alice prefers tea.", "individual"), ("Alice lives in Lisbon.", "individual")))
    tea, lisbon = (await facade.add("I prefer tea, and live in Lisbon.", **ALICE))["results"]
    assert await facade.delete(tea["id"]) == {
        "message": "Memory deleted successfully!",
        "also_deleted": [lisbon["id"]],
    }
    assert await memory.conversations.messages(agent_id="mem0", user_id="alice") == []


async def test_delete_all_of_a_user_an_agent_or_a_run(facade: AsyncMemory, llm: Scripted, checked: None) -> None:
    async def fill() -> None:
        for user in ("alice", "bob"):
            llm.then(extracted((f"{user} sails to Porto.", "individual")))
            await facade.add("I sail to Porto.", user_id=user, agent_id="travel", run_id="r1")
            await keep(facade, f"{user} sails to Faro.", user_id=user, agent_id="travel", run_id="r2")
            await keep(facade, f"{user} sails.", user_id=user)

    async def left(user: str) -> list[str]:
        return sorted(text.removeprefix(f"{user} ") for text in texts(await facade.get_all(user_id=user)))

    everything = ["sails to Faro.", "sails to Porto.", "sails."]
    cases: list[tuple[dict[str, Any], list[str]]] = [
        ({"run_id": "r1"}, ["sails to Faro.", "sails."]),
        ({"run_id": "r2"}, ["sails to Porto.", "sails."]),
        ({"agent_id": "travel"}, ["sails."]),
        ({}, []),
    ]
    for which, stays in cases:
        await fill()
        assert await facade.delete_all(**ALICE, **which) == {"message": "Memories deleted successfully!"}
        assert (await left("alice"), await left("bob")) == (stays, everything)
        await facade.reset(confirm=True)
        assert (await left("alice"), await left("bob")) == ([], [])


async def test_what_is_added_after_delete_all_is_there(facade: AsyncMemory, llm: Scripted) -> None:
    for text in ("Alice sails.", "Alice rows."):
        llm.then(extracted((text, "individual")))
        await facade.add("I do it a lot.", **ALICE, run_id="r1")
        assert texts(await facade.get_all(**ALICE)) == [text]
        await facade.delete_all(**ALICE)


# Whose it is


HOSTILE = [
    "alice:bob",
    "alice%3Abob",
    "*",
    "u:alice",
    "a'; DROP TABLE x; --".replace(" ", "_"),
    "/",
    "agent",
    "%",
    "ä\u0301",
]


@pytest.mark.parametrize("hostile", HOSTILE)
async def test_hostile_ids_reach_nobody_else(facade: AsyncMemory, llm: Scripted, hostile: str) -> None:
    await keep(facade, "Alice sails.", **ALICE)
    await keep(facade, "Bob sails.", user_id="bob", agent_id="travel", run_id="r1")
    try:
        key = await keep(facade, "Mallory sails.", user_id=hostile, run_id=hostile, agent_id=hostile)
    except InputError:
        assert hostile in ("*", "ä\u0301")
        return
    who: dict[str, Any] = {"user_id": hostile}
    assert texts(await facade.search("sails", filters=who)) == texts(await facade.get_all(**who)) == ["Mallory sails."]
    got = await facade.get(key)
    assert got is not None
    assert (got["user_id"], got["run_id"], got["agent_id"]) == (hostile, hostile, hostile)
    await facade.delete_all(**who)
    assert texts(await facade.get_all(**ALICE)) == ["Alice sails."]
    assert texts(await facade.get_all(user_id="bob")) == ["Bob sails."]


NO_IDS = [True, ["alice"], {"in": ["alice", "bob"]}, {"ne": "x"}, "*", "alice bob", "", "a" * 256, "a\x00b", 1.5]


async def test_what_is_not_one_id_is_refused(facade: AsyncMemory) -> None:
    await keep(facade, "Alice sails.", **ALICE)
    for given, name in product(NO_IDS, ("user_id", "agent_id", "run_id")):
        with pytest.raises(InputError, match=name):
            await facade.search("sails", filters={**ALICE, name: given})
        with pytest.raises(InputError, match=name):
            await facade.delete_all(**{**ALICE, name: given})


async def test_same_run_of_two_users_is_two(facade: AsyncMemory, memory: Own, llm: Scripted) -> None:
    for user in ("alice", "bob"):
        llm.then(extracted((f"{user} sails.", "individual")))
        await facade.add(f"I, {user}, sail.", user_id=user, run_id="chat")
    assert "alice" not in str(llm.requests[-1].material)
    for user in ("alice", "bob"):
        assert texts(await facade.search("sails", user_id=user, run_id="chat")) == [f"{user} sails."]
        said = await memory.conversations.messages(agent_id="mem0", user_id=user)
        assert [one.content for one in said] == [f"I, {user}, sail."]


async def test_message_speaks_for_nobody_else(facade: AsyncMemory, memory: Own, llm: Scripted) -> None:
    llm.then(extracted(("Sails.", "individual")))
    await facade.add([{"role": "user", "content": "I sail.", "user_id": "bob"}], **ALICE)
    assert texts(await facade.get_all(user_id="bob")) == []
    assert texts(await facade.get_all(**ALICE)) == ["Sails."]
    assert await memory.conversations.messages(agent_id="mem0", user_id="bob") == []


async def test_id_that_names_another_user_reaches_nothing(facade: AsyncMemory, memory: Own) -> None:
    key = await keep(facade, "Alice sails.", **ALICE)
    _, _, observation = key.split(":")
    forged = [f"mem0:bob:{observation}", f"travel:alice:{observation}", observation, "mem0:alice:o9-9"]
    others: list[Any] = [*forged, "x", ":::", "", None, 7]
    for other in others:
        assert (await facade.get(other), await facade.history(other)) == (None, []), other
        with pytest.raises(ValueError, match="not found"):
            await facade.delete(other)
        with pytest.raises(ValueError, match="not found"):
            await facade.update(other, "Bob sails.")
    assert texts(await facade.get_all(**ALICE)) == ["Alice sails."]


async def test_what_everybody_sees_is_nobodys_in_particular(facade: AsyncMemory, memory: Own) -> None:
    """It stays in memory_sql's own calls: mem0 knows no memory of several."""
    await memory.observe("Everybody sails.", agent_id="mem0", collective=True)
    await memory.groups.create("crew", agent_id="mem0")
    for user in ("alice", "bob"):
        await memory.groups.add_member("crew", agent_id="mem0", user_id=user)
    told = await memory.observe("Bob sails with the crew.", agent_id="mem0", group_id="crew", user_id="bob")
    assert texts(await facade.search("sails", **ALICE)) == texts(await facade.get_all(**ALICE)) == []
    assert await facade.get(f"mem0:alice:{told.id}") is None
    assert await facade.get(f"mem0:bob:{told.id}") is None


async def test_memory_of_an_agent_or_a_run_alone_is_no_users(facade: AsyncMemory, llm: Scripted) -> None:
    llm.then(extracted(("Books refundable fares.", "individual")))
    await facade.add("Book refundable fares.", agent_id="travel")
    await keep(facade, "Fares are high.", run_id="r1")
    assert texts(await facade.search("fares", filters={"agent_id": "travel"})) == ["Books refundable fares."]
    assert texts(await facade.search("fares", filters={"run_id": "r1"})) == ["Fares are high."]
    (item,) = (await facade.get_all(filters={"agent_id": "travel"}))["results"]
    assert "user_id" not in item
    for user in ("alice", "agent", "travel"):
        assert texts(await facade.search("fares", user_id=user)) == []
    await facade.delete_all(agent_id="travel")
    assert texts(await facade.search("fares", agent_id="travel")) == []
    assert texts(await facade.get_all(run_id="r1")) == ["Fares are high."]


# From an import, from configuration, in other processes


async def test_what_was_imported_is_found_as_mem0_found_it(facade: AsyncMemory, memory: Own, server_url: str) -> None:
    name = f"memory_sql_facade_{os.getpid()}"
    await administer(server_url, f"DROP DATABASE IF EXISTS {name}", f"CREATE DATABASE {name}")
    try:
        await write(named(server_url, name), WRITTEN)
        await memory.imports.mem0(key=b"k" * 32, mem0_url=named(server_url, name), agent_id="mem0")
    finally:
        await administer(server_url, f"DROP DATABASE {name} WITH (FORCE)")
    found = (await facade.get_all(filters={"user_id": "bob"}, top_k=10))["results"]
    there = {row["data"]: row for row in WRITTEN.values() if row.get("user_id") == "bob"}
    assert {item["memory"] for item in found} == there.keys()
    for item in found:
        row = there[item["memory"]]
        shared = (
            "hash",
            "created_at",
            "updated_at",
            "user_id",
            "agent_id",
            "run_id",
            "actor_id",
            "role",
            "expiration_date",
        )
        assert {key: item.get(key) for key in shared} == {key: row.get(key) for key in shared}
    (home,) = (await facade.search("Lisbon", filters={"user_id": "alice", "category": "home"}))["results"]
    assert home["metadata"] == {"category": "home"}
    for who, text in (
        ({"agent_id": "travel"}, "The agent books refundable fares."),
        ({"run_id": "trip-2"}, "run note"),
    ):
        assert texts(await facade.get_all(filters=who)) == [text]
    assert texts(await facade.get_all(user_id="bob", run_id="trip-1")) == ["Bob wants aisle seats."]


def test_configuration_is_honoured_or_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "test")
    place = {"user": "me", "password": "a@b", "host": "db", "port": 5433, "dbname": "m"}
    found = configured({
        "vector_store": {"provider": "pgvector", "config": place},
        "llm": {"provider": "openai", "config": {"model": "gpt-5.1", "temperature": 0.1, "max_tokens": 2000}},
        "embedder": {"provider": "openai", "config": {"model": "text-embedding-3-large", "embedding_dims": 1024}},
    })  # fmt: skip
    assert found.url == "postgresql://me:a%40b@db:5433/m"
    assert found.settings is not None
    assert (found.settings.fast_model, found.settings.slow_model) == ("gpt-5.1", "gpt-5.1")
    assert (found.embeddings is not None, found.llm is not None) == (True, True)
    url = {
        "provider": "pgvector",
        "config": {"connection_string": "postgresql://db/m", "collection_name": "c", "hnsw": True},
    }
    with pytest.warns(UserWarning, match="history_db_path, vector_store.collection_name, vector_store.hnsw") as told:
        assert configured({"vector_store": url, "history_db_path": "/tmp/x"}).url == "postgresql://db/m"
    assert "/tmp/x" not in str(told[0].message)


@pytest.mark.parametrize(
    ("place", "host", "options"),
    [
        ({"host": "::1"}, "::1", {}),
        ({"host": "[::1]", "sslmode": "require"}, "::1", {"sslmode": "require"}),
        ({"host": "/var/run/postgresql"}, None, {"host": "/var/run/postgresql"}),
        ({}, "localhost", {}),
    ],
)
def test_any_host_of_a_configuration_is_the_one_that_is_reached(
    place: dict[str, Any], host: str | None, options: dict[str, str]
) -> None:
    store = {"provider": "pgvector", "config": {"user": "me", "password": "a@b", "port": 5433, **place}}
    url = asyncpg_url(configured({"vector_store": store}).url or "")
    assert (url.host, url.port, url.password, dict(url.query)) == (host, 5433, "a@b", options)


@pytest.mark.parametrize(
    ("config", "told"),
    [
        (
            {"vector_store": {"provider": "qdrant", "config": {"host": "db"}}},
            "vector_store: its provider must be pgvector",
        ),
        ({"llm": {"provider": "anthropic"}}, "llm: its provider must be openai"),
        ({"embedder": {"provider": "ollama"}}, "MEMORY_SQL_EMBEDDING"),
        ("config.yaml", "a mapping"),
    ],
)
def test_configuration_of_what_there_is_none_of_is_refused(config: Any, told: str) -> None:
    with pytest.raises(ConfigurationError, match=told):
        Memory.from_config(config)


def test_blocking_memory_does_the_same(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMORY_SQL_URL", database_url)
    with Memory() as memory:
        added = memory.add("I prefer green tea to coffee.", user_id="alice")["results"]
        assert texts(memory.search("tea", filters=ALICE)) == [item["memory"] for item in added]
        assert memory.get(added[0]["id"])["memory"] == added[0]["memory"]  # type: ignore[index]
        with pytest.raises(InputError, match="colour"):
            memory.add("x", user_id="alice", colour="red")
        with pytest.raises(ValueError, match="not found"):
            memory.delete("x")
    memory.close()
    with sync.Memory(database_url) as own:
        again = Memory(memory=own)
        assert len(texts(again.get_all(**ALICE))) == 1
        again.close()
        assert own.admin.agents()[0].id == "mem0"


def test_python_of_the_page_finds_what_it_added(
    database_url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MEMORY_SQL_URL", database_url)
    _, block = (block for block in blocks("docs/mem0.md") if block.language == "python")
    exec(block.text, {})
    assert capsys.readouterr().out == "['user said: I prefer green tea to coffee.']\n"


async def test_blocking_memory_works_where_a_loop_runs(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMORY_SQL_URL", database_url)
    memory = Memory()
    assert len(memory.add("I prefer green tea to coffee.", user_id="alice")["results"]) == 1
    memory.close()


async def test_awaited_memory_opens_itself_and_closes(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMORY_SQL_URL", database_url)
    async with AsyncMemory() as memory:
        assert await memory.get_all(**ALICE) == {"results": []}
    from_config = await AsyncMemory.from_config({})
    assert (await from_config.add("Alice sails.", infer=False, **ALICE))["results"]
    await from_config.close()
    await from_config.close()


SCRIPT = """
import os
from memory_sql.integrations.mem0 import Memory
memory = Memory()
found = memory.search("tea", filters={"user_id": "alice"})["results"]
child = os.fork()
if child:
    os.waitpid(child, 0)
    print([item["memory"] for item in found])
"""


@pytest.mark.slow
def test_second_process_and_its_child_end_without_close(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMORY_SQL_URL", database_url)
    with Memory() as memory:
        memory.add("Alice drinks tea.", user_id="alice", infer=False)
    done = subprocess.run(
        # From 3.12 on Python warns of a fork beside threads.
        [sys.executable, "-W", "ignore::DeprecationWarning:__main__", "-c", SCRIPT],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
        env=dict(os.environ),
    )
    assert (done.stdout, done.stderr) == ("['Alice drinks tea.']\n", "")
