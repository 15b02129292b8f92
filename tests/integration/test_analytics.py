"""What analysts get: the questions of docs/analytics.md and their answers, and each view against what `Memory` says."""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from itertools import count, groupby
from pathlib import Path
from typing import Any

import pytest

from memory_sql.config import Settings
from memory_sql.errors import TimeoutError as ModelTimeoutError
from memory_sql.llm.offline import Offline
from memory_sql.memory import Memory
from tests.conftest import administer, named
from tests.fakes import Scripted

CHECKOUT = Path(__file__).parents[2]
EXAMPLE = [json.loads(line) for line in (CHECKOUT / "examples/team.jsonl").read_text().splitlines()]
QUESTIONS = re.findall(
    r"^### (.+?)\n(?:(?!^###).)*?```sql\n(.+?)```", (CHECKOUT / "docs/analytics.md").read_text(), re.M | re.S
)
SQL = dict(QUESTIONS)
VIEWS = {
    "v_observations": ["observation_id"],
    "v_scope_timeline": ["scope_id", "version"],
    "v_pending": ["scope_id"],
}
_numbers = count(1)

Row = Mapping[str, Any]


class Team:
    """The conversations of examples/team.jsonl, told to the agent one after the other, on the days when they were."""

    def __init__(self, url: str) -> None:
        self.now = datetime(2026, 3, 1, tzinfo=UTC)
        self.memory = Memory(url, Offline(), Settings(llm="offline"), clock=lambda: self.now)
        self.sessions = {name: list(turns) for name, turns in groupby(EXAMPLE, lambda turn: turn["session"])}

    async def talk(self, *sessions: str) -> None:
        for name in sessions:
            turns = self.sessions[name]
            self.now = datetime.fromisoformat(turns[-1]["created_at"]) + timedelta(minutes=10)
            groups = turns[0].get("group_ids", ())
            await self.memory.add(turns, agent_id="ada", user_id=turns[0]["user_id"], session_id=name, group_ids=groups)

    async def form(self, *sessions: str) -> None:
        for name in sessions:
            await self.talk(name)
            await self.memory.form(agent_id="ada", session_id=name)

    async def consolidate(self, user: str, kind: str) -> None:
        for scope in await self.memory.scopes(agent_id="ada", user_id=user):
            if scope.ref.kind == kind:
                await self.memory.consolidate(agent_id="ada", scope_id=scope.ref.id)


async def fill(url: str) -> None:
    """Two versions of Mia's text, one of the group's, none of Jonas's; a last session that couldn't be formed."""
    team = Team(url)
    async with team.memory as memory:
        await team.form("mia-2026-03-02", "harbor-2026-03-03", "jonas-2026-03-04")
        await team.consolidate("mia", "individual")
        await team.consolidate("mia", "group")
        await team.form("mia-2026-03-09", "harbor-2026-03-17", "jonas-2026-03-18")
        await team.consolidate("mia", "individual")
        for user in ("mia", "jonas"):
            await memory.observe("The demo is on 20 April.", agent_id="ada", group_id="harbor", user_id=user)
        await memory.observe("Mia is another one's user as well.", agent_id="bob", user_id="mia")
        await team.talk("mia-2026-03-23")
    failing = Memory(url, Scripted(ModelTimeoutError("no answer")), team.memory.settings, clock=lambda: team.now)
    async with failing as memory:
        with pytest.raises(ModelTimeoutError):
            await memory.form(agent_id="ada", session_id="mia-2026-03-23")


@pytest.fixture(scope="module")
def filled(server_url: str, template: str) -> Iterator[str]:
    """The name of a database that nobody writes to."""
    name = f"memory_sql_analytics_{os.getpid()}"
    asyncio.run(administer(server_url, f"CREATE DATABASE {name} TEMPLATE {template}"))
    asyncio.run(fill(named(server_url, name)))
    yield name
    asyncio.run(administer(server_url, f"DROP DATABASE {name}"))
