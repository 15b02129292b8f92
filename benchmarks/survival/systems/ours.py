"""This library, with a worker in the same process."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from benchmarks.survival.model import KEY, Asked
from benchmarks.survival.system import Known, Place, Said, versions
from memory_sql import Memory, NotFoundError, Selection, Worker
from memory_sql.config import Settings
from memory_sql.llm.openai import OpenAI

AGENT = "ada"
_TURN = re.compile(r"^(\d+) (P\d*)\b(.*)$", re.MULTILINE)


def answers(asked: Asked) -> str:
    """An observation of each turn of a person that tells something, in the list of the first scope that is offered."""
    found = [
        {"content": fact.text, "sources": [int(n)], "about": [who], "private": "no", "terms": []}
        for n, who, text in _TURN.findall(asked.last)
        for fact in asked.news(text)
    ]
    lists = list(asked.schema.get("properties", {}))
    return json.dumps({name: found if place == 0 else [] for place, name in enumerate(lists)})


class Ours:
    def __init__(self, memory: Memory) -> None:
        self._memory = memory

    async def add(self, said: Sequence[Said], user: str, conversation: str) -> None:
        await self._memory.add([dict(one) for one in said], agent_id=AGENT, user_id=user, conversation_id=conversation)

    async def texts(self, user: str) -> list[str]:
        return [one.content for one in await self._memory.observations.list(agent_id=AGENT, user_id=user)]

    async def search(self, query: str, user: str) -> list[str]:
        found = await self._memory.search(query, agent_id=AGENT, user_id=user)
        return [hit.observation.content for hit in found.results] + [str(hit.message.content) for hit in found.messages]

    async def ids(self, user: str) -> list[str]:
        return [one.id for one in await self._memory.observations.list(agent_id=AGENT, user_id=user)]

    async def get(self, memory_id: str, user: str) -> str | None:
        try:
            return (await self._memory.observations.get(memory_id, agent_id=AGENT, user_id=user)).content
        except NotFoundError:
            return None

    async def delete(self, memory_id: str, user: str) -> None:
        await self._memory.forget(Selection(observation_id=memory_id, user_id=user), agent_id=AGENT)

    async def forget(self, user: str) -> None:
        await self._memory.forget(Selection(user_id=user), agent_id=AGENT)


@asynccontextmanager
async def opened(place: Place) -> AsyncIterator[Ours]:
    model = OpenAI(api="chat", base_url=place.model, api_key=KEY)
    stop = asyncio.Event()
    async with Memory(place.url, model, Settings()) as memory:
        working = asyncio.create_task(Worker(memory).run(stop))
        try:
            yield Ours(memory)
        finally:
            stop.set()
            await working
            await model.close()


KNOWN = Known("memory_sql", lambda: True, lambda: versions("memory-sql"), opened, answers, is_migrated=True)
