"""Mistakes of somebody who begins: each error or notice says what, where, and what to do."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from datetime import UTC, datetime
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest

from memory_sql.config import Settings
from memory_sql.config.scopes import settings_of_scope
from memory_sql.domain.reading import Digest, SearchResult
from memory_sql.domain.selection import Selection
from memory_sql.errors import ConfigurationError, InputError, InvalidIdError
from memory_sql.memory import Memory
from tests.commands import memory_sql
from tests.database import statements

MIA: dict[str, Any] = {"agent_id": "ada", "user_id": "mia"}
NOT_NUMBER = float("nan")


@pytest.mark.parametrize(
    ("metadata", "says"),
    [
        ({"a": object()}, 'metadata["a"] is of type object, which JSON can\'t hold'),
        ({"a": [1, {"b": datetime(2026, 1, 1, tzinfo=UTC)}]}, 'metadata["a"][1]["b"] is of type datetime, which'),
        ({"a": NOT_NUMBER}, 'metadata["a"] is nan, which JSON can\'t hold'),
        ({"a secret of Mia's": {1, 2}}, "metadata[…] is of type set, which JSON can't hold"),
        ({(1, 2): "x"}, "metadata has a key of type tuple; JSON has only texts"),
        ([1], "metadata must be a JSON object"),
    ],
)
async def test_metadata_that_is_no_json_is_named(memory: Memory, metadata: Mapping[str, Any], says: str) -> None:
    with pytest.raises(InputError) as caught:
        await memory.observe("Tea.", **MIA, metadata=metadata)
    assert str(caught.value).startswith(says)


async def test_metadata_that_goes_too_deep_or_in_a_circle(memory: Memory) -> None:
    deep: dict[str, Any] = {}
    for _ in range(100_000):
        deep = {"a": deep}
    round_: dict[str, Any] = {}
    round_["a"] = round_
    for metadata, says in ((deep, "nested too deeply"), (round_, "contains itself")):
        with pytest.raises(InputError, match=says):
            await memory.observe("Tea.", **MIA, metadata=metadata)


def test_setting_that_does_not_exist_is_a_mistake_in_the_configuration() -> None:
    with pytest.raises(
        ConfigurationError, match="settings: pool_sise: there is no such setting; did you mean pool_size\\?"
    ):
        Settings(pool_sise=3)  # type: ignore[call-arg]
    with pytest.raises(ConfigurationError, match="pool_size: Input should be"):
        Settings(pool_size="many")
    assert Settings(pool_size=3).pool_size == 3


@pytest.mark.parametrize("name", ["POOL_SIZE", "pool-size", "MEMORY_SQL_POOL_SIZE", "memory_sql_pool_sise", "PoolSize"])
def test_setting_that_is_written_as_elsewhere_comes_with_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    file = tmp_path / "memory-sql.toml"
    monkeypatch.setenv("MEMORY_SQL_CONFIG", str(file))
    file.write_text(f"{name} = 3\n")
    with pytest.raises(ConfigurationError, match=f"settings: {name}: there is no such setting; did you mean pool_size"):
        Settings.load()


@pytest.mark.parametrize(
    ("written", "says"),
    [
        (
            "[database]\nurl = 'postgresql://x/y'\n",
            "database is no setting but a table; write settings as name = value",
        ),
        ("[[memory]]\npool_size = 3\n", "memory is no setting but a table; write settings as name = value"),
        ("[pool_size]\nvalue = 3\n", "pool_size takes no table; write settings as name = value"),
    ],
)
def test_settings_file_has_no_sections(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: str, says: str
) -> None:
    file = tmp_path / "memory-sql.toml"
    monkeypatch.setenv("MEMORY_SQL_CONFIG", str(file))
    file.write_text(written)
    with pytest.raises(ConfigurationError, match=f"{re.escape(f'{file}: {says}')}"):
        Settings.load()


def test_settings_file_may_have_a_table_of_shards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "memory-sql.toml"
    monkeypatch.setenv("MEMORY_SQL_CONFIG", str(file))
    file.write_text("[shards]\na = 'postgresql://x/a'\nb = 'postgresql://x/b'\n")
    assert Settings.load().shards is not None


async def test_number_is_no_truth(memory: Memory) -> None:
    """Of the process, of an agent and of a scope."""
    said = "must be a number, not true or false"
    for name in ("pool_size", "embedding_query_seconds", "message_retention_days"):
        with pytest.raises(ConfigurationError, match=f"settings: {name}: .*{said}"):
            Settings(**{name: True})
    with pytest.raises(InputError, match=f"settings: pending_max: .*{said}"):
        await memory.configure(agent_id="ada", pending_max=True)
    with pytest.raises(InputError, match=f"settings: buffer_max: .*{said}"):
        settings_of_scope({"buffer_max": False})


def test_settings_file_may_begin_with_the_mark_of_an_editor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "memory-sql.toml"
    monkeypatch.setenv("MEMORY_SQL_CONFIG", str(file))
    file.write_text("pool_size = 3\n", encoding="utf-8-sig")
    assert Settings.load().pool_size == 3


@pytest.mark.parametrize(
    "more",
    [{}, {"message": "tea?"}, {"assembly": "digest"}, {"as_of": None}],
    ids=str,
)
async def test_context_says_that_there_is_no_such_agent(memory: Memory, more: dict[str, Any]) -> None:
    await memory.observe("Tea.", **MIA)
    more = more | ({"as_of": datetime.now(UTC)} if "as_of" in more else {})
    with statements(memory) as seen:
        unknown = await memory.context(agent_id="adda", user_id="mia", **more)
    assert unknown.notice == "there is no agent adda"
    with statements(memory) as known:
        assert (await memory.context(agent_id="ada", user_id="mia", **more)).notice is None
    assert len(seen) == len(known)
    assert (await memory.context(agent_id="ada", user_id="nobody", **more)).notice is None


@pytest.mark.parametrize("asked", ["search", "digest", "digest of words"])
@pytest.mark.parametrize("past", [False, True])
async def test_other_reads_say_so_too(memory: Memory, asked: str, past: bool) -> None:
    """In no more statements than for an agent that there is."""

    async def read(agent_id: str, user_id: str = "mia") -> SearchResult | Digest:
        who: dict[str, Any] = {"agent_id": agent_id, "user_id": user_id}
        as_of = datetime.now(UTC) if past else None
        if asked == "search":
            return await memory.search("tea", **who, as_of=as_of)
        return await memory.digest(**who, query="tea" if asked == "digest of words" else None, as_of=as_of)

    await memory.observe("Tea.", **MIA)
    with statements(memory) as seen:
        assert (await read("adda")).notice == "there is no agent adda"
    with statements(memory) as known:
        assert (await read("ada")).notice is None
    assert len(seen) <= len(known)
    assert (await read("ada", "nobody")).notice is None


@pytest.mark.parametrize("read", [("context",), ("digest",), ("search", "tea")], ids=itemgetter(0))
def test_command_prints_the_notice(database_url: str, read: tuple[str, ...]) -> None:
    ran = memory_sql(*read, "--agent", "adda", "--user", "mia", "--url", database_url)
    assert ran.err == "memory-sql: there is no agent adda\n"


async def test_id_in_another_normal_form_comes_with_the_way_out(memory: Memory) -> None:
    given = unicodedata.normalize("NFD", "zoë")
    with pytest.raises(InvalidIdError) as caught:
        await memory.observe("Tea.", agent_id="ada", user_id=given)
    assert caught.value.reason == "is not in Unicode normal form C; pass unicodedata.normalize('NFC', user_id)"
    await memory.observe("Tea.", agent_id="ada", user_id=unicodedata.normalize("NFC", given))


async def test_receipt_of_what_was_never_there_says_so(memory: Memory, database_url: str) -> None:
    await memory.observe("Tea.", **MIA)
    for dry_run in (True, False):
        receipt = await memory.forget(Selection(user_id="nobody"), agent_id="ada", dry_run=dry_run)
        assert (receipt.found, receipt.physical) == (False, None)
    known = await memory.forget(Selection(user_id="mia"), agent_id="ada")
    assert known.found
    assert known.physical is not None


def test_command_does_not_speak_of_backups_for_nobody(database_url: str) -> None:
    memory_sql("observe", "Tea.", "--agent", "ada", "--user", "mia", "--url", database_url)
    told = memory_sql("forget", "--agent", "ada", "--user", "nobody", "--yes", "--url", database_url).out
    assert "backups" not in told
    assert "there was nothing of the kind" in told
