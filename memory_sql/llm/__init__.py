"""The protocol of language models: one method, with typed input and output."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from pydantic import BaseModel

from memory_sql.domain.usage import Usage
from memory_sql.errors import LanguageModelError, MemorySQLError

__all__ = ["Answer", "LanguageModel", "OwnedModel", "Request", "Usage", "ask"]

T = TypeVar("T", bound=BaseModel | str)


@dataclass(frozen=True, slots=True)
class Request(Generic[T]):
    """One question to the model.

    `output` is the pydantic type of a structured answer, or `str` for plain text. `material` is the data from which the
    prompt was rendered, for models that work by rules and don't read prose. `boundary` is the mark around text that people
    wrote. It is made for this request only, so an answer that contains it has copied its surroundings.
    """

    purpose: str
    model: str
    instructions: str
    prompt: str
    output: type[T]
    material: object = None
    prompt_version: str = ""
    boundary: str = ""


@dataclass(frozen=True, slots=True)
class Answer(Generic[T]):
    """A model's answer. `raw` is its text unchanged; `value` is the validated content."""

    value: T
    raw: str
    usage: Usage = field(default_factory=lambda: Usage(model="unknown"))


class LanguageModel(Protocol):
    """Anything that answers a `Request`.

    Raises `UnavailableError` if there is no answer (the request is fine, try again later), and `RefusedError`,
    `TruncatedError` or `AnswerError` for an answer that can't be used.
    """

    async def generate(self, request: Request[T]) -> Answer[T]: ...


class OwnedModel(LanguageModel, Protocol):
    """A model of ours, which must be closed."""

    async def close(self) -> None: ...


async def ask(model: LanguageModel, request: Request[T]) -> Answer[T]:
    """Calls `model.generate`. Any other error of a host's model is raised as a `LanguageModelError` that names it."""
    try:
        return await model.generate(request)
    except MemorySQLError:
        raise
    except Exception as error:
        raise LanguageModelError(f"the language model raised {type(error).__name__}") from error
