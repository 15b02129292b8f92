"""`LanguageModel` over the OpenAI protocol: OpenAI itself and compatible servers (Ollama, vLLM, llama.cpp …).

This is the only module that imports the `openai` package, and it is imported only when used. Answers are parsed here and
not by the client, whose types promise fields that a garbled or merely compatible answer lacks.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Awaitable
from typing import Annotated, Literal, NamedTuple, TypeVar

from pydantic import BaseModel, BeforeValidator, Field, ValidationError

from memory_sql.errors import ConfigurationError, LanguageModelError, RefusedError, TruncatedError, UnavailableError
from memory_sql.llm import Answer, Request, Usage, answers

try:
    import openai
    from openai import AsyncOpenAI, omit
    from openai.types.chat.completion_create_params import ResponseFormat
    from openai.types.responses import ResponseTextConfigParam
except ModuleNotFoundError as error:
    raise ConfigurationError('the openai package is missing: pip install "memory-sql[openai]"') from error

T = TypeVar("T", bound=BaseModel | str)
B = TypeVar("B", bound=BaseModel)

Api = Literal["responses", "chat"]

# Servers on the same machine accept any key, but the client requires one.
PLACEHOLDER_KEY = "not-needed"
OMITTED = omit
# The longest pause that the client makes between two attempts.
BACKOFF_SECONDS = 8.0

# Codes that may be repeated in a message. Any other text of a server may echo the prompt.
_CODES = frozenset({
    "billing_hard_limit_reached", "context_length_exceeded", "insufficient_quota", "invalid_api_key",
    "invalid_json_schema", "invalid_request_error", "model_not_found", "rate_limit_exceeded", "server_error",
    "unsupported_parameter", "unsupported_value",
})  # fmt: skip
_NO_CREDIT = frozenset({"billing_hard_limit_reached", "insufficient_quota"})
_REFUSALS = frozenset({"content_filter", "content_policy_violation", "invalid_prompt"})


class OpenAI:
    """Asks through the official client, which itself retries 408, 409, 429, 5xx, time-outs and lost connections.

    Key and base URL default to the client's own OPENAI_API_KEY and OPENAI_BASE_URL. `timeout_seconds` limits how long one
    attempt waits for the server, `deadline_seconds` a whole call with its retries, even if the server keeps the
    connection alive without ever finishing. It may be created outside of an event loop, and then belongs to the loop that
    first uses it.
    """

    def __init__(
        self,
        *,
        api: Api = "responses",
        timeout_seconds: float = 60.0,
        max_retries: int = 2,
        base_url: str | None = None,
        api_key: str | None = None,
    ) -> None:
        self.api = api
        self.deadline_seconds = deadline_of(timeout_seconds, max_retries)
        self._client = client_of(base_url, api_key).with_options(timeout=timeout_seconds, max_retries=max_retries)

    async def generate(self, request: Request[T]) -> Answer[T]:
        """See `LanguageModel.generate`. Retries have already been made, so a failure is final for now.

        An answer that can't be used was still paid for: its error has the usage.
        """
        started = time.perf_counter()
        send = self._send_response if self.api == "responses" else self._send_completion
        body = await answered(self._client, self.deadline_seconds, send(request))
        reply = _read_response(body) if self.api == "responses" else _read_completion(body)
        reply = reply._replace(text=_text_of(reply, request.output))
        usage = Usage(
            model=reply.model or request.model,
            input_tokens=reply.input_tokens,
            output_tokens=reply.output_tokens,
            latency_seconds=time.perf_counter() - started,
        )
        try:
            return Answer(value=_value(reply, request.output), raw=reply.text, usage=usage)
        except LanguageModelError as error:
            error.usage = usage
            raise

    async def close(self) -> None:
        await self._client.close()

    async def _send_response(self, request: Request[T]) -> bytes:
        response = await self._client.responses.with_raw_response.create(
            model=request.model,
            instructions=request.instructions,
            input=request.prompt,
            text=_text_format(request.output) or omit,
            store=False,
        )
        return response.http_response.content

    async def _send_completion(self, request: Request[T]) -> bytes:
        response = await self._client.chat.completions.with_raw_response.create(
            model=request.model,
            messages=[
                {"role": "system", "content": request.instructions},
                {"role": "user", "content": request.prompt},
            ],
            response_format=_response_format(request.output) or omit,
        )
        return response.http_response.content


def deadline_of(timeout_seconds: float, max_retries: int) -> float:
    """The longest that a call with its retries may take, in seconds."""
    return (timeout_seconds + BACKOFF_SECONDS) * (max_retries + 1)


async def answered(client: AsyncOpenAI, deadline_seconds: float, sending: Awaitable[bytes]) -> bytes:
    """Returns the body of the answer. Raises `LanguageModelError`."""
    tried = f"{client.max_retries + 1} times" if client.max_retries else "once"
    try:
        async with asyncio.timeout(deadline_seconds):
            return await sending
    except TimeoutError as error:
        raise UnavailableError("timeout", f"no answer within {deadline_seconds:g} seconds") from error
    except openai.APITimeoutError as error:
        raise UnavailableError("timeout", f"the model's server didn't answer in time; tried {tried}") from error
    except openai.APIConnectionError as error:
        raise UnavailableError("connection", f"the model's server can't be reached; tried {tried}") from error
    except openai.APIStatusError as error:
        failure = _status_failure(error)
    # Raised outside of the handler, because the client's error quotes the server, which may quote the prompt.
    raise failure


def client_of(base_url: str | None, api_key: str | None) -> AsyncOpenAI:
    try:
        client = AsyncOpenAI(base_url=base_url, api_key=api_key)
    except openai.OpenAIError:  # no key is given or in the environment
        client = AsyncOpenAI(base_url=base_url, api_key=PLACEHOLDER_KEY)
    client.api_key = client.api_key or PLACEHOLDER_KEY  # empty if only an admin key is in the environment
    url = client.base_url
    if url.scheme not in ("http", "https") or not url.host or (url.port or 0) > 65535:
        raise ConfigurationError("the base URL of the language model isn't an http:// or https:// address")
    if client.api_key == PLACEHOLDER_KEY and f".{url.host}".endswith(".api.openai.com"):
        raise ConfigurationError("OPENAI_API_KEY isn't set; a server of your own needs OPENAI_BASE_URL")
    if not (client.api_key.isascii() and client.api_key.isprintable()):
        raise ConfigurationError("OPENAI_API_KEY contains characters that a key can't have")
    return client


def _text_format(output: type[T]) -> ResponseTextConfigParam | None:
    if not issubclass(output, BaseModel):
        return None
    schema = answers.strict_schema(output)
    return {"format": {"type": "json_schema", "name": _name(output), "schema": schema, "strict": True}}


def _response_format(output: type[T]) -> ResponseFormat | None:
    if not issubclass(output, BaseModel):
        return None
    schema = answers.strict_schema(output)
    return {"type": "json_schema", "json_schema": {"name": _name(output), "schema": schema, "strict": True}}


def _name(output: type[BaseModel]) -> str:
    return re.sub(r"[^A-Za-z0-9_-]+", "_", output.__name__)[:64]


# Parsing answers


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


class _Reply(NamedTuple):
    """`failure` is set if the server says that `text` isn't the whole answer."""

    text: str
    model: str
    input_tokens: int | None
    output_tokens: int | None
    failure: LanguageModelError | None
    elsewhere: str = ""


def _value(reply: _Reply, output: type[T]) -> T:
    if reply.failure is not None:
        raise reply.failure
    return answers.read(reply.text, output)


def _text_of(reply: _Reply, output: type[T]) -> str:
    """Thoughts are no text: what stands elsewhere counts only where JSON is asked for and there is some."""
    is_there = not reply.text.strip() and issubclass(output, BaseModel) and answers.may_hold_json(reply.elsewhere)
    return reply.elsewhere if is_there else reply.text


def _read_response(body: bytes) -> _Reply:
    response = parsed(body, _Response)
    parts = [part for item in response.output if item.type == "message" for part in item.content or ()]
    text = "".join(part.text for part in parts if part.type == "output_text")
    usage = response.usage or _ResponseUsage()
    failure = _refused() if any(part.refusal for part in parts) else _response_failure(response)
    return _Reply(text, response.model, usage.input_tokens, usage.output_tokens, failure)


def _response_failure(response: _Response) -> LanguageModelError | None:
    if response.status == "completed":
        return None
    if response.status == "incomplete":
        return _incomplete(response.incomplete_details.reason if response.incomplete_details else "")
    if response.status != "failed":
        return UnavailableError("bad_response", "the server answered before the response was complete")
    code = response.error.code if response.error else ""
    reason = "rate_limit" if code == "rate_limit_exceeded" else "server_error"
    return _failure(reason, "the response failed on the server", code)


def _read_completion(body: bytes) -> _Reply:
    completion = parsed(body, _Completion)
    choice = completion.choices[0]
    usage = completion.usage or _CompletionUsage()
    failure = _refused() if choice.message.refusal else _choice_failure(choice)
    said = choice.message
    return _Reply(said.content, completion.model, usage.prompt_tokens, usage.completion_tokens, failure, said.elsewhere)


def _choice_failure(choice: _Choice) -> LanguageModelError | None:
    return _incomplete(choice.finish_reason) if choice.finish_reason in ("length", "content_filter") else None


def parsed(body: bytes, shape: type[B]) -> B:
    try:
        return shape.model_validate_json(body)
    except ValidationError as error:
        first = error.errors(include_input=False, include_context=False, include_url=False)[0]["type"]
    # Raised outside of the handler, because pydantic's error quotes the body.
    raise UnavailableError("bad_response", f"the server's answer doesn't follow the protocol ({first})")


# Failures


def _status_failure(error: openai.APIStatusError) -> LanguageModelError:
    return _failure(_reason(error.status_code), f"the server answered HTTP {error.status_code}", error.code or "")


def _failure(reason: str, message: str, code: str) -> LanguageModelError:
    if code in _REFUSALS:
        return _refused()
    reason = "quota" if code in _NO_CREDIT else reason
    return UnavailableError(reason, f"{message} ({code})" if code in _CODES else message)


def _reason(status: int) -> str:
    if status >= 500 or status == 409:
        return "server_error"
    return {401: "auth", 403: "auth", 408: "timeout", 429: "rate_limit"}.get(status, "rejected")


def _refused() -> RefusedError:
    return RefusedError("the model declined to answer")


def _incomplete(reason: str) -> LanguageModelError:
    if reason == "content_filter":
        return RefusedError("the answer was stopped by a content filter")
    return TruncatedError("the answer was cut off at a limit on its length")
