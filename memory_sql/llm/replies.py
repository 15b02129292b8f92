"""What a server replied: the text of an answer, its cost, or why there is none. Pure.

Read here and not by the client, whose types promise fields that a garbled or merely compatible reply lacks.
"""

from __future__ import annotations

import json
from typing import Annotated, NamedTuple, TypeVar

from pydantic import BaseModel, BeforeValidator, Field, ValidationError

from memory_sql.errors import LanguageModelError, RefusedError, TruncatedError, UnavailableError
from memory_sql.llm import answers

T = TypeVar("T", bound=BaseModel | str)
B = TypeVar("B", bound=BaseModel)

# Codes that may be repeated in a message. Any other text of a server may echo the prompt.
CODES = frozenset({
    "billing_hard_limit_reached", "context_length_exceeded", "insufficient_quota", "invalid_api_key",
    "invalid_json_schema", "invalid_request_error", "model_not_found", "rate_limit_exceeded", "server_error",
    "unsupported_parameter", "unsupported_value",
})  # fmt: skip
_NO_CREDIT = frozenset({"billing_hard_limit_reached", "insufficient_quota"})
OTHER_REASONS = _NO_CREDIT | {"invalid_api_key", "model_not_found"}
_REFUSALS = frozenset({"content_filter", "content_policy_violation", "invalid_prompt"})


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and 0 <= value < 2**31 else None


def _storable(text: str | None) -> str:
    """Postgres can't store NUL."""
    return (text or "").replace("\x00", "")


_Count = Annotated[int | None, BeforeValidator(_count)]
_Text = Annotated[str, BeforeValidator(lambda value: _storable(value) if isinstance(value, str | None) else value)]


def _said(value: object) -> object:
    """The text of a content that is one, or a list of parts, or an object that should have been written as a text."""
    if isinstance(value, list):
        parts = [part.get("text") for part in value if isinstance(part, dict)]
        return _storable("".join(text for text in parts if isinstance(text, str)))
    return json.dumps(value) if isinstance(value, dict) else value


_Said = Annotated[_Text, BeforeValidator(_said)]


class _ResponseUsage(BaseModel):
    input_tokens: _Count = None
    output_tokens: _Count = None


class _CompletionUsage(BaseModel):
    prompt_tokens: _Count = None
    completion_tokens: _Count = None


class _Part(BaseModel):
    type: str = ""
    text: _Text = ""
    refusal: _Text = ""


class _Item(BaseModel):
    type: str = ""
    content: list[_Part] | None = None


class _Error(BaseModel):
    code: _Text = ""


class _Incomplete(BaseModel):
    reason: _Text = ""


class _Response(BaseModel):
    output: list[_Item]
    status: str = "completed"
    error: _Error | None = None
    incomplete_details: _Incomplete | None = None
    model: _Text = ""
    usage: _ResponseUsage | None = None


class _Called(BaseModel):
    arguments: _Text = ""


class _Call(BaseModel):
    function: _Called = _Called()


class _Message(BaseModel):
    content: _Said = ""
    refusal: _Text = ""
    reasoning_content: _Text = ""
    reasoning: Annotated[_Text, BeforeValidator(lambda value: value if isinstance(value, str) else "")] = ""
    tool_calls: list[_Call] | None = None

    @property
    def elsewhere(self) -> str:
        """The answer, where a server puts it besides the content: into the reasoning, or into the arguments of a call."""
        calls = [call.function.arguments for call in self.tool_calls or ()]
        return calls[0] if len(calls) == 1 else self.reasoning_content or self.reasoning


class _Choice(BaseModel):
    message: _Message
    finish_reason: _Text = ""


class _Completion(BaseModel):
    choices: Annotated[list[_Choice], Field(min_length=1)]
    model: _Text = ""
    usage: _CompletionUsage | None = None


class Reply(NamedTuple):
    """`failure` is set if the server says that `text` isn't the whole answer."""

    text: str
    model: str
    input_tokens: int | None
    output_tokens: int | None
    failure: LanguageModelError | None
    elsewhere: str = ""


def value_of(reply: Reply, output: type[T]) -> T:
    if reply.failure is not None:
        raise reply.failure
    return answers.read(reply.text, output)


def text_of(reply: Reply, output: type[T]) -> str:
    """Thoughts are no text: what stands elsewhere counts only where JSON is asked for and there is some."""
    is_there = not reply.text.strip() and issubclass(output, BaseModel) and answers.may_hold_json(reply.elsewhere)
    return reply.elsewhere if is_there else reply.text


def read_response(body: bytes) -> Reply:
    response = parsed(body, _Response)
    parts = [part for item in response.output if item.type == "message" for part in item.content or ()]
    text = "".join(part.text for part in parts if part.type == "output_text")
    usage = response.usage or _ResponseUsage()
    failure = refused() if any(part.refusal for part in parts) else _response_failure(response)
    return Reply(text, response.model, usage.input_tokens, usage.output_tokens, failure)


def _response_failure(response: _Response) -> LanguageModelError | None:
    if response.status == "completed":
        return None
    if response.status == "incomplete":
        return incomplete(response.incomplete_details.reason if response.incomplete_details else "")
    if response.status != "failed":
        return UnavailableError("bad_response", "the server answered before the response was complete")
    code = response.error.code if response.error else ""
    reason = "rate_limit" if code == "rate_limit_exceeded" else "server_error"
    return failure_of(reason, "the response failed on the server", code)


def read_completion(body: bytes) -> Reply:
    completion = parsed(body, _Completion)
    choice = completion.choices[0]
    usage = completion.usage or _CompletionUsage()
    failure = refused() if choice.message.refusal else _choice_failure(choice)
    said = choice.message
    return Reply(said.content, completion.model, usage.prompt_tokens, usage.completion_tokens, failure, said.elsewhere)


def _choice_failure(choice: _Choice) -> LanguageModelError | None:
    return incomplete(choice.finish_reason) if choice.finish_reason in ("length", "content_filter") else None


def parsed(body: bytes, shape: type[B]) -> B:
    try:
        return shape.model_validate_json(body)
    except ValidationError as error:
        first = error.errors(include_input=False, include_context=False, include_url=False)[0]["type"]
    # Raised outside of the handler, because pydantic's error quotes the body.
    raise UnavailableError(
        "bad_response",
        f"the server's answer doesn't follow the protocol ({first}); is OPENAI_BASE_URL the address of its API, mostly with"
        " /v1?",
    )


# Failures


def is_about_length(said: str) -> bool:
    """Whether a server says that the prompt is longer than its model reads. Codes differ, and some have none."""
    text = said.lower()
    return any(words in text for words in _TOO_LONG)


_TOO_LONG = (
    "context_length_exceeded",
    "context length",
    "context window",
    "context size",
    "maximum context",
    "prompt is too long",
    "input is too long",
    "too many tokens",
    "string too long",
    "string_above_max_length",
)


def failure_of(reason: str, message: str, code: str) -> LanguageModelError:
    if code in _REFUSALS:
        return refused()
    reason = "quota" if code in _NO_CREDIT else reason
    return UnavailableError(reason, f"{message} ({code})" if code in CODES else message)


def refused() -> RefusedError:
    return RefusedError("the model declined to answer")


def incomplete(reason: str) -> LanguageModelError:
    if reason == "content_filter":
        return RefusedError("the answer was stopped by a content filter")
    return TruncatedError("the answer was cut off at a limit on its length")
