"""Errors of connection, configuration and model as a newcomer makes them: each says what, where, and what to do."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import AsyncExitStack
from typing import NamedTuple

import pytest

from memory_sql.config import Settings
from memory_sql.db.urls import asyncpg_url
from memory_sql.errors import ConfigurationError, DatabaseError, MemorySQLError, UnavailableError
from memory_sql.memory import Memory
from tests.factories import conversation
from tests.loopback import loopback, status
from tests.pooler import Pooler
from tests.postgres_like import Greeting, closing, http, listening, refusing, silent

SECRET = "s3cret"


class Met(NamedTuple):
    """What a newcomer does, and what the error must say of it: what, where, and what to do."""

    url: str
    says: tuple[str, ...]
    kind: type[MemorySQLError] = DatabaseError
    server: Greeting | None = None  # what listens at PORT


def at(end: str = "", host: str = "127.0.0.1:PORT") -> str:
    return f"postgresql://mia:{SECRET}@{host}/app{end}"


HERE = "database app at 127.0.0.1:PORT, user mia"
CONNECTING = {
    "nothing listens": Met(
        at(host="127.0.0.1:1"), ("nothing listens", "database app at 127.0.0.1:1, user mia", "start")
    ),
    "no such host": Met(
        at(host="db.invalid"), ("no host of this name", "database app at db.invalid:5432, user mia", "spelling")
    ),
    "no such socket": Met(at("?host=/nowhere"), ("no such socket", "at /nowhere:PORT, user mia", "start Postgres")),
    "silence": Met(at("?connect_timeout=1"), ("no answer in time", HERE, "isn't Postgres", "firewall"), server=silent),
    "a web server": Met(at(), ("isn't Postgres", HERE, "check the port"), server=http),
    "cut off": Met(at(), ("closed before Postgres answered", HERE, "sslmode=require"), server=closing),
    "no TLS": Met(
        at("?sslmode=require"),
        ("doesn't speak TLS", HERE, "leave sslmode out"),
        server=refusing("28000", "never asked"),
    ),
    "TLS wanted": Met(
        at("?sslmode=disable"),
        ("28000", "no encryption", HERE, "sslmode=require"),
        server=refusing("28000", 'no pg_hba.conf entry for host "1.2.3.4", user "mia", database "app", no encryption'),
    ),
    "wrong password": Met(
        at(),
        ("refuses this user or its password", "28P01", HERE, "@ as %40"),
        server=refusing("28P01", 'password authentication failed for user "mia"'),
    ),
    "unknown database": Met(
        at(), ("there is none of this name", "3D000", HERE, "create it"), server=refusing("3D000", 'no "app"')
    ),
    "too many connections": Met(
        at(), ("no free connection slot", "53300", HERE, "MEMORY_SQL_POOL_SIZE"), server=refusing("53300", "sorry")
    ),
    "starting": Met(at(), ("is starting", "57P03", HERE, "try again"), server=refusing("57P03", "starting up")),
    "a pooler": Met(
        at(),
        ("08P01", "unsupported startup parameter: jit", HERE, "prepared_statement_cache_size=0"),
        server=refusing("08P01", "unsupported startup parameter: jit"),
    ),
    "a provider's own": Met(
        at(), ("refuses the connection", "XX000", "tenant", HERE), server=refusing("XX000", "tenant not found")
    ),
    "no certificate": Met(
        at("?sslmode=verify-full&sslrootcert=/nowhere.pem"), ("certificate", HERE, "correct the path"), server=silent
    ),
    "another database": Met("mysql://root@db/app", ("must be Postgres", "mysql"), ConfigurationError),
    "an @ in the password": Met(at(host="ss@db.example"), ("more than one @", "%40"), ConfigurationError),
    "no URL": Met("db.example/app", ("can't be read", "postgresql://user:password@host:5432/name"), ConfigurationError),
    "a port": Met(at(host="db:99999"), ("port", "from 1 to 65535"), ConfigurationError),
    "an option": Met(at("?channel_binding=require"), ("channel_binding", "sslmode=verify-full"), ConfigurationError),
}


@pytest.mark.parametrize(
    "met", [pytest.param(m, id=name, marks=[pytest.mark.slow] * (m.server is silent)) for name, m in CONNECTING.items()]
)
async def test_connection_that_cant_be_opened_says_what_where_and_what_to_do(met: Met) -> None:
    async with AsyncExitStack() as stack:
        port = await stack.enter_async_context(listening(met.server or closing))
        with pytest.raises(met.kind) as error:
            await Memory(met.url.replace("PORT", str(port))).open()
    for words in met.says:
        assert words.replace("PORT", str(port)) in str(error.value)
    assert SECRET not in str(error.value)
    assert error.value.__cause__ is None  # which might quote the URL


async def test_real_server_says_no_likewise(server_url: str) -> None:
    for changed, code in (({"database": "nowhere_to_be_found"}, "3D000"), ({"username": "nobody_at_all"}, "28")):
        with pytest.raises(DatabaseError, match=f"SQLSTATE {code}"):
            await Memory(asyncpg_url(server_url).set(**changed).render_as_string(hide_password=False)).open()  # type: ignore[arg-type]


async def test_pooler_that_the_url_doesnt_name_is_told_with_what_to_add(pooler: Pooler, walled_database: str) -> None:
    url = asyncpg_url(pooler.url(walled_database)).set(query={}).render_as_string(hide_password=False)
    with pytest.raises(DatabaseError, match=r"08P01.*startup parameter.*prepared_statement_cache_size=0 in the URL"):
        await Memory(url).open()


CONFIGURING: dict[str, tuple[Mapping[str, str], tuple[str, ...]]] = {
    "a value": ({"MEMORY_SQL_POOL_SIZE": "many"}, ("pool_size", "valid integer")),
    "a range": ({"MEMORY_SQL_POOL_SIZE": "0"}, ("pool_size", "greater than or equal to 1")),
    "a word": ({"MEMORY_SQL_LLM": "claude"}, ("llm", "'openai', 'azure' or 'offline'")),
    "a file": ({"MEMORY_SQL_CONFIG": "/nowhere.toml"}, ("MEMORY_SQL_CONFIG", "/nowhere.toml")),
}


@pytest.mark.parametrize(("given", "says"), CONFIGURING.values(), ids=CONFIGURING)
def test_setting_that_is_wrong_says_which(
    given: Mapping[str, str], says: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ConfigurationError) as error:
        Settings.load()
    assert all(words in str(error.value) for words in says)


MODELS: dict[str, tuple[Mapping[str, str], int | None, tuple[str, ...]]] = {
    "none": ({}, None, ("no language model", "OPENAI_API_KEY", "MEMORY_SQL_LLM")),
    "no key": ({"MEMORY_SQL_LLM": "openai"}, None, ("OPENAI_API_KEY isn't set", "OPENAI_BASE_URL")),
    "no address": ({"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": "api.example"}, None, ("OPENAI_BASE_URL", "http://")),
    "no server": (
        {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": f"http://mia:{SECRET}@127.0.0.1:9/v1"},
        None,
        ("can't be reached", "at 127.0.0.1:9", "OPENAI_BASE_URL"),
    ),
    "a wrong key": ({"OPENAI_API_KEY": SECRET}, 401, ("HTTP 401", "OPENAI_API_KEY")),
    "a wrong name": ({"OPENAI_API_KEY": "k"}, 404, ("HTTP 404", "gpt-5-mini", "fast_model", "OPENAI_BASE_URL")),
    "azure": ({"MEMORY_SQL_LLM": "azure"}, None, ("AZURE_OPENAI_ENDPOINT", "must be set")),
}


@pytest.mark.parametrize(("given", "answer", "says"), MODELS.values(), ids=MODELS)
async def test_model_that_cant_be_asked_says_why_and_what_to_do(
    given: Mapping[str, str],
    answer: int | None,
    says: tuple[str, ...],
    database_url: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("MEMORY_SQL_LLM")
    for name in [name for name in os.environ if name.startswith(("OPENAI_", "AZURE_"))]:
        monkeypatch.delenv(name)
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(loopback(status(answer or 500, "no")))
        local = {"OPENAI_BASE_URL": server.base_url} if answer else {}
        for name, value in {"MEMORY_SQL_LLM_MAX_RETRIES": "0", **local, **given}.items():
            monkeypatch.setenv(name, value)
        memory = await stack.enter_async_context(Memory(database_url))
        await memory.add(conversation(6), agent_id="ada", user_id="mia", conversation_id="monday")
        with pytest.raises((ConfigurationError, UnavailableError)) as error:
            await memory.conversations.form(agent_id="ada", conversation_id="monday")
    assert all(words in str(error.value) for words in says), str(error.value)
    assert SECRET not in str(error.value)
