"""This library, filled and queried through its public API: one agent, one user for each conversation."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from importlib import import_module
from itertools import groupby
from typing import Any

from benchmarks.recall.data import Question, Turn
from benchmarks.recall.systems import DEPTH, Ask, Corpus
from benchmarks.server import analyze, fresh_database
from memory_sql.config import Settings
from memory_sql.domain.reading import SearchResult
from memory_sql.llm.embeddings import ENCODER
from memory_sql.llm.offline import Offline
from memory_sql.memory import Memory

AGENT = "bench"

Store = Callable[[Memory, Sequence[Turn]], Coroutine[Any, Any, None]]


WORDS = Settings(llm="offline", embedding="off")


def observed(corpus: Corpus, server: str) -> AbstractAsyncContextManager[Ask]:
    """Every turn is an observation. Answered by the search for observations."""
    return _observed(corpus, server, WORDS)


def by_meaning(corpus: Corpus, server: str) -> AbstractAsyncContextManager[Ask]:
    """The same with the vectors of the local model. Raises `ModuleNotFoundError` if it isn't installed."""
    import_module(ENCODER)
    return _observed(corpus, server, Settings(llm="offline", embedding="local"))


@asynccontextmanager
async def _observed(corpus: Corpus, server: str, settings: Settings) -> AsyncIterator[Ask]:
    async with _filled(corpus, server, observe_turns, settings) as memory:

        async def ask(question: Question) -> list[str]:
            found = await _search(memory, question)
            return [hit.observation.metadata["turn"] for hit in found.results]

        yield ask


@asynccontextmanager
async def added(corpus: Corpus, server: str) -> AsyncIterator[Ask]:
    """Every turn is a message that no model has read. Answered by the search for messages."""
    async with _filled(corpus, server, add_turns, WORDS) as memory:

        async def ask(question: Question) -> list[str]:
            found = await _search(memory, question)
            return [hit.message.id for hit in found.messages]

        yield ask


async def _search(memory: Memory, question: Question) -> SearchResult:
    return await memory.search(question.text, agent_id=AGENT, user_id=question.conversation, top_k=DEPTH)


@asynccontextmanager
async def _filled(corpus: Corpus, server: str, store: Store, settings: Settings) -> AsyncIterator[Memory]:
    """Conversations are stored concurrently, each in its own order."""
    async with fresh_database(server) as url, Memory(url, Offline(), settings) as memory:
        async with asyncio.TaskGroup() as group:
            for turns in corpus.by_conversation().values():
                group.create_task(store(memory, turns))
        if settings.embedding != "off":
            await memory.work.embed()
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
