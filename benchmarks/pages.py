"""How long each page of the inspector takes on the server, in a town of 10⁵ observations, 10⁴ people and 10³ scopes.

In this process, without a network: the fastest of five, in milliseconds, with the statements and the bytes.
"""

from __future__ import annotations

import time

from benchmarks.server import fresh_database
from benchmarks.town import PERSON, fill
from memory_sql.config import Settings
from memory_sql.domain.keys import RIGHTS
from memory_sql.memory import Memory
from memory_sql.server import create_app
from tests.asgi import lived
from tests.browsing import Browser
from tests.database import statements
from tests.server.test_inspector import asked, pages_of

TIMES = 5


async def main() -> None:
    async with fresh_database() as url:
        ids = await fill(url)
        async with Memory(url, settings=Settings(llm="offline")) as memory:
            key = await memory.keys.create("operator", rights=RIGHTS)
            async with lived(create_app(memory, mcp=False, requests_per_minute=10**6)) as client:
                browser = Browser(client)
                await browser.sign_in(key.secret)
                home = "/agents/ada/people"
                forgets = [
                    f"{home}/p5/forget",
                    f"{home}/{PERSON}/forget",
                    f"{home}/{PERSON}/observations/o1000-5/forget",
                ]
                for path in [*pages_of(ids), *forgets, "/keys", "/imports"]:
                    await _measure(memory, browser, path.replace("groups/harbour", f"groups/{ids['group']}"))


async def _measure(memory: Memory, browser: Browser, path: str) -> None:
    spent = list[float]()
    for _ in range(TIMES):
        with statements(memory) as sent:
            since = time.perf_counter()
            answer = await asked(browser, path)
            spent.append((time.perf_counter() - since) * 1000)
    print(f"{path:<50} {min(spent):7.0f} ms {len(sent):3} statements {len(answer.body):7,} bytes")
