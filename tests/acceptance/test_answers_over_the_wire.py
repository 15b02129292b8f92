"""What a server may answer, through the real client: nothing is lost or formed twice, and the ledger says why."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Literal

import pytest

from memory_sql.config import Settings
from memory_sql.errors import LanguageModelError
from memory_sql.llm.openai import OpenAI
from memory_sql.memory import Memory
from tests.database import rows
from tests.factories import conversation, message
from tests.fakes import by_scope, extracted
from tests.loopback import (
    Loopback,
    Received,
    Reply,
    Script,
    answering,
    empty,
    garbage,
    good,
    hang,
    loopback,
    status,
    truncated,
)

HERE: dict[str, Any] = {"agent_id": "ada", "user_id": "mia", "conversation_id": "s"}
GOOD = extracted(('Mia likes <tea> & "cake".', "individual", [1, 3]))

WRONG: dict[str, tuple[Reply, str]] = {
    "truncated": (truncated(GOOD[:40]), "truncated"),
    "cut without a word": (good(GOOD[:40]), "truncated"),
    "empty": (empty(), "empty"),
    "blank": (good(" \n"), "empty"),
    "wrong top-level key": (good(json.dumps({"memories": "none", "n": 0})), "wrong_shape"),
    "list of texts": (good('["Mia likes tea."]'), "wrong_shape"),
    "prose": (good("I found nothing of interest, sorry!"), "not_json"),
    "429": (status(429), "rate_limit"),
    "500": (status(500), "server_error"),
    "401": (status(401), "auth"),
    "time-out": (hang(5), "timeout"),
    "not HTTP's business": (garbage(b"\xff\x00<html>"), "bad_response"),
}

UNUSABLE = {"truncated", "empty", "wrong_shape", "not_json"}


def lists(received: Received) -> str:
    """The answer as the schema asks for it."""
    assert received.schema is not None
    return by_scope(received.schema["properties"], ("Mia likes tea.", "individual", [1]))


@asynccontextmanager
async def remembering(
    url: str,
    script: Script,
    *,
    api: Literal["responses", "chat"] = "responses",
    max_retries: int = 0,
    settings: Settings | None = None,
) -> AsyncIterator[tuple[Memory, Loopback]]:
    """A memory whose model is the official client, and the server behind that."""
    async with loopback(script) as server:
        model = OpenAI(api=api, base_url=server.base_url, timeout_seconds=0.5, max_retries=max_retries)
        try:
            async with Memory(url, model, settings) as memory:
                yield memory, server
        finally:
            await model.close()


@pytest.mark.slow
@pytest.mark.parametrize("api", ["responses", "chat"])
async def test_after_each_failure_the_next_good_answer_forms_the_messages_once(
    database_url: str, api: Literal["responses", "chat"]
) -> None:
    """An answer that can't be used is asked for twice in each run, then for one scope; where there is none, once."""
    calls = {name: 3 if code in UNUSABLE else 1 for name, (_, code) in WRONG.items()}
    script = [reply for name, (reply, _) in WRONG.items() for _ in range(calls[name])] + [good(GOOD)]
    async with remembering(database_url, script, api=api) as (memory, server):
        await memory.add(conversation(4), **HERE)
        for name in WRONG:
            with pytest.raises(LanguageModelError):
                await memory.conversations.form(agent_id="ada", conversation_id="s")
            stats = await memory.admin.stats(agent_id="ada")
            assert (stats.unformed_messages, stats.observations) == (4, 0), name
        formed = await memory.conversations.form(agent_id="ada", conversation_id="s")
        assert [o.source.message_ids for o in formed.observations] == [("m1", "m3")]
        assert (await memory.conversations.form(agent_id="ada", conversation_id="s")).observations == ()
        ledger = await rows(memory, "SELECT state, error_code, calls FROM memory.runs ORDER BY run_id")
        failed = [("failed", code, calls[name]) for name, (_, code) in WRONG.items()]
        assert ledger == [*failed, ("succeeded", None, 1)]
        assert len(server.requests) == sum(calls.values()) + 1
        assert await rows(memory, "SELECT count(*) FROM memory.runs WHERE answer IS NOT NULL") == [(0,)]
        tokens = "SELECT error_code, input_tokens FROM memory.runs WHERE input_tokens IS NOT NULL ORDER BY run_id"
        answered = [(code, 11 * calls[name]) for name, (_, code) in WRONG.items() if code in UNUSABLE]
        assert await rows(memory, tokens) == [*answered, (None, 11)]


@pytest.mark.parametrize("name", [name for name, (_, code) in WRONG.items() if code in UNUSABLE])
async def test_good_second_answer_forms_the_messages_at_once(database_url: str, name: str) -> None:
    async with remembering(database_url, [WRONG[name][0], answering(lists)]) as (memory, server):
        await memory.add(conversation(4), **HERE)
        formed = await memory.conversations.form(agent_id="ada", conversation_id="s")
        assert [o.content for o in formed.observations] == ["Mia likes tea."]
        first, second = server.requests
        assert "A first answer could not be used: " in second.prompt
        assert second.schema == first.schema
        assert await rows(memory, "SELECT state, calls, input_tokens FROM memory.runs") == [("succeeded", 2, 22)]


@pytest.mark.parametrize("api", ["responses", "chat"])
async def test_ten_scopes_take_one_call(database_url: str, api: Literal["responses", "chat"]) -> None:
    """R025, R065, R136, R303: each scope holds something already; what of it is shown has a limit."""
    groups = [f"crew-{n}" for n in range(8)]
    settings = Settings(scope_text_max_characters=300)
    async with remembering(database_url, answering(lists), api=api, settings=settings) as (memory, server):
        await memory.add([message("We moved the crane. It stands on quay 3.", name="Mia")], **HERE, group_ids=groups)
        owners: list[dict[str, Any]] = [{"group_id": group} for group in groups]
        for owner in (*owners, {"collective": True}, {"user_id": "mia"}):
            for text in ("Known: " + "word " * 40, "More: " + "word " * 40):
                await memory.observe(text, agent_id="ada", **owner)
        await memory.conversations.form(agent_id="ada", conversation_id="s")
        (request,) = server.requests
        assert request.schema is not None
        aliases = ["individual", *(f"group_{n}" for n in range(1, 9)), "collective"]
        assert list(request.schema["properties"]) == request.schema["required"] == [*aliases, "requests"]
        assert await rows(memory, "SELECT state, observations, calls FROM memory.runs") == [("succeeded", 1, 1)]
        shown = request.prompt.partition("begin memory\n")[2].partition("\n---")[0]
        own = sum(len(text) for line in shown.splitlines() for text in json.loads(line)["known"])
        assert 9 * 200 < own <= 10 * 300
        sent = len(request.instructions) + len(request.prompt) + len(json.dumps(request.schema))
        assert (sent - own) / 4 <= 2200


@pytest.mark.parametrize(
    "answer",
    [GOOD, f"```json\n{GOOD}\n```", f"\ufeffSure, here it is:\n{GOOD}\nAnything else?"],
    ids=["bare", "fenced", "prose"],
)
async def test_good_answer_may_be_wrapped(database_url: str, answer: str) -> None:
    async with remembering(database_url, good(answer)) as (memory, _):
        await memory.add(conversation(4), **HERE)
        assert len((await memory.conversations.form(agent_id="ada", conversation_id="s")).observations) == 1


async def test_busy_server_is_asked_again_by_the_client_itself(database_url: str) -> None:
    async with remembering(database_url, [status(429), status(500), good(GOOD)], max_retries=2) as (memory, server):
        await memory.add(conversation(4), **HERE)
        assert len((await memory.conversations.form(agent_id="ada", conversation_id="s")).observations) == 1
        assert len(server.requests) == 3
        assert await rows(memory, "SELECT state FROM memory.runs") == [("succeeded",)]


async def test_nothing_found_is_told_apart_from_failure(database_url: str) -> None:
    async with remembering(database_url, good('{"observations": []}')) as (memory, _):
        await memory.add(conversation(4), **HERE)
        assert (await memory.conversations.form(agent_id="ada", conversation_id="s")).observations == ()
        assert await rows(memory, "SELECT state, observations FROM memory.runs") == [("empty", 0)]
        assert (await memory.admin.stats(agent_id="ada")).unformed_messages == 0


async def test_nothing_of_the_text_gets_into_errors_and_logs(
    database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG", logger="memory_sql")
    async with remembering(
        database_url,
        [
            good('{"observations": [{"content": ["canary-7"]}]}'),
            good('{"canary-8": "canary-9"}'),
            good('{"canary-8": {"individual": "canary-9"}}'),
            good('{"individual": [], "canary-8": "canary-9"}'),
            good('{"collective": [{"content": 1, "canary-7": 1}]}'),
        ],
    ) as (memory, server):
        await memory.add(conversation(4), **HERE)
        for _ in range(2):
            with pytest.raises(LanguageModelError) as caught:
                await memory.conversations.form(agent_id="ada", conversation_id="s")
            assert "canary" not in str(caught.value)
        assert len(server.requests) == 5
        assert "canary" not in "".join(request.prompt for request in server.requests)
        assert "canary" not in str(await rows(memory, "SELECT error, answer, refused FROM memory.runs"))
    assert "canary" not in caplog.text
