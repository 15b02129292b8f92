"""What is asked again when an answer is incomplete or can't be used, what is stored of it, and what the ledger says."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import pytest

from memory_sql.config import Settings
from memory_sql.errors import AnswerError, LanguageModelError, RefusedError, StaleError, UnavailableError
from memory_sql.formation import formation
from memory_sql.formation.dialogue import Extracted
from memory_sql.llm import Request
from memory_sql.memory import Memory
from tests.database import rows, serving
from tests.factories import MONDAY, conversation, message
from tests.fakes import Scripted, by_scope, extracted, listing, offered
from tests.forming import loading
from tests.scoping import set_scopes


@pytest.fixture
def settings() -> Settings:
    """What is filed for others goes to them, not to its author as a proposal: here it is about calls and answers."""
    return Settings(llm="offline", shared_conversations=True, collective="direct")


HERE: dict[str, Any] = {"agent_id": "ada", "user_id": "mia", "conversation_id": "s"}
SESSION: dict[str, Any] = {"agent_id": "ada", "conversation_id": "s"}
LEDGER = "SELECT state, error_code, calls, input_tokens, output_tokens FROM memory.runs ORDER BY run_id"


async def contents(memory: Memory) -> list[tuple[str, str]]:
    found = await memory.observations.list(agent_id="ada", user_id="mia")
    return sorted((str(o.scope), o.content) for o in found)


async def test_usual_answer_takes_one_call(memory: Memory, llm: Scripted) -> None:
    await memory.add(conversation(4), **HERE, group_ids=["harbor"])
    llm.then(listing(("Tea.", "individual"), ("April.", "group_1")))
    assert (await memory.conversations.form(**SESSION)).refused == {}
    assert await contents(memory) == [("group:harbor", "April."), ("individual:mia", "Tea.")]
    assert await rows(memory, LEDGER) == [("succeeded", None, 1, 100, 10)]


@pytest.mark.parametrize(
    "bad", ["Sorry!", '{"individual": [{"conte', "", "[]", "{}", '{"individual": 1}', '{"a":1,"a":2}']
)
async def test_answer_that_cannot_be_used_is_asked_for_once_more(memory: Memory, llm: Scripted, bad: str) -> None:
    await memory.observe("Mia has a boat.", agent_id="ada", user_id="mia")
    await memory.add(conversation(4), **HERE)
    llm.then(bad, listing(("Tea.", "individual")))
    assert [o.content for o in (await memory.conversations.form(**SESSION)).observations] == ["Tea."]
    first, second = llm.requests
    assert offered(first) == offered(second) == ["individual", "collective"]
    assert "could not be used" not in first.prompt
    assert "A first answer could not be used: the " in second.prompt
    assert "Mia has a boat." in second.prompt
    assert await rows(memory, LEDGER) == [("succeeded", None, 2, 100, 10)]


async def test_scopes_are_asked_about_one_by_one_where_no_answer_for_all_can_be_used(
    memory: Memory, llm: Scripted
) -> None:
    """R347: as where an answer for all of them is too long for the model."""
    await memory.add(conversation(4), **HERE, group_ids=["harbor"])
    cut_off = '{"individual": [{"content": "Te'
    llm.then(cut_off, cut_off, listing(("Tea.", "individual")), listing(("April.", "group_1")), listing())
    assert (await memory.conversations.form(**SESSION)).refused == {}
    assert [offered(request) for request in llm.requests[2:]] == [["individual"], ["group_1"], ["collective"]]
    assert all("could not be used" not in request.prompt for request in llm.requests[2:])
    assert await contents(memory) == [("group:harbor", "April."), ("individual:mia", "Tea.")]
    assert await rows(memory, LEDGER) == [("succeeded", None, 5, 300, 30)]


async def test_answer_that_stays_unusable_fails_the_run_and_keeps_the_messages(memory: Memory, llm: Scripted) -> None:
    await memory.add(conversation(4), **HERE)
    llm.then("Sorry!", '{"individual": "no list"}', "Sorry!")  # the last about one scope; no other is asked about
    with pytest.raises(AnswerError):
        await memory.conversations.form(**SESSION)
    assert (await memory.admin.stats(agent_id="ada")).unformed_messages == 4
    assert await rows(memory, LEDGER) == [("failed", "not_json", 3, None, None)]


async def test_answer_about_the_only_scope_is_asked_for_twice_at_most(memory: Memory, llm: Scripted) -> None:
    await memory.observe("Known to all.", agent_id="ada", collective=True)
    await set_scopes(memory, "c", is_active=False)
    await memory.add(conversation(4), **HERE)
    llm.then("Sorry!", "Sorry!")
    with pytest.raises(AnswerError):
        await memory.conversations.form(**SESSION)
    assert await rows(memory, LEDGER) == [("failed", "not_json", 2, None, None)]


@pytest.mark.parametrize("error", [UnavailableError("timeout", "no answer"), ValueError("a mistake of the host's")])
async def test_no_answer_is_not_asked_about_again(memory: Memory, llm: Scripted, error: Exception) -> None:
    await memory.add(conversation(4), **HERE)
    llm.then(error)
    with pytest.raises(LanguageModelError):
        await memory.conversations.form(**SESSION)
    assert [calls for (calls,) in await rows(memory, "SELECT calls FROM memory.runs")] == [1]


async def test_scope_that_is_left_out_is_asked_about_by_itself_and_the_others_are_kept(
    memory: Memory, llm: Scripted
) -> None:
    await memory.add(conversation(4), **HERE, group_ids=["harbor", "quay"])
    llm.then(
        by_scope(["individual", "group_2"], ("Tea.", "individual"), ("Rum.", "group_2")),
        listing(("April.", "group_1")),
        listing(("Split.", "collective")),
    )
    assert (await memory.conversations.form(**SESSION)).refused == {}
    assert [offered(request) for request in llm.requests[1:]] == [["group_1"], ["collective"]]
    assert await contents(memory) == [
        ("collective", "Split."), ("group:harbor", "April."), ("group:quay", "Rum."), ("individual:mia", "Tea."),
    ]  # fmt: skip
    assert await rows(memory, LEDGER) == [("succeeded", None, 3, 300, 30)]


async def test_repair_and_then_a_call_for_what_is_still_missing(memory: Memory, llm: Scripted) -> None:
    await memory.add(conversation(4), **HERE)
    llm.then("Sorry!", by_scope(["individual"], ("Tea.", "individual")), listing(("Split.", "collective")))
    await memory.conversations.form(**SESSION)
    assert await contents(memory) == [("collective", "Split."), ("individual:mia", "Tea.")]
    assert await rows(memory, LEDGER) == [("succeeded", None, 3, 200, 20)]


@pytest.mark.parametrize(
    ("reply", "code"),
    [("Sorry!", "not_json"), (UnavailableError("timeout", "no answer"), "timeout"), (RefusedError("no"), "refused")],
)
async def test_nothing_is_stored_when_a_scopes_own_call_fails(
    memory: Memory, llm: Scripted, reply: str | Exception, code: str
) -> None:
    await memory.add(conversation(4), **HERE)
    llm.then(by_scope(["individual"], ("Tea.", "individual")), reply)
    with pytest.raises(LanguageModelError):
        await memory.conversations.form(**SESSION)
    assert (await memory.admin.stats(agent_id="ada")).unformed_messages == 4
    assert await contents(memory) == []
    assert await rows(memory, LEDGER) == [("failed", code, 2, 100, 10)]
    llm.then(listing(("Tea.", "individual")))
    await memory.conversations.form(**SESSION)
    assert await contents(memory) == [("individual:mia", "Tea.")]


async def test_a_scopes_own_call_writes_to_no_other(memory: Memory, llm: Scripted) -> None:
    """What names no scope there is of the one that was asked about; the rest was answered before."""
    await memory.add(conversation(4), **HERE)
    llm.then(
        by_scope(["individual"], ("Tea.", "individual")),
        '{"observations": [{"content": "Split."}, {"content": "Rum.", "scope": "individual", "sources": [1]},'
        ' {"content": "Oil.", "scope": "group_7", "sources": [1]}]}',
    )
    assert (await memory.conversations.form(**SESSION)).refused == {"unknown_scope": 2}
    assert await contents(memory) == [("collective", "Split."), ("individual:mia", "Tea.")]


async def test_names_that_the_model_invents_are_refused_and_recorded(memory: Memory, llm: Scripted) -> None:
    await memory.add(conversation(4), **HERE, group_ids=["harbor"])
    llm.then(
        listing(
            ("a", "group:harbor"), ("b", "harbor"), ("c", "group_2"), ("d", "individual_P9"), ("e", "group_1", [77])
        )
    )
    result = await memory.conversations.form(**SESSION)
    assert [o.content for o in result.observations] == ["e"]
    assert result.refused == {"unknown_scope": 4, "unknown_source": 1}
    assert await rows(memory, "SELECT refused FROM memory.runs") == [(result.refused,)]


# Isolated scopes


async def talk(memory: Memory) -> None:
    await memory.add([message("The crane is broken.")], **HERE, group_ids=["harbor", "quay"])
    for group in ("harbor", "quay"):
        await memory.observe(f"A plan of {group}.", agent_id="ada", group_id=group)
    await memory.observe("Known to all.", agent_id="ada", collective=True)
    await set_scopes(memory, "g:quay", extraction_mode="isolated")


async def test_isolated_scope_has_a_call_of_its_own_and_shows_its_text_in_no_other(
    memory: Memory, llm: Scripted
) -> None:
    await talk(memory)
    llm.then(listing(("Crane.", "group_1")), listing(("Quay.", "group_2")))
    await memory.conversations.form(**SESSION)
    shared, alone = llm.requests
    assert offered(shared) == ["individual", "group_1", "collective"]
    assert offered(alone) == ["group_2"]
    assert "A plan of quay." in alone.prompt
    assert "The crane is broken." in alone.prompt
    assert "A plan of harbor." not in alone.prompt + alone.instructions
    assert "Known to all." not in alone.prompt + alone.instructions
    assert "quay" not in shared.prompt + shared.instructions
    assert await rows(memory, "SELECT calls FROM memory.runs") == [(2,)]
    assert ("group:quay", "Quay.") in await contents(memory)


@pytest.mark.parametrize("answer", [by_scope, lambda _, *items: extracted(*items)], ids=["lists", "flat"])
async def test_nothing_crosses_between_an_isolated_scope_and_the_others(
    memory: Memory, llm: Scripted, answer: Callable[..., str]
) -> None:
    await talk(memory)
    before = await contents(memory)
    llm.then(
        answer(["individual", "group_1", "collective"], ("In.", "group_2"), ("In!", " Group_2")),
        answer(["group_2"], ("Out.", "individual"), ("Out!", "collective"), ("Out?", "group_1")),
    )
    assert (await memory.conversations.form(**SESSION)).refused == {"unknown_scope": 5}
    assert await contents(memory) == before


async def test_repair_of_an_isolated_scope_shows_no_other(memory: Memory, llm: Scripted) -> None:
    await talk(memory)
    llm.then(listing(), "Sorry!", listing(("Quay.", "group_2")))
    await memory.conversations.form(**SESSION)
    assert [offered(request) for request in llm.requests[1:]] == [["group_2"], ["group_2"]]
    assert "A plan of harbor." not in llm.requests[2].prompt
    assert await rows(memory, LEDGER) == [("succeeded", None, 3, 200, 20)]


# Where several people speak, the names of their scopes have a capital: `individual_P1`.


async def two_speak(memory: Memory) -> None:
    said = [message("I drink tea.", name="Mia"), message("I drink rum.", n=2, name="Ben", user_id="ben")]
    await memory.add(said, **HERE, group_ids=["harbor"])


async def test_isolated_persons_among_several_keep_what_is_theirs(memory: Memory, llm: Scripted) -> None:
    for user in ("mia", "ben"):
        await memory.observe("Known.", agent_id="ada", user_id=user)
    await set_scopes(memory, "u:%", extraction_mode="isolated")
    await two_speak(memory)
    llm.then(
        extracted(("Mia's.", "individual_P1"), ("Ben's.", "Individual_p2")),  # which were not offered here
        listing(("Tea.", "individual_P1", [1])),
        extracted(("Rum.", "individual_P2", [2]), ("Tea?", "individual_P1", [1])),
    )
    result = await memory.conversations.form(**SESSION)
    assert [offered(request) for request in llm.requests[1:]] == [["individual_P1"], ["individual_P2"]]
    assert [(str(o.scope), o.content) for o in result.observations] == [
        ("individual:mia", "Tea."), ("individual:ben", "Rum."),
    ]  # fmt: skip
    assert result.refused == {"unknown_scope": 3}


async def test_person_among_several_who_is_left_out_is_asked_about_and_kept(memory: Memory, llm: Scripted) -> None:
    await two_speak(memory)
    answered = by_scope(["individual_P1", "group_1", "collective"], ("Tea.", "individual_P1", [1]))
    llm.then(answered, listing(("Rum.", "individual_P2", [2])))
    result = await memory.conversations.form(**SESSION)
    assert [(str(o.scope), o.content) for o in result.observations] == [
        ("individual:mia", "Tea."), ("individual:ben", "Rum."),
    ]  # fmt: skip


async def test_all_scopes_may_be_isolated_or_closed(memory: Memory, llm: Scripted) -> None:
    await memory.observe("Mia has a boat.", agent_id="ada", user_id="mia")
    await memory.observe("Known to all.", agent_id="ada", collective=True)
    await set_scopes(memory, extraction_mode="isolated")
    await memory.add(conversation(4), **HERE)
    llm.then(listing(("Tea.", "individual")), listing())
    await memory.conversations.form(**SESSION)
    assert [offered(request) for request in llm.requests] == [["individual"], ["collective"]]
    await set_scopes(memory, is_active=False)
    await memory.add(conversation(4, first=5), **HERE)
    assert (await memory.conversations.form(**SESSION)).observations == ()  # and nobody is asked
    assert (await rows(memory, LEDGER))[-1] == ("empty", None, 0, 0, 0)


# Several calls, one commit


async def die_after_the_answer(memory: Memory, llm: Scripted) -> Extracted:
    async with serving(memory) as unit:
        _, loaded = await loading(unit, "ada", "s", memory.settings, MONDAY, "due")
    assert loaded is not None
    answered = await formation.decide(llm, loaded, memory.settings)
    async with serving(memory) as unit:
        await formation.keep(unit, loaded, answered, memory.settings)
    await rows(memory, "UPDATE memory.conversations SET lease_until = now() - interval '1 second'")
    return answered


@pytest.mark.parametrize("apart", [False, True])
async def test_what_several_calls_brought_is_applied_after_a_crash_without_asking_again(
    memory: Memory, llm: Scripted, apart: bool
) -> None:
    await memory.add([message("Crane.", name="Mia"), message("Boat.", n=2)], **HERE, group_ids=["harbor"])
    await memory.observe("A plan.", agent_id="ada", group_id="harbor")
    if apart:
        await set_scopes(memory, "g:harbor", extraction_mode="isolated")
    shared = ["individual", "collective"] if apart else ["individual"]
    llm.then(
        "Sorry!",
        by_scope(shared, ("Tea \ud800 <b>.", "individual", [2]), ("x", "nowhere")),
        by_scope(["group_1"], ("April.", "group_1", [1, 9]), ("y", "nowhere"), ("z", "individual")),
        *([] if apart else [listing()]),
    )
    answered = await die_after_the_answer(memory, llm)
    calls = len(llm.requests)
    result = await memory.conversations.form(**SESSION)
    assert len(llm.requests) == calls == answered.usage.calls
    assert [(str(o.scope), o.content, o.source.message_ids) for o in result.observations] == [
        ("individual:mia", "Tea \N{REPLACEMENT CHARACTER} <b>.", ("m2",)), ("group:harbor", "April.", ("m1",)),
    ]  # fmt: skip
    assert result.refused == {"unknown_scope": 3, "unknown_source": 1}
    assert await rows(memory, "SELECT state, calls, answer FROM memory.runs") == [("succeeded", calls, None)]


async def test_flat_answer_about_an_isolated_scope_is_applied_the_same_after_a_crash(
    memory: Memory, llm: Scripted
) -> None:
    await memory.add([message("Boat.", name="Mia")], **HERE)
    for owner in ({"collective": True}, {"user_id": "mia"}):
        await memory.observe("Known.", agent_id="ada", **owner)
    await set_scopes(memory, "c", extraction_mode="isolated")
    await set_scopes(memory, "u:%", is_active=False)
    llm.then('{"observations": [{"content": "Split."}, {"content": "Tea.", "scope": "individual"}]}')
    await die_after_the_answer(memory, llm)
    result = await memory.conversations.form(**SESSION)
    assert [(str(o.scope), o.content) for o in result.observations] == [("collective", "Split.")]
    assert result.refused == {"unknown_scope": 1}


@pytest.mark.parametrize(
    "meanwhile",
    [
        "UPDATE memory.scopes SET epoch = epoch + 1",
        "UPDATE memory.conversations SET epoch = epoch + 1",
        "UPDATE memory.conversations SET formed_number = formed_number + 1",
        "UPDATE memory.conversations SET fence = fence + 1",
    ],
    ids=["epoch of a scope", "epoch of the conversation", "cursor", "fence"],
)
@pytest.mark.parametrize("call", [1, 2, 3])
async def test_late_commit_is_refused_whichever_of_the_calls_was_overtaken(
    memory: Memory, llm: Scripted, meanwhile: str, call: int
) -> None:
    await memory.observe("Mia has a boat.", agent_id="ada", user_id="mia")
    await memory.add(conversation(4), **HERE)
    answers = [
        "Sorry!",
        by_scope(["individual"], ("Tea.", "individual")),
        by_scope(["collective"], ("x", "collective")),
    ]

    async def answer(_: Request[Any]) -> str:
        if len(llm.requests) == call:
            await rows(memory, meanwhile)
        return answers[len(llm.requests) - 1]

    llm.then(answer, answer, answer)
    with pytest.raises(StaleError):
        await memory.conversations.form(**SESSION)
    assert len(llm.requests) == 3
    assert await contents(memory) == [("individual:mia", "Mia has a boat.")]
    assert await rows(memory, "SELECT state, error_code FROM memory.runs") == [("failed", "stale")]


# Limits


async def test_each_scope_takes_up_to_its_limit_of_texts(memory: Memory, llm: Scripted) -> None:
    """R088, R090: thirty of fifty words unless the scope says otherwise."""
    await memory.add(
        conversation(4, saying="Facts of the individual, the group and the collective."), **HERE, group_ids=["harbor"]
    )
    await memory.observe("A plan.", agent_id="ada", group_id="harbor")
    await set_scopes(memory, "g:harbor", observation_max_items=0)
    items = [(f"{alias} fact {n}", alias) for n in range(32) for alias in ("individual", "group_1", "collective")]
    llm.then(listing(*items))
    result = await memory.conversations.form(**SESSION)
    assert [str(o.scope) for o in result.observations] == ["individual:mia"] * 30 + ["collective"] * 30
    assert result.refused == {"over_limit": 2 + 32 + 2}
    assert "of at most\n50 words" in llm.requests[0].prompt
    assert '- group_1: the shared work of the group "harbor" (at most 0 observations).' in llm.requests[0].prompt


@pytest.mark.slow
async def test_ten_thousand_observations_without_sources_take_seconds_at_most(memory: Memory, llm: Scripted) -> None:
    said = [message(f"Turn {n}: " + f"the boats of {n} lie in the harbour " * 20, n=n) for n in range(1, 41)]
    await memory.add(said, **HERE)
    many = json.dumps([{"content": f"fact {n}"} for n in range(10_000)])
    llm.then(f'{{"individual": {many}, "collective": []}}')
    started = time.process_time()
    result = await memory.conversations.form(**SESSION)
    assert time.process_time() - started < 10  # a minute, when the words of each message are taken anew
    assert len(result.observations) == 30
    assert result.refused == {"over_limit": 9_970}


@pytest.mark.slow
async def test_flat_answer_keeps_as_many_as_it_may_and_counts_the_rest(memory: Memory, llm: Scripted) -> None:
    await memory.add([message("Turn 1 about the boats.")], **HERE)
    scopes = ("individual", "moon", None, "individual")
    many = [{"content": f"fact {n}", "scope": scopes[n % 4], "sources": [1]} for n in range(8_000)]
    llm.then(json.dumps({"observations": many}))
    result = await memory.conversations.form(**SESSION)
    assert len(result.observations) == 30
    # Every fourth names no scope and is the author's, as half of them say themselves; of these 6,000 thirty have room.
    assert result.refused == {"unknown_scope": 2_000, "no_scope": 2_000, "over_limit": 5_970}


async def test_message_that_an_answer_names_twice_for_the_same_is_one_piece_of_evidence(
    memory: Memory, llm: Scripted
) -> None:
    await memory.add([message("Mia likes tea.", n=1), message("Tea, as I said.", n=2)], **HERE)
    llm.then(listing(("Tea.", "individual", [1, 1]), ("Tea.", "individual", [1, 2])))
    result = await memory.conversations.form(**SESSION)
    assert (len(result.observations), result.duplicates) == (1, 1)
    assert await rows(memory, "SELECT number FROM memory.evidence ORDER BY 1") == [(1,), (2,)]
