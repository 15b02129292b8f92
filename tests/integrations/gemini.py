"""Google's protocol on 127.0.0.1, for programs that run in a process of their own: it passes on to a model of OpenAI's."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web
from openai import AsyncOpenAI


@asynccontextmanager
async def gemini(model_url: str) -> AsyncIterator[str]:
    """Its URL, as GOOGLE_GEMINI_BASE_URL."""
    client = AsyncOpenAI(base_url=model_url, api_key="none", max_retries=0)

    async def generate(request: web.Request) -> web.Response:
        return web.json_response(await _answer(client, await request.json()))

    app = web.Application()
    app.router.add_post("/v1beta/models/{name}:generateContent", generate)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()
        await client.close()


async def _answer(client: AsyncOpenAI, body: Mapping[str, Any]) -> dict[str, Any]:
    system = "\n".join(part["text"] for part in body.get("systemInstruction", {}).get("parts", ()))
    messages: Any = [{"role": "system", "content": system}]
    messages += [_message(one["role"], part) for one in body["contents"] for part in one["parts"]]
    answer = await client.chat.completions.create(model="m", messages=messages)
    content = {"role": "model", "parts": [{"text": answer.choices[0].message.content}]}
    return {"candidates": [{"content": content, "finishReason": "STOP", "index": 0}]}


def _message(role: str, part: Mapping[str, Any]) -> dict[str, Any]:
    return {"role": "user" if role == "user" else "assistant", "content": part.get("text") or json.dumps(part)}
