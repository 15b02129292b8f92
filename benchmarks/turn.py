"""What a message adds to a context, and where its time goes: for a user with one scope of 1,000 observations.

The observations and messages are those of the invented conversations (`benchmarks/recall/invented`). A context without a
message, one that searches by words, and one that searches by words and meaning take turns, each message once. `client` is
the CPU time of this process, `server` that of the database's (on Linux, with a server on this machine); by these the parts
are told apart, since other load on the machine changes them less than the time that a caller waits.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import asyncpg  # type: ignore[import-untyped]
from sqlalchemy import text

from benchmarks.hot_paths import ABSORBED, sentence
from benchmarks.recall.recorded import INVENTED, recorded
from benchmarks.recall.whole_path import by_users
from benchmarks.server import analyze, fresh_database, plain_url
from memory_sql.config import Settings
from memory_sql.llm.offline import Offline
from memory_sql.memory import Memory

MIA: dict[str, Any] = {"agent_id": "ada", "user_id": "mia"}
SIZE = 1_000
ROUNDS = 200
CUES = "UPDATE memory.observations SET terms = :terms WHERE content = :content"
BACKENDS = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"


class Cost(NamedTuple):
    """Milliseconds; the last two of CPU."""

    waited: float
    client: float
    server: float


async def main() -> None:
    conversations = recorded(INVENTED)
    formed = {row["content"]: row["terms"] for one in conversations for row in one.observations}
    said = [message["content"] for one in conversations for message in one.messages]
    asked = [question.text for one in conversations for question in one.questions]
    asked += [message["content"] for one in conversations for message in by_users(one)]
    every = len(asked) / ROUNDS
    async with fresh_database() as url:
        async with Memory(url, Offline(), Settings(llm="offline")) as memory:
            await fill(memory, formed, said)
        await analyze(url)
        await compare(url, [asked[int(n * every)] for n in range(ROUNDS)])


async def fill(memory: Memory, formed: dict[str, Sequence[str]], said: Sequence[str]) -> None:
    texts = list(dict.fromkeys([*formed, *said, *map(sentence, range(SIZE))]))[:SIZE]
    for content in texts:
        await memory.observe(content, **MIA)
    async with memory.database.transaction() as session:
        await session.execute(
            text(CUES), [{"content": name, "terms": "\n".join(cues)} for name, cues in formed.items()]
        )
        await session.execute(text(ABSORBED), {"story": " ".join(map(sentence, range(45)))})
    while (await memory.work.embed()).embedded:
        pass


async def compare(url: str, messages: Sequence[str]) -> None:
    words, meaning = Settings(llm="offline", embedding="off"), Settings(llm="offline", embedding="local")
    async with Memory(url, settings=words) as by_words, Memory(url, settings=meaning) as by_both:
        model = by_both._runtime.reads.semantics

        calls: dict[str, Callable[[str], Awaitable[object]]] = {
            "no message": lambda _: by_words.context(**MIA),
            "by words": lambda message: by_words.context(**MIA, message=message),
            "by words and meaning": lambda message: by_both.context(**MIA, message=message),
            "the encoder alone": lambda message: model.vector(" ".join(message[:512].split())),
        }
        costs: dict[str, list[Cost]] = {name: [] for name in calls}
        for call in calls.values():
            for message in messages[:10]:
                await call(message)
        backends = await backends_of(url)
        for message in messages:
            for name, call in calls.items():
                costs[name].append(await cost_of(partial(call, message), backends))
    found = {name: Cost(*map(statistics.median, zip(*those, strict=True))) for name, those in costs.items()}
    first = found["no message"]
    for name, cost in found.items():
        times, cpu = cost.waited / first.waited, (cost.client + cost.server) / (first.client + first.server)
        print(
            f"{name:22} p50 {cost.waited:7.2f} ms {times:5.2f} x   client {cost.client:6.2f}"
            f"   server {cost.server:6.2f}   CPU {cpu:5.2f} x"
        )


async def cost_of(call: Callable[[], Awaitable[object]], backends: Sequence[int]) -> Cost:
    """Of one call; what others do in this database meanwhile counts as well."""
    server, client, started = cpu(backends), time.process_time(), time.perf_counter()
    await call()
    waited = time.perf_counter() - started
    return Cost(waited * 1e3, (time.process_time() - client) * 1e3, (cpu(backends) - server) * 1e3)


async def backends_of(url: str) -> list[int]:
    """The server's processes that serve this database, if they can be watched."""
    connection = await asyncpg.connect(plain_url(url))
    pids = [row["pid"] for row in await connection.fetch(BACKENDS)]
    await connection.close()
    return [pid for pid in pids if _schedule(pid).exists()]


def cpu(pids: Sequence[int]) -> float:
    """Seconds of CPU that they took so far."""
    return sum(int(_schedule(pid).read_text().split()[0]) for pid in pids) / 1e9


def _schedule(pid: int) -> Path:
    return Path(f"/proc/{pid}/schedstat")
