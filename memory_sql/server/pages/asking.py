"""Ask: what the prompt would contain for a message, and why."""

from __future__ import annotations

from fastapi import Response

from memory_sql.domain.reading import Explanation
from memory_sql.errors import InputError
from memory_sql.server.pages.visits import Visit, shown

MOST_CHARACTERS = 20_000  # of a message
HITS = 10
ADMITTED = {
    "words": "it has words of the message",
    "terms": "its search cues have words of the message",
    "date": "it is of the time that the message names",
    "vector": "it means something similar",
    "successor": "it replaced something that was found",
    "all": "the message has no words to look for",
    "asked": "the turn before asks for it",
    "window": "words of the message stand around it",
    "source": "a memory made of it was found",
}


async def form(visit: Visit) -> Response:
    return shown(visit, "ask", message="", context=None, found=None)


async def answer(visit: Visit) -> Response:
    message = visit.form.get("message", "").strip()
    if not message:
        raise InputError("type a message")
    if len(message) > MOST_CHARACTERS:
        raise InputError(f"at most {MOST_CHARACTERS:,} characters")
    context = await visit.memory.context(**visit.whose, message=message)
    found = await visit.memory.search(message, **visit.whose, top_k=HITS, messages=HITS, explain=True)
    scores = [*(hit.score for hit in found.results), *(hit.score for hit in found.messages)]
    return shown(
        visit, "ask", message=message, context=context, found=found, bars=bars, most=max(scores, default=1.0) or 1.0,
        admitted=ADMITTED,
    )  # fmt: skip


def bars(explanation: Explanation | None, most: float, width: int = 200) -> list[tuple[str, float, float, float]]:
    """The parts of a score: name, value, where its bar begins, and how long it is; `most` is as long as `width`."""
    found, at = [], 0.0
    for name, value in (explanation.parts if explanation else {}).items():
        length = max(0.0, value) / most * width
        found.append((name.replace("_", " "), value, round(at, 1), round(length, 1)))
        at += length
    return found
