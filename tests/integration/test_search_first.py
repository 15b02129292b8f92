"""A context searches for every message that has something to look for, and shows what answers it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from datetime import timedelta
from importlib.util import find_spec
from typing import Any

import pytest

from memory_sql.config import Settings
from memory_sql.domain.messages import Message
from memory_sql.domain.reading import Context
from memory_sql.llm.embeddings import ENCODER
from memory_sql.memory import Memory
from tests.database import statements
from tests.factories import MONDAY
from tests.fakes import Meanings, Parrot

MIA: dict[str, Any] = {"agent_id": "ada", "user_id": "mia"}
RED, BLUE = "The boathouse is painted in Falun red.", "Its walls have been blue since April."
SLOOP = "Mia owns a sloop."


class Terse(Parrot):
    """Says in a text only that there is something."""

    def _tell(self, task: Any) -> str:
        told = super()._tell(task)
        return json.dumps({**(json.loads(told) if told.startswith("{") else {}), "text": "There is a boathouse."})


@pytest.fixture
def parrot() -> Parrot:
    return Terse()


@pytest.fixture
async def memory(database_url: str, parrot: Parrot) -> AsyncIterator[Memory]:
    settings = Settings(llm="offline", consolidation_threshold=1, message_retention_days=None)
    async with Memory(database_url, parrot, settings) as opened:
        yield opened
        assert list(await opened.admin.verify()) == []


def lines(context: Context, element: str = "RetrievedObservations") -> list[str]:
    return [line.text for part in context.parts if part.element == element for line in part.lines]


async def repainted(memory: Memory, parrot: Parrot, how: str) -> None:
    """Red, then blue; neither is told by the text, and nothing is pending."""
    red = await memory.observe(RED, **MIA, observed_at=MONDAY)
    if how == "corrected":
        await memory.observations.update(red.id, text=BLUE, **MIA)
    else:
        await memory.observe(BLUE, **MIA, observed_at=MONDAY + timedelta(days=30))
    if how == "contradicted":
        parrot.contradicts(RED)
    await memory.scopes.consolidate(agent_id="ada", scope_id=red.scope.id)
    await memory.configure(agent_id="ada", pending_max=0)


async def test_what_was_contradicted_stands_behind_what_holds_and_is_marked(memory: Memory, parrot: Parrot) -> None:
    await repainted(memory, parrot, "contradicted")
    shown = lines(await memory.context(**MIA, message="Was the boathouse painted Falun red?"))
    assert [line[2:12] for line in shown] == [BLUE[:10], RED[:10]]
    assert "no longer so" not in shown[0]
    assert shown[1].endswith("no longer so)")


async def test_what_somebody_corrected_is_not_shown_but_what_took_its_place(memory: Memory, parrot: Parrot) -> None:
    """Found by the words of the one, told in those of the other."""
    await repainted(memory, parrot, "corrected")
    context = await memory.context(**MIA, message="Was the boathouse painted Falun red?")
    assert [line[2:12] for line in lines(context)] == [BLUE[:10]]
    assert "Falun" not in context.xml


async def test_whatever_is_said_is_searched_for(memory: Memory) -> None:
    """A question with its mark or without, a task, a statement: what counts is what is found."""
    await memory.configure(agent_id="ada", pending_max=0)
    for text in (RED, SLOOP, "Rent is due on Friday.", "Jonas moved to Bergen."):
        await memory.observe(text, **MIA)
    for message in (
        "What colour is the boathouse?",
        "what colour is the boathouse",
        "Order paint for the boathouse.",
        "We had a look at the boathouse in the rain.",
    ):
        context = await memory.context(**MIA, message=message)
        assert (context.fired, context.reason, len(lines(context))) == (True, "found", 1)
        assert context.decision is not None
        assert context.decision.strength > context.decision.noise
    for message in ("Hello!", "thanks, great work", "```\nraise ValueError(count)\n```", "And what was it?"):
        assert not (await memory.context(**MIA, message=message)).fired


async def test_search_can_be_switched_off_but_for_what_is_asked_for(memory: Memory) -> None:
    await memory.configure(agent_id="ada", pending_max=0, context_search=False)
    await memory.observe(RED, **MIA)
    assert (await memory.context(**MIA, message="What colour is the boathouse?")).decision is None
    for message, retrieve in (("Do you remember the boathouse?", None), ("boathouse", True)):
        assert (await memory.context(**MIA, message=message, retrieve=retrieve)).fired


async def test_what_was_made_of_the_running_conversation_is_left_out(memory: Memory) -> None:
    said = [Message(id=f"m{n}", role="user", content=text, user_id="mia") for n, text in enumerate((RED, SLOOP))]
    await memory.add(said, **MIA, conversation_id="now")
    await memory.conversations.form(agent_id="ada", conversation_id="now")
    await memory.configure(agent_id="ada", pending_max=0)
    asking = "What colour is the boathouse?"
    assert lines(await memory.context(**MIA, conversation_id="now", message=asking)) == []
    assert len(lines(await memory.context(**MIA, conversation_id="later", message=asking))) == 1


async def test_digest_holds_it_all_the_same(memory: Memory) -> None:
    """It may stand alone, and is what a digest of these words is, in a context or not."""
    said = [Message(id="m1", role="user", content=RED, user_id="mia")]
    await memory.add(said, **MIA, conversation_id="now")
    await memory.conversations.form(agent_id="ada", conversation_id="now")
    asking: dict[str, Any] = {**MIA, "conversation_id": "now"}
    alone = await memory.digest(**asking, query="What colour is the boathouse?")
    for assembly in ("digest", "both"):
        context = await memory.context(**asking, message="What colour is the boathouse?", assembly=assembly)
        assert context.digest == alone
    assert RED in str(alone)


async def test_messages_are_shown_until_they_are_formed(memory: Memory) -> None:
    """From then on what was found worth keeping stands for them; a search finds them all the same."""
    said = [Message(id="m1", role="user", content="The ferry to Visby leaves at nine.", user_id="mia")]
    await memory.add(said, **MIA, conversation_id="s")
    await memory.configure(agent_id="ada", pending_max=0)
    asking = "When does the ferry leave for Visby?"
    assert len(lines(await memory.context(**MIA, message=asking), "RetrievedMessages")) == 1
    await memory.conversations.form(agent_id="ada", conversation_id="s")
    after = await memory.context(**MIA, message=asking)
    assert lines(after, "RetrievedMessages") == []
    assert len(lines(after)) == 1
    assert len((await memory.search(asking, **MIA)).messages) == 1


async def test_embedding_model_is_asked_for_every_message(database_url: str, parrot: Parrot) -> None:
    model = Meanings()
    settings = Settings(llm="offline", pending_max=0)
    async with Memory(database_url, parrot, settings, embeddings=model) as memory:
        for text in (SLOOP, "The mole is closed.", "Rent is due on Friday.", "Jonas moved to Bergen."):
            await memory.observe(text, **MIA)
        await memory.work.embed()
        for message in ("Which vessel has she got?", "The vessel is hers."):
            before = model.calls
            with statements(memory) as seen:
                context = await memory.context(**MIA, message=message)
            assert (model.calls - before, len(seen)) == (1, 1)
            assert context.fired
        assert SLOOP in str(await memory.context(**MIA, message="Which vessel has she got?"))


@pytest.mark.slow
async def test_what_is_only_the_nearest_is_found_and_not_shown(database_url: str, parrot: Parrot) -> None:
    """Something always is; a greeting is near nothing. The local encoder, if it is installed."""
    settings = Settings(llm="offline", pending_max=0, embedding="local" if find_spec(ENCODER) else "off")
    async with Memory(database_url, parrot, settings) as memory:
        for text in (SLOOP, "The mole is closed.", "Rent is due on Friday.", "Jonas moved to Bergen."):
            await memory.observe(text, **MIA)
        await memory.work.embed()
        for message in ("Hello!", "thanks, great work", "fix this regex: ^a+$"):
            context = await memory.context(**MIA, message=message)
            assert (context.fired, context.xml) == (False, "<MemoryContext/>")
            assert bool((await memory.search(message, **MIA)).results) is bool(find_spec(ENCODER))
        if find_spec(ENCODER):
            assert "Rent is due" in str(await memory.context(**MIA, message="when do I pay the landlord"))


async def test_undo_takes_back_that_it_is_no_longer_so(memory: Memory, parrot: Parrot) -> None:
    await repainted(memory, parrot, "contradicted")
    (scope,) = await memory.scopes.list(**MIA)
    await memory.scopes.undo(agent_id="ada", scope_id=scope.ref.id)
    shown = lines(await memory.context(**MIA, message="Was the boathouse painted Falun red?"))
    assert any("Falun" in line for line in shown)
    assert "no longer so" not in str(shown)


async def test_what_was_overtaken_takes_no_room_from_what_took_its_place(memory: Memory, parrot: Parrot) -> None:
    await repainted(memory, parrot, "contradicted")
    asking = "Was the boathouse painted Falun red?"
    whole = await memory.context(**MIA, message=asking)
    assert len(lines(whole)) == 2
    for budget in range(4, whole.tokens + 1):
        cut = lines(await memory.context(**MIA, message=asking, budget_tokens=budget))
        assert len(cut) != 1 or "no longer so" not in cut[0]


@pytest.mark.slow
async def test_a_fact_counts_as_much_however_often_it_was_updated(memory: Memory) -> None:
    """What is superseded makes its words no commoner, and takes no place among the best."""
    await memory.configure(agent_id="ada", pending_max=0)
    for text in (SLOOP, "Rent is due on Friday.", "Jonas moved to Bergen.", "The lighthouse keeper is called Bjarne."):
        await memory.observe(text, **MIA)
    asking = "Which marina berth did the keeper book for the regatta?"
    strengths = []
    for count in (1, 30, 300):
        for n in range(count):
            await memory.observe(f"Mia booked marina berth {count}{n} for the regatta.", **MIA, fact_key="berth")
        context = await memory.context(**MIA, message=asking)
        assert context.decision is not None
        strengths.append(context.decision.strength)
        assert context.fired
        assert any("Bjarne" in line for line in lines(context))
        assert len([line for line in lines(context) if "berth" in line]) == 1
    assert max(strengths) - min(strengths) < 0.8


@pytest.mark.slow
async def test_what_lies_far_behind_is_led_to_what_holds_within_bounds(memory: Memory) -> None:
    """The words of a former value find the current one, through as many as twenty between them."""
    await memory.configure(agent_id="ada", pending_max=0)
    await memory.observe(RED, **MIA, fact_key="colour")
    for n in range(20):
        await memory.observe(f"It is in shade {n} now.", **MIA, fact_key="colour")
    asking = "Was the boathouse painted Falun red?"
    assert [line[2:25] for line in lines(await memory.context(**MIA, message=asking))] == ["It is in shade 19 now. "]
    await memory.observe("It is in shade 20 now.", **MIA, fact_key="colour")
    assert lines(await memory.context(**MIA, message=asking)) == []


async def test_past_is_told_by_the_settings_of_the_agent(database_url: str, parrot: Parrot) -> None:
    """What another process has configured counts at once, also of a past moment."""
    settings = Settings(llm="offline", assembly="digest")
    async with Memory(database_url, parrot, settings) as one, Memory(database_url, parrot, settings) as other:
        await one.observe("Rex is a dog.", **MIA, fact_key="pet")
        await one.configure(agent_id="ada", digest_fact_keys=["car"])
        then = one.now()
        assert "Rex" not in str(await one.context(**MIA, as_of=then))
        await other.configure(agent_id="ada", digest_fact_keys=["pet"])
        assert "Rex" in str(await one.context(**MIA, as_of=then))
