"""Hindsight's server, in a process and an environment of its own, with a bank for each user.

HINDSIGHT_API names its program `hindsight-api` if that isn't on the path: what it needs can't share an environment with
this library. It ranks by the fusion of its searches: its own cross-encoder would have to be downloaded.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import socket
import subprocess
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import aiohttp

from benchmarks.server import plain_url
from benchmarks.survival.model import DIMENSIONS, EMBEDDER, KEY, NAME, Asked
from benchmarks.survival.system import Known, Place, Said

STARTED_SECONDS = 120
_NEW = re.compile(r"^\W*([0-9a-f]{8}-[0-9a-f-]{27})\] (The user's .*? has the name \w+\.)", re.MULTILINE)


def program() -> str | None:
    return shutil.which(os.environ.get("HINDSIGHT_API", "hindsight-api"))


def version() -> str:
    """As the environment of the program has it installed."""
    python = Path(program() or "").parent / "python"
    asked = "from importlib.metadata import version; print(version('hindsight-api-slim'))"
    found = subprocess.run([python, "-c", asked], capture_output=True, text=True, check=True)
    return f"hindsight-api-slim {found.stdout.strip()}"


def answers(asked: Asked) -> str:
    """A fact for each thing told; asked to consolidate, an observation of each new fact."""
    if '"what"' not in asked.prompt + json.dumps(asked.schema):
        made = [{"text": text, "source_fact_ids": [fact]} for fact, text in _NEW.findall(asked.last)]
        return json.dumps({"creates": made, "updates": [], "deletes": []})
    unknown = dict.fromkeys(("when", "where", "who", "why"), "N/A")
    rest = {"fact_type": "world", "fact_kind": "conversation", "entities": []}
    return json.dumps({"facts": [{"what": fact.text, **unknown, **rest} for fact in asked.news(asked.last)]})


class Hindsight:
    def __init__(self, http: aiohttp.ClientSession, in_background: bool) -> None:
        self._http, self._in_background = http, in_background

    async def _ask(self, method: str, user: str, path: str, body: object = None) -> Any:
        url = f"/v1/default/banks/{quote(user, safe='')}{path}"
        async with self._http.request(method, url, json=body) as answer:
            answer.raise_for_status()
            return await answer.json()

    async def add(self, said: Sequence[Said], user: str, conversation: str) -> None:
        content = "\n".join(f"{one['role']}: {one['content']}" for one in said)
        items = [{"content": content, "document_id": conversation}]
        await self._ask("POST", user, "/memories", {"items": items, "async": self._in_background})

    async def _all(self, user: str) -> list[dict[str, Any]]:
        """Facts, without the observations that are made of them."""
        try:
            found = (await self._ask("GET", user, "/memories/list"))["items"]
            return [one for one in found if one["fact_type"] != "observation"]
        except aiohttp.ClientResponseError as error:
            if error.status == 404:  # a bank comes with its first memory
                return []
            raise

    async def texts(self, user: str) -> list[str]:
        return [one["text"] for one in await self._all(user)]

    async def search(self, query: str, user: str) -> list[str]:
        found = await self._ask("POST", user, "/memories/recall", {"query": query})
        return [one["text"] for one in found["results"]]

    async def ids(self, user: str) -> list[str]:
        return [one["id"] for one in await self._all(user)]

    async def get(self, memory_id: str, user: str) -> str | None:
        return str((await self._ask("GET", user, f"/memories/{memory_id}"))["text"])

    async def delete(self, memory_id: str, user: str) -> None:
        """It sets a single fact aside; only a document or a bank is deleted."""
        await self._ask("PATCH", user, f"/memories/{memory_id}", {"state": "invalidated", "reason": "asked for"})

    async def forget(self, user: str) -> None:
        await self._ask("DELETE", user, "")


@asynccontextmanager
async def opened(place: Place, *, in_background: bool) -> AsyncIterator[Hindsight]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    named = {
        "DATABASE_URL": plain_url(place.url),
        "HOST": "127.0.0.1",
        "PORT": str(port),
        "LLM_PROVIDER": "openai",
        "LLM_API_KEY": KEY,
        "LLM_MODEL": NAME,
        "LLM_BASE_URL": place.model,
        "EMBEDDINGS_PROVIDER": "openai",
        "EMBEDDINGS_OPENAI_API_KEY": KEY,
        "EMBEDDINGS_OPENAI_MODEL": EMBEDDER,
        "EMBEDDINGS_OPENAI_BASE_URL": place.model,
        "EMBEDDINGS_OPENAI_DIMENSIONS": str(DIMENSIONS),
        "RERANKER_PROVIDER": "rrf",
    }
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("HINDSIGHT", "PYTHON"))}
    environment |= {f"HINDSIGHT_API_{name}": value for name, value in named.items()}
    with (place.folder / "server.log").open("ab") as log:
        server = subprocess.Popen(  # noqa: ASYNC220  # starts at once
            [program() or "hindsight-api"],
            env=environment,
            cwd=place.folder,
            stdout=log,
            stderr=log,
        )
    try:
        timeout = aiohttp.ClientTimeout(total=300)
        async with aiohttp.ClientSession(f"http://127.0.0.1:{port}", timeout=timeout) as http:
            await _started(http)
            yield Hindsight(http, in_background)
    finally:
        server.terminate()
        try:
            await asyncio.to_thread(server.wait, 15)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


async def _started(http: aiohttp.ClientSession) -> None:
    async with asyncio.timeout(STARTED_SECONDS):
        while True:
            try:
                async with http.get("/health") as answer:
                    if answer.ok:
                        return
            except aiohttp.ClientConnectionError:
                pass
            await asyncio.sleep(0.5)


def _known(name: str, in_background: bool) -> Known:
    there = partial(opened, in_background=in_background)
    return Known(name, lambda: program() is not None, version, there, answers)


WAITING = _known("Hindsight", in_background=False)
LATER = _known("Hindsight, async", in_background=True)
