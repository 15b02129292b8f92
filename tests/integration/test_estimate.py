"""What conversations would cost, without a model."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from memory_sql.config import Settings
from memory_sql.domain.messages import Message
from memory_sql.jobs.estimating import estimate
from tests.commands import memory_sql
from tests.factories import MONDAY


def test_windows_and_texts_are_counted_as_they_would_be_asked() -> None:
    settings = Settings(llm="offline", formation_window_messages=10, consolidation_threshold=5)
    talks = [
        [Message(role="user", content="I like the harbour and the boats that lie in it.")] * 25,
        [Message(role="user", content="Hi.")],
    ]
    formation, consolidation = estimate(talks, settings, MONDAY)
    assert formation.calls == 3 + 1
    assert formation.observations == round((25 * 48 + 3) / 67) == 18
    assert consolidation.calls == 4
    assert formation.input_tokens > 4 * 1000
    assert consolidation.output_tokens > 4 * 500
    assert [one.calls for one in estimate([], settings, MONDAY)] == [0, 0]


@pytest.mark.slow
def test_by_the_command_line(database_url: str, tmp_path: Path) -> None:
    chat = tmp_path / "chat.jsonl"
    chat.write_text("\n".join(json.dumps({"role": "user", "content": f"I have {n} boats."}) for n in range(60)))
    at = ("--url", database_url)
    told = memory_sql("estimate", chat, "--user", "mia", *at).out
    assert "formation" in told
    assert "2 calls" in told
    assert told.count("no price") == 2
    memory_sql("model", "set-price", "gpt-5-mini", "--input", "0.25", "--output", "2", "--currency", "USD", *at)
    formation, consolidation = memory_sql("estimate", chat, "--user", "mia", "--json", *at).rows
    assert formation["currency"] == "USD"
    assert 0 < float(formation["cost"]) < 0.1
    assert consolidation["cost"] is None
    assert memory_sql("admin", "agents", *at).out == "no agents yet\n"
