"""Corrections: what takes effect at once, what stays in history, and what work in progress must not bring back."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pytest
from sqlalchemy import text as sql

from memory_sql.config import Settings
from memory_sql.domain.observations import SET_ASIDE, Observation
from memory_sql.domain.results import RunDueResult
from memory_sql.domain.selection import Selection
from memory_sql.errors import DatabaseError, InputError, NotFoundError, StaleError, VersionError
from memory_sql.memory import Memory
from tests.database import TOLD, rows, serving, statements
from tests.factories import message
from tests.fakes import Parrot
from tests.sizes import few_in_every_run

ADA: dict[str, Any] = {"agent_id": "ada"}
MIA: dict[str, Any] = {**ADA, "user_id": "mia"}
JONAS: dict[str, Any] = {**ADA, "user_id": "jonas"}
SETTINGS = Settings(llm="offline", consolidation_threshold=3)
WHY: dict[str, Any] = {"actor": "desk", "reason": "she called"}


@pytest.fixture
def parrot() -> Parrot:
    return Parrot()


@pytest.fixture
async def memory(database_url: str, parrot: Parrot) -> AsyncIterator[Memory]:
    async with Memory(database_url, parrot, SETTINGS) as opened:
        yield opened
        assert list(await opened.admin.verify()) == []


async def tell(memory: Memory) -> None:
    """Every scope's pending observations go into its text."""
    for (scope_id,) in await rows(memory, "SELECT scope_id FROM memory.scopes ORDER BY 1"):
        await memory.scopes.consolidate(**ADA, scope_id=f"s{scope_id}")


async def texts(memory: Memory) -> dict[str, str | None]:
    found = await rows(memory, f"SELECT owner, content FROM {TOLD}")  # noqa: S608
    return {str(owner): text for owner, text in found}


async def listed(memory: Memory, **who: Any) -> list[str]:
    return [o.content for o in await memory.observations.list(**(who or MIA))]


async def pending(memory: Memory) -> list[str]:
    return [o.content for o in await memory.observations.list(**MIA) if o.pending]


async def events(memory: Memory, kind: str) -> list[tuple[Any, ...]]:
    return await rows(
        memory,
        "SELECT 'o' || scope_id || '-' || seq, actor, reason, detail FROM memory.events WHERE kind = :kind ORDER BY event_id",
        kind=kind,
    )


async def spread(memory: Memory, child: Observation, *sources: Observation) -> None:
    """As propagation does it: the child was made of this one alone, or merged of several."""
    for source in sources:
        await rows(
            memory,
            "INSERT INTO memory.lineage (agent_key, scope_id, seq, source_scope_id, source_seq, whole)"
            " SELECT agent_key, :scope_id, :seq, :from_scope, :from_seq, :whole FROM memory.agents",
            whole=len(sources) == 1,
            scope_id=child.scope.key,
            seq=int(child.id.partition("-")[2]),
            from_scope=source.scope.key,
            from_seq=int(source.id.partition("-")[2]),
        )


# A correction


async def test_correction_takes_the_place_of_what_it_corrects(memory: Memory) -> None:
    old = await memory.observe("Mia lives in Rome.", **MIA, tags=["home"], metadata={"ticket": 7})
    new = await memory.observations.update(old.id, **MIA, text="Mia lives in Oslo.", **WHY)
    assert (new.content, new.tags, new.metadata, new.status, new.pending) == (
        "Mia lives in Oslo.", ("home",), {"ticket": 7}, "active", True,
    )  # fmt: skip
    was = await memory.observations.get(old.id, **MIA)
    assert (was.content, was.status, was.superseded_by, was.pending) == (old.content, "superseded", new.id, False)
    assert await listed(memory) == ["Mia lives in Oslo."]
    assert [hit.observation.id for hit in (await memory.search("lives", **MIA)).results] == [new.id]
    xml = str(await memory.context(**MIA))
    assert "Oslo" in xml
    assert "Rome" not in xml


async def test_correction_rests_on_the_word_of_who_corrects(memory: Memory) -> None:
    """So it goes with that person, and what it had corrected stands again."""
    old = await memory.observe("The crew sails at dawn.", **MIA, group_id="crew")
    await memory.add([message("We sail.", user_id="jonas")], **MIA, conversation_id="s", group_ids=["crew"])
    new = await memory.observations.update(
        old.id, **JONAS, text="The crew sails at noon.", tags=["plan"], metadata={"by": "radio"}
    )
    assert (new.tags, new.metadata) == (("plan",), {"by": "radio"})
    said = "SELECT user_id FROM memory.evidence WHERE 'o' || scope_id || '-' || seq = :id"
    assert await rows(memory, said, id=new.id) == [("jonas",)]
    await memory.forget(Selection(user_id="jonas"), **ADA)
    assert await rows(memory, "SELECT content FROM memory.observations") == [(old.content,)]
    assert (await rows(memory, "SELECT status FROM memory.observation_states"))[0] == ("active",)


async def test_correction_of_what_a_text_holds_is_told_whatever_the_threshold(memory: Memory) -> None:
    old = await memory.observe("Mia lives in Rome.", **MIA)
    await tell(memory)
    await memory.observations.update(old.id, **MIA, text="Mia lives in Oslo.")
    xml = str(await memory.context(**MIA))
    assert xml.index("Mia lives in Rome.") < xml.index("- Mia lives in Oslo. (today)")
    done = await memory.run_due()
    assert [result.absorbed for result in done.consolidated] == [1]
    assert await texts(memory) == {"u:mia": "Mia lives in Rome. Mia lives in Oslo."}  # a parrot keeps every word
    assert await memory.run_due() == RunDueResult()


async def test_correction_of_what_no_text_holds_waits_as_everything_does(memory: Memory) -> None:
    old = await memory.observe("Mia lives in Rome.", **MIA)
    await memory.observations.update(old.id, **MIA, text="Mia lives in Oslo.")
    assert await memory.run_due() == RunDueResult()
    await tell(memory)
    assert await texts(memory) == {"u:mia": "Mia lives in Oslo."}


async def test_correction_of_a_correction(memory: Memory) -> None:
    first = await memory.observe("Mia lives in Rome.", **MIA)
    second = await memory.observations.update(first.id, **MIA, text="Mia lives in Oslo.")
    third = await memory.observations.update(second.id, **MIA, text="Mia lives in Rome.")  # tea, coffee, tea
    assert await listed(memory) == ["Mia lives in Rome."]
    assert third.id not in (first.id, second.id)
    with pytest.raises(VersionError) as error:
        await memory.observations.update(first.id, **MIA, text="Mia lives in Bonn.")
    assert error.value.by == second.id
    assert [detail for *_, detail in await events(memory, "correction")] == [{"by": second.id}, {"by": third.id}]


@pytest.mark.parametrize("forgotten", [("second",), ("second", "third"), ("third",)])
async def test_forgetting_in_the_middle_of_a_line_of_corrections(memory: Memory, forgotten: tuple[str, ...]) -> None:
    """What the next one in line stands for stays corrected; only where none is left the wrong one stands again."""
    first = await memory.observe("first", **MIA)
    second = await memory.observations.update(first.id, **MIA, text="second", tags=["second"])
    await memory.observations.update(second.id, **MIA, text="third", tags=["third"])
    for tag in forgotten:
        await memory.forget(Selection(tag=tag), **ADA)
    stands = {"second": "third", "third": "second"}[forgotten[0]] if len(forgotten) == 1 else "first"
    assert await listed(memory) == [stands]


async def test_what_stands_again_after_a_forgetting_is_written_down(memory: Memory) -> None:
    first = await memory.observe("tea", **MIA)
    second = await memory.observations.update(first.id, **MIA, text="coffee", tags=["second"])
    await memory.observe("Tea.", **MIA)
    await memory.forget(Selection(tag="second"), **ADA)
    assert await listed(memory) == ["Tea."]  # what says the same is active by now (rule 9)
    third = await memory.observe("milk", **MIA)
    fourth = await memory.observations.update(third.id, **MIA, text="cream", tags=["fourth"])
    await memory.forget(Selection(tag="fourth"), **ADA)
    assert [(key, detail["to"]) for key, _, _, detail in await events(memory, "status")] == [
        (first.id, "superseded"),  # by the correction
        (first.id, "superseded"),  # still: by its twin
        (third.id, "superseded"),
        (third.id, "active"),
    ]
    assert second.id != fourth.id


async def test_correction_may_change_the_case_alone(memory: Memory) -> None:
    old = await memory.observe("mia lives in rome", **MIA)
    new = await memory.observations.update(old.id, **MIA, text="Mia lives in Rome.")
    assert await listed(memory) == ["Mia lives in Rome."]
    with pytest.raises(InputError):
        await memory.observations.update(new.id, **MIA, text="Mia lives in Rome.")


async def test_correction_goes_with_what_the_old_one_was_made_of(memory: Memory) -> None:
    """Else a typo mended in the group's memory would outlive the private thing that it was made of."""
    low = await memory.observe("Mia hides a ruby.", **MIA)
    high = await memory.observe("A member hides a rubby.", **MIA, group_id="crew")
    await memory.add([message("We sail.")], **MIA, conversation_id="s", group_ids=["crew"])
    await spread(memory, high, low)
    new = await memory.observations.update(high.id, **MIA, text="A member hides a ruby.")
    marked = await memory.observations.mark(low.id, **MIA, private=True)
    assert set(marked.retracted) == {high.id, new.id}
    assert await listed(memory) == ["Mia hides a ruby."]


async def test_two_corrections_at_once_one_wins(memory: Memory) -> None:
    old = await memory.observe("Mia lives in Rome.", **MIA)
    done = await asyncio.gather(
        *(
            memory.observations.update(old.id, **MIA, text=f"Mia lives in {city}.")
            for city in ("Oslo", "Bonn", "Lima", "Kyiv")
        ),
        return_exceptions=True,
    )
    assert sorted(type(one).__name__ for one in done) == ["Observation", *["VersionError"] * 3]
    (won,) = (one for one in done if isinstance(one, Observation))
    assert await listed(memory) == [won.content]


async def test_version_that_has_moved_on_is_refused(memory: Memory) -> None:
    old = await memory.observe("Mia lives in Rome.", **MIA)
    confirmed = await memory.observations.confirm(old.id, **MIA, if_version=old.version)
    assert confirmed.version > old.version
    for change in (
        partial(memory.observations.update, text="x"),
        memory.observations.confirm,
        memory.observations.dispute,
        partial(memory.observations.mark, private=True),
        partial(memory.observations.supersede, new_id=old.id),
    ):
        with pytest.raises(VersionError) as error:
            await change(old.id, **MIA, if_version=old.version)
        assert error.value.found == confirmed.version
    await memory.observations.update(old.id, **MIA, text="Mia lives in Oslo.", if_version=confirmed.version)


async def test_correction_joins_the_hosts_transaction(memory: Memory) -> None:
    old = await memory.observe("Mia lives in Rome.", **MIA)
    async with serving(memory) as session:
        new = await memory.observations.update(old.id, **MIA, text="Mia lives in Oslo.", session=session)
        assert await session.scalar(sql("SELECT count(*) FROM memory.observations")) == 2
        await session.rollback()
    assert await listed(memory) == ["Mia lives in Rome."]
    assert new.content == "Mia lives in Oslo."
    assert await events(memory, "correction") == []


# Work under way


async def test_consolidation_that_has_read_the_old_one_is_refused(memory: Memory, parrot: Parrot) -> None:
    old = await memory.observe("Mia lives in Rome.", **MIA)
    parrot.meanwhile = partial(memory.observations.update, old.id, **MIA, text="Mia lives in Oslo.")
    with pytest.raises(StaleError):
        await memory.scopes.consolidate(**ADA, scope_id=old.scope.id)
    await memory.scopes.consolidate(**ADA, scope_id=old.scope.id)
    assert await texts(memory) == {"u:mia": "Mia lives in Oslo."}


async def test_consolidation_that_has_read_one_corrected_to_another_is_refused(memory: Memory, parrot: Parrot) -> None:
    old, new = [await memory.observe(f"Mia lives in {town}.", **MIA) for town in ("Rome", "Oslo")]
    parrot.meanwhile = partial(memory.observations.update, old.id, **MIA, text=new.content)
    with pytest.raises(StaleError):
        await memory.scopes.consolidate(**ADA, scope_id=old.scope.id)
    await memory.scopes.consolidate(**ADA, scope_id=old.scope.id)
    assert await texts(memory) == {"u:mia": "Mia lives in Oslo."}


async def test_consolidation_that_has_read_what_is_superseded_is_refused(memory: Memory, parrot: Parrot) -> None:
    old, new = [await memory.observe(f"Mia lives in {town}.", **MIA) for town in ("Rome", "Oslo")]
    parrot.meanwhile = partial(memory.observations.supersede, old.id, new.id, **MIA)
    with pytest.raises(StaleError):
        await memory.scopes.consolidate(**ADA, scope_id=old.scope.id)
    await memory.scopes.consolidate(**ADA, scope_id=old.scope.id)
    assert await texts(memory) == {"u:mia": "Mia lives in Oslo."}


async def test_due_consolidation_that_was_refused_is_done_again(memory: Memory, parrot: Parrot) -> None:
    old = await memory.observe("one", **MIA)
    await memory.observe("two", **MIA)
    await memory.observe("three", **MIA)
    await memory.observe("four", **MIA)
    parrot.meanwhile = partial(memory.observations.update, old.id, **MIA, text="ONE AND A HALF")
    failed = (await memory.run_due()).failed
    assert len(failed) == 1
    await rows(memory, "UPDATE memory.scopes SET due_at = now() - interval '1 hour' WHERE due_at IS NOT NULL")
    await memory.run_due()
    assert await texts(memory) == {"u:mia": "two three four ONE AND A HALF"}


async def test_formation_under_way_stands_beside_a_correction(memory: Memory, parrot: Parrot) -> None:
    old = await memory.observe("Mia lives in Rome.", **MIA)
    await memory.add([message("I sail a sloop.")], **MIA, conversation_id="s")
    parrot.meanwhile = partial(memory.observations.update, old.id, **MIA, text="Mia lives in Oslo.")
    await memory.conversations.form(**ADA, conversation_id="s")
    assert sorted(await listed(memory)) == ["I sail a sloop.", "Mia lives in Oslo."]


@pytest.mark.parametrize("operation", ["mark", "quarantine"])
async def test_work_that_was_shown_what_is_withdrawn_is_refused(memory: Memory, parrot: Parrot, operation: str) -> None:
    """Rule 6: a formation whose prompt held it, and a consolidation that has read it."""
    ruby = await memory.observe("Mia hides a ruby.", **MIA)
    await memory.add([message("I sail a sloop.")], **MIA, conversation_id="s")
    withdraw: Callable[..., Awaitable[Any]] = getattr(memory.observations, operation)
    if operation == "mark":
        withdraw = partial(withdraw, private=True)
    parrot.meanwhile = partial(withdraw, ruby.id, **MIA)
    with pytest.raises(StaleError):
        await memory.conversations.form(**ADA, conversation_id="s")
    await memory.conversations.form(**ADA, conversation_id="s")
    opal = await memory.observe("Mia hides an opal.", **MIA)
    parrot.meanwhile = partial(withdraw, opal.id, **MIA)
    with pytest.raises(StaleError):
        await memory.scopes.consolidate(**ADA, scope_id=ruby.scope.id)
    await memory.scopes.consolidate(**ADA, scope_id=ruby.scope.id)
    text = (await texts(memory))["u:mia"] or ""
    assert "sloop" in text
    assert ("opal" in text, "ruby" in text) == ((operation == "mark"),) * 2


async def test_undo_after_a_correction(memory: Memory) -> None:
    old = await memory.observe("Mia lives in Rome.", **MIA)
    await tell(memory)
    new = await memory.observations.update(old.id, **MIA, text="Mia lives in Oslo.")
    await memory.run_due()
    await memory.scopes.undo(**ADA, scope_id=old.scope.id)
    assert await texts(memory) == {"u:mia": "Mia lives in Rome."}
    assert await pending(memory) == ["Mia lives in Oslo."]
    await memory.scopes.undo(**ADA, scope_id=old.scope.id)
    await tell(memory)
    assert await texts(memory) == {"u:mia": "Mia lives in Oslo."}  # what is superseded isn't told again
    assert (await memory.observations.get(new.id, **MIA)).status == "active"


async def test_undo_of_a_version_that_absorbed_both(memory: Memory) -> None:
    old, new = await memory.observe("Rome", **MIA), await memory.observe("Oslo", **MIA)
    await tell(memory)
    await memory.observations.supersede(old.id, new.id, **MIA, **WHY)
    assert await pending(memory) == ["Oslo"]
    await memory.run_due()
    assert await texts(memory) == {"u:mia": "Oslo"}
    await memory.scopes.undo(**ADA, scope_id=old.scope.id)
    assert await pending(memory) == ["Oslo"]
    await memory.observations.reinstate(old.id, **MIA)
    await tell(memory)
    assert await texts(memory) == {"u:mia": "Rome Oslo"}


# Superseding and reinstating


async def test_superseding_is_an_event_and_can_be_taken_back(memory: Memory) -> None:
    old, new = await memory.observe("Rome", **MIA), await memory.observe("Oslo", **MIA)
    done = await memory.observations.supersede(old.id, new.id, **MIA, **WHY)
    assert (done.status, done.superseded_by) == ("superseded", new.id)
    assert await listed(memory) == ["Oslo"]
    back = await memory.observations.reinstate(old.id, **MIA)
    assert (back.status, back.superseded_by, back.pending) == ("active", None, True)
    assert await events(memory, "status") == [
        (old.id, "desk", "she called", {"from": "active", "to": "superseded", "by": 2}),
        (old.id, "mia", None, {"from": "superseded", "to": "active", "why": "reinstate"}),
    ]


async def test_only_what_is_newer_and_of_the_same_scope_supersedes(memory: Memory) -> None:
    old, new = await memory.observe("Rome", **MIA), await memory.observe("Oslo", **MIA)
    early = await memory.observe("Bonn", **MIA, observed_at=datetime(2020, 1, 1, tzinfo=UTC))
    other = await memory.observe("Lima", **ADA, collective=True)
    for a, b in ((new, old), (old, old), (old, early), (old, other)):
        with pytest.raises(InputError):
            await memory.observations.supersede(a.id, b.id, **MIA)
    await memory.observations.supersede(old.id, new.id, **MIA)
    with pytest.raises(VersionError):
        await memory.observations.supersede(early.id, old.id, **MIA)  # it is superseded itself
    with pytest.raises(InputError):
        await memory.observations.reinstate(new.id, **MIA)


async def test_reinstating_is_refused_while_an_active_one_says_the_same(memory: Memory) -> None:
    first = await memory.observe("tea", **MIA)
    second = await memory.observations.update(first.id, **MIA, text="coffee")
    third = await memory.observations.update(second.id, **MIA, text="Tea.")
    with pytest.raises(InputError, match=third.id):
        await memory.observations.reinstate(first.id, **MIA)


async def test_reinstated_one_is_told_again(memory: Memory) -> None:
    """The text is as it was before it took in what had taken the place."""
    old = await memory.observe("Rome", **MIA)
    await tell(memory)
    new = await memory.observations.update(old.id, **MIA, text="Oslo")
    await memory.run_due()
    await memory.observations.update(new.id, **MIA, text="Bonn")
    await memory.run_due()
    await memory.observations.reinstate(old.id, **MIA)
    assert await texts(memory) == {"u:mia": "Rome"}
    assert await pending(memory) == ["Bonn"]
    await memory.run_due()
    assert await texts(memory) == {"u:mia": "Rome Bonn"}


# Facts by key


async def test_fact_of_the_same_key_takes_the_place_of_the_older(memory: Memory) -> None:
    rome = await memory.observe("Mia lives in Rome.", **MIA, fact_key="home")
    await memory.observe("Mia sails.", **MIA, fact_key="hobby")
    await memory.observe("The crew lives at sea.", **MIA, group_id="crew", fact_key="home")
    oslo = await memory.observe("Mia lives in Oslo.", **MIA, fact_key="home")
    late = await memory.observe(
        "Mia lived in Bonn.", **MIA, fact_key="home", observed_at=datetime(2020, 1, 1, tzinfo=UTC)
    )
    assert sorted(await listed(memory)) == ["Mia lives in Oslo.", "Mia sails."]
    assert (late.status, late.superseded_by) == ("superseded", oslo.id)
    (first, *_) = await events(memory, "status")
    assert first == (rome.id, None, None, {"from": "active", "to": "superseded", "by": 3})
    new = await memory.observations.update(oslo.id, **MIA, text="Mia lives in Lima.")
    assert new.fact_key == "home"


LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)


async def test_of_the_values_of_a_fact_that_stand_again_the_newest_does(memory: Memory) -> None:
    """A value that was known later but is older gave way to the one that has gone, as an older one had before."""
    for end in (lambda o: memory.forget(o.id, **ADA), lambda o: memory.observations.quarantine(o.id, **MIA)):
        rome, oslo = await homes(memory, "Rome", "Oslo")
        bonn = await memory.observe("Mia lived in Bonn.", **MIA, fact_key="home", observed_at=LONG_AGO)
        await end(oslo)
        assert await listed(memory) == ["Mia lives in Rome."]
        found = await memory.observations.get(bonn.id, **MIA)
        assert (found.status, found.superseded_by) == ("superseded", rome.id)
        await memory.forget(Selection(user_id="mia"), **ADA)


async def test_released_value_of_a_fact_gives_way_to_a_newer_one_known_since(memory: Memory) -> None:
    (rome,) = await homes(memory, "Rome")
    await memory.observations.quarantine(rome.id, **MIA)
    (oslo,) = await homes(memory, "Oslo")
    await memory.observations.unquarantine(rome.id, **MIA)
    assert await listed(memory) == ["Mia lives in Oslo."]
    assert (await memory.observations.get(rome.id, **MIA)).superseded_by == oslo.id


async def test_value_that_was_replaced_before_its_quarantine_gives_way_to_a_newer_one(memory: Memory) -> None:
    """It counts since when it hasn't been active, not since when it is in quarantine."""
    (rome,) = await homes(memory, "Rome")
    oslo = await memory.observations.update(rome.id, **MIA, text="Mia lives in Oslo.")
    (lima,) = await homes(memory, "Lima")
    await memory.observations.quarantine(rome.id, **MIA)
    await memory.forget(oslo.id, **ADA)
    await memory.observations.unquarantine(rome.id, **MIA)
    assert await listed(memory) == ["Mia lives in Lima."]
    assert (await memory.observations.get(rome.id, **MIA)).superseded_by == lima.id


async def test_older_value_of_a_fact_known_since_gives_way_to_the_released_one(memory: Memory) -> None:
    (rome,) = await homes(memory, "Rome")
    await memory.observations.quarantine(rome.id, **MIA)
    await memory.observe("Mia lived in Bonn.", **MIA, fact_key="home", observed_at=LONG_AGO)
    await tell(memory)
    await memory.observations.unquarantine(rome.id, **MIA)
    assert await listed(memory) == ["Mia lives in Rome."]
    assert len((await memory.run_due()).consolidated) == 1
    assert await texts(memory) == {"u:mia": "Mia lived in Bonn. Mia lives in Rome."}  # as after any correction


VALUES = """
    WITH o AS (
        INSERT INTO memory.observations
        (agent_key, scope_id, seq, content, observed_at, created_at, source_kind, hash_version, fact_key)
        SELECT agent_key, scope_id, n, 'Home ' || n, o.observed_at - make_interval(days => n),
               o.created_at + make_interval(secs => n / 1e4), 'observe', 1, fact_key
        FROM memory.observations o, generate_series(2, 1000) n
    ), t AS (
        INSERT INTO memory.observation_states (agent_key, scope_id, seq, status, status_at, superseded_by)
        SELECT agent_key, scope_id, n, 'superseded', o.created_at + make_interval(secs => n / 1e4), seq
        FROM memory.observations o, generate_series(2, 1000) n
    )
    UPDATE memory.scopes SET last_seq = 1000
"""


@pytest.mark.slow
async def test_a_thousand_values_that_gave_way_to_one_are_looked_at_together(database_url: str, parrot: Parrot) -> None:
    """A statement for each was sent, and each was compared with each."""
    async with Memory(database_url, parrot, SETTINGS) as memory:
        (newest,) = await homes(memory, "Rome")
        await rows(memory, VALUES)
        for table in ("observations", "observation_states"):
            await rows(memory, f"ANALYZE memory.{table}")
        with statements(memory) as sent:
            await memory.observations.quarantine(newest.id, **MIA)
        assert len(sent) < 60
        assert await listed(memory) == ["Home 2"]


@pytest.mark.slow
async def test_values_of_a_fact_that_were_active_side_by_side_are_so_again(memory: Memory) -> None:
    rome, _ = await homes(memory, "Rome", "Oslo")
    await memory.observations.reinstate(rome.id, **MIA)
    await memory.observations.quarantine(rome.id, **MIA)
    await memory.observations.unquarantine(rome.id, **MIA)
    assert sorted(await listed(memory)) == ["Mia lives in Oslo.", "Mia lives in Rome."]


async def test_new_value_of_a_fact_is_told_soon(memory: Memory) -> None:
    await memory.observe("Mia lives in Rome.", **MIA, fact_key="home")
    await tell(memory)
    await memory.observe("Mia lives in Oslo.", **MIA, fact_key="home")
    assert len((await memory.run_due()).consolidated) == 1


async def test_same_words_with_another_key_are_another_fact(memory: Memory) -> None:
    first = await memory.observe("tea", **MIA, fact_key="likes")
    assert (await memory.observe("tea", **MIA, fact_key="likes")).id == first.id
    assert (await memory.observe("tea", **MIA, fact_key="drinks")).id != first.id


# Confirming and disputing


async def test_confirmed_by_a_person_it_has_their_word(memory: Memory) -> None:
    one = await memory.observe("The crew sails at dawn.", **MIA, group_id="crew")
    await memory.add([message("We sail.", user_id="jonas")], **MIA, conversation_id="s", group_ids=["crew"])
    done = await memory.observations.confirm(one.id, **JONAS, **WHY)
    assert done.verification == "confirmed"
    await memory.forget(Selection(user_id="mia"), **ADA)
    assert await listed(memory, **JONAS) == [one.content]
    assert await events(memory, "verification") == [
        (one.id, "desk", "she called", {"from": "unverified", "to": "confirmed"})
    ]


async def test_disputed_one_is_marked_in_the_context(memory: Memory) -> None:
    told = await memory.observe("Mia hates fish.", **MIA)
    await tell(memory)
    waiting = await memory.observe("Mia likes rain.", **MIA)
    await memory.observe("Mia sails.", **MIA)
    for one in (told, waiting):
        assert (await memory.observations.dispute(one.id, **MIA)).verification == "disputed"
    xml = str(await memory.context(**MIA, message="rain fish", retrieve=True))
    assert "- Mia likes rain. (today, disputed)" in xml
    assert "- Mia sails. (today)" in xml
    assert '<DisputedObservations scope="individual" individual="mia">\n- Mia hates fish. (today)' in xml
    await memory.observations.confirm(told.id, **MIA)
    assert "<DisputedObservations" not in str(await memory.context(**MIA))


async def test_disputed_one_is_not_known(memory: Memory, parrot: Parrot) -> None:
    """Who says it again says something new; and no prompt tells a model that it is known."""
    one = await memory.observe("Mia likes rain.", **MIA)
    await memory.observations.dispute(one.id, **MIA)
    await memory.add([message("I sail a sloop.")], **MIA, conversation_id="s")
    await memory.conversations.form(**ADA, conversation_id="s")
    assert "rain" not in str(parrot.requests[-1])
    again = await memory.observe("Mia likes snow.", **MIA)
    await memory.observations.dispute(again.id, **MIA)
    assert (await memory.observe("Mia likes snow.", **MIA)).id != again.id


# What nobody may see


@pytest.mark.parametrize(
    "operation", ["update", "reinstate", "confirm", "dispute", "mark", "quarantine", "unquarantine"]
)
async def test_what_the_principal_may_not_see_is_not_there(memory: Memory, operation: str) -> None:
    theirs = await memory.observe("Jonas likes tea.", **JONAS)
    change = getattr(memory.observations, operation)
    if operation == "update":
        change = partial(change, text="x")
    if operation == "mark":
        change = partial(change, private=True)
    seen = []
    for wanted in (theirs.id, "o77-1"):
        with statements(memory) as sent, pytest.raises(NotFoundError) as error:
            await change(wanted, **MIA)
        assert str(error.value) == f"no observation {wanted}"
        seen.append(list(sent))
    assert seen[0] == seen[1]
    reading = ("SELECT", "WITH RECURSIVE seen", "WITH RECURSIVE line", "ROLLBACK TO")
    assert all(statement.startswith(reading) for statement in seen[0])
    assert await rows(memory, "SELECT 1 FROM memory.events") == []


async def test_superseding_needs_to_see_both(memory: Memory) -> None:
    theirs, mine = await memory.observe("Jonas likes tea.", **JONAS), await memory.observe("Mia likes tea.", **MIA)
    for old, new in ((theirs, mine), (mine, theirs)):
        with pytest.raises(NotFoundError, match=theirs.id):
            await memory.observations.supersede(old.id, new.id, **MIA)


# Privacy after the fact


async def rubies(memory: Memory) -> tuple[Observation, Observation, Observation]:
    """One that has spread over two levels, and is told in each."""
    low = await memory.observe("Mia's ruby.", **MIA)
    middle = await memory.observe("A member's ruby.", **ADA, group_id="crew")
    high = await memory.observe("Somebody's ruby.", **ADA, collective=True)
    await spread(memory, middle, low)
    await spread(memory, high, middle)
    await memory.observe("The crew sails.", **ADA, group_id="crew")
    await tell(memory)
    return low, middle, high


@pytest.mark.parametrize("how", [{"private": True}, {"sensitivity": "sensitive"}])
async def test_what_becomes_private_leaves_where_it_has_spread(memory: Memory, how: dict[str, Any]) -> None:
    """R142: the observation and its own scope's text stay; everything that was made of it goes, transitively."""
    low, middle, high = await rubies(memory)
    before = await rows(memory, f"SELECT content, version FROM {TOLD} WHERE owner = 'u:mia'")  # noqa: S608
    marked = await memory.observations.mark(low.id, **MIA, **WHY, **how)
    assert marked.retracted == (middle.id, high.id)
    assert await texts(memory) == {"u:mia": "Mia's ruby.", "g:crew": None, "c": None}
    assert await rows(memory, f"SELECT content, version FROM {TOLD} WHERE owner = 'u:mia'") == before  # noqa: S608
    left = [content for (content,) in await rows(memory, "SELECT content FROM memory.observations ORDER BY 1")]
    assert left == ["Mia's ruby.", "The crew sails."]
    assert [content for (content,) in await rows(memory, "SELECT content FROM memory.consolidations")] == [
        "Mia's ruby."
    ]
    assert marked.withheld == (middle.scope.id,)
    await memory.run_due()
    assert (await texts(memory))["g:crew"] == "The crew sails."
    ((key, actor, reason, detail),) = await events(memory, "privacy")
    assert (key, actor, reason, detail["retracted"]) == (low.id, "desk", "she called", [middle.id, high.id])


async def test_database_refuses_to_make_private_what_has_spread(memory: Memory) -> None:
    low, *_ = await rubies(memory)
    for change in ("no_propagate = true", "confidential = true", "sensitivity = 'sensitive'"):
        with pytest.raises(DatabaseError, match="23000"):
            await rows(memory, f"UPDATE memory.observations SET {change} WHERE scope_id = :s", s=low.scope.key)  # noqa: S608
    await rows(memory, "UPDATE memory.observations SET sensitivity = 'public' WHERE scope_id = :s", s=low.scope.key)
    await rows(memory, "UPDATE memory.observations SET no_propagate = true WHERE content = 'The crew sails.'")


async def test_what_was_made_of_several_goes_with_any_of_them(memory: Memory) -> None:
    """Its text holds both; what another said in words of their own stays."""
    mine, theirs = await memory.observe("Mia's ruby.", **MIA), await memory.observe("Jonas's ruby.", **JONAS)
    both = await memory.observe("Two members have a ruby.", **ADA, group_id="crew")
    await spread(memory, both, mine, theirs)
    marked = await memory.observations.mark(mine.id, **MIA, private=True)
    assert marked.retracted == (both.id,)
    assert await listed(memory, **JONAS) == ["Jonas's ruby."]


async def test_what_it_has_taken_the_place_of_becomes_private_with_it(memory: Memory) -> None:
    low, middle, high = await rubies(memory)
    new = await memory.observations.update(low.id, **MIA, text="Mia's opal.")
    marked = await memory.observations.mark(new.id, **MIA, private=True)
    assert marked.retracted == (middle.id, high.id)
    private = "SELECT bool_and(no_propagate AND confidential) FROM memory.observations WHERE scope_id = :s"
    assert await rows(memory, private, s=low.scope.key) == [(True,)]


async def test_marking_again_or_less_private_takes_out_nothing(memory: Memory) -> None:
    low, *_ = await rubies(memory)
    assert (await memory.observations.mark(low.id, **MIA, private=False, sensitivity="private")).retracted == ()
    assert (await memory.observations.mark(low.id, **MIA, sensitivity="public")).observation.sensitivity == "public"
    sails = await memory.observations.mark(low.id, **MIA, private=True)
    assert len(sails.retracted) == 2
    assert (await memory.observations.mark(low.id, **MIA, private=True)).retracted == ()
    done = (await memory.observations.mark(low.id, **MIA, private=False)).observation
    assert (done.no_propagate, done.confidential, done.sensitivity) == (False, False, "public")
    with pytest.raises(InputError):
        await memory.observations.mark(low.id, **MIA)
    with pytest.raises(InputError):
        await memory.observations.mark(low.id, **MIA, sensitivity="secret")  # type: ignore[arg-type]


async def test_what_was_formed_in_a_group_may_be_marked_private(memory: Memory) -> None:
    said = [message("we have new sails"), message("Good.", n=2, user_id="jonas")]
    await memory.add(said, **MIA, conversation_id="s", group_ids=["harbor"])
    formed = await memory.conversations.form(**ADA, conversation_id="s")
    (sails,) = [one for one in formed.observations if one.scope.kind == "group"]
    assert (await memory.observations.mark(sails.id, **MIA, private=True)).observation.no_propagate
    assert await memory.admin.verify() == []


async def test_what_has_spread_and_is_held_is_withdrawn_by_a_marking(memory: Memory) -> None:
    low, middle, high = await rubies(memory)
    await rows(
        memory,
        "INSERT INTO memory.holds (agent_key, kind, target) SELECT agent_key, 'observation', :id FROM memory.agents",
        id=middle.id,
    )
    marked = await memory.observations.mark(low.id, **MIA, private=True)
    assert (marked.retracted, marked.withdrawn) == ((high.id,), (middle.id,))
    assert marked.observation.no_propagate
    assert list(await memory.admin.verify()) == []


# Quarantine


async def test_states_that_are_set_aside_are_those_of_the_database(memory: Memory) -> None:
    """`SET_ASIDE` is the one copy of `memory.is_aside`; the index on these states is made of it."""
    constraint = "SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conname = 'observation_states_status_check'"
    ((definition,),) = await rows(memory, constraint)
    states = definition.partition("{")[2].partition("}")[0].split(",")
    found = [await rows(memory, "SELECT memory.is_aside(:state)", state=state) for state in states]
    assert len(states) == 7
    assert {state for state, is_aside in zip(states, found, strict=True) if is_aside == [(True,)]} == {*SET_ASIDE}


async def test_quarantined_one_is_neither_shown_nor_told(memory: Memory) -> None:
    """Rule 8, over two levels; nothing is deleted."""
    low, middle, high = await rubies(memory)
    done = await memory.observations.quarantine(low.id, **MIA, **WHY)
    assert done.observations == (low.id, middle.id, high.id)
    assert await texts(memory) == {"u:mia": None, "g:crew": None, "c": None}
    assert "ruby" not in str(await memory.context(**MIA, message="ruby", retrieve=True))
    assert await listed(memory) == []
    assert len(await rows(memory, "SELECT 1 FROM memory.observations")) == 4
    assert done.withheld == (middle.scope.id,)
    await memory.run_due()
    assert (await texts(memory))["g:crew"] == "The crew sails."
    assert {(actor, reason) for _, actor, reason, _ in await events(memory, "status")} == {("desk", "she called")}
    with pytest.raises(NotFoundError):
        await memory.observations.get(low.id, **MIA)


async def test_release_brings_back_what_went_along(memory: Memory) -> None:
    low, middle, high = await rubies(memory)
    await memory.observations.quarantine(low.id, **MIA)
    done = await memory.observations.unquarantine(low.id, **MIA)
    assert done.observations == (low.id, middle.id, high.id)
    assert "Mia's ruby." in await pending(memory)
    await tell(memory)
    assert (await texts(memory))["g:crew"] == "A member's ruby. The crew sails."
    with pytest.raises(InputError):
        await memory.observations.unquarantine(low.id, **MIA)


@pytest.mark.slow
async def test_what_was_merged_of_several_is_erased_with_any_that_is_quarantined(memory: Memory) -> None:
    """Its text holds both; a legal hold on it leaves it set aside until none of them is."""
    for held in (False, True):
        mine, theirs = await memory.observe(f"Mia's {held}.", **MIA), await memory.observe(f"Jo's {held}.", **JONAS)
        both = await memory.observe(f"Two members have a {held} ruby.", **ADA, group_id="crew")
        await spread(memory, both, mine, theirs)
        if held:
            await memory.holds.place(**ADA, observation_id=both.id)
        await memory.observations.quarantine(mine.id, **MIA)
        done = await memory.observations.quarantine(theirs.id, **JONAS)
        assert (done.observations, done.retracted) == ((theirs.id,), ())
        assert (await memory.observations.unquarantine(mine.id, **MIA)).observations == (mine.id,)
        assert list(await memory.admin.verify()) == []
        back = (theirs.id, both.id) if held else (theirs.id,)
        assert set((await memory.observations.unquarantine(theirs.id, **JONAS)).observations) == {*back}
        left = "SELECT status FROM memory.v_observations WHERE content = :content"
        assert await rows(memory, left, content=both.content) == ([("active",)] if held else [])


async def test_quarantine_covers_what_says_the_same_and_what_will_say_it(memory: Memory) -> None:
    await memory.configure(agent_id="ada", deduplicate="newest")
    first = await memory.observe("Obey the parrot.", **MIA)
    await memory.observe("Mia sails.", **MIA)
    second = await memory.observe("obey the parrot", **MIA)
    done = await memory.observations.quarantine(second.id, **MIA)
    assert done.observations == (first.id, second.id)
    again = await memory.observe("Obey the parrot!", **MIA)
    assert again.status == "quarantined"
    assert await listed(memory) == ["Mia sails."]
    fine = await memory.observe("Obey the parrot!", **JONAS)  # another scope
    assert fine.status == "active"
    sails = (await memory.observations.list(**MIA))[0]
    with pytest.raises(InputError):
        await memory.observations.update(sails.id, **MIA, text="Obey the parrot.")
    assert await listed(memory) == ["Mia sails."]
    assert (await memory.observations.unquarantine(first.id, **MIA)).observations == (first.id, second.id)


async def test_quarantine_by_a_query_reads_it_as_a_search_does(memory: Memory) -> None:
    """What is only left out is everything else: that is refused, also to take a quarantine back."""
    for text in ("ruby", "ruby red", "opal"):
        await memory.observe(text, **MIA)
    for call in (memory.observations.quarantine, memory.observations.unquarantine):
        with pytest.raises(InputError, match="word"):
            await call(Selection(query="-zzz"), **ADA)
    await memory.observations.quarantine(Selection(query="ruby -red"), **ADA)
    assert await listed(memory) == ["opal", "ruby red"]
    await memory.observations.unquarantine(Selection(query="ruby -red"), **ADA)
    assert await listed(memory) == ["opal", "ruby red", "ruby"]


MANY = """
    WITH o AS (
        INSERT INTO memory.observations (agent_key, scope_id, seq, content, observed_at, source_kind, hash_version)
        SELECT agent_key, scope_id, n, 'Boat ' || n, now(), 'observe', 1 FROM memory.scopes, generate_series(2, 17000) n
    ), e AS (
        INSERT INTO memory.evidence (agent_key, scope_id, seq, user_id)
        SELECT agent_key, scope_id, n, 'mia' FROM memory.scopes, generate_series(2, 17000) n WHERE owner = 'u:mia'
    ), l AS (
        INSERT INTO memory.lineage (agent_key, scope_id, seq, source_scope_id, source_seq, whole)
        SELECT agent_key, scope_id, n, source_scope_id, n, true FROM memory.lineage, generate_series(2, 17000) n
    )
    UPDATE memory.scopes SET last_seq = 17000
"""


@pytest.mark.prove
async def test_more_than_a_statement_has_parameters_is_quarantined_and_comes_back(
    database_url: str, parrot: Parrot
) -> None:
    async with Memory(database_url, parrot, SETTINGS) as memory:
        mine = await memory.observe("Mia sails.", **MIA)
        await spread(memory, await memory.observe("We sail.", **ADA, group_id="crew"), mine)
        await rows(memory, MANY)
        for status, act in (
            ("quarantined", memory.observations.quarantine),
            ("active", memory.observations.unquarantine),
        ):
            for table in ("observations", "observation_states", "events", "evidence", "lineage"):
                await rows(memory, f"ANALYZE memory.{table}")
            assert len((await act(Selection(user_id="mia"), **ADA)).observations) == 34_000
            found = await rows(memory, "SELECT status, count(*) FROM memory.observation_states GROUP BY 1")
            assert found == [(status, 34_000)]


async def test_quarantine_of_a_source(memory: Memory) -> None:
    await memory.add([message("I hide my ruby.")], **MIA, conversation_id="s")
    await memory.add([message("I sail a sloop.")], **MIA, conversation_id="t")
    for conversation_id in ("s", "t"):
        await memory.conversations.form(**ADA, conversation_id=conversation_id)
    await tell(memory)
    done = await memory.observations.quarantine(Selection(conversation_id="s"), **ADA, actor="ops")
    assert len(done.observations) == 1
    await memory.run_due()
    assert await texts(memory) == {"u:mia": "I sail a sloop."}
    assert (
        await memory.observations.unquarantine(Selection(conversation_id="s"), **ADA)
    ).observations == done.observations
    with pytest.raises(InputError):
        Selection()
    for wrong, who in (
        (done.observations[0], ADA),  # nobody who asks
        (Selection(conversation_id="s"), MIA),
        (Selection(observation_id=done.observations[0]), ADA),
        (Selection(everything=True), ADA),
    ):
        with pytest.raises(InputError):
            await memory.observations.quarantine(wrong, **who)


async def test_what_a_quarantined_correction_had_replaced_stands_again(memory: Memory) -> None:
    old = await memory.observe("Mia lives in Rome.", **MIA)
    await tell(memory)
    new = await memory.observations.update(old.id, **MIA, text="Mia lives on the moon.")
    await memory.run_due()
    await memory.observations.quarantine(new.id, **MIA)
    assert await listed(memory) == ["Mia lives in Rome."]
    assert await texts(memory) == {"u:mia": "Mia lives in Rome."}


@pytest.mark.slow
async def test_of_two_replaced_ones_that_say_the_same_one_stands_again(memory: Memory) -> None:
    first = await memory.observe("Mia lives in Rome.", **MIA)
    oslo = await memory.observations.update(first.id, **MIA, text="Mia lives in Oslo.")
    again = await memory.observe("Mia lives in Rome.", **MIA)
    lima = await memory.observations.update(again.id, **MIA, text="Mia lives in Lima.")
    await memory.forget(oslo.id, **ADA)
    await memory.observations.supersede(first.id, lima.id, **MIA)
    await memory.observations.quarantine(lima.id, **MIA)
    assert [o.id for o in await memory.observations.list(**MIA)] == [again.id]
    await memory.observations.unquarantine(lima.id, **MIA)
    assert [o.id for o in await memory.observations.list(**MIA)] == [lima.id]


@pytest.mark.slow
async def test_of_two_released_ones_that_say_the_same_one_stands(memory: Memory) -> None:
    """What had superseded both is still quarantined, or gone."""
    for is_gone in (False, True):
        first = await memory.observe("Mia lives in Rome.", **MIA)
        oslo = await memory.observations.update(first.id, **MIA, text="Mia lives in Oslo.")
        again = await memory.observe("Mia lives in Rome.", **MIA)
        lima = await memory.observations.update(again.id, **MIA, text="Mia lives in Lima.")
        await memory.observations.quarantine(Selection(user_id="mia"), **ADA)
        for one in (oslo, lima) if is_gone else ():
            await memory.forget(one.id, **ADA)
        await memory.observations.unquarantine(Selection(query="Rome"), **ADA)
        assert [o.id for o in await memory.observations.list(**MIA)] == [again.id]
        await memory.forget(Selection(user_id="mia"), **ADA)


async def test_released_correction_replaces_again_what_it_had_replaced(memory: Memory) -> None:
    """The text, which had taken in the old one meanwhile, is rewritten with it."""
    old = await memory.observe("Mia lives in Rome.", **MIA)
    await tell(memory)
    new = await memory.observations.update(old.id, **MIA, text="Mia lives in Oslo.")
    await memory.observations.quarantine(new.id, **MIA)
    await tell(memory)
    assert await texts(memory) == {"u:mia": "Mia lives in Rome."}
    released = await memory.observations.unquarantine(new.id, **MIA)
    assert released.observations == (new.id,)
    assert await listed(memory) == ["Mia lives in Oslo."]
    assert len((await memory.run_due()).consolidated) == 1
    assert await texts(memory) == {"u:mia": "Mia lives in Rome. Mia lives in Oslo."}  # as after any correction


async def test_released_correction_leaves_alone_what_was_decided_meanwhile(memory: Memory) -> None:
    old = await memory.observe("Mia lives in Rome.", **MIA)
    new = await memory.observations.update(old.id, **MIA, text="Mia lives in Oslo.")
    await memory.observations.quarantine(new.id, **MIA)
    other = await memory.observations.update(old.id, **MIA, text="Mia lives in Lima.")
    await memory.observations.reinstate(old.id, **MIA)
    await memory.observations.unquarantine(new.id, **MIA)  # corrected by what was said after it
    assert sorted(o.id for o in await memory.observations.list(**MIA)) == [old.id, other.id]


async def test_superseded_one_is_superseded_again_after_its_release(memory: Memory) -> None:
    old = await memory.observe("Mia lives in Rome.", **MIA)
    await tell(memory)
    new = await memory.observations.update(old.id, **MIA, text="Mia lives in Oslo.")
    await memory.observations.quarantine(old.id, **MIA)
    assert await texts(memory) == {"u:mia": None}
    await memory.observations.unquarantine(old.id, **MIA)
    back = await memory.observations.get(old.id, **MIA)
    assert (back.status, back.superseded_by) == ("superseded", new.id)
    await tell(memory)
    assert await texts(memory) == {"u:mia": "Mia lives in Oslo."}


async def statuses(memory: Memory) -> list[tuple[Any, ...]]:
    """Of what isn't active."""
    what = "SELECT seq, status, superseded_by FROM memory.observation_states"
    return await rows(memory, f"{what} WHERE status <> 'active' ORDER BY seq")


async def homes(memory: Memory, *cities: str) -> list[Observation]:
    return [await memory.observe(f"Mia lives in {city}.", **MIA, fact_key="home") for city in cities]


@pytest.mark.parametrize("place", [0, 1, 2, None])
async def test_release_restores_a_line_of_corrections(memory: Memory, place: int | None) -> None:
    """One of them, or all at once."""
    line = await homes(memory, "Bergen", "Oslo", "Rome")
    before = await statuses(memory)
    chosen, who = (Selection(user_id="mia"), ADA) if place is None else (line[place].id, MIA)
    await memory.observations.quarantine(chosen, **who)
    await memory.observations.unquarantine(chosen, **who)
    assert await statuses(memory) == before


async def test_original_stands_again_when_all_its_corrections_are_quarantined(memory: Memory) -> None:
    """And gives way to them again afterwards, also to the last of them alone."""
    original = await memory.observe("Mia lives in Rome.", **MIA)
    second = await memory.observations.update(original.id, **MIA, text="Mia lives on Mars.", tags=["poison"])
    await memory.observations.update(second.id, **MIA, text="Mia lives on the moon.")
    before = await statuses(memory)
    poison = Selection(tag="poison")
    await memory.observations.quarantine(poison, **ADA)
    assert await listed(memory) == ["Mia lives in Rome."]
    await memory.observations.unquarantine(poison, **ADA)
    assert await statuses(memory) == before
    await memory.observations.quarantine(poison, **ADA)
    await memory.observations.unquarantine(Selection(query="moon"), **ADA)
    assert await listed(memory) == ["Mia lives on the moon."]


@pytest.mark.parametrize("going", ["both", "third second", "second third", "first both", "first second third"])
async def test_correction_that_is_released_last_replaces_what_was_released_before(memory: Memory, going: str) -> None:
    """In whatever order they had gone."""
    one: Observation = await memory.observe("Mia lives in first.", **MIA, tags=["first"])
    for tag in ("second", "third"):
        one = await memory.observations.update(one.id, **MIA, text=f"Mia lives in {tag}.", tags=[tag, "both"])
    before = await statuses(memory)
    for tag in going.split():
        await memory.observations.quarantine(Selection(tag=tag), **ADA)
    assert await listed(memory) == ([] if "first" in going else ["Mia lives in first."])
    for tag in ("first", "second", "third"):
        if tag in going or (tag != "first" and "both" in going):
            await memory.observations.unquarantine(Selection(tag=tag), **ADA)
            assert await listed(memory) == [f"Mia lives in {tag}."]
    assert await statuses(memory) == before


async def test_quarantine_by_an_operator_too_brings_back_nothing_beside_what_stands(memory: Memory) -> None:
    first = await memory.observe("Mia lives in Rome.", **MIA)
    second = await memory.observations.update(first.id, **MIA, text="Mia lives in Oslo.", tags=["poison"])
    third = await memory.observations.update(second.id, **MIA, text="Mia lives in Lima.", tags=[])
    before = await statuses(memory)
    await memory.observations.quarantine(second.id, **MIA)
    await memory.observations.quarantine(Selection(tag="poison"), **ADA)
    assert [o.id for o in await memory.observations.list(**MIA)] == [third.id]
    await memory.observations.unquarantine(Selection(tag="poison"), **ADA)
    assert await statuses(memory) == before


async def test_correction_replaces_again_what_an_operator_found_in_its_place(memory: Memory) -> None:
    """A user's quarantine of it had brought back nothing, since the same was said elsewhere."""
    old = await memory.observe("Mia lives in Rome.", **MIA)
    new = await memory.observations.update(old.id, **MIA, text="Mia lives in Oslo.")
    same = await memory.observe("Mia lives in Rome.", **MIA)
    await memory.observations.quarantine(new.id, **MIA)
    await memory.forget(same.id, **ADA)
    await memory.observations.quarantine(Selection(query="Oslo"), **ADA)
    assert [o.id for o in await memory.observations.list(**MIA)] == [old.id]
    await memory.observations.unquarantine(Selection(query="Oslo"), **ADA)
    assert [o.id for o in await memory.observations.list(**MIA)] == [new.id]


@pytest.mark.slow
async def test_released_one_stands_again_without_its_successor(memory: Memory) -> None:
    """Which is gone, or is quarantined for longer."""
    for lost in (lambda o: memory.observations.quarantine(o.id, **MIA), lambda o: memory.forget(o.id, **ADA)):
        old, new = await homes(memory, "Bergen", "Oslo")
        await memory.observations.quarantine(old.id, **MIA)
        await lost(new)
        await memory.observations.unquarantine(old.id, **MIA)
        assert await listed(memory) == ["Mia lives in Bergen."]
        await memory.forget(Selection(user_id="mia"), **ADA)


async def test_released_one_stays_superseded_by_the_word_of_who_left(memory: Memory) -> None:
    await memory.groups.create("crew", **ADA)
    for user in ("mia", "jonas"):
        await memory.groups.add_member("crew", user, **ADA)
    old = await memory.observe("We sail at dawn.", **MIA, group_id="crew")
    await memory.observations.update(old.id, **JONAS, text="We sail at noon.")
    await memory.groups.remove_member("crew", "mia", **ADA)
    before = await statuses(memory)
    await memory.observations.quarantine(old.id, **JONAS)
    await memory.observations.unquarantine(old.id, **JONAS)
    assert await statuses(memory) == before


async def test_two_quarantines_and_a_correction_at_once(memory: Memory) -> None:
    """Locks are taken in one order by everybody: nobody waits for each other."""
    low, middle, _ = await rubies(memory)
    await memory.add([message("We sail.")], **MIA, conversation_id="s", group_ids=["crew"])
    done = await asyncio.gather(
        memory.observations.quarantine(low.id, **MIA),
        memory.observations.mark(middle.id, **MIA, private=True),
        memory.observations.update(low.id, **MIA, text="Mia's opal."),
        return_exceptions=True,
    )
    assert [
        one for one in done if isinstance(one, Exception) and not isinstance(one, NotFoundError | VersionError)
    ] == []


# Any of it in any order


@pytest.mark.slow
@pytest.mark.parametrize("seed", few_in_every_run(range(6), [0]))
async def test_random_lives_lose_nothing_and_tell_nothing_that_was_set_aside(memory: Memory, seed: int) -> None:
    """The parrot keeps every word, so what is active is told or waits; each observation has a word of its own."""
    dice, done = random.Random(seed), 0
    await memory.add([message("We sail.")], **MIA, conversation_id="s", group_ids=["crew"])
    await memory.conversations.form(**ADA, conversation_id="s")
    for n in range(80):
        ids = [key for (key,) in await rows(memory, "SELECT observation_id FROM memory.v_observations ORDER BY 1")]
        try:
            await act(memory, dice, f"w{n:03}", ids)
            done += 1
        except (InputError, VersionError, NotFoundError):
            continue
        await check(memory)
        if n % 8 == 0:
            assert list(await memory.admin.verify()) == []
    assert done > 40


async def act(memory: Memory, dice: random.Random, word: str, ids: list[str]) -> None:
    one, other = dice.choice(ids), dice.choice(ids)
    owner = dice.choice([MIA, {**MIA, "group_id": "crew"}, {**MIA, "collective": True}])
    key = dice.choice([None, None, "home", "hobby"])
    match dice.choice("observe observe derive update update supersede reinstate confirm dispute mark quarantine unquarantine"
                      " consolidate consolidate undo forget due".split()):  # fmt: skip
        case "observe":
            await memory.observe(f"It is {word}.", **owner, fact_key=key)
        case "derive":
            source = await memory.observations.get(one, **MIA)
            if source.status == "active" and not source.no_propagate and source.scope.kind == "individual":
                await spread(memory, await memory.observe(f"It is {word}.", **MIA, group_id="crew"), source)
        case "update":
            await memory.observations.update(one, **MIA, text=f"It is {word}.")
        case "supersede":
            await memory.observations.supersede(one, other, **MIA)
        case "mark":
            await memory.observations.mark(one, **MIA, private=dice.choice([True, False]))
        case "consolidate":
            await tell(memory)
        case "undo":
            await memory.scopes.undo(**ADA, scope_id=f"s{one[1:].partition('-')[0]}")
        case "forget":
            await memory.forget(one, **ADA, wait=False)
            await memory.observe("It is never empty.", **MIA)
        case "due":
            await memory.run_due()
        case operation:
            await getattr(memory.observations, operation)(one, **MIA)


async def check(memory: Memory) -> None:
    found = await rows(
        memory,
        "SELECT o.content, o.status, o.pending, coalesce(t.content, '') FROM memory.v_observations o"  # noqa: S608
        f" JOIN (SELECT scope_id, content FROM {TOLD}) t USING (scope_id)",
    )
    shown = str(await memory.context(**MIA))
    for content, status, waits, text in found:
        assert status != "active" or waits or content in text, content
        assert status != "quarantined" or content not in shown, content
    private = "SELECT 1 FROM memory.lineage l JOIN memory.observations o ON (o.scope_id, o.seq)"
    private += " = (l.source_scope_id, l.source_seq) WHERE o.no_propagate"
    assert await rows(memory, private) == []
