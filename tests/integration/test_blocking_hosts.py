"""`session=` of `memory_sql.sync`: the transaction of code that blocks."""

from __future__ import annotations

import asyncio
import inspect
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psycopg
import psycopg2
import pytest
from django.db.utils import ConnectionHandler
from sqlalchemy import create_engine, text
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, scoped_session, sessionmaker

from memory_sql import memory as awaited
from memory_sql.config import ScopeSettings, Settings
from memory_sql.db import blocking
from memory_sql.db.naming import in_schema
from memory_sql.db.urls import asyncpg_url
from memory_sql.domain.selection import Selection
from memory_sql.errors import InputError, LockTimeoutError, NotFoundError
from memory_sql.resources.faces import FACES
from memory_sql.sync import Memory
from tests import recycling
from tests.blocking import HOSTS, WAITING, Django, Host, in_django
from tests.database import libpq, owners_url
from tests.factories import Clock, conversation
from tests.recycling import administer, named
from tests.sizes import few_in_ci

SECONDS = 60
MIA: dict[str, Any] = {"agent_id": "ada", "user_id": "mia"}
OFFLINE = Settings(llm="offline")

pytestmark = pytest.mark.direct  # the hosts keep settings of their sessions


@pytest.fixture
def memory(database_url: str) -> Iterator[Memory]:
    with Memory(database_url, settings=OFFLINE, clock=Clock()) as opened:
        yield opened


@pytest.fixture(params=list(HOSTS))
def host(request: pytest.FixtureRequest, database_url: str) -> Iterator[Host]:
    with HOSTS[request.param](database_url) as opened:
        yield opened


def ours(sql: str) -> str:
    """As a host's own driver has to send it."""
    return in_schema(sql, recycling.SCHEMA)


def contents(memory: Memory) -> list[str]:
    return [one.content for one in memory.observations.list(**MIA)]


@pytest.mark.slow
def test_memory_stands_and_falls_with_the_host(memory: Memory, host: Host, database_url: str) -> None:
    with psycopg.connect(libpq(owners_url(database_url))) as owner:
        owner.execute("CREATE TABLE public.orders (id int); GRANT ALL ON public.orders TO PUBLIC")
    gone = memory.observe("Likes coffee.", **MIA)
    host.rows("INSERT INTO public.orders VALUES (1)")
    assert memory.add(conversation(2), **MIA, conversation_id="s", session=host.session).accepted == 2
    memory.observe("The gate has bay 4711.", **MIA, session=host.session)
    assert memory.forget(gone.id, agent_id="ada", session=host.session).observations == (gone.id,)
    assert "4711" in str(memory.context(**MIA, session=host.session))
    assert len(memory.search("gate", **MIA, session=host.session).results) == 1
    assert contents(memory) == ["Likes coffee."]
    host.rollback()
    assert contents(memory) == ["Likes coffee."]
    with psycopg.connect(libpq(owners_url(database_url))) as owner:
        assert owner.execute("SELECT count(*) FROM public.orders").fetchone() == (0,)


def test_what_the_host_commits_is_kept(memory: Memory, host: Host) -> None:
    gone = memory.observe("Likes coffee.", **MIA)
    memory.add(conversation(2), **MIA, conversation_id="s", session=host.session)
    memory.observe("The gate has bay 4711.", **MIA, session=host.session)
    memory.forget(gone.id, agent_id="ada", session=host.session)
    host.commit()
    assert contents(memory) == ["The gate has bay 4711."]
    assert len(memory.conversations.messages(**MIA)) == 2


def test_hosts_savepoint_takes_memory_with_it(memory: Memory, host: Host) -> None:
    """Also after a call that went back to a savepoint of its own, which stays: SQLAlchemy would give both one name."""
    tea = memory.observe("Likes tea.", **MIA)
    memory.observe("Likes boats.", **MIA, session=host.session)

    def fails() -> None:
        with host.savepoint():
            memory.observe("Likes coffee.", **MIA, session=host.session)
            memory.forget(tea.id, agent_id="ada", session=host.session)
            memory.forget("o999-1", agent_id="ada", session=host.session)

    with pytest.raises(NotFoundError):
        fails()
    with host.savepoint():
        memory.observe("Likes jazz.", **MIA, session=host.session)
        memory.people.merge(agent_id="ada", user_id="mia2", into_user_id="mia", session=host.session)
    host.commit()
    assert sorted(contents(memory)) == ["Likes boats.", "Likes jazz.", "Likes tea."]


def test_after_an_error_of_ours_the_transaction_goes_on(memory: Memory, host: Host) -> None:
    memory.observe("Likes boats.", **MIA, session=host.session)
    with pytest.raises(NotFoundError):
        memory.forget("o999-1", agent_id="ada", session=host.session)
    with pytest.raises(InputError):
        memory.observe("", **MIA, session=host.session)
    with pytest.raises(InputError, match="wait=True"):
        memory.add(conversation(2), **MIA, conversation_id="s", session=host.session, wait=True)
    memory.observe("Likes tea.", **MIA, session=host.session)
    host.commit()
    assert sorted(contents(memory)) == ["Likes boats.", "Likes tea."]


def test_what_the_database_refuses_is_the_hosts_own_error(memory: Memory, host: Host) -> None:
    """As after any other statement that fails, a rollback is needed."""
    memory.observe("Likes boats.", **MIA, session=host.session)
    with pytest.raises(host.error):
        host.rows("SELECT 1 / 0")
    with pytest.raises(host.error) as caught:
        memory.observe("Likes tea.", **MIA, session=host.session)
    found = caught.value if isinstance(caught.value, psycopg.Error) else caught.value.__cause__
    assert "tea" not in str(caught.value)
    assert isinstance(found or getattr(caught.value, "orig", caught.value), (psycopg.Error, psycopg2.Error))
    host.rollback()
    assert contents(memory) == []


@pytest.mark.slow
def test_a_blocked_call_ends_and_the_host_goes_on_from_its_savepoint(database_url: str, host: Host) -> None:
    with (
        Memory(database_url, settings=Settings(llm="offline", lock_timeout_seconds=0.2)) as memory,
        psycopg.connect(libpq(owners_url(database_url))) as other,
    ):
        memory.observe("Likes boats.", **MIA)
        memory.observe("Other.", agent_id="ada", user_id="jonas", session=host.session)
        other.execute(ours("SELECT 1 FROM memory.scopes FOR UPDATE"))
        with pytest.raises(LockTimeoutError, match="lock_timeout_seconds"), host.savepoint():
            memory.observe("Likes tea.", **MIA, session=host.session)
        other.rollback()
        assert host.rows("SELECT current_setting('lock_timeout')") == [("0",)]
        memory.observe("Likes jazz.", **MIA, session=host.session)
        host.commit()
        assert sorted(contents(memory)) == ["Likes boats.", "Likes jazz."]


def test_calls_of_other_threads_go_on_while_a_hosts_waits_for_a_lock(database_url: str, host: Host) -> None:
    if isinstance(host, Django) or isinstance(host.session, scoped_session):
        pytest.skip("it belongs to its thread")
    waits = threading.Event()
    with Memory(database_url, settings=OFFLINE) as memory, psycopg.connect(libpq(owners_url(database_url))) as other:
        memory.observe("Likes boats.", **MIA)
        host.rows("SELECT 1")
        other.execute(ours("SELECT 1 FROM memory.scopes FOR UPDATE"))

        def observe() -> None:
            waits.set()
            memory.observe("Likes tea.", **MIA, session=host.session)

        waiting = threading.Thread(target=observe)
        waiting.start()
        assert waits.wait(20)
        assert memory.observe("Likes cats.", agent_id="ada", user_id="jonas").content == "Likes cats."
        other.rollback()
        waiting.join(20)
        host.commit()
        assert sorted(contents(memory)) == ["Likes boats.", "Likes tea."]


def test_who_waits_for_a_lock_while_another_thread_closes_is_told(database_url: str) -> None:
    memory = Memory(database_url, settings=OFFLINE).open()
    memory.observe("Likes boats.", **MIA)
    with (
        psycopg.connect(libpq(database_url)) as connection,
        psycopg.connect(libpq(owners_url(database_url))) as other,
        psycopg.connect(libpq(owners_url(database_url)), autocommit=True) as looks,
        ThreadPoolExecutor(2) as threads,
    ):
        other.execute(ours("SELECT 1 FROM memory.scopes FOR UPDATE"))
        waiting = threads.submit(lambda: memory.observe("Likes tea.", **MIA, session=connection))
        are_waiting(looks)
        closing = threads.submit(memory.close)
        other.rollback()
        with pytest.raises(InputError, match="closed by another thread"):
            waiting.result(20)
        closing.result(20)
        connection.rollback()
        assert connection.execute("SELECT 1").fetchone() == (1,)
    with memory:
        assert contents(memory) == ["Likes boats."]


INTERRUPTED = """
import psycopg, signal, sys
from memory_sql.config import Settings
from memory_sql.sync import Memory

signal.signal(signal.SIGINT, signal.default_int_handler)
mia = {"agent_id": "ada", "user_id": "mia"}
with Memory(sys.argv[1], settings=Settings(llm="offline")) as memory, psycopg.connect(sys.argv[2]) as connection:
    print("begins", flush=True)
    try:
        memory.observe("Likes tea.", **mia, session=connection)
    except KeyboardInterrupt:
        print("interrupted", flush=True)
    connection.rollback()
    memory.observe("Has a cat.", agent_id="ada", user_id="jonas", session=connection)
"""


def are_waiting(looks: psycopg.Connection[Any]) -> None:
    """Until a statement of this database waits for a lock: the server has those of other tests."""
    until = time.monotonic() + SECONDS
    while not looks.execute(WAITING).fetchone():
        assert time.monotonic() < until, "nothing waits for a lock"


def interrupt_when_waiting(looks: psycopg.Connection[Any]) -> None:
    are_waiting(looks)
    os.kill(os.getpid(), signal.SIGINT)


@pytest.mark.slow
@pytest.mark.open
def test_interrupt_gives_up_the_hosts_statement_and_both_go_on(memory: Memory, database_url: str) -> None:
    memory.observe("Likes boats.", **MIA)
    command = [sys.executable, "-c", INTERRUPTED, database_url, libpq(database_url)]
    with (
        psycopg.connect(libpq(database_url)) as other,
        psycopg.connect(libpq(database_url), autocommit=True) as looks,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as program,
    ):
        other.execute(ours("SELECT 1 FROM memory.scopes FOR UPDATE"))
        try:
            are_waiting(looks)
            program.send_signal(signal.SIGINT)
            out, err = program.communicate(timeout=60)
        finally:
            program.kill()
    assert (out, err, program.returncode) == ("begins\ninterrupted\n", "", 0)
    assert contents(memory) == ["Likes boats."]
    assert len(memory.observations.list(agent_id="ada", user_id="jonas")) == 1


HALF = """
import signal, sys
from importlib import import_module
from memory_sql.config import Settings
from memory_sql.sync import Memory

signal.signal(signal.SIGINT, signal.default_int_handler)
mia = {"agent_id": "ada", "user_id": "mia"}
connection = import_module(sys.argv[3]).connect(sys.argv[2])
with Memory(sys.argv[1], settings=Settings(llm="offline")) as memory:
    memory.observe("Likes tea.", **mia, session=connection)
    connection.commit()
    print("begins", flush=True)
    try:
        memory.people.merge(agent_id="ada", user_id="visitor", into_user_id="mia", session=connection)
    except KeyboardInterrupt:
        print("interrupted", flush=True)
    connection.commit()
    memory.observe("Likes boats.", **mia, session=connection)
    connection.commit()
"""
SLOW = (
    "CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS"
    " $$ BEGIN PERFORM pg_advisory_xact_lock_shared(7); RETURN NEW; END $$",
    "CREATE TRIGGER slow AFTER INSERT ON memory.user_aliases FOR EACH ROW EXECUTE FUNCTION wait()",
)


@pytest.mark.slow
@pytest.mark.open
@pytest.mark.parametrize("driver", few_in_ci(["psycopg", "psycopg2"], ["psycopg2"]))
def test_what_was_half_done_when_it_was_interrupted_is_not_committed(
    memory: Memory, database_url: str, driver: str
) -> None:
    """psycopg2 hears of it when its statement is done: the alias would be there, and no event that tells of it."""
    with (
        psycopg.connect(libpq(database_url), autocommit=True) as other,
        psycopg.connect(libpq(database_url), autocommit=True) as looks,
    ):
        for sql in SLOW:
            other.execute(ours(sql))
        other.execute("SELECT pg_advisory_lock(7)")
        command = [sys.executable, "-c", HALF, database_url, libpq(database_url), driver]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as program:
            try:
                are_waiting(looks)
                program.send_signal(signal.SIGINT)
                other.execute("SELECT pg_advisory_unlock(7)")
                out, err = program.communicate(timeout=60)
            finally:
                program.kill()
        assert (out, err, program.returncode) == ("begins\ninterrupted\n", "", 0)
        assert looks.execute(ours("SELECT user_id FROM memory.user_aliases")).fetchall() == []
    assert sorted(contents(memory)) == ["Likes boats.", "Likes tea."]
    assert list(memory.admin.verify()) == []


@pytest.mark.slow
def test_connection_that_does_not_fail_after_an_interrupt_is_closed(
    memory: Memory, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuses(_: object) -> None:
        raise psycopg.OperationalError("another command is in progress")

    monkeypatch.setattr(blocking, "plain_cursor", refuses)
    with psycopg.connect(libpq(database_url)) as connection:
        memory.observe("Likes tea.", **MIA, session=connection)
        blocking.spoil(blocking.host_of(connection))
        assert connection.closed
    assert contents(memory) == []


SLEEPING = "SELECT 1 FROM pg_stat_activity WHERE pid = %s AND wait_event = 'PgSleep'"


def test_statement_under_way_after_an_interrupt_ends_and_the_host_goes_on(memory: Memory, database_url: str) -> None:
    """As psycopg leaves it when the interrupt comes while it reads."""
    with (
        psycopg.connect(libpq(database_url)) as connection,
        psycopg.connect(libpq(database_url), autocommit=True) as looks,
    ):
        memory.observe("Likes tea.", **MIA, session=connection)
        connection.pgconn.send_query(b"SELECT pg_sleep(600)")
        until = time.monotonic() + SECONDS
        while not looks.execute(SLEEPING, [connection.info.backend_pid]).fetchone():
            assert time.monotonic() < until, "it doesn't begin"
        blocking.spoil(blocking.Host(connection, lambda error: error))
        with pytest.raises(psycopg.errors.InFailedSqlTransaction):
            connection.execute("SELECT 1")
        connection.rollback()
        memory.observe("Has a cat.", **MIA, session=connection)
    assert contents(memory) == ["Has a cat."]


@pytest.fixture
def _interrupted() -> Iterator[None]:
    """As in a terminal: who runs the tests in the background ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.open  # behind walls nobody else may hold the lock
@pytest.mark.usefixtures("_interrupted")
def test_django_calls_nothing_as_committed_after_an_interrupt(memory: Memory, database_url: str) -> None:
    told: list[str] = []
    with (
        psycopg.connect(libpq(database_url), autocommit=True) as other,
        psycopg.connect(libpq(database_url), autocommit=True) as looks,
        in_django(database_url) as host,
        ThreadPoolExecutor() as threads,
    ):
        memory.observe("Likes boats.", **MIA)
        other.execute("BEGIN")
        other.execute(ours("SELECT 1 FROM memory.scopes FOR UPDATE"))
        host.session.on_commit(lambda: told.append("committed"))
        interrupting = threads.submit(interrupt_when_waiting, looks)
        with pytest.raises(KeyboardInterrupt):
            memory.observe("Likes tea.", **MIA, session=host.session)
        interrupting.result()
        other.execute("ROLLBACK")
        host.commit()
    assert (told, contents(memory)) == ([], ["Likes boats."])


# What can't be joined


def refused(memory: Memory, session: Any, told: str) -> None:
    for call in (
        lambda: memory.observe("Likes tea.", **MIA, session=session),
        lambda: memory.add(conversation(2), **MIA, conversation_id="s", session=session),
        lambda: memory.context(**MIA, session=session),
        lambda: memory.people.forget("mia", session=session),
    ):
        with pytest.raises(InputError, match=told):
            call()


def test_a_host_without_a_transaction_is_refused(memory: Memory, database_url: str) -> None:
    url = libpq(database_url)
    for connect in (psycopg.connect, psycopg2.connect):
        connection: Any = connect(url)
        connection.autocommit = True
        refused(memory, connection, "in autocommit")
        connection.close()
        refused(memory, connection, "closed")
    engine = create_engine(libpq(database_url, "postgresql+psycopg"), isolation_level="AUTOCOMMIT")
    with engine.connect() as alone:
        refused(memory, alone, "in autocommit")
    engine.dispose()
    with in_django(database_url) as host:
        host.commit()
        refused(memory, host.session, "in autocommit")
    assert contents(memory) == []


def test_a_transaction_block_of_a_connection_in_autocommit_is_one(memory: Memory, database_url: str) -> None:
    with psycopg.connect(libpq(database_url), autocommit=True) as connection:

        def fails() -> None:
            with connection.transaction():
                memory.observe("Likes tea.", **MIA, session=connection)
                memory.observations.get("o999-1", **MIA, session=connection)

        with pytest.raises(NotFoundError):
            fails()
        with connection.transaction():
            memory.observe("Likes boats.", **MIA, session=connection)
    assert contents(memory) == ["Likes boats."]


def test_a_cursor_stands_for_its_connection(memory: Memory, database_url: str) -> None:
    with psycopg.connect(libpq(database_url)) as connection, connection.cursor() as cursor:
        memory.observe("Likes tea.", **MIA, session=cursor)  # type: ignore[arg-type]
    with in_django(database_url) as host, host.session.cursor() as cursor:
        memory.observe("Likes boats.", **MIA, session=cursor)
        host.commit()
    assert sorted(contents(memory)) == ["Likes boats.", "Likes tea."]


def test_what_belongs_to_an_event_loop_is_refused_with_the_way_out(memory: Memory, database_url: str) -> None:
    session = AsyncSession(create_async_engine(asyncpg_url(database_url)))
    refused(memory, session, "AsyncSession, await memory_sql.Memory")
    refused(memory, session.sync_session, "AsyncSession, await memory_sql.Memory")
    refused(memory, object(), "not object")


def test_what_is_no_connection_is_named_by_its_type_alone(memory: Memory) -> None:
    with pytest.raises(InputError, match=r"not str$") as caught:
        memory.observe("Likes tea.", **MIA, session="postgresql://u:secret@h/d")  # type: ignore[arg-type]
    assert "secret" not in str(caught.value)


def test_session_that_is_not_bound_for_our_tables_is_refused(memory: Memory, database_url: str) -> None:
    class Other(DeclarativeBase):
        pass

    class Order(Other):
        __tablename__ = "orders"
        id: Mapped[int] = mapped_column(primary_key=True)

    engine = create_engine(libpq(database_url, "postgresql+psycopg"))
    for session in (Session(), Session(binds={Order: engine}), scoped_session(sessionmaker())):
        refused(memory, session, "must be bound to an engine")
    engine.dispose()


def test_pipeline_is_refused_and_the_transaction_goes_on(memory: Memory, database_url: str) -> None:
    """Its statements answer later, so a call couldn't read what it needs to go on."""
    with psycopg.connect(libpq(database_url)) as connection:
        with connection.pipeline():
            refused(memory, connection, "in pipeline mode; call memory_sql before or after")
        memory.observe("Likes boats.", **MIA, session=connection)
    assert contents(memory) == ["Likes boats."]


def test_django_on_another_database_or_in_another_thread_is_refused(memory: Memory, database_url: str) -> None:
    sqlite = ConnectionHandler({"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}})["default"]
    refused(memory, sqlite, "sqlite")
    told = list[Exception]()

    def elsewhere(session: Any) -> None:
        try:
            memory.observe("Likes tea.", **MIA, session=session)
        except Django.error as error:
            told.append(error)

    with in_django(database_url) as host:
        thread = threading.Thread(target=elsewhere, args=(host.session,))
        thread.start()
        thread.join()
    assert "thread" in str(told[0])
    assert contents(memory) == []


@pytest.fixture
def bare(server_url: str) -> Iterator[str]:
    """A database without our schema."""
    name = f"memory_sql_blocking_{os.getpid()}"
    asyncio.run(administer(server_url, f"DROP DATABASE IF EXISTS {name} WITH (FORCE)", f"CREATE DATABASE {name}"))
    yield named(server_url, name)
    asyncio.run(administer(server_url, f"DROP DATABASE {name} WITH (FORCE)"))


@pytest.mark.open
@pytest.mark.parametrize("kind", HOSTS)
def test_a_transaction_of_another_database_is_refused_by_name(memory: Memory, bare: str, kind: str) -> None:
    ours = memory._memory.database.url.database
    with HOSTS[kind](bare) as host:
        host.rows("SELECT 1")
        refused(memory, host.session, f"memory_sql_blocking_{os.getpid()}.*this Memory of {ours}")
        assert host.rows("SELECT 1") == [(1,)]  # the host's transaction goes on


def test_a_place_is_asked_once_which_database_it_is(memory: Memory, database_url: str) -> None:
    sent = list[str]()
    for _ in range(3):
        with psycopg.connect(libpq(database_url)) as connection:
            memory.observe("Likes tea.", **MIA, session=connection)
        sent.append(str(len(memory._memory.database.identity._places)))
    assert sent == ["1", "1", "1"]


@pytest.mark.slow
def test_forgetting_with_a_journal_needs_a_commit_that_can_be_seen(database_url: str, tmp_path: Path) -> None:
    journal = tmp_path / "forgotten.jsonl"
    with Memory(database_url, settings=Settings(llm="offline", forget_journal=journal)) as memory:
        told = memory.observe("Likes tea.", **MIA)
        for kind in HOSTS:
            with HOSTS[kind](database_url) as host:
                if kind == "django":
                    continue
                for call in (
                    lambda: memory.forget(told.id, agent_id="ada", session=host.session),
                    lambda: memory.people.forget("mia", session=host.session),
                ):
                    with pytest.raises(InputError, match="forget_journal"):
                        call()
                assert memory.forget(told.id, agent_id="ada", dry_run=True, session=host.session).dry_run
                host.commit()
        with in_django(database_url) as host:
            host.commit()
            host.session.set_autocommit(False)
            with pytest.raises(InputError, match="forget_journal"):
                memory.forget(told.id, agent_id="ada", session=host.session)
            host.session.rollback()
            host.session.set_autocommit(True)
        assert contents(memory) == ["Likes tea."]
        for commits in (False, True):
            with in_django(database_url) as host:
                receipt = memory.forget(told.id, agent_id="ada", session=host.session)
                (host.commit if commits else host.rollback)()
            lines = journal.read_text().splitlines() if journal.exists() else []
            assert len(lines) == (2 if commits else 0)
        assert receipt.id in lines[0]
        assert contents(memory) == []


# Each call does what the awaited one does

TABLES = """
SELECT c.relname FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'agent_key'
WHERE c.relnamespace = 'memory'::regnamespace AND c.relkind = 'r' ORDER BY 1
"""
SEQUENCES = "SELECT sequencename, last_value FROM pg_sequences WHERE schemaname = 'memory' ORDER BY 1"
NEW = re.compile(
    r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|T[\d:]{8}\.\d+\+00:00"
)  # ids, and times by the server's clock

Call = Callable[[Any, "Known", Any], Any]


class Known:
    """What an agent knows before a call."""

    def __init__(self, memory: Memory, agent_id: str) -> None:
        self.agent: dict[str, Any] = {"agent_id": agent_id}
        self.mia: dict[str, Any] = {"agent_id": agent_id, "user_id": "mia"}
        memory.add(conversation(3), **self.mia, conversation_id="s", group_ids=["harbor"])
        self.tea = memory.observe("Likes tea.", **self.mia, tags=["drinks"], metadata={"a": [1.5, None, "ü"]})
        self.boats = memory.observe("Has a boat.", **self.mia, confidence=0.5)
        self.gone = memory.observe("Lives in Kiel.", **self.mia)
        memory.observations.quarantine(self.gone.id, **self.mia)
        self.hold = memory.holds.place(**self.agent, conversation_id="s")
        memory.people.merge(**self.agent, user_id="mia2", into_user_id="mia")
        self.scope = self.tea.scope.id
        memory.prompts.set(self.scope, "consolidation", "Be brief.", **self.agent)


CALLS: dict[str, Call] = {
    "add": lambda m, k, s: m.add(conversation(4), **k.mia, conversation_id="t", idempotency_key="k", session=s),
    "observe": lambda m, k, s: m.observe("Sails ü.", **k.mia, tags=["x"], metadata={"b": [2]}, session=s),
    "context": lambda m, k, s: m.context(**k.mia, message="Which boat?", session=s),
    "digest": lambda m, k, s: m.digest(**k.mia, query="boat", session=s),
    "search": lambda m, k, s: m.search("boat", **k.mia, explain=True, session=s),
    "forget": lambda m, k, s: m.forget(Selection(user_id="mia"), **k.agent, session=s),
    "observations.get": lambda m, k, s: m.observations.get(k.tea.id, **k.mia, session=s),
    "observations.list": lambda m, k, s: m.observations.list(**k.mia, session=s),
    "observations.spread": lambda m, k, s: m.observations.spread(k.tea.id, **k.mia, session=s),
    "entities.list": lambda m, k, s: m.entities.list(**k.mia, session=s),
    "entities.get": lambda m, k, s: m.entities.get("boat", **k.mia, session=s),
    "topics.list": lambda m, k, s: m.topics.list(**k.mia, session=s),
    "episodes.list": lambda m, k, s: m.episodes.list(**k.mia, session=s),
    "episodes.get": lambda m, k, s: m.episodes.get("e1", **k.mia, session=s),
    "episodes.seal": lambda m, k, s: m.episodes.seal(**k.agent, conversation_id="t", session=s),
    "observations.sources": lambda m, k, s: m.observations.sources(k.tea.id, **k.mia, session=s),
    "observations.update": lambda m, k, s: m.observations.update(k.tea.id, **k.mia, text="Likes chai.", session=s),
    "observations.supersede": lambda m, k, s: m.observations.supersede(k.tea.id, k.boats.id, **k.mia, session=s),
    "observations.reinstate": lambda m, k, s: m.observations.reinstate(k.tea.id, **k.mia, session=s),
    "observations.confirm": lambda m, k, s: m.observations.confirm(k.tea.id, **k.mia, session=s),
    "observations.dispute": lambda m, k, s: m.observations.dispute(k.tea.id, **k.mia, session=s),
    "observations.feedback": lambda m, k, s: m.observations.feedback(k.tea.id, 1, **k.mia, session=s),
    "observations.resolve": lambda m, k, s: m.observations.resolve(k.tea.id, "fulfilled", **k.mia, session=s),
    "observations.mark": lambda m, k, s: m.observations.mark(k.tea.id, **k.mia, private=True, session=s),
    "observations.quarantine": lambda m, k, s: m.observations.quarantine(k.tea.id, **k.mia, session=s),
    "observations.unquarantine": lambda m, k, s: m.observations.unquarantine(k.gone.id, **k.mia, session=s),
    "scopes.create": lambda m, k, s: m.scopes.create("individual", **k.agent, owner_id="jonas", session=s),
    "scopes.get": lambda m, k, s: m.scopes.get(k.scope, **k.agent, session=s),
    "scopes.set": lambda m, k, s: m.scopes.set(k.scope, ScopeSettings(is_active=False), **k.agent, session=s),
    "scopes.list": lambda m, k, s: m.scopes.list(**k.mia, session=s),
    "scopes.history": lambda m, k, s: m.scopes.history(**k.mia, session=s),
    "prompts.set": lambda m, k, s: m.prompts.set(k.scope, "consolidation", "In German.", **k.agent, session=s),
    "prompts.list": lambda m, k, s: m.prompts.list(**k.agent, session=s),
    "prompts.get": lambda m, k, s: m.prompts.get(k.scope, "consolidation", **k.agent, session=s),
    "conversations.messages": lambda m, k, s: m.conversations.messages(**k.mia, session=s),
    "groups.create": lambda m, k, s: m.groups.create("pier", **k.agent, display_name="Pier", session=s),
    "groups.rename": lambda m, k, s: m.groups.rename("harbor", "Harbour", **k.agent, session=s),
    "groups.share": lambda m, k, s: m.groups.share("harbor", None, **k.agent, session=s),
    "groups.add_member": lambda m, k, s: m.groups.add_member("harbor", "jonas", **k.agent, session=s),
    "groups.remove_member": lambda m, k, s: m.groups.remove_member("harbor", "mia", **k.agent, session=s),
    "groups.members": lambda m, k, s: m.groups.members("harbor", **k.agent, session=s),
    "groups.list": lambda m, k, s: m.groups.list(**k.agent, session=s),
    "people.merge": lambda m, k, s: m.people.merge(**k.agent, user_id="mia3", into_user_id="mia", session=s),
    "people.unmerge": lambda m, k, s: m.people.unmerge(**k.agent, user_id="mia2", session=s),
    "people.forget": lambda m, k, s: m.people.forget("mia", session=s),
    "people.rename": lambda m, k, s: m.people.rename(**k.agent, kind="user", old="mia", new="mina", session=s),
    "holds.place": lambda m, k, s: m.holds.place(**k.mia, session=s),
    "holds.release": lambda m, k, s: m.holds.release(k.hold.hold_id, **k.agent, session=s),
    "work.reviews": lambda m, k, s: m.work.reviews(**k.agent, session=s),
    "work.decide": lambda m, k, s: m.work.decide("1", **k.agent, accept=False, session=s),
}


def test_all_calls_that_take_a_session_are_here() -> None:
    given = awaited.Memory("postgresql://nowhere/none", settings=OFFLINE)
    parts = {"": given, **{f"{name}.": getattr(given, name) for name in FACES}}
    takes = {
        prefix + name
        for prefix, part in parts.items()
        for name, method in vars(type(part)).items()
        if callable(method) and not name.startswith("_") and "session" in inspect.signature(method).parameters
    }
    assert set(CALLS) == takes


class Compared:
    """Runs a call from the same numbers on, and says what it returned or raised, and the agent's rows after it."""

    def __init__(self, memory: Memory, owner: psycopg.Connection[Any], url: str) -> None:
        self.memory = memory
        self.owner = owner
        self.engine = create_async_engine(asyncpg_url(url))
        self.tables = [name for (name,) in owner.execute(ours(TABLES))]

    def rows(self, agent_id: str) -> str:
        whose = f"agent_key IN (SELECT agent_key FROM memory.agents WHERE agent_id = '{agent_id}')"  # noqa: S608
        return ours(
            " UNION ALL ".join(
                f"SELECT '{table}', coalesce(jsonb_agg(to_jsonb(t) ORDER BY to_jsonb(t)::text), '[]')::text"  # noqa: S608
                f" FROM memory.{table} t WHERE {whose}"
                for table in self.tables
            )
        )

    def from_here(self) -> Callable[[], None]:
        """Sets the sequences back to where they are now: no rollback does."""
        before = self.owner.execute(ours(SEQUENCES)).fetchall()

        def again() -> None:
            for name, last in before:
                if last is None:
                    self.owner.execute(ours(f"ALTER SEQUENCE memory.{name} RESTART"))
                else:
                    self.owner.execute("SELECT setval(%s::regclass, %s)", (ours(f"memory.{name}"), last))
            self.owner.commit()

        return again

    def awaited(self, call: Call, known: Known) -> tuple[str, str]:
        async def told() -> tuple[str, str]:
            async with AsyncSession(self.engine) as session:
                result = await _outcome_of(call(self.memory._memory, known, session))
                await session.execute(text("SET LOCAL TIME ZONE 'UTC'"))
                rows = await session.execute(text(self.rows(known.agent["agent_id"])))
                found = [tuple(row) for row in rows]
            return _plain(result), _plain(found)

        return self.memory._portal.call(told)

    def blocking(self, call: Call, known: Known, host: Host) -> tuple[str, str]:
        host.begin()
        try:
            result = call(self.memory, known, host.session)
        except Exception as error:  # noqa: BLE001  # compared
            result = repr(error)
        host.rows("SET LOCAL TIME ZONE 'UTC'")
        return _plain(result), _plain(list(host.rows(self.rows(known.agent["agent_id"]))))


async def _outcome_of(coroutine: Coroutine[Any, Any, Any]) -> Any:
    try:
        return await coroutine
    except Exception as error:  # noqa: BLE001  # compared
        return repr(error)


def _plain(value: object) -> str:
    return NEW.sub("(new)", value if isinstance(value, str) else repr(value))


@pytest.mark.slow
@pytest.mark.open
@pytest.mark.parametrize("kind", few_in_ci(["psycopg", "psycopg2", "django"], ["django"]))
def test_each_call_does_what_the_awaited_one_does(memory: Memory, database_url: str, kind: str) -> None:
    failed = set[str]()
    with psycopg.connect(libpq(database_url), options="-c TimeZone=UTC") as owner, HOSTS[kind](database_url) as host:
        compared = Compared(memory, owner, database_url)
        host.rollback()
        for name, call in CALLS.items():
            known = Known(memory, name)
            before = _plain(owner.execute(compared.rows(name)).fetchall())
            again = compared.from_here()
            wanted = compared.awaited(call, known)
            again()
            assert compared.blocking(call, known, host) == wanted, name
            host.rollback()
            assert _plain(owner.execute(compared.rows(name)).fetchall()) == before, name
            again()
            assert compared.blocking(call, known, host) == wanted, name
            host.commit()
            assert _plain(owner.execute(compared.rows(name)).fetchall()) == wanted[1], name
            owner.commit()
            if "Error" in wanted[0]:
                failed.add(name)
        memory._portal.call(compared.engine.dispose)
    assert failed == {"work.decide", "observations.reinstate", "episodes.get", "episodes.seal"}
