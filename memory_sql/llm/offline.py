"""A stand-in for a language model: rules, no network, the same answer every time.

It keeps the system running without a key. It quotes instead of understanding, is English only, and says so in the model's
name and in the first line of every text. The rules themselves are in formation, consolidation and propagation, beside
what they answer.
"""

from __future__ import annotations

import re
from typing import Protocol, TypeVar, cast, runtime_checkable

from pydantic import BaseModel

from memory_sql.errors import UnavailableError
from memory_sql.llm import Answer, Request, Usage

T = TypeVar("T", bound=BaseModel | str)

NAME = "offline-rules-1"
SHARED = re.compile(r"\b(we|our|the team|deadline|every|everybody|everyone|the decision)\b", re.IGNORECASE)
PERSONAL = re.compile(r"\b(i|i'm|i've|my|me)\b", re.IGNORECASE)


@runtime_checkable
class AnsweredByRule(Protocol):
    """The `material` of a request must be one of these for the offline model to answer it."""

    def by_rule(self) -> BaseModel: ...


class Offline:
    """Answers from the request's material without reading the prompt."""

    async def generate(self, request: Request[T]) -> Answer[T]:
        if not isinstance(request.material, AnsweredByRule):
            raise UnavailableError("offline", f"the offline rules can't do {request.purpose}")
        value = request.material.by_rule()
        return Answer(cast(T, value), value.model_dump_json(), Usage(NAME, input_tokens=0, output_tokens=0))

    async def close(self) -> None:
        """Nothing to close."""


def first_words(text: str, max_words: int) -> str:
    words = text.split()
    return text if len(words) <= max_words else " ".join(words[: max_words - 1]) + " …"
