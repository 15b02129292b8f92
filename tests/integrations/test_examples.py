"""The examples and pages of the frameworks, run as they are written."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.integrations.behaviour import ROOT, TEA
from tests.integrations.gemini import gemini
from tests.integrations.model import ANSWER, Model, model
from tests.sizes import few_in_ci

CHATS = ("agent_framework_chat", "google_adk_chat", "langchain_chat", "openai_agents_chat", "pydantic_ai_chat")
PAGES = ("agent-framework", "google-adk", "langchain", "openai-agents", "pydantic-ai")


@pytest.fixture
async def served() -> AsyncIterator[Model]:
    async with model() as running:
        yield running


@pytest.fixture
async def google(served: Model) -> AsyncIterator[str]:
    async with gemini(served.url) as url:
        yield url


async def run(served: Model, google: str, database_url: str, where: Path, *command: str, said: str = "") -> str:
    environ = {
        **os.environ,
        "MEMORY_SQL_URL": database_url,
        "OPENAI_API_KEY": "none",
        "OPENAI_BASE_URL": served.url,
        "OPENAI_AGENTS_DISABLE_TRACING": "1",
        "GOOGLE_API_KEY": "none",
        "GOOGLE_GEMINI_BASE_URL": google,
    }
    pipe = asyncio.subprocess.PIPE
    started = await asyncio.create_subprocess_exec(
        sys.executable, *command, stdin=pipe, stdout=pipe, stderr=pipe, env=environ, cwd=where
    )
    out, err = await started.communicate(said.encode())
    assert started.returncode == 0, err.decode()
    return out.decode()


@pytest.mark.slow
@pytest.mark.parametrize("name", few_in_ci(CHATS, ["google_adk_chat", "langchain_chat"]))
async def test_an_example_remembers_when_it_is_started_again(
    served: Model, google: str, database_url: str, tmp_path: Path, name: str
) -> None:
    example = str(ROOT / "examples" / f"{name}.py")
    assert (
        await run(served, google, database_url, tmp_path, example, said=f"{TEA}\nHello.\n") == f"{ANSWER}\n{ANSWER}\n"
    )
    assert await run(served, google, database_url, tmp_path, example, said="Which tea?\n") == f"{ANSWER}\n"
    assert "green tea" in served.asked[-1].instructions


@pytest.mark.slow
@pytest.mark.parametrize("page", few_in_ci(PAGES, ["openai-agents", "pydantic-ai"]))
async def test_the_first_program_of_a_page_remembers(
    served: Model, google: str, database_url: str, tmp_path: Path, page: str
) -> None:
    found = re.search(r"```python\n(.*?)```", (ROOT / "docs" / f"{page}.md").read_text("utf-8"), re.DOTALL)
    assert found
    program = tmp_path / "program.py"
    program.write_text(found[1], "utf-8")
    assert await run(served, google, database_url, tmp_path, str(program)) == f"{ANSWER}\n{ANSWER}\n"
    assert "green tea" in served.asked[-1].instructions


@pytest.mark.parametrize("name", CHATS)
def test_an_example_is_short(name: str) -> None:
    assert len((ROOT / "examples" / f"{name}.py").read_text("utf-8").splitlines()) <= 31
