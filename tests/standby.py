"""A primary and streaming standbys of their own, from the embedded Postgres's programs or the system's."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from memory_sql import embedded
from memory_sql.errors import EmbeddedError

NEEDED = ("initdb", "pg_ctl", "pg_basebackup")
QUICK = "-c fsync=off -c shared_buffers=32MB -c max_connections=60 -c listen_addresses='' -c log_min_messages=fatal"


def user() -> pwd.struct_passwd | None:
    """Whom the servers run as, where that isn't ourselves: Postgres refuses to run as root."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        with suppress(KeyError):
            return pwd.getpwnam(name)
    return None


def programs(*more: str) -> Path | None:
    """A directory of all programs that are needed, and of `more`, which the servers' user can run."""
    found = list[Path]()
    with suppress(EmbeddedError):
        found.append(embedded.programs())
    found += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return next((one for one in found if all(map(_runs, [one / name for name in (*NEEDED, *more)]))), None)


def _runs(program: Path) -> bool:
    try:
        return run(str(program), "--version").returncode == 0
    except OSError:
        return False


def run(*command: str, output: int = subprocess.PIPE) -> subprocess.CompletedProcess[str]:
    """As the servers' user, standard output and error together."""
    own = user()
    return subprocess.run(
        command,
        check=False,
        cwd="/",
        text=True,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        user=own and own.pw_uid,
        group=own and own.pw_gid,
        extra_groups=None if own is None else [],
    )


class Server:
    """A cluster in a directory; its socket is beside its data."""

    def __init__(self, directory: Path, binaries: Path) -> None:
        self.directory, self.binaries = directory, binaries
        self.url = f"postgresql+asyncpg://postgres@/postgres?host={directory}&port=5432"

    def start(self, *, waits: bool = True) -> None:
        options = f"-k {self.directory} {QUICK}"
        log = str(self.directory / "log")
        self._ctl("start", "-o", options, "-l", log, "-w" if waits else "-W")

    def stop(self, mode: str = "fast") -> None:
        self._ctl("stop", "-m", mode, "-w")

    def promote(self) -> None:
        self._ctl("promote", "-w")

    def _ctl(self, *arguments: str) -> None:
        # Its output would be inherited by the server, and read to the end.
        command = [str(self.binaries / "pg_ctl"), "-s", "-D", str(self.directory / "data"), *arguments]
        done = run(*command, output=subprocess.DEVNULL)
        assert done.returncode == 0, f"pg_ctl {arguments[0]}: {self._said()}"

    def _said(self) -> str:
        log = self.directory / "log"
        return log.read_text()[-2000:] if log.exists() else "nothing"


class Servers:
    """What was made in one directory, and is stopped at its end."""

    def __init__(self, root: Path, binaries: Path) -> None:
        self.root, self.binaries, self.made = root, binaries, list[Server]()

    def primary(self) -> Server:
        made = self._made()
        options = ("--username=postgres", "--auth=trust", "--encoding=UTF8", "--locale=C.UTF-8", "--no-sync")
        done = run(str(self.binaries / "initdb"), "-D", str(made.directory / "data"), *options)
        assert done.returncode == 0, done.stdout
        made.start()
        return made

    def standby(self, of: Server) -> Server:
        made = self._made()
        data, options = (
            str(made.directory / "data"),
            ("-U", "postgres", "-X", "stream", "-c", "fast", "-R", "--no-sync"),
        )
        done = run(str(self.binaries / "pg_basebackup"), "-h", str(of.directory), "-D", data, *options)
        assert done.returncode == 0, done.stdout
        made.start()
        return made

    def _made(self) -> Server:
        directory = self.root / str(len(self.made))
        directory.mkdir(mode=0o755)
        _give(directory)
        self.made.append(Server(directory, self.binaries))
        return self.made[-1]

    def close(self) -> None:
        for server in reversed(self.made):
            with suppress(AssertionError):  # it has stopped already
                server.stop("immediate")


def _give(directory: Path) -> None:
    own = user()
    if own is not None:
        os.chown(directory, own.pw_uid, own.pw_gid)


@contextmanager
def servers() -> Iterator[Servers]:
    binaries = programs()
    assert binaries is not None
    root = Path(tempfile.mkdtemp(prefix="memory-sql-standby-", dir="/tmp"))
    root.chmod(0o755)
    made = Servers(root, binaries)
    try:
        yield made
    finally:
        made.close()
        shutil.rmtree(root, ignore_errors=True)
