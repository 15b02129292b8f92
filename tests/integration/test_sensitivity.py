"""Secrets never reach the database; personal data is marked and stays with whoever said it. Every secret is made up."""

from __future__ import annotations

import asyncio
import json
import logging
from contextlib import aclosing
from typing import Any

import pytest

from memory_sql.config import Settings
from memory_sql.domain.exports import ExportedObservation
from memory_sql.errors import InputError, InvalidMessageError
from memory_sql.formation import formation
from memory_sql.memory import Memory
from tests.database import owners_url, rows, serving, statements
from tests.factories import MONDAY, conversation, message
from tests.fakes import Scripted, extracted, listing
from tests.forming import loading
from tests.migrations.databases import dump

SECRET = "hunter2xyz"
TOLD = f"My password is {SECRET}."
MASKED = "My password is [secret: password]."
HERE: dict[str, Any] = {"agent_id": "ada", "user_id": "mia", "conversation_id": "s"}
SESSION: dict[str, Any] = {"agent_id": "ada", "conversation_id": "s"}
MIA: dict[str, Any] = {"agent_id": "ada", "user_id": "mia"}
KEPT = "SELECT content, categories, sensitivity FROM memory.observations ORDER BY scope_id, seq"
MESSAGES = "SELECT content, cleaned FROM memory.messages ORDER BY number"


async def test_secret_that_is_said_is_masked_before_it_is_stored(memory: Memory, llm: Scripted) -> None:
    """R099, C8."""
    added = await memory.add([message(TOLD, n=1, name=f"Mia pw={SECRET}"), *conversation(3, first=2)], **HERE)
    assert (added.accepted, added.masked, added.cleaned) == (4, 1, 0)
    assert (await rows(memory, MESSAGES))[0] == (MASKED, ["secret"])
    columns = "SELECT m::text FROM memory.messages m"
    assert not [text for (text,) in await rows(memory, columns) if SECRET in text]
    llm.then(listing((f"Mia's password is {SECRET}.", "individual", [1])))
    formed = await memory.conversations.form(**SESSION)
    assert SECRET not in str(llm.requests[0].material)
    assert [o.content for o in formed.observations] == ["Mia's password is [secret: password]."]
    assert formed.refused == {"masked": 1}
    assert await rows(memory, KEPT) == [("Mia's password is [secret: password].", ["credential"], "sensitive")]


async def test_observed_text_speaker_tags_and_metadata_are_masked(memory: Memory) -> None:
    seen = await memory.observe(
        TOLD, **MIA, speaker=f"pwd={SECRET}", tags=["tea", f"pwd={SECRET}"], metadata={"password": SECRET, "n": 1}
    )
    assert (seen.content, seen.sensitivity, seen.tags) == (MASKED, "sensitive", ("tea", "pwd=[secret: password]"))
    assert seen.metadata == {"password": "[secret: password]", "n": 1}
    assert not [text for (text,) in await rows(memory, "SELECT o::text FROM memory.observations o") if SECRET in text]


async def test_correction_is_masked_and_as_private_as_what_it_corrects(memory: Memory) -> None:
    old = await memory.observe("Anna has diabetes.", **MIA)
    new = await memory.observations.update(
        old.id, **MIA, text="Anna likes tea.", tags=[f"pwd={SECRET}"], metadata={"pwd": SECRET}
    )
    again = await memory.observations.update(new.id, **MIA, text=TOLD)
    assert (old.sensitivity, new.sensitivity, again.sensitivity) == ("sensitive",) * 3
    assert (new.tags, new.metadata) == (("pwd=[secret: password]",), {"pwd": "[secret: password]"})
    assert again.content == MASKED
    assert [row[1] for row in await rows(memory, KEPT)] == [["health"], [], ["credential"]]


async def test_dump_and_log_hold_no_secret(
    memory: Memory, llm: Scripted, database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        await memory.add([message(TOLD), *conversation(3, first=2)], **HERE)
        llm.then(listing((TOLD, "individual", [1])))
        await memory.conversations.form(**SESSION)
        await memory.observe(f"The key is sk-{SECRET}{SECRET}{SECRET}", **MIA, metadata={"at": [f"pwd={SECRET}"]})
    dumped = await asyncio.to_thread(dump, owners_url(database_url), "--data-only")
    assert "[secret: password]" in dumped
    assert SECRET not in dumped
    assert SECRET not in caplog.text


async def test_raw_answer_that_waits_to_be_applied_is_masked_and_still_an_answer(memory: Memory, llm: Scripted) -> None:
    await memory.add(conversation(4), **HERE)
    async with serving(memory) as unit:
        _, loaded = await loading(unit, "ada", "s", memory.settings, MONDAY, "due")
    assert loaded is not None
    llm.then(extracted((f'She said "password: {SECRET}"', "individual")))
    answered = await formation.decide(llm, loaded, memory.settings)
    async with serving(memory) as unit:
        await formation.keep(unit, loaded, answered, memory.settings)
    ((answer,),) = await rows(memory, "SELECT answer FROM memory.runs")
    assert SECRET not in answer
    assert json.loads(answer)["observations"][0]["content"] == 'She said "password: [secret: password]"'
    await rows(memory, "UPDATE memory.conversations SET lease_until = now() - interval '1 hour'")
    formed = await memory.conversations.form(**SESSION)
    assert [o.content for o in formed.observations] == ['She said "password: [secret: password]"']


async def test_refused_secret_names_its_place_and_kind_alone_and_stores_nothing(memory: Memory) -> None:
    await memory.configure(agent_id="ada", secrets="refuse")
    with pytest.raises(InvalidMessageError) as refused:
        await memory.add([message("Tea."), message(TOLD, n=2)], **HERE)
    assert str(refused.value) == "message 1: contains a secret: password"
    with pytest.raises(InputError, match=r"^the observation contains a secret: password$"):
        await memory.observe(TOLD, **MIA)
    with pytest.raises(InputError, match=r"^metadata contains a secret: password$"):
        await memory.observe("Tea.", **MIA, metadata={"password": SECRET})
    tea = await memory.observe("Tea.", **MIA)
    with pytest.raises(InputError, match=r"^the observation contains a secret: password$"):
        await memory.observations.update(tea.id, **MIA, text=TOLD)
    assert await rows(memory, MESSAGES) == []
    assert [row[0] for row in await rows(memory, KEPT)] == ["Tea."]


async def test_agent_may_keep_what_others_mask(memory: Memory, llm: Scripted) -> None:
    await memory.configure(agent_id="ada", secrets="keep")
    added = await memory.add([message(TOLD), *conversation(3, first=2)], **HERE)
    other = await memory.add([message(TOLD)], **{**HERE, "agent_id": "bob"})
    assert (added.masked, other.masked) == (0, 1)
    llm.then(listing((TOLD, "individual", [1])))
    assert [o.content for o in (await memory.conversations.form(**SESSION)).observations] == [TOLD]
    assert (await memory.observe(f"pwd={SECRET}", **MIA)).content == f"pwd={SECRET}"
    assert [row[2] for row in await rows(memory, KEPT)] == ["sensitive", "sensitive"]


async def test_setting_of_the_process_holds_for_agents_without_one(database_url: str, llm: Scripted) -> None:
    async with Memory(database_url, llm, Settings(llm="offline", secrets="keep")) as memory:
        await memory.configure(agent_id="ada", secrets="mask")
        assert (await memory.observe(TOLD, **MIA)).content == MASKED
        assert (await memory.observe(TOLD, agent_id="bob", user_id="mia")).content == TOLD


async def test_same_message_or_call_again_is_the_same(memory: Memory) -> None:
    for accepted in (1, 0):
        assert (await memory.add([message(TOLD)], **HERE)).accepted == accepted
    for accepted in (1, 0):
        again = await memory.add([{"role": "user", "content": TOLD}], **HERE, idempotency_key="k")
        assert again.accepted == accepted


async def test_message_with_a_secret_costs_a_statement_more_only_where_the_agent_has_its_own_setting(
    memory: Memory,
) -> None:
    await memory.add([message("Tea.", n=1)], **HERE)
    with statements(memory) as plain:
        await memory.add([message("Tea.", n=2)], **HERE)
    with statements(memory) as told:
        await memory.add([message(TOLD, n=3)], **HERE)
    assert len(told) == len(plain)
    await memory.configure(agent_id="ada", secrets="keep")
    with statements(memory) as kept:
        await memory.add([message(TOLD, n=4)], **HERE)
    assert len(kept) > len(plain)


async def test_secret_in_the_hosts_transaction_is_masked(memory: Memory) -> None:
    async with serving(memory) as host:
        assert (await memory.add([message(TOLD)], **HERE, session=host)).masked == 1
        await memory.observe(TOLD, **MIA, session=host)
    assert [row[0] for row in await rows(memory, MESSAGES)] == [MASKED]


@pytest.mark.parametrize("scope", ["collective", "group_1"])
async def test_what_is_personal_goes_to_who_said_it_wherever_the_model_puts_it(
    memory: Memory, llm: Scripted, scope: str
) -> None:
    """D42: down, never up."""
    await memory.configure(agent_id="ada", collective="direct")
    await memory.add(conversation(4, user_id="mia", saying="Salary, address, team."), **HERE, group_ids=["harbor"])
    await memory.conversations.share(**SESSION)
    llm.then(
        listing(
            ("My salary is 80k.", scope, [1]),
            ("Mia's address is mia@harbor.example.", scope, [3]),
            ("The team ships in April.", scope, [1]),
        )
    )
    formed = await memory.conversations.form(**SESSION)
    kind = {"collective": "collective", "group_1": "group:harbor"}[scope]
    assert sorted((str(o.scope), o.content, o.sensitivity) for o in formed.observations) == sorted(
        [
            ("individual:mia", "My salary is 80k.", "sensitive"),
            (kind, "Mia's address is [contact].", "private"),
            (kind, "The team ships in April.", "private"),
        ]
    )
    assert formed.refused == {"personal": 1, "contact": 1}
    assert await rows(memory, "SELECT refused FROM memory.runs") == [({"personal": 1, "contact": 1},)]


async def test_what_is_personal_and_of_several_is_nobodys(memory: Memory, llm: Scripted) -> None:
    said = [message("I am fine.", n=1, user_id="mia"), message("So am I.", n=2, user_id="jonas")]
    await memory.add(said, **HERE, group_ids=["harbor"])
    llm.then(listing(("Mia and Jonas have diabetes.", "group_1", [1, 2])))
    formed = await memory.conversations.form(**SESSION)
    assert (formed.observations, formed.refused) == ((), {"personal": 1, "no_single_author": 1})


async def test_host_may_say_to_everybody_what_is_sensitive_and_it_is_marked_so(memory: Memory) -> None:
    said = await memory.observe("Anna has diabetes.", **MIA, collective=True)
    assert (said.scope.kind, said.sensitivity) == ("collective", "sensitive")
    assert await rows(memory, KEPT) == [("Anna has diabetes.", ["health"], "sensitive")]


async def test_nothing_found_is_not_the_same_as_never_looked(memory: Memory) -> None:
    tea = await memory.observe("Mia likes tea.", **MIA)
    marked = await memory.observations.mark(tea.id, **MIA, sensitivity="public")
    assert marked.observation.sensitivity == "public"
    assert await rows(memory, KEPT) == [("Mia likes tea.", [], "public")]


async def test_what_is_sensitive_is_in_no_digest_and_in_the_export_with_its_categories(memory: Memory) -> None:
    """R246."""
    await memory.observe("Anna has diabetes.", **MIA)
    await memory.observe("Mia likes tea.", **MIA)
    digest = await memory.digest(**MIA)
    assert "likes tea" in digest.text
    assert "diabetes" not in digest.text
    async with aclosing(memory.people.export(**MIA)) as lines:
        told = {line.content: line.categories async for line in lines if isinstance(line, ExportedObservation)}
    assert told == {"Anna has diabetes.": ("health",), "Mia likes tea.": ()}
