"""Names in the environment that look like settings, and what an empty variable means."""

from __future__ import annotations

from pathlib import Path

import pytest

from memory_sql.config import Settings, environment
from tests.commands import memory_sql


@pytest.fixture(autouse=True)
def _said_anew() -> None:
    """Each name is told once in a process."""
    environment._warn_once.cache_clear()


OF_A_DATABASE = (
    "DATABASE", "DATABASE_URL", "DB_URL", "POSTGRES", "POSTGRES_URL", "POSTGRESQL_DSN", "PGHOST", "PG_URL", "DSN", "HOST",
    "URI",
)  # fmt: skip


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("MEMORYSQL_URL", "MEMORY_SQL_URL"),
        ("MEMORY_SQLURL", "MEMORY_SQL_URL"),
        ("MEMROY_SQL_URL", "MEMORY_SQL_URL"),
        ("MEMORY_SQL_UR", "MEMORY_SQL_URL"),
        ("MEMORY_SQL_POOL_SISE", "MEMORY_SQL_POOL_SIZE"),
        ("MEMORYSQL_POOL_SISE", "MEMORY_SQL_POOL_SIZE"),
        ("memory_sql_top", "MEMORY_SQL_TOP_K"),
        ("MEMORYSQL_CONFIG", "MEMORY_SQL_CONFIG"),
        ("MEM_SQL_TOP_K", "MEMORY_SQL_TOP_K"),
        ("MEMORY_SQL_REPLICA_URL", "MEMORY_SQL_READ_URL"),
        ("MEMORY_SQL_EMBEDDING_URL", "MEMORY_SQL_EMBEDDING_BASE_URL"),
        *((f"MEMORY_SQL_{name}", "MEMORY_SQL_URL") for name in OF_A_DATABASE),
        *((name, "MEMORY_SQL_URL") for name in ("MEMORYSQL_DATABASE_URL", "MEM_SQL_URL", "MEMORY_URL")),
        *((f"MEMORY_SQL_{name}", "OPENAI_API_KEY") for name in ("API_KEY", "OPENAI_API_KEY", "KEY")),
        *((f"MEMORY_SQL_{name}", "OPENAI_BASE_URL") for name in ("BASE_URL", "OPENAI_BASE_URL", "LLM_URL")),
    ],
)
@pytest.mark.parametrize("settings", [Settings, Settings.load])
def test_name_that_isnt_one_is_a_warning_with_the_nearest(
    name: str, nearest: str, settings: type[Settings], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv(name, "s3cret")
    settings()
    settings()
    assert caplog.messages == [f"{name} isn't a setting and has no effect; did you mean {nearest}?"]


@pytest.mark.parametrize("name", ["MEMORY_SQL_TEST_URLS", "MEMORY_SQL_BENCH", "MEMORY_SQL_DEBUG", "MEMORY_SQL_"])
def test_name_that_is_near_none_is_a_warning_without_a_guess(
    name: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv(name, "x")
    Settings.load()
    assert caplog.messages == [f"{name} isn't a setting and has no effect"]


def test_variable_of_the_librarys_tests_is_known_and_never_suggested(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("TEST_URL", "SEED", "BENCH_URL", "BENCH_BUFFERS"):
        monkeypatch.setenv(f"MEMORY_SQL_{name}", "x")
    Settings.load()
    assert caplog.messages == []
    for name in ("TEST_UR", "SED", "BENCH_URI", "BENCH_BUFFER", "TESTURL"):
        monkeypatch.setenv(f"MEMORY_SQL_{name}", "x")
    Settings.load()
    told = "\n".join(caplog.messages)
    assert not any(f"did you mean MEMORY_SQL_{name}" in told for name in ("TEST", "SEED", "BENCH"))


def test_names_of_others_are_no_slips_of_ours(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for name in (
        "POSTGRESQL_URL",
        "MYSQL_URL",
        "MEMORY_LIMIT",
        "MEMORY_KEY",
        "MEMSQL_URL",
        "SQLALCHEMY_URL",
        "MEMCACHED_URL",
    ):
        monkeypatch.setenv(name, "x")
    Settings.load()
    assert caplog.messages == []


def test_empty_variable_is_unset_for_every_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MEMORY_SQL_LLM", "MEMORY_SQL_CONFIG"):  # what the tests set
        monkeypatch.delenv(name)
    unset = Settings.load()
    for name in (*Settings.model_fields, "config"):
        monkeypatch.setenv(f"MEMORY_SQL_{name.upper()}", "")
    assert Settings.load() == unset.model_copy(update={"embedding": "auto"})
    assert set(Settings.load().sources().values()) == {"default"}


@pytest.mark.parametrize("name", ["DATABASE_URL", "POSTGRES_URL", "PGHOST"])
def test_database_that_only_others_read_is_a_warning(
    name: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv(name, "postgresql://mia:s3cret@db.example/app")
    environment.warn_of_unread("the embedded Postgres in /data")
    assert caplog.messages == [
        f"{name} is set but isn't read: memory is in the embedded Postgres in /data; to use that database, set MEMORY_SQL_URL"
    ]


def test_command_says_first_which_database_it_uses(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("MEMORY_SQL_URL", "postgresql://mia:s3cret@127.0.0.1:1/app")
    for command in (["admin", "verify"], ["db", "current"]):
        first, error = memory_sql(*command, code=1).err.splitlines()
        assert first == "memory-sql: database: postgresql://mia:***@127.0.0.1:1/app"
        assert "database app at 127.0.0.1:1, user mia" in error
    assert len(memory_sql("admin", "verify", "--url", "postgresql://127.0.0.1:1/app", code=1).err.splitlines()) == 1


@pytest.mark.slow
def test_embedded_postgres_doesnt_start_in_silence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("MEMORYSQL_URL", "postgresql://mia:s3cret@db.example/app")
    monkeypatch.setenv("DATABASE_URL", "postgresql://mia:s3cret@db.example/app")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    for command in (["admin", "verify"], ["db", "current"]):
        environment._warn_once.cache_clear()
        slip, first, unread = memory_sql(*command).err.splitlines()
        where = f"embedded Postgres in {tmp_path}/memory-sql/postgres"
        assert slip == "memory-sql: MEMORYSQL_URL isn't a setting and has no effect; did you mean MEMORY_SQL_URL?"
        assert first == f"memory-sql: database: {where} (set MEMORY_SQL_URL, or pass --url, for yours)"
        assert unread.startswith("memory-sql: DATABASE_URL is set but isn't read: memory is in ")
        assert where in unread
