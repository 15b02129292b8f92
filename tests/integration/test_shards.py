"""One memory over several databases: where agents are placed, which call goes where, what happens without one of them."""

from __future__ import annotations

import asyncio
import inspect
import io
import logging
import os
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Any

import pytest
from sqlalchemy import create_engine
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker, create_async_engine
from sqlalchemy.orm import Session

from memory_sql import sync
from memory_sql.config import Settings
from memory_sql.db.joining import join
from memory_sql.db.roles import Roles
from memory_sql.domain.keys import RIGHTS
from memory_sql.domain.selection import Selection
from memory_sql.errors import (
    ConfigurationError,
    DividedAgentError,
    InputError,
    InvalidIdError,
    NotFoundError,
    SchemaError,
    ShardError,
)
from memory_sql.jobs import seats
from memory_sql.memory import Memory
from memory_sql.resources.faces import FACES
from memory_sql.server import create_app
from memory_sql.shards import routing
from memory_sql.shards.combining import COMBINED
from memory_sql.worker import Worked, Worker
from tests import recycling
from tests.asgi import lived
from tests.commands import memory_sql
from tests.conftest import as_login
from tests.fakes import Parrot, Scripted, extracted
from tests.recycling import administer
from tests.sharding import asked, away, bring_back, clean, fresh, joined, take_away
from tests.warm import Engines

MIA: dict[str, Any] = {"agent_id": "ada", "user_id": "mia"}
HOSTILE = [
    "a'; DROP TABLE memory.agents; --",
    'q"uoted"',
    "日本語の代理人",
    "x" * 255,
    "%s$1{}\\",
    "NULL",
    "Ada",
    "ada ",
]
ZEROES = "00000000-0000-4000-8000-00000000000A"


@pytest.fixture(scope="module")
async def three(server_url: str, template: str, engines: Engines) -> AsyncIterator[dict[str, str]]:
    async with joined(server_url, template, "a", "b", "c") as made:
        yield made
        await engines.drop(made.values())


@pytest.fixture
async def urls(three: dict[str, str], engines: Engines) -> AsyncIterator[dict[str, str]]:
    """Three shards that have joined and hold nothing."""
    async with engines.kept(three.values()):
        yield three
    await clean(three)


@pytest.fixture
async def own_urls(server_url: str, template: str) -> AsyncIterator[dict[str, str]]:
    """The same, for a test that breaks them."""
    async with joined(server_url, template, "a", "b", "c") as made:
        yield made


@pytest.fixture
async def memory(urls: dict[str, str], settings: Settings) -> AsyncIterator[Memory]:
    async with Memory(shards=urls, settings=settings) as opened:
        yield opened


async def where(urls: dict[str, str], agent_id: str) -> list[str]:
    """The shards that hold anything of the agent."""
    counted = "SELECT count(*) FROM memory.scopes s JOIN memory.agents a USING (agent_key) WHERE a.agent_id = :agent"
    return [name for name, url in urls.items() if (await asked(url, counted, agent=agent_id))[0][0]]


async def placed(urls: dict[str, str]) -> dict[str, str]:
    return dict(await asked(urls["a"], "SELECT agent_id, shard FROM memory.agent_shards"))


# The table of calls


def public_calls() -> dict[str, Any]:
    calls = dict(routing.calls_of(Memory))
    for face in FACES:
        calls |= {f"{face}.{name}": call for name, call in routing.calls_of(routing.face_of(face))}
    return calls


def test_each_public_call_has_one_place_to_go() -> None:
    """By its agent, or it is combined, of the home, refused, or done by the memory itself."""
    sets = (routing.OF_HOME, routing.REFUSED, routing.OF_ITSELF, COMBINED)
    calls = public_calls()
    assert not set().union(*sets) - set(calls)
    for name, call in calls.items():
        agent = inspect.signature(call).parameters.get("agent_id")
        is_routed = agent is not None and agent.default is inspect.Parameter.empty
        listed = [name in one for one in sets]
        if name in routing.REFUSED:
            assert sum(listed) == 1, name
        else:
            assert sum(listed) + is_routed == 1, f"{name}: say in memory_sql/shards where a call without an agent goes"
    assert set(calls) > routing.CREATES


def test_properties_of_faces_are_known() -> None:
    """A property can't be routed by name: each needs a line in `routing._face`."""
    found = {
        f"{face}.{name}"
        for face in FACES
        for name, member in vars(routing.face_of(face)).items()
        if isinstance(member, property) and not name.startswith("_")
    }
    assert found == {"work.refusal"}


async def test_memory_of_one_database_has_no_wrapper(database_url: str, settings: Settings) -> None:
    async with Memory(database_url, settings=settings) as memory:
        await memory.observe("Likes tea.", **MIA)
        assert memory._spread is None
        assert set(vars(memory)) == {"settings", "_runtime"}
        assert type(memory.observations) is routing.face_of("observations")


# Joining


@pytest.mark.slow
async def test_shards_share_the_key_and_number_their_agents_apart(urls: dict[str, str]) -> None:
    keys = {(await asked(url, "SELECT key FROM memory.installation"))[0][0] for url in urls.values()}
    ids = {(await asked(url, "SELECT id FROM memory.installation"))[0][0] for url in urls.values()}
    assert (len(keys), len(ids)) == (1, 3)
    for number, url in enumerate(urls.values()):
        ((key,),) = await asked(url, "INSERT INTO memory.agents (agent_id) VALUES ('x') RETURNING agent_key")
        assert key == number * 10**10 + 1


async def test_joining_again_changes_nothing(urls: dict[str, str]) -> None:
    asks = "SELECT i.*, (SELECT last_value FROM memory.agents_agent_key_seq) FROM memory.installation i"
    before = {name: await asked(url, asks) for name, url in urls.items()}
    assert await join(urls, recycling.SCHEMA) == {"a": "home", "b": "shard", "c": "shard"}
    assert {name: await asked(url, asks) for name, url in urls.items()} == before


@pytest.mark.slow
async def test_database_with_agents_can_be_the_home_but_not_join(
    server_url: str, template: str, settings: Settings
) -> None:
    async with fresh(server_url, template, "a", "b") as urls:
        async with Memory(urls["b"], settings=settings) as alone:
            await alone.observe("Likes tea.", **MIA)
        await asked(urls["b"], "UPDATE memory.installation SET key = sha256('other')")
        with pytest.raises(ConfigurationError, match=r"b can't join.*has agents already.*name it first"):
            await join(urls, recycling.SCHEMA)
        assert await asked(urls["a"], "SELECT shard FROM memory.shards") == []
        urls = {"b": urls["b"], "a": urls["a"]}
        await join(urls, recycling.SCHEMA)
        async with Memory(shards=urls, settings=settings) as memory:
            assert [one.content for one in await memory.observations.list(**MIA)] == ["Likes tea."]
            await memory.observe("Likes tea.", agent_id="bob", user_id="mia")
        assert await where(urls, "ada") == ["b"]
        assert await where(urls, "bob") == ["a"]


async def test_home_is_the_one_with_the_map_wherever_it_is_named(urls: dict[str, str], settings: Settings) -> None:
    turned = dict(reversed(urls.items()))
    async with Memory(shards=turned, settings=settings) as memory:
        await memory.observe("Likes tea.", **MIA)
    assert await placed(urls) == {"ada": "a"}
    assert await join(turned, recycling.SCHEMA) == {"c": "shard", "b": "shard", "a": "home"}


@pytest.mark.slow
async def test_prices_are_in_each_shard_also_in_one_that_joins(
    server_url: str, template: str, settings: Settings
) -> None:
    asks = "SELECT model, currency FROM memory.prices"
    async with fresh(server_url, template, "a", "b", "c") as urls:
        two = {name: urls[name] for name in "ab"}
        await join(two, recycling.SCHEMA)
        async with Memory(shards=two, settings=settings) as memory:
            await memory.models.set_price("m", input_per_million=1, output_per_million=2, currency="EUR")
            assert [price.model for price in await memory.models.prices()] == ["m"]
        await join(urls, recycling.SCHEMA)
        for url in urls.values():
            assert await asked(url, asks) == [("m", "EUR")]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("named", "says"),
    [
        ("unjoined", "the database of a hasn't joined; run `memory-sql db upgrade`"),
        ("new", "the database of d hasn't joined"),
        ("swapped", "the database of b is the shard c of these; correct its URL"),
        ("twice", "are the homes of different shards, or the same database"),
        ("missing", "the map in a also has c, which isn't named"),
        ("foreign", "each keep a map"),
    ],
)
async def test_wrong_shards_are_not_opened(
    urls: dict[str, str], server_url: str, template: str, settings: Settings, named: str, says: str
) -> None:
    a, b, c = urls.values()
    async with joined(server_url, template, "x") as others, fresh(server_url, template, "e") as empty:
        wrong = {
            "unjoined": {"a": empty["e"]},
            "new": {**urls, "d": empty["e"]},
            "swapped": {"a": a, "b": c, "c": b},
            "twice": {"a": a, "b": a},
            "missing": {"a": a, "b": b},
            "foreign": {**urls, "x": others["x"]},
        }[named]
        with pytest.raises(ConfigurationError, match=says):
            await Memory(shards=wrong, settings=settings).open()
        memory = Memory(shards=urls, settings=settings)
        await memory.open()  # nothing of it is left
        await memory.close()


@pytest.mark.slow
async def test_shard_with_another_key_is_not_opened(own_urls: dict[str, str], settings: Settings) -> None:
    await asked(own_urls["b"], "UPDATE memory.installation SET key = sha256('other')")
    with pytest.raises(ConfigurationError, match="the database of b has another key than the home"):
        await Memory(shards=own_urls, settings=settings).open()


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"url": "postgresql://nowhere/none"}, "leave out url"),
        ({"settings": Settings(url="postgresql://nowhere/none", llm="offline")}, "leave out url"),
        ({"shards": {}}, "names no shards"),
        ({"shards": {"A b": "postgresql://nowhere/none"}}, "the name of a shard"),
        ({"shards": {"a": ""}}, "a needs a URL"),
    ],
)
def test_shards_alone_name_the_databases(given: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        Memory(**{"shards": {"a": "postgresql://nowhere/none"}, **given})


@pytest.mark.parametrize("form", ["a={a} b={b}", '{{"a": "{a}", "b": "{b}"}}', " a={a}\n b={b} "])
def test_setting_is_read_in_each_form(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMORY_SQL_SHARDS", form.format(a="postgresql://u:pw@x/a", b="postgresql://u:pw@x/b"))
    memory = Memory()
    assert list(memory._spread.shards) == ["a", "b"]
    assert "pw" not in repr(memory.settings)


@pytest.mark.parametrize("text", ["postgresql://x/a", "a=", "{", "[1]", "a=x a=y", '{"a": 1}', "1=x"])
def test_setting_that_names_no_shards_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match="shards"):
        Settings(shards=text)


# Placing


@pytest.mark.slow
async def test_new_agents_go_where_the_fewest_are_and_stay(memory: Memory, urls: dict[str, str]) -> None:
    for number in range(6):
        await memory.observe("Likes tea.", agent_id=f"agent-{number}", user_id="mia")
    found = await placed(urls)
    assert [found[f"agent-{number}"] for number in range(6)] == list("abcabc")
    for agent_id, shard in found.items():
        assert await where(urls, agent_id) == [shard]
    await memory.observe("Likes jazz.", agent_id="agent-1", user_id="mia")
    assert await placed(urls) == found
    assert await asked(urls["a"], "SELECT shard, agents FROM memory.shards ORDER BY 1") == [
        ("a", 2),
        ("b", 2),
        ("c", 2),
    ]


async def test_reads_do_not_place(memory: Memory, urls: dict[str, str]) -> None:
    assert str(await memory.context(**MIA, message="Tea?")) == "<MemoryContext/>"
    assert await memory.observations.list(**MIA) == []
    assert await memory.admin.settings(agent_id="ada") == {}
    with pytest.raises(NotFoundError):
        await memory.admin.stats(agent_id="ada")
    assert await placed(urls) == {}


async def test_what_creates_an_agent_places_it(memory: Memory, urls: dict[str, str]) -> None:
    said = [{"role": "user", "content": "Hello."}]
    calls: dict[str, Callable[[str], Awaitable[object]]] = {
        "add": lambda agent: memory.add(said, agent_id=agent, user_id="mia", conversation_id="1"),
        "observe": lambda agent: memory.observe("Likes tea.", agent_id=agent, user_id="mia"),
        "configure": lambda agent: memory.configure(agent_id=agent, daily_tokens=1000),
        "groups.create": lambda agent: memory.groups.create("harbor", agent_id=agent),
        "scopes.create": lambda agent: memory.scopes.create("individual", agent_id=agent, owner_id="mia"),
        "holds.place": lambda agent: memory.holds.place(agent_id=agent, user_id="mia"),
        "people.merge": lambda agent: memory.people.merge(agent_id=agent, user_id="x", into_user_id="mia"),
    }
    assert set(calls) == routing.CREATES
    for name, call in calls.items():
        await call(name)
    found = await placed(urls)
    assert set(found) == set(calls)
    for name, url in urls.items():
        held = [agent for (agent,) in await asked(url, "SELECT agent_id FROM memory.agents")]
        assert sorted(held) == sorted(agent for agent, shard in found.items() if shard == name)


async def test_invalid_agent_is_not_placed(memory: Memory, urls: dict[str, str]) -> None:
    wrongs: list[Any] = ["", "x" * 256, "a\u200bda", None, 1.5]
    for wrong in wrongs:
        with pytest.raises(InputError):
            await memory.observe("Likes tea.", agent_id=wrong, user_id="mia")
    assert await placed(urls) == {}


@pytest.mark.slow
async def test_many_that_place_the_same_agents_at_once_agree(urls: dict[str, str], settings: Settings) -> None:
    agents = [f"agent-{number}" for number in range(8)]
    async with (
        Memory(shards=urls, settings=settings) as one,
        Memory(shards=dict(reversed(urls.items())), settings=settings) as other,
    ):
        calls = [
            memory.observe(f"Has boat {number}.", agent_id=agent, user_id="mia")
            for agent in agents
            for number, memory in enumerate([one, other, one, other])
        ]
        await asyncio.gather(*calls)
        for agent in agents:
            assert len(await where(urls, agent)) == 1
            assert len(await one.observations.list(agent_id=agent, user_id="mia")) == 4
    counts = dict(await asked(urls["a"], "SELECT shard, agents FROM memory.shards"))
    assert sum(counts.values()) == len(agents)


async def test_agent_that_came_into_a_shard_by_itself_is_found(urls: dict[str, str], settings: Settings) -> None:
    async with Memory(urls["c"], settings=settings) as alone:
        await alone.observe("Likes tea.", **MIA)
    async with Memory(shards=urls, settings=settings) as memory:
        assert [one.content for one in await memory.observations.list(**MIA)] == ["Likes tea."]
        await memory.observe("Likes jazz.", **MIA)
    assert await placed(urls) == {"ada": "c"}
    assert await where(urls, "ada") == ["c"]


async def test_agent_in_two_shards_is_an_error_until_one_is_erased(urls: dict[str, str], settings: Settings) -> None:
    for name in "bc":
        async with Memory(urls[name], settings=settings) as alone:
            await alone.observe(f"Likes {name}.", **MIA)
    async with Memory(shards=urls, settings=settings) as memory:
        for call in (memory.observations.list(**MIA), memory.observe("Likes tea.", **MIA)):
            with pytest.raises(DividedAgentError, match="shards b and c both hold agent ada") as raised:
                await call
            assert raised.value.shards == ("b", "c")
        assert await placed(urls) == {}
        async with Memory(urls["b"], settings=settings) as alone:
            await alone.forget(Selection(everything=True), agent_id="ada")
        assert [one.content for one in await memory.observations.list(**MIA)] == ["Likes c."]
    assert await placed(urls) == {"ada": "c"}


@pytest.mark.parametrize("agent_id", HOSTILE)
async def test_any_id_of_an_agent_is_kept_as_it_is(memory: Memory, urls: dict[str, str], agent_id: str) -> None:
    if agent_id != agent_id.strip():
        with pytest.raises(InputError):
            await memory.observe("Likes tea.", agent_id=agent_id, user_id="mia")
        return
    await memory.observe("Likes jazz.", agent_id="ada", user_id="mia")
    await memory.observe("Likes tea.", agent_id=agent_id, user_id="mia")
    assert [one.content for one in await memory.observations.list(agent_id=agent_id, user_id="mia")] == ["Likes tea."]
    assert await where(urls, agent_id) == ["b"]


async def test_ids_that_are_written_differently_are_one_agent(memory: Memory, urls: dict[str, str]) -> None:
    await memory.observe("Likes tea.", agent_id=7, user_id="mia")
    await memory.observe("Likes jazz.", agent_id="7", user_id="mia")
    await memory.observe("Likes tea.", agent_id=ZEROES, user_id="mia")
    await memory.observe("Likes jazz.", agent_id=ZEROES.lower(), user_id="mia")
    assert await placed(urls) == {"7": "a", ZEROES.lower(): "b"}


# The map in the process


async def test_known_agent_costs_no_statement_for_the_map(memory: Memory, urls: dict[str, str]) -> None:
    await memory.observe("Likes tea.", **MIA)
    await memory.observe("Likes tea.", agent_id="bob", user_id="mia")
    await asked(urls["a"], "UPDATE memory.agent_shards SET shard = 'c'")  # nobody raises the version
    assert len(await memory.observations.list(agent_id="bob", user_id="mia")) == 1


async def test_what_has_moved_is_looked_for_anew_once_the_version_rises(
    memory: Memory, urls: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    await memory.observe("Likes tea.", agent_id="bob", user_id="mia")
    await asked(urls["a"], "UPDATE memory.agent_shards SET shard = 'c'")
    await asked(urls["a"], "UPDATE memory.shards SET version = 100 WHERE shard = 'c'")
    monkeypatch.setattr("memory_sql.shards.places.LOOK_SECONDS", 0.0)
    assert await memory.observations.list(agent_id="bob", user_id="mia") == []


# The whole path


ANSWERS = {
    "ada": ["Mia likes the berth near the crane.", "Mia is called Mia."],
    "bob": ["Mia keeps bees.", "Mia sails on Sundays."],
}


async def live(memory: Memory, llm: Scripted, agent: str) -> list[str]:
    """What the agent knows at each step, without the numbers of scopes, which each database counts for itself."""
    who: dict[str, Any] = {"agent_id": agent, "user_id": "mia"}
    first, second = ANSWERS[agent]
    told = []

    async def tell() -> None:
        for assembly in ("eden", "digest"):
            shown = str(await memory.context(**who, message="What does Mia like?", assembly=assembly, retrieve=True))
            told.append(re.sub(r"\b([os])\d+", r"\1N", shown))

    llm.then(extracted((first, "individual"), (second, "individual")))
    said = [{"role": "user", "content": f"{first} {second}", "id": "m1"}]
    await memory.add(said, **who, conversation_id="monday")
    formed = await memory.conversations.form(agent_id=agent, conversation_id="monday")
    await tell()
    llm.then(f"{first} {second}")
    await memory.scopes.consolidate(agent_id=agent, scope_id=formed.observations[0].scope.id)
    await tell()
    fact = await memory.observe("Mia drinks tea.", **who, fact_key="drink", tags=["taste"])
    await memory.observations.confirm(fact.id, **who)
    await memory.observe("Mia drinks coffee.", **who, fact_key="drink")
    await memory.groups.create("harbor", agent_id=agent)
    await memory.groups.add_member(agent_id=agent, group_id="harbor", user_id="mia")
    await memory.observe("The boat needs paint.", agent_id=agent, group_id="harbor")
    await tell()
    assert (await memory.search("coffee", **who)).results
    await memory.forget(formed.observations[1].id, agent_id=agent, wait=False)
    await tell()
    await memory.people.rename(agent_id=agent, kind="group", old="harbor", new="port")
    await memory.add([{"role": "user", "content": "Hello."}], **who, conversation_id="tuesday")
    receipt = await memory.forget(Selection(conversation_id="tuesday"), agent_id=agent, wait=False)
    assert receipt.found
    await tell()
    await memory.work.maintain(agent_id=agent)
    assert [line async for line in memory.people.export(**who)]
    await memory.forget(Selection(user_id="mia"), agent_id=agent)
    await tell()
    assert not [one for one in told[-2:] if first in one or second in one]
    return told


@pytest.mark.slow
async def test_agents_in_two_shards_know_byte_for_byte_what_they_know_in_one_database(
    urls: dict[str, str], database_url: str, settings: Settings, clock: Any
) -> None:
    llm = Scripted()
    async with Memory(database_url, llm, settings, clock=clock) as alone:
        expected = {agent: await live(alone, llm, agent) for agent in ANSWERS}
    async with Memory(None, llm, settings, shards=urls, clock=clock) as memory:
        told = {agent: await live(memory, llm, agent) for agent in ANSWERS}
        assert await memory.admin.verify(hashes=True) == []
    assert told == expected
    assert all(any(ANSWERS[agent][0] in one for one in told[agent]) for agent in ANSWERS)
    assert await placed(urls) == {"ada": "a", "bob": "b"}
    ((key,),) = await asked(urls["b"], "SELECT agent_key FROM memory.agents")
    assert key > 10**10


# Calls of all


async def filled(memory: Memory) -> None:
    for agent in ("ada", "bob", "cleo"):
        await memory.add(
            [{"role": "user", "content": "My berth is near the crane. Please remember that."}],
            agent_id=agent,
            user_id="mia",
            conversation_id="1",
        )


@pytest.mark.slow
async def test_lists_and_counts_are_of_all_shards(memory: Memory) -> None:
    await filled(memory)
    assert [one.id for one in await memory.admin.agents()] == ["ada", "bob", "cleo"]
    assert [one.id for one in await memory.admin.agents(after="ada", limit=1)] == ["bob"]
    backlog = await memory.work.backlog()
    assert (backlog.due_conversations, backlog.unanswered) == (3, ())
    assert (await memory.work.backlog(agent_id="bob")).due_conversations == 1
    assert [one.agent_id for one in await memory.work.waiting()] == ["ada", "bob", "cleo"]
    assert len(await memory.work.waiting(limit=2)) == 2
    assert await memory.work.late(hours=0)
    assert await memory.admin.verify() == []
    done = await memory.run_due()
    assert len(done.formed) == 3
    assert not done.failed
    (cost,) = await memory.work.costs()
    assert cost.runs == 3
    assert (await memory.work.backlog()).due_conversations == 0
    assert (await memory.work.maintain()).complete
    assert (await memory.work.embed()).embedded == 0
    assert (await memory.work.recheck()).rechecked == ()
    assert await memory.work.dead() == await memory.work.failures() == []
    assert [part.partition("=")[0] for part in (await memory.admin.position()).split()] == ["a", "b", "c"]
    assert memory.work.refusal is None


async def test_export_of_a_view_has_one_header(memory: Memory) -> None:
    await filled(memory)
    to = io.BytesIO()
    assert await memory.admin.export("v_messages", to) == 3
    lines = to.getvalue().decode().splitlines()
    assert len(lines) == 4
    assert [line.split(",")[0] for line in lines].count("agent_id") == 1
    one = io.BytesIO()
    assert await memory.admin.export("v_messages", one, agent_id="bob") == 1


async def test_person_is_forgotten_in_all_shards(memory: Memory, urls: dict[str, str]) -> None:
    await filled(memory)
    key = await memory.keys.create("hers", rights=["read"], user_id="mia")
    told = await memory.people.forget("mia", dry_run=True)
    assert set(told.agents) == {"ada", "bob", "cleo"}
    done = await memory.people.forget("mia")
    assert {agent: one.counts["messages"] for agent, one in done.agents.items()} == {"ada": 1, "bob": 1, "cleo": 1}
    assert await memory.keys.find(key.secret) is None
    for url in urls.values():
        assert await asked(url, "SELECT 1 FROM memory.messages WHERE content IS NOT NULL") == []
    async with memory.database.transaction() as session:
        with pytest.raises(InputError, match="leave out session="):
            await memory.people.forget("mia", session=session)


async def test_id_that_one_shard_alone_knows_is_forgotten_there(memory: Memory, urls: dict[str, str]) -> None:
    """Where nothing is found under an id that would be refused now, it is refused; not where another shard has it."""
    await filled(memory)
    older = "Zoe\u0308"
    with pytest.raises(InvalidIdError, match="normal form C"):
        await memory.people.forget(older)
    await memory.observe("Likes rum.", agent_id="bob", user_id="zoe")
    for url in urls.values():
        await asked(url, "UPDATE memory.scopes SET owner = 'u:' || :id WHERE owner = 'u:zoe'", id=older)
        await asked(url, "UPDATE memory.evidence SET user_id = :id WHERE user_id = 'zoe'", id=older)
    assert set((await memory.people.forget(older)).agents) == {"bob"}


async def test_keys_are_in_the_home_alone(memory: Memory, urls: dict[str, str]) -> None:
    key = await memory.keys.create("chat", rights=["read"])
    assert [one.key_id for one in await memory.keys.list()] == [key.key_id]
    assert {name: len(await asked(url, "SELECT 1 FROM memory.api_keys")) for name, url in urls.items()} == {
        "a": 1,
        "b": 0,
        "c": 0,
    }
    code = await memory.keys.link(key.secret)
    assert await memory.keys.redeem(code) is not None


@pytest.mark.slow
async def test_journal_of_all_shards_is_one_file(urls: dict[str, str], tmp_path: Any) -> None:
    path = tmp_path / "journal"
    async with Memory(shards=urls, settings=Settings(llm="offline", forget_journal=path)) as memory:
        await filled(memory)
        for agent in ("ada", "bob"):
            await memory.forget(Selection(user_id="mia"), agent_id=agent)
        status = await memory.admin.journal_status()
        assert (status.missing, status.planned, status.others) == ((), (), 0)
    for name in "ab":  # as if each came from an older backup
        await asked(urls[name], "DELETE FROM memory.events WHERE kind = 'forget'")
        await asked(urls[name], "UPDATE memory.installation SET journal_read = 0, journal_tail = ''")
    memory = Memory(shards=urls, settings=Settings(llm="offline", forget_journal=path))
    await memory.open(restoring=True)
    assert len((await memory.admin.journal_status()).missing) == 2
    assert len(await memory.admin.restore_check(path)) == 2
    assert (await memory.admin.journal_status()).missing == ()
    await memory.close()


async def test_imports_are_of_one_database(memory: Memory) -> None:
    with pytest.raises(InputError, match="an import fills one database"):
        await memory.imports.list()


# The host's transaction


@pytest.fixture
async def hosts(urls: dict[str, str]) -> AsyncIterator[dict[str, async_sessionmaker[AsyncSession]]]:
    """Sessions of a host's own engines, by the shard."""
    engines = {name: create_async_engine(url) for name, url in urls.items()}
    yield {name: async_sessionmaker(engine) for name, engine in engines.items()}
    for engine in engines.values():
        await engine.dispose()


async def test_session_must_be_of_the_agents_shard(memory: Memory, hosts: Any, urls: dict[str, str]) -> None:
    await memory.observe("Likes tea.", **MIA)
    async with hosts["b"].begin() as session:
        with pytest.raises(InputError, match="session= is of the database"):
            await memory.observe("Likes jazz.", **MIA, session=session)
    async with hosts["a"].begin() as session:
        await memory.observe("Likes jazz.", **MIA, session=session)
    assert len(await memory.observations.list(**MIA)) == 2


async def test_agent_that_is_created_in_a_hosts_transaction_is_placed_in_its_shard(
    memory: Memory, hosts: Any, urls: dict[str, str], database_url: str
) -> None:
    async with hosts["c"].begin() as session:
        await memory.observe("Likes tea.", agent_id="new", user_id="mia", session=session)
        await memory.observe("Likes tea.", agent_id="newer", user_id="mia", session=session)
    assert await placed(urls) == {"new": "c", "newer": "c"}
    stranger = create_async_engine(database_url)
    async with async_sessionmaker(stranger).begin() as session:
        with pytest.raises(InputError, match="session= is of the database"):
            await memory.observe("Likes tea.", agent_id="newest", user_id="mia", session=session)
    await stranger.dispose()


# Without one of them


@pytest.mark.slow
async def test_one_shard_away_stops_only_its_own_agents(memory: Memory, urls: dict[str, str], server_url: str) -> None:
    await filled(memory)
    async with away(server_url, urls["b"]):
        assert (await memory.conversations.unformed(agent_id="ada")) == ["1"]
        await memory.observe("Likes tea.", agent_id="cleo", user_id="mia")
        for call in (
            memory.conversations.unformed(agent_id="bob"),
            memory.admin.agents(),
            memory.admin.verify(),
            memory.work.waiting(),
            memory.work.maintain(),
            memory.people.forget("mia"),
            memory.observe("Likes tea.", agent_id="new", user_id="mia"),
            memory.context(agent_id="nobody", user_id="mia"),
        ):
            with pytest.raises(ShardError, match=r"^shard b: ") as raised:
                await call
            assert list(raised.value.shards) == ["b"]
        with pytest.raises(ShardError, match=r"^shard b: "):
            [line async for line in memory.people.export(agent_id="bob", user_id="mia")]
        backlog = await memory.work.backlog()
        assert (backlog.due_conversations, backlog.unanswered) == (2, ("b",))
        done = await memory.run_due()
        assert len(done.formed) == 2
        assert list(done.failed) == ["shard b"]
        assert await placed(urls) == {"ada": "a", "bob": "b", "cleo": "c"}
        assert await asked(urls["a"], "SELECT 1 FROM memory.messages")  # nobody was forgotten by half
    assert (await memory.run_due()).formed[0].conversation_id == "1"
    assert (await memory.work.backlog()).unanswered == ()


async def test_shard_that_is_away_at_the_opening_is_opened_when_it_is_back(
    urls: dict[str, str], server_url: str, settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    async with Memory(shards=urls, settings=settings) as before:
        await filled(before)
    memory = Memory(shards=urls, settings=settings)
    async with away(server_url, urls["b"]):
        await memory.open()
        assert [record.message for record in caplog.records if "shard b" in record.message]
        assert (await memory.conversations.unformed(agent_id="cleo")) == ["1"]
        with pytest.raises(ShardError, match=r"^shard b: "):
            await memory.conversations.unformed(agent_id="bob")
    assert (await memory.conversations.unformed(agent_id="bob")) == ["1"]
    assert len(await memory.admin.agents()) == 3
    await memory.close()


async def test_without_the_home_nothing_opens_and_known_agents_go_on(
    memory: Memory, urls: dict[str, str], server_url: str, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    await filled(memory)
    monkeypatch.setattr("memory_sql.shards.places.LOOK_SECONDS", 0.0)
    async with away(server_url, urls["a"]):
        assert (await memory.conversations.unformed(agent_id="bob")) == ["1"]
        with pytest.raises(ShardError, match=r"^shard a: "):
            await memory.observe("Likes tea.", agent_id="new", user_id="mia")
        with pytest.raises(ShardError, match=r"^shard a: "):
            await Memory(shards=urls, settings=settings).open()


# The worker


class Heard(logging.Handler):
    """What the worker says, and when it says more."""

    def __init__(self) -> None:
        super().__init__()
        self.told: list[str] = []
        self._more = asyncio.Event()

    def emit(self, record: logging.LogRecord) -> None:
        self.told.append(record.getMessage())
        self._more.set()

    def begun(self, shard: str) -> int:
        """How often it has said that this shard can't be reached."""
        return sum(one.startswith(f"shard {shard}: ") and "trying again" in one for one in self.told)

    async def until(self, is_so: Callable[[], Awaitable[bool]]) -> None:
        async with asyncio.timeout(60):
            self._more.clear()
            while not await is_so():
                await self._more.wait()
                self._more.clear()

    async def formed(self, memory: Memory, *agents: str) -> None:
        async def all_are() -> bool:
            return not [one for one in agents if await memory.conversations.unformed(agent_id=one)]

        await self.until(all_are)


@pytest.fixture
def heard(caplog: pytest.LogCaptureFixture) -> Iterator[Heard]:
    handler, log = Heard(), logging.getLogger("memory_sql.worker")
    caplog.set_level("INFO", "memory_sql.worker")
    log.addHandler(handler)
    yield handler
    log.removeHandler(handler)


@asynccontextmanager
async def running(worker: Worker) -> AsyncIterator[asyncio.Task[Worked]]:
    stop = asyncio.Event()
    task = asyncio.create_task(worker.run(stop))
    yield task
    stop.set()
    await task


@pytest.mark.slow
async def test_one_worker_works_in_all_shards(memory: Memory, heard: Heard) -> None:
    await filled(memory)
    worker = Worker(memory, concurrency=1, poll_seconds=60)  # so that only notifications and free seats wake it
    async with running(worker) as working:
        await heard.formed(memory, "ada", "bob", "cleo")
        await memory.add(
            [{"role": "user", "content": "Please remember that I keep bees."}],
            agent_id="bob",
            user_id="mia",
            conversation_id="2",
        )
        await heard.formed(memory, "bob")
        health = await worker.health()
    assert health.is_well
    assert health.backlog is not None
    assert health.backlog.unanswered == ()
    assert working.result().formed == 4


@pytest.mark.slow
async def test_worker_once_works_in_all_shards(memory: Memory) -> None:
    await filled(memory)
    assert (await Worker(memory).run_once()).formed == 3
    assert (await Worker(memory, agent_id="ada").run_once()).formed == 0


@pytest.mark.slow
async def test_worker_goes_on_without_a_shard_and_takes_it_up_when_it_is_back(
    urls: dict[str, str], server_url: str, settings: Settings, heard: Heard
) -> None:
    async with Memory(shards=urls, settings=settings) as before:
        await filled(before)

    async def c_is_missed() -> bool:
        return heard.begun("c") > 0

    async with AsyncExitStack() as all_of_it:
        gone = await all_of_it.enter_async_context(AsyncExitStack())
        await gone.enter_async_context(away(server_url, urls["b"]))
        memory = await all_of_it.enter_async_context(Memory(shards=urls, settings=settings))
        worker = Worker(memory, poll_seconds=0.1)
        working = await all_of_it.enter_async_context(running(worker))
        await heard.formed(memory, "ada", "cleo")
        health = await worker.health()
        assert health.is_well
        assert health.backlog is not None
        assert health.backlog.unanswered == ("b",)
        with pytest.raises(ShardError, match="shard b"):
            await Worker(memory).run_once()
        await gone.aclose()
        await heard.formed(memory, "bob")
        await gone.enter_async_context(away(server_url, urls["c"]))  # one that was open
        await memory.add(
            [{"role": "user", "content": "Please remember that I keep bees."}],
            agent_id="ada",
            user_id="mia",
            conversation_id="2",
        )
        await heard.formed(memory, "ada")
        await heard.until(c_is_missed)
        await gone.aclose()
        await memory.add(
            [{"role": "user", "content": "Please remember that I keep bees."}],
            agent_id="cleo",
            user_id="mia",
            conversation_id="2",
        )
        await heard.formed(memory, "cleo")
    assert working.result().formed == 5
    assert (heard.begun("a"), heard.begun("b"), heard.begun("c")) == (0, 1, 1)


@pytest.mark.slow
async def test_worker_ends_with_a_shard_that_needs_another_release(
    own_urls: dict[str, str], settings: Settings
) -> None:
    async with Memory(shards=own_urls, settings=settings) as memory:
        await filled(memory)
        await asked(own_urls["b"], "ALTER TABLE memory.conversations RENAME TO conversation")
        async with asyncio.timeout(60):
            with pytest.raises(SchemaError):
                await Worker(memory, poll_seconds=0.1).run(asyncio.Event())


async def test_seat_of_one_who_asks_for_long_is_left_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seats, "ASKING_SECONDS", 0.0)
    one, look, other = seats.Seats(1), asyncio.Event(), asyncio.Event()
    assert one.take(look)
    assert not one.take(other)
    with one.asking() as keep:
        await other.wait()
        assert one.take(other)
        keep()  # what was found late is done beside the other's
    one.give_back()
    assert not one.take(look)
    one.give_back()
    assert one.take(look)


@pytest.mark.slow
async def test_role_of_an_application_uses_shards_behind_walls(
    server_url: str, walled_template: str, roles: Roles, settings: Settings
) -> None:
    async with joined(server_url, walled_template, "a", "b") as urls:
        async with Memory(
            shards={name: as_login(url, roles) for name, url in urls.items()}, settings=settings
        ) as memory:
            for agent in ("ada", "bob"):
                await memory.observe("Likes tea.", agent_id=agent, user_id="mia")
                assert len(await memory.observations.list(agent_id=agent, user_id="mia")) == 1
            assert [one.id for one in await memory.admin.agents()] == ["ada", "bob"]
            assert await memory.admin.verify() == []
        assert await placed(urls) == {"ada": "a", "bob": "b"}


async def test_models_are_shared(urls: dict[str, str]) -> None:
    async with Memory(shards=urls, settings=Settings(llm="offline")) as memory:
        runtimes = [shard.memory._runtime for shard in memory._spread.shards.values()]
        assert len({id(runtime.llm) for runtime in runtimes}) == 1


async def test_host_gives_one_model_to_all(urls: dict[str, str], settings: Settings) -> None:
    llm = Parrot()
    async with Memory(None, llm, settings, shards=urls) as memory:
        await filled(memory)
        assert len((await memory.run_due()).formed) == 3


def test_opening_twice_is_refused_and_closing_twice_is_not(urls: dict[str, str], settings: Settings) -> None:
    async def work() -> None:
        memory = Memory(shards=urls, settings=settings)
        with pytest.raises(InputError, match="not open"):
            await memory.observe("Likes tea.", **MIA)
        await memory.open()
        with pytest.raises(InputError, match="open already"):
            await memory.open()
        await memory.close()
        await memory.close()
        async with memory:
            await memory.observe("Likes tea.", **MIA)

    asyncio.run(work())


# The other doors


def test_memory_that_blocks_has_shards_as_well(urls: dict[str, str], settings: Settings) -> None:
    with sync.Memory(settings=settings, shards=urls) as memory:
        for agent in ("ada", "bob"):
            memory.observe("Likes tea.", agent_id=agent, user_id="mia")
        assert [one.id for one in memory.admin.agents()] == ["ada", "bob"]
        assert memory.work.backlog().unanswered == ()
        assert list(memory.people.export(agent_id="bob", user_id="mia"))
        engine = create_engine(urls["b"].replace("+asyncpg", "+psycopg"))
        with Session(engine) as session:
            memory.observe("Likes jazz.", agent_id="bob", user_id="mia", session=session)
            session.commit()
            with pytest.raises(InputError, match="session= is of the database"):
                memory.observe("Likes jazz.", agent_id="ada", user_id="mia", session=session)
        engine.dispose()
        assert len(memory.observations.list(agent_id="bob", user_id="mia")) == 2
        assert len(memory.observations.list(agent_id="ada", user_id="mia")) == 1
    assert asyncio.run(placed(urls)) == {"ada": "a", "bob": "b"}


async def test_server_serves_all_shards(memory: Memory, urls: dict[str, str], server_url: str) -> None:
    key = await memory.keys.create("chat", rights=RIGHTS)
    async with lived(create_app(memory, mcp=False, requests_per_minute=10**6)) as nobody:
        host = nobody.with_key(key.secret)
        asks, mia = "/v1/agents/{}/context".format, {"user_id": "mia"}
        for agent in ("ada", "bob"):
            said = {**mia, "text": "Likes tea."}
            assert (await host("POST", f"/v1/agents/{agent}/observations", said)).status in (200, 201)
        assert "Likes tea." in (await host("POST", asks("bob"), mia)).text
        async with away(server_url, urls["b"]):
            assert (await host("POST", asks("bob"), mia)).status == 503
            assert (await host("POST", asks("ada"), mia)).status == 200
            assert (await nobody("GET", "/health")).status == 200
    assert await placed(urls) == {"ada": "a", "bob": "b"}


@pytest.mark.slow
def test_commands_work_in_all_shards(
    server_url: str, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    names = {name: f"memory_sql_shard_{os.getpid()}_cli_{name}" for name in "ab"}
    for name in names.values():
        asyncio.run(administer(server_url, f"CREATE DATABASE {name}"))
        request.addfinalizer(partial(asyncio.run, administer(server_url, f"DROP DATABASE {name} WITH (FORCE)")))
    urls = {name: recycling.named(server_url, database) for name, database in names.items()}
    monkeypatch.setenv("MEMORY_SQL_SHARDS", " ".join(f"{name}={url}" for name, url in urls.items()))
    assert memory_sql("db", "check", code=1).err
    first = memory_sql("db", "upgrade")
    assert [line.partition(": ")[0] for line in first.out.splitlines()] == ["a", "b"]
    assert memory_sql("db", "upgrade", "--json").rows == memory_sql("db", "current", "--json").rows
    assert memory_sql("db", "check").out.count("up to date") == 2
    assert first.err == "memory-sql: database: shards a, b\n"
    for agent in ("ada", "bob"):
        memory_sql("observe", "Likes tea.", "--agent", agent, "--user", "mia")
    assert [row["id"] for row in memory_sql("admin", "agents", "--json").rows] == ["ada", "bob"]
    assert memory_sql("admin", "verify").out == "everything holds\n"
    assert "Likes tea." in memory_sql("context", "--agent", "bob", "--user", "mia").out
    assert [row["id"] for row in memory_sql("admin", "agents", "--url", urls["b"], "--json").rows] == ["bob"]
    assert memory_sql("worker", "--once").out
    asyncio.run(take_away(server_url, urls["b"]))
    assert memory_sql("work", "backlog").out.endswith("not counted  shards that don't answer: b\n")
    assert "shard b: " in memory_sql("admin", "agents", code=1).err
    asyncio.run(bring_back(server_url, urls["b"]))
    assert memory_sql("db", "vacuum").out.count("ran ") == 2
    for command in (["reset", "--yes"], ["downgrade", "base", "--yes"], ["renew", "--yes"]):
        refused = memory_sql("db", *command, code=1)
        assert "name one of their databases with --url" in refused.err
    memory_sql("db", "renew", "--yes", "--url", urls["a"])
    assert len(memory_sql("admin", "agents", "--json").rows) == 2
