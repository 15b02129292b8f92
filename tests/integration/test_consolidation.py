import asyncio
import hashlib
import json
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from sqlalchemy import text as sql

from memory_sql.config import Settings
from memory_sql.consolidation import consolidation
from memory_sql.consolidation.task import ConsolidationTask
from memory_sql.db.principals import SERVICE
from memory_sql.db.repositories.scopes import ScopeRepository
from memory_sql.domain.results import RunDueResult
from memory_sql.domain.scopes import Contradiction
from memory_sql.domain.selection import Selection
from memory_sql.errors import (
    AnswerError,
    BusyError,
    GuardError,
    MemorySQLError,
    NotFoundError,
    StaleError,
    UnavailableError,
)
from memory_sql.llm import Request
from memory_sql.memory import Memory
from tests.database import TOLD, are_waiting, rows, serving
from tests.factories import MONDAY
from tests.fakes import Scripted
from tests.scoping import set_scopes

MIA: dict[str, Any] = {"agent_id": "ada", "user_id": "mia"}


async def remember(memory: Memory, *texts: str) -> int:
    """The id of Mia's scope, which now holds these."""
    for text in texts:
        observation = await memory.observe(text, **MIA)
    return observation.scope.key


def material(request: Request[Any]) -> ConsolidationTask:
    assert isinstance(request.material, ConsolidationTask)
    return request.material


async def head(memory: Memory) -> tuple[Any, ...]:
    (row,) = await rows(memory, f"SELECT content, version, done_seq, last_seq FROM {TOLD}")  # noqa: S608
    return row


async def pending(memory: Memory) -> list[str]:
    return [o.content for o in await memory.observations.list(**MIA) if o.pending]


async def test_consolidation_absorbs_exactly_what_it_read(memory: Memory, llm: Scripted) -> None:
    """R068–R070: what arrives while the model works stays pending, and is in the next version."""
    scope_id = await remember(memory, "one", "two")

    async def more(_: Request[Any]) -> str:
        await remember(memory, "three")
        return "One and two."

    async def look(request: Request[Any]) -> str:
        assert [item.text for item in material(request).observations] == ["three"]
        assert material(request).current == "One and two."
        return "One, two and three."

    llm.then(more, look)
    result = await memory.scopes.consolidate(agent_id="ada", scope_id=f"s{scope_id}")
    assert (result.version, result.absorbed, result.content) == (2, 3, "One, two and three.")
    history = await memory.scopes.history(**MIA)
    assert [(v.version, v.base, v.from_seq, v.to_seq, v.content) for v in history] == [
        (2, 1, 2, 3, "One, two and three."), (1, 0, 0, 2, "One and two."),
    ]  # fmt: skip
    assert await pending(memory) == []


async def test_observations_are_shown_in_the_order_of_their_time(memory: Memory, llm: Scripted) -> None:
    await memory.observe("later", **MIA, observed_at=MONDAY.replace(hour=12))
    scope_id = (await memory.observe("earlier", **MIA, observed_at=MONDAY)).scope.key
    llm.then("Both.")
    await memory.scopes.consolidate(agent_id="ada", scope_id=f"s{scope_id}")
    assert [item.text for item in material(llm.requests[0]).observations] == ["earlier", "later"]
    assert llm.requests[0].model == "gpt-5.1"  # R018


async def test_version_is_two_rows_however_many_observations_it_absorbs(memory: Memory, llm: Scripted) -> None:
    scope_id = await remember(memory, *(f"fact {n}" for n in range(60)))
    llm.then("Sixty facts.")
    await memory.scopes.consolidate(agent_id="ada", scope_id=f"s{scope_id}")
    assert await rows(memory, "SELECT count(*) FROM memory.consolidations") == [(1,)]
    assert await rows(memory, "SELECT count(*) FROM memory.observation_states") == [(0,)]


async def test_threshold_makes_a_scope_due(memory: Memory, llm: Scripted) -> None:
    """R055, R068."""
    await remember(memory, *(f"fact {n}" for n in range(9)))
    assert await memory.run_due() == RunDueResult()
    await remember(memory, "fact 10")
    llm.then("Ten facts.")
    (result,) = (await memory.run_due()).consolidated
    assert (result.version, result.absorbed) == (1, 10)
    assert await memory.run_due() == RunDueResult()
    assert [v.reason for v in await memory.scopes.history(**MIA)] == ["threshold"]


@pytest.mark.parametrize(
    ("answers", "error", "code"),
    [
        ((UnavailableError("timeout", "no answer"),), UnavailableError, "timeout"),
        (("",), MemorySQLError, "empty"),
        ((" \n ",), MemorySQLError, "empty"),
        (("word " * 601, "word " * 601), GuardError, "guard"),
        (("Short.", "Short."), GuardError, "guard"),
    ],
    ids=["unavailable", "empty", "blank", "over length", "shrunk"],
)
async def test_failed_consolidation_loses_nothing(
    memory: Memory, llm: Scripted, answers: tuple[Any, ...], error: type[Exception], code: str
) -> None:
    """R070, R117: the old text stays, what was pending is pending."""
    old = "A long text. " * 20
    scope_id = await remember(memory, "one")
    llm.then(old)
    await memory.scopes.consolidate(agent_id="ada", scope_id=f"s{scope_id}")
    await remember(memory, "two")
    llm.then(*answers)
    with pytest.raises(error):
        await memory.scopes.consolidate(agent_id="ada", scope_id=f"s{scope_id}")
    assert await head(memory) == (old.strip(), 1, 1, 2)
    assert await pending(memory) == ["two"]
    failed = await rows(memory, "SELECT error_code, input_tokens FROM memory.runs WHERE state = 'failed'")
    assert [row[0] for row in failed] == [code]
    llm.then(old + "And two.")
    assert (await memory.scopes.consolidate(agent_id="ada", scope_id=f"s{scope_id}")).version == 2


async def test_text_that_is_too_long_is_asked_for_once_more(memory: Memory, llm: Scripted) -> None:
    scope_id = await remember(memory, "one")
    llm.then("word " * 601, "Short enough.")
    assert (await memory.scopes.consolidate(agent_id="ada", scope_id=f"s{scope_id}")).content == "Short enough."
    assert "601 words" in llm.requests[1].prompt
    assert await rows(memory, "SELECT input_tokens, output_tokens FROM memory.runs") == [(200, 20)]


@pytest.mark.parametrize("change", ["version = version + 1", "epoch = epoch + 1", "fence = fence + 1"])
async def test_late_version_is_refused_when_the_scope_has_moved_on(memory: Memory, llm: Scripted, change: str) -> None:
    scope_id = await remember(memory, "one")
    llm.then("First.")
    await memory.scopes.consolidate(agent_id="ada", scope_id=f"s{scope_id}")
    await remember(memory, "two")

    async def overtaken(_: Request[Any]) -> str:
        await rows(memory, f"UPDATE memory.scopes SET {change}")  # noqa: S608 (the changes stand above)
        return "Too late."

    llm.then(overtaken)
    with pytest.raises(StaleError):
        await memory.scopes.consolidate(agent_id="ada", scope_id=f"s{scope_id}")
    assert await rows(memory, "SELECT content FROM memory.consolidations") == [("First.",)]
    assert await pending(memory) == ["two"]
    assert await rows(memory, "SELECT error_code FROM memory.runs WHERE state = 'failed'") == [("stale",)]


async def test_only_one_of_many_workers_consolidates(memory: Memory, llm: Scripted) -> None:
    scope_id = await remember(memory, "one", "two")
    llm.then("One and two.")
    calls = [memory.scopes.consolidate(agent_id="ada", scope_id=f"s{scope_id}") for _ in range(8)]
    results = await asyncio.gather(*calls, return_exceptions=True)
    done = [r for r in results if not isinstance(r, BaseException) and r.version]
    assert len(done) == 1
    assert all(isinstance(r, BusyError) for r in results if isinstance(r, BaseException))
    assert (await head(memory))[1:] == (1, 2, 2)


async def test_row_set_aside_is_passed_over_and_absorbed_once_it_is_back(memory: Memory, llm: Scripted) -> None:
    """Rules 1 and 3: neither lost nor doubled, whatever happens to its status meanwhile."""
    scope_id = await remember(memory, "one", "two", "three")
    set_status = (
        "INSERT INTO memory.observation_states (agent_key, scope_id, seq, status)"
        " SELECT agent_key, scope_id, 2, :status FROM memory.scopes"
        " ON CONFLICT (agent_key, scope_id, seq) DO UPDATE SET status = :status"
    )
    await rows(memory, set_status, status="archived")
    llm.then("One and three.")
    assert (await memory.scopes.consolidate(agent_id="ada", scope_id=f"s{scope_id}")).absorbed == 2
    assert await pending(memory) == []
    await rows(memory, set_status, status="active")
    assert await pending(memory) == ["two"]
    llm.then("One, two and three.")
    assert (await memory.scopes.consolidate(agent_id="ada", scope_id=f"s{scope_id}")).absorbed == 1
    assert await rows(memory, "SELECT version, from_seq, to_seq, extra_seqs FROM memory.consolidations ORDER BY 1") == [
        (1, 0, 3, []), (2, 3, 3, [2]),
    ]  # fmt: skip
    assert await pending(memory) == []
    absorbed = "SELECT seq, absorbed_by FROM memory.v_observations ORDER BY seq"
    assert await rows(memory, absorbed) == [(1, 1), (2, 2), (3, 1)]


async def test_scope_may_have_limits_of_its_own(memory: Memory, llm: Scripted) -> None:
    """R050, R051, R055, R056, C27."""
    scope_id = await remember(memory, "one", "two")
    await set_scopes(memory, consolidation_threshold=3, consolidation_max_words=30)
    await memory.prompts.set(f"s{scope_id}", "consolidation", "Write it as a sailor would.", agent_id="ada")
    await remember(memory, "three")
    llm.then("word " * 37, "Aye.")
    assert [r.content for r in (await memory.run_due()).consolidated] == ["Aye."]
    assert "Write it as a sailor would." in llm.requests[0].prompt


async def test_inactive_or_unconsolidated_scope_is_left_alone(memory: Memory) -> None:
    scope_id = await remember(memory, *(f"fact {n}" for n in range(12)))
    changes: list[dict[str, Any]] = [{"is_active": False}, {"is_active": True, "consolidate": False}]
    for change in changes:
        await set_scopes(memory, **change)
        assert (await memory.scopes.consolidate(agent_id="ada", scope_id=f"s{scope_id}")).version is None
        assert await memory.run_due() == RunDueResult()


async def test_batches_are_absorbed_one_version_each(database_url: str, llm: Scripted) -> None:
    async with Memory(database_url, llm, Settings(consolidation_batch=2)) as memory:
        scope_id = await remember(memory, "one", "two", "three")
        llm.then("Two.", "Three.")
        assert (await memory.scopes.consolidate(agent_id="ada", scope_id=f"s{scope_id}")).absorbed == 3
        assert [(v.from_seq, v.to_seq) for v in await memory.scopes.history(**MIA)] == [(2, 3), (0, 2)]


async def test_nothing_pending_and_nothing_there(memory: Memory) -> None:
    with pytest.raises(NotFoundError):
        await memory.scopes.consolidate(agent_id="ada", scope_id="s1")
    scope_id = await remember(memory, "one")
    with pytest.raises(NotFoundError):
        await memory.scopes.consolidate(agent_id="ada", scope_id=f"s{scope_id + 1}")
    await memory.observe("x", agent_id="bob", user_id="mia")
    with pytest.raises(NotFoundError):
        await memory.scopes.consolidate(agent_id="bob", scope_id=f"s{scope_id}")


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE memory.observations SET content = 'other'",
        "UPDATE memory.observations SET observed_at = now()",
        "UPDATE memory.consolidations SET content = 'other'",
        "UPDATE memory.consolidations SET to_seq = 9",
    ],
)
async def test_what_was_written_never_changes(memory: Memory, llm: Scripted, change: str) -> None:
    scope_id = await remember(memory, "one")
    llm.then("One.")
    await memory.scopes.consolidate(agent_id="ada", scope_id=f"s{scope_id}")
    with pytest.raises(MemorySQLError):
        await rows(memory, change)


async def test_marks_around_the_material_do_not_get_into_the_text(memory: Memory, llm: Scripted) -> None:
    """Seen with a small model."""
    scope_id = await remember(memory, "one")
    llm.then(lambda request: f"--- {request.boundary} begin text\nOne \\u003c two.\n--- {request.boundary} end text")
    assert (await memory.scopes.consolidate(agent_id="ada", scope_id=f"s{scope_id}")).content == "One < two."
    await remember(memory, "two")
    llm.then(lambda request: f"--- {request.boundary} begin text")
    with pytest.raises(AnswerError, match="empty"):
        await memory.scopes.consolidate(agent_id="ada", scope_id=f"s{scope_id}")


def consolidated(text: str, *contradictions: tuple[Any, ...]) -> str:
    """The answer to a consolidation: `(newer, older)` or `(newer, older, was, now)` each."""
    named = [dict(zip(("newer", "older", "was", "now"), item, strict=False)) for item in contradictions]
    return json.dumps({"text": text, "contradictions": named})


async def statuses(memory: Memory) -> list[tuple[Any, ...]]:
    """Of the observations that aren't as they were stored."""
    return await rows(
        memory, "SELECT seq, status, superseded_by FROM memory.observation_states WHERE status <> 'active' ORDER BY seq"
    )


async def test_what_is_contradicted_gives_way_and_is_told_as_such(memory: Memory, llm: Scripted) -> None:
    scope_id = await remember(memory, "The meeting is in the hall.", "Mia sails.", "The meeting is in the yard.")
    llm.then(consolidated("Mia sails. They meet in the yard.", (3, 1, "in the hall", "in the yard")))
    result = await memory.scopes.consolidate(agent_id="ada", scope_id=f"s{scope_id}")
    assert (result.absorbed, result.superseded, result.content) == (3, 1, "Mia sails. They meet in the yard.")
    assert await statuses(memory) == [(1, "superseded", 3)]
    assert [o.content for o in await memory.observations.list(**MIA)] == ["The meeting is in the yard.", "Mia sails."]
    assert [h.observation.content for h in (await memory.search("meeting", **MIA)).results] == [
        "The meeting is in the yard."
    ]
    assert (await memory.observations.get(f"o{scope_id}-1", **MIA)).status == "superseded"
    (version,) = await memory.scopes.history(**MIA)
    assert version.contradictions == (Contradiction(newer=3, older=1, was="in the hall", now="in the yard"),)
    assert await rows(memory, "SELECT kind, seq, version, run_id, detail FROM memory.events") == [
        ("status", 1, 1, result.run_id, {"from": "active", "to": "superseded", "by": 3})
    ]
    shown = "SELECT version, live, newer_id, older_id, was, now, older_status FROM memory.v_contradictions"
    assert await rows(memory, shown) == [
        (1, True, f"o{scope_id}-3", f"o{scope_id}-1", "in the hall", "in the yard", "superseded")
    ]
    assert list(await memory.admin.verify()) == []


async def test_text_so_far_may_be_what_is_contradicted(memory: Memory, llm: Scripted) -> None:
    scope_id = await remember(memory, "The meeting is in the hall.")
    llm.then("They meet in the hall.")
    await memory.scopes.consolidate(agent_id="ada", scope_id=f"s{scope_id}")
    await remember(memory, "The meeting is in the yard.")
    llm.then(consolidated("They meet in the yard.", (1, None, "in the hall", "in the yard")))
    assert (await memory.scopes.consolidate(agent_id="ada", scope_id=f"s{scope_id}")).superseded == 0
    assert await statuses(memory) == []
    assert (await memory.scopes.history(**MIA))[0].contradictions == (
        Contradiction(newer=2, older=None, was="in the hall", now="in the yard"),
    )


async def test_numbers_of_the_prompt_are_those_of_its_order(memory: Memory, llm: Scripted) -> None:
    """They are shown by their times; stored is what each is called in the scope."""
    await memory.observe("It is blue now.", **MIA, observed_at=MONDAY + timedelta(hours=1))
    scope_id = (await memory.observe("It is red.", **MIA, observed_at=MONDAY)).scope.key
    llm.then(consolidated("It is blue.", (2, 1, "red")))
    await memory.scopes.consolidate(agent_id="ada", scope_id=f"s{scope_id}")
    assert await statuses(memory) == [(2, "superseded", 1)]


@pytest.mark.parametrize(
    ("named", "reason"),
    [
        ((1, 3), "contradicted_by_older"),
        ((2, 2), "contradicted_by_older"),
        ((4, 1), "unknown_observation"),
        ((3, 0), "unknown_observation"),
        ((0, None), "unknown_observation"),
        (("three", 1), "unknown_observation"),
        ((3, None), "no_text_to_contradict"),
        ((3, 1), "not_its_words"),
        ((3, 1, "two"), "not_its_words"),
        (("n3", "k1", "one"), "unknown_observation"),
    ],
)
async def test_contradiction_that_cannot_be_is_refused_and_the_text_kept(
    memory: Memory, llm: Scripted, named: tuple[Any, ...], reason: str
) -> None:
    scope_id = await remember(memory, "one", "two", "three")
    llm.then(consolidated("One, two, three.", named))
    result = await memory.scopes.consolidate(agent_id="ada", scope_id=f"s{scope_id}")
    assert (result.content, result.superseded) == ("One, two, three.", 0)
    assert (await statuses(memory), (await memory.scopes.history(**MIA))[0].contradictions) == ([], ())
    assert await rows(memory, "SELECT refused FROM memory.runs") == [({reason: 1},)]


async def test_model_that_contradicts_everything_leaves_the_last_word(memory: Memory, llm: Scripted) -> None:
    """Promise 10: no more than three give way without a person, and all of it can be taken back."""
    scope_id = await remember(memory, *(f"fact {n}" for n in range(1, 6)))
    everything = [(newer, older, f"fact {older}") for newer in range(1, 6) for older in range(1, 6)]
    llm.then(consolidated("Nothing is true.", *everything))
    assert (await memory.scopes.consolidate(agent_id="ada", scope_id=f"s{scope_id}")).superseded == 3
    assert [o.content for o in await memory.observations.list(**MIA)] == ["fact 5", "fact 4"]
    assert await rows(memory, "SELECT refused FROM memory.runs") == [
        ({"contradicted_by_older": 15, "contradicted_twice": 6},)
    ]
    assert (await memory.scopes.undo(agent_id="ada", scope_id=f"s{scope_id}")).reinstated == 3
    assert len(await pending(memory)) == 5


async def test_undo_makes_what_gave_way_count_again(memory: Memory, llm: Scripted) -> None:
    scope_id = await remember(memory, "Amber.", "Blue.")
    llm.then(consolidated("Blue.", (2, 1, "Amber")))
    await memory.scopes.consolidate(agent_id="ada", scope_id=f"s{scope_id}")
    undone = await memory.scopes.undo(agent_id="ada", scope_id=f"s{scope_id}")
    assert (undone.version, undone.reinstated, undone.left_superseded) == (2, 1, 0)
    assert await pending(memory) == ["Blue.", "Amber."]
    assert await statuses(memory) == []
    assert await rows(memory, "SELECT version, detail FROM memory.events ORDER BY event_id DESC LIMIT 1") == [
        (2, {"from": "superseded", "to": "active"})
    ]
    assert await rows(memory, "SELECT live, older_status FROM memory.v_contradictions") == [(False, "active")]
    llm.then(consolidated("Blue.", (2, 1, "Amber")))
    assert (await memory.scopes.consolidate(agent_id="ada", scope_id=f"s{scope_id}")).superseded == 1
    assert list(await memory.admin.verify()) == []


async def test_undo_makes_an_extra_that_gave_way_wait_again(memory: Memory, llm: Scripted) -> None:
    """Rule 5: below the watermark it waits as one that was passed over."""
    scope_id = await remember(memory, "one", "two", "three")
    await set_aside(memory, 2, "archived")
    llm.then("One and three.")
    await memory.scopes.consolidate(agent_id="ada", scope_id=f"s{scope_id}")
    await set_aside(memory, 2, "active")
    await remember(memory, "not two")
    llm.then(consolidated("One, three, not two.", (2, 1, "two")))
    assert (await memory.scopes.consolidate(agent_id="ada", scope_id=f"s{scope_id}")).superseded == 1
    await memory.scopes.undo(agent_id="ada", scope_id=f"s{scope_id}")
    assert await pending(memory) == ["not two", "two"]
    assert list(await memory.admin.verify()) == []


async def set_aside(memory: Memory, seq: int, status: str) -> None:
    """Whatever it was before, as a person would."""
    await rows(
        memory,
        "INSERT INTO memory.observation_states (agent_key, scope_id, seq, status)"
        " SELECT agent_key, scope_id, :seq, :status FROM memory.scopes ON CONFLICT (agent_key, scope_id, seq)"
        " DO UPDATE SET status = :status, superseded_by = NULL, status_at = clock_timestamp()",
        seq=seq,
        status=status,
    )


async def test_undo_leaves_what_somebody_changed_since(memory: Memory, llm: Scripted) -> None:
    scope_id = await remember(memory, "one", "two", "three")
    llm.then(consolidated("Three.", (3, 1, "one"), (3, 2, "two")))
    await memory.scopes.consolidate(agent_id="ada", scope_id=f"s{scope_id}")
    await set_aside(memory, 1, "archived")
    undone = await memory.scopes.undo(agent_id="ada", scope_id=f"s{scope_id}")
    assert (undone.reinstated, undone.left_superseded) == (1, 0)
    assert await statuses(memory) == [(1, "archived", None)]


async def test_undo_leaves_what_was_said_again_since(memory: Memory, llm: Scripted) -> None:
    """Rule 9: the twin that is active stands for both, is what the older one gave way to, and the undo says so."""
    scope_id = await remember(memory, "Tea.", "Coffee.")
    llm.then(consolidated("Coffee.", (2, 1, "Tea")))
    await memory.scopes.consolidate(agent_id="ada", scope_id=f"s{scope_id}")
    await remember(memory, "Tea.")
    undone = await memory.scopes.undo(agent_id="ada", scope_id=f"s{scope_id}")
    assert (undone.reinstated, undone.left_superseded) == (0, 1)
    assert await statuses(memory) == [(1, "superseded", 3)]
    assert await pending(memory) == ["Tea.", "Coffee."]
    assert list(await memory.admin.verify()) == []


async def test_what_was_set_aside_while_the_model_worked_is_not_superseded(memory: Memory, llm: Scripted) -> None:
    scope_id = await remember(memory, "one", "two")

    async def archived(_: Request[Any]) -> str:
        await set_aside(memory, 1, "archived")
        return consolidated("Two.", (2, 1, "one"))

    llm.then(archived)
    assert (await memory.scopes.consolidate(agent_id="ada", scope_id=f"s{scope_id}")).superseded == 0
    assert await statuses(memory) == [(1, "archived", None)]


async def test_late_answer_supersedes_nothing(memory: Memory, llm: Scripted) -> None:
    scope_id = await remember(memory, "one", "two")

    async def overtaken(_: Request[Any]) -> str:
        await rows(memory, "UPDATE memory.scopes SET epoch = epoch + 1")
        return consolidated("Two.", (2, 1, "one"))

    llm.then(overtaken)
    with pytest.raises(StaleError):
        await memory.scopes.consolidate(agent_id="ada", scope_id=f"s{scope_id}")
    assert (await statuses(memory), await rows(memory, "SELECT * FROM memory.events")) == ([], [])


async def test_quotes_are_short_and_clean(memory: Memory, llm: Scripted) -> None:
    scope_id = await remember(memory, "one", "two")
    llm.then(consolidated("Two.", (2, 1, "one\n\x00 " * 100, "\\u003c")))
    await memory.scopes.consolidate(agent_id="ada", scope_id=f"s{scope_id}")
    ((found,),) = [version.contradictions for version in await memory.scopes.history(**MIA)]
    assert (len(found.was or ""), found.now) == (200, "<")
    assert "\n" not in (found.was or "")


async def test_row_released_below_the_watermark_while_a_text_is_written_is_in_the_next(
    memory: Memory, llm: Scripted
) -> None:
    """ABA: it was quarantined and is back; the version under way didn't read it."""
    scope_id = await remember(memory, "one", "two")
    await set_aside(memory, 1, "quarantined")
    llm.then("Two.")
    await memory.scopes.consolidate(agent_id="ada", scope_id=f"s{scope_id}")
    await remember(memory, "three")

    async def released(_: Request[Any]) -> str:
        await set_aside(memory, 1, "active")
        return "Two and three."

    llm.then(released, "All three.")
    assert (await memory.scopes.consolidate(agent_id="ada", scope_id=f"s{scope_id}")).absorbed == 2
    assert [(v.version, v.from_seq, v.to_seq) for v in await memory.scopes.history(**MIA)] == [
        (3, 3, 3),
        (2, 2, 3),
        (1, 0, 2),
    ]
    assert await rows(memory, "SELECT extra_seqs FROM memory.consolidations WHERE version = 3") == [([1],)]


async def test_answer_is_too_late_when_the_same_version_number_stands_again_on_another_text(
    memory: Memory, llm: Scripted
) -> None:
    """ABA: consolidated and undone meanwhile, the text and the watermark are as they were, the version isn't."""
    scope_id = await remember(memory, "one")
    llm.then("One.")
    await memory.scopes.consolidate(agent_id="ada", scope_id=f"s{scope_id}")
    await remember(memory, "two")

    async def back_and_forth(_: Request[Any]) -> str:
        await rows(memory, "UPDATE memory.scopes SET lease_until = NULL")
        await memory.scopes.consolidate(agent_id="ada", scope_id=f"s{scope_id}")
        await memory.scopes.undo(agent_id="ada", scope_id=f"s{scope_id}")
        await rows(memory, "UPDATE memory.scopes SET fence = 2")  # as if the lease had never been lost
        return "Too late."

    llm.then(back_and_forth, "One and two.")
    before = await head(memory)
    with pytest.raises(StaleError):
        await memory.scopes.consolidate(agent_id="ada", scope_id=f"s{scope_id}")
    after = await head(memory)
    assert (after[0], after[2:]) == (before[0], before[2:])
    assert await pending(memory) == ["two"]


async def test_scope_that_is_forgotten_after_it_was_claimed_is_stale(memory: Memory) -> None:
    """Also where the forgetting commits only while the run is started."""
    scope_id = await remember(memory, "one")
    claiming = partial(ScopeRepository.claim_of, agent_id="ada", scope_id=scope_id, lease=timedelta(minutes=5))
    scope = await memory.database.write(lambda unit: claiming(ScopeRepository(unit)), principal=SERVICE)
    assert scope is not None
    async with serving(memory) as forgetting:
        await memory.forget(Selection(everything=True), agent_id="ada", session=forgetting)
        loading = asyncio.ensure_future(
            memory.database.write(
                lambda unit: consolidation.load(unit, "ada", scope, memory.settings, MONDAY, "asked"),
                principal=SERVICE,
                single=True,
            )
        )
        await are_waiting(memory, 1)
    with pytest.raises(StaleError):
        await loading


LETTERS = str.maketrans("0123456789", "ghijklmnop")
TEXT = " ".join(hashlib.sha256(str(n).encode()).hexdigest()[:7].translate(LETTERS) for n in range(230))
"""Nothing that can be compressed."""


async def wal_of_a_version(memory: Memory, llm: Scripted, user: str, observations: int) -> int:
    """Bytes of write-ahead log of a version that absorbs that many, from its lease to the end of its run."""
    observed = await memory.observe("fact 1", agent_id="ada", user_id=user)
    more = {"n": observations, "scope_id": observed.scope.key}
    await rows(
        memory,
        "INSERT INTO memory.observations (agent_key, scope_id, seq, content, observed_at, source_kind, hash_version)"
        " SELECT agent_key, scope_id, n, 'fact ' || n, observed_at, source_kind, hash_version"
        " FROM memory.observations, generate_series(2, :n) AS n WHERE scope_id = :scope_id",
        **more,
    )
    await rows(memory, "UPDATE memory.scopes SET last_seq = :n WHERE scope_id = :scope_id", **more)
    async with memory.database.statement() as unit:
        await unit.execute(sql("VACUUM memory.scopes, memory.observations, memory.runs"))  # what that has left
    llm.then(TEXT)
    ((before,),) = await rows(memory, WRITTEN)
    written = await memory.scopes.consolidate(agent_id="ada", scope_id=observed.scope.id)
    ((after,),) = await rows(memory, WRITTEN)
    assert written.absorbed == observations
    async with memory.database.transaction() as unit:  # whose commit sees to it that all before it can be read
        await unit.execute(sql("SET LOCAL synchronous_commit = on"))
        await unit.execute(sql("SELECT pg_logical_emit_message(true, 'test', '')"))
    ((cost,),) = await rows(memory, COST, before=before, after=after)
    return int(cost)


WRITTEN = "SELECT pg_current_wal_insert_lsn()::text"
COST = """
    SELECT sum(record_length - fpi_length)
    FROM pg_get_wal_records_info(CAST(:before AS text)::pg_lsn, CAST(:after AS text)::pg_lsn)
    WHERE block_ref LIKE '%/' || (SELECT oid FROM pg_database WHERE datname = current_database()) || '/%'
"""
"""What was written to this database, without the pages that are written whole after a checkpoint."""


@pytest.mark.prove
async def test_version_costs_its_text_once_however_much_it_absorbs(database_url: str, llm: Scripted) -> None:
    settings, cost = Settings(consolidation_batch=1000), dict[int, int]()
    async with Memory(database_url, llm, settings) as memory:
        if not await rows(memory, "SELECT 1 FROM pg_available_extensions WHERE name = 'pg_walinspect'"):
            pytest.skip("this server can't look into its log")
        await rows(memory, "CREATE EXTENSION pg_walinspect")
        for size in (20, 200, 1000):
            cost[size] = min([await wal_of_a_version(memory, llm, f"u{size}.{n}", size) for n in range(3)])
    assert max(cost.values()) <= 1.2 * min(cost.values()), cost
    assert max(cost.values()) <= 3000 + len(TEXT), cost
