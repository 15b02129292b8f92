"""URLs of databases as providers and other clients hand them out: honoured, or refused with a way out."""

from __future__ import annotations

from urllib.parse import unquote

import pytest
from pydantic import SecretStr

from memory_sql.config import Settings
from memory_sql.db.engine import Database
from memory_sql.db.urls import CACHE_SIZE, TIMEOUT_SECONDS, asyncpg_url, is_pooled, place_of, timeout_of
from memory_sql.errors import ConfigurationError

# A URL's end, and the options with which it connects.
HONOURED: list[tuple[str, dict[str, str]]] = [
    ("", {}),
    ("?sslmode=require", {"sslmode": "require"}),
    ("?sslmode=require&channel_binding=prefer", {"sslmode": "require"}),
    ("?sslmode=no-verify", {"sslmode": "require"}),
    ("?sslmode=require&ssl=require", {"sslmode": "require"}),
    ("?ssl=require&sslmode=no-verify", {"ssl": "require"}),
    ("?ssl=false&sslmode=disable", {"sslmode": "disable"}),
    ("?ssl=require", {"ssl": "require"}),
    ("?ssl=false", {"sslmode": "disable"}),
    ("?sslmode=verify-full&sslrootcert=/ca.pem", {"sslmode": "verify-full", "sslrootcert": "/ca.pem"}),
    ("?sslmode=require&sslnegotiation=direct", {"sslmode": "require", "sslnegotiation": "direct"}),
    ("?gssencmode=disable&client_encoding=utf8", {}),
    ("?connect_timeout=15", {"connect_timeout": "15"}),
    ("?keepalives=1&keepalives_idle=30", {"keepalives": "1", "keepalives_idle": "30"}),
    ("?pgbouncer=true", {"prepared_statement_cache_size": "0"}),
    ("?pgbouncer=false", {}),
    ("?application_name=harbour&fallback_application_name=psql", {"application_name": "harbour"}),
    ("?fallback_application_name=psql", {"application_name": "psql"}),
    ("?options=endpoint%3Dep-cool-1", {"options": "endpoint=ep-cool-1"}),
    ("?options=-c%20statement_timeout%3D5000", {"options": "-c statement_timeout=5000"}),
    ("?target_session_attrs=read-write", {"target_session_attrs": "read-write"}),
]

# A URL's end, the option that is refused, and words of the way out.
REFUSED = [
    ("?sslmode=require&channel_binding=require", "channel_binding", "sslmode=verify-full"),
    ("?sslmode=required", "sslmode", "one of disable, allow, prefer, require, verify-ca, verify-full"),
    ("?ssl=true", "ssl", "sslmode=require"),
    ("?sslmode=require&ssl=disable", "ssl", "sslmode says require, so leave one out"),
    ("?ssl=false&sslmode=require", "sslmode", "ssl says false, so leave one out"),
    ("?sslmode=verify-full&sslaccept=accept_invalid_certs", "sslaccept", "sslmode says verify-full, so leave one out"),
    ("?pgbouncer=true&prepared_statement_cache_size=100", CACHE_SIZE, "pgbouncer says true"),
    ("?user=bo&user=mia", "user", "twice"),
    *((f"?port={port}", "port", "from 1 to 65535") for port in ("abc", "0", "99999", "5432x", "-1", "٣")),
    ("?sslaccept=strict", "sslaccept", "sslmode=verify-full"),
    ("?gssencmode=require", "gssencmode", "sslmode"),
    ("?schema=public", "schema", "always memory"),
    ("?connection_limit=5", "connection_limit", "MEMORY_SQL_POOL_SIZE"),
    ("?pool_timeout=5", "pool_timeout", "MEMORY_SQL_POOL_TIMEOUT_SECONDS"),
    ("?pgbouncer=yes", "pgbouncer", "true or false"),
    ("?target_session_attrs=master", "target_session_attrs", "one of any, primary"),
    ("?connect_timeout=soon", "connect_timeout", "whole number"),
    ("?keepalives_idle=-1", "keepalives_idle", "whole number"),
    ("?command_timeout=soon", "command_timeout", "number of seconds"),
    ("?prepared_statement_cache_size=none", "prepared_statement_cache_size", "whole number"),
    ("?hostaddr=10.0.0.1", "hostaddr", "as the host"),
    ("?service=app", "service", "host, port, user and database"),
    ("?statement_timeout=5000", "statement_timeout", "options=-c%20NAME%3DVALUE"),
    ("?supa=base-pooler.x", "supa", "leave it out"),
]


@pytest.mark.parametrize("scheme", ["postgres", "postgresql", "postgresql+asyncpg", "postgresql+psycopg2"])
@pytest.mark.parametrize(("end", "options"), HONOURED)
def test_what_a_url_asks_for_is_done(scheme: str, end: str, options: dict[str, str]) -> None:
    url = asyncpg_url(f"{scheme}://mia:s3cret@db.example/app{end}")
    assert dict(url.query) == options
    assert asyncpg_url(url) == asyncpg_url(url.render_as_string(hide_password=False)) == url
    assert is_pooled(url) == ("pgbouncer=true" in end)
    assert place_of(url) == "database app at db.example:5432, user mia"
    assert Database(url).engine.dialect.driver == "asyncpg"


@pytest.mark.parametrize(("end", "option", "way"), REFUSED)
def test_what_cant_be_done_is_named_with_a_way_out(end: str, option: str, way: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        asyncpg_url(f"postgresql://mia:s3cret@db.example/app{end}")
    assert f"{option}: " in str(refused.value)
    assert way in str(refused.value)
    assert "s3cret" not in str(refused.value)


def test_several_hosts_are_tried_in_their_order() -> None:
    for hosts in ("a.example:5432,b.example:6432", "a.example,b.example:6432"):
        url = asyncpg_url(f"postgres://mia:s3cret@{hosts}/app?target_session_attrs=primary")
        assert place_of(url) == "database app at a.example:5432 or b.example:6432, user mia"
        engine = Database(url).engine
        _, passed = engine.dialect.create_connect_args(engine.url)
        assert (passed["host"], passed["port"]) == (["a.example", "b.example"], [5432, 6432])
        assert (passed["database"], passed["password"]) == ("app", "s3cret")


def test_connecting_ends_after_ten_seconds_or_what_the_url_says() -> None:
    assert TIMEOUT_SECONDS == 10
    ends = {"": 10, "?connect_timeout=3": 3, "?connect_timeout=0": None}
    for end, seconds in ends.items():
        assert timeout_of(asyncpg_url(f"postgresql://db.example/app{end}")) == seconds


@pytest.mark.parametrize("password", ["p@ss", "a@b@c", "s3c:r/t@home"])
def test_password_that_isnt_encoded_is_told_with_the_way_to_write_it(password: str) -> None:
    with pytest.raises(ConfigurationError, match="@ as %40") as refused:
        asyncpg_url(f"postgresql://mia:{password}@db.example:5432/app")
    assert not any(part in str(refused.value) for part in ("ss@", "b@c", "home"))


@pytest.mark.parametrize("end", ["?host=a:1&host=b:2&port=3", "?port=1,2", "?host=a,b,c&port=1,2", "?host=a&host=b:x"])
def test_hosts_and_ports_that_dont_fit_each_other_are_told(end: str) -> None:
    with pytest.raises(ConfigurationError, match="port"):
        asyncpg_url(f"postgresql:///app{end}")


def test_port_among_the_options_is_used() -> None:
    assert place_of(asyncpg_url("postgresql://mia@db.example/app?port=6432")).startswith(
        "database app at db.example:6432"
    )
    assert place_of(asyncpg_url("postgresql://mia@/app?host=/tmp&port=6432")).startswith("database app at /tmp:6432")


@pytest.mark.parametrize(
    ("at", "told"),
    [
        ("%2Ftmp", "/tmp:5432"),
        ("%2ftmp:6432", "/tmp:6432"),
        ("%2Fvar%2Frun%2Fpostgresql", "/var/run/postgresql:5432"),
        ("%2Fcloudsql%2Fmy%3Aregion%3Ainstance", "/cloudsql/my:region:instance"),
    ],
)
def test_directory_of_a_socket_may_stand_as_the_host(at: str, told: str) -> None:
    url = asyncpg_url(f"postgresql://mia:s3cret@{at}/app?sslmode=disable")
    assert place_of(url) == f"database app at {told}, user mia"
    assert asyncpg_url(url.render_as_string(hide_password=False)) == url
    engine = Database(url).engine
    _, passed = engine.dialect.create_connect_args(engine.url)
    assert (passed["host"], passed["password"]) == (unquote(at).removesuffix(":6432"), "s3cret")


def test_address_of_ipv6_is_told_with_its_port() -> None:
    assert place_of(asyncpg_url("postgresql://mia@[::1]/app")) == "database app at [::1]:5432, user mia"
    assert place_of(asyncpg_url("postgresql://mia@[fe80::2]:6432/app")) == "database app at [fe80::2]:6432, user mia"


@pytest.mark.parametrize(
    ("hosts", "told", "passed"),
    [
        ("[::1]:5432,[::2]:5433", "[::1]:5432 or [::2]:5433", (["::1", "::2"], [5432, 5433])),
        ("[::1],b.example:6432", "[::1]:5432 or b.example:6432", (["::1", "b.example"], [5432, 6432])),
        ("a.example,[fe80::2]:6432", "a.example:5432 or [fe80::2]:6432", (["a.example", "fe80::2"], [5432, 6432])),
    ],
)
def test_several_addresses_of_ipv6_are_tried_in_their_order(
    hosts: str, told: str, passed: tuple[object, object]
) -> None:
    url = asyncpg_url(f"postgresql://mia:s3cret@{hosts}/app")
    assert place_of(url) == f"database app at {told}, user mia"
    assert asyncpg_url(url.render_as_string(hide_password=False)) == url
    engine = Database(url).engine
    _, given = engine.dialect.create_connect_args(engine.url)
    assert (given["host"], given["port"]) == passed


@pytest.mark.parametrize(
    "hosts", ["[::1],", "[::1]:5432,::2", "a,::1", "[::1,[::2]", "[::1]:x,[::2]", "[::1],[::2]:99999", "[::1]a,[::2]"]
)
def test_addresses_that_cannot_be_read_are_told_with_the_form(hosts: str) -> None:
    with pytest.raises(ConfigurationError, match="port") as refused:
        asyncpg_url(f"postgresql://mia:s3cret@{hosts}/app")
    assert "s3cret" not in str(refused.value)
    with pytest.raises(ConfigurationError):
        asyncpg_url("postgresql://mia@[::1],[::2]/app?port=5433")


@pytest.mark.parametrize("around", ["%s\n", " \t%s\r\n", '"%s"', "'%s'\n", ' " %s " ', "\ufeff%s"])
def test_blanks_and_quotes_around_a_url_are_no_part_of_it(around: str) -> None:
    url = "postgresql://mia:s3cret@db.example/app"
    assert asyncpg_url(around % url) == asyncpg_url(url)
    if "\ufeff" not in around:  # which no setting may contain
        assert Settings.load(url=around % url).url == SecretStr(url)


@pytest.mark.parametrize("hosts", ["a.example:0,b.example", "a.example:99999,b.example", "a.example,b.example:123456"])
def test_port_of_each_host_is_one(hosts: str) -> None:
    with pytest.raises(ConfigurationError, match="port of the database URL must be from 1 to 65535"):
        asyncpg_url(f"postgresql://mia:s3cret@{hosts}/app")


@pytest.mark.parametrize("url", ["\"postgresql://db.example/app'", "db.example/app", "host=db.example", ""])
def test_what_isnt_a_url_is_told_with_the_form(url: str) -> None:
    with pytest.raises(ConfigurationError, match="write postgresql://user:password@host:5432/name"):
        asyncpg_url(url)


def test_place_says_what_the_environment_adds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGHOST", "db.example")
    monkeypatch.setenv("PGPORT", "6432")
    monkeypatch.setenv("PGUSER", "mia")
    assert place_of(asyncpg_url("postgresql://")) == "database mia at db.example:6432, user mia"
    socket = asyncpg_url("postgresql://mia@/app?host=/tmp")
    assert place_of(socket) == "database app at /tmp:6432, user mia"


def test_empty_url_is_no_wish_for_the_embedded_postgres() -> None:
    with pytest.raises(ConfigurationError, match=r"url: .*empty"):
        Settings.load(url="")
