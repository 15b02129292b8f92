"""A model of OpenAI's on 127.0.0.1 that does what the user says, for agents of any framework.

CALL recall {"query": "tea"}     calls that tool, then answers
anything else                    "Noted."
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Any, NamedTuple

from aiohttp import web

from tests.loopback import Loopback, Received, Reply, calling, good, loopback, status

ANSWER = "Noted."


class Call(NamedTuple):
    name: str
    arguments: str


class Asked(NamedTuple):
    """One question to the model: its instructions, what the user said last, and the results of tools since then."""

    instructions: str
    said: str
    results: tuple[str, ...]

    def act(self) -> str | Call:
        """The answer, or a call."""
        if self.said.startswith("CALL ") and not self.results:
            name, _, arguments = self.said.removeprefix("CALL ").partition(" ")
            return Call(name, arguments or "{}")
        return ANSWER


def asked(received: Received) -> Asked:
    items: list[Mapping[str, Any]] = received.body["messages" if received.is_chat else "input"]
    instructions = [] if received.is_chat else [str(received.body.get("instructions") or "")]
    said, results = "", list[str]()
    for item in items:
        text = _text(item.get("content", item.get("output", "")))
        if item.get("role") in ("system", "developer"):
            instructions.append(text)
        elif item.get("role") == "user":
            said, results = text, []
        elif item.get("role") == "tool" or str(item.get("type", "")).endswith("_output"):
            results.append(text)
    return Asked("\n".join(instructions), said, tuple(results))


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    parts: Iterable[Any] = content or ()
    return "\n".join(str(part.get("text", "")) for part in parts)


class Model:
    """`asked`: every question so far. `refuses`: all requests from now on, so that runs fail."""

    def __init__(self) -> None:
        self.server = Loopback()
        self.refuses = False

    @property
    def url(self) -> str:
        return self.server.base_url

    @property
    def asked(self) -> list[Asked]:
        return [asked(received) for received in self.server.requests]

    async def respond(self, request: web.Request, received: Received) -> web.StreamResponse:
        act = asked(received).act()
        reply = status(400) if self.refuses else good(act) if isinstance(act, str) else calling(*act)
        answer = await reply.respond(request, received)
        is_streamed = received.body.get("stream") and answer.status == HTTPStatus.OK
        return await _streamed(request, received, answer) if is_streamed else answer


async def _streamed(request: web.Request, received: Received, answer: web.StreamResponse) -> web.StreamResponse:
    """All of the answer as one event."""
    assert isinstance(answer, web.Response)
    body = json.loads(answer.text or "")
    event = {"type": "response.completed", "sequence_number": 1, "response": body}
    if received.is_chat:
        delta = body["choices"][0]["message"]
        delta["tool_calls"] = [{"index": n, **one} for n, one in enumerate(delta.get("tool_calls") or ())] or None
        choice = {"index": 0, "delta": delta, "finish_reason": body["choices"][0]["finish_reason"]}
        event = {**body, "object": "chat.completion.chunk", "choices": [choice]}
    response = web.StreamResponse(headers={"content-type": "text/event-stream"})
    await response.prepare(request)
    name = "" if received.is_chat else f"event: {event['type']}\n"
    await response.write(f"{name}data: {json.dumps(event)}\n\ndata: [DONE]\n\n".encode())
    return response


@asynccontextmanager
async def model() -> AsyncIterator[Model]:
    made = Model()
    async with loopback(Reply(made.respond)) as made.server:
        yield made


def call(name: str, **arguments: Any) -> str:
    """What a user says so that the model calls this tool."""
    return f"CALL {name} {json.dumps(arguments)}"
