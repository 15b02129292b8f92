"""What memory_sql asks of a language model: one method, typed in and out."""

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

    `output` is the pydantic type of a structured answer, or `str` for plain text. `material` is what the prompt was
    rendered from, for models that work by rule and don't read prose. `boundary` is the mark around what people wrote; it
    is made for this request alone, so an answer that holds it has copied its surroundings.
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
    """`raw` is the answer's text as it came; `value` is what it says, validated."""

    value: T
    raw: str
    usage: Usage = field(default_factory=lambda: Usage(model="unknown"))


class LanguageModel(Protocol):
    """Anything that answers a `Request`.

    Raises `UnavailableError` when there is no answer (nothing is wrong with the work, try later), `RefusedError`,
    `TruncatedError` or `AnswerError` when there is one that can't be used.
    """

    async def generate(self, request: Request[T]) -> Answer[T]: ...


class OwnedModel(LanguageModel, Protocol):
    """A model of our own making, which has to be closed."""

    async def close(self) -> None: ...


async def ask(model: LanguageModel, request: Request[T]) -> Answer[T]:
    """As `model.generate`; whatever else a model of the host's raises becomes a `LanguageModelError` of that name."""
    try:
        return await model.generate(request)
    except MemorySQLError:
        raise
    except Exception as error:
        raise LanguageModelError(f"the language model raised {type(error).__name__}") from error
