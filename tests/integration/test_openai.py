from __future__ import annotations

import asyncio
import importlib
import logging
import socket
import sys
import time
import traceback
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, get_args

import pytest
from aiohttp import web
from pydantic import BaseModel

from memory_sql.errors import (
    AnswerError,
    ConfigurationError,
    LanguageModelError,
    PromptTooLongError,
    RefusedError,
    TruncatedError,
    UnavailableError,
)
from memory_sql.llm import LanguageModel, Request, Usage, answers
from memory_sql.llm.dialect import Api
from memory_sql.llm.openai import OpenAI
from tests.loopback import (
    INPUT_TOKENS,
    OUTPUT_TOKENS,
    Loopback,
    Received,
    Reply,
    Script,
    drip,
    empty,
    failed,
    filtered,
    garbage,
    good,
    hang,
    loopback,
    refusal,
    status,
    truncated,
)

SECRET = "Mia has a zebra"
GOOD = f'{{"observations": [{{"content": "{SECRET}", "scope": "individual"}}]}}'


class Item(BaseModel):
    content: str
    scope: str


class Items(BaseModel):
    observations: list[Item]


STRUCTURED = Request(
    purpose="extraction", model="small", instructions="You keep notes.", prompt=f"She said: {SECRET}", output=Items
)
PLAIN = Request(
    purpose="consolidation", model="large", instructions="You sum up.", prompt=f"She said: {SECRET}", output=str
)


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_ADMIN_KEY", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(params=get_args(Api))
def api(request: pytest.FixtureRequest) -> Api:
    api: Api = request.param
    return api


@asynccontextmanager
async def using(
    script: Script, api: Api, *, timeout_seconds: float = 5, max_retries: int = 0
) -> AsyncIterator[tuple[OpenAI, Loopback]]:
    async with loopback(script) as server:
        model = OpenAI(api=api, base_url=server.base_url, timeout_seconds=timeout_seconds, max_retries=max_retries)
        try:
            yield model, server
        finally:
            await model.close()


async def failure(script: Script, api: Api, max_retries: int = 0) -> tuple[LanguageModelError, Loopback]:
    async with using(script, api, max_retries=max_retries) as (model, server):
        with pytest.raises(LanguageModelError) as caught:
            await model.generate(STRUCTURED)
    return caught.value, server


async def test_a_structured_answer(api: Api) -> None:
    async with using(good(GOOD), api) as (client, _):
        model: LanguageModel = client
        answer = await model.generate(STRUCTURED)
    assert answer.value == Items(observations=[Item(content=SECRET, scope="individual")])
    assert answer.raw == GOOD
    assert (answer.usage.input_tokens, answer.usage.output_tokens) == (INPUT_TOKENS, OUTPUT_TOKENS)
    assert answer.usage.model == "small-loopback"
    assert 0 < answer.usage.latency_seconds < 5


async def test_a_plain_answer(api: Api) -> None:
    async with using(good(" Mia likes tea. \n"), api) as (model, server):
        answer = await model.generate(PLAIN)
    assert (answer.value, answer.raw) == ("Mia likes tea.", " Mia likes tea. \n")
    assert server.requests[0].schema is None


async def test_what_is_asked() -> None:
    asked: list[Received] = []
    for api in get_args(Api):
        async with using(good(GOOD), api) as (model, server):
            await model.generate(STRUCTURED)
            await model.generate(PLAIN)
            asked += server.requests
    schema = answers.strict_schema(Items)
    bodies = [(received.path, received.body) for received in asked]
    assert bodies == [
        (
            "/v1/responses",
            {
                "model": "small",
                "instructions": "You keep notes.",
                "input": STRUCTURED.prompt,
                "text": {"format": {"type": "json_schema", "name": "Items", "schema": schema, "strict": True}},
                "store": False,
            },
        ),
        ("/v1/responses", {"model": "large", "instructions": "You sum up.", "input": PLAIN.prompt, "store": False}),
        (
            "/v1/chat/completions",
            {
                "model": "small",
                "messages": [
                    {"role": "system", "content": "You keep notes."},
                    {"role": "user", "content": STRUCTURED.prompt},
                ],
                "response_format": {
                    "type": "json_schema",
                    "json_schema": {"name": "Items", "schema": schema, "strict": True},
                },
            },
        ),
        (
            "/v1/chat/completions",
            {
                "model": "large",
                "messages": [
                    {"role": "system", "content": "You sum up."},
                    {"role": "user", "content": PLAIN.prompt},
                ],
            },
        ),
    ]


async def test_the_server_can_compute_its_answer(api: Api) -> None:
    def answer(received: Received) -> str:
        assert received.schema == answers.strict_schema(Items)
        return GOOD.replace(SECRET, f"{received.instructions} {received.prompt}")

    async with using(answer, api) as (model, _):
        found = await model.generate(STRUCTURED)
    assert found.value.observations[0].content == f"You keep notes. She said: {SECRET}"


@pytest.mark.parametrize("code", [429, 500, 503, 408, 409])
async def test_retries_are_the_client_s_own(api: Api, code: int) -> None:
    async with using([status(code), good(GOOD)], api, max_retries=2) as (model, server):
        answer = await model.generate(STRUCTURED)
    assert len(server.requests) == 2
    assert answer.raw == GOOD
    assert [received.headers["x-stainless-retry-count"] for received in server.requests] == ["0", "1"]


@pytest.mark.parametrize(
    ("code", "requests", "reason"),
    [
        (429, 3, "rate_limit"),
        (500, 3, "server_error"),
        (503, 3, "server_error"),
        (529, 3, "server_error"),
        (408, 3, "timeout"),
        (409, 3, "server_error"),
        (400, 3, "rejected"),  # another form of answer is asked for
        (401, 1, "auth"),
        (403, 1, "auth"),
        (404, 1, "rejected"),
        (413, 1, "rejected"),
        (422, 3, "rejected"),
    ],
)
async def test_an_http_error_has_a_reason(api: Api, code: int, requests: int, reason: str) -> None:
    error, server = await failure([status(code, f"cannot process: {SECRET}")] * 3, api, max_retries=2)
    assert isinstance(error, UnavailableError)
    assert error.reason == reason
    assert str(error).startswith(f"the server answered HTTP {code}")
    assert len(server.requests) == requests


@pytest.mark.parametrize("code", ["insufficient_quota", "billing_hard_limit_reached"])
async def test_an_account_without_credit_has_its_own_reason(api: Api, code: str) -> None:
    error, _ = await failure(status(429, {"error": {"code": code, "message": SECRET}}), api)
    assert isinstance(error, UnavailableError)
    assert (error.reason, str(error)) == ("quota", f"the server answered HTTP 429 ({code})")


async def test_a_known_code_is_named_and_an_unknown_one_is_not(api: Api) -> None:
    def body(code: str) -> dict[str, Any]:
        return {"error": {"code": code, "message": SECRET, "param": SECRET, "type": SECRET}}

    known, _ = await failure(status(400, body("unsupported_value")), api)
    long, _ = await failure(status(400, body("context_length_exceeded")), api)
    unknown, _ = await failure(status(400, body(SECRET)), api)
    filtered_, _ = await failure(status(400, body("content_filter")), api)
    assert str(known) == "the server answered HTTP 400 (unsupported_value)"
    assert isinstance(long, PromptTooLongError)
    assert str(unknown) == "the server answered HTTP 400"
    assert isinstance(filtered_, RefusedError)


@pytest.mark.slow
async def test_a_time_out_is_retried_and_then_final(api: Api) -> None:
    async with using(hang(30), api, timeout_seconds=0.2, max_retries=1) as (model, server):
        with pytest.raises(UnavailableError, match="tried 2 times") as caught:
            await model.generate(STRUCTURED)
    assert caught.value.reason == "timeout"
    assert len(server.requests) == 2


@pytest.mark.slow
async def test_an_answer_after_a_time_out_counts(api: Api) -> None:
    async with using([hang(30), good(GOOD)], api, timeout_seconds=0.5, max_retries=1) as (model, _):
        answer = await model.generate(STRUCTURED)
    assert answer.raw == GOOD
    assert answer.usage.latency_seconds > 0.5


@pytest.mark.slow
async def test_a_server_that_never_ends_its_answer_meets_the_deadline(api: Api) -> None:
    async with using(drip(0.05), api, timeout_seconds=0.2) as (model, _):
        assert model.deadline_seconds == pytest.approx(8.2)
        model.deadline_seconds = 0.5
        with pytest.raises(UnavailableError) as caught:
            await model.generate(STRUCTURED)
    assert caught.value.reason == "timeout"


async def test_cancelling_is_not_a_time_out(api: Api) -> None:
    asked = asyncio.Event()

    async def hold(_: web.Request, __: Received) -> web.Response:
        asked.set()
        await asyncio.sleep(30)
        return web.Response()

    async with using(Reply(hold), api) as (model, _):
        call = asyncio.create_task(model.generate(STRUCTURED))
        await asked.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call


async def test_no_server_is_no_connection(api: Api) -> None:
    async with loopback([]) as server:
        pass
    model = OpenAI(api=api, base_url=server.base_url, max_retries=0)
    with pytest.raises(UnavailableError) as caught:
        await model.generate(STRUCTURED)
    await model.close()
    assert caught.value.reason == "connection"


@pytest.mark.parametrize(
    ("reply", "wanted"),
    [
        (refusal(f"I won't repeat {SECRET}"), RefusedError),
        (filtered(GOOD[:40]), RefusedError),
        (truncated(GOOD[:60]), TruncatedError),
        (truncated(GOOD), TruncatedError),
        (good(GOOD[:60]), TruncatedError),
    ],
)
async def test_no_whole_answer(api: Api, reply: Reply, wanted: type[LanguageModelError]) -> None:
    error, _ = await failure(reply, api)
    assert type(error) is wanted
    assert isinstance(error.usage, Usage)
    assert (error.usage.model, error.usage.output_tokens) == ("small-loopback", OUTPUT_TOKENS)


@pytest.mark.parametrize(
    ("code", "wanted", "reason"),
    [
        ("rate_limit_exceeded", UnavailableError, "rate_limit"),
        ("server_error", UnavailableError, "server_error"),
        (SECRET, UnavailableError, "server_error"),
        ("invalid_prompt", RefusedError, "refused"),
    ],
)
async def test_a_failed_response(code: str, wanted: type[LanguageModelError], reason: str) -> None:
    error, _ = await failure(failed(code), "responses")
    assert type(error) is wanted
    assert error.reason == reason


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (empty(), "empty"),
        (good(""), "empty"),
        (good(" \n"), "empty"),
        (good(f"I found that {SECRET}."), "not_json"),
        (good(f'["{SECRET}"]'), "wrong_shape"),
        (good(f'{{"{SECRET}": []}}'), "wrong_shape"),
    ],
)
async def test_an_answer_that_is_not_what_was_asked_for(api: Api, reply: Reply, reason: str) -> None:
    error, _ = await failure(reply, api)
    assert isinstance(error, AnswerError)
    assert error.reason == reason
    assert isinstance(error.usage, Usage)
    assert error.usage.input_tokens == INPUT_TOKENS


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\x00\xff\xfe garbage",
        f"<html>Log in, {SECRET}</html>".encode(),
        b"null",
        b"[]",
        b"{}",
        b'"text"',
        b"[" * 100_000,
        b'{"error": {"message": "Mia has a zebra", "code": 502}}',
        b'{"choices": [], "output": null}',
        b'{"choices": null, "output": "Mia has a zebra"}',
        b'{"choices": [null], "output": [null]}',
        b'{"choices": [{}], "output": [{"type": "message", "content": "Mia has a zebra"}]}',
        b'{"choices": [{"message": null}], "output": [], "status": "in_progress"}',
        b'{"choices": [{"message": {"content": 7}}], "output": [{"type": "message", "content": [7]}]}',
        b'{"choices": [{"message": {"content": "\\ud800"}}], "output": [{"type": "\\ud800"}]}',
    ],
)
@pytest.mark.parametrize("content_type", ["application/json", "text/html"])
async def test_a_garbled_answer_is_no_answer(api: Api, body: bytes, content_type: str) -> None:
    error, _ = await failure(garbage(body, content_type), api)
    assert isinstance(error, UnavailableError)
    assert error.reason == "bad_response"


async def test_what_only_compatible_servers_leave_out_is_not_needed() -> None:
    chat = b'{"choices": [{"message": {"content": "Mia\\u0000 likes tea."}}], "usage": {"prompt_tokens": -1}}'
    async with using(garbage(chat), "chat") as (model, _):
        answer = await model.generate(PLAIN)
    assert answer.raw == answer.value == "Mia likes tea."
    assert (answer.usage.model, answer.usage.input_tokens, answer.usage.output_tokens) == ("large", None, None)
    response = b'{"output": [{"type": "message", "content": [{"type": "output_text", "text": "Mia likes tea."}]}]}'
    async with using(garbage(response), "responses") as (model, _):
        answer = await model.generate(PLAIN)
    assert (answer.value, answer.usage.model) == ("Mia likes tea.", "large")


FAILURES: dict[str, Callable[[], Reply]] = {
    "bad request": lambda: status(400, f"cannot process: {SECRET}"),
    "server error": lambda: status(500, {"error": {"message": SECRET, "code": SECRET, "type": SECRET}}),
    "refusal": lambda: refusal(f"I won't repeat {SECRET}"),
    "truncated": lambda: truncated(GOOD[:60]),
    "wrong shape": lambda: good(f'{{"{SECRET}": "{SECRET}"}}'),
    "wrong field": lambda: good(f'{{"observations": [{{"content": 1, "{SECRET}": "{SECRET}"}}]}}'),
    "cut": lambda: good(GOOD[:60]),
    "prose": lambda: good(SECRET),
    "garbage": lambda: garbage(SECRET.encode()),
    "garbled": lambda: garbage(f'{{"choices": "{SECRET}", "output": "{SECRET}"}}'.encode()),
    "hang": lambda: hang(30),
}


@pytest.mark.parametrize("name", FAILURES)
async def test_neither_message_nor_traceback_nor_log_holds_a_text(
    api: Api, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with using(FAILURES[name](), api, timeout_seconds=0.3) as (model, _):
        with pytest.raises(LanguageModelError) as caught:
            await model.generate(STRUCTURED)
    assert SECRET not in str(caught.value)
    assert SECRET not in "".join(traceback.format_exception(caught.value))
    assert SECRET not in caplog.text


def test_it_may_be_made_outside_of_an_event_loop() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    model = OpenAI(base_url=f"http://127.0.0.1:{port}/v1")

    async def ask() -> str:
        async with loopback(good("Mia likes tea."), port=port):
            answer = await model.generate(PLAIN)
            await model.close()
        return answer.value

    assert asyncio.run(ask()) == "Mia likes tea."


async def test_key_and_address_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    async def key(**given: Any) -> str:
        model = OpenAI(**given)
        await model.generate(PLAIN)
        await model.close()
        return server.requests[-1].headers["authorization"]

    async with loopback(good("Mia likes tea.")) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        assert "sk-" not in await key()
        monkeypatch.setenv("OPENAI_ADMIN_KEY", "sk-admin")
        assert "sk-" not in await key()
        monkeypatch.setenv("OPENAI_API_KEY", "sk-environment")
        assert await key() == "Bearer sk-environment"
        assert await key(api_key="sk-argument") == "Bearer sk-argument"


def test_wrong_settings_are_named_but_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigurationError, match="OPENAI_API_KEY"):
        OpenAI()
    with pytest.raises(ConfigurationError, match="OPENAI_API_KEY"):
        OpenAI(base_url="https://eu.api.openai.com/v1")
    for base_url in ("localhost:8091/v1", "ftp://127.0.0.1/v1", "http://127.0.0.1:99999/v1", "nonsense"):
        with pytest.raises(ConfigurationError, match="OPENAI_BASE_URL"):
            OpenAI(base_url=base_url)
    for key in ("sk-ключ", "sk-\n"):
        with pytest.raises(ConfigurationError) as caught:
            OpenAI(api_key=key)
        assert "sk-" not in str(caught.value)
    monkeypatch.setenv("OPENAI_ADMIN_KEY", "sk-admin")
    with pytest.raises(ConfigurationError, match="OPENAI_API_KEY"):
        OpenAI()


def test_a_missing_package_is_a_wrong_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "openai", None)
    monkeypatch.delitem(sys.modules, "memory_sql.llm.openai")
    with pytest.raises(ConfigurationError, match=r'pip install "memory-sql\[openai\]"'):
        importlib.import_module("memory_sql.llm.openai")


async def test_calls_run_side_by_side(api: Api) -> None:
    async with using(hang(0.3), api) as (model, _):
        started = time.perf_counter()
        found = await asyncio.gather(*(model.generate(PLAIN) for _ in range(10)))
        assert time.perf_counter() - started < 2
    assert [answer.value for answer in found] == ["late"] * 10
