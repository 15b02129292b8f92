"""Two people decide on the same text at once: one decides, and the other is told that nothing waits any more."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import pytest

from memory_sql.errors import GuardError, NotFoundError
from memory_sql.memory import Memory
from tests.database import rows
from tests.fakes import Scripted
from tests.integration.test_groups import are_waiting

ADA: dict[str, Any] = {"agent_id": "ada"}
MIA: dict[str, Any] = {**ADA, "user_id": "mia"}
PLANTED = [f"Mia planted tree number {n} on the hill beside the church." for n in (1, 2)]
WRONG = "Mia planted tree number 20 on the hill beside the church."


@pytest.mark.parametrize("second", [True, False])
@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("absorbs", ["a version", "nothing"])
async def test_one_of_two_decides(memory: Memory, llm: Scripted, absorbs: str, *, first: bool, second: bool) -> None:
    """Of a text beside a version, and of one whose answer was refused."""
    said = PLANTED if absorbs == "a version" else PLANTED[1:]
    for text in said:
        scope = (await memory.observe(text, **MIA)).scope.id
    answer = " ".join([*said[:-1], WRONG])
    llm.then(answer, answer)
    with suppress(GuardError):
        await memory.scopes.consolidate(**ADA, scope_id=scope)
    (review,) = await memory.work.reviews(**ADA)
    async with memory.database.transaction() as session:
        await memory.work.decide(review.id, **ADA, accept=first, actor="first", session=session)
        other = asyncio.create_task(memory.work.decide(review.id, **ADA, accept=second, actor="second"))
        await are_waiting(memory, 1)
    with pytest.raises(NotFoundError):
        await other
    versions = (absorbs == "a version") + first
    assert await rows(memory, "SELECT count(*) FROM memory.consolidations") == [(versions,)]
    told = "SELECT actor, detail ->> 'to' FROM memory.events WHERE kind = 'review'"
    assert await rows(memory, told) == [("first", "accepted" if first else "refused")]
    assert await rows(memory, "SELECT count(*) FROM memory.runs WHERE held IS NOT NULL") == [(0,)]
    assert list(await memory.admin.verify()) == []
