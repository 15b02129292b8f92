"""A memory that is served in the test's own event loop, with the key of a host and the key of a user."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, NamedTuple

import pytest

from memory_sql.config import Settings
from memory_sql.domain.keys import RIGHTS
from memory_sql.memory import Memory
from memory_sql.server import create_app
from tests.asgi import Client, lived

BASE = "/v1/agents/ada"
ADA: dict[str, Any] = {"agent_id": "ada"}


class Served(NamedTuple):
    memory: Memory
    nobody: Client
    host: Client
    mia: Client


@pytest.fixture
async def served(database_url: str) -> AsyncIterator[Served]:
    async with Memory(database_url, settings=Settings(llm="offline")) as memory:
        host = await memory.keys.create("chat", rights=RIGHTS, agents=["ada", "bob"])
        mia = await memory.keys.create("hers", rights=["read", "write", "forget"], agents=["ada"], user_id="mia")
        async with lived(create_app(memory, mcp=False, requests_per_minute=10**6)) as client:
            yield Served(memory, client, client.with_key(host.secret), client.with_key(mia.secret))
        assert await memory.admin.verify() == []
