"""The HTTP server under load: 80 % context, 15 % search, 5 % add, beside `SELECT 1` through the same server and pool.

    python -m benchmarks.serving --seconds 60 --clients 200

The server is a process of its own. Each client has one connection and asks again as soon as it is answered. In turns all
ask for `SELECT 1`, with the same key, so the difference is what the library's own work takes. Before that one client asks
alone, in turns over HTTP and in this process, so the difference is what HTTP adds.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from time import perf_counter

import aiohttp
from fastapi import Request
from sqlalchemy import text

from benchmarks.server import fresh_database
from memory_sql import Memory
from memory_sql.server import create_app, serving

USERS, OBSERVATIONS = 50, 40
MIX = {"context": 80, "search": 15, "add": 5}
WORDS = "harbour sloop tea gate rope tide lamp crane berth ledger".split()
SHARES = {"p50": 0.5, "p99": 0.99, "max": 1.0}
TURNS = 6
ALONE = 500
READY = "ready at "


async def main() -> None:
    options = _options(sys.argv[1:] if sys.argv[0].endswith("serving.py") else [])
    if options.serve:
        await _serve(options.serve)
        return
    async with fresh_database() as url:
        secret = await _filled(url)
        async with _served(url) as (address, process):
            await _alone(url, address, secret)
            print(f"{options.clients} clients, {options.seconds:g} s each in {TURNS} turns")
            measured = {"SELECT 1": Measured({"select": 1}), "80/15/5": Measured(MIX)}
            for _ in range(TURNS):
                for one in measured.values():
                    await _load(address, secret, one, options)
                    one.rss.append(_rss(process) // 1024)
            for name, one in measured.items():
                one.print(name, options.seconds)
            base, ours = (one.every for one in measured.values())
            ratios = [f"{label} {_at(ours, share) / _at(base, share):.1f}x" for label, share in SHARES.items()]
            print(f"80/15/5 beside SELECT 1: {', '.join(ratios)}")


class Measured:
    """What a mix of requests took."""

    def __init__(self, mix: dict[str, int]) -> None:
        self.mix = mix
        self.spent: dict[str, list[float]] = {kind: [] for kind in mix}
        self.errors = Counter[int]()
        self.rss = list[int]()

    @property
    def every(self) -> list[float]:
        return [second for seconds in self.spent.values() for second in seconds]

    def print(self, name: str, seconds: float) -> None:
        print(
            f"{name}: {len(self.every) / seconds:.0f} a second, {self.errors.total()} errors {dict(self.errors) or ''}"
        )
        for kind, spent in {"all": self.every, **self.spent}.items():
            told = "   ".join(f"{label} {_at(spent, share):6.0f} ms" for label, share in SHARES.items())
            print(f"  {kind:<8} {told}")
        print(f"  memory of the server after each turn, MiB: {' '.join(map(str, self.rss))}")


async def _alone(url: str, address: str, secret: str) -> None:
    """Medians of `context` in this process and over HTTP, in turns."""
    own, over = list[float](), list[float]()
    source = random.Random(3)
    headers = {"Authorization": f"Bearer {secret}"}
    async with Memory(url) as memory, aiohttp.ClientSession(address, headers=headers) as session:
        for n in range(ALONE):
            path, body = _request("context", n, source)
            since = perf_counter()
            await memory.context(agent_id="bench", **body)  # type: ignore[arg-type]
            own.append(perf_counter() - since)
            since = perf_counter()
            async with session.post(path, json=body) as answer:
                await answer.read()
            over.append(perf_counter() - since)
    own_ms, over_ms = _at(own[ALONE // 10 :], 0.5), _at(over[ALONE // 10 :], 0.5)
    print(
        f"context alone, median of {ALONE}: {own_ms:.2f} ms in process, {over_ms:.2f} ms over HTTP,"
        f" which adds {(over_ms - own_ms) / own_ms:.2f}x of the library's own time"
    )


def _options(args: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    return parser.parse_args(args)


async def _filled(url: str) -> str:
    source = random.Random(7)
    async with Memory(url) as memory:
        for user in range(USERS):
            for n in range(OBSERVATIONS):
                said = f"Note {n}: {' '.join(source.sample(WORDS, 4))}."
                await memory.observe(said, agent_id="bench", user_id=f"u{user}")
        return (await memory.keys.create("bench", rights=["read", "write"])).secret


async def _serve(url: str) -> None:
    async with Memory(url) as memory:
        app = create_app(memory, requests_per_minute=10**9)

        async def select(request: Request) -> int:
            assert await memory.keys.find(request.headers["authorization"].split()[1])
            async with memory.database.statement() as unit:
                return int(await unit.scalar(text("SELECT 1")) or 0)

        app.add_api_route("/select", select, methods=["POST"])
        await serving.serve(
            app, host="127.0.0.1", port=0, grace_seconds=5, started=lambda at: print(f"{READY}{at}", flush=True)
        )


@asynccontextmanager
async def _served(url: str) -> AsyncIterator[tuple[str, int]]:
    command = [sys.executable, "-m", "benchmarks.serving", "--serve", url]
    environ = {**os.environ, "MEMORY_SQL_LLM": "offline", "MEMORY_SQL_EMBEDDING": "off"}
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE, env=environ)
    assert process.stdout is not None
    try:
        line = (await process.stdout.readline()).decode()
        assert line.startswith(READY), line
        yield line.removeprefix(READY).strip(), process.pid
    finally:
        process.terminate()
        print(f"exit code of the server: {await process.wait()}")


def _rss(pid: int) -> int:
    with open(f"/proc/{pid}/status") as file:
        return int(next(line for line in file if line.startswith("VmRSS")).split()[1])


async def _load(address: str, secret: str, measured: Measured, options: argparse.Namespace) -> None:
    ends = perf_counter() + options.seconds / TURNS
    headers = {"Authorization": f"Bearer {secret}"}
    connector = aiohttp.TCPConnector(limit=options.clients)
    async with aiohttp.ClientSession(address, headers=headers, connector=connector) as session:

        async def client(number: int) -> None:
            source = random.Random(f"{number} {len(measured.rss)}")
            while perf_counter() < ends:
                kind = source.choices([*measured.mix], [*measured.mix.values()])[0]
                path, body = _request(kind, number, source)
                since = perf_counter()
                async with session.post(path, json=body) as answer:
                    await answer.read()
                measured.spent[kind].append(perf_counter() - since)
                if answer.status >= 300:
                    measured.errors[answer.status] += 1

        await asyncio.gather(*(client(number) for number in range(options.clients)))


def _request(kind: str, number: int, source: random.Random) -> tuple[str, dict[str, object]]:
    base, user, words = "/v1/agents/bench", {"user_id": f"u{number % USERS}"}, " ".join(source.sample(WORDS, 2))
    match kind:
        case "select":
            return "/select", {}
        case "context":
            return f"{base}/context", {**user, "message": f"Do you remember the {words}?"}
        case "search":
            return f"{base}/search", {**user, "query": words}
    said = {"role": "user", "content": f"Tell me about the {words}."}
    return f"{base}/conversations/c{number}/messages", {**user, "messages": [said]}


def _at(seconds: list[float], share: float) -> float:
    ordered = sorted(seconds)
    return 1000 * ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0


if __name__ == "__main__":
    asyncio.run(main())
