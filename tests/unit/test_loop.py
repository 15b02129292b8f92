"""The loop that the tests of a worker share."""

from __future__ import annotations

import asyncio

left: list[asyncio.Task[None]] = []


async def test_task_that_a_test_leaves_running() -> None:
    left.append(asyncio.create_task(asyncio.sleep(3600)))
    await asyncio.sleep(0)
    assert not left[0].done()


async def test_is_ended_before_the_next_in_the_same_loop() -> None:
    assert all(task.cancelled() and task.get_loop() is asyncio.get_running_loop() for task in left)
