"""The SQL of the pages that have no test of their own, run as it is written."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator

import pytest

from tests.conftest import administer
from tests.database import connect_once, owners_url
from tests.unit.test_pages import WRITTEN, Block, blocks

ELSEWHERE = {
    "docs/analytics.md",  # test_analytics.py
}
RUN_BY_THE_HOST = ("BEGIN;\nINSERT", "BEGIN;\nCREATE", "GRANT memory_app")  # of deploying.md: test_host_app.py
FOUND = [
    pytest.param(block, id=str(block))
    for page in WRITTEN
    if page not in ELSEWHERE
    for block in blocks(page)
    if block.language == "sql" and not block.text.startswith(RUN_BY_THE_HOST)
]


@pytest.fixture
async def role(server_url: str) -> AsyncIterator[str]:
    """Roles belong to the whole server: a name of its own for this test."""
    name = f"harbour_app_{os.getpid()}"
    await administer(server_url, f"CREATE ROLE {name}")
    yield name
    await administer(server_url, f"DROP ROLE {name}")


def statements(block: Block) -> list[str]:
    """Without comments, and without what begins and ends the transaction, which the connection does."""
    lines = (line.partition("--")[0] for line in block.text.splitlines())
    parts = (part.strip() for part in "\n".join(lines).split(";"))
    return [part for part in parts if part and part not in ("BEGIN", "COMMIT")]


@pytest.mark.parametrize("block", FOUND)
async def test_sql_runs(database_url: str, role: str, block: Block) -> None:
    async with connect_once(owners_url(database_url)) as connection:
        for statement in statements(block):
            await connection.exec_driver_sql(statement.replace("harbour_app", role))


def test_there_is_sql_to_run() -> None:
    assert len(FOUND) >= 2
