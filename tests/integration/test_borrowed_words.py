"""Words of an observation that stand in other messages than those which the model names: these are its sources as well."""

from __future__ import annotations

from typing import Any

import pytest

from memory_sql.domain.selection import Selection
from memory_sql.memory import Memory
from tests.database import rows
from tests.fakes import Scripted, listing

ADA: dict[str, Any] = {"agent_id": "ada"}
MIA: dict[str, Any] = {**ADA, "user_id": "mia"}
SESSION: dict[str, Any] = {**ADA, "conversation_id": "s"}
YES = ("mia", "Yes, please do.")
Said = tuple[str, str]


async def form(memory: Memory, llm: Scripted, said: list[Said], *items: Any, **given: Any) -> Any:
    """By the users of these ids, or by the assistant (`ada`) and a tool."""
    roles = {"ada": "assistant", "tool": "tool"}
    messages = [
        {"id": f"m{n}", "content": text, "role": roles.get(who, "user")}
        | ({} if who in roles else {"user_id": who, "name": who.capitalize()})
        for n, (who, text) in enumerate(said, 1)
    ]
    await memory.add(messages, **MIA, conversation_id="s", **given)
    llm.then(listing(*items))
    return await memory.conversations.form(**SESSION)


def behind(formed: Any) -> list[tuple[str, ...]]:
    return [one.source.message_ids for one in formed.observations]


@pytest.mark.parametrize(
    ("said", "content", "named", "sources"),
    [
        pytest.param(
            [("mia", "My sister Zorbulax has cancer."), ("ada", "Shall I remember that?"), YES],
            "Mia's sister Zorbulax has cancer.",
            [3],
            ["m1", "m3"],
            id="a yes to one's own words",
        ),
        pytest.param(
            [("mia", "Zorbulax is my new therapist."), ("mia", "I see him every Monday.")],
            "Mia sees her therapist Zorbulax every Monday.",
            [2],
            ["m1", "m2"],
            id="a pronoun",
        ),
        pytest.param(
            [("mia", "I see her every Monday."), ("mia", "Dr Zorbulax, I mean.")],
            "Mia sees Dr Zorbulax every Monday.",
            [1],
            ["m1", "m2"],
            id="who is meant is said afterwards",
        ),
        pytest.param(
            [("mia", "I drink green tea every morning."), ("mia", "I see Dr Zorbulax for chemotherapy.")],
            "Mia drinks green tea every morning and sees Dr Zorbulax for chemotherapy.",
            [1],
            ["m1", "m2"],
            id="two messages in one sentence",
        ),
        pytest.param(
            [("mia", "Zorbulax is my therapist."), ("mia", "His practice is in Haarlem."), ("mia", "I go by tram.")],
            "Mia goes to her therapist Zorbulax in Haarlem by tram.",
            [3],
            ["m1", "m2", "m3"],
            id="three messages",
        ),
        pytest.param(
            [("mia", "My sister Zorbulax has cancer."), ("ada", "Zorbulax has cancer: shall I remember that?"), YES],
            "Mia's sister Zorbulax has cancer.",
            [2, 3],
            ["m1", "m2", "m3"],
            id="the agent has said again what a person said",
        ),
        pytest.param(
            [("mia", "I'm tired."), ("ada", "Shall I note that you see Dr Zorbulax on Mondays?"), YES],
            "Mia sees Dr Zorbulax on Mondays.",
            [3],
            ["m2", "m3"],
            id="the agent's own words",
        ),
        pytest.param(
            [("mia", "Meine Therapeutin heißt Zorbulax."), ("mia", "Ich bin jeden Montag bei ihr.")],
            "Mia ist jeden Montag bei ihrer Therapeutin Zorbulax.",
            [2],
            ["m1", "m2"],
            id="German",
        ),
        pytest.param(
            [("mia", "Mój lekarz nazywa się Zorbulax."), ("mia", "Chodzę do niego w poniedziałki.")],
            "Mia chodzi w poniedziałki do lekarza Zorbulaxa.",
            [2],
            ["m1", "m2"],
            id="Polish, inflected",
        ),
        pytest.param(
            [("mia", "Мой врач Зорбулакс."), ("mia", "Хожу к нему по понедельникам.")],
            "Mia ходит по понедельникам к врачу Зорбулаксу.",
            [2],
            ["m1", "m2"],
            id="Russian, inflected",
        ),
        pytest.param(
            [("mia", "主治医は神楽坂先生です。"), ("mia", "毎週月曜に通っています。")],
            "Miaは毎週月曜に神楽坂先生のところに通っている。",
            [2],
            ["m1", "m2"],
            id="Japanese",
        ),
        pytest.param(
            [("mia", "My rent is 1345 euros for the flat in Haarlem."), ("mia", "It rises in May.")],
            "Mia's rent of 1345 euros rises in May.",
            [2],
            ["m1", "m2"],
            id="a figure",
        ),
        pytest.param(
            [("mia", "I like walking."), ("mia", "I live in Haarlem."), ("mia", "I work in Haarlem, too.")],
            "Mia works in Haarlem.",
            [3],
            ["m3"],
            id="what its own source says needs no other",
        ),
    ],
)
async def test_message_whose_words_it_has_is_a_source(
    memory: Memory, llm: Scripted, said: list[Said], content: str, named: list[int], sources: list[str]
) -> None:
    formed = await form(memory, llm, said, (content, "individual", named))
    assert [one.content for one in formed.observations] == [content]
    assert behind(formed) == [tuple(sources)]
    for lost in sources:
        preview = await memory.forget(Selection(conversation_id="s", message_id=lost), **ADA, dry_run=True)
        assert preview.observations == (formed.observations[0].id,)
    await memory.forget(Selection(conversation_id="s", message_id=sources[0]), **ADA)
    assert await rows(memory, "SELECT content FROM memory.observations") == []


async def test_other_persons_words_lead_to_them(memory: Memory, llm: Scripted) -> None:
    said = [("jon", "Zorbulax is my new therapist."), ("mia", "I see him too, every Monday.")]
    content = "Mia sees Jon's therapist Zorbulax every Monday."
    formed = await form(memory, llm, said, (content, "individual_P2", [2]))
    [one] = formed.observations
    assert (one.scope.owner_id, one.source.speaker, behind(formed)) == ("mia", "Mia", [("m1", "m2")])
    await memory.forget(Selection(user_id="jon"), **ADA)
    assert await rows(memory, "SELECT content FROM memory.observations") == []


async def test_common_word_of_another_person_makes_no_source(memory: Memory, llm: Scripted) -> None:
    said = [("jon", "My mother wants me to stay at home."), ("mia", "Short answers, please!")]
    formed = await form(memory, llm, said, ("Mia wants short answers.", "individual_P2", [2]))
    assert behind(formed) == [("m2",)]


async def test_name_of_a_group_is_no_word_of_a_message(memory: Memory, llm: Scripted) -> None:
    said = [("jon", "Tern is late."), ("mia", "The icons are on a grid of 24 pixels.")]
    formed = await form(
        memory, llm, said, ("Tern's icons are on a grid of 24 pixels.", "group_1", [2]), group_ids=["tern"]
    )
    assert behind(formed) == [("m2",)]


async def test_word_of_a_cue_leads_to_its_message(memory: Memory, llm: Scripted) -> None:
    await memory.add(
        [
            {"id": "m1", "role": "user", "content": "Zorbulax is my therapist."},
            {"id": "m2", "role": "user", "content": "I'm away every Monday."},
        ],
        **MIA,
        conversation_id="s",
    )
    llm.then(
        '{"observations": [{"content": "Mia is away every Monday.", "sources": [2], "terms": ["Zorbulax"],'
        ' "scope": "individual"}]}'
    )
    assert behind(await memory.conversations.form(**SESSION)) == [("m1", "m2")]


async def test_what_has_words_said_in_confidence_is_confidential(memory: Memory, llm: Scripted) -> None:
    said = [("mia", "Just between us: I'm leaving for Zorbulax in May."), ("mia", "I hand in my notice on Friday.")]
    await form(memory, llm, said, ("Mia hands in her notice on Friday, to go to Zorbulax.", "individual", [2]))
    assert await rows(memory, "SELECT confidential FROM memory.observations") == [(True,)]


async def test_day_is_counted_from_the_message_that_it_is_taken_from(memory: Memory, llm: Scripted) -> None:
    messages = [
        {"id": "m1", "role": "user", "content": "I see her tomorrow.", "created_at": "2026-03-02T10:00:00Z"},
        {"id": "m2", "role": "user", "content": "Dr Zorbulax, I mean.", "created_at": "2026-03-05T10:00:00Z"},
    ]
    await memory.add(messages, **MIA, conversation_id="s")
    llm.then(listing(("Mia sees Dr Zorbulax tomorrow.", "individual", [1])))
    [one] = (await memory.conversations.form(**SESSION)).observations
    assert f"{one.observed_at:%Y-%m-%d}" == "2026-03-02"
    assert one.source.message_ids == ("m1", "m2")


async def test_what_several_propose_leads_from_each_copy_to_all_whose_words_it_has(
    memory: Memory, llm: Scripted
) -> None:
    said = [("jon", "Zorbulax bakes with rye."), ("mia", "And its oven is heated with beech.")]
    content = "Zorbulax bakes with rye in an oven that is heated with beech."
    await form(memory, llm, said, (content, "collective", [1, 2]))
    assert len(await rows(memory, "SELECT 1 FROM memory.observations")) == 2
    await memory.forget(Selection(user_id="jon"), **ADA)
    assert await rows(memory, "SELECT content FROM memory.observations") == []
