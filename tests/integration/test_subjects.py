"""The people that an observation is about: found when they ask to be forgotten, never a reason to tell others."""

from __future__ import annotations

import asyncio
import json
from functools import partial
from typing import Any

import pytest

from memory_sql.db.principals import SERVICE
from memory_sql.db.repositories.formations import FormationRepository
from memory_sql.domain.exports import ExportedObservation
from memory_sql.domain.results import Kept
from memory_sql.domain.selection import Selection
from memory_sql.errors import InputError, StaleError
from memory_sql.memory import Memory
from tests.database import are_waiting, rows, statements
from tests.factories import message
from tests.fakes import Scripted

ADA: dict[str, Any] = {"agent_id": "ada"}
PIET: dict[str, Any] = {"agent_id": "ada", "user_id": "piet", "conversation_id": "private"}
TEAM: dict[str, Any] = {"agent_id": "ada", "user_id": "nadia", "conversation_id": "team", "group_ids": ["tern"]}
SUBJECTS = "SELECT content, subjects FROM memory.observations ORDER BY scope_id, seq"


def about(**lists: list[tuple[str, list[int], list[str]]]) -> str:
    found = {
        alias: [
            {"content": text, "sources": sources, "about": handles, "terms": []} for text, sources, handles in items
        ]
        for alias, items in lists.items()
    }
    return json.dumps(found)


@pytest.fixture
async def remarks(memory: Memory, llm: Scripted) -> Memory:
    """A team of three of whom Lena is silent; then Piet, in private but in the group's name, about her."""
    await memory.add([message("Lena here.", name="Lena", user_id="lena")], **{**TEAM, "conversation_id": "before"})
    llm.then(about(individual=[("Lena has spoken.", [1], ["P1"])], group_1=[], collective=[]))
    await memory.conversations.form(agent_id="ada", conversation_id="before")
    said = [
        message("Lena will be late, Piet and I begin.", name="Nadia"),
        message("Yes. I find Lena slow.", n=2, user_id="piet", name="Piet"),
    ]
    await memory.add(said, **TEAM)
    answer = about(
        individual_P1=[("Nadia and Piet begin without Lena.", [1], ["P1", "P2", "P3"])],
        individual_P2=[("Piet finds Lena slow.", [2], ["P3"]), ("Piet likes tea.", [2], ["P2", "P9", "Lena"])],
        group_1=[],
        collective=[],
    )
    llm.then(answer)
    await memory.conversations.form(agent_id="ada", conversation_id="team")
    return memory


async def test_people_are_named_by_their_handles_also_those_who_say_nothing(remarks: Memory, llm: Scripted) -> None:
    assert 'P1 is "Nadia"\nP2 is "Piet"\nP3, who says nothing here, is "Lena"\n' in llm.requests[-1].prompt
    assert "individual_P3" not in llm.requests[-1].prompt
    assert await rows(remarks, SUBJECTS) == [
        ("Lena has spoken.", ["lena"]),
        ("Nadia and Piet begin without Lena.", ["nadia", "piet", "lena"]),
        ("Piet finds Lena slow.", ["lena"]),
        ("Piet likes tea.", ["piet"]),
    ]


@pytest.mark.slow
async def test_each_silent_member_has_a_handle(memory: Memory, llm: Scripted) -> None:
    """Formed or not, heard or not, each person once; in one statement however many they are, up to 30."""
    ada: dict[str, Any] = {"agent_id": "ada"}
    await memory.add([message("Hi, Lena here.", name="Lena", user_id="lena")], **{**TEAM, "conversation_id": "before"})
    for user in ("ole", "nadia", "nadia@work", "lena@work"):
        await memory.groups.add_member(**ada, group_id="tern", user_id=user)
    for own, other in (("nadia", "nadia@work"), ("lena", "lena@work")):
        await memory.people.merge(**ada, user_id=other, into_user_id=own)
    await memory.add([message("Lena and Ole will be late.", name="Nadia")], **TEAM)
    llm.then(about(individual=[("Nadia waits for Ole.", [1], ["P1", "P3"])], group_1=[], collective=[]))
    with statements(memory) as few:
        await memory.conversations.form(**ada, conversation_id="team")
    names = 'P1 is "Nadia"\nP2, who says nothing here, is "Lena"\nP3, who says nothing here, is "ole"\n== '
    assert names in llm.requests[-1].prompt
    assert ("Nadia waits for Ole.", ["nadia", "ole"]) in await rows(memory, SUBJECTS)
    assert list(await memory.admin.verify()) == []
    for n in range(40):
        await memory.groups.add_member(**ada, group_id="tern", user_id=f"u{n}")
    await memory.add([message("We begin.", n=2, name="Nadia")], **TEAM)
    llm.then(about(individual=[("Nadia begins.", [1], [])], group_1=[], collective=[]))
    with statements(memory) as many:
        await memory.conversations.form(**ada, conversation_id="team")
    assert llm.requests[-1].prompt.count("who says nothing here") == 30
    assert 'is "Lena"' in llm.requests[-1].prompt
    assert len([one for one in many if "members" in one]) == len([one for one in few if "members" in one])


async def test_remarks_on_a_user_are_listed_where_they_are_forgotten(remarks: Memory) -> None:
    said = (
        Kept(observation="o4-1", reason="about", users=("nadia",)),
        Kept(observation="o5-1", reason="about", users=("piet",)),
    )
    for dry_run in (True, False):
        receipt = await remarks.forget(Selection(user_id="lena"), agent_id="ada", dry_run=dry_run)
        assert sorted(receipt.kept, key=lambda one: one.users) == list(said)
    assert dict(await rows(remarks, SUBJECTS)) == {
        "Nadia and Piet begin without Lena.": ["nadia", "piet"],
        "Piet finds Lena slow.": [],
        "Piet likes tea.": ["piet"],
    }
    assert list(await remarks.admin.verify()) == []


async def test_remarks_on_nobody_else_go_with_about(remarks: Memory) -> None:
    receipt = await remarks.forget(Selection(user_id="lena", about=True), agent_id="ada")
    assert [(one.reason, one.users) for one in receipt.kept] == [("about", ("nadia",))]
    assert [row[0] for row in await rows(remarks, SUBJECTS)] == [
        "Nadia and Piet begin without Lena.",
        "Piet likes tea.",
    ]
    assert list(await remarks.admin.verify()) == []


@pytest.mark.parametrize("wrong", [{}, {"conversation_id": "team"}, {"user_id": "lena", "tag": "x"}])
def test_about_stands_beside_a_user_alone(wrong: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        Selection(about=True, **wrong)


async def test_other_ids_of_a_user_count_as_theirs(remarks: Memory) -> None:
    await remarks.people.merge(agent_id="ada", user_id="lena", into_user_id="helena")
    receipt = await remarks.forget(Selection(user_id="helena", about=True), agent_id="ada", dry_run=True)
    assert [one.users for one in receipt.kept] == [("nadia",)]


@pytest.mark.parametrize("how", ["forget", "rename"])
async def test_who_says_nothing_and_goes_meanwhile_is_named_nowhere(memory: Memory, llm: Scripted, how: str) -> None:
    """While the model works on what others say of them."""
    lena: dict[str, Any] = {"agent_id": "ada", "user_id": "lena", "group_ids": ["tern"]}
    await memory.add([message("Lena here.", name="Lena Berg")], **lena, conversation_id="before")
    await memory.add([message("Lena is slow, I say.", name="Nadia")], **TEAM)

    shown = list[Any]()

    async def gone(_: object) -> str:
        if how == "forget":
            await memory.forget(Selection(user_id="lena"), agent_id="ada")
            shown.extend(await rows(memory, "SELECT seen FROM memory.runs"))
        else:
            await memory.people.rename(agent_id="ada", kind="user", old="lena", new="lena-2")
        return about(individual=[("Nadia finds Lena slow.", [1], ["P2"])], group_1=[], collective=[])

    llm.then(gone)
    with pytest.raises(StaleError):
        await memory.conversations.form(agent_id="ada", conversation_id="team")
    assert "Berg" not in str(shown)
    llm.then(about(individual=[("Nadia finds Lena slow.", [1], ["P2"])], group_1=[], collective=[]))
    await memory.conversations.form(agent_id="ada", conversation_id="team")
    assert await rows(memory, SUBJECTS) == [("Nadia finds Lena slow.", [] if how == "forget" else ["lena-2"])]
    assert list(await memory.admin.verify()) == []


@pytest.mark.parametrize("how", ["forget", "rename"])
@pytest.mark.parametrize("when", ["before", "before it begins again", "during", "behind"])
async def test_who_says_nothing_and_goes_as_the_run_begins_is_named_nowhere(
    memory: Memory, llm: Scripted, monkeypatch: pytest.MonkeyPatch, how: str, when: str
) -> None:
    """After their name was read: before the run begins, while it begins, or waiting for it to have begun."""
    await memory.add([message("Lena here.", name="Lena Berg", user_id="lena")], **{**TEAM, "conversation_id": "before"})
    await memory.add([message("Lena is slow, I say.", name="Nadia")], **TEAM)
    form = partial(memory.conversations.form, **ADA, conversation_id="team")
    if when == "before it begins again":
        llm.then(about(individual=[("Nadia waits.", [1], [])], group_1=[], collective=[]))
        await form()
        form = partial(memory.conversations.form, **ADA, conversation_id="team", again=True)
    goes: Any = partial(memory.people.rename, **ADA, kind="user", old="lena", new="lena-2")
    if how == "forget":
        goes = partial(memory.forget, Selection(user_id="lena"), **ADA)
    start = FormationRepository.start

    async def started(*given: Any) -> Any:
        monkeypatch.undo()
        if when not in ("during", "behind"):
            await goes()
            return await start(*given)
        async with memory.database.transaction(principal=SERVICE) as unit:
            if when == "during":
                await goes(session=unit)
                second = asyncio.create_task(start(*given))
            else:
                run = await start(FormationRepository(unit), *given[1:])
                second = asyncio.create_task(goes())
            await are_waiting(memory, 1)
        return await second if when == "during" else (run, await second)[0]

    monkeypatch.setattr(FormationRepository, "start", started)
    llm.then(about(individual=[("Nadia finds Lena slow.", [1], ["P2"])], group_1=[], collective=[]))
    with pytest.raises(StaleError):
        await form()
    shown = str(await rows(memory, "SELECT seen, answer FROM memory.runs"))
    assert "Berg" not in shown
    assert "'u:lena'" not in shown
    llm.then(about(individual=[("Nadia finds Lena slow.", [1], ["P2"])], group_1=[], collective=[]))
    await form()
    subjects: list[str] = [] if how == "forget" else ["lena-2"]
    assert ("Nadia finds Lena slow.", subjects) in await rows(memory, SUBJECTS)
    assert list(await memory.admin.verify()) == []


async def test_they_are_called_as_the_user_is(remarks: Memory) -> None:
    await remarks.people.rename(agent_id="ada", kind="user", old="lena", new="lena-2")
    assert ("Piet finds Lena slow.", ["lena-2"]) in await rows(remarks, SUBJECTS)


async def test_private_remark_on_another_is_never_judged_for_others(remarks: Memory) -> None:
    await rows(remarks, "UPDATE memory.scopes SET done_seq = last_seq")
    shareable = """
        SELECT o.content FROM memory.scopes s
        CROSS JOIN LATERAL memory.shareable(s.agent_key, s.scope_id, '{}') o
        WHERE s.kind = 'individual' ORDER BY 1
    """
    assert [row[0] for row in await rows(remarks, shareable)] == ["Lena has spoken.", "Piet likes tea."]


async def test_correction_speaks_of_the_same_people(remarks: Memory) -> None:
    ((piet,),) = await rows(remarks, "SELECT scope_id FROM memory.scopes WHERE owner = 'u:piet'")
    await remarks.observations.update(f"o{piet}-1", agent_id="ada", user_id="piet", text="Piet finds Lena quick.")
    assert ("Piet finds Lena quick.", ["lena"]) in await rows(remarks, SUBJECTS)


async def test_export_says_whether_it_speaks_of_them(remarks: Memory) -> None:
    lines = [line async for line in remarks.people.export(agent_id="ada", user_id="piet")]
    found = {line.content: line.subjects for line in lines if isinstance(line, ExportedObservation)}
    assert found == {"Piet finds Lena slow.": (), "Piet likes tea.": ("piet",)}


async def test_joint_plan_is_written_for_each(memory: Memory, llm: Scripted) -> None:
    said = [message("Sailing on Sunday, Ben?", name="Mia"), message("Yes!", n=2, user_id="ben", name="Ben")]
    await memory.add(said, agent_id="ada", user_id="mia", conversation_id="two")
    plan = ("Mia and Ben sail on 2026-03-08.", [1, 2], ["P1", "P2"])
    llm.then(about(individual_P1=[plan], individual_P2=[plan], collective=[]))
    formed = await memory.conversations.form(agent_id="ada", conversation_id="two")
    assert [str(one.scope) for one in formed.observations] == ["individual:mia", "individual:ben"]
    assert "stands in the\n  list of each of them who spoke of it" in llm.requests[0].instructions
