"""Sixty sentences in ten languages, of which twenty ask memory to forget or correct: these are honoured, and no others.

Through the real client. An honest model answers (`requests_answers.toml`), then the rules alone.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from memory_sql.config import Settings
from memory_sql.domain.results import FormResult
from memory_sql.llm.offline import Offline
from memory_sql.memory import Memory
from tests import honest
from tests.database import rows
from tests.honest import Clock, Table
from tests.loopback import Received

HERE = Path(__file__).parent
SENTENCES, ANSWERS, BEHIND = (
    tomllib.loads((HERE / f"{name}.toml").read_text("utf-8"))
    for name in ("requests", "requests_answers", "requests_behind")
)
CASES = [
    {"of": of, **case, **answer}
    for of, cases in SENTENCES.items()
    for case, answer in zip(cases, ANSWERS[of], strict=True)
]
BEFORE, SAID = datetime(2026, 1, 5, 9, tzinfo=UTC), datetime(2026, 3, 4, 9, tzinfo=UTC)
ADA: dict[str, Any] = {"agent_id": "ada"}
KNOWN = ["Mia likes quiet hotels.", "Mia has an old address book."]
STATUS = (
    "SELECT s.owner, o.content, coalesce(t.status, 'active') FROM memory.observations o"
    " JOIN memory.scopes s USING (agent_key, scope_id)"
    " LEFT JOIN memory.observation_states t USING (agent_key, scope_id, seq) WHERE o.observed_at < :said ORDER BY 1, 2"
)


@pytest.fixture
async def laid(database_url: str) -> AsyncIterator[Table]:
    async with honest.table(database_url) as laid:
        yield laid


def parameters(*of: str) -> list[Any]:
    return [pytest.param(case, id=case["says"][:40]) for case in CASES if case["of"] in of]


async def played(memory: Memory, case: dict[str, Any], clock: Clock) -> tuple[FormResult, list[Any]]:
    """What came of the sentence, and all that was known before; Jonas is known for the same as Mia."""
    known = case.get("knows", KNOWN)
    for user in ("mia", "jonas"):
        for text in known:
            await memory.observe(text, **ADA, user_id=user, observed_at=BEFORE, speaker=user.capitalize())
    before = await rows(memory, STATUS, said=SAID)
    clock.now = SAID
    said = {"role": "user", "name": "Mia", "content": case["says"], "created_at": SAID}
    await memory.add([said], **ADA, user_id="mia", conversation_id="talk")
    return await memory.conversations.form(**ADA, conversation_id="talk"), before


def answered(case: dict[str, Any], received: Received) -> dict[str, Any]:
    assert received.schema is not None
    if "meant" in received.schema["properties"]:
        lines = [json.loads(line) for line in received.prompt.splitlines() if line.startswith('{"')]
        meant = {case["knows"][n] for n in case["meant"]}
        named = [line["memory"] for line in lines if line.get("text") in meant]
        return {"meant": [{"request": "R1", "memories": named}]}
    told = [{"content": text, "sources": [1], "about": ["P1"], "terms": []} for text in case.get("told", ())]
    asked = [{"kind": case["kind"], "what": case["what"], "sources": [1]}] if case["of"] == "asks" else []
    return {**{name: [] for name in received.schema["properties"]}, "individual": told, "requests": asked}


@pytest.mark.slow
@pytest.mark.parametrize("case", parameters("asks"))
async def test_what_is_asked_is_honoured_and_can_be_taken_back(laid: Table, case: dict[str, Any]) -> None:
    memory = laid.memory
    laid.write = lambda received: answered(case, received)
    formed, before = await played(memory, case, laid.clock)
    meant = {case["knows"][n] for n in case["meant"]}
    changed = {"forget": "quarantined", "correct": "superseded"}[case["kind"]]
    after = [(owner, text, changed if owner == "u:mia" and text in meant else status) for owner, text, status in before]
    assert await rows(memory, STATUS, said=SAID) == after
    kept = [one.content for one in formed.observations]
    assert kept == case.get("told", [])
    assert all(any(word in text for text in kept) for word in case.get("keeps", ()))
    assert len(laid.server.requests) == 2
    for review in await memory.work.reviews(**ADA):
        assert review.kind == "request"
        assert review.why == "asked_to_forget" or (review.why, case.get("more")) == ("says_more", True)
        await memory.work.decide(review.id, **ADA, accept=False)
    for one, status in await rows(
        memory, "SELECT 'o' || scope_id || '-' || seq, status FROM memory.observation_states"
    ):
        if status == "superseded":
            await memory.observations.reinstate(one, **ADA, user_id="mia")
    assert await rows(memory, STATUS, said=SAID) == before
    assert await memory.admin.verify() == []


@pytest.mark.parametrize("case", parameters("looks", "talk"))
async def test_what_only_looks_like_it_changes_nothing(laid: Table, case: dict[str, Any]) -> None:
    laid.write = lambda received: answered(case, received)
    formed, before = await played(laid.memory, case, laid.clock)
    assert await rows(laid.memory, STATUS, said=SAID) == before
    assert [one.content for one in formed.observations] == case.get("told", [])
    assert await laid.memory.work.reviews(**ADA) == []
    assert await rows(laid.memory, "SELECT content FROM memory.messages") == [(case["says"],)]


@pytest.mark.slow
async def test_rules_alone_hide_nothing_that_nobody_asked_for(database_url: str) -> None:
    clock = Clock()
    async with Memory(database_url, Offline(), Settings(), clock=clock) as memory:
        for n, case in enumerate(case for case in CASES if case["of"] != "asks"):
            here: dict[str, Any] = {"agent_id": f"agent-{n}"}
            for text in KNOWN:
                await memory.observe(text, **here, user_id="mia", observed_at=BEFORE)
            said = {"role": "user", "name": "Mia", "content": case["says"], "created_at": SAID}
            await memory.add([said], **here, user_id="mia", conversation_id="talk")
            formed = await memory.conversations.form(**here, conversation_id="talk")
            assert (formed.hidden, formed.superseded) == ((), 0)
            assert await memory.work.reviews(**here) == []


@pytest.mark.slow
async def test_rules_hide_what_is_asked_behind_another_clause_and_nothing_else(database_url: str) -> None:
    async with Memory(database_url, Offline(), Settings()) as memory:
        for n, case in enumerate([*BEHIND["asks"], *BEHIND["looks"]]):
            here: dict[str, Any] = {"agent_id": f"agent-{n}", "user_id": "mia"}
            known = await memory.observe(f"Mia: {case.get('what', case['says'])}.", **here)
            await memory.observe("Mia has a dog called Bo.", **here)
            await memory.add([{"role": "user", "content": case["says"]}], **here, conversation_id="talk")
            formed = await memory.conversations.form(agent_id=here["agent_id"], conversation_id="talk")
            assert formed.hidden == ((known.id,) if "what" in case else ()), case["says"]
