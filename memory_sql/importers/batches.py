"""Chunks, and work on several items at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator
from itertools import islice
from typing import TypeVar

T = TypeVar("T")


def some_of(items: Iterator[T], most: int) -> Iterator[list[T]]:
    while chunk := list(islice(items, most)):
        yield chunk


async def each(items: Iterable[T], act: Callable[[T], Awaitable[None]], *, at_once: int) -> None:
    """Runs `act` on each item, started in order, `at_once` at a time. The first error cancels the others and is raised."""
    running = set[asyncio.Task[None]]()

    async def finish(fewer_than: int) -> None:
        while len(running) >= fewer_than:
            done, _ = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
            running.difference_update(done)
            failed = [task for task in done if task.exception()]  # each is looked at, or asyncio would complain
            for task in failed:
                task.result()

    try:
        for item in items:
            await finish(at_once)
            running.add(asyncio.ensure_future(act(item)))
        await finish(1)
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
