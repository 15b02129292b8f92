"""`LanguageModel` over the OpenAI protocol: OpenAI itself and compatible servers (Ollama, vLLM, llama.cpp …).

This is the only module that imports the `openai` package, and it is imported only when used. What a server refuses of a
request is left out from then on (`memory_sql.llm.dialect`).
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Awaitable, Collection
from typing import Any, TypeVar

from pydantic import BaseModel

from memory_sql.errors import (
    ConfigurationError,
    LanguageModelError,
    MemorySQLError,
    PromptTooLongError,
    UnavailableError,
)
from memory_sql.llm import Answer, Request, Usage
from memory_sql.llm.dialect import MISSING, REFUSED, Api, Dialect, Notes, Output, Refusal, refusal_of
from memory_sql.llm.replies import (
    CODES,
    OTHER_REASONS,
    failure_of,
    is_about_length,
    read_completion,
    read_response,
    text_of,
    value_of,
)
from memory_sql.llm.retry import deadline_of
from memory_sql.llm.sending import Sent

try:
    import openai
    from openai import AsyncAzureOpenAI, AsyncOpenAI, omit
except ModuleNotFoundError as error:
    raise ConfigurationError('the openai package is missing: pip install "memory-sql[openai]"') from error

T = TypeVar("T", bound=BaseModel | str)
B = TypeVar("B", bound=BaseModel)

log = logging.getLogger("memory_sql")

# Servers on the same machine accept any key, but the client requires one.
PLACEHOLDER_KEY = "not-needed"
OMITTED = omit
MOST_REFUSALS = 10  # each leaves something out, so there are never more


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
        api: Api | None = None,
        output: Output | None = None,
        timeout_seconds: float = 60.0,
        max_retries: int = 2,
        base_url: str | None = None,
        api_key: str | None = None,
        azure: bool = False,
        temperature: float | None = None,
        seed: int | None = None,
        reasoning_effort: str | None = None,
        max_tokens: int | None = None,
        notes: Notes | None = None,
    ) -> None:
        """`api` and `output`, the form of answers: None: what the server takes, best first.

        `notes`: where it is kept what servers take. `azure`: the client's own variables name the endpoint, key and version.
        """
        self.deadline_seconds = deadline_of(timeout_seconds, max_retries)
        self._client = (_azure_client() if azure else client_of(base_url, api_key)).with_options(
            timeout=timeout_seconds, max_retries=max_retries
        )
        self._api, self._output, self._notes = api, output, notes
        self._server = str(self._client.base_url.copy_with(userinfo=b"", query=None)).rstrip("/")
        self._options = {
            "temperature": temperature,
            "seed": seed,
            "reasoning_effort": reasoning_effort,
            "max_completion_tokens": max_tokens,
        }
        self._worked = dict[str, Dialect]()

    async def generate(self, request: Request[T]) -> Answer[T]:
        """See `LanguageModel.generate`. Retries have already been made, so a failure is final for now.

        An answer that can't be used was still paid for: its error has the usage.
        """
        started = time.perf_counter()
        dialect, body = await self._answered(request)
        reply = read_response(body) if dialect.api == "responses" else read_completion(body)
        reply = reply._replace(text=text_of(reply, request.output))
        usage = Usage(
            model=reply.model or request.model,
            input_tokens=reply.input_tokens,
            output_tokens=reply.output_tokens,
            latency_seconds=time.perf_counter() - started,
        )
        try:
            return Answer(value=value_of(reply, request.output), raw=reply.text, usage=usage)
        except LanguageModelError as error:
            error.usage = usage
            raise

    async def close(self) -> None:
        await self._client.close()

    async def taken(self, model: str) -> Dialect:
        """How the server takes requests for the model, as far as that is known."""
        if model in self._worked:
            return self._worked[model]
        noted = None
        if self._notes is not None:
            try:
                noted = await self._notes.find(self._server, model)
            except MemorySQLError as error:
                log.warning("what the model's server takes can't be looked up: %s", error)
        if noted is not None and self._api in (None, noted.api):
            return noted._replace(output=self._output or noted.output)
        return Dialect(self._api or "responses", self._output or "json_schema")

    async def asked_by(self, model: str) -> str | None:
        """`taken` in words; None: it hasn't answered yet."""
        return _in_words(self._worked[model]) if model in self._worked else None

    async def _answered(self, request: Request[T]) -> tuple[Dialect, bytes]:
        """By the dialect that the server takes. Raises the first refusal where nothing helps."""
        known = dialect = await self.taken(request.model)
        first: UnavailableError | None = None
        for _ in range(MOST_REFUSALS):
            sent = Sent(request, dialect, self._options)
            try:
                body = await answered(self._client, self.deadline_seconds, self._send(sent), sent)
            except _RejectedError as error:
                first, refused = first or error, error.refusal
                has_worked = request.model in self._worked
                changed = dialect.after(
                    refused, has_worked=has_worked, any_api=self._api is None, any_output=self._output is None
                )
                if changed is None or changed == dialect:
                    break
                dialect = changed
                continue
            await self._note(request.model, dialect, is_new=dialect != known)
            return dialect, body
        assert first is not None
        raise first

    async def _note(self, model: str, dialect: Dialect, *, is_new: bool) -> None:
        self._worked[model] = dialect
        if not is_new:
            return
        log.info("the model %s is asked by %s", model, _in_words(dialect))
        if self._notes is not None:
            try:
                await self._notes.keep(self._server, model, dialect)
            except MemorySQLError as error:
                log.warning("what the model's server takes can't be noted: %s", error)

    async def _send(self, sent: Sent) -> bytes:
        if sent.dialect.api == "responses":
            create: Any = self._client.responses.with_raw_response.create
        else:
            create = self._client.chat.completions.with_raw_response.create
        response = await create(**sent.parameters)
        body: bytes = response.http_response.content
        return body


def _in_words(dialect: Dialect) -> str:
    without = f", without {', '.join(sorted(dialect.without))}" if dialect.without else ""
    return f"{dialect.api}, {dialect.output}{without}"


async def answered(
    client: AsyncOpenAI, deadline_seconds: float, sending: Awaitable[bytes], sent: Sent | None = None
) -> bytes:
    """Returns the body of the answer. Raises `LanguageModelError`."""
    tried = f"{client.max_retries + 1} times" if client.max_retries else "once"
    where = f"the model's server at {client.base_url.netloc.decode('ascii').rpartition('@')[2]}"
    try:
        async with asyncio.timeout(deadline_seconds):
            return await sending
    except TimeoutError as error:
        raise UnavailableError("timeout", f"no answer within {deadline_seconds:g} seconds") from error
    except openai.APITimeoutError as error:
        raise UnavailableError("timeout", f"{where} didn't answer in time; tried {tried}") from error
    except openai.APIConnectionError as error:
        raise UnavailableError(
            "connection", f"{where} can't be reached; tried {tried}; is OPENAI_BASE_URL right?"
        ) from error
    except openai.APIStatusError as error:
        failure = _status_failure(error, sent)
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
        raise ConfigurationError(
            "the address of the model's server (OPENAI_BASE_URL) isn't an http:// or https:// address"
        )
    if client.api_key == PLACEHOLDER_KEY and f".{url.host}".endswith(".api.openai.com"):
        raise ConfigurationError("OPENAI_API_KEY isn't set; a server of your own needs OPENAI_BASE_URL")
    if not (client.api_key.isascii() and client.api_key.isprintable()):
        raise ConfigurationError("OPENAI_API_KEY contains characters that a key can't have")
    return client


def _azure_client() -> AsyncAzureOpenAI:
    missing = [name for name in ("AZURE_OPENAI_ENDPOINT", "OPENAI_API_VERSION") if not os.environ.get(name)]
    if not missing and not (os.environ.get("AZURE_OPENAI_API_KEY") or os.environ.get("AZURE_OPENAI_AD_TOKEN")):
        missing = ["AZURE_OPENAI_API_KEY"]
    if missing:
        raise ConfigurationError(f"{' and '.join(missing)} must be set for a model on Azure")
    return AsyncAzureOpenAI()


# Failures


class _RejectedError(UnavailableError):
    """The server refuses the request, or what its `refusal` names of it."""

    def __init__(self, reason: str, message: str, refusal: Refusal) -> None:
        super().__init__(reason, message)
        self.refusal = refusal


def _status_failure(error: openai.APIStatusError, sent: Sent | None) -> LanguageModelError:
    status, code = error.status_code, error.code if isinstance(error.code, str) else ""
    failure = failure_of(_reason(status), f"the server answered HTTP {status}", code)
    if not isinstance(failure, UnavailableError):
        return failure
    if status in (400, 413, 422) and is_about_length(f"{code} {error.body}"):
        return PromptTooLongError("the prompt is longer than the model reads")
    said = [text for text in (code if code in CODES else "",) if text]
    if sent is None or status not in REFUSED or code in OTHER_REASONS:
        return type(failure)(failure.reason, _told(status, said, _way_out(status, code, sent)))
    param = error.param if isinstance(error.param, str) else None
    refusal = refusal_of(status, param, str(error.body), sent.options)
    said += [refusal.named] if refusal.named else []
    return _RejectedError(failure.reason, _told(status, said, _way_out(status, code, sent)), refusal)


def _told(status: int, said: Collection[str], way_out: str) -> str:
    about = f" ({', '.join(said)})" if said else ""
    return f"the server answered HTTP {status}{about}{way_out}"


def _way_out(status: int, code: str, sent: Sent | None) -> str:
    if status == 401:
        return "; is OPENAI_API_KEY the key of this server?"
    if sent is None or (status not in MISSING and code != "model_not_found"):
        return ""
    has_model = f"has it the model {sent.model} (settings fast_model, slow_model)"
    if code == "model_not_found":
        return f"; {has_model}?"
    other_api = "; a server without /responses needs MEMORY_SQL_LLM_API=chat" if sent.dialect.api == "responses" else ""
    return f"; {has_model}, and is OPENAI_BASE_URL the address of its API, mostly with /v1?{other_api}"


def _reason(status: int) -> str:
    if status >= 500 or status == 409:
        return "server_error"
    return {401: "auth", 403: "auth", 408: "timeout", 429: "rate_limit"}.get(status, "rejected")
