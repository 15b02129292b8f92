"""The example of tools, as a reader would run it: a model behind HTTP calls them."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from memory_sql.memory import Memory
from tests.loopback import Received, Reply, good, loopback

EXAMPLE = Path(__file__).parents[2] / "examples" / "tools.py"


def calling(name: str, **arguments: Any) -> Reply:
    async def respond(_: web.Request, received: Received) -> web.Response:
        call = {
            "type": "function_call",
            "id": "fc_1",
            "call_id": "c1",
            "name": name,
            "arguments": json.dumps(arguments),
        }
        text = await good("").respond(_, received)
        body = json.loads(text.body)  # type: ignore[attr-defined]
        return web.json_response({**body, "output": [call]})

    return Reply(respond)


@pytest.mark.slow
async def test_the_example_remembers_shows_and_forgets(memory: Memory, database_url: str) -> None:
    script = [
        calling("remember", text="Mia likes green tea."), good("Noted."),
        calling("recall", query="tea"), calling("forget", observation_ids=["o1-1"]), good("Shall I forget it?"),
        calling("forget", observation_ids=["o1-1"], confirmed=True), good("Gone."),
    ]  # fmt: skip
    async with loopback(script) as server:
        own = {"MEMORY_SQL_URL": database_url, "OPENAI_API_KEY": "test", "OPENAI_BASE_URL": server.base_url}
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-W", "error", str(EXAMPLE), env=os.environ | own, stdin=pipe, stdout=pipe, stderr=pipe
        )
        out, error = await process.communicate(b"I like green tea.\nForget the tea.\nYes.\n")
        assert process.returncode == 0, error.decode()
        assert out.decode().splitlines() == ["Noted.", "Shall I forget it?", "Gone."]
        told = [
            item["output"] for item in server.requests[-1].body["input"] if item.get("type") == "function_call_output"
        ]
        assert told[0] == "Remembered as o1-1."
        assert "Mia likes green tea." in told[1]
        assert "Nothing has gone yet." in told[2]
        assert told[3] == "Forgotten: o1-1."
        assert [tool["name"] for tool in server.requests[0].body["tools"]][:2] == ["recall", "remember"]
    assert not await memory.observations.list(agent_id="ada", user_id="mia")
