from __future__ import annotations

import asyncio
import gc
from typing import Any

import pytest

from memory_sql.importers.batches import each


async def test_errors_that_come_at_once_are_all_looked_at() -> None:
    """The first is raised; of the others asyncio would say that nobody has retrieved them."""
    complaints = list[dict[str, Any]]()
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
    gate = asyncio.Event()

    async def fail(number: int) -> None:
        if number == 2:
            gate.set()
        await gate.wait()
        raise ValueError(number)

    with pytest.raises(ValueError, match=r"\d"):
        await each(range(3), fail, at_once=3)
    gc.collect()
    await asyncio.sleep(0)
    assert complaints == []
