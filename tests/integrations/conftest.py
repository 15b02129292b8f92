from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from memory_sql.config import Settings
from memory_sql.llm.offline import Offline
from memory_sql.memory import Memory


@pytest.fixture
async def memory(database_url: str, settings: Settings) -> AsyncIterator[Memory]:
    """With a model of its own: `llm` is the agent's."""
    async with Memory(database_url, Offline(), settings) as opened:
        yield opened
