"""Dates in observations: resolved in the conversation's time zone, stored beside the text."""

from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest

from memory_sql.config import Settings
from memory_sql.errors import InputError
from memory_sql.memory import Memory
from tests.database import rows
from tests.factories import message
from tests.fakes import Scripted, extracted

MIA: dict[str, Any] = {"agent_id": "ada", "user_id": "mia"}
HERE: dict[str, Any] = {**MIA, "conversation_id": "s"}
SESSION: dict[str, Any] = {"agent_id": "ada", "conversation_id": "s"}
LATE = datetime(2026, 11, 20, 23, 30, tzinfo=UTC)  # Saturday in Berlin, Friday in UTC


async def dates(memory: Memory) -> list[list[tuple[date, date]]]:
    """Of each observation, both ends included."""
    return [
        [(r.lower, r.upper - timedelta(days=1)) for r in found or []]
        for (found,) in await rows(memory, "SELECT dates FROM memory.observations ORDER BY scope_id, seq")
    ]


@pytest.mark.parametrize(
    ("zone", "resolved"), [(None, "2026-11-19"), ("Europe/Berlin", "2026-11-20"), ("America/New_York", "2026-11-19")]
)
async def test_relative_date_is_resolved_where_it_was_said(
    memory: Memory, llm: Scripted, zone: str | None, resolved: str
) -> None:
    said = message("I sold the boat yesterday.", created_at=LATE)
    await memory.add([said], **HERE, time_zone=zone)
    llm.then(extracted(("Mia sold the boat yesterday and sails on 2026-12-24.", "individual")))
    (observation,) = (await memory.conversations.form(**SESSION)).observations
    assert observation.content == "Mia sold the boat yesterday and sails on 2026-12-24."
    day, christmas = date.fromisoformat(resolved), date(2026, 12, 24)
    assert await dates(memory) == [[(day, day), (christmas, christmas)]]


async def test_latest_source_is_when_it_was_said(memory: Memory, llm: Scripted) -> None:
    await memory.add(
        [message("Boats?", n=1, created_at=LATE - timedelta(days=5)), message("Last week.", n=2, created_at=LATE)], **HERE
    )  # fmt: skip
    llm.then(extracted(("Mia bought a boat last week.", "individual", [1, 2])))
    await memory.conversations.form(**SESSION)
    assert await dates(memory) == [[(date(2026, 11, 9), date(2026, 11, 15))]]


async def test_prompt_shows_turns_in_the_conversations_zone(memory: Memory, llm: Scripted) -> None:
    await memory.add([message("Tea.", created_at=LATE)], **HERE, time_zone="Europe/Berlin")
    llm.then(extracted())
    await memory.conversations.form(**SESSION)
    assert "2026-11-21T00:30+01:00 (Saturday)" in llm.requests[0].prompt


async def test_zone_is_kept_until_another_is_given(memory: Memory) -> None:
    for zone in ("Europe/Berlin", None, "Asia/Tokyo"):
        await memory.add([], **HERE, time_zone=zone)
    assert await rows(memory, "SELECT time_zone FROM memory.conversations") == [("Asia/Tokyo",)]


@pytest.mark.parametrize("zone", ["Mars/Olympus", "", "Europe", "../../etc/passwd", "/etc/localtime", "A\x00B"])
async def test_unknown_zone_is_refused(memory: Memory, zone: str) -> None:
    with pytest.raises(InputError, match="time zone"):
        await memory.add([message()], **HERE, time_zone=zone)
    assert await rows(memory, "SELECT count(*) FROM memory.conversations") == [(0,)]


async def test_what_is_observed_is_dated_as_well(memory: Memory) -> None:
    """By the conversation's zone where it names one, else by the agent's, else by the default."""
    await memory.add([message()], **HERE, time_zone="America/New_York")
    texts = [(await memory.observe("Mia sails tomorrow.", **HERE, observed_at=LATE)).content]
    texts.append((await memory.observe("Mia swims tomorrow.", **MIA, observed_at=LATE)).content)
    await memory.configure(agent_id="ada", time_zone="Asia/Tokyo")
    texts.append((await memory.observe("Mia rows tomorrow.", **MIA, observed_at=LATE)).content)
    assert texts == ["Mia sails tomorrow.", "Mia swims tomorrow.", "Mia rows tomorrow."]
    assert [day.day for ((day, _),) in await dates(memory)] == [21, 21, 22]


async def test_same_words_on_another_day_are_another_observation(memory: Memory) -> None:
    ids = [
        (await memory.observe("Mia ran yesterday.", **MIA, observed_at=LATE + timedelta(days=n))).id for n in (0, 0, 1)
    ]
    assert len(set(ids)) == 2


async def test_text_without_dates_has_none(memory: Memory) -> None:
    await memory.observe("Mia prefers tea.", **MIA)
    assert await rows(memory, "SELECT dates FROM memory.observations") == [(None,)]


async def test_default_zone_is_a_setting(database_url: str, llm: Scripted) -> None:
    async with Memory(database_url, llm, Settings(llm="offline", time_zone="Asia/Tokyo")) as memory:
        await memory.observe("Mia sails today.", **MIA, observed_at=LATE)
        assert await dates(memory) == [[(date(2026, 11, 21), date(2026, 11, 21))]]


async def test_text_is_found_by_the_year_of_what_it_tells(memory: Memory) -> None:
    told = {**MIA, "observed_at": datetime(2024, 1, 12, tzinfo=UTC)}
    boat = await memory.observe("Last week I sold the boat.", **told)
    await memory.observe("The boat was old.", **told)
    found = await memory.search("boat in 2024", **MIA, explain=True)
    assert found.results[0].observation.id == boat.id
    first, second = (hit.explanation.parts["words"] for hit in found.results if hit.explanation)
    assert first > second  # both were said in 2024; one tells of it
    assert (await rows(memory, "SELECT content FROM memory.observations ORDER BY seq"))[0] == (boat.content,)
