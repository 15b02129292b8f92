"""Search cues find observations and are shown to nobody."""

from __future__ import annotations

import json
from typing import Any

import pytest

from memory_sql.config import Settings
from memory_sql.memory import Memory
from tests.database import rows
from tests.factories import message
from tests.fakes import Scripted

HERE: dict[str, Any] = {"agent_id": "ada", "user_id": "mia", "conversation_id": "s"}
MIA: dict[str, Any] = {"agent_id": "ada", "user_id": "mia"}
TERMS = "SELECT content, terms FROM memory.observations ORDER BY scope_id, seq"


def cued(*items: tuple[str, list[str]], alias: str = "individual") -> str:
    found = [{"content": text, "sources": [1], "about": [], "terms": terms} for text, terms in items]
    return json.dumps({"individual": [], "collective": [], alias: found})


async def formed(memory: Memory, llm: Scripted, *items: tuple[str, list[str]]) -> None:
    await memory.add([message(" ".join(text for text, _ in items), name="Mia")], **HERE)
    llm.then(cued(*items))
    await memory.conversations.form(agent_id="ada", conversation_id="s")


async def test_found_by_a_term_alone_in_its_language(memory: Memory, llm: Scripted) -> None:
    await formed(
        memory, llm, ("Mia moors at berth 12.", ["boats", "mooring place", "harbour"]), ("Mia likes tea.", ["drink"])
    )
    assert await rows(memory, TERMS) == [
        ("Mia moors at berth 12.", "boats\nmooring place\nharbour"), ("Mia likes tea.", "drink")
    ]  # fmt: skip
    found = await memory.search("Where is her boat?", **MIA, explain=True)
    (hit,) = found.results
    assert hit.observation.content == "Mia moors at berth 12."
    assert hit.explanation is not None
    assert (hit.explanation.admitted, hit.explanation.terms) == ("terms", ("boats", "mooring place", "harbour"))
    assert hit.explanation.parts["terms"] > 0


async def test_own_words_count_more_however_many_terms_are_stuffed(memory: Memory, llm: Scripted) -> None:
    stuffed = ["boat ferry", "ship sail", "anchor", "ferry boat ship", "vessel", "sailing boat", "boats", "ferries"]
    await formed(memory, llm, ("Mia was in Rome.", stuffed), ("Mia's boat is a ferry.", []))
    for question in ("boat", "ferry", "which boat or ferry"):
        hits = (await memory.search(question, **MIA)).results
        assert [hit.observation.content for hit in hits] == ["Mia's boat is a ferry.", "Mia was in Rome."]


async def test_can_be_switched_off(database_url: str, memory: Memory, llm: Scripted) -> None:
    await formed(memory, llm, ("Mia moors at berth 12.", ["boat"]))
    async with Memory(database_url, llm, Settings(llm="offline", search_cues=False)) as off:
        assert (await off.search("boat", **MIA)).results == ()
        await off.add([message("Again", n=2)], **HERE)
        llm.then(cued(("Mia sails.", ["regatta"])))
        await off.conversations.form(agent_id="ada", conversation_id="s")
        assert "Leave `terms` empty." in llm.requests[-1].prompt
    assert await rows(memory, TERMS) == [("Mia moors at berth 12.", "boat"), ("Mia sails.", "")]


async def test_what_is_private_or_says_nothing_new_is_dropped(memory: Memory, llm: Scripted) -> None:
    terms = [
        "diabetes",
        "password: hunter22!x",
        "Berth",
        "moors",
        "a\nb",
        "a b",
        "x" * 61,
        *(f"cue {n}" for n in range(9)),
    ]
    await formed(memory, llm, ("Mia moors at berth 12.", terms))
    ((_, kept),) = await rows(memory, TERMS)
    assert kept.splitlines() == [
        "diabetes",
        "a b",
        *(f"cue {n}" for n in range(6)),
    ]  # in her own scope an illness may stand
    ((refused,),) = await rows(memory, "SELECT refused FROM memory.runs")
    assert refused["private_term"] >= 1


async def test_sensitive_term_stays_with_a_text_of_its_kind(memory: Memory, llm: Scripted) -> None:
    await formed(memory, llm, ("Mia has diabetes and takes insulin.", ["illness", "diabetic"]))
    assert await rows(memory, TERMS) == [("Mia has diabetes and takes insulin.", "illness\ndiabetic")]


async def test_correction_drops_them(memory: Memory, llm: Scripted) -> None:
    await formed(memory, llm, ("Mia moors at berth 12.", ["boat"]))
    await memory.observations.update("o1-1", **MIA, text="Mia moors at berth 14.")
    assert (await rows(memory, TERMS))[1] == ("Mia moors at berth 14.", "")
    assert [hit.observation.content for hit in (await memory.search("boat", **MIA)).results] == []


async def test_never_rendered_nor_in_a_prompt(memory: Memory, llm: Scripted) -> None:
    await formed(memory, llm, ("Mia moors at berth 12.", ["zanzibar"]))
    for message_ in (None, "Tell me about zanzibar"):
        assert "zanzibar" not in str(await memory.context(**MIA, message=message_)).replace(message_ or "", "")
    assert "zanzibar" not in str(await memory.digest(**MIA))
    llm.then("Mia moors at berth 12.", cued())
    await memory.scopes.consolidate(agent_id="ada", scope_id="s1")
    await memory.add([message("More", n=2)], **HERE)
    await memory.conversations.form(agent_id="ada", conversation_id="s")
    assert [request for request in llm.requests if "zanzibar" in request.prompt + request.instructions] == []
    assert "zanzibar" not in str(await memory.observations.list(**MIA))


async def test_nobody_else_finds_by_them(memory: Memory, llm: Scripted) -> None:
    await formed(memory, llm, ("Mia moors at berth 12.", ["zanzibar"]))
    assert (await memory.search("zanzibar", agent_id="ada", user_id="ben", explain=True)).results == ()
    assert await rows(memory, "SELECT count(*) FROM memory.v_observations WHERE v_observations::text ~ 'zanzibar'") == [
        (0,)
    ]


async def test_forgotten_with_the_observation(memory: Memory, llm: Scripted) -> None:
    await formed(memory, llm, ("Mia moors at berth 12.", ["zanzibar"]))
    await memory.forget("o1-1", agent_id="ada")
    assert await rows(memory, TERMS) == []


@pytest.mark.parametrize("terms", [None, "boat", [1, None], [["boat"]]])
async def test_terms_of_another_shape_harm_nothing(memory: Memory, llm: Scripted, terms: Any) -> None:
    await formed(memory, llm, ("Mia moors at berth 12.", terms))
    assert await rows(memory, TERMS) == [("Mia moors at berth 12.", "")]
