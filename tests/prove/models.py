"""Models whose work can be counted: "fact <message>" for each message, and a text with a line for each fact.

What begins with "Release" is a statement that may be shared, and stays unchanged: it is always shared on request. "fact
2, not fact 1" contradicts fact 1 if both are shown at once.

`Copying` runs in this process and never fails. `serving` is a server of its own that speaks the OpenAI protocol, is slow,
and fails or answers nonsense one time in three.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from aiohttp import web
from pydantic import BaseModel

from memory_sql.consolidation.comparing import RecheckTask
from memory_sql.consolidation.task import ConsolidationTask
from memory_sql.formation.task import ExtractionTask
from memory_sql.llm import Answer, Request, Usage
from memory_sql.llm.answers import read
from memory_sql.propagation.task import PropagationTask
from tests.decoys import verdict
from tests.fakes import by_scope
from tests.loopback import (
    Received,
    Reply,
    empty,
    garbage,
    good,
    hang,
    loopback,
    numbered,
    refusal,
    status,
    truncated,
    turns,
)

T = TypeVar("T", bound=BaseModel | str)

PERSONAL = {"personal": True, "general": False, "valuable": False}


def facts_of(offered: Collection[str], turns: Sequence[tuple[int, str | None, str]]) -> str:
    """Of turns `(n, person, text)`, each in the list of who said it, and in what a conversation or a buffer beside keeps."""
    whose = {person: "individual" if "individual" in offered else f"individual_{person}" for _, person, _ in turns}
    beside = [alias for alias in offered if alias.startswith(("conversation", "named_"))]
    return by_scope(
        offered, *((fact_of(text), place, [n]) for n, person, text in turns for place in (whose[person], *beside))
    )


def fact_of(text: str) -> str:
    return text if text.startswith("Release ") else f"fact {text}"


def name_of(fact: str) -> str:
    """The message that it is of: the second word."""
    return fact.split()[1]


def shared(claims: Iterable[tuple[int, Sequence[str], str]]) -> str:
    """Of claims `(n, to, text)`, all but facts, and decoys that mustn't go."""
    decisions = [{"n": n, "to": to, **_verdict(text), "text": text} for n, tos, text in claims for to in tos]
    return json.dumps({"decisions": decisions})


def _verdict(text: str) -> dict[str, bool]:
    return PERSONAL if text.startswith("fact ") else verdict(text)


def text_of(current: str | None, facts: Iterable[str]) -> str:
    return "\n".join(filter(None, [current, *facts]))


def compared(pairs: Iterable[tuple[str, str]]) -> str:
    """Of pairs `(earlier, later)`, which contradict each other."""
    found = [
        {"pair": n, "is": "contradicts", "was": earlier, "now": later}
        for n, (earlier, later) in enumerate(pairs, 1)
        if later.endswith(f", not {earlier}")
    ]
    return json.dumps({"pairs": found})


def consolidated(current: str | None, facts: Sequence[str]) -> str:
    named = [
        {"newer": newer, "older": older, "was": before, "now": fact}
        for newer, fact in enumerate(facts, 1)
        for older, before in enumerate(facts, 1)
        if fact.endswith(f", not {before}")
    ]
    return json.dumps({"text": text_of(current, facts), "contradictions": named})


class Copying:
    """`words`: what it adds to the fact of a message, by the message."""

    def __init__(self) -> None:
        self.words: dict[str, str] = {}

    async def generate(self, request: Request[T]) -> Answer[T]:
        task = request.material
        if isinstance(task, ExtractionTask):
            said = [(turn.n, turn.person, turn.text + self.words.get(turn.text, "")) for turn in task.turns]
            raw = facts_of([scope.alias for scope in task.scopes], said)
        elif isinstance(task, PropagationTask):
            raw = shared((claim.n, claim.to, claim.text) for claim in task.claims)
        elif isinstance(task, RecheckTask):
            raw = compared((pair.earlier.content, pair.later.content) for pair in task.pairs)
        else:
            assert isinstance(task, ConsolidationTask)
            raw = consolidated(task.current, [item.text for item in task.observations])
        return Answer(read(raw, request.output), raw, Usage("copying", 1, 1))


def wants_facts(received: Received) -> bool:
    """Or decisions; else it wants a text: of these a model that answers in prose is read as well."""
    return received.schema is not None and "text" not in received.schema["properties"]


def wants_decisions(received: Received) -> bool:
    return received.schema is not None and "decisions" in received.schema["properties"]


def claims(prompt: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in prompt.splitlines() if line.startswith('{"n":')]


def answer(received: Received) -> str:
    """What `Copying` says, read from the prompt."""
    if wants_decisions(received):
        return shared((claim["n"], claim["to"], claim["text"]) for claim in claims(received.prompt))
    if wants_facts(received):
        assert received.schema is not None
        said = [(turn.n, turn.handle, turn.text) for turn in turns(received.prompt) if turn.is_persons]
        return facts_of(received.schema["properties"], said)
    return consolidated(text_so_far(received.prompt), numbered(received.prompt, "n"))


def text_so_far(prompt: str) -> str:
    """A line for each fact, some of which are of several sentences."""
    lines = list[str]()
    for sentence in numbered(prompt, "s"):
        if lines and not sentence.startswith(("fact ", "Release ")):
            lines[-1] += f" {sentence}"
        else:
            lines.append(sentence)
    return "\n".join(lines)


NO_ANSWER = (status(429), status(500), status(503), hang(5), garbage(b"\xff\x00<html>"))
NO_USE = (empty(), good(" "), refusal(), truncated('{"observations": ['))
NO_JSON = good("nonsense")  # where a text is asked for, it is one
NO_FACTS = (empty(), good(" "), truncated('{"observations": ['), NO_JSON)  # what is refused is set aside: not by chance


def fickle(chance: random.Random) -> Reply:
    """Slow; one time in three it doesn't answer, or what it answers can't be used."""

    async def respond(request: web.Request, received: Received) -> web.StreamResponse:
        await asyncio.sleep(chance.uniform(0, 0.06))
        match chance.randrange(6):
            case 0:
                reply = chance.choice(NO_ANSWER)
            case 1:
                reply = chance.choice(NO_FACTS if wants_facts(received) else NO_USE)
            case _:
                reply = good(answer(received))
        return await reply.respond(request, received)

    return Reply(respond)


@contextmanager
def serving(seed: int, model: Callable[[random.Random], Reply] = fickle) -> Iterator[str]:
    """The base URL of that model in a process of its own."""
    told, tell = os.pipe()
    pid = os.fork()
    if not pid:
        os.close(told)
        try:
            asyncio.run(_serve(model(random.Random(seed)), tell))
        finally:  # never back into what the parent was doing
            os._exit(3)
    os.close(tell)
    try:
        with os.fdopen(told) as pipe:
            yield pipe.readline().strip()
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


async def _serve(model: Reply, tell: int) -> None:
    async with loopback(model) as server:
        os.write(tell, f"{server.base_url}\n".encode())
        while True:
            server.requests.clear()  # nobody looks at them, and they are long
            await asyncio.sleep(1)
