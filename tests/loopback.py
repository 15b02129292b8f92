"""A server on 127.0.0.1 that speaks the OpenAI protocol and answers what a test scripted.

    async with loopback([status(429), good('{"observations": []}')]) as server:
        model = OpenAI(api="chat", base_url=server.base_url)
        ...
        assert len(server.requests) == 2

Replies are used up in turn; a single reply instead of a list answers every request. Requests after the end of the list
are answered with HTTP 410, which clients don't retry. A reply may also be a function from the request to a text.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from memory_sql.llm.notation import as_written

INPUT_TOKENS = 11
OUTPUT_TOKENS = 7
# The client makes the retries; this header makes them quick.
RETRY_SOON = {"retry-after-ms": "1"}


@dataclass(frozen=True, slots=True)
class Received:
    path: str
    body: dict[str, Any]
    headers: Mapping[str, str]

    @property
    def is_chat(self) -> bool:
        return self.path.endswith("/chat/completions")

    @property
    def instructions(self) -> str:
        return str(self.body["messages"][0]["content"] if self.is_chat else self.body["instructions"])

    @property
    def prompt(self) -> str:
        return str(self.body["messages"][1]["content"] if self.is_chat else self.body["input"])

    @property
    def schema(self) -> dict[str, Any] | None:
        """The requested JSON schema; None if plain text was requested."""
        asked = self.body.get("response_format") if self.is_chat else self.body.get("text", {}).get("format")
        if not asked or asked["type"] != "json_schema":
            return None
        return dict((asked["json_schema"] if self.is_chat else asked)["schema"])


@dataclass(frozen=True, slots=True)
class Reply:
    respond: Callable[[web.Request, Received], Awaitable[web.StreamResponse]]


Scripted = Reply | Callable[[Received], str]
Script = Scripted | Sequence[Scripted]


@dataclass(slots=True)
class Loopback:
    base_url: str = ""
    requests: list[Received] = field(default_factory=list)


@asynccontextmanager
async def loopback(script: Script, *, port: int = 0) -> AsyncIterator[Loopback]:
    """The running server. `port` 0 takes a free one."""
    server = Loopback()
    left = list(script) if isinstance(script, Sequence) else None

    async def handle(request: web.Request) -> web.StreamResponse:
        received = Received(request.path, await request.json(), request.headers)
        server.requests.append(received)
        if left is None:
            assert not isinstance(script, Sequence)
            return await _reply(script).respond(request, received)
        reply = _reply(left.pop(0)) if left else status(410, "the script has ended")
        return await reply.respond(request, received)

    app = web.Application(client_max_size=64 * 1024 * 1024)
    app.router.add_post("/v1/responses", handle)
    app.router.add_post("/v1/chat/completions", handle)
    app.router.add_post("/v1/embeddings", handle)
    app.router.add_post("/openai/deployments/{model}/chat/completions", handle)  # Azure's
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", port).start()
        server.base_url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
        yield server
    finally:
        await runner.cleanup()


def good(text: str) -> Reply:
    return answering(lambda _: text)


def answering(answer: Callable[[Received], str]) -> Reply:
    async def respond(_: web.Request, received: Received) -> web.Response:
        return web.json_response(_envelope(received, answer(received)))

    return Reply(respond)


def calling(name: str, arguments: str) -> Reply:
    """A call of a tool in place of an answer."""

    async def respond(_: web.Request, received: Received) -> web.Response:
        if not received.is_chat:
            body = _response(received, None)
            call = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "status": "completed"}
            body["output"].append({**call, "name": name, "arguments": arguments})
            return web.json_response(body)
        body = _completion(received, None, finish_reason="tool_calls")
        function = {"name": name, "arguments": arguments}
        body["choices"][0]["message"]["tool_calls"] = [{"id": "call_1", "type": "function", "function": function}]
        return web.json_response(body)

    return Reply(respond)


def status(code: int, body: object = None, headers: Mapping[str, str] = RETRY_SOON) -> Reply:
    """An HTTP error. A `body` that isn't a dict becomes the message of an OpenAI error."""
    said = body if isinstance(body, dict) else {"error": {"message": str(body or "scripted"), "type": "error"}}

    async def respond(_: web.Request, __: Received) -> web.Response:
        return web.json_response(said, status=code, headers=headers)

    return Reply(respond)


def hang(seconds: float) -> Reply:
    """Nothing for so long, then a good answer, for which hardly any client waits."""

    async def respond(_: web.Request, received: Received) -> web.Response:
        await asyncio.sleep(seconds)
        return web.json_response(_envelope(received, "late"))

    return Reply(respond)


def drip(pause_seconds: float) -> Reply:
    """One space after another and never an answer, as gateways send to keep a connection alive."""

    async def respond(request: web.Request, _: Received) -> web.StreamResponse:
        response = web.StreamResponse(headers={"content-type": "application/json"})
        await response.prepare(request)
        while True:
            await response.write(b" ")
            await asyncio.sleep(pause_seconds)

    return Reply(respond)


def refusal(text: str = "I can't help with that.") -> Reply:
    async def respond(_: web.Request, received: Received) -> web.Response:
        if received.is_chat:
            return web.json_response(_completion(received, None, refusal=text))
        return web.json_response(_response(received, [{"type": "refusal", "refusal": text}]))

    return Reply(respond)


def truncated(text: str) -> Reply:
    return _stopped(text, finish_reason="length", reason="max_output_tokens")


def filtered(text: str) -> Reply:
    return _stopped(text, finish_reason="content_filter", reason="content_filter")


def failed(code: str) -> Reply:
    """A response with the status `failed`, which only the Responses API has."""

    async def respond(_: web.Request, received: Received) -> web.Response:
        error = {"code": code, "message": f"scripted: {received.prompt}"}
        return web.json_response(_response(received, []) | {"status": "failed", "error": error})

    return Reply(respond)


def empty() -> Reply:
    """A well-formed answer in which the model said nothing."""

    async def respond(_: web.Request, received: Received) -> web.Response:
        return web.json_response(_completion(received, None) if received.is_chat else _response(received, None))

    return Reply(respond)


def embedded(vectors: Callable[[list[str]], list[list[float]]]) -> Reply:
    """The vectors of the requested texts in reverse order, as servers may send them."""

    async def respond(_: web.Request, received: Received) -> web.Response:
        found = enumerate(vectors(received.body["input"]))
        data = [{"object": "embedding", "index": n, "embedding": vector} for n, vector in found]
        return web.json_response({"object": "list", "model": received.body["model"], "data": data[::-1]})

    return Reply(respond)


def garbage(body: bytes, content_type: str = "application/json") -> Reply:
    async def respond(_: web.Request, __: Received) -> web.Response:
        return web.Response(body=body, content_type=content_type)

    return Reply(respond)


def _reply(scripted: Scripted) -> Reply:
    return scripted if isinstance(scripted, Reply) else answering(scripted)


def _stopped(text: str, *, finish_reason: str, reason: str) -> Reply:
    async def respond(_: web.Request, received: Received) -> web.Response:
        if received.is_chat:
            return web.json_response(_completion(received, text, finish_reason=finish_reason))
        incomplete = {"status": "incomplete", "incomplete_details": {"reason": reason}}
        return web.json_response(_envelope(received, text) | incomplete)

    return Reply(respond)


def _envelope(received: Received, text: str) -> dict[str, Any]:
    if received.is_chat:
        return _completion(received, text)
    return _response(received, [{"type": "output_text", "text": text, "annotations": []}])


def _completion(
    received: Received, text: str | None, *, finish_reason: str = "stop", refusal: str | None = None
) -> dict[str, Any]:
    message = {"role": "assistant", "content": text, "refusal": refusal}
    return {
        "id": "chatcmpl-loopback",
        "object": "chat.completion",
        "created": 1772000000,
        "model": f"{received.body['model']}-loopback",
        "choices": [{"index": 0, "finish_reason": finish_reason, "message": message, "logprobs": None}],
        "usage": {
            "prompt_tokens": INPUT_TOKENS,
            "completion_tokens": OUTPUT_TOKENS,
            "total_tokens": INPUT_TOKENS + OUTPUT_TOKENS,
        },
    }


def _response(received: Received, content: list[dict[str, Any]] | None) -> dict[str, Any]:
    """Begins with a reasoning item, as real answers do. Without `content` there is no message."""
    reasoning = {"id": "rs_loopback", "type": "reasoning", "summary": []}
    message = {"id": "msg_loopback", "type": "message", "role": "assistant", "status": "completed", "content": content}
    return {
        "id": "resp_loopback",
        "object": "response",
        "created_at": 1772000000,
        "status": "completed",
        "error": None,
        "incomplete_details": None,
        "model": f"{received.body['model']}-loopback",
        "output": [reasoning] if content is None else [reasoning, message],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": {
            "input_tokens": INPUT_TOKENS,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": OUTPUT_TOKENS,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": INPUT_TOKENS + OUTPUT_TOKENS,
        },
    }


def numbered(prompt: str, kind: str) -> list[str]:
    """The texts that a consolidation's prompt shows as `s1`, `n1` or `k1` and so on, in order."""
    found = re.findall(rf'^{kind}\d+ [^"\n]*(".*")$', prompt, re.MULTILINE)
    return [json.loads(text) for text in found]


@dataclass(frozen=True, slots=True)
class ShownTurn:
    """`handle`: P1, P2 … are people."""

    n: int
    handle: str
    text: str

    @property
    def is_persons(self) -> bool:
        return self.handle.startswith("P")


_TURN = re.compile(r'^(\d+) ([A-Z]\d*)(?: "[^\n]*?")? \d\d:\d\d ([^\n]*(?:\n\|[^\n]*)*)', re.MULTILINE)


def turns(prompt: str) -> list[ShownTurn]:
    """The turns in an extraction's prompt, as they were said. No conversation without turns is ever asked about."""
    found = [
        ShownTurn(int(n), handle, as_written(text.replace("\n| ", "\n"))) for n, handle, text in _TURN.findall(prompt)
    ]
    assert found, prompt
    return found
