"""Who asks for what is due is told how far it is."""

from __future__ import annotations

from typing import Any

from memory_sql.config import Settings
from memory_sql.domain.results import Progress
from memory_sql.errors import UnavailableError
from memory_sql.memory import Memory
from tests.factories import message
from tests.fakes import Meanings, Parrot

MIA: dict[str, Any] = {"agent_id": "ada", "user_id": "mia"}
ALONE = Settings(llm="offline", formation_min_messages=1, consolidation_threshold=1)


async def test_each_piece_of_work_is_told(database_url: str) -> None:
    """Also one that fails: it is done for now."""
    told, model = list[Progress](), Parrot()
    async with Memory(database_url, model, ALONE, embeddings=Meanings()) as memory:
        for n in range(3):
            await memory.add([message(f"Actually, I keep bees on roof {n}.")], **MIA, conversation_id=f"c{n}")
        done = await memory.run_due(agent_id="ada", progress=told.append)
        assert (len(done.formed), len(done.consolidated), done.failed) == (3, 1, {})
        seen = [(now.step, now.unit, now.count, now.of) for now in told]
        assert seen == [
            *(("forming", "conversations", n, 3) for n in (1, 2, 3)),
            ("consolidating", "scopes", 1, 1),
            ("propagating", "scopes", 1, 1),
            ("embedding", "observations", 0, 0),  # a consolidation has done it
        ]
        told.clear()
        await memory.add([message("Actually, I keep goats.", n=9)], **MIA, conversation_id="c0")
        model.failing = UnavailableError("rate_limit", "too many")
        assert (await memory.run_due(agent_id="ada", limit=1, progress=told.append)).failed
    assert [(now.step, now.count, now.of) for now in told] == [("forming", 1, 1), ("embedding", 0, 0)]


async def test_nothing_is_counted_for_nobody(memory: Memory) -> None:
    """Where nothing is due there is nothing to tell, and without `progress` nothing more is asked of the database."""
    told = list[Progress]()
    assert (await memory.run_due(progress=told.append)).pieces == 0
    assert told == []
