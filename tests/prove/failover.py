"""Three servers under Patroni, whose leader is killed again and again while clients write.

    pip install -r tests/prove/failover-requirements.txt; apt-get install etcd-server
    python -m tests.prove.failover --kills 20

Each kill ends the leader's postmaster and its Patroni with SIGKILL; a standby is promoted when the leader's key in etcd has
expired, and the dead one comes back as a standby. One process has a single URL with all three hosts; it adds messages, has
them formed, observes and forgets, notes what was acknowledged, and tries again what wasn't. Afterwards every acknowledged
message is there and was formed exactly once, nothing observed is lost or doubled, nothing forgotten is back, and `verify`
finds nothing. Prints a summary; exits with 1 otherwise. The server's user has to be able to run Patroni and Postgres.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from sqlalchemy import text

from memory_sql.config import Settings
from memory_sql.db import migrate
from memory_sql.errors import BusyError, DatabaseError, MemorySQLError, StaleError
from memory_sql.memory import Memory
from tests.prove.models import Copying
from tests.standby import programs, user

ETCD, PATRONI = shutil.which("etcd"), shutil.which("patroni")
NODES = 3
TTL_SECONDS = 20  # the shortest that Patroni takes
WORKERS, PAUSE = 3, 0.05
ALONE_SECONDS, MOST_HELPED = 90.0, 5  # until a server that doesn't follow is made anew, and how often
LOG_LINES = 40
AGENT = "a"
SETTINGS = Settings(
    llm="offline",
    formation_messages=4,
    formation_min_messages=1,
    formation_cold_minutes=0.01,
    formation_window_messages=9,
    observation_max_items=50,
    consolidation_threshold=100_000,
    lease_seconds=5.0,
    retry_first_seconds=0.1,
    retry_longest_seconds=1.0,
)
# What an operator writes: docs/operations.md explains it.
CONFIGURATION = """
scope: memory
name: {name}
restapi: {{listen: "127.0.0.1:{rest}", connect_address: "127.0.0.1:{rest}"}}
etcd3: {{host: "127.0.0.1:{etcd}"}}
bootstrap:
  dcs:
    ttl: {ttl}
    loop_wait: 2
    retry_timeout: 5
    synchronous_mode: true
    synchronous_mode_strict: true
    maximum_lag_on_failover: 0
    postgresql: {{use_pg_rewind: true, use_slots: true}}
  initdb: [{{encoding: UTF8}}, {{locale: C.UTF-8}}, data-checksums]
postgresql:
  listen: "127.0.0.1:{port}"
  connect_address: "127.0.0.1:{port}"
  data_dir: "{directory}/data"
  bin_dir: "{binaries}"
  basebackup: {{checkpoint: fast}}
  pgpass: "{directory}/pgpass"
  authentication:
    superuser: {{username: postgres, password: none}}
    replication: {{username: replicator, password: none}}
  pg_hba: [local all all trust, host all all 127.0.0.1/32 trust, host replication all 127.0.0.1/32 trust]
  parameters: {{unix_socket_directories: "{directory}", shared_buffers: 32MB, max_connections: 60, log_min_messages: fatal}}
"""


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # whatever proxy the environment names


class Node:
    """A server and its Patroni."""

    def __init__(self, name: str, root: Path, binaries: Path, patroni: str, etcd: int) -> None:
        self.name, self.patroni, self.port, self.rest = name, patroni, free_port(), free_port()
        self.directory = root / name
        self.directory.mkdir()
        self.configuration = self.directory / "patroni.yml"
        given = {"name": name, "rest": self.rest, "port": self.port, "etcd": etcd, "ttl": TTL_SECONDS}
        self.configuration.write_text(CONFIGURATION.format(**given, directory=self.directory, binaries=binaries))
        own = user()
        if own is not None:
            os.chown(self.directory, own.pw_uid, own.pw_gid)
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        own = user()
        with (self.directory / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [self.patroni, str(self.configuration)],
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                user=own and own.pw_uid,
                group=own and own.pw_gid,
                extra_groups=None if own is None else [],
            )

    def kill(self) -> None:
        """As if the machine had gone: first whoever would start the server again."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None
        with suppress(OSError, ValueError):
            os.kill(int((self.directory / "data" / "postmaster.pid").read_text().split()[0]), signal.SIGKILL)

    def make_anew(self) -> None:
        """As `patronictl reinit` does: Patroni copies the leader where there is no data."""
        self.kill()
        while (self.directory / "data").exists():  # its processes may take a moment to notice
            shutil.rmtree(self.directory / "data", ignore_errors=True)
        self.start()

    def answers(self, path: str) -> Any:
        """What Patroni says; None: it doesn't, or says no."""
        try:
            with _OPENER.open(f"http://127.0.0.1:{self.rest}/{path}", timeout=5) as answer:
                return json.loads(answer.read() or "{}")
        except (OSError, ValueError):
            return None


def follows_or_leads(member: Mapping[str, Any]) -> bool:
    return bool(member["state"] == ("running" if member["role"] == "leader" else "streaming"))


class Cluster:
    def __init__(self, nodes: list[Node]) -> None:
        self.nodes, self.helped = nodes, 0

    @property
    def url(self) -> str:
        hosts = ",".join(f"127.0.0.1:{node.port}" for node in self.nodes)
        return f"postgresql://postgres@{hosts}/postgres?target_session_attrs=read-write"

    def leader(self) -> Node | None:
        return next((node for node in self.nodes if node.process and node.answers("primary") is not None), None)

    def is_whole(self) -> bool:
        """A leader, a synchronous standby, and everybody follows."""
        told = next((found for node in self.nodes if (found := node.answers("cluster")) is not None), None)
        if told is None or len(told["members"]) < len(self.nodes):
            return False
        roles = Counter(member["role"] for member in told["members"])
        up = all(follows_or_leads(member) for member in told["members"])
        return up and roles["leader"] == 1 and roles["sync_standby"] >= 1

    async def be_whole(self) -> None:
        """With an operator's help, if need be: Patroni leaves a server as it is that tries to follow and can't."""
        while True:
            try:
                await self.until(self.is_whole, "the three servers follow each other", ALONE_SECONDS)
                return
            except TimeoutError:
                stuck = await asyncio.to_thread(self.stuck)
                if not stuck or self.helped >= MOST_HELPED:
                    raise
            for node in stuck:
                print(f"{node.name} is made anew: it doesn't follow", flush=True)
                await asyncio.to_thread(node.make_anew)
                self.helped += 1

    def stuck(self) -> list[Node]:
        members = next((found["members"] for node in self.nodes if (found := node.answers("cluster")) is not None), ())
        up = {member["name"] for member in members if follows_or_leads(member)}
        return [node for node in self.nodes if node.name not in up] if up else []

    def told(self) -> str:
        """What each server's Patroni says of all, and the end of its log."""
        lines = list[str]()
        for node in self.nodes:
            members = (node.answers("cluster") or {}).get("members", ())
            lines.append(f"{node.name}: {[(one['name'], one['role'], one['state']) for one in members]}")
            lines += (node.directory / "log").read_text(errors="replace").splitlines()[-LOG_LINES:]
        return "\n".join(lines)

    async def until(self, holds: Callable[[], Any], what: str, seconds: float = 180.0) -> Any:
        until = time.monotonic() + seconds
        while not (found := await asyncio.to_thread(holds)):
            if time.monotonic() > until:
                raise TimeoutError(f"{what} within {seconds:g} s; {self.told()}")
            await asyncio.sleep(0.05)
        return found


@contextmanager
def clustered(patroni: str, etcd: str) -> Iterator[Cluster]:
    binaries = programs("pg_rewind")
    assert binaries is not None, "no Postgres programs are installed"
    with ExitStack() as ending:
        made = tempfile.TemporaryDirectory(prefix="memory-sql-failover-", ignore_cleanup_errors=True)
        root = Path(ending.enter_context(made))
        root.chmod(0o755)
        client, peer = free_port(), free_port()
        at = [f"--listen-client-urls=http://127.0.0.1:{client}", f"--advertise-client-urls=http://127.0.0.1:{client}"]
        among = f"http://127.0.0.1:{peer}"
        at += [
            f"--listen-peer-urls={among}",
            f"--initial-advertise-peer-urls={among}",
            f"--initial-cluster=default={among}",
        ]
        with (root / "etcd.log").open("wb") as log:
            keeper = subprocess.Popen([etcd, f"--data-dir={root / 'etcd'}", *at], stdout=log, stderr=log)
        ending.callback(keeper.wait)
        ending.callback(keeper.kill)
        nodes = [Node(f"n{n}", root, binaries, patroni, client) for n in range(1, NODES + 1)]
        for node in nodes:
            ending.callback(node.kill)
        nodes[0].start()
        yield Cluster(nodes)


class Life:
    """What one process does, and what it was told. `acknowledged`: messages; `known`: observations; `forgotten`: words."""

    def __init__(self, memory: Memory, seed: int) -> None:
        self.memory, self.random = memory, random.Random(seed)
        self.acknowledged, self.forgotten = set[str](), set[str]()
        self.begun = set[str]()  # conversations
        self.known = dict[str, str]()  # the text of an observation, by its id
        self.unsure = set[str]()  # what was being forgotten without an answer
        self.errors, self.calls = Counter[str](), Counter[str]()
        self.last_written = time.monotonic()
        self.stopping = False

    async def tried(self, name: str, call: Callable[[], Awaitable[Any]]) -> Any:
        """None: it wasn't acknowledged."""
        try:
            done = await call()
        except (BusyError, StaleError):
            return None
        except DatabaseError as error:
            self.errors[f"{name}: {type(error).__name__}: {str(error).split(':')[0]}"] += 1
            await asyncio.sleep(0.1)
            return None
        now = time.monotonic()
        if name != "form":  # which may have had nothing to do
            self.last_written = now
        self.calls[name] += 1
        return done

    def wrote_after(self, moment: float) -> float | None:
        """When something was last acknowledged, if that was after this moment."""
        return self.last_written if self.last_written > moment else None

    async def adds(self, who: int) -> None:
        n = 0
        while not self.stopping:
            ids = [f"m{who}-{n}-{i}" for i in range(self.random.randrange(1, 4))]
            said = [{"role": "user", "content": id, "id": id} for id in ids]
            where: dict[str, Any] = {"user_id": f"u{who}", "conversation_id": f"c{who}-{n // 40}"}

            add = partial(self.memory.add, said, agent_id=AGENT, **where)
            added = None
            while added is None and not self.stopping:  # again, with the same ids
                added = await self.tried("add", add)
            if added is not None:
                self.acknowledged.update(ids)
                self.begun.add(where["conversation_id"])
            n += 1
            await asyncio.sleep(self.random.uniform(0, 2 * PAUSE))

    async def observes(self, who: int) -> None:
        n = 0
        while not self.stopping:
            n += 1
            words = f"Boat w{who}x{n}y lies at berth {n}."
            observe = partial(self.memory.observe, words, agent_id=AGENT, user_id=f"v{who}")
            made = await self.tried("observe", observe)
            if made is not None:
                self.known[made.id] = words
            await asyncio.sleep(self.random.uniform(0, 2 * PAUSE))

    async def forgets(self) -> None:
        while not self.stopping:
            await asyncio.sleep(self.random.uniform(0, 4 * PAUSE))
            if len(self.known) < 20:
                continue
            key = self.random.choice(list(self.known))
            words = self.known.pop(key)
            self.unsure.add(words)
            if await self.tried("forget", partial(self.memory.forget, key, agent_id=AGENT)) is not None:
                self.unsure.discard(words)
                self.forgotten.add(words)

    async def forms(self) -> None:
        while not self.stopping:
            await asyncio.sleep(PAUSE)
            if self.begun:
                one = self.random.choice(sorted(self.begun))
                await self.tried("form", partial(self.memory.conversations.form, agent_id=AGENT, conversation_id=one))

    async def live(self, meanwhile: Awaitable[None]) -> None:
        tasks = [asyncio.create_task(self.adds(n)) for n in range(WORKERS)]
        tasks += [asyncio.create_task(self.observes(n)) for n in range(WORKERS)]
        tasks += [asyncio.create_task(self.forgets()), asyncio.create_task(self.forms())]
        try:
            await meanwhile
            ended = [task for task in tasks if task.done()]
            for task in ended:
                task.result()
        finally:
            self.stopping = True
            _, late = await asyncio.wait(tasks, timeout=60)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)
        for task in tasks:
            if task not in late:
                task.result()
        self.errors["still under way a minute after the end"] += len(late)


FORMED = """
    SELECT o.content FROM memory.observations o JOIN memory.scopes s USING (agent_key, scope_id)
    WHERE s.kind = 'individual' AND s.owner LIKE 'u%'
"""
OBSERVED = "SELECT content FROM memory.observations WHERE content LIKE 'Boat w%'"
LEFT = "SELECT coalesce(sum(unformed_messages), 0) FROM memory.conversations"


async def judge(life: Life) -> list[str]:
    memory = life.memory
    for _ in range(600):
        with suppress(MemorySQLError):
            await memory.run_due(limit=100)
            async with memory.database.transaction() as session:
                if (await session.execute(text(LEFT))).scalar_one() == 0:
                    break
        await asyncio.sleep(0.2)
    problems = [f"{v.invariant}: {v.key} {v.detail}" for v in await memory.admin.verify()]
    async with memory.database.transaction() as session:
        stored = Counter((await session.scalars(text("SELECT message_id FROM memory.messages"))).all())
        formed = Counter((await session.scalars(text(FORMED))).all())
        observed = Counter((await session.scalars(text(OBSERVED))).all())
        left = (await session.execute(text(LEFT))).scalar_one()
    formed = Counter({name: n for told, n in formed.items() for name in told.split() if name.startswith("m")})
    kept = set(life.known.values())
    problems += [f"acknowledged and lost: {id}" for id in sorted(life.acknowledged - set(stored))[:5]]
    problems += [f"stored {n} times: {id}" for id, n in stored.items() if n > 1][:5]
    problems += [f"stored and not formed: {id}" for id in sorted(set(stored) - set(formed))[:5]]
    problems += [f"formed {n} times: {id}" for id, n in formed.items() if n > 1][:5]
    problems += [f"observed and lost: {words}" for words in sorted(kept - set(observed))[:5]]
    problems += [f"observed {n} times: {words}" for words, n in observed.items() if n > 1][:5]
    problems += [f"forgotten and back: {words}" for words in sorted(life.forgotten & set(observed))[:5]]
    problems += [f"{left} messages were never formed"] if left else []
    print(
        f"{len(life.acknowledged)} messages acknowledged, {len(stored)} stored, {len(formed)} formed;"
        f" {len(kept)} observations kept, {len(life.forgotten)} forgotten, {len(life.unsure)} forgettings without an answer"
    )
    return problems


async def kill_leaders(cluster: Cluster, life: Life, kills: int, lively: float) -> list[float]:
    """How long nobody could write, from each kill until the next call that was acknowledged."""
    without = list[float]()
    for n in range(kills):
        await cluster.be_whole()
        await asyncio.sleep(lively)
        leader = await cluster.until(cluster.leader, "there is a leader")
        began = time.monotonic()
        await asyncio.to_thread(leader.kill)
        await cluster.until(cluster.leader, "a standby is promoted")
        leader.start()
        first = await cluster.until(partial(life.wrote_after, began + 1.0), "somebody writes")
        without.append(first - began)  # what was under way at the kill may still have been acknowledged within a second
        print(f"kill {n + 1}: {leader.name}, {without[-1]:.1f} s until the next write", flush=True)
    await cluster.be_whole()
    return without


async def prove(cluster: Cluster, kills: int, seed: int, lively: float) -> list[str]:
    await cluster.until(cluster.leader, "the first server leads")
    for node in cluster.nodes[1:]:
        node.start()
    await cluster.be_whole()
    await asyncio.to_thread(migrate.upgrade, cluster.url)
    async with Memory(cluster.url, Copying(), SETTINGS) as memory:
        life, without = Life(memory, seed), list[float]()

        async def kill() -> None:
            without.extend(await kill_leaders(cluster, life, kills, lively))

        await life.live(kill())
        problems = await judge(life)
    told = ", ".join(f"{name} {n}" for name, n in sorted(life.calls.items()))
    print(f"{kills} kills; acknowledged calls: {told}")
    if without:
        ordered = sorted(without)
        print(f"without a writer: {ordered[len(ordered) // 2]:.1f} s in the middle, {ordered[-1]:.1f} s at most")
    for name, n in (+life.errors).most_common():
        print(f"  {n} × {name}")
    return problems


def main() -> int:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--kills", type=int, default=20)
    arguments.add_argument(
        "--lively", type=float, default=3.0, help="seconds of load between recovery and the next kill"
    )
    arguments.add_argument("--patroni", default=PATRONI, help="the program, if it isn't on the PATH")
    arguments.add_argument("--etcd", default=ETCD)
    arguments.add_argument(
        "--seed", type=int, default=int(os.environ.get("MEMORY_SQL_SEED", "0")) or random.randrange(10**6)
    )
    given = arguments.parse_args()
    if given.patroni is None or given.etcd is None:
        arguments.error("etcd-server and failover-requirements.txt have to be installed")
    print(f"seed {given.seed}", flush=True)
    with clustered(given.patroni, given.etcd) as cluster:
        problems = asyncio.run(prove(cluster, given.kills, given.seed, given.lively))
    print("\n".join(problems) or f"{given.kills} kills of the leader: nothing lost, doubled or resurrected")
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())
