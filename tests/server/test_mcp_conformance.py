"""The conformance scenarios of MCP that apply, against `/mcp` of `memory-sql serve`. Their runner is an npm package."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

from memory_sql.memory import Memory
from tests.server.processes import serving

PACKAGES = ("node@22", "@modelcontextprotocol/conformance@0.1.16")  # it needs Node 22
SCENARIOS = (
    "server-initialize",
    "ping",
    "tools-list",
    "tools-call-error",
    "server-sse-multiple-streams",
    "dns-rebinding-protection",
)
INSTALL_SECONDS = 300


@pytest.fixture(scope="module")
async def runner(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of its programs; skips where npm can't install it."""
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("there is no npm")
    at = tmp_path_factory.mktemp("conformance")
    code, out = await ran(
        [npm, "install", "--prefix", str(at), "--no-audit", "--no-fund", *PACKAGES], os.environ["PATH"]
    )
    if code:
        pytest.skip(f"npm can't install it: {out[-300:]}")
    return at / "node_modules" / ".bin"


async def ran(command: list[str], path: str) -> tuple[int, str]:
    """The exit code, and what it printed."""
    pipe, to_out = asyncio.subprocess.PIPE, asyncio.subprocess.STDOUT
    process = await asyncio.create_subprocess_exec(
        *command, stdout=pipe, stderr=to_out, env={**os.environ, "PATH": path}
    )
    async with asyncio.timeout(INSTALL_SECONDS):
        out, _ = await process.communicate()
    return process.returncode or 0, out.decode()


@asynccontextmanager
async def knowing_the_key(url: str, key: str) -> AsyncIterator[str]:
    """The same server at another address, where requests need no key: the runner can't send one."""

    async def forward(request: web.Request) -> web.Response:
        headers = {**request.headers, "Authorization": f"Bearer {key}"}
        headers.pop("Transfer-Encoding", None)
        body = await request.read()
        async with client.request(request.method, url + request.path, data=body, headers=headers) as answer:
            kept = {name: value for name, value in answer.headers.items() if name not in ("Content-Length", "Date")}
            return web.Response(status=answer.status, body=await answer.read(), headers=kept)

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", forward)
    running = web.AppRunner(app)
    await running.setup()
    site = web.TCPSite(running, "localhost", 0)
    async with aiohttp.ClientSession() as client:
        try:
            await site.start()
            yield f"http://localhost:{running.addresses[0][1]}"
        finally:
            await running.cleanup()


@pytest.mark.prove
async def test_scenarios_that_apply_pass(database_url: str, runner: Path) -> None:
    async with Memory(database_url) as memory:
        made = await memory.keys.create("hers", rights=["read", "write", "forget"], agents=["ada"], user_id="mia")
    path = f"{runner}{os.pathsep}{os.environ['PATH']}"
    async with serving(database_url) as server, knowing_the_key(server.url, made.secret) as url:
        for scenario in SCENARIOS:
            code, out = await ran(
                [str(runner / "conformance"), "server", "--url", f"{url}/mcp", "--scenario", scenario], path
            )
            assert code == 0, (scenario, out)
            assert "0 failed" in out
