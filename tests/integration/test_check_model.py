"""Three tiny things asked of the configured model, against servers of different habits."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from memory_sql.config import Settings
from memory_sql.domain.results import ModelCheck
from memory_sql.errors import ConfigurationError
from memory_sql.memory import Memory
from tests.integration.test_dialects import no_formats, no_json_schema, no_store, no_system_role
from tests.loopback import Received, Reply, answering, garbage, loopback, status

FACTS = {"individual": [{"content": text, "sources": [2]} for text in ("Mia never eats meat.", "Lena lives in Graz.")]}
TEXT = {"text": "Mia never eats meat. She pays a rent of 980 euros."}
VERDICT = {
    "decisions": [
        {"n": n, "to": "group_1", "personal": n == 2, "general": True, "valuable": True, "text": "It is on Friday."}
        for n in (1, 2)
    ]
}


def honest(received: Received) -> str:
    sent = json.dumps(received.body)
    answer = FACTS | {"collective": []} if "begin conversation" in sent else TEXT if "begin known" in sent else VERDICT
    return json.dumps(answer)


def but_for(refuses: Callable[[Received], Reply | None]) -> Reply:
    async def respond(request: Any, received: Received) -> Any:
        return await (refuses(received) or answering(honest)).respond(request, received)

    return Reply(respond)


@asynccontextmanager
async def checked(url: str, reply: Reply, **settings: Any) -> AsyncIterator[list[ModelCheck]]:
    async with loopback(reply) as server:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("OPENAI_BASE_URL", server.base_url)
            given = Settings.load(llm="openai", llm_max_retries=0, llm_timeout_seconds=2, **settings)
            async with Memory(url, settings=given) as memory:
                yield list(await memory.models.check())


def no_responses(received: Received) -> Reply | None:
    return None if received.is_chat else status(404, "Not Found")


@pytest.mark.parametrize(
    ("refuses", "asked_by"),
    [
        (lambda _: None, "responses, json_schema"),
        (no_responses, "chat, json_schema"),
        (lambda r: no_responses(r) or no_json_schema(r), "chat, json_object"),
        (lambda r: no_responses(r) or no_formats(r), "chat, text"),
        (no_store, "responses, json_schema, without store"),
        (no_system_role, "responses, json_schema, without system"),
    ],
)
async def test_what_works_and_by_which_way(
    database_url: str, refuses: Callable[[Received], Reply | None], asked_by: str
) -> None:
    async with checked(database_url, but_for(refuses)) as checks:
        assert [(check.step, check.problem) for check in checks] == [
            ("extraction", None), ("consolidation", None), ("propagation", None)
        ]  # fmt: skip
    assert {check.asked_by for check in checks} == {asked_by}
    assert all(check.input_tokens and check.output_tokens for check in checks)


@pytest.mark.parametrize(
    ("reply", "problems"),
    [
        (status(401, "no"), ["OPENAI_API_KEY"] * 3),
        (status(404, "no"), ["fast_model", "slow_model", "slow_model"]),
        (garbage(b"<html>", "text/html"), ["OPENAI_BASE_URL"] * 3),
        (answering(lambda _: "I am a teapot."), ["no JSON object", "leaves out 2", "no JSON object"]),
        (
            answering(lambda _: '{"individual": [], "collective": [], "text": "Mia pays 990 euros.", "decisions": []}'),
            ["not each", "figures", "0 of 2"],
        ),
    ],
)
async def test_what_fails_and_why(database_url: str, reply: Reply, problems: list[str]) -> None:
    async with checked(database_url, reply) as checks:
        assert all(word in str(check.problem) for check, word in zip(checks, problems, strict=True)), checks


async def test_without_a_model_there_is_nothing_to_check(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "MEMORY_SQL_LLM"):
        monkeypatch.delenv(name, raising=False)
    async with Memory(database_url) as memory:
        with pytest.raises(ConfigurationError, match="MEMORY_SQL_LLM"):
            await memory.models.check()
