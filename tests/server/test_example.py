"""examples/over_http.py against a running server, and against none."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import pytest

from memory_sql.memory import Memory
from tests.server.conftest import ADA
from tests.server.processes import serving

EXAMPLE = Path(__file__).parents[2] / "examples" / "over_http.py"


async def run(lines: str, **environ: str) -> tuple[str, str]:
    """What it prints, and its errors."""
    pipe = asyncio.subprocess.PIPE
    env = {**os.environ, **environ}
    process = await asyncio.create_subprocess_exec(
        sys.executable, EXAMPLE, stdin=pipe, stdout=pipe, stderr=pipe, env=env
    )
    out, err = await process.communicate(lines.encode())
    assert process.returncode == 0
    return out.decode(), err.decode()


@pytest.mark.slow
async def test_chat_remembers_over_http(database_url: str) -> None:
    async with Memory(database_url) as memory:
        await memory.observe("Mia sails a sloop.", **ADA, user_id="mia")
        async with serving(database_url) as server:
            assert server.key is not None
            out, err = await run(
                "Do you remember what I sail?\n", MEMORY_SQL_SERVER=server.url, MEMORY_SQL_KEY=server.key
            )
            assert "Mia sails a sloop." in out
            assert err == ""
            wrong = await run("Hello.\n", MEMORY_SQL_SERVER=server.url, MEMORY_SQL_KEY="ms_wrong")
            assert wrong == ("\n", "memory: HTTP Error 401: Unauthorized\n" * 2)
            assert await server.ended() == 0
        stored = await memory.admin.stats(agent_id="ada")
        assert stored.messages == 1
    _, err = await run("Hello.\n", MEMORY_SQL_SERVER=server.url)
    assert "refused" in err
