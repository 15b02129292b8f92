"""This library, filled and asked through its public face: one agent, one user per conversation."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from itertools import groupby
from typing import Any

from benchmarks.recall.data import Question, Turn
from benchmarks.recall.systems import DEPTH, Ask, Corpus
from benchmarks.server import analyze, fresh_database
from memory_sql.config import Settings
from memory_sql.domain.reading import SearchResult
from memory_sql.llm.offline import Offline
from memory_sql.memory import Memory

AGENT = "bench"

Store = Callable[[Memory, Sequence[Turn]], Coroutine[Any, Any, None]]


@asynccontextmanager
async def observed(corpus: Corpus, server: str) -> AsyncIterator[Ask]:
    """Every turn is an observation; the arm of observations answers."""
    async with _filled(corpus, server, observe_turns) as memory:

        async def ask(question: Question) -> list[str]:
            found = await _search(memory, question)
            return [hit.observation.metadata["turn"] for hit in found.results]

        yield ask


@asynccontextmanager
async def added(corpus: Corpus, server: str) -> AsyncIterator[Ask]:
    """Every turn is a message that no model has read; the arm of messages answers."""
    async with _filled(corpus, server, add_turns) as memory:

        async def ask(question: Question) -> list[str]:
            found = await _search(memory, question)
            return [hit.message.id for hit in found.messages]

        yield ask


async def _search(memory: Memory, question: Question) -> SearchResult:
    return await memory.search(question.text, agent_id=AGENT, user_id=question.conversation, top_k=DEPTH)


@asynccontextmanager
async def _filled(corpus: Corpus, server: str, store: Store) -> AsyncIterator[Memory]:
    """Conversations are stored side by side, each in its order."""
    async with fresh_database(server) as url, Memory(url, Offline(), Settings(llm="offline")) as memory:
        async with asyncio.TaskGroup() as group:
            for turns in corpus.by_conversation().values():
                group.create_task(store(memory, turns))
        await analyze(url)
        yield memory


async def observe_turns(memory: Memory, turns: Sequence[Turn]) -> None:
    for turn in turns:
        await memory.observe(
            turn.content,
            agent_id=AGENT,
            user_id=turn.conversation,
            observed_at=turn.said_at,
            conversation_id=turn.session,
            speaker=turn.speaker,
            metadata={"turn": turn.id},
        )


async def add_turns(memory: Memory, turns: Sequence[Turn]) -> None:
    for session, said in groupby(turns, key=lambda turn: turn.session):
        messages = [
            {
                "id": turn.id,
                "role": turn.role,
                "name": turn.speaker,
                "content": turn.content,
                "created_at": turn.said_at,
            }
            for turn in said
        ]
        await memory.add(messages, agent_id=AGENT, user_id=turns[0].conversation, conversation_id=session)
