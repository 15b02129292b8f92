"""Calls made beside the host's answer, and what is reported about them."""

from __future__ import annotations

import asyncio
import logging

import pytest

from memory_sql.backends.differences import ContextDifference
from memory_sql.backends.shadow import Shadow, ShadowCounts
from memory_sql.errors import NotFoundError


async def nothing() -> None:
    await asyncio.sleep(0)


async def failing_with_words() -> None:
    raise ValueError("Mia keeps bees")


async def not_found() -> None:
    raise NotFoundError("scope", "s12")


async def for_ever() -> None:
    await asyncio.Event().wait()


async def test_failure_is_counted_and_logged_without_a_word_of_memory(caplog: pytest.LogCaptureFixture) -> None:
    shadow = Shadow(most=5, seconds=5)
    for work in (nothing, failing_with_words, not_found, failing_with_words):
        shadow.start("ada", "form_memories", work)
    await shadow.settle()
    assert shadow.counts("ada") == ShadowCounts(calls=4, failed={"ValueError": 2, "NotFoundError": 1})
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == 3
    assert all("agent ada failed at form_memories" in line for line in said)
    assert any("s12" in line for line in said)
    assert "bees" not in caplog.text


async def test_call_that_takes_too_long_is_ended_and_counted() -> None:
    shadow = Shadow(most=5, seconds=0.01)
    shadow.start("ada", "form_memories", for_ever)
    await shadow.settle()
    assert shadow.counts("ada").failed == {"TimeoutError": 1}


async def test_more_than_may_be_under_way_are_left_out_and_counted() -> None:
    shadow, gate = Shadow(most=2, seconds=5), asyncio.Event()
    for _ in range(3):
        shadow.start("ada", "form_memories", gate.wait)
    assert (shadow.counts("ada").calls, shadow.counts("ada").dropped) == (2, 1)
    gate.set()
    await shadow.settle()
    shadow.start("ada", "form_memories", nothing)
    await shadow.settle()
    assert shadow.counts("ada") == ShadowCounts(calls=3, dropped=1)


async def test_calls_of_one_session_are_done_in_turn_and_those_of_others_at_once() -> None:
    shadow, gate, done = Shadow(most=5, seconds=5), asyncio.Event(), list[str]()

    async def slow() -> None:
        await gate.wait()
        done.append("slow")
        raise ValueError("not in the way of the next")

    async def quick(name: str) -> None:
        done.append(name)

    shadow.start("ada", "form_memories", slow, "monday")
    shadow.start("ada", "assemble_memory_context", lambda: quick("next"), "monday")
    shadow.start("ada", "assemble_memory_context", lambda: quick("other"), "tuesday")
    for _ in range(5):
        await asyncio.sleep(0)
    assert done == ["other"]
    gate.set()
    await shadow.settle()
    assert done == ["other", "slow", "next"]
    assert not shadow._last


async def test_differences_add_up_by_agent_and_are_logged_as_counts_and_hashes(
    caplog: pytest.LogCaptureFixture,
) -> None:
    shadow = Shadow(most=5, seconds=5)
    with caplog.at_level(logging.INFO, "memory_sql"):
        shadow.compared("ada", ContextDifference(common=3, only_legacy=("mia keeps bees",), only_sql=()))
        shadow.compared("ada", ContextDifference(common=4))
    counts = shadow.counts("ada")
    assert (counts.contexts, counts.differing, counts.difference_rate) == (2, 1, 0.5)
    assert counts.statement_rate == pytest.approx(1 / 8)
    (line,) = [record.getMessage() for record in caplog.records]
    assert "3 statements in both, 1 in legacy alone" in line
    assert "bees" not in line
    other = shadow.counts("bob")
    assert other == ShadowCounts()
    assert other.difference_rate is other.statement_rate is None
