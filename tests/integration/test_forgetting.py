"""Forgetting: what is deleted, what stays, and that nothing comes back."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event
from sqlalchemy import text as sql
from sqlalchemy.ext.asyncio import AsyncSession, async_scoped_session, async_sessionmaker

from memory_sql.config import Settings
from memory_sql.config.scopes import ScopeSettings
from memory_sql.consolidation import consolidation
from memory_sql.db.models import Base, EventRow
from memory_sql.db.principals import SERVICE, enter
from memory_sql.db.repositories.formations import FormationRepository
from memory_sql.db.repositories.scopes import ScopeRepository
from memory_sql.domain.ids import observation_id, parse_observation_id
from memory_sql.domain.observations import Observation
from memory_sql.domain.results import Kept, Receipt
from memory_sql.domain.selection import Selection
from memory_sql.errors import (
    ConfigurationError,
    DatabaseError,
    HeldError,
    InputError,
    MemorySQLError,
    NotFoundError,
    RestoredError,
    StaleError,
    UnavailableError,
)
from memory_sql.formation import formation
from memory_sql.lifecycle import journal
from memory_sql.memory import Memory
from tests.conftest import administer
from tests.database import TOLD, refusing, rows, serving, statements
from tests.factories import MONDAY, message
from tests.fakes import Parrot
from tests.forming import loading
from tests.recycling import copy

ADA: dict[str, Any] = {"agent_id": "ada"}
MIA: dict[str, Any] = {**ADA, "user_id": "mia"}
JONAS: dict[str, Any] = {**ADA, "user_id": "jonas"}
STATES = "SELECT seq, status, superseded_by FROM memory.observation_states WHERE status <> 'active'"
TABLES = [table.name for table in Base.metadata.sorted_tables]


@pytest.fixture
def parrot() -> Parrot:
    return Parrot()


@pytest.fixture
async def memory(database_url: str, parrot: Parrot) -> AsyncIterator[Memory]:
    settings = Settings(llm="offline", consolidation_threshold=2, shared_conversations=True, collective="direct")
    async with Memory(database_url, parrot, settings) as opened:
        yield opened
        assert list(await opened.admin.verify()) == []


async def say(memory: Memory, *said: str, user: str = "mia", session: str = "s", first: int = 1, **more: Any) -> None:
    messages = [message(text, n=n, name=user.title()) for n, text in enumerate(said, first)]
    await memory.add(messages, agent_id="ada", user_id=user, conversation_id=session, **more)
    await memory.conversations.form(agent_id="ada", conversation_id=session)


async def tell(memory: Memory) -> None:
    """Every scope's pending observations go into its text."""
    for (scope_id,) in await rows(memory, "SELECT scope_id FROM memory.scopes ORDER BY 1"):
        await memory.scopes.consolidate(agent_id="ada", scope_id=f"s{scope_id}")


async def everything(memory: Memory) -> str:
    """Every row of every table, as text."""
    found = [await rows(memory, f"SELECT t::text FROM memory.{table} t ORDER BY 1") for table in TABLES]  # noqa: S608
    return "\n".join(row for rows_of_table in found for (row,) in rows_of_table)


async def texts(memory: Memory) -> dict[str, str | None]:
    found = await rows(memory, f"SELECT owner, content FROM {TOLD}")  # noqa: S608
    return {str(owner): text for owner, text in found}


async def remembered(memory: Memory) -> set[str]:
    return {content for (content,) in await rows(memory, "SELECT content FROM memory.observations")}


@pytest.mark.slow
async def test_forgotten_user_leaves_no_word_anywhere(memory: Memory) -> None:
    """R100, promise 7: whatever was made of it; what isn't theirs stays as it was, to the byte."""
    await say(
        memory, "I hide my ruby.", "We keep the opal in the boat.", "Tell everybody of the amber.", group_ids=["crew"]
    )
    await say(memory, "I sail a sloop.", "We meet at noon.", user="jonas", session="t", group_ids=["crew"])
    await tell(memory)
    await say(memory, "I sold the topaz.", session="u")
    await memory.observe("Mia's pearl is fake.", **MIA, tags=["garnet"], metadata={"safe": "jade"}, speaker="Beryl")
    await memory.add([message("I lost the onyx.", n=9)], **MIA, conversation_id="unformed")
    await tell(memory)
    await memory.scopes.undo(agent_id="ada", scope_id=(await memory.scopes.list(**MIA))[-1].ref.id)
    theirs = "SELECT o::text FROM memory.scopes o WHERE owner = 'u:jonas'"
    before = await rows(memory, theirs)

    receipt = await memory.forget(Selection(user_id="mia"), **ADA, actor="dpo", reason="asked for it")

    left = (await everything(memory)).casefold()
    for word in "ruby opal amber topaz pearl garnet jade beryl onyx rubi boat".split():
        assert word not in left, word
    assert await rows(memory, theirs) == before
    assert await texts(memory) == {"u:mia": None, "g:crew": "We meet at noon.", "u:jonas": "I sail a sloop.", "c": None}
    assert await remembered(memory) == {"I sail a sloop.", "We meet at noon."}
    assert receipt.counts["observations"] == len(receipt.observations) == 5
    assert receipt.counts["messages"] == 5
    assert len(receipt.rebuilt) == 1
    assert receipt.withheld == ()


@pytest.mark.slow
async def test_word_of_another_stands_alone(memory: Memory) -> None:
    """Rule 7: by evidence. A confirmation keeps what somebody else said too; a text made of both goes."""
    await say(memory, "We leave at dawn.", group_ids=["crew"])
    await say(memory, "We leave at dawn.", user="jonas", session="t", group_ids=["crew"])
    await tell(memory)
    before = await texts(memory)
    await memory.forget(Selection(user_id="mia"), **ADA)
    assert await remembered(memory) == {"We leave at dawn."}
    assert (await texts(memory))["g:crew"] == before["g:crew"]
    assert "mia" not in str(await rows(memory, "SELECT related_users, speaker FROM memory.observations")).casefold()
    await memory.forget(Selection(user_id="jonas"), **ADA)
    assert await remembered(memory) == set()
    assert not (await texts(memory))["g:crew"]


async def test_observation_made_of_two_voices_goes_with_either(memory: Memory, parrot: Parrot) -> None:
    talk = [message("We sail", n=1), message("at dawn.", n=2, user_id="jonas")]
    await memory.add(talk, **MIA, conversation_id="s", group_ids=["crew"])
    parrot.extracted = [("The crew sails at dawn.", "group", [1, 2])]
    await memory.conversations.form(**ADA, conversation_id="s")
    await memory.forget(Selection(user_id="jonas"), **ADA)
    assert await remembered(memory) == set()
    assert await rows(memory, "SELECT number, content FROM memory.messages ORDER BY 1") == [(1, "We sail"), (2, None)]


async def test_answers_to_a_forgotten_user_go_with_their_questions(memory: Memory) -> None:
    talk = [
        message("Where is my ruby?", n=1),
        message("Your ruby is in the boat.", n=2, role="assistant"),
        message("And my sloop?", n=3, user_id="jonas"),
        message("Your sloop is at the pier.", n=4, role="assistant"),
    ]
    await memory.add(talk, **MIA, conversation_id="s")
    await memory.forget(Selection(user_id="mia"), **ADA)
    assert await rows(memory, "SELECT number, content FROM memory.messages ORDER BY 1") == [
        (1, None), (2, None), (3, "And my sloop?"), (4, "Your sloop is at the pier."),
    ]  # fmt: skip


async def test_observation_goes_with_its_message_and_what_else_was_made_of_it(memory: Memory, parrot: Parrot) -> None:
    await memory.add([message("I like tea and I live in Rome.")], **MIA, conversation_id="s")
    parrot.extracted = [("Mia likes tea.", "individual", [1]), ("Mia lives in Rome.", "individual", [1])]
    formed = await memory.conversations.form(**ADA, conversation_id="s")
    await memory.observe("Mia sings.", **MIA)
    await tell(memory)
    receipt = await memory.forget(formed.observations[0].id, **ADA)
    assert receipt.observations == tuple(o.id for o in formed.observations)
    assert await remembered(memory) == {"Mia sings."}
    assert await rows(memory, "SELECT content FROM memory.messages") == [(None,)]
    assert await texts(memory) == {"u:mia": "Mia sings."}


async def test_message_that_was_forgotten_is_not_taken_again(memory: Memory) -> None:
    await say(memory, "I hide my ruby.")
    await memory.forget(Selection(user_id="mia"), **ADA)
    added = await memory.add([message("I hide my ruby.", n=1)], **MIA, conversation_id="s")
    assert (added.accepted, added.duplicates) == (0, 1)
    assert "ruby" not in await everything(memory)


@pytest.mark.parametrize("undone", [False, True])
async def test_texts_on_top_of_a_tainted_one_go_as_well(memory: Memory, undone: bool) -> None:
    for word in ("one", "ruby", "three"):
        await memory.observe(word, **MIA, tags=[word])
        await tell(memory)
    if undone:
        await memory.scopes.undo(**ADA, scope_id=(await memory.scopes.list(**MIA))[0].ref.id)
    await memory.forget(Selection(tag="ruby"), **ADA)
    versions = await memory.scopes.history(**MIA)
    assert "ruby" not in await everything(memory)
    assert versions[0].content == "one three"
    assert versions[0].version > 3
    assert versions[-1].content == "one"


async def test_version_before_stays(memory: Memory) -> None:
    await memory.observe("one", **MIA)
    await tell(memory)
    await memory.observe("ruby", **MIA, tags=["ruby"])
    await tell(memory)
    receipt = await memory.forget(Selection(tag="ruby"), **ADA)
    assert await texts(memory) == {"u:mia": "one"}
    assert receipt.rebuilt == receipt.withheld == ()  # nothing was left to be told anew


@pytest.mark.slow
async def test_what_was_made_of_it_upwards_goes_and_what_it_was_made_of_stays(memory: Memory) -> None:
    """Downwards to messages and derived rows, over two levels; never up to a child's source (rule 7)."""
    low = await memory.observe("Mia's ruby.", **MIA)
    middle = await memory.observe("A member's ruby.", **ADA, group_id="crew")
    high = await memory.observe("Somebody's ruby.", **ADA, collective=True)
    for child, source in ((middle, low), (high, middle)):
        await rows(
            memory,
            "INSERT INTO memory.lineage (agent_key, scope_id, seq, source_scope_id, source_seq)"
            " SELECT agent_key, :child, 1, :source, 1 FROM memory.agents",
            child=child.scope.key,
            source=source.scope.key,
        )
    await tell(memory)
    await memory.forget(middle.id, **ADA)
    assert await texts(memory) == {"u:mia": "Mia's ruby.", "g:crew": None, "c": None}
    assert await remembered(memory) == {"Mia's ruby."}
    await memory.forget(Selection(user_id="mia"), **ADA)
    assert "ruby" not in await everything(memory)


async def test_forgetting_reaches_over_two_levels(memory: Memory) -> None:
    low = await memory.observe("Mia's ruby.", **MIA)
    middle = await memory.observe("A member's ruby.", **ADA, group_id="crew")
    high = await memory.observe("Somebody's ruby.", **ADA, collective=True)
    for child, source in ((middle, low), (high, middle)):
        await rows(
            memory,
            "INSERT INTO memory.lineage (agent_key, scope_id, seq, source_scope_id, source_seq)"
            " SELECT agent_key, :child, 1, :source, 1 FROM memory.agents",
            child=child.scope.key,
            source=source.scope.key,
        )
    await tell(memory)
    await memory.forget(Selection(user_id="mia"), **ADA)
    assert "ruby" not in await everything(memory)


async def test_formation_under_way_brings_nothing_back(memory: Memory, parrot: Parrot) -> None:
    await memory.add([message("I hide my ruby.")], **MIA, conversation_id="s")
    parrot.meanwhile = partial(memory.forget, Selection(user_id="mia"), **ADA)
    with pytest.raises(StaleError):
        await memory.conversations.form(**ADA, conversation_id="s")
    await memory.conversations.form(**ADA, conversation_id="s")
    assert "ruby" not in await everything(memory)


async def test_answer_in_hand_is_refused_when_its_messages_were_forgotten(memory: Memory, parrot: Parrot) -> None:
    """It was kept before; lease, cursor and the scopes are as they were: the conversation's epoch tells."""
    await memory.add([message("I hide my ruby.")], **MIA, conversation_id="s")
    async with serving(memory) as unit:
        _, loaded = await loading(unit, "ada", "s", memory.settings, MONDAY, "asked")
    assert loaded is not None
    answered = await formation.decide(parrot, loaded, memory.settings)
    async with serving(memory) as unit:
        await formation.keep(unit, loaded, answered, memory.settings)
    await memory.forget(Selection(conversation_id="s", message_id="m1"), **ADA)
    with pytest.raises(StaleError):
        async with serving(memory) as unit:
            await formation.apply(unit, loaded, answered, memory.settings, MONDAY)
    await rows(memory, "UPDATE memory.conversations SET lease_until = NULL")
    assert "ruby" not in await everything(memory)


async def test_formation_that_was_shown_a_forgotten_text_is_refused(memory: Memory, parrot: Parrot) -> None:
    await memory.observe("The ruby is red.", **ADA, collective=True, tags=["ruby"])
    await tell(memory)
    await memory.add([message("I sail a sloop.")], **JONAS, conversation_id="s")
    parrot.meanwhile = partial(memory.forget, Selection(tag="ruby"), **ADA)
    with pytest.raises(StaleError):
        await memory.conversations.form(**ADA, conversation_id="s")
    assert "ruby" not in await everything(memory)
    await memory.conversations.form(**ADA, conversation_id="s")
    assert await remembered(memory) == {"I sail a sloop."}


async def test_stored_answer_goes_with_what_it_was_shown(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker died between the model's answer and applying it: the raw answer lies in the ledger."""
    await memory.observe("The ruby is red.", **ADA, collective=True, tags=["ruby"])
    await memory.add([message("I hide my opal.")], **MIA, conversation_id="s")
    await memory.add([message("I sail a sloop.")], **JONAS, conversation_id="t")

    async def die(*_: object, **__: object) -> None:
        raise asyncio.CancelledError

    monkeypatch.setattr("memory_sql.jobs.formation.Formation.apply", die)
    for conversation_id in ("s", "t"):
        with pytest.raises(asyncio.CancelledError):
            await memory.conversations.form(**ADA, conversation_id=conversation_id)
    monkeypatch.undo()
    assert len(await rows(memory, "SELECT run_id FROM memory.runs WHERE answer IS NOT NULL")) == 2
    await memory.forget(Selection(user_id="mia"), **ADA)
    assert "opal" not in await everything(memory)
    await memory.forget(Selection(tag="ruby"), **ADA)
    assert await rows(memory, "SELECT run_id FROM memory.runs WHERE answer IS NOT NULL") == []
    for conversation_id in ("s", "t"):
        await memory.conversations.form(**ADA, conversation_id=conversation_id)
    assert await remembered(memory) == {"I sail a sloop."}


@pytest.mark.parametrize("pending", [False, True])
async def test_consolidation_under_way_brings_nothing_back(memory: Memory, parrot: Parrot, pending: bool) -> None:
    """Forgotten while it is read, or from the text on which the new one is being written."""
    await memory.observe("ruby", **MIA, tags=["ruby"])
    if not pending:
        await tell(memory)
    scope_id = (await memory.observe("two", **MIA)).scope.key
    parrot.meanwhile = partial(memory.forget, Selection(tag="ruby"), **ADA, wait=False)
    with pytest.raises(StaleError):
        await memory.scopes.consolidate(**ADA, scope_id=f"s{scope_id}")
    await memory.run_due()
    await memory.scopes.consolidate(**ADA, scope_id=f"s{scope_id}")
    assert await texts(memory) == {"u:mia": "two"}
    assert "ruby" not in await everything(memory)


# A forgetting ends the runs that it finds. One whose run it doesn't find yet is refused by the epoch of the scope alone.


async def test_formation_whose_run_begins_after_what_it_shows_was_forgotten_is_refused(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    await memory.observe("The ruby is red.", **ADA, collective=True, tags=["ruby"])
    await memory.add([message("I sail a sloop.")], **JONAS, conversation_id="s")
    start = FormationRepository.start

    async def late(*given: Any) -> Any:
        await memory.forget(Selection(tag="ruby"), **ADA)
        return await start(*given)

    monkeypatch.setattr(FormationRepository, "start", late)
    with pytest.raises(StaleError, match="has been forgotten"):
        await memory.conversations.form(**ADA, conversation_id="s")
    monkeypatch.undo()
    assert await remembered(memory) == set()
    await memory.conversations.form(**ADA, conversation_id="s")
    assert await remembered(memory) == {"I sail a sloop."}


async def test_consolidation_whose_run_is_not_committed_when_it_is_forgotten_is_refused(
    memory: Memory, parrot: Parrot
) -> None:
    """Behind walls or a pooler, all that it loads is one transaction."""
    scope_id = (await memory.observe("ruby", **MIA, tags=["ruby"])).scope.key
    await memory.observe("two", **MIA)
    async with memory.database.transaction(principal=SERVICE) as unit:
        scope = await ScopeRepository(unit).claim_of("ada", scope_id, timedelta(minutes=1))
    assert scope is not None
    async with memory.database.transaction(principal=SERVICE) as unit:
        loaded = await consolidation.load(unit, "ada", scope, memory.settings, MONDAY, "asked")
        await memory.forget(Selection(tag="ruby"), **ADA, wait=False)
    assert loaded is not None
    decided = await consolidation.decide(parrot, loaded, memory.settings)
    with pytest.raises(StaleError, match="its text or its lease has changed") as stale:
        async with memory.database.transaction(principal=SERVICE) as unit:
            await consolidation.apply(unit, loaded, decided, memory.settings, MONDAY)
    async with memory.database.transaction(principal=SERVICE) as unit:
        await consolidation.fail(unit, loaded, stale.value, memory.settings, MONDAY)
    await memory.scopes.consolidate(**ADA, scope_id=f"s{scope_id}")
    assert await texts(memory) == {"u:mia": "two"}
    assert "ruby" not in await everything(memory)


@pytest.mark.parametrize("error", [UnavailableError("unavailable", "down"), DatabaseError("gone")], ids=repr)
async def test_text_is_withheld_while_it_cannot_be_written(
    memory: Memory, parrot: Parrot, error: MemorySQLError
) -> None:
    """Privacy beats availability: what is pending is shown instead, and the text comes back by itself.

    Whatever is in the way: it was forgotten, so there is a receipt.
    """
    await memory.observe("one", **MIA)
    await memory.observe("ruby", **MIA, tags=["ruby"])
    await tell(memory)
    parrot.failing = error
    receipt = await memory.forget(Selection(tag="ruby"), **ADA)
    assert receipt.rebuilt == ()
    assert len(receipt.withheld) == 1
    xml = str(await memory.context(**MIA))
    assert "ruby" not in xml
    assert "one" in xml
    parrot.failing = None
    await memory.run_due()
    assert await texts(memory) == {"u:mia": "one"}  # one alone is below the threshold


CONVERSATIONS = """
    INSERT INTO memory.conversations (agent_key, conversation_id, user_id, participants)
    SELECT agent_key, 's' || n, 'mia', '{mia}' FROM memory.agents, generate_series(1, 33000) n
"""


@pytest.mark.slow
async def test_person_of_more_conversations_than_a_statement_has_parameters_is_forgotten(memory: Memory) -> None:
    await memory.observe("I hide my ruby.", **MIA)
    await rows(memory, CONVERSATIONS)
    await rows(memory, "ANALYZE")  # as autovacuum would: plans that were made for a few rows are dropped
    await memory.forget(Selection(user_id="mia"), **ADA)
    assert await rows(memory, "SELECT 1 FROM memory.conversations WHERE participants <> '{}'") == []
    assert "ruby" not in await everything(memory)


@pytest.mark.slow
async def test_dry_run_says_what_would_go_and_leaves_everything(memory: Memory) -> None:
    await say(memory, "I hide my ruby.", "I sail a sloop.")
    await tell(memory)
    before = await everything(memory)
    planned = await memory.forget(Selection(user_id="mia"), **ADA, dry_run=True)
    assert await everything(memory) == before
    done = await memory.forget(Selection(user_id="mia"), **ADA)
    assert planned.observations == done.observations
    assert planned.counts == done.counts
    assert (planned.dry_run, done.dry_run) == (True, False)


@pytest.mark.slow
async def test_dry_run_counts_what_the_forgetting_counts(memory: Memory) -> None:
    """Of every kind: versions that are undone, judgements, what was made of it, stored answers, memberships."""
    await memory.add([message("Hello.", user_id="jonas")], **MIA, conversation_id="crew", group_ids=["crew"])
    await say(memory, "I hide my ruby.", "We keep the opal.", group_ids=["crew"])
    deadline = await memory.observe("The project deadline is 24 April 2026.", **MIA)
    await tell(memory)
    await memory.scopes.propagate(**ADA, scope_id=deadline.scope.id)
    await memory.observe("Mia found a topaz.", **MIA)
    await tell(memory)
    await memory.scopes.undo(**ADA, scope_id=deadline.scope.id)
    await memory.add([message("I lost the onyx.", n=9)], **MIA, conversation_id="t")
    async with refusing(memory, "evidence"):
        with pytest.raises(Exception, match="refused"):
            await memory.conversations.form(**ADA, conversation_id="t")
    done = await forget_and_compare(memory, Selection(user_id="mia"))
    assert min(done.counts.values()) > 0, done.counts


@pytest.mark.slow
async def test_dry_run_names_the_texts_that_the_forgetting_withholds(memory: Memory) -> None:
    """Not those of which nothing is left to be rewritten."""
    await say(memory, "I hide my ruby.", "We sail a sloop.", group_ids=["crew"])
    await say(memory, "I own the pearl.", "We keep the opal.", user="jonas", session="t", group_ids=["crew"])
    await tell(memory)
    of_crew = tuple(
        f"s{key}" for (key,) in await rows(memory, "SELECT scope_id FROM memory.scopes WHERE owner = 'g:crew'")
    )
    for selection, withheld in ((Selection(user_id="mia"), of_crew), (Selection(conversation_id="t"), ())):
        planned = await memory.forget(selection, **ADA, dry_run=True)
        done = await memory.forget(selection, **ADA, wait=False)
        assert planned.withheld == done.withheld == withheld
        assert (planned.kept, planned.counts, planned.held) == (done.kept, done.counts, done.held)


async def test_dry_run_leaves_what_the_host_has_yet_to_send(memory: Memory) -> None:
    await say(memory, "I hide my ruby.")
    async with async_sessionmaker(memory.database.engine)() as host:
        await enter(host, SERVICE)
        host.add(EventRow(agent_key=1, kind="note", detail={}))
        await memory.forget(Selection(user_id="mia"), **ADA, dry_run=True, session=host)
        await host.commit()
    assert await rows(memory, "SELECT count(*) FROM memory.events WHERE kind = 'note'") == [(1,)]


async def test_dry_run_of_everything_meets_a_hold_as_the_forgetting_does(memory: Memory) -> None:
    await memory.observe("one", **MIA)
    await memory.holds.place(**MIA)
    with pytest.raises(HeldError):
        await memory.forget(Selection(everything=True), **ADA, dry_run=True)


S: dict[str, Any] = {"conversation_id": "s"}
WHERE = {"conversation": S, "message": {**S, "message_id": "m1"}}


async def forget_and_compare(memory: Memory, selection: Selection | str) -> Receipt:
    """Forgets it; the preview must have said the same."""
    planned = await memory.forget(selection, **ADA, dry_run=True)
    done = await memory.forget(selection, **ADA)
    assert (planned.observations, planned.counts, planned.kept) == (done.observations, done.counts, done.kept)
    return done


@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize("how", ["again", "confirmed", "as somebody else"])
async def test_own_confirmation_does_not_keep_what_is_forgotten(memory: Memory, where: str, how: str) -> None:
    """Who said it and then confirmed it is one source; what was forgotten doesn't stand in another conversation either."""
    await say(memory, "We hide the ruby.", group_ids=["crew"])
    (said,) = await memory.observations.list(**MIA)
    match how:
        case "again":
            await say(memory, "We hide the ruby.", session="t", group_ids=["crew"])
        case "confirmed":
            await memory.observations.confirm(said.id, **MIA)
        case _:
            await memory.people.merge(**ADA, user_id="visitor", into_user_id="mia")
            await say(memory, "We hide the ruby.", session="t", user="visitor", group_ids=["crew"])
    await tell(memory)
    receipt = await forget_and_compare(memory, Selection(**WHERE[where]))
    assert said.id in receipt.observations
    assert receipt.kept == ()
    assert "ruby" not in await everything(memory)


@pytest.mark.parametrize("where", WHERE)
async def test_receipt_says_what_stays_and_on_whose_word(memory: Memory, where: str) -> None:
    await say(memory, "We leave at dawn.", group_ids=["crew"])
    await say(memory, "We leave at dawn.", user="jonas", session="t", group_ids=["crew"])
    await say(memory, "We leave at dawn.", session="u", group_ids=["crew"])
    (said,) = await memory.observations.list(**MIA)
    receipt = await forget_and_compare(memory, Selection(**WHERE[where]))
    assert await remembered(memory) == {"We leave at dawn."}
    assert receipt.kept == (Kept(observation=said.id, reason="another", users=("jonas",)),)
    receipt = await forget_and_compare(memory, Selection(conversation_id="t"))
    assert receipt.kept == (Kept(observation=said.id, reason="another", users=("mia",)),)


@pytest.mark.parametrize("where", WHERE)
async def test_what_was_said_elsewhere_first_stays_and_the_receipt_says_so(memory: Memory, where: str) -> None:
    await say(memory, "I hide my ruby.", session="first")
    await say(memory, "I hide my ruby.")
    (said,) = await memory.observations.list(**MIA)
    receipt = await forget_and_compare(memory, Selection(**WHERE[where]))
    assert await remembered(memory) == {"I hide my ruby."}
    assert receipt.kept == (Kept(observation=said.id, reason="elsewhere", users=("mia",)),)


async def test_what_the_host_stated_stays_and_the_receipt_says_so(memory: Memory) -> None:
    stated = await memory.observe("We leave at dawn.", **ADA, group_id="crew")
    await say(memory, "We leave at dawn.", group_ids=["crew"])
    receipt = await forget_and_compare(memory, Selection(user_id="mia"))
    assert receipt.kept == (Kept(observation=stated.id, reason="host"),)


async def made_of(memory: Memory, *sources: Observation) -> Observation:
    """What says the same in the group."""
    child = await memory.observe("dawn", **ADA, group_id="crew")
    for source in sources:
        await rows(
            memory,
            "INSERT INTO memory.lineage (agent_key, scope_id, seq, source_scope_id, source_seq, whole)"
            " SELECT agent_key, :child, 1, :source, 1, true FROM memory.agents",
            child=child.scope.key,
            source=source.scope.key,
        )
    return child


@pytest.mark.parametrize("status", ["quarantined", "given_up"])
async def test_receipt_names_nobody_whose_word_is_set_aside(memory: Memory, status: str) -> None:
    sources = [await memory.observe("dawn", **ADA, user_id=user) for user in ("mia", "jonas", "lena")]
    child = await made_of(memory, *sources)
    await rows(
        memory,
        "INSERT INTO memory.observation_states (agent_key, scope_id, seq, status)"
        " SELECT agent_key, :scope, 1, :status FROM memory.agents",
        scope=sources[1].scope.key,
        status=status,
    )
    receipt = await memory.forget(Selection(user_id="mia"), **ADA)
    assert receipt.kept == (Kept(observation=child.id, reason="another", users=("lena",)),)


async def test_what_was_made_of_another_source_as_well_stays_and_the_receipt_says_so(memory: Memory) -> None:
    child = await made_of(memory, *[await memory.observe("dawn", **who) for who in (MIA, JONAS)])
    receipt = await forget_and_compare(memory, Selection(user_id="mia"))
    assert receipt.kept == (Kept(observation=child.id, reason="another", users=("jonas",)),)
    assert child.id in (await forget_and_compare(memory, Selection(user_id="jonas"))).observations


async def test_what_is_deleted_is_not_changed_before(memory: Memory) -> None:
    """Each row that goes is touched once: what others keep loses the speaker's name, what goes needn't."""
    await memory.configure(**ADA, deduplicate="newest")
    await memory.observe("We leave at dawn.", **MIA, group_id="crew")
    for text_of_mia in ("one", "two", "three"):
        await memory.observe(text_of_mia, **MIA)
    await memory.observe("We leave at dawn.", **JONAS, group_id="crew")
    async with serving(memory) as unit:
        await memory.forget(Selection(user_id="mia"), **ADA, session=unit)
        changed = await unit.execute(
            sql(
                "SELECT n_tup_upd, n_tup_del FROM pg_stat_xact_user_tables WHERE relid = 'memory.observations'::regclass"
            )
        )
        assert changed.one() == (1, 3)


CROWD = """
    WITH s AS (SELECT agent_key, scope_id FROM memory.scopes), o AS (
        INSERT INTO memory.observations (agent_key, scope_id, seq, content, observed_at, source_kind, hash_version)
        SELECT agent_key, scope_id, n, 'ruby ' || n, now(), 'observe', 1 FROM s, generate_series(2, 40000) n
    ), l AS (UPDATE memory.scopes SET last_seq = 40000)
    INSERT INTO memory.evidence (agent_key, scope_id, seq, user_id)
    SELECT agent_key, scope_id, n, 'mia' FROM s, generate_series(2, 40000) n
"""


@pytest.mark.slow
async def test_more_is_forgotten_than_a_statement_has_parameters(memory: Memory) -> None:
    """40,000 observations; a statement has at most 32,767 parameters, and a join without a hash would take minutes."""
    await memory.observe("ruby 1", **MIA)
    await rows(memory, CROWD)
    await rows(memory, "ANALYZE")
    with statements(memory) as sent:
        planned = await memory.forget(Selection(user_id="mia"), **ADA, dry_run=True)
        receipt = await memory.forget(Selection(user_id="mia"), **ADA)
    assert len(sent) < 70
    assert planned.counts == receipt.counts
    assert receipt.counts["observations"] == 40000
    assert await remembered(memory) == set()


async def test_hold_keeps_what_it_covers(memory: Memory) -> None:
    await say(memory, "I hide my ruby.", "I sail a sloop.")
    await say(memory, "I sold the opal.", session="t")
    await rows(
        memory,
        "INSERT INTO memory.holds (agent_key, kind, target) SELECT agent_key, 'conversation', 't' FROM memory.agents",
    )
    receipt = await memory.forget(Selection(user_id="mia"), **ADA)
    assert await remembered(memory) == {"I sold the opal."}
    assert receipt.held == {"observations": 1, "messages": 1}
    assert await rows(memory, "SELECT content FROM memory.messages WHERE content IS NOT NULL") == [
        ("I sold the opal.",)
    ]
    with pytest.raises(HeldError):
        await memory.forget(Selection(everything=True), **ADA)
    await rows(memory, "UPDATE memory.holds SET released_at = now()")
    await memory.forget(Selection(user_id="mia"), **ADA)
    assert await remembered(memory) == set()


async def test_hold_on_a_user_covers_the_ids_that_stand_for_them(memory: Memory) -> None:
    await say(memory, "I hide my ruby.", user="visitor")
    await memory.people.merge(**ADA, user_id="visitor", into_user_id="mia")
    await memory.holds.place(**MIA)
    receipt = await memory.forget(Selection(user_id="visitor"), **ADA)
    assert await remembered(memory) == {"I hide my ruby."}
    assert receipt.held == {"observations": 1, "messages": 1}
    assert "ruby" in str(await rows(memory, "SELECT content FROM memory.messages"))


@pytest.mark.parametrize("behind", [timedelta(0), timedelta(hours=1)])
async def test_hold_on_a_user_covers_ids_that_stop_standing_for_them(
    database_url: str, parrot: Parrot, behind: timedelta
) -> None:
    """By whatever clock: that of whoever undoes the merge may be behind that of whoever placed the hold."""
    async with Memory(database_url, parrot, clock=lambda: MONDAY) as memory:
        await say(memory, "I hide my ruby.", user="guest")
        await say(memory, "I found an opal.", user="other", session="t")
        for user, into in (("guest", "visitor"), ("visitor", "mia"), ("other", "mia")):
            await memory.people.merge(**ADA, user_id=user, into_user_id=into)
        await memory.people.unmerge(**ADA, user_id="other")
    async with Memory(database_url, parrot, clock=lambda: MONDAY + timedelta(seconds=1)) as memory:
        await memory.holds.place(**MIA)
    async with Memory(database_url, parrot, clock=lambda: MONDAY + timedelta(seconds=2) - behind) as memory:
        for user in ("visitor", "guest"):
            await memory.people.unmerge(**ADA, user_id=user)
        for user, held in (("guest", 1), ("other", 0)):
            receipt = await memory.forget(Selection(user_id=user), **ADA)
            assert receipt.held == {"observations": held, "messages": held}
        assert await remembered(memory) == {"I hide my ruby."}
        assert await memory.admin.verify() == []


CHOICES: dict[str, tuple[dict[str, Any], set[str]]] = {
    "conversation": ({"conversation_id": "s"}, {"opal", "pearl", "jade"}),
    "group": ({"group_id": "crew"}, {"ruby", "topaz", "opal", "jade"}),
    "message": ({"conversation_id": "s", "message_id": "m1"}, {"topaz", "opal", "pearl", "jade"}),
    "tag": ({"tag": "green"}, {"ruby", "topaz", "opal", "pearl"}),
    "words": ({"query": "hide ruby"}, {"topaz", "opal", "pearl", "jade"}),
    "words of a user": ({"query": "found", "user_id": "jonas"}, {"ruby", "topaz", "pearl", "jade"}),
    "source": ({"source": "observe"}, {"ruby", "topaz", "opal", "pearl"}),
    "everything": ({"everything": True}, set()),
}


@pytest.mark.parametrize("choice", CHOICES)
async def test_choice(memory: Memory, choice: str) -> None:
    await say(memory, "I hide my ruby.", "I found the topaz.")
    await say(memory, "I found an opal.", user="jonas", session="t")
    await say(memory, "We share the pearl.", user="jonas", session="u", group_ids=["crew"])
    await memory.observe("There is jade.", **MIA, tags=["green"])
    await tell(memory)
    target, left = CHOICES[choice]
    planned = await memory.forget(Selection(**target), **ADA, dry_run=True)
    done = await memory.forget(Selection(**target), **ADA)
    assert (planned.counts, planned.kept) == (done.counts, done.kept)
    found = await everything(memory)
    assert {word for word in ("ruby", "topaz", "opal", "pearl", "jade") if word in found} == left
    if target.get("everything"):
        assert planned.counts["observations"] == 5
        assert await rows(memory, "SELECT agent_id FROM memory.agents") == [("ada",)]


@pytest.mark.parametrize(
    "target",
    [{}, {"user_id": "mia", "conversation_id": "s"}, {"everything": True, "user_id": "mia"}, {"source": "hearsay"}],
)
async def test_unclear_target_is_refused(memory: Memory, target: dict[str, Any]) -> None:
    await memory.observe("one", **MIA)
    with pytest.raises(InputError):
        await memory.forget(Selection(**target), **ADA)


@pytest.mark.parametrize(
    "query", ["-zzz", "-zzz -yyy", "", "  ", '""', "from:mia", "tag:green -zzz", "after:2020", "what is it"]
)
async def test_query_without_a_word_forgets_nothing(memory: Memory, query: str) -> None:
    """What is only left out is everything else: to forget, a word or a phrase has to be looked for."""
    await memory.observe("I hide my ruby.", **MIA, tags=["green"], speaker="Mia")
    for dry_run in (True, False):
        with pytest.raises(InputError, match="word"):
            await memory.forget(Selection(query=query), **ADA, dry_run=dry_run)
    assert await remembered(memory) == {"I hide my ruby."}


@pytest.mark.parametrize("query", ["ruby " * 200, " ".join(f"ruby{n}" for n in range(40))], ids=["long", "many words"])
async def test_query_of_which_a_part_would_not_count_is_refused(memory: Memory, query: str) -> None:
    await memory.observe("ruby", **MIA)
    with pytest.raises(InputError, match="words"):
        await memory.forget(Selection(query=query), **ADA)


READ_AS_A_SEARCH = {
    "ruby": {"a red ruby", "a ruby so red", "the café sells the ruby"},
    "rubies": {"a red ruby", "a ruby so red", "the café sells the ruby"},
    "ruby red": {"a red ruby", "a ruby so red"},
    "ruby or opal": set(),
    "ruby -red": {"the café sells the ruby"},
    '"red ruby"': {"a red ruby"},
    'ruby -"red ruby"': {"a ruby so red", "the café sells the ruby"},
    "cafe": {"the café sells the ruby"},
    "from:jonas ruby": {"a ruby so red"},
    "tag:green ruby": {"a red ruby"},
    "ruby after:2026-03": {"a red ruby", "the café sells the ruby"},
    "ruby before:2026-03": {"a ruby so red"},
    "where is the ruby?": {"a red ruby", "a ruby so red", "the café sells the ruby"},
}


@pytest.mark.parametrize("query", READ_AS_A_SEARCH)
async def test_query_is_read_as_a_search_reads_it_and_every_word_counts(memory: Memory, query: str) -> None:
    march, february = datetime(2026, 4, 1, tzinfo=UTC), datetime(2026, 2, 1, tzinfo=UTC)
    await memory.observe("a red ruby", **MIA, tags=["green"], observed_at=march)
    await memory.observe("a ruby so red", **MIA, speaker="Jonas Berg", observed_at=february)
    await memory.observe("the café sells the ruby", **MIA, observed_at=march)
    await memory.observe("the opal", **MIA, observed_at=march)
    before = await remembered(memory)
    await memory.forget(Selection(query=query), **ADA)
    assert before - await remembered(memory) == READ_AS_A_SEARCH[query]


async def test_unknown_things_are_not_found(memory: Memory) -> None:
    await memory.observe("one", **MIA)
    with pytest.raises(NotFoundError):
        await memory.forget(Selection(user_id="mia"), agent_id="bob")
    with pytest.raises(NotFoundError):
        await memory.forget("o77-1", **ADA)
    nobody = await memory.forget(Selection(user_id="nobody"), **ADA)
    assert sum(nobody.counts.values()) == 0


async def test_forgetting_again_finds_nothing(memory: Memory) -> None:
    await say(memory, "I hide my ruby.")
    await memory.forget(Selection(user_id="mia"), **ADA)
    again = await memory.forget(Selection(user_id="mia"), **ADA)
    assert again.observations == ()
    assert again.counts["observations"] == 0


async def test_forgetting_joins_the_hosts_transaction(memory: Memory) -> None:
    await say(memory, "I hide my ruby.")
    before = await everything(memory)
    async with serving(memory) as session:
        await memory.forget(Selection(user_id="mia"), **ADA, session=session)
        left = await session.scalar(sql("SELECT count(*) FROM memory.observations"))
        assert left == 0
        await session.rollback()
    assert await everything(memory) == before


async def test_event_keeps_the_ids_and_no_text(memory: Memory) -> None:
    await say(memory, "I hide my ruby.")
    receipt = await memory.forget(Selection(query="ruby"), **ADA, actor="dpo", reason="a mistake")
    (event,) = await rows(memory, "SELECT kind, actor, reason, detail FROM memory.events WHERE kind = 'forget'")
    assert event[:3] == ("forget", "dpo", "a mistake")
    assert event[3]["id"] == receipt.id
    assert event[3]["observations"] == list(receipt.observations)
    assert event[3]["target"] == {"query": True}


async def test_what_was_superseded_by_it_stands_again(memory: Memory) -> None:
    old, new = await memory.observe("Mia lives in Rome.", **MIA), await memory.observe("Mia lives in Oslo.", **MIA)
    await rows(
        memory,
        "INSERT INTO memory.observation_states (agent_key, scope_id, seq, status, superseded_by)"
        " SELECT agent_key, scope_id, 1, 'superseded', 2 FROM memory.scopes",
    )
    await memory.forget(new.id, **ADA)
    assert [o.id for o in await memory.observations.list(**MIA)] == [old.id]


async def test_what_stands_again_says_so(memory: Memory) -> None:
    old = await superseding(memory, "tea", "coffee")
    await memory.forget(old.id.replace("-1", "-2"), **ADA)
    told = "SELECT seq, detail FROM memory.events WHERE kind = 'status'"
    assert await rows(memory, told) == [(1, {"from": "superseded", "to": "active"})]


async def test_what_was_superseded_does_not_stand_again_beside_its_like(memory: Memory) -> None:
    """Rule 9. It gives way to its like instead; when that goes as well, it stands again."""
    old = await superseding(memory, "tea", "coffee")
    like = await memory.observe("tea", **MIA)
    await memory.forget(old.id.replace("-1", "-2"), **ADA)
    assert [o.id for o in await memory.observations.list(**MIA)] == [like.id]
    assert await rows(memory, STATES) == [(1, "superseded", 3)]
    assert await rows(memory, "SELECT detail FROM memory.events WHERE kind = 'status'") == [
        ({"from": "superseded", "to": "superseded", "why": "twin"},)
    ]
    await memory.forget(like.id, **ADA)
    assert [o.id for o in await memory.observations.list(**MIA)] == [old.id]


async def superseding(memory: Memory, old: str, new: str) -> Observation:
    first = await memory.observe(old, **MIA)
    await memory.observe(new, **MIA)
    await rows(
        memory,
        "INSERT INTO memory.observation_states (agent_key, scope_id, seq, status, superseded_by)"
        " SELECT agent_key, scope_id, 1, 'superseded', 2 FROM memory.scopes",
    )
    return first


async def test_version_that_passed_over_what_goes_stays_though_a_later_one_took_it(memory: Memory) -> None:
    for fact in ("one", "ruby", "three"):
        await memory.observe(fact, **MIA, tags=[fact])
    archive = (
        "INSERT INTO memory.observation_states (agent_key, scope_id, seq, status) SELECT agent_key, scope_id, 2, :status"
        " FROM memory.scopes ON CONFLICT (agent_key, scope_id, seq) DO UPDATE SET status = :status"
    )
    await rows(memory, archive, status="archived")
    await tell(memory)
    await rows(memory, archive, status="active")
    await tell(memory)
    assert (await memory.scopes.history(**MIA))[0].content == "one three ruby"
    receipt = await memory.forget(Selection(tag="ruby"), **ADA)
    assert receipt.counts["consolidations"] == 1
    assert [(v.version, v.content) for v in await memory.scopes.history(**MIA)] == [(3, "one three"), (1, "one three")]
    assert [o for o in await memory.observations.list(**MIA) if o.pending] == []


async def test_rebuild_stays_due_until_all_is_told_again(database_url: str, parrot: Parrot) -> None:
    """Where it takes several batches and the model fails after the first."""
    settings = Settings(llm="offline", consolidation_batch=2, consolidation_threshold=10)
    async with Memory(database_url, parrot, settings) as memory:
        for fact in ("ruby", "one", "two", "three"):
            await memory.observe(fact, **MIA, tags=[fact])
        await tell(memory)
        parrot.failing = UnavailableError("unavailable", "down")
        await memory.forget(Selection(tag="ruby"), **ADA)
        parrot.failing = None
        scope_id = (await memory.scopes.list(**MIA))[0].ref.key
        due = "SELECT rebuild, due_at IS NOT NULL FROM memory.scopes"

        async def second_batch() -> None:
            parrot.failing = UnavailableError("unavailable", "down")

        async def first_batch() -> None:
            parrot.meanwhile = second_batch

        parrot.meanwhile = first_batch
        with pytest.raises(UnavailableError):
            await memory.scopes.consolidate(**ADA, scope_id=f"s{scope_id}")
        assert await texts(memory) == {"u:mia": "one two"}
        assert await rows(memory, due) == [(True, True)]
        parrot.failing = None
        await rows(memory, "UPDATE memory.scopes SET due_at = now() - interval '1 second'")
        await memory.run_due()
        assert await texts(memory) == {"u:mia": "one two three"}
        assert await rows(memory, due) == [(False, False)]
        assert list(await memory.admin.verify()) == []


@pytest.mark.slow
async def test_two_forgettings_at_once_do_not_wait_for_each_other(memory: Memory) -> None:
    """Locks on conversations and scopes are taken in one order by everybody."""
    for session, group in (("s", "crew"), ("t", "club")):
        for user in ("mia", "jonas"):
            await say(memory, f"We {user} keep it.", user=user, session=f"{session}{user}", group_ids=[group])
    await tell(memory)

    async def forget(user: str) -> Receipt | MemorySQLError:
        return await memory.forget(Selection(user_id=user), **ADA, wait=False)

    await asyncio.gather(forget("mia"), forget("jonas"))
    assert await remembered(memory) == set()


@pytest.mark.slow
async def test_reasons_that_may_name_the_forgotten_go(memory: Memory) -> None:
    """Why they joined, left, were merged or renamed, or their scope was changed, in anybody's words."""
    crew: dict[str, Any] = {**ADA, "group_id": "crew"}
    await memory.groups.create("crew", **ADA)
    for user in ("mia", "jonas", "ole"):
        await memory.groups.add_member(**crew, user_id=user, reason=f"{user} Berg has come.")
        await memory.observe(f"{user} sails.", **ADA, user_id=user)
    await memory.groups.remove_member(**crew, user_id="mia", reason="mia Berg has gone.")
    for alias, user in (("anon", "mia"), ("mia", "zoe"), ("visitor", "ole")):
        await memory.people.merge(**ADA, user_id=alias, into_user_id=user, reason=f"{user} Berg has logged in.")
    await memory.people.unmerge(**ADA, user_id="mia", reason="Not mia Berg, not zoe Berg.")
    await memory.people.rename(**ADA, kind="user", old="mia", new="nia", reason="mia Berg has a new name.")
    for user in ("nia", "ole"):
        (scope,) = [s for s in await memory.scopes.list(**ADA, user_id=user) if s.ref.kind == "individual"]
        await memory.scopes.set(scope.ref.id, ScopeSettings(consolidate=False), **ADA, reason=f"{user} Berg.")
    await memory.forget(Selection(user_id="nia"), **ADA, reason="as they asked")
    reasons = await rows(memory, "SELECT reason FROM memory.events WHERE reason IS NOT NULL ORDER BY event_id")
    assert [row[0] for row in reasons] == [
        "jonas Berg has come.", "ole Berg has come.", "ole Berg has logged in.", "ole Berg.", "as they asked"
    ]  # fmt: skip


@pytest.fixture
def journal_file(memory: Memory, tmp_path: Path) -> Path:
    path = tmp_path / "forgotten.jsonl"
    memory.settings = memory.settings.model_copy(update={"forget_journal": path})
    return path


def written(path: Path) -> str:
    return path.read_text() if path.exists() else ""


async def copy_of(memory: Memory, server_url: str, name: str) -> str:
    """A backup: another database with what this one holds now."""
    return await copy(server_url, str(memory.database.url.database), name)


async def origin(restored: Memory, path: Path) -> str:
    """The incarnation of the database from which this one was restored."""
    (found,) = (await restored.admin.journal_status(path)).copied_from
    return str(found)


def str_url(memory: Memory) -> str:
    return memory.database.url.render_as_string(hide_password=False)


@asynccontextmanager
async def aclosing_of(memory: Memory) -> AsyncIterator[Memory]:
    try:
        yield memory
    finally:
        await memory.close()


@pytest.mark.slow
@pytest.mark.parametrize("choice", ["user", "words", "everything"])
async def test_restored_backup_forgets_again(
    memory: Memory, journal_file: Path, server_url: str, parrot: Parrot, choice: str
) -> None:
    await say(memory, "I hide my ruby.")
    await say(memory, "I sail a sloop.", user="jonas", session="t")
    await tell(memory)
    backup = f"backup_{choice}_{os.getpid()}"
    url = await copy_of(memory, server_url, backup)
    target: dict[str, Any] = {
        "user": {"user_id": "mia"},
        "words": {"query": "ruby"},
        "everything": {"everything": True},
    }
    await memory.forget(Selection(**target[choice]), **ADA)
    assert "ruby" not in written(journal_file)
    try:
        with pytest.raises(RestoredError, match=r"1 forgettings .* `memory-sql admin restore-check`"):
            await Memory(url, parrot, memory.settings).open()
        restored = await Memory(url, parrot, memory.settings).open(restoring=True)
        async with aclosing_of(restored):
            assert "ruby" in await everything(restored)
            assert len((await restored.admin.journal_status(journal_file)).missing) == 1
            (receipt,) = await restored.admin.restore_check(
                journal_file, incarnation=await origin(restored, journal_file)
            )
            assert "ruby" not in await everything(restored)
            assert ("sloop" in await everything(restored)) is (choice != "everything")
            assert receipt.counts["observations"] == (2 if choice == "everything" else 1)
            assert await restored.admin.restore_check(journal_file) == []
            assert await rows(restored, "SELECT count(*) FROM memory.events WHERE kind = 'forget'") == [(1,)]
            assert list(await restored.admin.verify()) == []
        async with Memory(url, parrot, memory.settings) as reopened:  # and is as any other
            assert "ruby" not in await everything(reopened)
        assert await memory.admin.restore_check(journal_file) == []
        async with Memory(str_url(memory), parrot, memory.settings):  # the one in which it was forgotten knows of it
            pass
    finally:
        await administer(server_url, f"DROP DATABASE {backup} WITH (FORCE)")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["conversation", "user"])
async def test_restored_backup_forgets_what_was_renamed_since(
    memory: Memory, journal_file: Path, server_url: str, parrot: Parrot, kind: Any
) -> None:
    """Under the name that it had then; whoever bears an older name by then, or the new one, keeps what is theirs."""
    names = ("s", "t", "u", "v") if kind == "conversation" else ("mia", "nia", "ria", "zia")

    async def said(n: int, name: str, text: str) -> None:
        who: dict[str, Any] = {"user": "mia", "session": "s", "group_ids": ["crew"], f"{SAY[kind]}": name}
        await say(memory, text, first=n, **who)

    async def rename(old: str, new: str) -> None:
        await memory.people.rename(**ADA, kind=kind, old=old, new=new)

    await said(1, names[0], "I hide my ruby.")
    await rename(*names[:2])
    await said(2, names[0], "I sail a sloop.")
    await said(3, names[3], "I moor at noon.")
    backup = f"backup_renamed_{kind}_{os.getpid()}"
    url = await copy_of(memory, server_url, backup)
    await rename(names[3], "w")
    await rename(*names[1:3])
    await rename(*names[2:4])
    target: dict[str, Any] = {f"{kind}_id": names[3]}
    await memory.forget(Selection(**target), **ADA)
    assert "ruby" not in await everything(memory)
    assert names[1] not in re.findall(r"\w+", written(journal_file))
    try:
        restored = await Memory(url, parrot, memory.settings).open(restoring=True)
        async with aclosing_of(restored):
            (receipt,) = await restored.admin.restore_check(
                journal_file, incarnation=await origin(restored, journal_file)
            )
            assert receipt.counts["messages"] == 1
            left = await everything(restored)
            assert [word for word in ("ruby", "sloop", "moor") if word in left] == ["sloop", "moor"]
            if kind == "user":
                took_part = await rows(restored, "SELECT participants FROM memory.conversations")
                assert [sorted(row[0]) for row in took_part] == [["mia", "zia"]]
                assert [m.user_id for m in await restored.groups.members("crew", **ADA)] == ["mia", "zia"]
            assert list(await restored.admin.verify()) == []
    finally:
        await administer(server_url, f"DROP DATABASE {backup} WITH (FORCE)")


SAY = {"user": "user", "conversation": "session"}


async def test_journal_says_what_was_committed(memory: Memory, journal_file: Path) -> None:
    await say(memory, "I hide my ruby.")
    async with AsyncSession(memory.database.engine) as session:
        await memory.forget(Selection(user_id="mia"), **ADA, session=session)
        await session.rollback()
        await memory.observe("one", **JONAS, session=session)
        await session.commit()
        assert written(journal_file) == ""
        await memory.forget(Selection(user_id="mia"), **ADA, session=session)
        assert written(journal_file) == ""
        await session.commit()
    ((entry, committed),) = journal.read(journal_file).entries
    assert committed
    assert entry.users == ("mia",)
    assert entry.messages == {"s": (1,)}


async def test_journal_says_what_was_imported_whatever_form_a_host_gives_bytes(
    memory: Memory, journal_file: Path
) -> None:
    key = parse_observation_id((await memory.observe("ruby", **MIA)).id)
    await rows(
        memory, "INSERT INTO memory.imports (source, state, key_hash, accounts) VALUES ('dump', 'running', 'k', '{}')"
    )
    await rows(
        memory,
        "INSERT INTO memory.imported SELECT agent_key, :scope_id, 'memory_user:1', import_id, :seq, 'a', 'b', '\\xc0ffee'"
        " FROM memory.agents, memory.imports",
        scope_id=key[0],
        seq=key[1],
    )
    async with AsyncSession(memory.database.engine) as session:
        await session.execute(sql("SET LOCAL bytea_output = 'escape'"))
        await memory.forget(observation_id(*key), **ADA, session=session)
        await session.commit()
    assert '"refs":["c0ffee"]' in written(journal_file).replace(" ", "")


async def test_journal_knows_the_hosts_savepoints(memory: Memory, journal_file: Path) -> None:
    """What is released may still be rolled back; what was rolled back isn't committed with the rest."""
    await say(memory, "I hide my ruby.")
    async with AsyncSession(memory.database.engine) as session:
        outer = await session.begin_nested()
        async with session.begin_nested():
            await memory.forget(Selection(user_id="mia"), **ADA, session=session)
        assert written(journal_file) == ""
        await outer.rollback()
        await memory.observe("one", **JONAS, session=session)
        await session.commit()
        assert written(journal_file) == ""
        async with session.begin_nested():
            await memory.forget(Selection(user_id="mia"), **ADA, session=session)
        await session.commit()
    assert [committed for _, committed in journal.read(journal_file).entries] == [True]


async def test_journal_knows_what_a_scoped_session_commits(memory: Memory, journal_file: Path) -> None:
    await say(memory, "I hide my ruby.")
    scoped: Any = async_scoped_session(async_sessionmaker(memory.database.engine), asyncio.current_task)
    await memory.forget(Selection(user_id="mia"), **ADA, session=scoped)
    await scoped.commit()
    await scoped.remove()
    assert [committed for _, committed in journal.read(journal_file).entries] == [True]


async def test_session_of_many_forgettings_is_listened_to_once(memory: Memory, journal_file: Path) -> None:
    async with AsyncSession(memory.database.engine) as session:
        for n in range(3):
            for text in (f"Tea {n}.", f"Milk {n}."):
                observation = await memory.observe(text, **MIA, session=session)
                await memory.forget(observation.id, **ADA, session=session)
            await session.commit()
            listening = (await session.connection()).sync_connection
            assert listening is None or len(listening.dispatch.rollback_savepoint) <= 1
    assert [committed for _, committed in journal.read(journal_file).entries] == [True] * 6


async def test_forgetting_that_was_not_committed_is_left_out_of_a_restore(
    memory: Memory, parrot: Parrot, journal_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await say(memory, "I hide my ruby.")

    def die(*_: object) -> None:
        raise asyncio.CancelledError

    monkeypatch.setattr("memory_sql.lifecycle.journal.on_commit", die)
    with pytest.raises(asyncio.CancelledError):
        await memory.forget(Selection(user_id="mia"), **ADA)
    monkeypatch.undo()
    ((entry, committed),) = journal.read(journal_file).entries
    assert not committed
    async with Memory(str_url(memory), parrot, memory.settings) as opened:  # it closes nothing, but is named
        status = await opened.admin.journal_status()
        assert (status.missing, status.planned, status.others) == ((), (entry.id,), 0)
    assert await memory.admin.restore_check(journal_file) == []
    assert "ruby" in await everything(memory)
    assert len(await memory.admin.restore_check(journal_file, unsure=True)) == 1
    assert "ruby" not in await everything(memory)


@pytest.mark.slow
async def test_backup_from_before_the_agent_forgets_once_too(
    memory: Memory, parrot: Parrot, journal_file: Path
) -> None:
    """Else the agent's first words would close the database, and the check would forget what is new."""
    await say(memory, "I hide my ruby.")
    await memory.forget(Selection(user_id="mia"), **ADA)
    await rows(memory, "TRUNCATE memory.agents CASCADE")
    with pytest.raises(RestoredError):
        await Memory(str_url(memory), parrot, memory.settings).open()
    assert len(await memory.admin.restore_check(journal_file)) == 1
    async with Memory(str_url(memory), parrot, memory.settings) as opened:
        await say(opened, "I sail a sloop.")
    async with Memory(str_url(memory), parrot, memory.settings) as opened:
        assert await opened.admin.restore_check(journal_file) == []
        assert "sloop" in await everything(opened)


@pytest.mark.slow
async def test_forgettings_of_another_database_are_skipped(memory: Memory, parrot: Parrot, journal_file: Path) -> None:
    """One journal may serve several: by the id of the database they are told apart, not by the agent's."""
    await say(memory, "I hide my ruby.")
    theirs = journal.Entry(id="1", at=MONDAY, agent_id="ada", users=("mia",), database="another")
    journal.plan(journal_file, theirs)
    journal.done(journal_file, theirs.id)
    journal.plan(journal_file, theirs.model_copy(update={"id": "2"}))
    async with Memory(str_url(memory), parrot, memory.settings) as opened:
        status = await opened.admin.journal_status()
        assert (status.missing, status.planned, status.others) == ((), (), 2)
        assert await opened.admin.restore_check(journal_file, unsure=True) == []
    assert "ruby" in await everything(memory)


@pytest.mark.slow
async def test_journal_reads_only_the_forgettings_and_the_renamings_concerned(
    memory: Memory, journal_file: Path
) -> None:
    await say(memory, "I hide my ruby.")
    await rows(
        memory,
        "INSERT INTO memory.events (agent_key, kind, detail)"
        " SELECT agent_key, CASE n % 100 WHEN 0 THEN 'forget' WHEN 1 THEN 'rename' ELSE 'status' END,"
        " jsonb_build_object('id', n::text)"
        " FROM memory.agents, generate_series(1, 20000) n",
    )
    await rows(memory, "ANALYZE memory.events")
    sent: list[Any] = []
    event.listen(memory.database.engine.sync_engine, "before_cursor_execute", lambda *args: sent.append(args[2:4]))
    await memory.forget(Selection(user_id="mia"), **ADA)
    await memory.admin.journal_status(journal_file)
    for index, said in {"events_forget_idx": "NOT (EXISTS", "events_user_id_idx": "installation_id"}.items():
        statement, parameters = next((sql, given) for sql, given in sent if "FROM memory.events" in sql and said in sql)
        async with memory.database.engine.connect() as connection:
            driver: Any = (await connection.get_raw_connection()).driver_connection
            plan = "\n".join(row[0] for row in await driver.fetch(f"EXPLAIN {statement}", *parameters))
        assert index in plan
        assert "Seq Scan on events" not in plan


def spoil(path: Path, text: str = "no journal\n") -> None:
    path.write_text(text)


@pytest.mark.slow
async def test_journal_that_cannot_be_read_closes_too(memory: Memory, parrot: Parrot, journal_file: Path) -> None:
    spoil(journal_file)
    with pytest.raises(ConfigurationError, match="line 1"):
        await Memory(str_url(memory), parrot, memory.settings).open()


@pytest.mark.slow
async def test_nothing_is_forgotten_where_the_journal_cannot_be_written(memory: Memory, tmp_path: Path) -> None:
    memory.settings = memory.settings.model_copy(update={"forget_journal": tmp_path / "missing" / "file"})
    await say(memory, "I hide my ruby.")
    with pytest.raises(ConfigurationError):
        await memory.forget(Selection(user_id="mia"), **ADA)
    assert "ruby" in await everything(memory)


@pytest.mark.parametrize("half", ['{"id": "2", "at": "20', '{"id": "1", "do'])
async def test_line_that_was_cut_off_closes_nothing(
    memory: Memory, parrot: Parrot, journal_file: Path, half: str
) -> None:
    """By a full disk or a crash. The next entry begins a line of its own; the half one is named."""
    entry = journal.Entry(id="1", at=MONDAY, agent_id="ada", users=("mia",), database="another")
    journal.plan(journal_file, entry)
    spoil(journal_file, written(journal_file) + half)
    assert journal.read(journal_file) == journal.Journal(((entry, False),), (2,))
    await say(memory, "I hide my ruby.")
    await memory.forget(Selection(user_id="mia"), **ADA)
    assert [done for _, done in journal.read(journal_file).entries] == [False, True]
    async with Memory(str_url(memory), parrot, memory.settings) as opened:
        status = await opened.admin.journal_status()
        assert (status.missing, status.others, status.cut_off) == ((), 1, (2,))
        assert await opened.admin.restore_check(journal_file) == []


def test_journal_that_has_lost_what_was_committed_cannot_be_read(tmp_path: Path) -> None:
    path = tmp_path / "forgotten.jsonl"
    journal.plan(path, journal.Entry(id="1", at=MONDAY, agent_id="ada", users=("mia",)))
    journal.done(path, "1")
    path.write_text(path.read_text()[:30] + "\n" + path.read_text().splitlines()[1] + "\n")
    with pytest.raises(ConfigurationError, match="line 1"):
        journal.read(path)
