"""What mem0's calls do here, by calls of `Memory` alone."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress
from typing import Any
from weakref import WeakValueDictionary

from memory_sql.domain.arguments import content_of
from memory_sql.domain.message_shapes import as_list
from memory_sql.domain.messages import Message
from memory_sql.domain.observations import Observation
from memory_sql.domain.selection import Selection
from memory_sql.errors import InputError, MemorySQLError, NotFoundError
from memory_sql.integrations.mem0.shapes import OWN, MemoryId, Whose, id_of, is_expired, item_of, matches, versions_of
from memory_sql.memory import Memory

log = logging.getLogger("memory_sql.integrations.mem0")

ACTOR = "mem0"
MOST_FOUND = MOST_EMBEDDED = 100
PAGE = 1000
UNKNOWN = "Memory with id {} not found"
_OPERATORS = re.compile(r"(?<!\S)-+|(?<!\S)(from|after|before|tag):", re.IGNORECASE)


class Calls:
    """`agent`: that of what names none."""

    def __init__(self, memory: Memory, agent: str) -> None:
        self._memory = memory
        self._agent = agent
        self._forming = WeakValueDictionary[tuple[str, str], asyncio.Lock]()

    # Storing

    async def infer(
        self, messages: Any, who: Whose, metadata: Mapping[str, Any], last_day: str | None
    ) -> dict[str, Any]:
        """Stores the messages, and forms memory of them now. What fails then leaves them stored, and is said."""
        self._memory.require_llm()
        said = self._said(messages, self._memory.settings.message_max_characters)
        if not said:
            return {"results": []}
        agent, conversation = who.agent or self._agent, who.conversation
        own = {OWN: {"expiration_date": last_day}} if last_day else {}
        lock = self._forming.setdefault((agent, conversation), asyncio.Lock())
        async with lock:  # or one of two calls at a time would find the other at work
            await self._memory.add(said, agent_id=agent, user_id=who.owner, conversation_id=conversation)
            try:
                formed = await self._memory.conversations.form(
                    agent_id=agent, conversation_id=conversation, metadata={**metadata, **own}
                )
            except MemorySQLError as error:
                log.warning("messages of a mem0 call were stored, but not formed yet: %s", type(error).__name__)
                told = "the messages are stored; memory is formed of them by a worker, or with the next call"
                told += ", without this metadata" if metadata or own else ""
                return {
                    "results": [],
                    "stored": len(said),
                    "not_formed": f"{type(error).__name__}: {error}",
                    "message": told,
                }
        await self._embed(agent)
        new = [one for one in formed.observations if _is_of(one, who.owner)]
        return {"results": [_added(one, agent, who.owner) for one in new]}

    async def keep(
        self, messages: Any, who: Whose, metadata: Mapping[str, Any], last_day: str | None
    ) -> dict[str, Any]:
        """Stores each message as it is. What was set aside before stays so, and isn't among the results."""
        agent, results = who.agent or self._agent, list[dict[str, Any]]()
        most = self._memory.settings.observation_max_characters
        said = self._said(messages, most)
        for one in said:  # before any is stored
            content_of(one.content, most)
        for one in said:
            known = {**who.given, "role": one.role, "actor_id": one.name, "expiration_date": last_day}
            own = {name: value for name, value in known.items() if value is not None}
            stored = await self._memory.observe(
                one.content, agent_id=agent, user_id=who.owner, speaker=one.name, observed_at=one.created_at,
                metadata={**metadata, OWN: own},
            )  # fmt: skip
            if stored.status == "active":
                results.append({**_added(stored, agent, who.owner), "actor_id": one.name, "role": one.role})
        await self._embed(agent)
        return {"results": results}

    async def _embed(self, agent: str) -> None:
        """So that what is new is found by its meaning at once; what fails is found by its words, and left to a worker."""
        try:
            await self._memory.work.embed(agent_id=agent, limit=MOST_EMBEDDED, whole=False)
        except MemorySQLError as error:
            log.warning("memory of a mem0 call has no vectors yet: %s", type(error).__name__)

    def _said(self, messages: Any, most: int) -> list[Message]:
        """Without system messages, in which programs show the model what was remembered; nobody else speaks in them."""
        read = [Message.parse(one, n, most) for n, one in enumerate(as_list(messages))]
        return [one.model_copy(update={"user_id": None}) for one in read if one.role not in ("system", "developer")]

    # Reading

    async def search(
        self, query: str, who: Whose, filters: Mapping[str, Any], threshold: float, *, expired: bool
    ) -> list[dict[str, Any]]:
        """Best first. A query of mem0 is plain words: what would be an operator here is one."""
        asked, found = _OPERATORS.sub(r" \1 ", query.replace('"', " ")).strip(), list[dict[str, Any]]()
        if not asked:
            return []
        for agent in await self._agents(who):
            answer = await self._memory.search(asked, agent_id=agent, user_id=who.owner, top_k=MOST_FOUND, messages=0)
            found += [
                self.item(hit.observation, agent, who.owner, hit.score)
                for hit in answer.results
                if _is_of(hit.observation, who.owner)
            ]
        fits = [item for item in found if item["score"] >= threshold and self._fits(item, who, filters, expired)]
        return sorted(fits, key=lambda item: -item["score"])

    def _fits(self, item: Mapping[str, Any], who: Whose, filters: Mapping[str, Any], expired: bool) -> bool:
        is_shown = expired or not is_expired(item, self._memory.now().date())
        return is_shown and (who.run is None or item.get("run_id") == who.run) and matches(item, filters)

    async def every(self, who: Whose, filters: Mapping[str, Any], *, expired: bool) -> AsyncIterator[dict[str, Any]]:
        """Newest first, agent by agent."""
        for agent in await self._agents(who):
            asked: dict[str, Any] = {"agent_id": agent, "user_id": who.owner, "limit": PAGE}
            page = await self._memory.observations.list(**asked)
            while page:
                for item in (self.item(one, agent, who.owner) for one in page if _is_of(one, who.owner)):
                    if self._fits(item, who, filters, expired):
                        yield item
                page = await self._memory.observations.list(**asked, before=page[-1])

    def item(self, one: Observation, agent: str, owner: str, score: float | None = None) -> dict[str, Any]:
        return item_of(one, agent, owner, usual=self._agent, score=score)

    async def get(self, text: Any) -> tuple[MemoryId, Observation] | None:
        """The memory as it is now, if that id was handed out for it once; None: there is none."""
        texts = await self._texts(text)
        if not texts:
            return None
        key, one = texts[-1]
        return (key, one) if _is_of(one, key.owner) else None

    async def _texts(self, text: Any) -> list[tuple[MemoryId, Observation]]:
        """What has that id, and what took its place, the newest last; empty if that isn't there."""
        key, found = MemoryId.read(text), list[tuple[MemoryId, Observation]]()
        while key is not None:
            try:
                one = await self._memory.observations.get(
                    key.observation, agent_id=key.agent, user_id=key.owner, own=True
                )
            except (InputError, NotFoundError):
                return []
            found.append((key, one))
            key = None if one.superseded_by is None else key._replace(observation=one.superseded_by)
        return found

    async def history(self, text: Any) -> list[dict[str, Any]]:
        """Oldest first."""
        found = await self.get(text)
        if found is None:
            return []
        key, newest = found
        versions = [await self.get_version(key, version) for version in versions_of(newest)]
        texts, changes = [*filter(None, versions), newest], list[dict[str, Any]]()
        for n, one in enumerate(texts):
            item = self.item(one, key.agent, key.owner)
            changes.append({
                "id": f"{item['id']}#{n}", "memory_id": text, "old_memory": texts[n - 1].content if n else None,
                "new_memory": one.content, "event": "UPDATE" if n else "ADD", "created_at": item["created_at"],
                "updated_at": item["updated_at"], "is_deleted": False, "actor_id": item.get("actor_id"),
                "role": item.get("role"),
            })  # fmt: skip
        return changes

    async def get_version(self, key: MemoryId, version: str) -> Observation | None:
        try:
            return await self._memory.observations.get(version, agent_id=key.agent, user_id=key.owner, own=True)
        except NotFoundError:
            return None

    # Changing

    async def update(self, text: Any, content: str, metadata: Mapping[str, Any], own: Mapping[str, Any]) -> None:
        """Raises `ValueError` where there is no such memory, as mem0 does."""
        key, old, versions = await self._needed(text)
        kept = old.metadata.get(OWN) or {}
        times = {"created_at": old.observed_at.isoformat(), **kept, "updated_at": self._memory.now().isoformat()}
        changed = {**times, **own, "versions": versions}
        await self._memory.observations.update(
            old.id, agent_id=key.agent, user_id=key.owner, text=content,
            metadata={**old.metadata, **metadata, OWN: changed}, if_version=old.version, actor=ACTOR,
        )  # fmt: skip
        await self._embed(key.agent)

    async def forget(self, text: Any) -> list[str]:
        """With the texts that it had before. Returns the ids of what went with it: what was made of the same messages.

        Raises `ValueError` where there is no such memory, as mem0 does.
        """
        key, newest, asked = await self._needed(text)
        chosen = Selection(user_id=key.owner, observation_id=newest.id, replaced=True)
        try:
            receipt = await self._memory.forget(chosen, agent_id=key.agent, wait=False, actor=ACTOR)
        except NotFoundError:  # meanwhile
            return []
        return [str(key._replace(observation=other)) for other in receipt.observations if other not in asked]

    async def forget_all(self, who: Whose) -> None:
        if who.run is not None:
            for item in [item async for item in self.every(who, {}, expired=True)]:
                with suppress(ValueError):  # gone with another
                    await self.forget(item["id"])
        for agent in await self._agents(who):
            chosen = Selection(conversation_id=who.conversation) if who.run else Selection(user_id=who.owner)
            await self._memory.forget(chosen, agent_id=agent, wait=False, actor=ACTOR)

    async def reset(self) -> None:
        for agent in await self._all_agents():
            await self._memory.forget(Selection(everything=True), agent_id=agent, wait=False, actor=ACTOR)

    async def _needed(self, text: Any) -> tuple[MemoryId, Observation, list[str]]:
        """As it is now, and the ids of all that it has been, the newest last."""
        found, been = await self.get(text), await self._texts(text)
        if found is None:
            raise ValueError(UNKNOWN.format(text))
        return *found, [*dict.fromkeys(id for _, one in been for id in (*versions_of(one), one.id))]

    async def _agents(self, who: Whose) -> Sequence[str]:
        """Of a call without one, all: mem0 finds a user's memory whichever agent it is of."""
        known = await self._all_agents()
        return known if who.agent is None else [agent for agent in known if agent == who.agent]

    async def _all_agents(self) -> list[str]:
        return [one.id for one in await self._memory.admin.agents()]


def _added(one: Observation, agent: str, owner: str) -> dict[str, Any]:
    return {"id": id_of(one, agent, owner), "memory": one.content, "event": "ADD"}


def _is_of(one: Observation, owner: str) -> bool:
    """Whether it is in this user's own scope: what others may see as well is nothing that mem0 knows."""
    return one.scope.kind == "individual" and one.scope.owner_id == owner
