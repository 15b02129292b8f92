"""Random principals make random reads behind walls: nobody sees a row of another's scope, or misses one of their own.

Membership is random, and ids are patterns, prefixes and prefixes of one another's keys. What may be seen is computed here
from what was done, without asking the database. Some reads use a connection that others poison.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import re
import sys
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from datetime import datetime
from typing import Any

from sqlalchemy import bindparam, func, insert, select, text
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker, create_async_engine

from memory_sql.config import Settings
from memory_sql.db.connecting import POOLED
from memory_sql.db.models import AgentRow, Base, ConsolidationRow, MemberRow, ScopeRow
from memory_sql.db.principals import enter, service
from memory_sql.db.urls import asyncpg_url
from memory_sql.errors import NotFoundError
from memory_sql.llm.offline import Offline
from memory_sql.memory import Memory
from tests.fakes import Parrot

AGENTS = ("ada", "ad", "ad%", "a_a", "%")
USERS = ("mia", "mi", "mi%", "m_a", "%", "u:mia", "c", "harbor", "MIA")
GROUPS = ("harbor", "harb", "h_rbor", "%", "mia", "g:harbor")
SESSIONS = ("s", "s1", "s%", "_")
STRANGERS = ("nobody", "m", "", "mia ", "*")  # "" is refused, the others were never seen
MARK = re.compile(r"k\d+k")
CLIENTS = 4

Key = tuple[str, str]  # agent and owner of a scope
BY_SCOPE = ("scopes", "members", "observations", "observation_states", "consolidations", "evidence", "lineage")
BY_BOTH = {  # a row is of two scopes, and seen only by who sees both
    "lineage": ("source_scope_id", "scope_id"),
    "judged": ("source_scope_id", "target_scope_id"),
}
HIDDEN = ("runs", "events", "holds", "departures")


class World:
    """Who belongs where, and what every scope knows: `k7k` stands in every text of the seventh scope."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.members: set[tuple[str, str, str]] = set()  # agent, group, user
        self.left: set[tuple[str, str, str]] = set()
        self.places: dict[Key, set[str]] = {}  # the groups of each agent's conversation
        self.participants: dict[Key, set[str]] = {}  # by agent and conversation
        self.marks: dict[str, Key] = {}
        self.scope_ids: dict[int, Key] = {}
        self.observations: dict[str, Key] = {}
        self.promoted: dict[str, Key] = {}  # what was propagated, by its id

    def visible(self, agent: str, user: str, session: str | None) -> set[Key]:
        owners = {"c", f"u:{user}"} | {f"g:{g}" for a, g, u in self.members if (a, u) == (agent, user)}
        if session is not None and (agent, session) in self.talks(agent, user):
            owners.add(f"s:{session}")
        return {(agent, owner) for owner in owners} & set(self.marks.values())

    def talks(self, agent: str, user: str) -> set[Key]:
        """The conversations that the user took part in, and of which they have left no group."""
        left = {group for a, group, u in self.left if (a, u) == (agent, user)}
        took_part = {key for key, users in self.participants.items() if key[0] == agent and user in users}
        return {key for key in took_part if not left & self.places[key]}

    async def fill(self, memory: Memory) -> None:
        for agent in AGENTS:
            for session in SESSIONS:
                for user in self.random.sample(USERS, 3):
                    await self.talk(memory, agent, session, user)
            owners: list[dict[str, Any]] = [{"collective": True}]
            owners += [{"user_id": user} for user in USERS] + [{"group_id": group} for group in GROUPS]
            for owner in owners:
                await self.learn(memory, agent, owner)
        await self.promote(memory)
        await self.add_conversation_scopes(memory)
        await self.consolidate_some(memory)
        async with memory.database.transaction() as unit:
            await unit.execute(text("ANALYZE"))

    async def talk(self, memory: Memory, agent: str, session: str, user: str) -> None:
        groups = self.random.sample(GROUPS, self.random.choice((0, 1, 2)))
        said = [{"role": "user", "content": "Hello"}]
        await memory.add(said, agent_id=agent, user_id=user, conversation_id=session, group_ids=groups)
        self.participants.setdefault((agent, session), set()).add(user)
        self.places.setdefault((agent, session), set()).update(groups)
        self.members |= {(agent, group, user) for group in groups}  # who speaks, not who spoke there before

    async def learn(self, memory: Memory, agent: str, owner: dict[str, Any]) -> None:
        mark = f"k{len(self.marks)}k"
        for n in range(2):
            said = f"The gate says {mark} {n}."
            if "user_id" in owner:  # nor propagated
                said = f"Between us: {said}"
            known = await memory.observe(said, agent_id=agent, **owner)
            key = (agent, owner_of(owner))
            self.observations[known.id], self.scope_ids[known.scope.key], self.marks[mark] = key, key, key

    async def promote(self, memory: Memory) -> None:
        """What people know goes to their groups, which have members enough; a fact of its own for each."""
        for agent in AGENTS:
            for user in USERS:
                fact = await memory.observe(
                    f"The gate service {len(self.marks)} runs Postgres 16.", agent_id=agent, user_id=user
                )
                self.observations[fact.id] = (agent, f"u:{user}")
                await memory.scopes.consolidate(agent_id=agent, scope_id=fact.scope.id)
                done = await memory.scopes.propagate(agent_id=agent, scope_id=fact.scope.id)
                for judged in done.propagated:
                    if judged.observation is not None:
                        self.promoted[judged.observation] = (agent, f"g:{judged.target}")
        self.observations |= self.promoted
        assert self.promoted

    async def add_conversation_scopes(self, memory: Memory) -> None:
        """Nothing makes them yet; what they hold is stored as everything else is."""
        async with memory.database.transaction() as unit:
            keys = {
                row.agent_id: row.agent_key for row in await unit.execute(select(AgentRow.agent_id, AgentRow.agent_key))
            }
            for agent, session in self.participants:
                mark = f"k{len(self.marks)}k"
                scope = await unit.scalar(
                    insert(ScopeRow)
                    .values(agent_key=keys[agent], kind="conversation", owner=f"s:{session}", version=1)
                    .returning(ScopeRow.scope_id)
                )
                assert scope is not None
                version = {"version": 1, "base": 0, "from_seq": 0, "to_seq": 0, "content": mark, "words": 1}
                await unit.execute(
                    insert(ConsolidationRow).values(agent_key=keys[agent], scope_id=scope, reason="import", **version)
                )
                self.marks[mark] = self.scope_ids[scope] = (agent, f"s:{session}")

    async def consolidate_some(self, memory: Memory) -> None:
        for scope_id in self.random.sample(sorted(self.scope_ids), len(self.scope_ids) // 2):
            agent, owner = self.scope_ids[scope_id]
            if not owner.startswith("s:"):
                await memory.scopes.consolidate(agent_id=agent, scope_id=f"s{scope_id}")

    async def move(self, memory: Memory) -> None:
        """Somebody leaves a group, or comes (back)."""
        agent, group, user = self.random.choice(AGENTS), self.random.choice(GROUPS), self.random.choice(USERS)
        leaves = (agent, group, user) in self.members
        async with memory.database.transaction() as unit:
            scope = select(ScopeRow.agent_key, ScopeRow.scope_id).join(
                AgentRow, AgentRow.agent_key == ScopeRow.agent_key
            )
            found = await unit.execute(scope.where(AgentRow.agent_id == agent, ScopeRow.owner == f"g:{group}"))
            key = found.one()._asdict()
            if leaves:
                await unit.execute(text(LEAVE), {**key, "user_id": user})
            else:
                await unit.execute(insert(MemberRow).values(**key, user_id=user, joined_at=func.clock_timestamp()))
        (self.members.discard if leaves else self.members.add)((agent, group, user))
        (self.left.add if leaves else self.left.discard)((agent, group, user))


LEAVE = """
    UPDATE memory.members SET left_at = clock_timestamp()
    WHERE agent_key = :agent_key AND scope_id = :scope_id AND user_id = :user_id AND left_at IS NULL
"""


def owner_of(owner: dict[str, Any]) -> str:
    (kind, value), *_ = owner.items()
    return "c" if kind == "collective" else f"{kind[0]}:{value}"


class Reader:
    """Reads as random principals. `walled` is a Memory of the application's role; `pool` one server connection for all."""

    def __init__(self, world: World, walled: Memory, pool: async_sessionmaker[AsyncSession], seed: int) -> None:
        self.world, self.walled, self.pool = world, walled, pool
        self.random = random.Random(seed)
        self.reads: Counter[str] = Counter()
        self.rows = 0
        self.wrong: list[str] = []
        ways = (self.search, self.context, self.scopes, self.list, self.history, self.get, self.messages, self.promoted)
        self.ways: list[Callable[..., Awaitable[None]]] = [
            *ways,
            self.raw,
            self.raw_of_both,
            self.raw_promoted,
            self.raw_messages,
            self.raw_as_nobody,
        ]
        self.shared_ways: list[Callable[..., Awaitable[None]]] = [
            self.search,
            self.context,
            self.messages,
            self.raw,
            self.raw_of_both,
            self.raw_promoted,
            self.raw_as_nobody,
        ]

    async def read(self) -> None:
        agent = self.random.choice((*AGENTS, *STRANGERS[:2]))
        user = self.random.choice((*USERS, *STRANGERS[:2]))
        session = self.random.choice((None, *SESSIONS, "t"))
        if self.random.random() < 0.3:
            await self.read_pooled(agent, user, session)
        else:
            way = self.random.choice(self.ways)
            self.reads[way.__name__] += 1
            await way(agent, user, session, None)

    async def read_pooled(self, agent: str, user: str, session: str | None) -> None:
        """In a transaction of a host, on the connection that everybody shares and some poison."""
        async with self.pool.begin() as unit:
            if self.random.random() < 0.2:
                await self.poison(unit)
                return
            for way in self.random.sample(self.shared_ways, 2):  # two principals' calls in one transaction don't mix
                self.reads[f"{way.__name__}, pooled"] += 1
                await way(agent, user, session, unit)
                agent, user = self.random.choice(AGENTS), self.random.choice(USERS)

    async def poison(self, unit: AsyncSession) -> None:
        """What a careless client leaves behind: a setting of the whole conversation, as it should be, stale, or rubbish."""
        if self.random.random() < 0.5:
            await enter(
                unit,
                self.random.choice(({"agent_id": "ada", "user_id": "mia", "conversation_id": None}, service(None))),
            )
            value: Any = func.current_setting("memory.principal")
        else:
            value = bindparam(
                "value", self.random.choice(('{"serves_all": true}', '1 {"serves_all": true}', "x", " {", ""))
            )
        await unit.execute(select(func.set_config("memory.principal", value, False)))
        self.reads["poisoned"] += 1

    def compare(self, way: str, whose: object, found: set[Key], expected: set[Key]) -> None:
        self.rows += len(found)
        if found != expected:
            more, less = sorted(found - expected), sorted(expected - found)
            self.wrong.append(f"{way} as {whose}: foreign {more}, denied {less}")

    def now_and_then(self) -> datetime | None:
        """One time in three the way by which the past is read, with the present moment: it must show the same."""
        return self.walled.now() if self.random.randrange(3) == 0 else None

    async def search(self, agent: str, user: str, session: str | None, unit: AsyncSession | None) -> None:
        who: dict[str, Any] = {"agent_id": agent, "user_id": user, "conversation_id": session}
        found = await self.walled.search("gate", **who, top_k=100, as_of=self.now_and_then(), session=unit)
        keys = {self.world.observations[hit.observation.id] for hit in found.results}
        expected = {key for key in self.world.visible(agent, user, session) if not key[1].startswith("s:")}
        self.compare("search", who, keys, expected)

    async def context(self, agent: str, user: str, session: str | None, unit: AsyncSession | None) -> None:
        who: dict[str, Any] = {"agent_id": agent, "user_id": user, "conversation_id": session}
        message = self.random.choice((None, "Do you remember the gate?"))
        shown = str(await self.walled.context(**who, message=message, as_of=self.now_and_then(), session=unit))
        keys = {self.world.marks[mark] for mark in MARK.findall(shown)}
        self.compare("context", who, keys, self.world.visible(agent, user, session))

    async def scopes(self, agent: str, user: str, session: str | None, _: object) -> None:
        found = await self.walled.scopes.list(agent_id=agent, user_id=user, conversation_id=session)
        keys = {self.world.scope_ids[scope.ref.key] for scope in found}
        self.compare("scopes", (agent, user, session), keys, self.world.visible(agent, user, session))

    async def list(self, agent: str, user: str, *_: object) -> None:
        found = await self.walled.observations.list(agent_id=agent, user_id=user, limit=1000, as_of=self.now_and_then())
        keys = {self.world.observations[one.id] for one in found}
        self.compare("list", (agent, user), keys, self.world.visible(agent, user, None))

    async def messages(self, agent: str, user: str, _: str | None, unit: AsyncSession | None) -> None:
        found = await self.walled.conversations.messages(agent_id=agent, user_id=user, limit=1000, session=unit)
        keys = {(agent, one.conversation_id) for one in found}
        self.compare("messages", (agent, user), keys, self.world.talks(agent, user))

    async def history(self, agent: str, user: str, *_: object) -> None:
        found = await self.walled.scopes.history(agent_id=agent, user_id=user, limit=1000, as_of=self.now_and_then())
        keys = {self.world.scope_ids[version.scope.key] for version in found}
        told = {self.world.marks[mark] for version in found for mark in MARK.findall(version.content)}
        visible = self.world.visible(agent, user, None)
        self.compare("history", (agent, user), keys | told, visible & self.consolidated)

    consolidated: set[Key]

    async def get(self, agent: str, user: str, *_: object) -> None:
        """Of this agent or another one, or what never was."""
        known = self.random.choice([*self.world.observations, "o999999-1", "o1-999"])
        try:
            found = {
                self.world.observations[(await self.walled.observations.get(known, agent_id=agent, user_id=user)).id]
            }
        except NotFoundError:
            found = set()
        key = self.world.observations.get(known)
        self.compare("get", (known, agent, user), found, self.world.visible(agent, user, None) & {key or ("", "")})

    async def promoted(self, agent: str, user: str, *_: object) -> None:
        """Whoever sees what was propagated doesn't see of whom it was."""
        for known in await self.walled.observations.list(agent_id=agent, user_id=user, limit=1000):
            if known.id in self.world.promoted:
                self.rows += 1
                told = known.source
                if (told.speaker, told.conversation_id, told.message_ids) != (None, None, ()):
                    self.wrong.append(f"{known.id} tells {user} of {agent} whose it was: {told}")

    async def raw_promoted(self, agent: str, user: str, session: str | None, unit: AsyncSession | None) -> None:
        """Nor by any row that stands behind it: neither the observation itself nor its evidence names a person."""
        o, e = Base.metadata.tables["memory.observations"], Base.metadata.tables["memory.evidence"]
        same = (e.c.agent_key == o.c.agent_key) & (e.c.scope_id == o.c.scope_id) & (e.c.seq == o.c.seq)
        asked = (
            select(
                o.c.speaker, o.c.conversation_id, e.c.user_id, e.c.conversation_id, func.cardinality(o.c.related_users)
            )
            .join(e, same, isouter=True)
            .where(o.c.source_kind == "propagation")
        )
        rows = await self.ask(asked, agent, user, session, unit)
        self.rows += len(rows)
        if any(value for row in rows for value in row):
            self.wrong.append(f"the rows of what was propagated tell {user} of {agent} whose it was")

    async def raw_of_both(self, agent: str, user: str, session: str | None, unit: AsyncSession | None) -> None:
        """A user sees where something went or came from only if both ends are theirs."""
        name = self.random.choice(sorted(BY_BOTH))
        table = Base.metadata.tables[f"memory.{name}"]
        rows = await self.ask(select(*(table.c[column] for column in BY_BOTH[name])), agent, user, session, unit)
        keys = {self.world.scope_ids[scope_id] for row in rows for scope_id in row}
        foreign = keys - self.world.visible(agent, user, session)
        self.rows += len(rows)
        if foreign:
            self.wrong.append(f"{name}, raw as {user} of {agent}: foreign {sorted(foreign)}")

    async def raw(self, agent: str, user: str, session: str | None, unit: AsyncSession | None) -> None:
        table = Base.metadata.tables[f"memory.{self.random.choice(BY_SCOPE + HIDDEN)}"]
        rows = await self.ask(
            select(table.c.scope_id) if "scope_id" in table.c else select(table), agent, user, session, unit
        )
        keys = {self.world.scope_ids[row[0]] if "scope_id" in table.c else ("", "") for row in rows}
        visible = self.world.visible(agent, user, session) if table.name in BY_SCOPE else set()
        if table.name in ("observations", "evidence"):
            visible = {key for key in visible if not key[1].startswith("s:")}
        elif table.name != "scopes":  # may be empty for a scope that is seen
            visible &= keys
        self.compare(f"{table.name}, raw", (agent, user, session), keys, visible)

    async def raw_messages(self, agent: str, user: str, session: str | None, unit: AsyncSession | None) -> None:
        m = Base.metadata.tables["memory.messages"]
        asked = select(AgentRow.agent_id, m.c.conversation_id).join(AgentRow, AgentRow.agent_key == m.c.agent_key)
        rows = await self.ask(asked, agent, user, session, unit)
        self.compare("messages, raw", (agent, user), {(row[0], row[1]) for row in rows}, self.world.talks(agent, user))

    async def raw_as_nobody(self, _agent: str, _user: str, _session: str | None, unit: AsyncSession | None) -> None:
        table = self.random.choice(Base.metadata.sorted_tables)
        async with AsyncExitStack() as stack:
            asks: Any = unit or await stack.enter_async_context(self.walled.database.transaction())
            count = await asks.scalar(select(func.count()).select_from(table))
        if count:
            self.wrong.append(f"nobody sees {count} rows of {table.name}")

    async def ask(self, query: Any, agent: str, user: str, session: str | None, unit: AsyncSession | None) -> Any:
        principal = {"agent_id": agent, "user_id": user, "conversation_id": session}
        async with self.walled.database.transaction(unit, principal) as asks:
            return (await asks.execute(query)).all()


async def live(url: str, login: str, reads: int, seed: int) -> list[str]:
    """What went wrong. `url` is a superuser's, `login` that of a role of the application, of the same database."""
    world = World(seed)
    settings = Settings(llm="offline", pending_max=100)
    pooled = asyncpg_url(login).update_query_dict({"prepared_statement_cache_size": "0"})
    engine = create_async_engine(pooled, pool_size=1, max_overflow=0, pool_timeout=60, connect_args=POOLED)
    async with Memory(url, Parrot(), settings) as memory, Memory(login, Offline(), settings) as walled:
        assert walled.database.walled
        await world.fill(memory)
        async with memory.database.transaction() as unit:
            versions = set((await unit.scalars(text("SELECT scope_id FROM memory.consolidations"))).all())
        Reader.consolidated = {world.scope_ids[scope_id] for scope_id in versions}
        readers = [Reader(world, walled, async_sessionmaker(engine), seed + n) for n in range(CLIENTS)]
        moved = 0
        while sum(sum(reader.reads.values()) for reader in readers) < reads:
            await asyncio.gather(*(read_some(reader, 25) for reader in readers))
            await world.move(memory)
            moved += 1
    await engine.dispose()
    total: Counter[str] = sum((reader.reads for reader in readers), Counter())
    wrong = [line for reader in readers for line in reader.wrong]
    print(f"{total.total()} reads, {sum(r.rows for r in readers)} scopes seen, {moved} moves, {len(wrong)} wrong")
    print(", ".join(f"{name} {count}" for name, count in total.most_common()))
    return wrong


async def read_some(reader: Reader, count: int) -> None:
    for _ in range(count):
        await reader.read()


def main() -> int:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--url", required=True, help="of a superuser")
    arguments.add_argument("--login", required=True, help="of a role that is a member of the application's")
    arguments.add_argument("--reads", type=int, default=300)
    arguments.add_argument(
        "--seed", type=int, default=int(os.environ.get("MEMORY_SQL_SEED", "0")) or random.randrange(10**6)
    )
    given = arguments.parse_args()
    print(f"seed {given.seed}")
    wrong = asyncio.run(live(given.url, given.login, given.reads, given.seed))
    print("\n".join(wrong[:20]) or "no row too many, none too few")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
