"""A vector stored behind the back of a host in REPEATABLE READ, and the state of its observation."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncSession

from memory_sql.config import Settings
from memory_sql.memory import Memory
from tests.fakes import Meanings, Scripted

MIA: dict[str, Any] = {"agent_id": "ada", "user_id": "mia"}


@pytest.mark.parametrize("change", ["supersede", "reinstate"])
async def test_vector_has_the_standing_of_its_observation(database_url: str, change: str) -> None:
    """Once all is embedded, where the host's snapshot is older than the vector; or the host has to repeat its transaction."""
    async with Memory(database_url, Scripted(), Settings(llm="offline"), embeddings=Meanings()) as memory:
        tea, coffee = [await memory.observe(f"Mia likes {what}.", **MIA) for what in ("tea", "coffee")]
        if change == "reinstate":
            await memory.observations.supersede(tea.id, coffee.id, **MIA)
        engine = memory.database.engine.execution_options(isolation_level="REPEATABLE READ")
        async with AsyncSession(engine) as host:
            await host.execute(text("SELECT 1"))
            await memory.work.embed()
            try:
                if change == "supersede":
                    await memory.observations.supersede(tea.id, coffee.id, **MIA, session=host)
                else:
                    await memory.observations.reinstate(tea.id, **MIA, session=host)
                await host.commit()
            except DBAPIError as error:
                if getattr(error.orig, "sqlstate", None) != "40001":
                    raise
        await memory.work.embed()
        assert await memory.admin.verify() == []
