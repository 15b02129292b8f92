"""All that any agent has of a person goes with one call, and the receipt says where others still name them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine

from memory_sql import sync
from memory_sql.config import Settings
from memory_sql.db.roles import Roles
from memory_sql.domain.selection import Selection
from memory_sql.errors import InputError
from memory_sql.lifecycle import journal
from memory_sql.memory import Memory
from tests.commands import memory_sql
from tests.conftest import as_login
from tests.database import rows
from tests.factories import message
from tests.fakes import Scripted

MIA = "mia"
OF_MIA = "SELECT count(*) FROM memory.observations WHERE content LIKE '%boats%'"


async def live(memory: Memory) -> None:
    """Three agents: two know Mia, one from a conversation in which she only spoke, and one doesn't."""
    await memory.observe("Mia keeps boats.", agent_id="ada", user_id=MIA)
    await memory.observe("Jonas sails.", agent_id="ada", user_id="jonas")
    await memory.add([message("I keep boats.", n=1)], agent_id="bob", user_id=MIA, conversation_id="s")
    await memory.observe("Lena rows.", agent_id="eve", user_id="lena")


async def test_one_call_forgets_a_person_of_all_agents(memory: Memory) -> None:
    await live(memory)
    planned = await memory.people.forget(MIA, dry_run=True)
    assert await rows(memory, OF_MIA) == [(1,)]
    receipt = await memory.people.forget(MIA, actor="dpo", reason="request 7")
    assert list(planned.agents) == list(receipt.agents) == ["ada", "bob"]
    assert (planned.dry_run, receipt.dry_run, planned.counts) == (True, False, receipt.counts)
    assert (receipt.counts["observations"], receipt.counts["messages"]) == (1, 1)
    assert await rows(memory, OF_MIA) == [(0,)]
    assert await rows(memory, "SELECT content FROM memory.messages") == [(None,)]
    events = "SELECT actor, reason FROM memory.events WHERE kind = 'forget'"
    assert await rows(memory, events) == [("dpo", "request 7")] * 2
    assert await rows(memory, "SELECT count(*) FROM memory.observations") == [(2,)]
    assert list(await memory.admin.verify()) == []


async def test_whom_nobody_knows_is_in_no_receipt(memory: Memory) -> None:
    await live(memory)
    assert (await memory.people.forget("nobody")).agents == {}


@pytest.mark.slow
async def test_who_is_only_spoken_of_or_stands_for_somebody_is_found(memory: Memory) -> None:
    await memory.people.merge(agent_id="ada", user_id="visitor", into_user_id=MIA)
    await memory.groups.create("harbor", agent_id="bob")
    await memory.groups.add_member("harbor", agent_id="bob", user_id=MIA)
    await memory.observe("Mia's boat leaks.", agent_id="eve", user_id="jonas")
    await rows(memory, "UPDATE memory.observations SET subjects = '{mia}'")
    assert list((await memory.people.forget(MIA, dry_run=True)).agents) == ["ada", "bob", "eve"]


async def test_it_is_one_transaction(memory: Memory, database_url: str) -> None:
    await live(memory)
    engine = create_async_engine(database_url.replace("postgresql://", "postgresql+asyncpg://"))
    async with AsyncSession(engine) as host, host.begin() as begun:
        assert list((await memory.people.forget(MIA, session=host)).agents) == ["ada", "bob"]
        await begun.rollback()
    await engine.dispose()
    assert await rows(memory, OF_MIA) == [(1,)]


async def test_two_at_once_end(memory: Memory) -> None:
    await live(memory)
    await asyncio.gather(*(memory.people.forget(user) for user in (MIA, "jonas", MIA)))
    assert await rows(memory, OF_MIA) == [(0,)]
    assert list(await memory.admin.verify()) == []


async def test_journal_has_an_entry_for_each_agent(database_url: str, llm: Scripted, tmp_path: Path) -> None:
    path = tmp_path / "journal"
    async with Memory(database_url, llm, Settings(llm="offline", forget_journal=path)) as memory:
        await live(memory)
        await memory.people.forget(MIA)
        assert [(entry.agent_id, done) for entry, done in journal.read(path).entries] == [("ada", True), ("bob", True)]


async def test_behind_walls(walled_database: str, roles: Roles, llm: Scripted, settings: Settings) -> None:
    async with Memory(as_login(walled_database, roles), llm, settings) as memory:
        await live(memory)
        assert list((await memory.people.forget(MIA)).agents) == ["ada", "bob"]
        assert list((await memory.people.forget(MIA, dry_run=True)).agents) == []


@pytest.mark.slow
def test_sync_face_and_command(database_url: str) -> None:
    with sync.Memory(database_url, settings=Settings(llm="offline")) as memory:
        memory.observe("Mia keeps boats.", agent_id="ada", user_id=MIA)
        memory.observe("Mia sails.", agent_id="bob", user_id=MIA)
        assert list(memory.people.forget(MIA, dry_run=True).agents) == ["ada", "bob"]
    at = ("--url", database_url)
    told = memory_sql("forget", "--all-agents", "--user", MIA, "--dry-run", *at).out
    assert ("agent ada\nwould be forgotten: " in told, "\nagent bob\nwould be forgotten: " in told) == (True, True)
    assert told.endswith(", of 2 agents together\n")
    found = memory_sql("forget", "--all-agents", "--user", MIA, "--yes", "--json", *at).value
    assert list(found["agents"]) == ["ada", "bob"]
    assert "no agent has anything of mia" in memory_sql("forget", "--all-agents", "--user", MIA, "--yes", *at).out
    for wrong in (("--all-agents",), ("--all-agents", "--user", MIA, "--tag", "x"), ("--all-agents", "--group", "g")):
        assert "--all-agents goes with --user" in memory_sql("forget", *wrong, "--yes", *at, code=1).err
    for neither in (("--user", MIA), ("--user", MIA, "--agent", "ada", "--all-agents")):
        assert "whose memory is it?" in memory_sql("forget", *neither, "--yes", *at, code=1).err


# Who still names them


async def test_receipt_says_where_others_still_name_them(memory: Memory, llm: Scripted) -> None:
    await memory.add([message("Hello.", n=1, name="Mia Berger")], agent_id="ada", user_id=MIA, conversation_id="s")
    jonas = await memory.observe("Mia Berger lent Jonas a boat.", agent_id="ada", user_id="jonas")
    llm.then("Mia lent Jonas a boat.")
    await memory.scopes.consolidate(agent_id="ada", scope_id=jonas.scope.id)
    group = await memory.observe("MIA pays for the harbour.", agent_id="ada", group_id="harbor")
    await memory.observe("The Miami office closes.", agent_id="ada", user_id="jonas")
    await memory.observe("Mia likes tea.", agent_id="ada", user_id=MIA)
    planned = await memory.forget(Selection(user_id=MIA), agent_id="ada", dry_run=True)
    receipt = await memory.forget(Selection(user_id=MIA), agent_id="ada")
    named = [(one.scope_id, one.versions, one.observations) for one in receipt.naming]
    assert named == [(jonas.scope.id, (1,), (jonas.id,)), (group.scope.id, (), (group.id,))]
    assert planned.naming == receipt.naming
    assert "boat" not in str(receipt)
    assert (await memory.forget(Selection(user_id="jonas"), agent_id="ada")).naming == ()


async def test_every_agent_is_looked_through_by_the_names_that_any_knows(memory: Memory) -> None:
    hello = [message("I like tea.", n=1, name="Mia Kowalski")]
    await memory.add(hello, agent_id="k1", user_id="u78", conversation_id="s")
    await memory.observe("Likes rum.", agent_id="k2", user_id="u78")
    said: dict[str, tuple[str, ...]] = {}
    for agent in ("k1", "k2", "k3"):
        others: dict[str, Any] = {"agent_id": agent, "user_id": "bob"}
        named = [
            await memory.observe("Somebody is ill, says u78.", **others),
            await memory.observe("Mia is ill.", **others),
            await memory.observe("Somebody pays.", **others, speaker="Mia Kowalski"),
            await memory.observe("Somebody rows.", **others, tags=["tea", "Mia"]),
            await memory.observe("Somebody sails.", **others, metadata={"of": [{"who": "by\nMia  Kowalski"}]}),
            await memory.observe("Somebody swims.", **others, metadata={"Mia": 1}),
            await memory.observe("Somebody runs.", **others, fact_key="runs:u78"),
        ]
        await memory.observe("Nobody.", **others, speaker="Miami", tags=["u780"], metadata={"a": "Miami"})
        said[agent] = tuple(one.id for one in named)
    await memory.observe("Nobody.", agent_id="k4", user_id="bob")
    planned = await memory.people.forget("u78", dry_run=True)
    done = await memory.people.forget("u78")
    for receipt in (planned, done):
        found = {agent: [one.observations for one in of.naming] for agent, of in receipt.agents.items()}
        assert found == {agent: [ids] for agent, ids in said.items()}
    assert [one.found for one in done.agents.values()] == [True, True, False]
    assert (done.agents["k3"].physical, done.agents["k3"].counts, planned.agents["k3"].dry_run) == (None, {}, True)
    assert len(await rows(memory, "SELECT 1 FROM memory.events WHERE kind = 'forget'")) == 2


async def test_one_agents_receipt_says_where_its_own_names_stand(memory: Memory) -> None:
    await memory.observe("Likes rum.", agent_id="ada", user_id=MIA)
    named = await memory.observe("Somebody pays.", agent_id="ada", user_id="jonas", tags=["Mia"])
    await memory.observe("Mia is ill.", agent_id="bob", user_id="jonas")
    receipt = await memory.forget(Selection(user_id=MIA), agent_id="ada")
    assert [one.observations for one in receipt.naming] == [(named.id,)]


@pytest.mark.parametrize("name", ["M. (x", "a|b.*", "Zoë\tde la Cruz", "日本太郎"])
async def test_any_name_is_looked_for_as_it_is(memory: Memory, name: str) -> None:
    await memory.add([message("Hello.", n=1, name=name)], agent_id="ada", user_id="u-1", conversation_id="s")
    said = await memory.observe(f"He met {' '.join(name.split())} today.", agent_id="ada", user_id="jonas")
    await memory.observe("Nobody.", agent_id="ada", user_id="jonas")
    receipt = await memory.forget(Selection(user_id="u-1"), agent_id="ada")
    assert [one.observations for one in receipt.naming] == [(said.id,)]


async def test_only_a_person_is_looked_for(memory: Memory) -> None:
    one = await memory.observe("Mia keeps boats.", agent_id="ada", user_id=MIA)
    await memory.observe("Mia again.", agent_id="ada", user_id="jonas")
    assert (await memory.forget(one.id, agent_id="ada")).naming == ()
    with pytest.raises(InputError):
        await memory.people.forget("")


def test_command_counts_and_lists_them_by_scope(database_url: str) -> None:
    at = ("--agent", "ada", "--url", database_url)
    memory_sql("observe", "Mia keeps boats.", "--user", MIA, *at)
    memory_sql("observe", "Mia has a secret.", "--user", "jonas", *at)
    told = memory_sql("forget", "--user", MIA, "--dry-run", *at).out
    assert "\nstill named by others: 0 versions of texts and 1 observation in 1 scope\n  s2  o2-1\n" in told
    assert "secret" not in told
