"""Forgetting a person: fifty words of theirs, planted wherever a person's words can end up, and a dump without any."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import pytest
from sqlalchemy import text as sql

from memory_sql.config import Settings
from memory_sql.domain.selection import Selection
from memory_sql.memory import Memory
from tests.database import TOLD, owners_url, rows
from tests.factories import message
from tests.fakes import Parrot
from tests.integration.test_forgetting import everything, tell
from tests.migrations.databases import dump

ADA: dict[str, Any] = {"agent_id": "ada"}
MIA: dict[str, Any] = {**ADA, "user_id": "mia"}
JONAS: dict[str, Any] = {**ADA, "user_id": "jonas"}
BEGINNINGS, ENDS = "Brill Croft Dwelm Flosk Grunt".split(), "ab ec id of ug al en ip os ut".split()
STEMS = [f"{beginning}{end}" for beginning in BEGINNINGS for end in ENDS]
PLANTED = [f"{stem}ing" for stem in STEMS]  # the language's parser keeps the stem


async def live(memory: Memory, planted: Sequence[str]) -> None:
    """Mia says fifty things, to herself, to the crew and to everybody; they are told, undone, searched, corrected."""
    openings = ("I like", "We own", "Tell everybody of", "Actually, I prefer", "We decided on")
    said = [f"{openings[n % 5]} {word}." for n, word in enumerate(planted[:30])]
    for n in range(0, 30, 10):
        talk = [message(text, n=i, name=planted[48]) for i, text in enumerate(said[n : n + 10])]
        talk.append(message(f"So {planted[n]} it is.", n=99, role="assistant"))
        await memory.add(talk, **MIA, conversation_id=f"s{n}", group_ids=["crew"])
        await memory.conversations.form(**ADA, conversation_id=f"s{n}")
        await tell(memory)
    await rows(memory, "UPDATE memory.messages SET search_extra = content")
    for word in planted[30:40]:
        await memory.observe(f"Mia keeps {word}.", **MIA, tags=[word], metadata={word: word}, speaker=word)
    await tell(memory)
    first = (await memory.observations.list(**MIA))[0]
    await memory.observations.update(
        first.id, **MIA, text=f"Mia keeps {planted[40]}.", reason=f"she said {planted[41]}"
    )
    await memory.observations.dispute((await memory.observations.list(**MIA))[1].id, **MIA, reason=planted[42])
    await memory.scopes.undo(**ADA, scope_id=first.scope.id)
    await memory.search(" ".join(planted[:10]), **MIA)
    await memory.context(**MIA, message=f"What did I say about {planted[0]}?")
    await memory.add(
        [message(f"I lost {word}.", n=n) for n, word in enumerate(planted[43:48])], **MIA, conversation_id="left"
    )
    await memory.observe(f"Somebody keeps {planted[49]}.", **ADA, collective=True)
    await rows(
        memory,
        "INSERT INTO memory.lineage (agent_key, scope_id, seq, source_scope_id, source_seq)"
        " SELECT o.agent_key, o.scope_id, o.seq, :scope, :seq FROM memory.observations o WHERE content LIKE 'Somebody%'",
        scope=first.scope.key,
        seq=int(first.id.partition("-")[2]),
    )


async def test_nothing_of_a_forgotten_person_is_in_the_database_or_the_logs(
    database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with Memory(database_url, Parrot(), Settings(llm="offline", consolidation_threshold=2)) as memory:
        await memory.add([message("I sail a sloop.")], **JONAS, conversation_id="t")
        await memory.conversations.form(**ADA, conversation_id="t")
        await tell(memory)
        theirs = f"SELECT content, version, epoch FROM {TOLD} WHERE owner = 'u:jonas'"  # noqa: S608
        before = await rows(memory, theirs)
        await live(memory, PLANTED)
        filled = (await everything(memory)).casefold()
        assert [word for word in PLANTED if word.casefold() not in filled] == []

        await memory.forget(Selection(user_id="mia"), **ADA)

        async with memory.database.statement() as session:
            await session.execute(sql("ANALYZE"))
        statistics = str(await rows(memory, "SELECT s::text FROM pg_stats s WHERE schemaname = 'memory'"))
        exported = "\n".join([line.model_dump_json() async for line in memory.people.export(**MIA)])
        left = (
            await everything(memory)
            + dump(owners_url(database_url), "--data-only")
            + statistics
            + exported
            + caplog.text
        ).casefold()
        assert [stem for stem in STEMS if stem.casefold() in left] == []
        assert await rows(memory, theirs) == before
        assert list(await memory.admin.verify()) == []
