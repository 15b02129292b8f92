"""A language model whose answers the test says. The only thing that is faked."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from pydantic import BaseModel

from memory_sql.llm import Answer, Request, Usage
from memory_sql.llm.answers import read

T = TypeVar("T", bound=BaseModel | str)
Reply = str | BaseException | Callable[[Request[Any]], "str | Awaitable[str]"]


class Scripted:
    """Gives the replies in turn, read as real answers are; a question too many is an error. Keeps the requests."""

    def __init__(self, *replies: Reply) -> None:
        self.replies = list(replies)
        self.requests: list[Request[Any]] = []

    def then(self, *replies: Reply) -> None:
        self.replies += replies

    async def generate(self, request: Request[T]) -> Answer[T]:
        self.requests.append(request)
        assert self.replies, f"the model was asked once too often: {request.purpose}"
        reply = self.replies.pop(0)
        if isinstance(reply, BaseException):
            raise reply
        if callable(reply):
            answered = reply(request)
            reply = answered if isinstance(answered, str) else await answered
        return Answer(read(reply, request.output), reply, Usage("scripted", 100, 10, 0.01))


def extracted(*items: tuple[str, str] | tuple[str, str, list[int]]) -> str:
    """The answer to an extraction: `(content, scope)` or `(content, scope, sources)` each."""
    observations = [
        {"content": item[0], "scope": item[1], "sources": list(item[2]) if len(item) == 3 else [1]} for item in items
    ]
    return json.dumps({"observations": observations})
