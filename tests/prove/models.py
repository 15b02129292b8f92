"""Models whose work can be counted: "fact <message>" of each message, and a text with a line for each fact.

`Copying` stands in this process and never fails. `serving` is a server of its own that speaks the OpenAI protocol, is
slow, and fails or answers nonsense one time in three.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from aiohttp import web
from pydantic import BaseModel

from memory_sql.llm import Answer, Request, Usage
from memory_sql.llm.answers import read
from memory_sql.llm.tasks import ConsolidationTask, ExtractionTask
from tests.fakes import extracted
from tests.loopback import Received, Reply, empty, garbage, good, hang, loopback, refusal, status, truncated

T = TypeVar("T", bound=BaseModel | str)


def facts_of(turns: Iterable[tuple[int, str]]) -> str:
    return extracted(*((f"fact {text}", "individual", [n]) for n, text in turns))


def text_of(current: str | None, facts: Iterable[str]) -> str:
    return "\n".join(filter(None, [current, *facts]))


class Copying:
    async def generate(self, request: Request[T]) -> Answer[T]:
        task = request.material
        if isinstance(task, ExtractionTask):
            raw = facts_of((turn.n, turn.text) for turn in task.turns)
        else:
            assert isinstance(task, ConsolidationTask)
            raw = text_of(task.current, (item.text for item in task.observations))
        return Answer(read(raw, request.output), raw, Usage("copying", 1, 1))


def wants_facts(received: Received) -> bool:
    """Else it wants a text: of these a model that answers in prose is read as well."""
    return received.schema is not None and "text" not in received.schema["properties"]


def answer(received: Received) -> str:
    """What `Copying` says, read from the prompt: its lines of JSON are the turns, or the text so far and the facts."""
    lines = [json.loads(line) for line in received.prompt.splitlines() if line.startswith(('{"n":', '"'))]
    if wants_facts(received):
        return facts_of((line["n"], line["text"]) for line in lines)
    current = next((line for line in lines if isinstance(line, str)), None)
    return text_of(current, (line["text"] for line in lines if isinstance(line, dict)))


NO_ANSWER = (status(429), status(500), status(503), hang(5), garbage(b"\xff\x00<html>"))
NO_USE = (empty(), good(" "), refusal(), truncated('{"observations": ['))
NO_JSON = good("nonsense")  # where a text is asked for, it is one


def fickle(chance: random.Random) -> Reply:
    """Slow; one time in three it doesn't answer, or what it answers can't be used."""

    async def respond(request: web.Request, received: Received) -> web.StreamResponse:
        await asyncio.sleep(chance.uniform(0, 0.06))
        match chance.randrange(6):
            case 0:
                reply = chance.choice(NO_ANSWER)
            case 1:
                reply = chance.choice([*NO_USE, NO_JSON] if wants_facts(received) else NO_USE)
            case _:
                reply = good(answer(received))
        return await reply.respond(request, received)

    return Reply(respond)


@contextmanager
def serving(seed: int) -> Iterator[str]:
    """The base URL of a fickle model in a process of its own."""
    told, tell = os.pipe()
    pid = os.fork()
    if not pid:
        os.close(told)
        try:
            asyncio.run(_serve(seed, tell))
        finally:  # never back into what the parent was doing
            os._exit(3)
    os.close(tell)
    try:
        with os.fdopen(told) as pipe:
            yield pipe.readline().strip()
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


async def _serve(seed: int, tell: int) -> None:
    async with loopback(fickle(random.Random(seed))) as server:
        os.write(tell, f"{server.base_url}\n".encode())
        while True:
            server.requests.clear()  # nobody looks at them, and they are long
            await asyncio.sleep(1)
