"""Visitors of a life that goes on for long: an agent of their own, reached over HTTP and MCP, at servers that come and go."""

from __future__ import annotations

import asyncio
import itertools
import random
import re
import traceback
from contextlib import AsyncExitStack
from typing import Any
from urllib.parse import quote

import httpx2

from memory_sql.memory import Memory
from tests.prove.concurrent_life.actor import Actor
from tests.prove.concurrent_life.world import World
from tests.server.processes import Process, serving
from tests.server.tools import asked

EVE, PLACES = "eve", 6
VISIT_SECONDS, AGAIN_SECONDS = 0.3, 0.2
TOO_MANY = "more times in this turn"  # what a tool says that has changed memory often enough
SERVED = ("--requests-per-minute", "100000")
IDS = re.compile(r"\bo\d+-\d+\b")
LEFT_USE = """
    SELECT e.detail FROM memory.events e JOIN memory.agents a USING (agent_key)
    WHERE a.agent_id = :agent AND e.kind = 'status' AND format('o%s-%s', e.scope_id, e.seq) = :id
"""


class Servers:
    """Two of `memory-sql serve`: one stays, the other one is stopped and started again."""

    def __init__(self, world: World, url: str, steady: Process) -> None:
        self.world, self.url, self.steady, self.all, self.restarts = world, url, steady, [steady.url], 0

    async def keep_restarting(self, chance: random.Random) -> None:
        while True:
            crashes = self.world.crashes
            async with AsyncExitStack() as stack:
                try:
                    other = await stack.enter_async_context(serving(self.url, *SERVED, MEMORY_SQL_LLM="openai"))
                except AssertionError:  # it says what is wrong, and ends
                    if crashes == self.world.crashes and crashes % 2 == 0:
                        raise
                    continue
                self.all = [self.steady.url, other.url]
                await asyncio.sleep(chance.uniform(2, 12))
                self.all = [self.steady.url]
                code = await other.ended()
                if code:
                    raise AssertionError(f"a server ended with {code}: {other.err[-5:]}")
                self.restarts += 1


class Visitor(Actor):
    """Somebody who reaches an agent of their own by HTTP and MCP."""

    def __init__(self, world: World, memory: Memory, n: int, servers: Servers, secret: str) -> None:
        super().__init__(world, memory, world.seed + n)
        self.user, self.servers, self.secret, self.n = f"e{n}", servers, secret, n
        self.headers = {"Authorization": f"Bearer {secret}"}

    async def stay(self) -> None:
        async with httpx2.AsyncClient(headers=self.headers, timeout=60) as http:
            await self.adds(http)  # until then there may be no such agent to forget anything of
            while True:
                await asyncio.sleep(self.random.expovariate(1 / VISIT_SECONDS))
                await self.random.choice(
                    (self.adds, self.adds, self.observes, self.remembers, self.reads, self.forgets)
                )(http)

    async def ask(self, http: httpx2.AsyncClient, path: str, body: dict[str, Any]) -> httpx2.Response | None:
        """None: it may have happened or not. Nothing but an outage or a stopped server is an excuse."""
        crashes, known = self.world.crashes, self.servers.all
        try:
            answer = await http.post(f"{self.random.choice(known)}/v1/agents/{EVE}/{path}", json=body)
        except httpx2.TransportError as error:
            if known == self.servers.all and crashes == self.world.crashes and len(known) == 1:
                self.world.found(f"{path} ended in {type(error).__name__}: {error}")
            return None
        if answer.is_success:
            self.world.did[f"visitors: {path.split('/')[-1]}"] += 1
            return answer
        problem = answer.json()
        if answer.status_code in (409, 429, 503) or crashes != self.world.crashes or crashes % 2:
            self.world.refused[f"visitors: {answer.status_code}"] += 1
        else:
            self.world.found(f"{path} was answered with {answer.status_code}: {problem}")
        return None

    async def ask_again(self, http: httpx2.AsyncClient, path: str, body: dict[str, Any]) -> None:
        """Until it is answered."""
        for _ in itertools.count():
            if await self.ask(http, path, body) is not None:
                return
            await asyncio.sleep(AGAIN_SECONDS)

    async def adds(self, http: httpx2.AsyncClient) -> None:
        place = f"talk {self.n}/{self.random.randrange(PLACES)}"
        token, number = self.ledger.token(), f"m{self.ledger.now()}"
        said = self.ledger.begin(token, EVE, "message", self.user, conversation=place, message=number)
        message = {"role": "user", "content": f"Release {token} is deployed to staging.", "id": number}
        path = f"conversations/{quote(place, safe='')}/messages"
        await self.ask_again(http, path, {"user_id": self.user, "messages": [message]})
        self.ledger.acknowledge([said])

    async def observes(self, http: httpx2.AsyncClient) -> None:
        token = self.ledger.token()
        said = self.ledger.begin(token, EVE, "observe", self.user)
        body = {"user_id": self.user, "text": f"Release {token} is deployed to staging."}
        if await self.ask(http, "observations", body) is not None:
            self.ledger.acknowledge([said])

    async def remembers(self, _: httpx2.AsyncClient) -> None:
        token, crashes, known = self.ledger.token(), self.world.crashes, self.servers.all
        said = self.ledger.begin(token, EVE, "observe", self.user)
        whose = {"Memory_Agent": EVE, "Memory_User": self.user}
        try:
            answer = await asked(known[0], self.secret, "remember", {"text": f"My note {token} is kept."}, **whose)
            shown = await asked(known[0], self.secret, "recall", {"query": token}, **whose)
        except Exception as error:  # a group of its client's, whatever was behind it
            if (task := asyncio.current_task()) and task.cancelling():
                raise asyncio.CancelledError from error  # the round is over
            if crashes == self.world.crashes and crashes % 2 == 0:
                self.world.found(f"remember ended in {''.join(traceback.format_exception(error))[-2000:]}")
            return
        if TOO_MANY in answer:
            self.ledger.rolled_back([said])
            self.world.refused["visitors: remember"] += 1
        elif crashes == self.world.crashes and crashes % 2 == 0:
            self.ledger.acknowledge([said])
            if token not in shown and not said.doubtful and not await self._left_use(answer):
                self.world.found(f"remembered and not recalled: {token}: {answer[:200]}; {shown[:200]}")
            self.world.did["visitors: remember"] += 1

    async def _left_use(self, answer: str) -> bool:
        """Whether work took it out of use meanwhile: it gave way, or the model could do nothing with it."""
        return any([await self.sql(LEFT_USE, agent=EVE, id=one) for one in IDS.findall(answer)])

    async def reads(self, http: httpx2.AsyncClient) -> None:
        gone = self.ledger.gone()
        for path, body in (
            ("context", {"message": "What about the release?"}),
            ("search", {"query": "release", "top_k": 50}),
        ):
            answer = await self.ask(http, path, {"user_id": self.user, **body})
            if answer is not None:
                self.none_of(gone, answer.text, f"{path} over HTTP")

    async def forgets(self, http: httpx2.AsyncClient) -> None:
        """One of their conversations, one time in four."""
        if self.random.randrange(4):
            return
        place = f"talk {self.n}/{self.random.randrange(PLACES)}"
        with self.ledger.forgetting(
            EVE, lambda said: said.conversations == {place}, lambda said: place in said.conversations
        ) as it:
            await self.ask_again(http, "forget", {"conversation_id": place})
        self.ledger.forgotten(it)
