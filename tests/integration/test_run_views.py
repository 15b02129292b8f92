"""The views of runs: their numbers in a small story, and that they add up after a busy life."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import text

from memory_sql.config import Settings
from memory_sql.errors import AnswerError, UnavailableError
from memory_sql.memory import Memory
from tests.database import rows, serving
from tests.factories import MONDAY, conversation, message
from tests.fakes import HOPELESS, Scripted, extracted
from tests.integration.test_verify import Clock, Life

MIA: dict[str, Any] = {"agent_id": "ada", "user_id": "mia"}
SIGNAL = "Actually, I prefer tea."
DAY = [MONDAY.date() + timedelta(days=n) for n in range(3)]

FUNNEL = """
    SELECT day, messages, eligible, formed, discarded, waiting, runs, succeeded, empty, failed, dead, runs_discarded,
           under_way, observations, duplicates, refused
    FROM memory.v_formation_funnel WHERE agent_id = 'ada' ORDER BY day"""
COST = """
    SELECT day, kind, model, runs, failures, input_tokens, output_tokens, round(latency_seconds::numeric, 3)::text,
           round(latency_seconds_max::numeric, 3)::text
    FROM memory.v_model_cost WHERE agent_id = 'ada' ORDER BY day, kind, model"""


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def told(database_url: str, llm: Scripted, clock: Clock) -> AsyncIterator[Memory]:
    """Three days of Mia's: formed, tried in vain and put aside, left for later."""
    async with Memory(database_url, llm, Settings(llm="offline", max_errors=1), clock=clock) as memory:
        await memory.add([message("Be kind.", n=0, role="system"), *conversation(4)], **MIA, conversation_id="a")
        llm.then(extracted(("Tea.", "individual"), ("Tea.", "nowhere"), ("Boats.", "collective")))
        formed = await memory.conversations.form(agent_id="ada", conversation_id="a")
        llm.then("Mia drinks tea.")
        await memory.scopes.consolidate(agent_id="ada", scope_id=formed.observations[0].scope.id)
        await memory.observe("Nobody's day.", agent_id="bob", user_id="mia")
        clock.goes_on(days=1)
        await memory.add([message(SIGNAL, n=9)], **MIA, conversation_id="a")
        llm.then(UnavailableError("timeout", "no answer"))
        await memory.run_due()
        clock.goes_on(hours=1)
        llm.then(*HOPELESS)
        await memory.run_due()
        (dead,) = await memory.work.dead()
        await memory.work.discard(agent_id="ada", run_id=dead.run_id)
        await memory.add([message("Fine.", n=10)], **MIA, conversation_id="a")
        clock.goes_on(days=1)
        llm.then(extracted())
        await memory.conversations.form(agent_id="ada", conversation_id="a")
        await memory.add([message()], **MIA, conversation_id="b")
        llm.then(*HOPELESS)
        with pytest.raises(AnswerError):
            await memory.conversations.form(agent_id="ada", conversation_id="b")
        yield memory


async def test_funnel_tells_what_became_of_messages_and_runs(told: Memory) -> None:
    assert await rows(told, FUNNEL) == [
        (DAY[0], 5, 4, 4, 0, 0, 1, 1, 0, 0, 0, 0, 0, 2, 0, 2),
        (DAY[1], 2, 2, 1, 1, 0, 2, 0, 0, 1, 0, 1, 0, 0, 0, 0),
        (DAY[2], 1, 1, 0, 0, 1, 2, 0, 1, 1, 0, 0, 0, 0, 0, 0),
    ]


async def test_funnel_counts_what_is_under_way_and_what_was_given_up(told: Memory) -> None:
    for n, state in enumerate(("running", "dead")):
        await rows(
            told,
            "UPDATE memory.runs SET state = :state, error_code = CASE WHEN :state = 'dead' THEN 'x' END,"
            " finished_at = CASE WHEN :state = 'dead' THEN now() END"
            " WHERE run_id = (SELECT max(run_id) FROM memory.runs)",
            state=state,
        )
        found = await rows(
            told, "SELECT failed, under_way, dead FROM memory.v_formation_funnel ORDER BY day DESC LIMIT 1"
        )
        assert found == [(0, 1 - n, n)]


async def test_cost_is_by_day_kind_and_model(told: Memory) -> None:
    assert await rows(told, COST) == [
        (DAY[0], "consolidation", "scripted", 1, 0, 100, 10, "0.010", "0.010"),
        (DAY[0], "formation", "scripted", 1, 0, 100, 10, "0.010", "0.010"),
        (DAY[1], "formation", None, 2, 2, 0, 0, None, None),
        (DAY[2], "formation", "scripted", 1, 0, 100, 10, "0.010", "0.010"),
        (DAY[2], "formation", None, 1, 1, 0, 0, None, None),
    ]


async def test_latency_is_the_mean_and_the_longest(told: Memory) -> None:
    await rows(told, "UPDATE memory.runs SET model = 'slow', latency_seconds = run_id * 0 + 1 WHERE kind = 'formation'")
    await rows(told, "UPDATE memory.runs SET latency_seconds = 4 WHERE run_id = (SELECT max(run_id) FROM memory.runs)")
    (row,) = await rows(
        told,
        "SELECT runs, failures, latency_seconds, latency_seconds_max FROM memory.v_model_cost"
        " WHERE model = 'slow' AND day = :day",
        day=DAY[2],
    )
    assert row == (2, 1, 2.5, 4.0)


async def test_days_are_those_of_utc(told: Memory) -> None:
    late = await rows(
        told,
        "UPDATE memory.messages SET created_at = '2026-03-05 00:30+02' WHERE conversation_id = 'b' RETURNING number",
    )
    assert len(late) == 1
    async with serving(told) as unit:
        await unit.execute(text("SET LOCAL timezone = 'Asia/Tokyo'"))
        found = await unit.execute(text("SELECT day, messages FROM memory.v_formation_funnel ORDER BY day"))
        assert [tuple(row) for row in found] == [(DAY[0], 5), (DAY[1], 2), (DAY[2], 1)]


async def test_agent_without_conversations_has_no_row(told: Memory) -> None:
    assert await rows(told, "SELECT day FROM memory.v_formation_funnel WHERE agent_id = 'bob'") == []
    assert await rows(told, "SELECT day FROM memory.v_model_cost WHERE agent_id = 'bob'") == []


@pytest.mark.slow
async def test_everything_adds_up_after_a_busy_life(database_url: str) -> None:
    life = Life(database_url)
    async with life.memory as memory:
        async for _ in life.chapters():
            pass
        assert await rows(memory, PARTS) == []
        assert await rows(memory, SUMS) == await rows(memory, COUNTS)
        assert await rows(memory, COST_SUMS) == await rows(memory, COST_COUNTS)
        for view, key in (("v_formation_funnel", "agent_id, day"), ("v_model_cost", "agent_id, day, kind, model")):
            (row,) = await rows(memory, f"SELECT count(*), count(DISTINCT ({key})) FROM memory.{view}")  # noqa: S608
            assert row[0] == row[1] > 0


PARTS = """
    SELECT day FROM memory.v_formation_funnel
    WHERE eligible <> formed + discarded + waiting OR messages < eligible
       OR runs <> succeeded + empty + failed + dead + runs_discarded + under_way"""
SUMS = """
    SELECT sum(messages), sum(eligible), sum(waiting), sum(runs), sum(succeeded), sum(dead), sum(observations)
    FROM memory.v_formation_funnel"""
COUNTS = """
    SELECT (SELECT count(*) FROM memory.messages), (SELECT count(*) FROM memory.messages WHERE eligible),
           (SELECT sum(unformed_messages) FROM memory.conversations),
           (SELECT count(*) FROM memory.runs WHERE kind = 'formation'),
           (SELECT count(*) FROM memory.runs WHERE kind = 'formation' AND state = 'succeeded'),
           (SELECT count(*) FROM memory.conversations WHERE dead_run_id IS NOT NULL),
           (SELECT count(*) FROM memory.observations WHERE source_kind = 'formation')"""
COST_SUMS = "SELECT sum(runs), sum(failures), sum(input_tokens), sum(output_tokens) FROM memory.v_model_cost"
COST_COUNTS = """
    SELECT count(*), count(error_code), sum(coalesce(input_tokens, 0)), sum(coalesce(output_tokens, 0)) FROM memory.runs"""
