"""What a server may answer, through the real client: nothing is lost, nothing is formed twice, the ledger says why."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Literal

import pytest

from memory_sql.errors import LanguageModelError
from memory_sql.llm.openai import OpenAI
from memory_sql.memory import Memory
from tests.database import rows
from tests.factories import conversation
from tests.fakes import extracted
from tests.loopback import Loopback, Reply, Script, empty, garbage, good, hang, loopback, refusal, status, truncated

HERE: dict[str, Any] = {"agent_id": "ada", "user_id": "mia", "session_id": "s"}
GOOD = extracted(('Mia likes <tea> & "cake".', "individual", [1, 3]))

WRONG: dict[str, tuple[Reply, str]] = {
    "truncated": (truncated(GOOD[:40]), "truncated"),
    "cut without a word": (good(GOOD[:40]), "truncated"),
    "empty": (empty(), "empty"),
    "blank": (good(" \n"), "empty"),
    "wrong top-level key": (good(json.dumps({"memories": json.loads(GOOD)["observations"]})), "wrong_shape"),
    "bare list": (good(json.dumps(json.loads(GOOD)["observations"])), "wrong_shape"),
    "prose": (good("I found nothing of interest, sorry!"), "not_json"),
    "refusal": (refusal(), "refused"),
    "429": (status(429), "rate_limit"),
    "500": (status(500), "server_error"),
    "401": (status(401), "auth"),
    "time-out": (hang(5), "timeout"),
    "not HTTP's business": (garbage(b"\xff\x00<html>"), "bad_response"),
}


@asynccontextmanager
async def remembering(
    url: str, script: Script, *, api: Literal["responses", "chat"] = "responses", max_retries: int = 0
) -> AsyncIterator[tuple[Memory, Loopback]]:
    """A memory whose model is the official client, and the server behind that."""
    async with loopback(script) as server:
        model = OpenAI(api=api, base_url=server.base_url, timeout_seconds=0.5, max_retries=max_retries)
        try:
            async with Memory(url, model) as memory:
                yield memory, server
        finally:
            await model.close()


@pytest.mark.parametrize("api", ["responses", "chat"])
async def test_after_each_bad_answer_the_next_good_one_forms_the_messages_once(
    database_url: str, api: Literal["responses", "chat"]
) -> None:
    script = [reply for reply, _ in WRONG.values()] + [good(GOOD)]
    async with remembering(database_url, script, api=api) as (memory, server):
        await memory.add(conversation(4), **HERE)
        for name in WRONG:
            with pytest.raises(LanguageModelError):
                await memory.form(agent_id="ada", session_id="s")
            stats = await memory.stats(agent_id="ada")
            assert (stats.unformed_messages, stats.observations) == (4, 0), name
        formed = await memory.form(agent_id="ada", session_id="s")
        assert [o.source.message_ids for o in formed.observations] == [("m1", "m3")]
        assert (await memory.form(agent_id="ada", session_id="s")).observations == ()
        codes = await rows(memory, "SELECT state, error_code FROM memory.runs ORDER BY run_id")
        assert codes == [*(("failed", code) for _, code in WRONG.values()), ("succeeded", None)]
        assert len(server.requests) == len(WRONG) + 1
        assert await rows(memory, "SELECT count(*) FROM memory.runs WHERE answer IS NOT NULL") == [(0,)]
        assert await rows(memory, "SELECT input_tokens FROM memory.runs WHERE state = 'succeeded'") == [(11,)]


@pytest.mark.parametrize(
    "answer",
    [GOOD, f"```json\n{GOOD}\n```", f"\ufeffSure, here it is:\n{GOOD}\nAnything else?"],
    ids=["bare", "fenced", "prose"],
)
async def test_good_answer_may_be_wrapped(database_url: str, answer: str) -> None:
    async with remembering(database_url, good(answer)) as (memory, _):
        await memory.add(conversation(4), **HERE)
        assert len((await memory.form(agent_id="ada", session_id="s")).observations) == 1


async def test_busy_server_is_asked_again_by_the_client_itself(database_url: str) -> None:
    async with remembering(database_url, [status(429), status(500), good(GOOD)], max_retries=2) as (memory, server):
        await memory.add(conversation(4), **HERE)
        assert len((await memory.form(agent_id="ada", session_id="s")).observations) == 1
        assert len(server.requests) == 3
        assert await rows(memory, "SELECT state FROM memory.runs") == [("succeeded",)]


async def test_nothing_found_is_told_apart_from_failure(database_url: str) -> None:
    async with remembering(database_url, good('{"observations": []}')) as (memory, _):
        await memory.add(conversation(4), **HERE)
        assert (await memory.form(agent_id="ada", session_id="s")).observations == ()
        assert await rows(memory, "SELECT state, observations FROM memory.runs") == [("empty", 0)]
        assert (await memory.stats(agent_id="ada")).unformed_messages == 0


async def test_nothing_of_the_text_gets_into_errors_and_logs(
    database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG", logger="memory_sql")
    async with remembering(
        database_url, [good('{"observations": [{"content": ["canary-7"]}]}'), good('{"canary-8": "canary-9"}')]
    ) as (memory, _):
        await memory.add(conversation(4), **HERE)
        for _ in range(2):
            with pytest.raises(LanguageModelError) as caught:
                await memory.form(agent_id="ada", session_id="s")
            assert "canary" not in str(caught.value)
        assert "canary" not in str(await rows(memory, "SELECT error FROM memory.runs"))
    assert "canary" not in caplog.text
