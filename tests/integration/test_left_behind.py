"""What is left of somebody who has left a group: it stays in use while anybody stands behind it who hasn't left."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from itertools import permutations
from typing import Any

import pytest

from memory_sql.config import Settings
from memory_sql.domain.observations import Observation
from memory_sql.domain.selection import Selection
from memory_sql.memory import Memory
from tests.database import TOLD, rows
from tests.factories import Clock, message
from tests.fakes import Parrot
from tests.prove.worlds import SETTINGS, Maker, Teller, fact, id_of
from tests.prove.worlds import Clock as WorldClock

ADA: dict[str, Any] = {"agent_id": "ada"}
SAILS = "We sail."
HIGH = "Somebody sails."
PRINTER = fact("printer", "grey", 0)


@pytest.fixture
async def memory(database_url: str) -> AsyncIterator[Memory]:
    settings = Settings(llm="offline", consolidation_threshold=3, shared_conversations=True)
    async with Memory(database_url, Parrot(), settings, clock=Clock()) as opened:
        await opened.groups.create("crew", **ADA)
        for user in ("ann", "dot", "eve"):
            await opened.groups.add_member("crew", user, **ADA)
        yield opened
        assert list(await opened.admin.verify()) == []


async def stated(memory: Memory, *users: str | None, text: str = SAILS) -> Observation:
    """One observation, which all of these have said."""
    for user in users:
        said = await memory.observe(text, **ADA, user_id=user, group_id="crew")
    return said


async def leave(memory: Memory, user: str, **more: Any) -> None:
    await memory.groups.remove_member("crew", user, **ADA, **more)


async def forget(memory: Memory, user: str) -> None:
    await memory.forget(Selection(user_id=user), **ADA, wait=False)


async def status(memory: Memory, text: str = SAILS) -> str | None:
    """Of what the crew or all know by this text; None: it isn't there."""
    found = await rows(
        memory,
        "SELECT coalesce(t.status, 'active') FROM memory.observations o JOIN memory.scopes s USING (agent_key, scope_id)"
        " LEFT JOIN memory.observation_states t USING (agent_key, scope_id, seq)"
        " WHERE o.content = :text AND s.owner IN ('g:crew', 'c')",
        text=text,
    )
    return found[0][0] if found else None


async def tell(memory: Memory) -> None:
    for (scope_id,) in await rows(memory, "SELECT scope_id FROM memory.scopes ORDER BY 1"):
        await memory.scopes.consolidate(**ADA, scope_id=f"s{scope_id}")


async def spread(memory: Memory, source: Observation) -> Observation:
    """Something in the collective scope, as if propagation had made it of the first that the crew knows."""
    high = await memory.observe(HIGH, **ADA, collective=True)
    await rows(
        memory,
        "INSERT INTO memory.lineage (agent_key, scope_id, seq, source_scope_id, source_seq)"
        " SELECT agent_key, :scope_id, 1, :from_scope, 1 FROM memory.agents",
        scope_id=high.scope.key,
        from_scope=source.scope.key,
    )
    return high


@pytest.mark.parametrize("ends", [("forget", "leave"), ("leave", "forget"), ("leave", "leave")])
async def test_what_two_have_said_is_archived_when_neither_is_left(memory: Memory, ends: tuple[str, str]) -> None:
    said = await stated(memory, "ann", "dot")
    await stated(memory, "eve", text="We moor.")
    await tell(memory)
    ways: dict[str, Callable[[Memory, str], Awaitable[None]]] = {"leave": leave, "forget": forget}
    for end, user in zip(ends, ("ann", "dot") if ends[0] == "forget" else ("dot", "ann"), strict=True):
        assert await status(memory) == "active"
        await ways[end](memory, user)
    assert await status(memory) == "archived"
    assert [o.content for o in await memory.observations.list(**ADA, user_id="eve")] == ["We moor."]
    whys = await rows(memory, "SELECT DISTINCT detail ->> 'why' FROM memory.events WHERE kind = 'status'")
    assert whys == [("leave",)]
    await memory.run_due()
    assert await rows(memory, f"SELECT content FROM {TOLD} WHERE owner = 'g:crew'") == [("We moor.",)]  # noqa: S608
    await memory.groups.add_member("crew", "dot", **ADA)  # which brings nothing back
    assert await status(memory) == "archived"
    assert (await stated(memory, "dot")).id != said.id


@pytest.mark.slow
async def test_receipt_tells_of_the_text_and_the_preview_says_the_same(memory: Memory) -> None:
    said = await stated(memory, "ann", "dot")
    await stated(memory, "eve", text="We moor.")
    high = await spread(memory, said)
    await tell(memory)
    await leave(memory, "dot")
    given: dict[str, Any] = {"agent_id": "ada", "wait": False}
    planned = await memory.forget(Selection(user_id="ann"), **given, dry_run=True)
    assert await status(memory) == "active"
    receipt = await memory.forget(Selection(user_id="ann"), **given, actor="desk")
    varies: dict[str, Any] = {"id": "", "at": receipt.at, "dry_run": False}
    assert planned.model_copy(update=varies) == receipt.model_copy(update=varies)
    assert receipt.withheld == (said.scope.id,)
    assert await status(memory) == "archived"
    assert await status(memory, HIGH) is None
    ((actor, detail),) = await rows(
        memory, "SELECT actor, detail FROM memory.events WHERE kind = 'membership' AND detail ->> 'action' = 'forget'"
    )
    assert (actor, detail) == ("desk", {"action": "forget", "archived": [said.id], "retracted": [high.id]})


async def test_derived_that_a_hold_keeps_is_withdrawn_until_it_ends(memory: Memory) -> None:
    said = await stated(memory, "ann", "dot")
    high = await spread(memory, said)
    hold = await memory.holds.place(**ADA, observation_id=high.id)
    await leave(memory, "dot")
    await forget(memory, "ann")
    assert await status(memory) == "archived"
    assert await status(memory, HIGH) == "withdrawn"
    assert list(await memory.admin.verify()) == []
    await memory.holds.release(hold.hold_id, **ADA)
    assert await status(memory, HIGH) is None


@pytest.mark.parametrize("order", [("hold", "leave", "forget"), ("hold", "forget", "leave")])
async def test_what_a_hold_keeps_of_who_is_forgotten_keeps_nothing_in_use(
    memory: Memory, order: tuple[str, ...]
) -> None:
    await stated(memory, "ann", "dot")
    for step in order:
        if step == "hold":
            await memory.holds.place(**ADA, user_id="ann")
        else:
            await (leave(memory, "dot") if step == "leave" else forget(memory, "ann"))
    assert await status(memory) == "archived"


async def test_what_was_kept_of_who_left_stays_until_that_ends(memory: Memory) -> None:
    await stated(memory, "ann", "dot")
    await stated(memory, "dot", "eve", text="We moor.")
    await leave(memory, "dot", keep=True)
    await forget(memory, "ann")
    assert await status(memory) == "active"
    left = await memory.groups.remove_member("crew", "dot", **ADA)
    assert len(left.archived) == 1
    assert (await status(memory), await status(memory, "We moor.")) == ("archived", "active")
    await leave(memory, "eve")
    assert await status(memory, "We moor.") == "archived"


async def test_keeping_ends_also_where_somebody_else_has_said_it_as_yet(memory: Memory) -> None:
    await stated(memory, "ann", "dot")
    await leave(memory, "dot", keep=True)
    assert (await memory.groups.remove_member("crew", "dot", **ADA)).archived == ()
    await forget(memory, "ann")
    assert await status(memory) == "archived"


async def test_last_time_that_somebody_leaves_decides_what_is_kept(memory: Memory) -> None:
    await stated(memory, "ann", "dot")
    await leave(memory, "dot")
    await memory.groups.add_member("crew", "dot", **ADA)
    await leave(memory, "dot", keep=True)
    await forget(memory, "ann")
    assert await status(memory) == "active"
    await memory.groups.add_member("crew", "dot", **ADA)
    await leave(memory, "dot")
    assert await status(memory) == "archived"


async def test_who_came_back_stands_behind_what_they_had_said(memory: Memory) -> None:
    await stated(memory, "ann", "dot")
    await leave(memory, "dot")
    await memory.groups.add_member("crew", "dot", **ADA)
    await forget(memory, "ann")
    assert await status(memory) == "active"


async def test_who_belongs_by_another_id_stands_behind_it(memory: Memory) -> None:
    await stated(memory, "ann", "dot")
    await leave(memory, "dot")
    await memory.groups.add_member("crew", "vis", **ADA)
    await memory.people.merge(**ADA, user_id="vis", into_user_id="dot")
    await forget(memory, "ann")
    assert await status(memory) == "active"
    await memory.people.unmerge(**ADA, user_id="vis")
    assert await status(memory) == "archived"


@pytest.mark.parametrize("first", ["vis", "eve"])
async def test_one_id_that_leaves_takes_nothing_while_another_is_a_member(memory: Memory, first: str) -> None:
    await memory.groups.add_member("crew", "vis", **ADA)
    await memory.people.merge(**ADA, user_id="vis", into_user_id="dot")
    await stated(memory, "vis", "eve")
    for user in (first, "eve" if first == "vis" else "vis"):
        await leave(memory, user)
    assert await status(memory) == "active"
    await leave(memory, "dot")
    assert await status(memory) == "archived"


@pytest.mark.parametrize("other", [None, "zoe"])
async def test_host_and_who_never_was_a_member_stand_behind_it(memory: Memory, other: str | None) -> None:
    await stated(memory, "ann", "dot", other)
    await leave(memory, "dot")
    await forget(memory, "ann")
    assert await status(memory) == "active"


async def talk(memory: Memory, *users: str) -> None:
    for n, user in enumerate(users, 1):
        said = [message(SAILS, n=n, user_id=user)]
        await memory.add(said, **ADA, user_id=user, conversation_id=f"of {user}", group_ids=["crew"])
        await memory.conversations.form(**ADA, conversation_id=f"of {user}")
    scope = await rows(memory, "SELECT scope_id, seq FROM memory.observations ORDER BY seq")
    assert len(scope) == 1, scope


@pytest.mark.parametrize("what", ["message", "conversation", "replacing"])
async def test_it_may_be_a_message_that_goes(memory: Memory, what: str) -> None:
    await talk(memory, "ann", "dot")
    await leave(memory, "dot")
    assert await status(memory) == "active"
    if what == "message":
        await memory.forget(Selection(conversation_id="of ann", message_id="m1"), **ADA, wait=False)
    elif what == "conversation":
        await memory.forget(Selection(conversation_id="of ann"), **ADA, wait=False)
    else:
        said = [message("We moor.", n=1, user_id="ann")]
        await memory.add(said, **ADA, user_id="ann", conversation_id="of ann", group_ids=["crew"], replace=True)
    assert await status(memory) == "archived"


@pytest.fixture
async def claims(database_url: str) -> AsyncIterator[Memory]:
    """Ann and dot have each said something of their own, which was propagated to the crew."""
    async with Memory(database_url, Teller(), SETTINGS, clock=WorldClock()) as opened:
        maker = Maker(opened, "ada")
        await maker.make([])
        for user in ("ann", "dot"):
            await maker.state(user, "own", ("printer", "grey", 0), False)
        await maker.tell()
        await maker.spread()
        behind = await rows(
            opened,
            "SELECT array_agg(x.owner ORDER BY x.owner) FROM memory.lineage l"
            " JOIN memory.scopes s USING (agent_key, scope_id)"
            " JOIN memory.scopes x ON (x.agent_key, x.scope_id) = (l.agent_key, l.source_scope_id)"
            " WHERE s.owner = 'g:crew' GROUP BY l.agent_key, l.scope_id, l.seq",
        )
        assert behind == [(sorted(f"u:{id_of(user)}" for user in ("ann", "dot")),)]
        yield opened
        assert list(await opened.admin.verify()) == []


@pytest.mark.slow
@pytest.mark.parametrize("end", ["forget", "leave", "mark", "observation"])
async def test_claim_stays_while_one_of_its_sources_is_of_a_member(claims: Memory, end: str) -> None:
    ((of_ann,),) = await rows(
        claims,
        "SELECT format('o%s-%s', scope_id, seq) FROM memory.observations JOIN memory.scopes USING (agent_key, scope_id)"
        " WHERE owner = :owner",
        owner=f"u:{id_of('ann')}",
    )
    await leave(claims, id_of("dot"))
    assert await status(claims, PRINTER) == "active"
    match end:
        case "forget":
            await forget(claims, id_of("ann"))
        case "leave":
            await leave(claims, id_of("ann"))
        case "mark":
            await claims.observations.mark(of_ann, **ADA, user_id=id_of("ann"), private=True)
        case _:
            await claims.forget(of_ann, **ADA, wait=False)
    assert await status(claims, PRINTER) == "archived"


# What had given way before its author left


@pytest.fixture
async def corrected(memory: Memory) -> tuple[Observation, Observation]:
    """What ann has said, and what dot has said in its place."""
    old = await stated(memory, "ann", text="We sail at dawn.")
    return old, await memory.observations.update(old.id, **ADA, user_id="dot", text="We sail at noon.")


async def found(memory: Memory) -> set[str]:
    return {hit.observation.content for hit in (await memory.search("sail", **ADA, user_id="eve")).results}


@pytest.mark.parametrize("order", list(permutations(("leave", "forget", "join"))))
async def test_what_gave_way_to_what_goes_is_archived_whenever_its_author_leaves(
    memory: Memory, corrected: tuple[Observation, Observation], order: tuple[str, ...]
) -> None:
    """And whenever they come back, if they do after they left."""
    for step in order:
        if step == "leave":
            await leave(memory, "ann")
        elif step == "forget":
            await memory.forget(corrected[1].id, **ADA, wait=False)
        else:
            await memory.groups.add_member("crew", "ann", **ADA)
    assert await status(memory, "We sail at dawn.") == "archived"
    assert await found(memory) == {"We sail at dawn."}


async def test_what_gave_way_stays_so_beside_what_it_gave_way_to(
    memory: Memory, corrected: tuple[Observation, Observation]
) -> None:
    await leave(memory, "ann")
    old = await memory.observations.get(corrected[0].id, **ADA, user_id="eve")
    assert (old.status, old.superseded_by) == ("superseded", corrected[1].id)
    assert await found(memory) == {"We sail at noon."}
    events = "SELECT count(*) FROM memory.events WHERE kind = 'status'"
    told = await rows(memory, events)
    await memory.groups.remove_member("crew", "ann", **ADA)
    assert await rows(memory, events) == told


@pytest.mark.parametrize("order", [("leave", "forget"), ("forget", "leave")])
async def test_of_the_leavers_own_words_the_last_is_found_that_is_left(memory: Memory, order: tuple[str, str]) -> None:
    first = await stated(memory, "ann", text="We sail at dawn.")
    second = await memory.observations.update(first.id, **ADA, user_id="ann", text="We sail at noon.")
    third = await memory.observations.update(second.id, **ADA, user_id="ann", text="We sail at dusk.")
    for step in order:
        await (leave(memory, "ann") if step == "leave" else memory.forget(third.id, **ADA, wait=False))
    assert await found(memory) == {"We sail at noon."}
    assert await status(memory, "We sail at dawn.") == "superseded"
    await memory.forget(second.id, **ADA, wait=False)
    assert await found(memory) == {"We sail at dawn."}


@pytest.mark.parametrize("order", list(permutations(("leave", "leave too", "forget"))))
async def test_what_others_had_said_before_stands_once_it_gave_way_to_nobody(
    memory: Memory, order: tuple[str, ...]
) -> None:
    """Whoever leaves first of those who have said something since."""
    first = await stated(memory, "eve", text="We sail at dawn.")
    second = await memory.observations.update(first.id, **ADA, user_id="ann", text="We sail at noon.")
    third = await memory.observations.update(second.id, **ADA, user_id="dot", text="We sail at dusk.")
    fourth = await memory.observations.update(third.id, **ADA, user_id="eve", text="We sail at night.")
    for step in order:
        if step == "forget":
            await memory.forget(fourth.id, **ADA, wait=False)
        else:
            await leave(memory, "ann" if step == "leave" else "dot")
    assert await status(memory, "We sail at dawn.") == "active"
    assert await status(memory, "We sail at noon.") == "superseded"
    assert await status(memory, "We sail at dusk.") == "archived"
    assert await found(memory) == {"We sail at dawn.", "We sail at dusk."}


@pytest.mark.parametrize("order", [("leave", "quarantine"), ("quarantine", "leave")])
async def test_what_gave_way_to_what_is_quarantined_is_archived(
    memory: Memory, corrected: tuple[Observation, Observation], order: tuple[str, str]
) -> None:
    for step in order:
        if step == "leave":
            await leave(memory, "ann")
        else:
            await memory.observations.quarantine(corrected[1].id, **ADA, user_id="eve")
    assert await status(memory, "We sail at dawn.") == "archived"
    await memory.observations.unquarantine(corrected[1].id, **ADA, user_id="eve")
    assert await status(memory, "We sail at noon.") == "active"


@pytest.mark.parametrize("order", [("leave", "forget"), ("forget", "leave")])
async def test_what_gave_way_to_what_a_hold_keeps_is_archived(
    memory: Memory, corrected: tuple[Observation, Observation], order: tuple[str, str]
) -> None:
    hold = await memory.holds.place(**ADA, observation_id=corrected[1].id)
    for step in order:
        await (leave(memory, "ann") if step == "leave" else forget(memory, "dot"))
    assert await status(memory, "We sail at dawn.") == "archived"
    await memory.holds.release(hold.hold_id, **ADA)
    assert await status(memory, "We sail at dawn.") == "archived"
    assert await status(memory, "We sail at noon.") is None


@pytest.fixture
async def claim(database_url: str) -> AsyncIterator[tuple[Memory, str]]:
    """What was propagated to the crew of what ann has said of her own, and the id of that."""
    async with Memory(database_url, Teller(), SETTINGS, clock=WorldClock()) as opened:
        maker = Maker(opened, "ada")
        await maker.make([])
        await maker.state("ann", "own", ("printer", "grey", 0), False)
        await maker.tell()
        await maker.spread()
        assert await of_crew(opened) == "active"
        listed = await opened.observations.list(**ADA, user_id=id_of("ann"))
        (own,) = (one.id for one in listed if one.scope.kind == "individual")
        yield opened, own
        assert list(await opened.admin.verify()) == []


async def of_crew(memory: Memory) -> str:
    ((found,),) = await rows(
        memory,
        "SELECT coalesce(t.status, 'active') FROM memory.observations o JOIN memory.scopes s USING (agent_key, scope_id)"
        " LEFT JOIN memory.observation_states t USING (agent_key, scope_id, seq) WHERE s.owner = 'g:crew'",
    )
    return str(found)


@pytest.mark.parametrize("order", [("leave", "release"), ("release", "leave")])
async def test_what_was_made_of_something_quarantined_does_not_stand_again_for_who_has_left(
    claim: tuple[Memory, str], order: tuple[str, str]
) -> None:
    memory, own = claim
    ann: dict[str, Any] = {**ADA, "user_id": id_of("ann")}
    await memory.observations.quarantine(own, **ann)
    assert await of_crew(memory) == "quarantined"
    for step in order:
        await (leave(memory, id_of("ann")) if step == "leave" else memory.observations.unquarantine(own, **ann))
    assert await of_crew(memory) == "archived"


@pytest.mark.parametrize("order", [("leave", "forget"), ("forget", "leave")])
async def test_what_was_made_of_something_superseded_does_not_stand_again_for_who_has_left(
    claim: tuple[Memory, str], order: tuple[str, str]
) -> None:
    memory, own = claim
    newer = await memory.observations.update(own, **ADA, user_id=id_of("ann"), text="The printer in the hall is blue.")
    assert await of_crew(memory) == "superseded"
    for step in order:
        await (leave(memory, id_of("ann")) if step == "leave" else memory.forget(newer.id, **ADA, wait=False))
    assert await of_crew(memory) == "archived"


@pytest.mark.parametrize("order", [("leave", "release"), ("release", "leave")])
async def test_what_comes_back_behind_something_newer_is_archived_without_that(
    claim: tuple[Memory, str], order: tuple[str, str]
) -> None:
    """It follows its source, and gave way meanwhile to what ben has said."""
    memory, own = claim
    ann, ben = ({**ADA, "user_id": id_of(user)} for user in ("ann", "ben"))
    ((made,),) = await rows(
        memory,
        "SELECT format('o%s-%s', scope_id, seq) FROM memory.observations JOIN memory.scopes USING (agent_key, scope_id)"
        " WHERE owner = 'g:crew'",
    )
    newer = await memory.observe("The printer in the hall is blue.", **ben, group_id="crew")
    await memory.observations.supersede(made, newer.id, **ben)
    await memory.observations.quarantine(newer.id, **ben)
    await memory.observations.quarantine(own, **ann)
    await memory.observations.unquarantine(newer.id, **ben)
    for step in order:
        await (leave(memory, id_of("ann")) if step == "leave" else memory.observations.unquarantine(own, **ann))
    assert (await memory.observations.get(made, **ben)).status == "superseded"
    await memory.forget(newer.id, **ADA, wait=False)
    assert await of_crew(memory) == "archived"
