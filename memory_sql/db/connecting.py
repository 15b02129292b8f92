"""Opening a connection; why one can't be opened, where that was, and the likely way out."""

from __future__ import annotations

import errno
import socket
import ssl
from collections.abc import Awaitable, Mapping, Sequence
from typing import Any, NamedTuple

import asyncpg  # type: ignore[import-untyped]
from sqlalchemy import URL
from sqlalchemy.exc import MissingGreenlet
from sqlalchemy.util.concurrency import in_greenlet

from memory_sql.db.urls import KEEPALIVES, OF_SOCKETS, is_of_a_socket, place_of, timeout_of
from memory_sql.errors import ConfigurationError, DatabaseError, MemorySQLError

# Behind PgBouncer in transaction mode the next transaction may run on another server connection: no session state lasts,
# including named statements, and PgBouncer itself knows only some settings.
POOLED = {"statement_cache_size": 0, "prepared_statement_name_func": lambda: ""}
RECIPE = (
    "prepared_statement_cache_size=0 in the URL; an engine of your own also needs"
    ' connect_args={"statement_cache_size": 0, "prepared_statement_name_func": lambda: ""} (docs/deploying.md#pgbouncer)'
)
POOLER = f"a pooler in transaction mode needs {RECIPE}"
ONE_AT_MOST = ("primary", "read-write")  # which of a URL's hosts are meant
_leading = dict[URL, tuple[str, Any]]()  # which host that was when somebody connected last
MOST_SAID = 200  # characters of a server's message


class Way(NamedTuple):
    """What is wrong, and the likely way out."""

    wrong: str
    out: str


NO_ANSWER = Way(
    "there is no answer in time",
    "a firewall may be in between, or what listens there isn't Postgres: check host and port",
)
NOT_POSTGRES = Way(
    "what answers there isn't Postgres, or doesn't speak TLS",
    "check the port; for a server without TLS, leave sslmode out of the URL",
)
CUT = Way(
    "the connection was closed before Postgres answered",
    "check that the port is Postgres's; a server or proxy that takes only TLS needs sslmode=require",
)
NO_HOST = Way("there is no host of this name", "check its spelling; a @ in a password is written %40")
REFUSED = Way("nothing listens there", "start Postgres, or correct host and port")
NO_SOCKET = Way("there is no such socket", "start Postgres, or correct the directory and the port")
NO_FILE = Way(
    "a certificate or key can't be read",
    "correct the path in sslrootcert, sslcert or sslkey; the certificates of the system are often in"
    " /etc/ssl/certs/ca-certificates.crt",
)
UNTRUSTED = Way(
    "the server's certificate isn't trusted",
    "name the provider's with sslrootcert=FILE, and the host as the certificate does",
)
NO_ROUTE = Way("the host can't be reached", "check the network and the host")

# By SQLSTATE. Postgres, poolers and providers answer with these before a connection is open.
REFUSALS = {
    "28P01": Way(
        "the server refuses this user or its password",
        "check both; in a URL a password has @ as %40, / as %2F, : as %3A, % as %25",
    ),
    "28000": Way(
        "the server refuses this user",
        "it may not exist, or pg_hba.conf doesn't let it in from here; if that asks for TLS, add sslmode=require to the URL",
    ),
    "3D000": Way("the server refuses this database: there is none of this name", "create it, or correct the URL"),
    "53300": Way(
        "the database has no free connection slot",
        "lower MEMORY_SQL_POOL_SIZE or the number of processes, raise max_connections, or put a pooler in between",
    ),
    "57P03": Way("the database is starting", "try again in a moment"),
    "08P01": Way(
        "the server doesn't take this way of connecting", f"if it is a pooler, check its configuration: {POOLER}"
    ),
}


def connect(url: URL, *arguments: Any, **named: Any) -> Awaitable[Any]:
    """Opens a connection as the driver does; raises before it begins where SQLAlchemy couldn't wait for it."""
    if not in_greenlet():
        raise MissingGreenlet
    return _opened(url, *arguments, **named)


async def _opened(url: URL, *arguments: Any, **named: Any) -> Any:
    try:
        opened = await _first_of(url, arguments, named)
    except (OSError, ValueError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError) as error:
        raise not_connected(error, url) from None
    _keep_alive(opened, url)
    return opened


async def _first_of(url: URL, arguments: Sequence[Any], named: Mapping[str, Any]) -> Any:
    """The first host that is what is wanted, each within the time limit, which the driver would apply to all together.

    So a machine that is off doesn't keep those after it from being asked. If only one can be meant, the one that was it last
    comes first.
    """
    hosts, ports = named.get("host"), named.get("port")
    wanted, seconds = url.query.get("target_session_attrs"), timeout_of(url)
    if not isinstance(hosts, list) or len(hosts) < 2 or wanted == "prefer-standby":
        return await asyncpg.connect(*arguments, timeout=seconds, **named)
    places = [*zip(hosts, ports if isinstance(ports, list) else [ports] * len(hosts), strict=True)]
    failed: Exception | None = None
    for place in sorted(places, key=lambda one: one != _leading.get(url)):
        try:
            opened = await asyncpg.connect(*arguments, timeout=seconds, **{**named, "host": place[0], "port": place[1]})
        except (OSError, asyncpg.CannotConnectNowError, asyncpg.TargetServerAttributeNotMatched) as error:
            failed = _more_telling(failed, error)
        else:
            if wanted in ONE_AT_MOST:
                _leading[url] = place
            return opened
    assert failed is not None
    raise failed


def _more_telling(before: Exception | None, error: Exception) -> Exception:
    """Rather what a server said than that there was none."""
    return error if before is None or isinstance(before, OSError) else before


def _keep_alive(driver: Any, url: URL) -> None:
    """Does what the URL says about TCP's keepalives, as far as the system can."""
    said = {name: int(str(url.query[name])) for name in OF_SOCKETS if name in url.query}
    own = driver._transport.get_extra_info("socket")
    if not said or own.family not in (socket.AF_INET, socket.AF_INET6):
        return
    own.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, said.pop("keepalives", 1))
    for name, seconds in said.items():
        option = getattr(socket, KEEPALIVES[name], None)
        if option is not None and seconds:  # 0: the system's own
            own.setsockopt(socket.IPPROTO_TCP, option, seconds)


def not_connected(error: Exception, url: URL) -> MemorySQLError:
    """The library's error for what the driver raised while it connected."""
    code = getattr(error, "sqlstate", None)
    if isinstance(error, asyncpg.ClientConfigurationError) or (code is None and _is_of_arguments(error)):
        return ConfigurationError(f"the database URL can't be used: {_first_line(error)}")
    if isinstance(error, asyncpg.TargetServerAttributeNotMatched):
        wanted = url.query.get("target_session_attrs")
        return DatabaseError(f"no server is {wanted}: {place_of(url)}; correct target_session_attrs, or the hosts")
    if code is not None:
        return refused(code, url, _first_line(error))
    way = _way_out_of(error, url)
    told = f" ({_first_line(error)})" if isinstance(error, ssl.SSLError) or way is NO_ROUTE else ""
    return DatabaseError(f"the database can't be reached: {way.wrong}{told}: {place_of(url)}; {way.out}")


def refused(code: str, url: URL | None, said: str = "") -> DatabaseError:
    """The error for a server that answers with an SQLSTATE instead of opening a connection. `said`: its own words."""
    way = (
        CUT
        if code in ("08003", "08006")
        else REFUSALS.get(code, Way("the server refuses the connection", "see its log"))
    )
    words = f", “{said}”" if said else ""
    where = f": {place_of(url)}" if url is not None else ""
    return DatabaseError(f"{way.wrong} (SQLSTATE {code}{words}){where}; {way.out}")


def _is_of_arguments(error: Exception) -> bool:
    return isinstance(error, ValueError) and not isinstance(error, (OSError, UnicodeError))


def _way_out_of(error: Exception, url: URL) -> Way:
    if isinstance(error, ssl.SSLCertVerificationError):
        return UNTRUSTED
    if isinstance(error, (socket.gaierror, UnicodeError)):
        return NO_HOST
    if isinstance(error, TimeoutError):
        return NO_ANSWER
    if isinstance(error, FileNotFoundError):
        return NO_SOCKET if is_of_a_socket(url) else NO_FILE
    if isinstance(error, ConnectionRefusedError) or "Connect call failed" in str(error):
        return REFUSED
    if isinstance(error, ssl.SSLError) or "SSL" in str(error):
        return NOT_POSTGRES
    if isinstance(error, ConnectionError) or not isinstance(error, OSError):
        return CUT
    return NO_ROUTE


def _first_line(error: Exception) -> str:
    """A server's or the driver's words about a connection contain neither passwords nor rows."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    if isinstance(error, OSError) and error.errno in errno.errorcode and error.strerror:
        return error.strerror[:MOST_SAID]
    return lines[0][:MOST_SAID]
