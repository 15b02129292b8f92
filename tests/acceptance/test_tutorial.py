"""The tutorial's program, as a reader would run it: three conversations with a model behind HTTP."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from pathlib import Path

import pytest

from tests.fakes import by_scope
from tests.loopback import Loopback, Received, loopback

PAGE = Path(__file__).parents[2] / "docs" / "tutorial.md"


def answered(received: Received) -> str:
    """An extraction where a schema is asked for; else a turn of the chat."""
    if received.schema is not None:
        return by_scope(received.schema["properties"], ("Mia prefers green tea.", "individual", [1]))
    return "Green tea, then."


@pytest.fixture
def program(tmp_path: Path) -> Path:
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    assert len(code.strip().splitlines()) <= 45
    path = tmp_path / "chat.py"
    path.write_text(code, "utf-8")
    return path


async def talk(program: Path, url: str, server: Loopback, *lines: str) -> str:
    """What it prints."""
    own = {
        "MEMORY_SQL_URL": url,
        "OPENAI_API_KEY": "test",
        "OPENAI_BASE_URL": server.base_url,
        "MEMORY_SQL_LLM": "openai",
    }
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-W", "error", program.name,
        cwd=program.parent,
        env=os.environ | own,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    out, error = await process.communicate("".join(f"{line}\n" for line in lines).encode())
    assert process.returncode == 0, error.decode()
    return out.decode()


def turns(server: Loopback) -> list[Received]:
    return [received for received in server.requests if received.schema is None]


@pytest.mark.slow
async def test_what_was_said_is_known_in_the_next_conversation_until_it_is_forgotten(
    program: Path, database_url: str
) -> None:
    async with loopback(answered) as server:
        assert (
            await talk(program, database_url, server, "I prefer green tea.", "Thank you.") == "Green tea, then.\n" * 2
        )
        assert "green tea" not in turns(server)[0].instructions
        await talk(program, database_url, server, "What do I like to drink?")
        assert "Mia prefers green tea." in turns(server)[-1].instructions
        assert "Observations forgotten: 1" in await talk(program, database_url, server, "/forget", "What do I like?")
        assert "green tea" not in turns(server)[-1].instructions
