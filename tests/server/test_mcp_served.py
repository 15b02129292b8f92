"""MCP at `/mcp` of the server, by its own client: who it is comes from the key and the connection."""

from __future__ import annotations

import json
from typing import Any

import httpx2
import pytest

from memory_sql.memory import Memory
from tests.server.processes import serving
from tests.server.tools import asked

RECALL = {"query": "tea sails"}


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


CANARY = "zanzibar"
CALLS: tuple[tuple[str, Any], ...] = (
    ("tools/call", {"name": "recall", "arguments": CANARY}),
    ("tools/call", {"name": CANARY, "arguments": {}}),
    ("tools/call", {"name": [CANARY], "arguments": {}}),
    ("tools/call", {"name": "remember", "arguments": {"text": [CANARY]}}),
    ("tools/call", {"name": "remember", "arguments": {"text": CANARY, "user_id": "jonas"}}),
    ("tools/call", {"name": "remember", "arguments": {"text": CANARY, "_meta": {"user_id": "jonas"}}}),
    ("tools/call", {"name": "forget", "arguments": {"observation_ids": ["o1-1"], "confirmed": True}}),
    ("tools/call", {"name": "correct", "arguments": {"observation_id": "o1-1", "text": CANARY}}),
    ("tools/call", {"name": "sources", "arguments": {"observation_id": "o1-1"}}),
    ("resources/read", {"uri": "memory://observations/o1-1"}),
    ("resources/read", {"uri": f"memory://observations/../{CANARY}"}),
    ("resources/read", {"uri": {"a": CANARY}}),
    (CANARY, {"x": CANARY}),
)
BODIES = (b"{" + CANARY.encode(), b"\xff" + CANARY.encode(), b"[" * 100_000, b"[]", b'{"jsonrpc": "2.0", "id": 1e400}')


@pytest.mark.slow
async def test_odd_calls_reach_nothing_and_are_not_logged(database_url: str) -> None:
    async with Memory(database_url) as memory:
        his = await memory.observe(f"Jonas likes {CANARY}.", agent_id="ada", user_id="jonas")
        assert his.id == "o1-1"
        made = await memory.keys.create("hers", rights=["read", "write", "forget"], agents=["ada"], user_id="mia")
        sent = [
            json.dumps({"jsonrpc": "2.0", "id": 1, "method": name, "params": given}).encode() for name, given in CALLS
        ]
        told = {
            "Authorization": f"Bearer {made.secret}",
            "Accept": "application/json, text/event-stream",
            "Content-Type": "application/json",
        }
        async with serving(database_url) as server, httpx2.AsyncClient(headers=told) as client:
            for body in (*sent, *BODIES):
                answer = await client.post(f"{server.url}/mcp", content=body)
                assert answer.status_code in (200, 400), body
                assert "Jonas" not in answer.text
            for method in ("GET", "DELETE", "PUT"):  # a stream that stays open would keep the server from ending
                answer = await client.request(method, f"{server.url}/mcp")
                assert (answer.status_code, answer.headers["allow"]) == (405, "POST")
            assert await server.ended() == 0
        logged = "\n".join(server.err)
        assert CANARY not in logged
        assert made.secret not in logged
        assert [user.user_id for user in await memory.people.list(agent_id="ada")] == ["jonas"]
        assert (await memory.observations.get("o1-1", agent_id="ada", user_id="jonas")).status == "active"
