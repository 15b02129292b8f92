"""The inspector among 10⁵ observations, 10⁴ people and 10³ scopes: statements, bytes, and rows read of each page."""

from __future__ import annotations

import asyncpg  # type: ignore[import-untyped]
import pytest

from benchmarks.server import plain_url
from benchmarks.town import AGENT, PERSON, fill
from memory_sql.config import Settings
from memory_sql.domain.keys import RIGHTS
from memory_sql.domain.selection import Selection
from memory_sql.memory import Memory
from memory_sql.server import create_app
from tests.asgi import lived
from tests.browsing import Browser, value_of
from tests.database import statements
from tests.integration.test_rows_read import flushed
from tests.server.test_inspector import MIA, asked, checked, counted, pages_of

pytestmark = [pytest.mark.slow, pytest.mark.open]

SIZES = {
    "observations": "SELECT count(*) FROM memory.observations",
    "people": "SELECT count(DISTINCT user_id) FROM memory.members",
    "scopes": "SELECT count(*) FROM memory.scopes",
}
MOST_READ = 60_000  # rows of all tables together
OF_A_PERSON = 250_000  # read by the preview of what a person with 2,300 observations loses: it is the forgetting
STATEMENTS = 12


async def read(memory: Memory) -> int:
    """Rows of all tables, up to now."""
    return sum(int(count) for _, count in await flushed(memory))


async def test_every_page_stays_small_in_a_town(database_url: str) -> None:
    ids = await fill(database_url)
    connection = await asyncpg.connect(plain_url(database_url))
    sizes = {name: await connection.fetchval(sql) for name, sql in SIZES.items()}
    assert sizes["observations"] > 98_000
    assert sizes["people"] == 10_000
    assert sizes["scopes"] > 1_000

    async with Memory(database_url, settings=Settings(llm="offline", pool_size=1)) as memory:
        key = await memory.keys.create("operator", rights=RIGHTS)
        async with lived(create_app(memory, mcp=False)) as client:
            browser = Browser(client)
            await browser.sign_in(key.secret)
            more = [f"{MIA}/forget", f"{MIA}/observations/{ids['tea']}/forget", "/keys", "/imports"]
            wrong = list[str]()
            for path in [*pages_of(ids), *more]:
                path = path.replace("groups/harbour", f"groups/{ids['group']}")
                await asked(browser, path)  # what is read once, for plans and caches
                before = await read(memory)
                with statements(memory) as sent:
                    answer = await asked(browser, path)
                rows_read = await read(memory) - before
                assert answer.status == 200, path
                checked(answer)  # with the bound of its bytes
                if len(sent) > STATEMENTS:
                    wrong.append(f"{path}: {len(sent)} statements")
                if rows_read > (OF_A_PERSON if path == f"{MIA}/forget" else MOST_READ):
                    wrong.append(f"{path}: {rows_read} rows")
            assert wrong == []

            preview = await browser.get(f"{MIA}/forget")
            form = {"name": PERSON, "seen": value_of(preview, "seen")}
            with statements(memory) as sent:
                receipt = await browser.post(f"{MIA}/forget", form)
            assert receipt.status == 200
            assert counted(receipt) == counted(preview)
            assert len(sent) <= STATEMENTS
        left = await memory.forget(Selection(user_id=PERSON), agent_id=AGENT, dry_run=True)
        assert not left.found
        assert await memory.admin.verify() == []
    await connection.close()
