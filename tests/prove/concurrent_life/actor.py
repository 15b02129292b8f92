"""A client of a concurrent life before it does anything: who it is, what it sees, how it handles errors."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

from sqlalchemy import text

from memory_sql.db import Database
from memory_sql.db.principals import SERVICE
from memory_sql.domain.observations import Observation
from memory_sql.errors import ConflictError, DatabaseError, NotFoundError
from memory_sql.memory import Memory
from tests.prove.concurrent_life.ledger import TOKEN, Utterance
from tests.prove.concurrent_life.world import AGENTS, REFUSALS, NothingToDoError, World

R = TypeVar("R")


def databases_of(memory: Any) -> Sequence[Database]:
    """That of a memory, or those of its shards."""
    known: Sequence[Database] | None = getattr(memory, "databases", None)  # of a door to a memory with shards
    if known is not None:
        return known
    spread = getattr(memory, "_spread", None)
    return [memory.database] if spread is None else [one.memory.database for one in spread.shards.values()]


class TakenBackError(Exception):
    """The host has changed its mind."""


class Actor:
    """One of several: `memory` may be shared with others."""

    def __init__(self, world: World, memory: Memory, seed: int) -> None:
        self.world, self.ledger, self.memory, self.random = world, world.ledger, memory, random.Random(seed)

    def agent(self) -> str:
        return self.random.choice(AGENTS)

    def name(self, agent: str, kind: str) -> str:
        return self.random.choice(self.world.names[agent, kind])

    def place(self, agent: str, most: int | None = None) -> tuple[str, list[str]]:
        """A conversation, and the groups in which it is held: the same as long as it has its name."""
        names = self.world.names[agent, "conversation"]
        n = self.random.randrange(most or len(names))
        groups = self.world.names[agent, "group"]
        return names[n], [groups[n % len(groups)]] if n % 3 else []

    async def seen(self, agent: str, choose: Callable[[Observation], bool] = lambda _: True) -> tuple[str, Observation]:
        """Somebody, and one of the observations that they see."""
        user = self.name(agent, "user")
        found = [o for o in await self.memory.observations.list(agent_id=agent, user_id=user, limit=200) if choose(o)]
        if not found:
            raise NothingToDoError
        return user, self.random.choice(found)

    async def scope(self, agent: str) -> str:
        where = self.random.choice((None, self.place(agent)[0]))
        scopes = await self.memory.scopes.list(agent_id=agent, user_id=self.name(agent, "user"), conversation_id=where)
        if not scopes:
            raise NothingToDoError
        return self.random.choice(scopes).ref.id

    async def sql(self, statement: str, **parameters: Any) -> list[Any]:
        found: list[Any] = []
        for database in databases_of(self.memory):
            async with database.transaction(principal=SERVICE) as unit:
                found += await unit.execute(text(statement), parameters)
        return found

    def taken(self, known: list[tuple[str, str, str]]) -> tuple[str, str, str]:
        if not known:
            raise NothingToDoError
        return known.pop(self.random.randrange(len(known)))

    def skip(self, agent: str, conversation: str | None) -> None:
        for said in self.ledger.of(agent):
            if conversation in said.conversations:
                said.may_stay_unformed = True

    def is_single(self, said: Utterance) -> bool:
        return [other.token for other in self.ledger.of(said.agent)].count(said.token) == 1

    async def again_until_it_returns(self, call: Callable[[], Awaitable[R]]) -> R:
        while True:
            crashes = self.world.crashes
            try:
                return await call()
            except DatabaseError as error:
                if not self.world.excuses(error, crashes):
                    raise
                await asyncio.sleep(0.1)

    @contextmanager
    def saying(self, said: list[Utterance]) -> Iterator[None]:
        """What was refused was never stored; what failed otherwise may have been."""
        try:
            yield
        except (*REFUSALS, ConflictError, TakenBackError):
            self.ledger.rolled_back(said)
            raise
        self.ledger.acknowledge(said)

    def none_of(self, gone: set[str], shown: str, where: str) -> None:
        left = gone & set(TOKEN.findall(shown)) & self.ledger.gone()  # somebody may have said it again
        if left:
            said = [str(one) for one in self.ledger.utterances if one.token in left]
            self.world.found(f"{where} shows what was forgotten before: {said[:5]}")

    async def read_without(self, agent: str, gone: set[str]) -> None:
        """What had gone before it was asked for isn't shown to anybody."""
        user: dict[str, Any] = {"agent_id": agent, "user_id": self.name(agent, "user")}
        who = user | {"conversation_id": self.random.choice((None, self.place(agent)[0]))}
        self.none_of(gone, str(await self.memory.context(**who, message="What about the release?")), "a context")
        query = self.random.choice(sorted(gone)) if gone else "release"
        found = await self.memory.search(f"{query} release", **who, top_k=100)
        shown = [
            *(hit.observation.content for hit in found.results),
            *(hit.message.content or "" for hit in found.messages),
        ]
        self.none_of(gone, " ".join(shown), "a search")
        named = await self.memory.entities.list(**user, limit=1000)
        terms = await self.memory.topics.list(**user)
        self.none_of(gone, " ".join([*(one.name for one in named), *(one.term for one in terms)]), "what is named")
        with suppress(NotFoundError):
            entity = await self.memory.entities.get("release", **user, limit=1000)
            self.none_of(gone, " ".join(one.content for one in entity.newest), "an entity")
        self.none_of(gone, str(await self.memory.digest(**who, query="release staging")), "a digest")
        listed = await self.memory.conversations.messages(**user, limit=200)
        self.none_of(gone, " ".join(message.content or "" for message in listed), "the messages")
