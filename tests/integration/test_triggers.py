"""When a conversation is due: by age, by its agent's settings, after exclusion, for scheduled messages."""

import json
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import text as sql

from memory_sql.config import Settings
from memory_sql.db.principals import SERVICE
from memory_sql.domain.results import RunDueResult
from memory_sql.errors import InputError, StaleError
from memory_sql.llm import Request
from memory_sql.memory import Memory
from tests.database import rows, statements
from tests.factories import MONDAY, Clock, conversation, message
from tests.fakes import Scripted, extracted

MIA: dict[str, Any] = {"agent_id": "ada", "user_id": "mia"}
HERE: dict[str, Any] = {**MIA, "conversation_id": "s"}
SESSION: dict[str, Any] = {"agent_id": "ada", "conversation_id": "s"}
DUE = "SELECT due_at, due_reason FROM memory.conversations"


async def test_conversation_that_never_falls_silent_is_formed_by_age(
    timed: Memory, llm: Scripted, clock: Clock
) -> None:
    """R149: a message every eight minutes, so never ten minutes of silence, nor 45 messages before it is two hours old."""
    due = []
    for n in range(1, 18):
        result = await timed.add([message(f"Word {n}.", n=n)], **HERE)
        due.append(result.trigger)
        clock.goes_on(minutes=8)
    assert due == [None] * 15 + ["age", "age"]
    llm.then(extracted(("Words.", "individual")))
    assert [result.messages for result in (await timed.run_due()).formed] == llm.windows == [17]
    assert await rows(timed, "SELECT unformed_since, due_at FROM memory.conversations") == [(None, None)]
    assert list(await timed.admin.verify()) == []


async def test_due_time_is_the_earlier_of_silence_and_age(timed: Memory, clock: Clock) -> None:
    await timed.add(conversation(4), **HERE)
    assert await rows(timed, DUE) == [(MONDAY + timedelta(minutes=10), "cold")]
    clock.goes_on(minutes=115)
    await timed.add([message("More.", n=9)], **HERE)
    assert await rows(timed, DUE) == [(MONDAY + timedelta(minutes=120), "age")]
    clock.goes_on(minutes=1)
    await timed.add([message("And more.", n=10)], **HERE)
    assert await rows(timed, DUE) == [(MONDAY + timedelta(minutes=120), "age")]


@pytest.mark.parametrize("minutes", [0.0, 0.001, 1, 10, 60, 5_256_000])
async def test_silence_ends_never_early_and_at_most_a_step_late(memory: Memory, minutes: float) -> None:
    """A step is a quarter of it, at most five minutes."""
    limits: dict[str, float] = {"formation_messages": 45, "formation_tokens": 1000, "formation_min_messages": 4}
    limits |= {"formation_cold_minutes": minutes, "formation_max_age_minutes": 9e6}
    late = await rows(
        memory,
        "SELECT f.due_at - s.at - :silence * interval '1 minute', f.due_reason"
        " FROM generate_series(now(), now() + interval '10 minutes', interval '1.234567 seconds') AS s (at)"
        " CROSS JOIN memory.formation_due(4, 1, false, s.at, CAST(:limits AS jsonb), s.at) f",
        limits=json.dumps(limits), silence=minutes,
    )  # fmt: skip
    step = min(timedelta(minutes=minutes) / 4, timedelta(minutes=5))
    assert {reason for _, reason in late} == {"cold"}
    assert timedelta() <= min(late)[0]
    assert max(late)[0] <= step


async def test_most_messages_leave_their_conversations_row_in_its_place(timed: Memory, clock: Clock) -> None:
    """What changes with each of them is in no index, and when it is due moves in steps."""
    told = "SELECT pg_stat_get_xact_tuples_updated(c), pg_stat_get_xact_tuples_hot_updated(c)"
    async with timed.database.transaction(principal=SERVICE) as session:
        for n in range(1, 33):
            await timed.add([message(f"Word {n}.", n=n)], **HERE, session=session)
            clock.goes_on(seconds=20)
        found = await session.execute(sql(f"{told} FROM CAST('memory.conversations' AS regclass) AS c"))
        ((updated, in_place),) = found.all()
    # A step of a rest is an hour, and one ends here; then it is due after a silence, in steps of 150 seconds.
    assert (updated, in_place) == (32, 26)


async def test_age_counts_from_the_oldest_message_that_is_left(timed: Memory, llm: Scripted, clock: Clock) -> None:
    await timed.add(conversation(4), **HERE)

    async def meanwhile(_: Request[Any]) -> str:
        clock.goes_on(minutes=30)
        await timed.add([message("Later.", n=9)], **HERE)
        clock.goes_on(minutes=30)
        return extracted()

    llm.then(meanwhile, extracted())
    await timed.conversations.form(**SESSION)
    await timed.add([message("Last.", n=10)], **HERE)
    assert await rows(timed, "SELECT unformed_since FROM memory.conversations") == [(MONDAY + timedelta(minutes=60),)]


async def test_few_messages_are_not_formed_after_a_short_silence(timed: Memory, llm: Scripted, clock: Clock) -> None:
    await timed.add(conversation(3), **HERE)
    clock.goes_on(hours=5)
    assert await timed.run_due() == RunDueResult()
    await timed.add(conversation(1, first=4), **HERE)
    clock.goes_on(minutes=10)
    llm.then(extracted())
    assert [result.messages for result in (await timed.run_due()).formed] == llm.windows == [4]


@pytest.mark.parametrize("trigger", ["nightly-report", 7])
async def test_scheduled_message_is_skipped_like_a_systems(memory: Memory, llm: Scripted, trigger: object) -> None:
    """Section B.1: messages with a trigger were not said by anybody."""
    scheduled = message("Actually, I prefer the report at nine.", n=1, trigger=trigger)
    assert (await memory.add([scheduled], **HERE)).trigger is None
    await memory.add([message("Actually, I prefer tea.", n=2, trigger=None)], **HERE)
    assert await rows(memory, "SELECT eligible FROM memory.messages ORDER BY number") == [(False,), (True,)]
    llm.then(extracted(("Tea.", "individual")))
    await memory.conversations.form(**SESSION)
    assert "report" not in llm.requests[0].prompt


# Exclusion


async def test_excluding_by_add_refuses_what_is_under_way(memory: Memory, llm: Scripted) -> None:
    await memory.add(conversation(4), **HERE)

    async def excluded(_: Request[Any]) -> str:
        await memory.add(conversation(1, first=5), **HERE, excluded=True)
        return extracted(("Tea.", "individual"))

    llm.then(excluded)
    with pytest.raises(StaleError):
        await memory.conversations.form(**SESSION)
    assert await memory.observations.list(**MIA) == []
    assert list(await memory.admin.verify()) == []


async def test_excluding_by_add_drops_an_answer_that_waits(memory: Memory) -> None:
    await memory.add(conversation(4), **HERE)
    await rows(
        memory,
        "INSERT INTO memory.runs (agent_key, kind, conversation_id, from_number, to_number, fence, state, answer)"
        " SELECT agent_key, 'formation', 's', 0, 4, 0, 'answered', 'something said' FROM memory.agents",
    )
    await memory.add([], **HERE, excluded=True)
    assert await rows(memory, "SELECT state, answer, error_code FROM memory.runs") == [("failed", None, "abandoned")]


async def test_lifting_exclusion_by_add_makes_what_was_said_before_due_again(memory: Memory) -> None:
    await memory.add([message("Actually, I prefer tea.")], **HERE)
    await memory.add([message("Something private.", n=2)], **HERE, excluded=True)
    assert await rows(memory, "SELECT due_reason FROM memory.conversations") == [(None,)]
    result = await memory.add([], **HERE, excluded=False)
    assert result.trigger == "signal"
    assert list(await memory.admin.verify()) == []


# Settings of an agent


async def test_agent_has_triggers_of_its_own(memory: Memory, llm: Scripted) -> None:
    """R143."""
    assert await memory.configure(agent_id="ada", formation_messages=5, time_zone="Europe/Berlin") == {
        "formation_messages": 5,
        "time_zone": "Europe/Berlin",
    }
    assert (await memory.add(conversation(5), **HERE)).trigger == "messages"
    assert (await memory.add(conversation(5), **{**HERE, "agent_id": "bob"})).trigger is None
    llm.then(extracted())
    await memory.run_due()
    assert await memory.configure(agent_id="ada", formation_messages=None) == {"time_zone": "Europe/Berlin"}
    assert (await memory.add(conversation(5, first=6), **HERE)).trigger is None


async def test_settings_of_an_agent_cost_no_statement(memory: Memory) -> None:
    await memory.configure(agent_id="ada", formation_messages=5)
    with statements(memory) as seen:
        await memory.add(conversation(5), **HERE)
    assert len(seen) == 1


async def test_agents_settings_hold_for_the_work(memory: Memory, llm: Scripted) -> None:
    await memory.configure(
        agent_id="ada", formation_window_messages=2, observation_max_items=1, consolidation_max_words=77, language="german"
    )  # fmt: skip
    await memory.add(conversation(4), **HERE, group_ids=["harbor"])
    llm.then(extracted(("One.", "individual"), ("Two.", "individual"), ("Three.", "individual")), extracted())
    formed = await memory.conversations.form(**SESSION)
    assert len(formed.run_ids) == 2
    assert (len(formed.observations), formed.refused) == (1, {"over_limit": 2})
    llm.then("All.")
    await memory.scopes.consolidate(agent_id="ada", scope_id=formed.observations[0].scope.id)
    assert "77" in llm.requests[-1].instructions + llm.requests[-1].prompt
    assert await rows(memory, "SELECT DISTINCT language FROM memory.scopes") == [("german",)]


async def test_budget_of_an_agent(memory: Memory, llm: Scripted) -> None:
    await memory.configure(agent_id="ada", daily_tokens=50)
    for session in ("s", "t"):
        await memory.add([message("Actually, I prefer tea.")], **{**HERE, "conversation_id": session})
    llm.then(extracted(), '{"facts": []}')
    result = await memory.run_due()
    assert (len(result.formed), len(result.failed)) == (1, 1)
    assert "50 daily tokens" in next(iter(result.failed.values()))


@pytest.mark.parametrize(
    "wrong",
    [
        {"formation_messages": 0},
        {"formation_messages": "many"},
        {"pool_size": 3},
        {"pool_size": None},
        {"nonsense": 1},
        {"time_zone": "Mars/Olympus"},
        {"time_zone": "../etc/passwd"},
        {"language": "klingon"},
    ],
)
async def test_setting_that_an_agent_cannot_have_is_refused(memory: Memory, wrong: dict[str, Any]) -> None:
    await memory.configure(agent_id="ada", formation_tokens=9)
    with pytest.raises(InputError, match=next(iter(wrong))):
        await memory.configure(agent_id="ada", **wrong)
    assert await memory.admin.settings(agent_id="ada") == {"formation_tokens": 9}


async def test_what_lower_thresholds_make_due_is_due_at_once(memory: Memory) -> None:
    for n in range(4):
        await memory.observe(f"fact {n}", **MIA)
    await memory.add(conversation(3), **HERE)
    assert (await memory.work.backlog()).due_scopes == 0
    await memory.configure(
        agent_id="ada", consolidation_threshold=4, formation_min_messages=2, formation_cold_minutes=0
    )
    backlog = await memory.work.backlog()
    assert (backlog.due_scopes, backlog.due_conversations) == (1, 1)
    assert list(await memory.admin.verify()) == []


async def test_what_a_lower_default_makes_due_is_found_by_who_does_the_work(
    database_url: str, llm: Scripted, settings: Settings
) -> None:
    async with Memory(database_url, llm, settings) as memory:
        for n in range(4):
            await memory.observe(f"fact {n}", **MIA)
        await memory.observe("one", agent_id="bob", user_id="mia")
    lower = settings.model_copy(update={"consolidation_threshold": 4})
    async with Memory(database_url, llm, lower) as memory:
        llm.then("Four facts.")
        assert [c.absorbed for c in (await memory.run_due()).consolidated] == [4]
        assert list(await memory.admin.verify()) == []


@pytest.mark.parametrize(
    ("text", "trigger"),
    [
        ("There is a CODE  blue in hall 4.", "signal"),
        ("The patient is nil by mouth.", "signal"),
        ("Une nouvelle consigne-été pour tous.", "signal"),
        ("Barcode bluebells.", None),
        ("Nil, by and by, mouth.", None),
        ("100% of it.", None),
    ],
)
async def test_host_adds_phrases_of_its_own(memory: Memory, text: str, trigger: str | None) -> None:
    """B.4: as whole words, in any case; of this agent alone; they are no patterns, and say nothing in the agent's mouth."""
    await memory.configure(agent_id="ada", formation_phrases=["code blue", "nil by mouth", "Consigne été", "1%"])
    assert (await memory.add([message(text, role="assistant")], **HERE)).trigger is None
    with statements(memory) as seen:
        assert (await memory.add([message(text, n=2)], **HERE)).trigger == trigger
    assert len(seen) == 1
    assert (await memory.add([message(text)], **{**HERE, "agent_id": "other"})).trigger is None


async def test_phrases_of_the_settings_count_for_every_agent_without_its_own(
    database_url: str, llm: Scripted, settings: Settings
) -> None:
    own = settings.model_copy(update={"formation_phrases": ("code blue",)})
    async with Memory(database_url, llm, own) as memory:
        await memory.configure(agent_id="other", formation_phrases=["code red"])
        assert (await memory.add([message("Code blue.")], **HERE)).trigger == "signal"
        assert (await memory.add([message("Code blue.")], **{**HERE, "agent_id": "other"})).trigger is None
        assert await rows(memory, "SELECT signal FROM memory.messages ORDER BY signal") == [("own phrase",), (None,)]


@pytest.mark.parametrize("phrases", [["…"], [""], ["x" * 256], [f"phrase {n}" for n in range(101)]])
async def test_phrases_have_a_word_and_a_limit(memory: Memory, phrases: list[str]) -> None:
    with pytest.raises(InputError, match="formation_phrases"):
        await memory.configure(agent_id="ada", formation_phrases=phrases)


async def test_standing_instruction_in_a_short_conversation_is_formed(timed: Memory, llm: Scripted) -> None:
    """Three messages are too few for anything else, however long it is silent."""
    said = [message("Hi!"), message("Hello.", n=2, role="assistant"), message("Don't use emojis.", n=3)]
    assert (await timed.add(said, **HERE)).trigger == "signal"
    llm.then(extracted(("Mia wants no emojis.", "individual", [3])))
    (formed,) = (await timed.run_due()).formed
    assert [o.content for o in formed.observations] == ["Mia wants no emojis."]
