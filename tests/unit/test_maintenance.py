"""How long messages may be kept."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from memory_sql.config import Settings, checked_for_agent
from memory_sql.errors import ConfigurationError, InputError


@pytest.mark.parametrize(("said", "days"), [("forever", None), ("0", 0), ("1.5", 1.5)])
def test_retention_is_in_days_or_for_ever(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, said: str, days: float | None
) -> None:
    assert Settings.load().message_retention_days == 30
    file = tmp_path / "memory-sql.toml"
    file.write_text(f'message_retention_days = "{said}"')
    monkeypatch.setenv("MEMORY_SQL_CONFIG", str(file))
    assert Settings.load().message_retention_days == days
    monkeypatch.setenv("MEMORY_SQL_CONFIG", os.devnull)
    monkeypatch.setenv("MEMORY_SQL_MESSAGE_RETENTION_DAYS", said)
    assert Settings.load().message_retention_days == days
    assert checked_for_agent({"message_retention_days": said}) == {"message_retention_days": days}


@pytest.mark.parametrize("wrong", ["-1", "nan", "inf", "never", "36501"])
def test_absurd_retention_is_refused(monkeypatch: pytest.MonkeyPatch, wrong: str) -> None:
    with pytest.raises(InputError, match="message_retention_days"):
        checked_for_agent({"message_retention_days": wrong})
    monkeypatch.setenv("MEMORY_SQL_MESSAGE_RETENTION_DAYS", wrong)
    with pytest.raises(ConfigurationError, match="message_retention_days"):
        Settings.load()
