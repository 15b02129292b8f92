"""MCP at `/mcp` of the server, by its own client: who it is comes from the key and the connection."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest
from mcp import Client as Asking
from mcp.client.streamable_http import streamable_http_client

from memory_sql.memory import Memory
from tests.server.processes import serving

RECALL = {"query": "tea sails"}


async def asked(url: str, secret: str, tool: str, given: dict[str, Any], **headers: str) -> str:
    """What the tool answers."""
    told = {"Authorization": f"Bearer {secret}", **{name.replace("_", "-"): value for name, value in headers.items()}}
    async with (
        httpx2.AsyncClient(headers=told) as http,
        Asking(streamable_http_client(f"{url}/mcp", http_client=http)) as client,
    ):
        answer = await client.call_tool(tool, given)
        return "".join(part.text for part in answer.content if part.type == "text")


@pytest.mark.slow
async def test_key_says_whose_memory_a_model_reaches(database_url: str) -> None:
    async with Memory(database_url) as memory:
        await memory.observe("Jonas sails to Bergen.", agent_id="ada", user_id="jonas")
        host = (await memory.keys.create("host", rights=["read", "write"])).secret
        mia = (await memory.keys.create("hers", rights=["read", "write"], agents=["ada"], user_id="mia")).secret
        reader = (await memory.keys.create("reader", rights=["read"], agents=["ada"], user_id="mia")).secret
        async with serving(database_url) as server:
            url = server.url
            await asked(url, mia, "remember", {"text": "Mia likes green tea."})
            assert "green tea" in await asked(url, mia, "recall", RECALL)
            assert "Bergen" not in await asked(url, mia, "recall", RECALL)
            forged = await asked(url, mia, "recall", {**RECALL, "user_id": "jonas"})
            assert "Bergen" not in forged
            assert "user_id" in forged
            whose = {"Memory_Agent": "ada", "Memory_User": "jonas"}
            assert "Bergen" in await asked(url, host, "recall", RECALL, **whose)
            await asked(url, reader, "remember", {"text": "Mia likes rum."})
            assert "rum" not in await asked(url, mia, "recall", {"query": "rum likes"})
            statuses = []
            async with httpx2.AsyncClient() as client:
                for secret, names in (
                    (None, {}),
                    ("ms_unknown", {}),
                    (mia, {"Memory-User": "jonas"}),
                    (mia, {"Memory-Agent": "bob"}),
                    (host, {"Memory-Agent": "ada"}),
                    (host, {"Memory-Agent": "ada", "Memory-User": "x" * 256}),
                ):
                    headers = {**names, **({} if secret is None else {"Authorization": f"Bearer {secret}"})}
                    answer = await client.post(f"{url}/mcp", json={}, headers=headers)
                    statuses.append(answer.status_code)
                    assert answer.headers["content-type"] == "application/problem+json"
            assert statuses == [401, 401, 403, 403, 422, 422]
            assert await server.ended() == 0
        assert [user.user_id for user in await memory.people.list(agent_id="ada")] == ["jonas", "mia"]
