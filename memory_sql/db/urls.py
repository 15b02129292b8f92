"""URLs of databases: read in any form in which they are handed out, and told without the password.

What a URL asks for is done, or refused with a way out; nothing is ignored that would change what the connection does.
"""

from __future__ import annotations

import getpass
import os
import re
from collections.abc import Mapping, Sequence
from urllib.parse import unquote

from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from memory_sql.config.kinds import bare
from memory_sql.errors import ConfigurationError

MOST_PORT = 65_535
CACHE_SIZE = "prepared_statement_cache_size"
CONNECT_TIMEOUT = "connect_timeout"
TIMEOUT_SECONDS = 10.0  # to connect, if the URL says nothing: a port that isn't Postgres's may never answer

# Options in a URL: those that SQLAlchemy passes to asyncpg, and those of libpq that asyncpg reads from its own URLs.
OPTIONS = set("host port user password database ssl command_timeout target_session_attrs krbsrvname gsslib".split())
LIBPQ_OPTIONS = set(
    "sslmode sslcert sslkey sslrootcert sslcrl sslpassword sslnegotiation ssl_min_protocol_version"
    " ssl_max_protocol_version passfile application_name options".split()
)
KEEPALIVES = {
    "keepalives_idle": "TCP_KEEPIDLE",
    "keepalives_interval": "TCP_KEEPINTVL",
    "keepalives_count": "TCP_KEEPCNT",
}
OF_SOCKETS = {"keepalives", *KEEPALIVES}
OWN_OPTIONS = LIBPQ_OPTIONS | OF_SOCKETS | {CONNECT_TIMEOUT}  # which SQLAlchemy doesn't know
WHOLE_NUMBERS = {CONNECT_TIMEOUT, CACHE_SIZE, *OF_SOCKETS}

ALIASES = {"dbname": "database", "fallback_application_name": "application_name"}
# Values of options that only say what we do anyway: they are dropped.
AS_ANYWAY: Mapping[str, frozenset[str]] = {
    "channel_binding": frozenset({"prefer", "disable"}),
    "client_encoding": frozenset({"utf8", "utf-8", "auto"}),
    "gssencmode": frozenset({"prefer", "disable"}),
    "load_balance_hosts": frozenset({"disable"}),
    "pgbouncer": frozenset({"false"}),
    "sslcompression": frozenset({"0"}),
    "uselibpqcompat": frozenset({"true"}),
}
# Options by which other clients say what is said here in another way.
SAME_AS: Mapping[tuple[str, str], tuple[str, str]] = {
    ("pgbouncer", "true"): (CACHE_SIZE, "0"),
    ("sslmode", "no-verify"): ("sslmode", "require"),
    ("ssl", "false"): ("sslmode", "disable"),
    ("sslaccept", "accept_invalid_certs"): ("sslmode", "require"),
}
INSTEAD: Mapping[str, str] = {
    "channel_binding": "the driver has none: leave it out; sslmode=verify-full with sslrootcert=FILE proves the server",
    "client_encoding": "it is always UTF-8: leave it out",
    "connection_limit": "set MEMORY_SQL_POOL_SIZE",
    "gssencmode": "the driver has none: leave it out, and use sslmode",
    "hostaddr": "write the address as the host",
    "load_balance_hosts": "hosts are tried in their order: leave it out",
    "pgbouncer": "it is true or false",
    "pool_timeout": "set MEMORY_SQL_POOL_TIMEOUT_SECONDS",
    "replication": "leave it out",
    "schema": "the schema is always memory: leave it out",
    "search_path": "the schema is always memory: leave it out",
    "service": "write host, port, user and database instead",
    "ssl": "write sslmode=require, or sslmode=verify-full with sslrootcert=FILE",
    "sslaccept": "write sslmode=verify-full with sslrootcert=FILE",
    "sslcompression": "leave it out",
    "supa": "leave it out",
}
ELSE = "leave it out; a setting of Postgres is written as options=-c%20NAME%3DVALUE"
MODES = ("disable", "allow", "prefer", "require", "verify-ca", "verify-full")
WORDS: Mapping[str, tuple[str, ...]] = {
    "sslmode": MODES,
    "ssl": MODES,
    "target_session_attrs": ("any", "primary", "standby", "prefer-standby", "read-write", "read-only"),
}

FALLBACKS = {"fallback_application_name"}  # they count only where the option itself isn't given
ONE_MATTER = {"ssl": "sslmode"}  # two names that the driver reads as the same
SEVERAL = {"host", "port"}  # options that may stand several times

NO_PLACES = (
    "the hosts and ports of the database URL can't be read: write postgresql://user:password@host:5432,other:5432/name,"
    " and an IPv6 address in brackets: [::1]:5432"
)
FORM = "write postgresql://user:password@host:5432/name, and in a password @ as %40, / as %2F, : as %3A, % as %25"


def asyncpg_url(url: str | URL) -> URL:
    """Converts any usual form of a Postgres URL for asyncpg. Raises `ConfigurationError`, without the password."""
    parsed = _parsed(url)
    if parsed.get_backend_name() not in ("postgresql", "postgres"):
        raise ConfigurationError(f"the database must be Postgres, not {parsed.get_backend_name()}")
    if parsed.host and "@" in parsed.host:  # the rest of a password
        raise ConfigurationError(f"the database URL has more than one @; {FORM}")
    if not all(map(_is_port, _ports(parsed))):
        raise ConfigurationError(f"the port of the database URL must be from 1 to {MOST_PORT}")
    return _connectable(parsed.set(drivername="postgresql+asyncpg", query=_understood(parsed.query)))


def _ports(url: URL) -> list[str]:
    """Those beside the hosts; not those of the option `port`."""
    hosts = url.query.get("host", ())
    beside = [one.rpartition(":")[2] for one in hosts if ":" in one] if isinstance(hosts, tuple) else []
    return beside if url.port is None else [str(url.port), *beside]


def _is_port(text: str) -> bool:
    return re.fullmatch(r"[0-9]{1,5}", text) is not None and 1 <= int(text) <= MOST_PORT


def _connectable(url: URL) -> URL:
    """Raises `ConfigurationError` if SQLAlchemy wouldn't connect with it: hosts and ports that don't fit each other."""
    try:
        url.get_dialect()().create_connect_args(url)
    except (ArgumentError, ValueError):
        raise ConfigurationError(NO_PLACES) from None
    return url


def is_pooled(url: URL) -> bool:
    """Whether the URL says, with SQLAlchemy's options, that a pooler assigns server connections per transaction."""
    return url.query.get(CACHE_SIZE) == "0"


def place_of(url: URL) -> str:
    """Host, port, database and user in words, with what the environment adds to a URL; without the password."""
    user = _said(url, "user", url.username) or os.environ.get("PGUSER") or getpass.getuser()
    name = _said(url, "database", url.database) or os.environ.get("PGDATABASE") or user
    return f"database {name} at {_hosts(url)}, user {user}"


def is_of_a_socket(url: URL) -> bool:
    return _host(url).startswith("/")


def _host(url: URL) -> str:
    return _said(url, "host", url.host) or os.environ.get("PGHOST") or "localhost"


def _hosts(url: URL) -> str:
    port = _said(url, "port", str(url.port or "")) or os.environ.get("PGPORT") or "5432"
    hosts, ports = _host(url).split(","), port.split(",")
    ports = ports if len(ports) == len(hosts) else ports[:1] * len(hosts)
    return " or ".join(_place(one, at) for one, at in zip(hosts, ports, strict=True))


def _place(host: str, port: str) -> str:
    if host.count(":") > 1 and not host.startswith("/"):  # IPv6
        return f"[{host}]:{port}"
    return host if ":" in host else f"{host}:{port}"


def _said(url: URL, option: str, value: str | None) -> str:
    found = url.query.get(option) or value or ""
    return found if isinstance(found, str) else ",".join(found)


def timeout_of(url: URL) -> float | None:
    """Seconds to connect within; None: no limit."""
    said = url.query.get(CONNECT_TIMEOUT)
    return TIMEOUT_SECONDS if said is None else float(str(said)) or None


def _parsed(url: str | URL) -> URL:
    if isinstance(url, URL):
        return url
    if not isinstance(url, str):
        raise ConfigurationError(f"the database URL must be text, not {type(url).__name__}; {FORM}")
    url = bare(url)
    try:
        return _with_hosts(_with_socket(make_url(_of_one_host(url))), url)
    except (ArgumentError, ValueError):
        raise ConfigurationError(f"the database URL can't be read; {FORM}") from None


_ADDRESS = re.compile(r"(?P<host>\[[^\[\]]+\]|[^\[\]:]+)(?::(?P<port>\d+))?")
_SEVERAL = re.compile(r"^(?P<before>[\w+]+://(?:[^/?]*@)?)(?P<hosts>[^/?@]*,[^/?@]*)(?P<after>[/?].*)?$", re.DOTALL)


def _of_one_host(url: str) -> str:
    """Without the hosts, if there are several: SQLAlchemy has a place for them among the options."""
    several = _SEVERAL.match(url)
    return url if several is None else f"{several['before']}{several['after'] or ''}"


def _with_socket(parsed: URL) -> URL:
    """The directory of a socket is written as a host in a URL of libpq's; SQLAlchemy has a place for it among the options."""
    directory = unquote(parsed.host or "")
    if not directory.startswith("/"):
        return parsed
    port = {} if parsed.port is None else {"port": str(parsed.port)}
    return parsed.set(host=None, port=None).update_query_dict({"host": directory, **port})


def _with_hosts(parsed: URL, url: str) -> URL:
    several = _SEVERAL.match(url)
    if several is None:
        return parsed
    if "[" in several["hosts"]:
        return _with_addresses(parsed, several["hosts"].split(","))
    hosts = [one if re.search(r":\d+$", one) else f"{one}:5432" for one in several["hosts"].split(",")]
    return parsed.set(host=None, port=None).update_query_dict({"host": hosts})


def _with_addresses(parsed: URL, places: Sequence[str]) -> URL:
    """Some are of IPv6, which SQLAlchemy takes only apart from the ports. Raises `ConfigurationError`."""
    found = [one for one in map(_ADDRESS.fullmatch, places) if one is not None]
    if len(found) < len(places) or parsed.query.keys() & SEVERAL:
        raise ConfigurationError(NO_PLACES)
    hosts, ports = [one["host"].strip("[]") for one in found], [one["port"] or "5432" for one in found]
    return parsed.set(host=None, port=None).update_query_dict({"host": ",".join(hosts), "port": ",".join(ports)})


def _understood(query: Mapping[str, str | tuple[str, ...]]) -> dict[str, str | tuple[str, ...]]:
    """The options as they are passed on. Raises `ConfigurationError` naming each that can't be, with a way out."""
    understood: dict[str, str | tuple[str, ...]] = {}
    said = dict[str, tuple[str, str]]()  # of each matter, the option that has said it, and what
    refused = []
    for given, value in query.items():
        name, word = ALIASES.get(given, given), str(value).lower()
        if word in AS_ANYWAY.get(name, ()) or (given in FALLBACKS and name in query):
            continue
        name, value = SAME_AS.get((name, word), (name, value))
        matter = ONE_MATTER.get(name, name)
        wrong = _wrong(name, value) or _otherwise(value, understood, said.get(matter))
        if wrong:
            refused.append(f"{given}: {wrong}")
        elif matter not in said:
            said[matter], understood[name] = (name, f"{given} says {query[given]}"), value
    if refused:
        raise ConfigurationError(f"the database URL has options that can't be used here: {'; '.join(refused)}")
    return understood


def _otherwise(value: object, understood: Mapping[str, object], said: tuple[str, str] | None) -> str | None:
    """What to do instead, if another option has said something else of the same matter."""
    if said is None or understood[said[0]] == value:
        return None
    return f"{said[1]}, so leave one out"


def _wrong(name: str, value: str | tuple[str, ...]) -> str | None:
    """What to do instead, if the option can't be used."""
    if name not in OPTIONS | OWN_OPTIONS | {CACHE_SIZE}:
        return INSTEAD.get(name, ELSE)
    if isinstance(value, tuple) and name not in SEVERAL:
        return "it is given twice"
    if name == "port" and not all(map(_is_port, ",".join([value] if isinstance(value, str) else value).split(","))):
        return f"it is a number from 1 to {MOST_PORT}"
    if name in WORDS and value not in WORDS[name]:
        return INSTEAD.get(name, f"it is one of {', '.join(WORDS[name])}")
    if name in WHOLE_NUMBERS and not re.fullmatch(r"\d{1,6}", str(value)):
        return "it is a whole number"
    if name == "command_timeout" and not re.fullmatch(r"\d{0,6}\.?\d+", str(value)):
        return "it is a number of seconds"
    return None
