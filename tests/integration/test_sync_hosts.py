"""What a memory is opened under: gevent, eventlet, trio, the wrong kind of `with`."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from typing import Any

import pytest
import trio

from memory_sql import memory as awaited
from memory_sql import sync
from memory_sql.config import Settings
from memory_sql.errors import InputError
from tests.blocking import django_place
from tests.database import libpq

MIA: dict[str, Any] = {"agent_id": "ada", "user_id": "mia"}

UNDER_GEVENT = """
from gevent import monkey
monkey.patch_all()
import gevent, json, psycopg, psycopg2, sys, threading
from memory_sql.config import Settings
from memory_sql.errors import InputError
from tests.blocking import WAITING
from tests.database import libpq
from memory_sql.sync import Memory

url, libpq = sys.argv[1:]
mia = {"agent_id": "ada", "user_id": "mia"}
told = {}
with Memory(url, settings=Settings(llm="offline")) as memory:
    memory.observe("Likes tea.", **mia)
    with psycopg.connect(libpq) as other:
        other.execute("SELECT 1 FROM memory.scopes FOR UPDATE")
        waiting = [gevent.spawn(memory.observe, f"Has boat {n}.", **mia) for n in range(8)]
        while not other.execute(WAITING).fetchone():
            gevent.sleep(0)  # other greenlets go on
        told["waited"] = not any(one.ready() for one in waiting)
    gevent.joinall(waiting, raise_error=True)
    told["stored"] = len(memory.observations.list(**mia))
    for driver in (psycopg, psycopg2):
        connection = driver.connect(libpq)
        memory.observe("Likes jazz.", **mia, session=connection)
        connection.rollback()
        memory.observe(f"Likes {driver.__name__}.", **mia, session=connection)
        connection.commit()
        connection.close()
    told["joined"] = len(memory.observations.list(**mia))
    told["lines"] = sum(line.type == "observation" for line in memory.people.export(**mia))
    threads = [threading.Thread(target=lambda: memory.context(**mia, message="Which boat?")) for _ in range(8)]
    [one.start() for one in threads]
    [one.join() for one in threads]
    try:
        memory.observe("", **mia)
    except InputError:
        told["refused"] = True
with memory:
    told["again"] = len(memory.observations.list(**mia))
print(json.dumps(told))
"""

UNDER_EVENTLET = """
import eventlet
eventlet.monkey_patch()
import sys
from memory_sql.config import Settings
from memory_sql.errors import InputError
from tests.database import libpq
from memory_sql.sync import Memory

try:
    Memory(sys.argv[1], settings=Settings(llm="offline")).open()
except InputError as error:
    print(error)
"""


DJANGO_ON_PSYCOPG2 = """
import json, sys
sys.modules["psycopg"] = None  # Django takes it where it is there
import django
from django.conf import settings

url, place = sys.argv[1], json.loads(sys.argv[2])
settings.configure(USE_TZ=True, DATABASES={"default": {"ENGINE": "django.db.backends.postgresql", **place}})
django.setup()
from django.db import connection, transaction
from memory_sql.config import Settings
from memory_sql.sync import Memory

mia = {"agent_id": "ada", "user_id": "mia"}
with Memory(url, settings=Settings(llm="offline")) as memory:
    for fails in (True, False):
        try:
            with transaction.atomic():
                memory.observe("Likes tea.", **mia, metadata={"a": [1, "ü%s"]}, session=connection)
                memory.add([{"role": "user", "content": "100 % $1"}], **mia, conversation_id="s", session=connection)
                assert len(memory.observations.list(**mia, session=connection)) == 1
                assert type(connection.connection).__module__.startswith("psycopg2")
                1 / (not fails)
        except ZeroDivisionError:
            pass
        print(len(memory.observations.list(**mia)), len(memory.conversations.messages(**mia)))
    connection.close()
"""


def run(program: str, *given: str) -> str:
    command = [sys.executable, "-W", "ignore", "-c", program, *given]
    done = subprocess.run(command, check=False, timeout=120, capture_output=True, text=True)
    assert (done.stderr[-2000:], done.returncode) == ("", 0)
    return done.stdout


@pytest.mark.slow
@pytest.mark.direct
@pytest.mark.open
def test_greenlets_of_gevent_wait_alone(database_url: str) -> None:
    told = json.loads(run(UNDER_GEVENT, database_url, libpq(database_url)))
    assert told == {"waited": True, "stored": 9, "joined": 11, "lines": 11, "refused": True, "again": 11}


@pytest.mark.slow
def test_django_on_psycopg2_joins_as_well(database_url: str) -> None:
    assert run(DJANGO_ON_PSYCOPG2, database_url, json.dumps(django_place(database_url))) == "0 0\n1 1\n"


@pytest.mark.slow
def test_eventlet_is_refused_with_the_reason_and_the_way_out(database_url: str) -> None:
    told = run(UNDER_EVENTLET, database_url)
    assert "eventlet" in told
    assert "gthread" in told


def test_trio_is_told_how_to_call(database_url: str) -> None:
    """Each way in, and that the way out is one."""
    memory = awaited.Memory(database_url, settings=Settings(llm="offline"))

    async def under_trio() -> list[str]:
        with pytest.raises(InputError, match=r"asyncio.*trio\.to_thread"):
            await memory.open()
        blocking = sync.Memory(database_url, settings=Settings(llm="offline"))
        with pytest.raises(InputError, match=r"trio\.to_thread"):
            blocking.open()
        await trio.to_thread.run_sync(blocking.open)
        with pytest.raises(InputError, match=r"trio\.to_thread"):
            blocking.context(**MIA)
        await trio.to_thread.run_sync(lambda: blocking.observe("Likes tea.", **MIA))
        found = await trio.to_thread.run_sync(lambda: blocking.observations.list(**MIA))
        await trio.to_thread.run_sync(blocking.close)
        return [one.content for one in found]

    assert trio.run(under_trio) == ["Likes tea."]


def test_the_wrong_with_is_told_which_is_right(database_url: str) -> None:
    with pytest.raises(InputError, match=r"`async with`; memory_sql\.sync"), awaited.Memory(database_url):  # type: ignore[attr-defined]
        raise AssertionError

    async def inside() -> None:
        async with sync.Memory(database_url):  # type: ignore[attr-defined]
            raise AssertionError

    with pytest.raises(InputError, match=r"`with`; memory_sql\.Memory by `async with`"):
        asyncio.run(inside())
