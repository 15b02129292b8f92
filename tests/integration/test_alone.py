"""One observation forgotten or corrected by a single statement: as by several, and only where nothing else hangs on it.

In a host's transaction it is always several. So each case is lived by two agents, and what is left of both is compared.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from sqlalchemy import text as sql
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker

from memory_sql.config import Settings
from memory_sql.db.models import Base
from memory_sql.domain.observations import Observation
from memory_sql.errors import InputError, NotFoundError, VersionError
from memory_sql.memory import Memory
from tests.database import are_waiting, rows, serving, statements
from tests.factories import MONDAY, message
from tests.fakes import Parrot

AGENTS = ("ada", "bea")
MIA: dict[str, Any] = {"agent_id": "ada", "user_id": "mia"}
NEW = "The dock opens at eight."
SETTINGS = Settings(llm="offline", consolidation_threshold=2, lock_timeout_seconds=60)
KEYS = {"agent_key", "evidence_id", "event_id", "run_id", "content_hash", "user_hash", "ref_hash", "hold_id"}
TABLES = [table.name for table in Base.metadata.sorted_tables if "agent_key" in table.c and table.name != "agents"]
Life = Callable[[Memory, dict[str, Any]], Awaitable[Observation]]
Act = Callable[[Memory, str, dict[str, Any], AsyncSession | None], Awaitable[Any]]


@pytest.fixture
async def memory(database_url: str) -> AsyncIterator[Memory]:
    async with Memory(database_url, Parrot(), SETTINGS, clock=lambda: MONDAY) as opened:
        yield opened
        assert list(await opened.admin.verify()) == []


# What may have happened before, and which observation it is about


async def stated(memory: Memory, who: dict[str, Any]) -> Observation:
    await memory.observe("The boat is blue.", **who)
    return await memory.observe("The dock opens at nine.", **who, tags=["dock"], metadata={"at": 9}, importance=0.3)


async def formed(memory: Memory, who: dict[str, Any]) -> Observation:
    said = [message("I own a ruby.", n=1), message("I own an opal.", n=2)]
    await memory.add(said, **who, conversation_id="s")
    await memory.conversations.form(agent_id=who["agent_id"], conversation_id="s")
    return (await memory.observations.list(**who))[0]


async def formed_twice(memory: Memory, who: dict[str, Any]) -> Observation:
    """Each from a message of its own, and one that both were made of."""
    await formed(memory, who)
    await rows(
        memory,
        "INSERT INTO memory.evidence (agent_key, scope_id, seq, conversation_id, number, user_id)"
        " SELECT agent_key, scope_id, 3 - seq, conversation_id, number, user_id FROM memory.evidence"
        " JOIN memory.agents USING (agent_key) WHERE agent_id = :agent_id",
        agent_id=who["agent_id"],
    )
    return (await memory.observations.list(**who))[0]


async def confirmed(memory: Memory, who: dict[str, Any]) -> Observation:
    one = await stated(memory, who)
    await memory.observations.confirm(one.id, **who)
    return one


async def corrected(memory: Memory, who: dict[str, Any]) -> Observation:
    one = await stated(memory, who)
    await memory.observations.update(one.id, **who, text="The dock opens at ten.")
    return one


async def correction(memory: Memory, who: dict[str, Any]) -> Observation:
    one = await stated(memory, who)
    return await memory.observations.update(one.id, **who, text="The dock opens at ten.")


async def absorbed(memory: Memory, who: dict[str, Any]) -> Observation:
    one = await stated(memory, who)
    await memory.scopes.consolidate(agent_id=who["agent_id"], scope_id=one.scope.id)
    return one


async def beside_a_text(memory: Memory, who: dict[str, Any]) -> Observation:
    await absorbed(memory, who)
    return await memory.observe("The ferry leaves at noon.", **who)


async def in_an_undone_text(memory: Memory, who: dict[str, Any]) -> Observation:
    one = await absorbed(memory, who)
    await memory.scopes.undo(agent_id=who["agent_id"], scope_id=one.scope.id)
    return one


async def _of_the_crew(memory: Memory, who: dict[str, Any]) -> Observation:
    one = await memory.observe("The crew knows the dock.", agent_id=who["agent_id"], user_id="tom", group_id="crew")
    await memory.groups.add_member("crew", who["user_id"], agent_id=who["agent_id"])
    return one


async def _spread(memory: Memory, who: dict[str, Any], *, whole: bool) -> tuple[Observation, Observation]:
    one, beside = await stated(memory, who), await _of_the_crew(memory, who)
    await rows(
        memory,
        "INSERT INTO memory.lineage (agent_key, scope_id, seq, source_scope_id, source_seq, whole)"
        " SELECT agent_key, :scope_id, 1, :source, 2, :whole FROM memory.agents WHERE agent_id = :agent_id",
        **{"scope_id": beside.scope.key, "source": one.scope.key, "whole": whole, "agent_id": who["agent_id"]},
    )
    return one, beside


async def source(memory: Memory, who: dict[str, Any]) -> Observation:
    return (await _spread(memory, who, whole=True))[0]


async def merged(memory: Memory, who: dict[str, Any]) -> Observation:
    return (await _spread(memory, who, whole=False))[0]


async def made_of_another(memory: Memory, who: dict[str, Any]) -> Observation:
    return (await _spread(memory, who, whole=True))[1]


async def known_from_elsewhere(memory: Memory, who: dict[str, Any]) -> Observation:
    """Of something else it was judged that this is known already."""
    one, beside = await stated(memory, who), await _of_the_crew(memory, who)
    await rows(
        memory,
        "INSERT INTO memory.judged (agent_key, source_scope_id, source_seq, target_scope_id, outcome, reason, seq)"
        " SELECT agent_key, :source, 2, :target, 'propagated', 'known', 1 FROM memory.agents WHERE agent_id = :agent_id",
        **{"source": one.scope.key, "target": beside.scope.key, "agent_id": who["agent_id"]},
    )
    return beside


async def held(memory: Memory, who: dict[str, Any]) -> Observation:
    one = await stated(memory, who)
    await memory.holds.place(agent_id=who["agent_id"], observation_id=one.id)
    return one


async def held_beside(memory: Memory, who: dict[str, Any]) -> Observation:
    one = await stated(memory, who)
    await memory.holds.place(agent_id=who["agent_id"], user_id="somebody")
    return one


LIVES = [
    *(stated, formed, formed_twice, confirmed, corrected, correction, absorbed, beside_a_text, in_an_undone_text),
    *(source, merged, made_of_another, known_from_elsewhere, held, held_beside),
]
ALONE = {stated, formed, formed_twice, confirmed, corrected, beside_a_text, in_an_undone_text, held_beside}
each_life = pytest.mark.parametrize("life", LIVES, ids=lambda life: life.__name__)


# What is left


def _plain(text: str, scopes: dict[str, str]) -> str:
    """With the owners of scopes instead of their keys."""
    return re.sub(r'("o|scope_id": )(\d+)\b', lambda found: found[1] + scopes.get(found[2], found[2]), text)


def _value(name: str, value: Any) -> Any:
    if name == "detail":
        return {key: item for key, item in value.items() if key not in ("id", "hold_id")}
    return value is not None if name.endswith(("_at", "withdrawn_by")) else value


async def left(memory: Memory, agent_id: str) -> dict[str, list[str]]:
    keys = await rows(
        memory,
        "SELECT scope_id, owner FROM memory.scopes JOIN memory.agents USING (agent_key) WHERE agent_id = :agent_id",
        agent_id=agent_id,
    )
    scopes, found = {str(key): f"<{owner}>" for key, owner in keys}, dict[str, list[str]]()
    for table in TABLES:
        told = await rows(
            memory,
            f"SELECT to_jsonb(t) FROM memory.{table} t JOIN memory.agents USING (agent_key) WHERE agent_id = :agent_id",  # noqa: S608
            agent_id=agent_id,
        )
        rest = ({name: _value(name, value) for name, value in row.items() if name not in KEYS} for (row,) in told)
        found[table] = sorted(_plain(json.dumps(row, sort_keys=True), scopes) for row in rest)
    return found


async def both(memory: Memory, life: Life, act: Act) -> tuple[list[Any], list[dict[str, list[str]]], int]:
    """What the act returned or raised, for each agent, what was left, and how many statements the first one took."""
    done, lefts, sent = list[Any](), list[dict[str, list[str]]](), 0
    for agent_id in AGENTS:
        who = {"agent_id": agent_id, "user_id": "mia"}
        one = await life(memory, who)
        try:
            if agent_id == AGENTS[0]:
                with statements(memory) as seen:
                    done.append(await act(memory, one.id, who, None))
                sent = len(seen)
            else:
                async with async_sessionmaker(memory.database.engine)() as session:
                    done.append(await act(memory, one.id, who, session))
                    await session.commit()
        except (InputError, NotFoundError, VersionError) as error:
            done.append(error)
        lefts.append(await left(memory, agent_id))
    return done, lefts, sent


def told(value: Any) -> Any:
    """Without ids of its own."""
    if isinstance(value, Exception):
        return type(value), re.sub(r"\d+", "", str(value))
    return json.loads(re.sub(r'"([os])\d+', r'"\1', value.model_dump_json(exclude={"id", "scope"})))


@each_life
async def test_it_is_forgotten_as_by_several_statements(memory: Memory, life: Life) -> None:
    async def forget(memory: Memory, one: str, who: dict[str, Any], session: AsyncSession | None) -> Any:
        return await memory.forget(one, agent_id=who["agent_id"], wait=False, reason="asked", session=session)

    done, lefts, sent = await both(memory, life, forget)
    assert told(done[0]) == told(done[1])
    assert lefts[0] == lefts[1]
    assert (sent == 1) == (life in ALONE)


async def set_aside(memory: Memory, who: dict[str, Any]) -> Observation:
    """What is said now was quarantined."""
    aside = await memory.observe(NEW, **who)
    await memory.observations.quarantine(aside.id, **who)
    return await stated(memory, who)


async def said_last(memory: Memory, who: dict[str, Any]) -> Observation:
    one = await stated(memory, who)
    await memory.observe(NEW, **who)
    return one


async def said_before(memory: Memory, who: dict[str, Any]) -> Observation:
    await memory.observe(NEW, **who)
    return await stated(memory, who)


# Where a correction has more to do, or is refused:
LINKED = {corrected, absorbed, source, merged, made_of_another, set_aside, said_last}


@pytest.mark.parametrize(
    ("life", "text"),
    [
        *((life, NEW) for life in [*LIVES, set_aside, said_last, said_before]),
        *(
            (stated, text)
            for text in ("The dock opens at nine.", "Write to mia@example.org, IBAN DE89370400440532013000.")
        ),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
async def test_it_is_corrected_as_by_several_statements(memory: Memory, life: Life, text: str) -> None:
    async def update(memory: Memory, one: str, who: dict[str, Any], session: AsyncSession | None) -> Any:
        return await memory.observations.update(
            one, **who, text=text, tags=["dock", "new"], actor="desk", session=session
        )

    done, lefts, sent = await both(memory, life, update)
    assert told(done[0]) == told(done[1])
    assert lefts[0] == lefts[1]
    assert (sent == 1) == (text == NEW and life not in LINKED)


# What changes while the lock is waited for


async def waiting(memory: Memory, change: Callable[[AsyncSession], Awaitable[object]], act: Awaitable[Any]) -> Any:
    """What the act returns that had to wait for the host's change."""
    async with serving(memory) as session:
        await change(session)
        acting = asyncio.ensure_future(act)
        await are_waiting(memory, 1)
    return await acting


async def test_hold_that_was_being_placed_keeps_what_nothing_hangs_on(memory: Memory) -> None:
    one = (await stated(memory, MIA)).id
    receipt = await waiting(
        memory,
        lambda session: memory.holds.place(agent_id="ada", user_id="mia", session=session),
        memory.forget(one, agent_id="ada"),
    )
    assert (receipt.withdrawn, receipt.observations) == ((one,), ())


async def test_what_is_made_private_meanwhile_is_corrected_as_private(memory: Memory) -> None:
    one = (await stated(memory, MIA)).id
    corrected = await waiting(
        memory,
        lambda session: memory.observations.mark(one, **MIA, private=True, sensitivity="sensitive", session=session),
        memory.observations.update(one, **MIA, text=NEW),
    )
    assert (corrected.no_propagate, corrected.confidential, corrected.sensitivity) == (True, True, "sensitive")


async def test_what_is_corrected_or_forgotten_meanwhile_is_not_corrected_again(memory: Memory) -> None:
    one = (await stated(memory, MIA)).id
    with pytest.raises(VersionError):
        await waiting(
            memory,
            lambda session: memory.observations.update(one, **MIA, text="It is shut.", session=session),
            memory.observations.update(one, **MIA, text=NEW),
        )
    other = (await memory.observe("The ferry leaves at noon.", **MIA)).id
    with pytest.raises(NotFoundError):
        await waiting(
            memory,
            lambda session: memory.forget(other, agent_id="ada", session=session),
            memory.observations.update(other, **MIA, text=NEW),
        )


async def test_message_that_something_else_is_made_of_meanwhile_is_looked_at_again(memory: Memory) -> None:
    """Another comes to rest on the same message, in another scope, while the forgetting waits for the conversation."""
    one = (await formed(memory, MIA)).id
    crew = await memory.observe("The crew owns an opal.", agent_id="ada", user_id="tom", group_id="crew")

    async def rest(session: AsyncSession) -> None:
        await session.execute(sql("SELECT 1 FROM memory.conversations FOR UPDATE"))
        await session.execute(
            sql(
                "INSERT INTO memory.evidence (agent_key, scope_id, seq, conversation_id, number, user_id)"
                " SELECT agent_key, :scope_id, 1, conversation_id, number, 'mia' FROM memory.evidence"
                " WHERE (scope_id, seq) = (:own, :seq)"
            ),
            {"scope_id": crew.scope.key, "own": int(one[1:].split("-")[0]), "seq": int(one.split("-")[1])},
        )

    receipt = await waiting(memory, rest, memory.forget(one, agent_id="ada", wait=False))
    assert receipt.observations == (one,)
    assert [kept.observation for kept in receipt.kept] == [crew.id]
