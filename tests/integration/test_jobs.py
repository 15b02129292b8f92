"""The engine runs any kind of work: here a kind that isn't ours and that counts."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, ClassVar

import pytest
from sqlalchemy import func, select

from memory_sql.config import Settings
from memory_sql.db import Session
from memory_sql.db.direct import ask
from memory_sql.errors import UnavailableError
from memory_sql.jobs.engine import Engine
from memory_sql.memory import Memory
from memory_sql.telemetry import Off


@dataclass(frozen=True)
class Counter:
    name: str
    agent_settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass
class Counting:
    """One number in each batch, from 1 up to `last`. `done` tells what the engine called, and in which transaction."""

    applies_alone: ClassVar[bool] = False
    last: int
    keeps: bool = False
    meanwhile: Callable[[], Awaitable[None]] | None = None
    done: list[tuple[str, object]] = field(default_factory=list)
    transactions: list[int] = field(default_factory=list)

    async def load(
        self, session: Session, key: str, settings: Settings, now: datetime, reason: str, so_far: Sequence[int]
    ) -> tuple[Counter, int | None]:
        await self._note(session, "load", key)
        return Counter(key), len(so_far) + 1 if len(so_far) < self.last else None

    async def extend(self, session: Session, held: Counter, lease: timedelta) -> bool:
        await self._note(session, "extend", held.name)
        return True

    async def decide(self, loaded: int, settings: Settings) -> int:
        self.done.append(("decide", loaded))
        if self.meanwhile is not None:
            await self.meanwhile()
        return loaded * 10

    def keep(self, loaded: int, decided: int, settings: Settings) -> Callable[[Session], Awaitable[None]] | None:
        return (lambda session: self._note(session, "keep", decided)) if self.keeps else None

    async def apply(self, session: Session, loaded: int, decided: int, settings: Settings, now: datetime) -> int:
        await self._note(session, "apply", decided)
        return decided

    async def fail(
        self, session: Session, loaded: int, error: BaseException, settings: Settings, now: datetime
    ) -> None:
        await self._note(session, "fail", type(error).__name__)

    def result(self, loaded: int, decided: int, applied: int) -> tuple[int, bool]:
        return applied, loaded < self.last

    def total(self, held: Counter, results: Sequence[int]) -> int:
        return sum(results)

    def key(self, held: Counter) -> str:
        return held.name

    async def _note(self, session: Session, step: str, what: object) -> None:
        self.done.append((step, what))
        ((transaction,),) = await ask(session, select(func.txid_current()), {})
        self.transactions.append(transaction)


@pytest.fixture
def engine(memory: Memory) -> Engine:
    return Engine(memory.database, memory.settings, memory.now, Off())


async def test_batches_are_run_one_after_the_other_and_told_as_one(engine: Engine) -> None:
    job = Counting(3)
    assert await engine.run(job, "a", "asked") == 60
    batch = [("load", "a"), ("decide", 1), ("apply", 10)]
    assert job.done == [
        *batch,
        ("load", "a"),
        ("decide", 2),
        ("apply", 20),
        ("load", "a"),
        ("decide", 3),
        ("apply", 30),
    ]


async def test_nothing_to_do_is_a_result_too(engine: Engine) -> None:
    job = Counting(0)
    assert await engine.run(job, "a", "asked") == 0
    assert job.done == [("load", "a")]


async def test_answer_is_kept_before_it_is_applied_in_a_transaction_of_its_own(engine: Engine) -> None:
    job = Counting(1, keeps=True)
    await engine.run(job, "a", "asked")
    assert job.done == [("load", "a"), ("decide", 1), ("keep", 10), ("apply", 10)]
    assert len(set(job.transactions)) == 3


async def test_failure_is_recorded_and_raised(engine: Engine) -> None:
    async def refuse() -> None:
        raise UnavailableError("timeout", "no answer")

    job = Counting(1, meanwhile=refuse)
    with pytest.raises(UnavailableError):
        await engine.run(job, "a", "asked")
    assert job.done == [("load", "a"), ("decide", 1), ("fail", "UnavailableError")]


@pytest.mark.parametrize("times", [1, 2])
async def test_failure_is_recorded_when_the_work_is_cancelled(engine: Engine, times: int) -> None:
    """Twice: by the worker that ends, and by the loop."""
    working = asyncio.Event()

    async def work_on() -> None:
        working.set()
        await asyncio.sleep(60)

    job = Counting(1, meanwhile=work_on)
    running = asyncio.create_task(engine.run(job, "a", "asked"))
    await working.wait()
    for _ in range(times):
        running.cancel()
        await asyncio.sleep(0)
    with pytest.raises(asyncio.CancelledError):
        await running
    assert job.done[-1] == ("fail", "CancelledError")


@pytest.mark.slow
async def test_lease_is_extended_while_the_model_works(memory: Memory) -> None:
    settings = memory.settings.model_copy(update={"lease_seconds": 0.3})
    job = Counting(1, meanwhile=lambda: asyncio.sleep(0.5))
    assert await Engine(memory.database, settings, memory.now, Off()).run(job, "a", "asked") == 10
    assert ("extend", "a") in job.done
    assert job.done[-1] == ("apply", 10)
