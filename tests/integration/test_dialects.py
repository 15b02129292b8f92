"""Servers that refuse a part of a request: found out once for each server and model, and remembered across processes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from aiohttp import web
from pydantic import BaseModel

from memory_sql.config import Settings
from memory_sql.errors import ConfigurationError, LanguageModelError, RefusedError, UnavailableError
from memory_sql.llm import Request
from memory_sql.llm.openai import OpenAI
from memory_sql.memory import Memory
from tests.database import rows
from tests.loopback import Loopback, Received, Reply, good, loopback, status

SECRET = "Mia has a zebra"


class Items(BaseModel):
    items: list[str]


ASKED = Request("extraction", "small", "You keep notes. Answer in JSON.", f"She said: {SECRET}", Items)
ANSWER = '{"items": ["tea"]}'


def asked_for(received: Received) -> str:
    """The form of the answer that a request asks for."""
    asked = received.body.get("response_format") or received.body.get("text", {}).get("format") or {"type": "text"}
    return str(asked["type"])


def refusing(refuses: Callable[[Received], Reply | None]) -> Reply:
    """Refuses what it doesn't know, and answers else."""

    async def respond(request: web.Request, received: Received) -> web.StreamResponse:
        return await (refuses(received) or good(ANSWER)).respond(request, received)

    return Reply(respond)


def error(http: int, message: str, **more: Any) -> Reply:
    return status(http, {"error": {"message": f"{message} ({SECRET})", "type": "invalid_request_error", **more}})


def no_json_schema(received: Received) -> Reply | None:
    """As DeepSeek."""
    return error(400, "This response_format type is unavailable now") if asked_for(received) == "json_schema" else None


def no_formats(received: Received) -> Reply | None:
    """As servers that check the fields of a request."""
    if "response_format" not in received.body and "text" not in received.body:
        return None
    name = "response_format" if received.is_chat else "text"
    return status(422, {"detail": [{"type": "extra_forbidden", "loc": ["body", name], "msg": "Extra inputs"}]})


def no_such_schema(received: Received) -> Reply | None:
    is_schema = asked_for(received) == "json_schema"
    return error(400, "Invalid schema: `anyOf` isn't supported", code="invalid_json_schema") if is_schema else None


def no_temperature(received: Received) -> Reply | None:
    """As reasoning models."""
    if "temperature" not in received.body:
        return None
    return error(400, "Unsupported value", param="temperature", code="unsupported_value")


def no_new_limit(received: Received) -> Reply | None:
    names = {"max_completion_tokens", "max_output_tokens"} & received.body.keys()
    return error(400, f"unknown field: {names.pop()}") if names else None


def no_old_limit(received: Received) -> Reply | None:
    is_old = "max_tokens" in received.body
    return error(400, "Use 'max_completion_tokens' instead.", param="max_tokens") if is_old else None


def no_system_role(received: Received) -> Reply | None:
    """As the templates of some models."""
    is_there = received.body.get("instructions") or any(
        m["role"] == "system" for m in received.body.get("messages", ())
    )
    return error(400, "System role not supported") if is_there else None


def no_store(received: Received) -> Reply | None:
    return error(400, "Unknown parameter: 'store'.", param="store") if "store" in received.body else None


def nothing_named(received: Received) -> Reply | None:
    return status(400, {}) if asked_for(received) == "json_schema" else None


REFUSING: dict[str, Callable[[Received], Reply | None]] = {
    refuses.__name__: refuses
    for refuses in (
        no_json_schema, no_formats, no_such_schema, no_temperature, no_new_limit, no_system_role, no_store, nothing_named,
    )
}  # fmt: skip
OPTIONS: dict[str, Any] = {"temperature": 0, "max_tokens": 900, "seed": 7, "reasoning_effort": "low"}


@dataclass
class Kept:
    """Notes as a database keeps them."""

    found: dict[tuple[str, str], Any] = field(default_factory=dict)

    async def find(self, server: str, model: str) -> Any:
        return self.found.get((server, model))

    async def keep(self, server: str, model: str, dialect: Any) -> None:
        self.found[server, model] = dialect


@asynccontextmanager
async def asking(server: Loopback, **given: Any) -> AsyncIterator[OpenAI]:
    model = OpenAI(base_url=server.base_url, timeout_seconds=5, max_retries=0, **given)
    try:
        yield model
    finally:
        await model.close()


@pytest.mark.parametrize("api", ["responses", "chat"])
@pytest.mark.parametrize("kind", REFUSING)
async def test_refusal_costs_one_call_more_the_first_time_and_none_afterwards(kind: str, api: Any) -> None:
    notes = Kept()
    async with loopback(refusing(REFUSING[kind])) as server:
        async with asking(server, api=api, notes=notes, **OPTIONS) as model:
            assert (await model.generate(ASKED)).value == Items(items=["tea"])
            first = len(server.requests)
            await model.generate(ASKED)
        async with asking(server, api=api, notes=notes, **OPTIONS) as another:
            await another.generate(ASKED)
    refused = 0 if (kind, api) == ("no_store", "chat") else 1  # only the Responses API has it
    assert first == 1 + refused
    assert len(server.requests) == first + 2
    assert SECRET not in str(notes.found)


async def test_what_is_refused_is_left_out_and_all_else_is_sent() -> None:
    async with loopback(refusing(no_temperature)) as server, asking(server, api="chat", **OPTIONS) as model:
        await model.generate(ASKED)
    before, after = (received.body for received in server.requests)
    assert before.pop("temperature") == 0
    assert after == before


async def test_old_name_of_a_limit_is_sent_where_the_new_one_is_refused() -> None:
    async with loopback(refusing(no_new_limit)) as server, asking(server, api="chat", **OPTIONS) as model:
        await model.generate(ASKED)
    assert server.requests[-1].body["max_tokens"] == 900
    neither = refusing(lambda r: no_new_limit(r) or no_old_limit(r))
    async with loopback(neither) as server, asking(server, api="chat", **OPTIONS) as model:
        await model.generate(ASKED)
    assert not {"max_tokens", "max_completion_tokens"} & server.requests[-1].body.keys()


async def test_schema_stands_in_the_prompt_where_it_is_no_parameter() -> None:
    async with loopback(refusing(no_json_schema)) as server, asking(server, api="chat") as model:
        await model.generate(ASKED)
    before, after = server.requests
    assert '"items"' not in before.instructions
    assert ASKED.instructions in after.instructions
    assert '"items"' in after.instructions
    assert asked_for(after) == "json_object"


async def test_server_without_responses_is_asked_for_completions() -> None:
    notes = Kept()
    async with loopback(refusing(lambda r: None if r.is_chat else status(404, "Not Found"))) as server:
        for _ in range(2):
            async with asking(server, notes=notes) as model:
                assert (await model.generate(ASKED)).value == Items(items=["tea"])
        async with asking(server, api="responses", notes=notes) as model:
            with pytest.raises(UnavailableError, match="MEMORY_SQL_LLM_API=chat"):
                await model.generate(ASKED)
    assert [received.is_chat for received in server.requests] == [False, True, True, False]


async def test_everything_at_once_is_found_out(database_url: str) -> None:
    """The most that any server can refuse, by the database, which another process reads."""
    kinds = (no_json_schema, no_formats, no_temperature, no_new_limit, no_old_limit, no_system_role)

    def refuses(received: Received) -> Reply | None:
        if not received.is_chat:
            return status(404, "Not Found")
        return next((reply for kind in kinds if (reply := kind(received)) is not None), None)

    settings = {
        "llm": "openai", "llm_temperature": 0, "llm_max_tokens": 900, "fast_model": "small", "llm_max_retries": 0
    }  # fmt: skip
    async with loopback(refusing(refuses)) as server:
        found = []
        for _ in range(2):
            with pytest.MonkeyPatch.context() as patch:
                patch.setenv("OPENAI_BASE_URL", server.base_url)
                async with Memory(database_url, settings=Settings.load(**settings)) as memory:
                    await memory._runtime.llm.generate(ASKED)
                    found.append(len(server.requests))
                    stored = await rows(memory, "SELECT server, model, api, output FROM memory.dialects")
    assert stored == [(server.base_url, "small", "chat", "text")]
    assert found[1] == found[0] + 1


@pytest.mark.parametrize("code", ["content_filter", "context_length_exceeded", "model_not_found", "invalid_prompt"])
async def test_what_has_another_reason_is_asked_once(code: str) -> None:
    async with loopback(error(400, "no", code=code)) as server, asking(server, api="chat") as model:
        with pytest.raises(LanguageModelError):
            await model.generate(ASKED)
    assert len(server.requests) == 1


async def test_refusal_of_everything_is_remembered_by_nobody() -> None:
    notes = Kept()
    async with loopback(error(400, "no")) as server, asking(server, api="chat", notes=notes) as model:
        with pytest.raises(UnavailableError, match="HTTP 400"):
            await model.generate(ASKED)
    assert notes.found == {}


async def test_what_has_worked_is_not_given_up_for_a_refusal_that_names_nothing() -> None:
    async with loopback([good(ANSWER), status(400, "no")]) as server, asking(server, api="chat") as model:
        await model.generate(ASKED)
        with pytest.raises(UnavailableError):
            await model.generate(ASKED)
    assert len(server.requests) == 2


@pytest.mark.parametrize("output", ["json_schema", "json_object", "text"])
async def test_setting_forces_the_form(output: Any) -> None:
    async with loopback(good(ANSWER)) as server, asking(server, output=output) as model:
        await model.generate(ASKED)
    assert [asked_for(received) for received in server.requests] == [output]
    async with loopback(refusing(no_json_schema)) as server, asking(server, api="chat", output="json_schema") as model:
        with pytest.raises(UnavailableError, match="response_format"):
            await model.generate(ASKED)


async def test_notes_that_cannot_be_read_or_kept_stop_nothing() -> None:
    class Broken(Kept):
        async def find(self, server: str, model: str) -> Any:
            raise UnavailableError("connection", "no database")

        async def keep(self, server: str, model: str, dialect: Any) -> None:
            raise UnavailableError("connection", "no database")

    async with loopback(refusing(no_store)) as server, asking(server, notes=Broken()) as model:
        assert (await model.generate(ASKED)).value == Items(items=["tea"])


async def test_azure_is_asked_by_deployment_and_version(monkeypatch: pytest.MonkeyPatch) -> None:
    async with loopback(good(ANSWER)) as server:
        monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", server.base_url.removesuffix("/v1"))
        monkeypatch.setenv("AZURE_OPENAI_API_KEY", "k")
        with pytest.raises(ConfigurationError, match="OPENAI_API_VERSION"):
            OpenAI(azure=True)
        monkeypatch.setenv("OPENAI_API_VERSION", "2025-04-01-preview")
        model = OpenAI(azure=True, api="chat", max_retries=0)
        await model.generate(ASKED)
        await model.close()
    (received,) = server.requests
    assert received.path == "/openai/deployments/small/chat/completions"
    assert received.headers["api-key"] == "k"
    monkeypatch.delenv("AZURE_OPENAI_ENDPOINT")
    with pytest.raises(ConfigurationError, match="AZURE_OPENAI_ENDPOINT"):
        OpenAI(azure=True)


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (
            lambda: status(404, {"error": {"message": "no such model"}}),
            ("small", "fast_model", "slow_model", "OPENAI_BASE_URL"),
        ),
        (lambda: error(404, "x", code="model_not_found"), ("small", "fast_model", "slow_model")),
        (lambda: error(400, "x", param="temperature", code="unsupported_value"), ("temperature",)),
        (lambda: status(401, "x"), ("OPENAI_API_KEY",)),
    ],
)
async def test_error_names_the_way_out(reply: Callable[[], Reply], said: tuple[str, ...]) -> None:
    async with loopback(reply()) as server, asking(server, api="chat", temperature=0) as model:
        with pytest.raises(UnavailableError) as caught:
            await model.generate(ASKED)
    assert all(word in str(caught.value) for word in said)
    assert SECRET not in str(caught.value)


async def test_refused_content_is_refused_whatever_names_it() -> None:
    body = {"error": {"code": "content_filter", "message": "filtered", "param": "prompt", "innererror": {"code": "x"}}}
    async with loopback(status(400, body)) as server, asking(server, api="chat") as model:
        with pytest.raises(RefusedError):
            await model.generate(ASKED)
