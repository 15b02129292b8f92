"""What Schemathesis makes up from our own schema: no 5xx, and nothing that the schema doesn't say."""

from __future__ import annotations

import pytest

from memory_sql.memory import Memory
from tests.server.fuzzing import cases, fuzzed
from tests.server.processes import serving
from tests.server.test_identity import CANARY, plant

UNLIMITED = ("--requests-per-minute", "1000000000")


async def nothing_is_found(database_url: str, examples: int, *options: str) -> int:
    """How many cases were made up."""
    async with Memory(database_url) as memory:
        await plant(memory)
    async with serving(database_url, *UNLIMITED) as server:
        code, report = await fuzzed(server.url, server.key, examples, *options)
        assert code == 0, report[-8000:]
        assert await server.ended() == 0
    assert "failed with" not in "\n".join(server.err)
    assert CANARY not in "\n".join(server.err)
    async with Memory(database_url) as memory:
        assert await memory.admin.verify() == []
    return cases(report)


@pytest.mark.slow
async def test_made_up_requests_are_answered_as_the_schema_says(database_url: str) -> None:
    few = ("--phases", "examples,fuzzing")
    assert await nothing_is_found(database_url, 6, *few) >= 200


@pytest.mark.prove
async def test_five_thousand_made_up_requests_are_answered_as_the_schema_says(database_url: str) -> None:
    assert await nothing_is_found(database_url, 100) >= 5000


@pytest.mark.prove
@pytest.mark.parametrize("kind", ["none", "revoked", "another agent's", "another user's"])
async def test_made_up_requests_of_others_find_nothing(database_url: str, kind: str) -> None:
    async with Memory(database_url) as memory:
        await plant(memory)
        agents, user = (["eve"], None) if kind == "another agent's" else (["ada"], "zoe")
        made = await memory.keys.create("other", rights=["read", "write"], agents=agents, user_id=user)
        if kind == "revoked":
            await memory.keys.revoke(made.key_id)
            await memory.keys.create("another", rights=["read"])
    async with serving(database_url, *UNLIMITED) as server:
        checks = ("--checks", "not_a_server_error", "--report", "har", "--report-har-path", "/dev/stdout")
        code, report = await fuzzed(server.url, None if kind == "none" else made.secret, 10, *checks)
        assert code == 0, report[-8000:]
    assert cases(report) >= 500
    assert CANARY not in report
