"""A tool of a server, called by MCP's own client."""

from __future__ import annotations

from typing import Any

import httpx2
from mcp import Client as Asking
from mcp.client.streamable_http import streamable_http_client


async def asked(url: str, secret: str, tool: str, given: dict[str, Any], **headers: str) -> str:
    """What the tool answers."""
    told = {"Authorization": f"Bearer {secret}", **{name.replace("_", "-"): value for name, value in headers.items()}}
    async with (
        httpx2.AsyncClient(headers=told, timeout=60) as http,
        Asking(streamable_http_client(f"{url}/mcp", http_client=http)) as client,
    ):
        answer = await client.call_tool(tool, given)
        return "".join(part.text for part in answer.content if part.type == "text")
