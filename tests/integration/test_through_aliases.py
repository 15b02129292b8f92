"""Who is in a group through another id: what was formed, propagated or enrolled through it goes when it does."""

from __future__ import annotations

from collections.abc import AsyncIterator
from itertools import product
from typing import Any

import pytest

from memory_sql.domain.selection import Selection
from memory_sql.memory import Memory
from tests.database import rows
from tests.prove.worlds import SETTINGS, Clock, Teller
from tests.sizes import few_in_every_run

ADA: dict[str, Any] = {"agent_id": "ada"}
CREW: dict[str, Any] = {**ADA, "group_id": "crew"}
SECRET, WORDS = "The vault in the hall is blue.", "The printer in the hall is grey."
SPEAKERS = ("never a member", "left", "left and kept", "forgotten")
ENDINGS = ("unmerge", "forget", "remove")
WAYS = ("conversation", "call", "private", "observe")


@pytest.fixture
async def memory(database_url: str) -> AsyncIterator[Memory]:
    async with Memory(database_url, Teller(), SETTINGS, clock=Clock()) as opened:
        yield opened
        assert list(await opened.admin.verify()) == []


async def add(memory: Memory, user: str, talk: str, text: str, *groups: str) -> None:
    ((number,),) = await rows(memory, "SELECT count(*) + 1 FROM memory.messages")
    message = {"id": f"m{number}", "role": "user", "content": text, "user_id": user}
    await memory.add([message], **ADA, user_id=user, conversation_id=talk, group_ids=groups)
    await memory.conversations.form(**ADA, conversation_id=talk)


async def begun(memory: Memory, speaker: str) -> None:
    """The crew is eve, dot and vis, who stands for ann; nobody else stands for anybody."""
    await memory.groups.create("crew", **ADA)
    for user in ("eve", "dot", "vis"):
        await memory.groups.add_member("crew", user, **ADA)
    if speaker != "never a member":
        await memory.groups.add_member("crew", "ann", **ADA)
        await add(memory, "ann", "before", "The freezer in the hall is grey.", "crew")
        await memory.groups.remove_member("crew", "ann", **ADA, keep=speaker == "left and kept")
    if speaker == "forgotten":
        await memory.forget(Selection(user_id="ann"), **ADA)
    await memory.people.merge(**ADA, user_id="vis", into_user_id="ann")
    await add(memory, "eve", "talk", SECRET, "crew")


async def speak(memory: Memory, way: str) -> None:
    match way:
        case "conversation":
            await add(memory, "ann", "talk", WORDS)
        case "call":
            await add(memory, "ann", "talk", WORDS, "crew")
        case "private":
            await add(memory, "ann", "own", f"For me: {WORDS}")
        case _:
            await memory.observe(WORDS, **ADA, user_id="ann", group_id="crew")
    for (scope,) in await rows(memory, "SELECT scope_id FROM memory.scopes ORDER BY 1"):
        await memory.scopes.consolidate(**ADA, scope_id=f"s{scope}")
    await memory.scopes.propagate(**ADA)
    assert WORDS in await known(memory, "eve")


async def known(memory: Memory, user: str) -> list[str]:
    """What the crew knows that this user sees."""
    listed = await memory.observations.list(**ADA, user_id=user)
    crew = {scope.ref.id for scope in await memory.scopes.list(**ADA, user_id=user) if scope.ref.kind == "group"}
    return [one.content for one in listed if one.scope.id in crew]


async def end(memory: Memory, ending: str) -> None:
    match ending:
        case "unmerge":
            await memory.people.unmerge(**ADA, user_id="vis")
        case "forget":
            await memory.forget(Selection(user_id="vis"), **ADA, wait=False)
        case _:
            await memory.groups.remove_member("crew", "vis", **ADA)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("speaker", "ending", "way"),
    few_in_every_run(
        [*product(SPEAKERS, ENDINGS, WAYS)],
        [
            ("never a member", "unmerge", "conversation"),
            ("never a member", "forget", "private"),
            ("left", "remove", "call"),
            ("forgotten", "unmerge", "call"),
        ],
    ),
)
async def test_what_came_through_another_id_goes_when_that_does(
    memory: Memory, speaker: str, ending: str, way: str
) -> None:
    await begun(memory, speaker)
    await speak(memory, way)
    joins = (speaker, way) == ("never a member", "call")  # the host has named the group in the call: she joined herself
    await end(memory, ending)
    assert list(await memory.admin.verify()) == []
    assert (await known(memory, "ann") != []) is joins
    left = {"The freezer in the hall is grey."} if speaker == "left and kept" else set[str]()
    assert {*await known(memory, "eve")} == {SECRET, *left} | ({WORDS} if joins else set())
    context = str(await memory.context(**ADA, user_id="eve"))
    assert (WORDS in context) is joins
    if speaker != "never a member":  # nothing that she says lets her in
        await add(memory, "ann", "talk", "The router in the hall is grey.", "crew")
        assert await known(memory, "ann") == []
        assert "The router in the hall is grey." not in await known(memory, "eve")


async def test_who_comes_back_by_add_member_speaks_again(memory: Memory) -> None:
    await begun(memory, "left")
    await speak(memory, "conversation")
    await end(memory, "unmerge")
    await memory.groups.add_member("crew", "ann", **ADA)
    await add(memory, "ann", "talk", "The router in the hall is grey.", "crew")
    assert "The router in the hall is grey." in await known(memory, "eve")
    assert SECRET in await known(memory, "ann")
