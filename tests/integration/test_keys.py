"""Keys of the HTTP server: what is stored, what is found, and for how long."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import text

from memory_sql.db.principals import service
from memory_sql.domain.keys import hash_of
from memory_sql.domain.links import code_of, new_link, told_of
from memory_sql.errors import InputError, NotFoundError
from memory_sql.memory import Memory
from memory_sql.resources.keys import STRANGERS
from tests.commands import memory_sql
from tests.database import are_waiting, rows, statements
from tests.factories import Clock

START = Clock().now


async def test_key_is_found_by_its_secret_which_is_stored_nowhere(memory: Memory) -> None:
    made = await memory.keys.create(" chat  service ", rights=["write", "read", "read"], agents=["ada"], actor="ops")
    assert (made.name, made.rights, made.agents, made.created_by) == (
        "chat service",
        ("read", "write"),
        ("ada",),
        "ops",
    )
    assert made.secret.startswith(made.prefix)
    assert made.secret not in repr(made)
    found = await memory.keys.find(made.secret)
    assert found is not None
    assert found.key_id == made.key_id
    ((stored,),) = await rows(memory, "SELECT to_jsonb(k)::text FROM memory.api_keys k")
    assert made.secret not in stored
    assert hash_of(made.secret).hex() in stored
    (listed,) = await memory.keys.list()
    assert str(listed.last_used_on) in stored
    for other in ("", "ms_", made.secret[:-1], made.secret + "x", "\ud800", "x" * 10_000):
        assert await memory.keys.find(other) is None


async def test_an_answer_is_kept_for_ten_seconds(database_url: str) -> None:
    clock = Clock()
    async with Memory(database_url, clock=clock) as serving, Memory(database_url, clock=clock) as other:
        made = await other.keys.create("chat", rights=["read"], expires_at=clock() + timedelta(days=2))
        assert await serving.keys.find(made.secret) is not None
        revoked = await other.keys.revoke(made.key_id)
        assert await other.keys.revoke(made.key_id) == revoked
        assert await other.keys.find(made.secret) is None
        assert await serving.keys.find(made.secret) is not None
        clock.now += timedelta(seconds=10)
        assert await serving.keys.find(made.secret) is None
        assert await serving.keys.list() == []
        (shown,) = await serving.keys.list(revoked=True)
        assert shown.revoked_at is not None
        brief = await other.keys.create("brief", rights=["read"], expires_at=clock() + timedelta(seconds=3))
        assert await serving.keys.find(brief.secret) is not None
        clock.now += timedelta(seconds=3)
        assert await serving.keys.find(brief.secret) is None  # though its answer is kept
        assert await serving.keys.list() == []
        with pytest.raises(NotFoundError):
            await serving.keys.revoke(99)


async def test_all_who_come_at_once_ask_once(memory: Memory) -> None:
    """When an answer ends under load, hundreds of requests with the same key come before there is a new one."""
    made = await memory.keys.create("chat", rights=["read"])
    with statements(memory) as seen:
        gone, *kept = [asyncio.create_task(memory.keys.find(made.secret)) for _ in range(100)]
        await asyncio.sleep(0)
        gone.cancel()  # though it has asked for all
        found = await asyncio.gather(*kept)
    assert {None if key is None else key.key_id for key in found} == {made.key_id}
    assert sum("api_keys" in statement for statement in seen) == 2  # the look-up, and the day of use
    with statements(memory) as seen:
        await memory.keys.find("ms_short")
    assert seen == []


async def test_look_up_under_way_does_not_outlive_a_revocation(memory: Memory) -> None:
    made = await memory.keys.create("chat", rights=["read"])
    async with memory.database.transaction(principal=service(None)) as unit:
        await unit.execute(text("SELECT 1 FROM memory.api_keys FOR UPDATE"))
        finding = asyncio.create_task(memory.keys.find(made.secret))
        await are_waiting(memory, 1)  # it has found the key, and notes its use
        await unit.execute(text("UPDATE memory.api_keys SET revoked_at = created_at"))
        memory.keys._asking.clear()  # as `revoke` does after its commit
    await finding
    assert await memory.keys.find(made.secret) is None


@pytest.mark.open
async def test_made_up_keys_leave_connections_to_those_who_are_known(database_url: str) -> None:
    async with Memory(database_url) as memory:
        made = await memory.keys.create("chat", rights=["read"])
        async with memory.database.transaction(principal=service(None)) as unit:
            await unit.execute(text("LOCK memory.api_keys IN ACCESS EXCLUSIVE MODE"))
            unknown = [asyncio.create_task(memory.keys.find(f"{made.secret[:-3]}{n:03}")) for n in range(100)]
            await are_waiting(memory, STRANGERS)
            assert memory.database.engine.pool.status().endswith(f"connections: {STRANGERS + 1}")
        assert await asyncio.gather(*unknown) == [None] * 100


@pytest.mark.open
async def test_made_up_links_leave_connections_to_those_who_are_known(database_url: str) -> None:
    async with Memory(database_url) as memory:
        made = await memory.keys.create("chat", rights=["read"])
        forged = [code_of(told_of(new_link(made.key_id, None, None, memory.now())), b"") for _ in range(100)]
        async with memory.database.transaction(principal=service(None)) as unit:
            await unit.execute(text("LOCK memory.api_keys IN ACCESS EXCLUSIVE MODE"))
            unknown = [asyncio.create_task(memory.keys.redeem(code)) for code in forged]
            await are_waiting(memory, STRANGERS)
            assert memory.database.engine.pool.status().endswith(f"connections: {STRANGERS + 1}")
        assert await asyncio.gather(*unknown) == [None] * 100


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": " "},
        {"name": "x" * 256},
        {"rights": []},
        {"rights": ["own"]},
        {"rights": "re"},
        {"agents": []},
        {"agents": "ada"},
        {"agents": [" "]},
        {"user_id": ""},
        {"user_id": "mia", "rights": ["admin"]},
        {"expires_at": START},
        {"expires_at": START.replace(tzinfo=None)},
    ],
)
async def test_wrong_key_is_refused(memory: Memory, wrong: dict[str, Any]) -> None:
    given: dict[str, Any] = {"name": "chat", "rights": ["read"], **wrong}
    with pytest.raises(InputError):
        await memory.keys.create(given.pop("name"), **given)
    assert await memory.keys.list(revoked=True) == []


async def test_forgetting_a_person_ends_their_keys(memory: Memory) -> None:
    hers = await memory.keys.create("Mia's page", rights=["read"], user_id="mia")
    other = await memory.keys.create("chat", rights=["read"])
    await memory.people.forget("mia", dry_run=True)
    assert len(await memory.keys.list()) == 2
    await memory.people.forget("mia")
    assert [key.key_id for key in await memory.keys.list()] == [other.key_id]
    shown = next(key for key in await memory.keys.list(revoked=True) if key.key_id == hers.key_id)
    assert (shown.user_id, shown.name) == (None, "")
    assert await memory.admin.verify() == []


async def test_walls_show_keys_to_who_serves_all(walled_database: str) -> None:
    async with Memory(walled_database) as memory:
        made = await memory.keys.create("chat", rights=["read"])
        assert await memory.keys.find(made.secret) is not None
        assert await rows(memory, "SELECT 1 FROM memory.api_keys WHERE last_used_on IS NOT NULL") != []
        assert (await memory.keys.revoke(made.key_id)).revoked_at is not None
        hers = await memory.keys.create("hers", rights=["read"], user_id="mia")
        await memory.people.forget("mia")
        assert hers.key_id not in {key.key_id for key in await memory.keys.list()}


def test_keys_by_the_command_line(database_url: str) -> None:
    def key(*args: str, code: int = 0) -> Any:
        return memory_sql("key", *args, "--url", database_url, code=code)

    assert key("list").out == "no keys yet\n"
    secret, line = key("create", "chat", "--agent", "ada", "--agent", "bo", "--rights", "read, write").out.splitlines()
    assert line == f"1  {secret[:10]}…  chat: read, write of ada, bo"
    assert key("list").out == f"{line}\n"
    (made,) = key(
        "create", "page", "--user", "mia", "--rights", "read", "--expires", "2999-01-01T00:00:00Z", "--json"
    ).rows
    assert made["user_id"] == "mia"
    assert made["secret"].startswith("ms_")
    assert key("create", "x", "--rights", "all", code=1).err.startswith("memory-sql: rights must be")
    assert ", revoked " in key("revoke", "1").out
    assert [row["key_id"] for row in key("list", "--json").rows] == [2]
    assert len(key("list", "--revoked").out.splitlines()) == 2
    assert key("revoke", "9", code=1).err == "memory-sql: no key 9\n"
