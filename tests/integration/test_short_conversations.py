"""Conversations of a message or two, each with an id of its own, as assistants make them: all are formed after a rest."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from memory_sql.domain.selection import Selection
from memory_sql.errors import UnavailableError
from memory_sql.formation.task import ExtractionTask
from memory_sql.llm import Request
from memory_sql.memory import Memory
from tests.database import rows
from tests.factories import MONDAY, Clock, message
from tests.fakes import Scripted, extracted

MIA: dict[str, Any] = {"agent_id": "ada", "user_id": "mia"}
IN_TWELVE = (  # none of them has a signal
    "We are moving to Graz in March.",
    "Im März ziehen wir nach Graz.",
    "En mars nous déménageons à Graz.",
    "En marzo nos mudamos a Graz.",
    "A marzo ci trasferiamo a Graz.",
    "Em março vamos para Graz.",
    "In maart verhuizen we naar Graz.",
    "W marcu przeprowadzamy się do Grazu.",
    "В марте мы переезжаем в Грац.",
    "三月我们搬到格拉茨。",
    "三月にグラーツへ引っ越します。",
    "3월에 그라츠로 이사해요.",
)


async def say(memory: Memory, name: str, *texts: str, user: str = "mia", **more: Any) -> None:
    said = [message(text, n=n, role="user" if n % 2 else "assistant") for n, text in enumerate(texts, 1)]
    await memory.add(said, agent_id="ada", user_id=user, conversation_id=name, **more)


async def stored(memory: Memory) -> list[tuple[Any, ...]]:
    return await rows(
        memory,
        "SELECT o.content, array_agg(e.conversation_id || e.number ORDER BY e.conversation_id, e.number)"
        " FROM memory.observations o JOIN memory.evidence e USING (agent_key, scope_id, seq)"
        " GROUP BY o.scope_id, o.seq, o.content ORDER BY o.content",
    )


@pytest.mark.parametrize("text", IN_TWELVE)
async def test_one_message_is_formed_after_a_rest(timed: Memory, llm: Scripted, clock: Clock, text: str) -> None:
    await say(timed, "c1", text)
    backlog = await timed.work.backlog()
    assert (backlog.due_conversations, backlog.waiting_conversations) == (0, 1)
    clock.goes_on(hours=7)
    assert (await timed.work.backlog()).due_conversations == 1
    llm.then(extracted((text, "individual", [1])))
    await timed.run_due()
    assert await stored(timed) == [(text, ["c11"])]
    assert (await timed.work.backlog()).waiting_conversations == 0
    assert list(await timed.admin.verify()) == []


async def test_what_rests_is_told_as_waiting(memory: Memory) -> None:
    await memory.add([{"role": "user", "content": "Boats."}], **MIA, conversation_id="c1")
    assert [(one.work, one.state, one.waiting) for one in await memory.work.waiting()] == [("formation", "not_due", 1)]


@pytest.mark.parametrize("minutes", [0, 1, 60, 1440])
async def test_what_is_short_waits_no_longer_than_a_day(timed: Memory, clock: Clock, minutes: int) -> None:
    """However often something is added; the rest ends at most a quarter of itself late, at most an hour."""
    await timed.configure(agent_id="ada", formation_rest_minutes=minutes)
    rest = timedelta(minutes=minutes)
    for n in range(3):
        await timed.add([message("Boats.", n=n)], **MIA, conversation_id="c1")
        ((due_at, reason),) = await rows(timed, "SELECT due_at, due_reason FROM memory.conversations")
        assert reason == "rest"
        assert min(clock.now + rest, MONDAY + timedelta(days=1)) <= due_at
        assert due_at <= min(clock.now + rest + min(rest / 4, timedelta(hours=1)), MONDAY + timedelta(days=1))
        clock.goes_on(minutes=minutes / 3)


async def test_short_conversations_of_a_user_are_formed_by_one_call(timed: Memory, llm: Scripted, clock: Clock) -> None:
    """Each with its own ids and day; what two of them say has the messages of both."""
    await say(timed, "c1", "Boats are fine.", "Noted.")
    clock.goes_on(hours=1)
    await say(timed, "c2", "The cat is called Pip.")
    await say(timed, "others", "Dogs are fine.", user="jon")
    clock.goes_on(hours=5)
    await say(timed, "c3", "Boats are fine, still.")
    await say(timed, "c4", "Just now.")
    await rows(timed, "UPDATE memory.conversations SET last_activity_at = :at WHERE conversation_id = 'c3'", at=MONDAY)
    clock.goes_on(minutes=5)
    await rows(timed, "UPDATE memory.conversations SET due_at = :at WHERE conversation_id = 'c1'", at=MONDAY)

    def answer(request: Request[Any]) -> str:
        assert request.prompt.count("== another conversation") == 2
        return extracted(
            ("Mia's boats are fine.", "individual", [1, 4]),
            ("Mia's cat is called Pip.", "individual", [3]),
            ("Mia has a cat Pip.", "individual", []),
        )

    llm.then(answer, extracted())
    done = await timed.run_due()
    assert llm.windows[0] == 4
    assert {one.conversation_id for one in done.formed} >= {"c1", "c2", "c3"}
    assert [content for content, _ in await stored(timed)] == [
        "Mia has a cat Pip.",
        "Mia's boats are fine.",
        "Mia's cat is called Pip.",
    ]
    assert dict(await stored(timed))["Mia's boats are fine."] == ["c11", "c31"]
    assert dict(await stored(timed))["Mia has a cat Pip."] == ["c21"]
    calls = await rows(
        timed,
        "SELECT sum(calls), sum(input_tokens) FROM memory.runs"
        " WHERE kind = 'formation' AND conversation_id IN ('c1', 'c2', 'c3')",
    )
    assert calls == [(1, 100)]
    assert await rows(timed, "SELECT formed_number FROM memory.conversations WHERE conversation_id = 'c4'") == [(0,)]
    assert list(await timed.admin.verify()) == []


async def together(memory: Memory, llm: Scripted, clock: Clock, first: str, second: str, *items: Any) -> None:
    """What these two conversations come to in one call."""
    await say(memory, "c1", first)
    clock.goes_on(hours=1)
    await say(memory, "c2", second)
    clock.goes_on(hours=7)
    llm.then(extracted(*items))
    await memory.run_due()


@pytest.mark.parametrize(
    ("first", "second", "told", "sources", "goes_with"),
    [
        pytest.param(
            "I see him every Monday.",
            "Zorbulax is my new therapist.",
            "Mia sees her therapist Zorbulax every Monday.",
            [1],
            ["c1", "c2"],
            id="the other one lends it a name",
        ),
        pytest.param(
            "I see him every Monday.",
            "Zorbulax is my new therapist.",
            "Mia sees her therapist Zorbulax every Monday.",
            [1, 2],
            ["c1", "c2"],
            id="both are named",
        ),
        pytest.param(
            "Montags geht es wieder zu ihr.",
            "Zorbulax heißt die neue Therapeutin.",
            "Mia geht montags zu ihrer Therapeutin Zorbulax.",
            [1],
            ["c1", "c2"],
            id="German",
        ),
        pytest.param(
            "毎週月曜に通っています。",
            "主治医は神楽坂先生です。",
            "毎週月曜に神楽坂先生のところに通っている。",
            [1],
            ["c1", "c2"],
            id="Japanese",
        ),
        pytest.param(
            "I go jogging at six.",
            "It's too early for breakfast.",
            "Mia goes jogging early, at six.",
            [1],
            ["c1"],
            id="a common word",
        ),
    ],
)
async def test_words_of_another_conversation_lead_to_it(
    timed: Memory,
    llm: Scripted,
    clock: Clock,
    first: str,
    second: str,
    told: str,
    sources: list[int],
    goes_with: list[str],
) -> None:
    await together(timed, llm, clock, first, second, (told, "individual", sources))
    assert [content for content, _ in await stored(timed)] == [told]
    for name in ("c1", "c2"):
        for lost in (Selection(conversation_id=name), Selection(conversation_id=name, message_id="m1")):
            preview = await timed.forget(lost, agent_id="ada", dry_run=True)
            assert bool(preview.observations) is (name in goes_with), lost
    await timed.forget(Selection(conversation_id=goes_with[-1]), agent_id="ada")
    assert await stored(timed) == []
    assert list(await timed.admin.verify()) == []


@pytest.mark.parametrize("edited", ["c1", "c2"])
async def test_edit_of_one_has_the_other_read_again(timed: Memory, llm: Scripted, clock: Clock, edited: str) -> None:
    """What was formed of both goes, and with it what the other one says by itself."""
    first, second = "I see him every Monday.", "Zorbulax is my new therapist."
    told = "Mia sees her therapist Zorbulax every Monday."
    await together(timed, llm, clock, first, second, (told, "individual", [1]))
    await timed.add([message("Never mind.", n=1)], **MIA, conversation_id=edited, replace=True)
    assert await stored(timed) == []
    assert list(await timed.admin.verify()) == []
    alone = {"c1": "Mia's therapist is Zorbulax.", "c2": "Mia sees him every Monday."}[edited]
    shown = list[str]()

    def answer(request: Request[Any]) -> str:
        shown.append(request.prompt)
        return extracted((alone, "individual", [1])) if "Never mind." not in request.prompt else extracted()

    llm.then(answer, answer)
    await timed.run_due()
    assert [content for content, _ in await stored(timed)] == [alone]
    assert len(shown) == 2
    assert list(await timed.admin.verify()) == []


async def test_words_said_in_confidence_elsewhere_stay_so(timed: Memory, llm: Scripted, clock: Clock) -> None:
    first, second = "I hand in my notice on Friday.", "Just between us: I'm leaving for Zorbulax in May."
    await together(
        timed, llm, clock, first, second, ("Mia hands in her notice on Friday, to go to Zorbulax.", "individual", [1])
    )
    assert await rows(timed, "SELECT confidential FROM memory.observations") == [(True,)]


async def test_what_fails_together_is_tried_alone(timed: Memory, llm: Scripted, clock: Clock) -> None:
    for n in range(3):
        await say(timed, f"c{n}", f"Boat {n}.")
    clock.goes_on(hours=7)
    llm.then(UnavailableError("timeout", "no answer"))
    done = await timed.run_due()
    assert len(done.failed) == 3
    assert await rows(timed, "SELECT DISTINCT due_reason, failures, lease_until FROM memory.conversations") == [
        ("retry", 1, None)
    ]
    clock.goes_on(hours=1)
    llm.then(*[extracted((f"Boat {n}.", "individual", [1])) for n in range(3)])
    assert len((await timed.run_due()).formed) == 3
    assert llm.windows == [3, 1, 1, 1]
    assert list(await timed.admin.verify()) == []


async def test_what_is_forgotten_meanwhile_costs_the_others_nothing(timed: Memory, llm: Scripted, clock: Clock) -> None:
    for n in range(3):
        await say(timed, f"c{n}", f"Boat {n}.")
    clock.goes_on(hours=7)

    async def answer(request: Request[Any]) -> str:
        await timed.forget(Selection(conversation_id="c1"), agent_id="ada")
        return every(request)

    def every(request: Request[Any]) -> str:
        assert isinstance(request.material, ExtractionTask)
        return extracted(*[(turn.text, "individual", [turn.n]) for turn in request.material.turns])

    llm.then(answer)
    await timed.run_due()
    assert await stored(timed) == []
    clock.goes_on(hours=1)
    llm.then(every)
    await timed.run_due()
    assert llm.windows == [3, 2]
    assert [content for content, _ in await stored(timed)] == ["Boat 0.", "Boat 2."]
    assert list(await timed.admin.verify()) == []


async def test_groups_and_persons_are_kept_apart(timed: Memory, llm: Scripted, clock: Clock) -> None:
    await say(timed, "alone", "Boat 0.")
    await say(timed, "crew", "Boat 1.", group_ids=["crew"])
    await say(timed, "crew2", "Boat 2.", group_ids=["crew"])
    await say(timed, "jon", "Boat 3.", user="jon")
    clock.goes_on(hours=7)
    llm.then(*[extracted() for _ in range(3)])
    await timed.run_due()
    assert sorted(llm.windows) == [1, 1, 2]
    assert list(await timed.admin.verify()) == []


async def test_a_worker_that_is_cancelled_gives_all_back(timed: Memory, llm: Scripted, clock: Clock) -> None:
    for n in range(3):
        await say(timed, f"c{n}", f"Boat {n}.")
    clock.goes_on(hours=7)
    asked = asyncio.Event()

    async def answer(_: Request[Any]) -> str:
        asked.set()
        await asyncio.Event().wait()
        raise AssertionError

    llm.then(answer)
    working = asyncio.create_task(timed.run_due())
    await asked.wait()
    working.cancel()
    with pytest.raises(asyncio.CancelledError):
        await working
    assert await rows(timed, "SELECT count(*) FROM memory.conversations WHERE lease_until IS NOT NULL") == [(0,)]
    assert await rows(timed, "SELECT count(*) FROM memory.runs WHERE finished_at IS NULL") == [(0,)]


async def test_messages_that_waited_before_are_caught_up(timed: Memory, llm: Scripted, clock: Clock) -> None:
    """Of a database in which what was short had no due time; and where the least number was lowered."""
    await say(timed, "c1", "Boat 1.", "Noted.")
    await rows(
        timed,
        "UPDATE memory.conversations SET due_at = NULL, due_reason = NULL, waits_below = 2147483647",
    )
    await timed.run_due()
    assert await rows(timed, "SELECT due_reason FROM memory.conversations") == [("rest",)]
    await timed.configure(agent_id="ada", formation_min_messages=2)
    assert await rows(timed, "SELECT due_reason FROM memory.conversations") == [("cold",)]


async def test_an_answer_that_was_given_to_several_is_asked_for_again(
    timed: Memory, llm: Scripted, clock: Clock
) -> None:
    """Of a worker that died before it was applied: by itself it may hold what another of them said."""
    await say(timed, "c1", "Boat 1.")
    clock.goes_on(hours=7)
    await rows(
        timed,
        "INSERT INTO memory.runs (agent_key, kind, conversation_id, from_number, to_number, fence, state, started_at,"
        " seen, answer) SELECT agent_key, 'formation', 'c1', 0, 1, fence, 'answered', created_at,"
        """ '{"epoch": 0, "scopes": {}, "targets": []}', '' FROM memory.conversations""",
    )
    llm.then(extracted(("Boat 1.", "individual", [1])))
    done = await timed.run_due()
    assert (len(done.formed), done.failed, llm.windows) == (1, {}, [1])
    assert await stored(timed) == [("Boat 1.", ["c11"])]
    assert list(await timed.admin.verify()) == []
