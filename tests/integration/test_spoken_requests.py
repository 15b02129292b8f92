"""What people ask memory itself while they talk: forgotten or corrected at once, in a way that can be taken back."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import pytest

from memory_sql.config import Settings
from memory_sql.domain.results import FormResult
from memory_sql.formation.requests import MeantTask
from memory_sql.llm import Request
from memory_sql.memory import Memory
from tests.database import rows
from tests.factories import MONDAY
from tests.fakes import Scripted, by_scope

ADA: dict[str, Any] = {"agent_id": "ada"}
MIA: dict[str, Any] = {**ADA, "user_id": "mia"}
TEA = "please forget that I prefer green tea"
FORGET_TEA = {"kind": "forget", "what": "Mia prefers green tea", "sources": [1]}

STORED = (
    "SELECT o.agent_key, o.scope_id, o.seq, o.content, o.tags, o.standing, coalesce(t.status, 'active'), t.superseded_by,"
    " coalesce(t.follows, false), coalesce(t.verification, 'unverified') FROM memory.observations o"
    " LEFT JOIN memory.observation_states t USING (agent_key, scope_id, seq) ORDER BY 1, 2, 3"
)


def asking(*requests: dict[str, Any], items: Sequence[tuple[Any, ...]] = ()) -> Any:
    """The answer to an extraction: these requests, and these observations."""

    def answer(request: Request[Any]) -> str:
        lists = json.loads(by_scope(request.output.offered, *items))
        return json.dumps({**lists, "requests": list(requests)})

    return answer


def meaning(*texts: str) -> Any:
    """The answer to which memories are meant: those with these texts, by each request that was shown them."""

    def answer(request: Request[Any]) -> str:
        task = request.material
        assert isinstance(task, MeantTask)
        named = [
            {"request": f"R{n}", "memories": [one.handle for one in choice.candidates if one.text in texts]}
            for n, choice in enumerate(task.choices, 1)
        ]
        return json.dumps({"meant": named})

    return answer


async def say(memory: Memory, *texts: str, conversation_id: str = "talk", user_id: str = "mia", **more: Any) -> None:
    said = [{"role": "user", "content": text} for text in texts]
    await memory.add(said, **ADA, user_id=user_id, conversation_id=conversation_id, **more)


async def form(memory: Memory, conversation_id: str = "talk") -> FormResult:
    return await memory.conversations.form(**ADA, conversation_id=conversation_id)


async def test_what_is_asked_to_be_forgotten_is_hidden_at_once(memory: Memory, llm: Scripted) -> None:
    await say(memory, "I prefer green tea.", conversation_id="before")
    llm.then(asking(items=[("Mia prefers green tea.", "individual")]))
    (tea,) = (await form(memory, "before")).observations
    dog = await memory.observe("Mia has a dog called Bo.", **MIA)
    before = await rows(memory, STORED)
    await say(memory, TEA)
    llm.then(asking(FORGET_TEA), meaning("Mia prefers green tea."))
    formed = await form(memory)
    assert (formed.hidden, formed.observations) == ((tea.id,), ())
    found = await memory.search("green tea", **MIA, messages=10)
    assert (found.results, found.messages) == ((), ())
    assert "tea" not in str(await memory.context(message="Which do I prefer?", **MIA, conversation_id="later"))
    assert [one.id for one in await memory.observations.list(**MIA)] == [dog.id]
    (review,) = await memory.work.reviews(**ADA)
    assert (review.kind, review.why, review.says) == ("request", "asked_to_forget", "Mia prefers green tea")
    assert await rows(memory, "SELECT content FROM memory.messages WHERE conversation_id = 'talk'") == [(None,)]
    assert await memory.admin.verify() == []
    await memory.work.decide(review.id, **ADA, accept=False)
    assert await rows(memory, STORED) == before
    assert await memory.admin.verify() == []
