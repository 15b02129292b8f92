"""What a release leaves in a database, kept for the releases after it: `make release` writes `kept/REVISION.sql`.

Later code can't fill a database of an older revision. So each release fills one with its own code, through its own calls, and
keeps the rows: `test_upgrading.py` gives them to its successors. They are in no release's tables but its own.
"""

from __future__ import annotations

import asyncio
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from memory_sql.config import Settings
from memory_sql.db import migrate
from memory_sql.db.recorded import REVISION
from memory_sql.domain.selection import Selection
from memory_sql.memory import Memory
from tests.fakes import Scripted, extracted
from tests.migrations.databases import CHECKOUT, dump
from tests.recycling import administer, named
from tests.servers import choose, docker_answers, serve

KEPT = CHECKOUT / "tests/migrations/kept"
EXAMPLE = CHECKOUT / "examples/team.jsonl"
MIA: dict[str, Any] = {"agent_id": "ada", "user_id": "mia"}
ASKED = "Which berth does Mia like?"
ANSWER = "Mia likes the berth near the crane."
_SETTING = re.compile(r"^(?:SET |SELECT pg_catalog\.set_config).*\n|^--.*\n|^\n", re.MULTILINE)
_BEGINS = """SET session_replication_role = replica;
DELETE FROM memory.installation;
"""


async def live(url: str) -> None:
    """A short life: conversations, texts, groups, a correction, a hold, and something forgotten."""
    llm = Scripted(extracted((ANSWER, "individual")), "Mia likes the berth near the crane.")
    async with Memory(url, llm, Settings(llm="offline", episodes=True)) as memory:
        turn = [{"role": "user", "content": "I like the berth near the crane."}]
        await memory.add(turn, **MIA, conversation_id="phone", group_ids=["harbor"])
        formed = await memory.conversations.form(agent_id="ada", conversation_id="phone")
        await memory.scopes.consolidate(agent_id="ada", scope_id=formed.observations[0].scope.id)
        tea = await memory.observe("Mia drinks tea.", **MIA)
        await memory.observations.confirm(tea.id, **MIA)
        await memory.observe("The boat needs paint.", agent_id="ada", group_id="harbor")
        await memory.observe("Bo sails alone.", agent_id="ada", user_id="bo")
        await memory.forget(Selection(user_id="bo"), agent_id="ada")
        await memory.holds.place(**MIA)
        await memory.add(
            [{"role": "user", "content": "I'm Ann."}], agent_id="ada", user_id="ann", conversation_id="new"
        )
        assert list(await memory.admin.verify(hashes=True)) == []


def rows_of(url: str) -> str:
    """As a script that fills the empty tables of the same revision."""
    script = dump(url, "--data-only", "--schema=memory", "--exclude-table=memory.alembic_version")
    return _BEGINS + _SETTING.sub("", script)


@contextmanager
def database(server_url: str, name: str) -> Iterator[str]:
    asyncio.run(administer(server_url, f"DROP DATABASE IF EXISTS {name}", f"CREATE DATABASE {name}"))
    try:
        yield named(server_url, name)
    finally:
        asyncio.run(administer(server_url, f"DROP DATABASE {name} WITH (FORCE)"))


def keep(folder: Path = KEPT) -> Path:
    """The file, with what this code leaves in a database."""
    with (
        serve(choose(None, os.environ, docker_answers), os.environ) as server,
        database(server, f"kept_{os.getpid()}") as url,
    ):
        migrate.upgrade(url)
        asyncio.run(live(url))
        folder.mkdir(exist_ok=True)
        path = folder / f"{REVISION}.sql"
        path.write_text(rows_of(url), "utf-8")
    return path


if __name__ == "__main__":
    sys.stdout.write(f"{keep().relative_to(CHECKOUT)}\n")
