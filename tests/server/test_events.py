"""Long work over HTTP: how far it is, as events; and what becomes of it when nobody listens any more."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from memory_sql.config import Settings
from memory_sql.memory import Memory
from memory_sql.server import answers, create_app, events
from tests.asgi import Client, lived
from tests.database import rows
from tests.factories import message
from tests.fakes import Meanings, Parrot
from tests.loopback import Received, Reply, embedded, loopback, status
from tests.server.conftest import ADA, BASE, Served
from tests.server.processes import serving

AS_EVENTS = {"Accept": "text/event-stream"}
MIA = {**ADA, "user_id": "mia"}
LEASED = "SELECT due_at IS NOT NULL, lease_until FROM memory.conversations"


def read(text: str) -> list[tuple[str, Any]]:
    """Names and data; a comment has no name."""
    found = []
    for event in text.split("\n\n")[:-1]:
        fields = dict(line.split(": ", 1) for line in event.split("\n"))
        found.append((fields.get("event", ""), json.loads(fields["data"]) if "data" in fields else fields[""]))
    return found


def counts(told: list[tuple[str, Any]]) -> list[int]:
    return [data["count"] for name, data in told if name == "progress"]


@asynccontextmanager
async def embedding(database_url: str, texts: int) -> AsyncIterator[tuple[Memory, Meanings, Client]]:
    """A memory with so many observations that have no vector, each embedded alone."""
    model, settings = Meanings(), Settings(llm="offline", embedding_batch=1)
    async with Memory(database_url, settings=settings, embeddings=model) as memory:
        for n in range(texts):
            await memory.observe(f"Fact {n}.", **MIA)
        made = await memory.keys.create("host", rights=["admin"])
        async with lived(create_app(memory, mcp=False)) as client:
            yield memory, model, client.with_key(made.secret)


async def test_events_end_with_the_answer(database_url: str) -> None:
    async with embedding(database_url, 3) as (_, _, host):
        answer = await host("POST", f"{BASE}/work/embed", {"limit": 2}, headers=AS_EVENTS)
        assert (answer.status, answer.headers["content-type"]) == (200, "text/event-stream; charset=utf-8")
        assert (answer.headers["cache-control"], answer.headers["x-accel-buffering"]) == ("no-store", "no")
        told = read(answer.text)
        assert counts(told) == sorted(counts(told))
        assert counts(told)[-1] == 2
        assert told[-1] == ("result", {"embedded": 2, "without_direction": 0, "complete": False})
        assert [name for name, _ in told].count("result") == 1
        last = await host("POST", f"{BASE}/work/run", headers=AS_EVENTS)
        assert read(last.text)[-1][0] == "result"
        assert read(last.text)[-1][1]["embedded"] == 1


@pytest.mark.parametrize("accept", ["application/json, text/event-stream", "*/*", "text/html", "", "text/event"])
async def test_who_does_not_ask_for_events_gets_the_answer_alone(served: Served, accept: str) -> None:
    for path in ("work/run", "work/embed"):
        answer = await served.host("POST", f"{BASE}/{path}", headers={"Accept": accept})
        assert (answer.status, answer.headers["content-type"]) == (200, "application/json")
    other = await served.host("GET", f"{BASE}/work/backlog", headers=AS_EVENTS)
    assert other.headers["content-type"] == "application/json"


async def test_what_fails_at_once_has_a_status_of_its_own(served: Served) -> None:
    few = await served.memory.keys.create("few", rights=["read", "write", "forget"], agents=["ada"])
    for path in ("work/run", "work/embed"):
        for client, body, code in (
            (served.mia, None, 403),
            (served.nobody.with_key(few.secret), None, 403),
            (served.nobody, None, 401),
            (served.host, {"limit": 0}, 422),
            (served.host, {"progress": True}, 422),
        ):
            answer = await client("POST", f"{BASE}/{path}", body, headers=AS_EVENTS)
            assert (answer.status, answer.headers["content-type"]) == (code, "application/problem+json"), answer.text
        other = await served.host("POST", f"/v1/agents/eve/{path}", headers=AS_EVENTS)
        assert other.status == 403


async def test_no_model_is_known_before_the_first_event(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MEMORY_SQL_LLM")
    async with Memory(database_url, settings=Settings()) as memory:
        made = await memory.keys.create("host", rights=["admin"])
        async with lived(create_app(memory, mcp=False)) as client:
            answer = await client.with_key(made.secret)("POST", f"{BASE}/work/run", headers=AS_EVENTS)
    assert (answer.status, answer.json["type"]) == (500, "urn:memory-sql:ConfigurationError")


@pytest.mark.slow
async def test_silence_is_broken_by_comments(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "ALIVE_SECONDS", 0.02)
    async with embedding(database_url, 1) as (_, model, host):
        model.meanwhile = lambda: asyncio.sleep(0.3)
        told = read((await host("POST", f"{BASE}/work/embed", headers=AS_EVENTS)).text)
    assert told.count(("", "ping")) >= 3
    assert told[-1][0] == "result"


class Reading:
    """A client that takes the first event and no other until `goes_on`."""

    def __init__(self, app: ASGIApp, goes_on: asyncio.Event) -> None:
        self._app, self._goes_on = app, goes_on

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def late(message: Message) -> None:
            await send(message)
            if message["type"] == "http.response.body":
                await self._goes_on.wait()

        await self._app(scope, receive, late)


async def test_slow_reader_gets_the_latest_and_no_more(database_url: str) -> None:
    async with embedding(database_url, 30) as (memory, _, host):
        goes_on = asyncio.Event()
        client = Client(Reading(host.app, goes_on), host.headers)
        asking = asyncio.create_task(client("POST", f"{BASE}/work/embed", headers=AS_EVENTS))
        async with asyncio.timeout(30):
            while await rows(memory, "SELECT count(*)::int FROM memory.observation_vectors") != [(30,)]:  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        goes_on.set()
        told = read((await asking).text)
    assert len(counts(told)) <= 3
    assert (counts(told)[-1], told[-1][1]["embedded"]) == (30, 30)


async def test_work_ends_with_a_client_that_takes_nothing(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "READ_SECONDS", 0.05)
    model, never = Parrot(), asyncio.Event()
    async with Memory(database_url, model, Settings(llm="offline")) as memory:
        for n in range(2):
            await memory.add([message("Actually, I keep bees.")], **MIA, conversation_id=f"c{n}")
        made = await memory.keys.create("host", rights=["admin"])
        async with lived(create_app(memory, mcp=False)) as nobody:
            client = Client(Reading(nobody.app, never), nobody.with_key(made.secret).headers)

            async def hang() -> None:
                model.meanwhile = never.wait  # of the second conversation

            model.meanwhile = hang
            async with asyncio.timeout(30):
                await client("POST", f"{BASE}/work/run", headers=AS_EVENTS)
        assert sorted(await rows(memory, LEASED)) == [(False, None), (True, None)]
        assert await memory.admin.verify() == []


async def stream(client: aiohttp.ClientSession, path: str) -> aiohttp.ClientResponse:
    return await client.post(f"{BASE}/{path}", headers=AS_EVENTS, json={})


@pytest.mark.slow
async def test_served_work_tells_fails_and_is_left(database_url: str) -> None:
    """The same from outside: progress before the answer, a problem at the end, and leases that come back."""
    may_embed, may_fail, asked, dropped = asyncio.Event(), asyncio.Event(), asyncio.Event(), asyncio.Event()
    vectors = embedded(lambda texts: [[1.0, 2.0, 3.0] for _ in texts])
    batches = 0

    async def respond(request: web.Request, received: Received) -> web.StreamResponse:
        nonlocal batches
        if received.path == "/v1/embeddings":
            await may_embed.wait()
            batches += 1
            fails = may_fail.is_set() and batches > 1
            return await (status(400) if fails else vectors).respond(request, received)
        asked.set()
        try:
            return await asyncio.Event().wait()  # type: ignore[return-value]
        finally:
            dropped.set()

    async with Memory(database_url, settings=Settings(llm="offline")) as memory, loopback(Reply(respond)) as model:
        for n in range(5):
            await memory.observe(f"Fact {n}.", **MIA)
        made = await memory.keys.create("host", rights=["admin"])
        environ = {
            "MEMORY_SQL_LLM": "openai", "OPENAI_API_KEY": "none", "OPENAI_BASE_URL": model.base_url,
            "MEMORY_SQL_EMBEDDING": "openai", "MEMORY_SQL_EMBEDDING_DIMENSIONS": "3",
            "MEMORY_SQL_EMBEDDING_BATCH": "2",
        }  # fmt: skip
        headers = {"Authorization": f"Bearer {made.secret}"}
        async with (
            serving(database_url, **environ) as server,
            aiohttp.ClientSession(server.url, headers=headers) as client,
            asyncio.timeout(120),
        ):
            answer = await stream(client, "work/embed")
            first = read((await answer.content.readuntil(b"\n\n")).decode())
            assert counts(first) == [0]
            may_embed.set()  # so the answer can't have been there
            told = read(await answer.text())
            assert (counts(told)[-1], told[-1][0], told[-1][1]["embedded"]) == (5, "result", 5)

            for n in range(5, 9):
                await memory.observe(f"Fact {n}.", **MIA)
            batches = 0
            may_fail.set()
            told = read(await (await stream(client, "work/embed")).text())
            assert counts(told)
            assert told[-1][0] == "problem"
            assert (told[-1][1]["status"], told[-1][1]["type"]) == (503, "urn:memory-sql:UnavailableError")

            await memory.add([message("Actually, I keep bees.")], **MIA, conversation_id="monday")
            asking = asyncio.create_task(stream(client, "work/run"))
            await asked.wait()
            ((_, lease),) = await rows(memory, LEASED)
            assert lease is not None
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)
            await dropped.wait()  # the model's call is ended too
            while (await rows(memory, LEASED)) != [(True, None)]:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
            assert await server.ended() == 0
        assert "failed with" not in "\n".join(server.err)
        assert await memory.admin.verify() == []
