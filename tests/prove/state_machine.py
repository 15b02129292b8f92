"""One user's memory against a model of it in a few lines of Python, through random lives.

Rules: add, form, observe, consolidate, undo, archive and bring back, die while forming or consolidating (with and without
the answer stored), let leases run out. After each step what `Memory` says must be what the model says.
"""

from __future__ import annotations

import asyncio
import itertools
import uuid
from collections.abc import Awaitable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from sqlalchemy import text

from memory_sql import consolidation, formation
from memory_sql.config import Settings
from memory_sql.errors import BusyError, NotFoundError
from memory_sql.memory import Memory
from tests.prove.models import Copying

R = TypeVar("R")

SETTINGS = Settings(
    llm="offline",
    formation_window_messages=3,
    observation_max_items=50,
    consolidation_batch=4,
    consolidation_min_ratio=0.0,
    consolidation_max_words=100_000,
    pool_size=1,
)
SESSIONS = st.sampled_from(["s1", "s2"])


@dataclass
class Model:
    """What ought to be. A fact's number is its place in `facts`, from 1."""

    unformed: dict[str, list[str]] = field(default_factory=lambda: {"s1": [], "s2": []})
    leased: set[str] = field(default_factory=set)
    facts: list[str] = field(default_factory=list)
    archived: set[str] = field(default_factory=set)
    versions: list[list[str]] = field(default_factory=list)  # what each consolidation that stands has absorbed

    @property
    def told(self) -> list[str]:
        return [fact for version in self.versions for fact in version]

    @property
    def pending(self) -> list[str]:
        return [fact for fact in self.facts if fact not in self.archived and fact not in self.told]

    def form(self, session: str, messages: int) -> None:
        self.facts += [f"fact {said}" for said in self.unformed[session][:messages]]
        del self.unformed[session][:messages]


class Life(RuleBasedStateMachine):
    url = ""
    runner: asyncio.Runner
    steps = itertools.count()

    @initialize()
    def begin(self) -> None:
        self.agent = uuid.uuid4().hex
        self.model = Model()
        self.names = map(str, itertools.count(1))
        self.memory = self.do(Memory(self.url, Copying(), SETTINGS).open())

    def teardown(self) -> None:
        if hasattr(self, "memory"):
            self.do(self.memory.close())

    def do(self, call: Awaitable[R]) -> R:
        async def awaited() -> R:
            return await call

        next(self.steps)
        return self.runner.run(awaited())

    def sql(self, statement: str, **parameters: Any) -> None:
        async def run() -> None:
            async with self.memory.database.transaction() as session:
                await session.execute(text(statement), {"agent": self.agent, **parameters})

        self.do(run())

    @property
    def scope_id(self) -> int:
        (scope,) = self.do(self.memory.scopes(agent_id=self.agent, user_id="u"))
        return scope.ref.id

    @rule(session=SESSIONS, count=st.integers(1, 5), twice=st.booleans())
    def add(self, session: str, count: int, twice: bool) -> None:
        said = [next(self.names) for _ in range(count)]
        messages = [{"role": "user", "content": name, "id": name} for name in said]
        for _ in range(1 + twice):
            self.do(self.memory.add(messages, agent_id=self.agent, user_id="u", session_id=session))
        self.model.unformed[session] += said

    @rule(session=SESSIONS)
    def form(self, session: str) -> None:
        try:
            self.do(self.memory.form(agent_id=self.agent, session_id=session))
        except BusyError:
            assert session in self.model.leased
        except NotFoundError:
            assert not self.model.unformed[session]
        else:
            assert session not in self.model.leased
            self.model.form(session, len(self.model.unformed[session]))

    @rule()
    def observe(self) -> None:
        fact = f"fact {next(self.names)}"
        self.do(self.memory.observe(fact, agent_id=self.agent, user_id="u"))
        self.model.facts.append(fact)

    @precondition(lambda self: self.model.facts)
    @rule()
    def consolidate(self) -> None:
        scope_id = self.scope_id
        try:
            self.do(self.memory.consolidate(agent_id=self.agent, scope_id=scope_id))
        except BusyError:
            assert "scope" in self.model.leased
            return
        assert "scope" not in self.model.leased
        pending = self.model.pending
        self.model.versions += [pending[n : n + 4] for n in range(0, len(pending), 4)]

    @precondition(lambda self: self.model.facts)
    @rule()
    def undo(self) -> None:
        scope_id = self.scope_id
        try:
            self.do(self.memory.undo(agent_id=self.agent, scope_id=scope_id))
        except NotFoundError:
            assert not self.model.versions
        else:
            self.model.versions.pop()

    @precondition(lambda self: self.model.facts)
    @rule(data=st.data())
    def archive_or_bring_back(self, data: st.DataObject) -> None:
        fact = data.draw(st.sampled_from(self.model.facts))
        status = "active" if fact in self.model.archived else "archived"
        self.sql(
            "INSERT INTO memory.observation_states (agent_key, scope_id, seq, status)"
            " SELECT agent_key, scope_id, seq, :status FROM memory.observations JOIN memory.agents USING (agent_key)"
            " WHERE agent_id = :agent AND content = :fact"
            " ON CONFLICT (agent_key, scope_id, seq) DO UPDATE SET status = :status",
            fact=fact,
            status=status,
        )
        self.sql(  # belongs to every change of a status (rule 11)
            "SELECT memory.refresh_due(agent_key, array_agg(scope_id), :threshold, now())"
            " FROM memory.scopes JOIN memory.agents USING (agent_key) WHERE agent_id = :agent GROUP BY agent_key",
            threshold=SETTINGS.consolidation_threshold,
        )
        self.model.archived ^= {fact}

    @rule(session=SESSIONS, answered=st.booleans())
    def die_forming(self, session: str, answered: bool) -> None:
        """The lease is taken, the model may have answered; nothing comes of it until somebody takes over."""

        async def die() -> None:
            now = datetime.now(UTC)
            async with self.memory.database.transaction() as unit:
                loaded = await formation.load(unit, self.agent, session, SETTINGS, now, "due")
            if loaded is not None:
                self.model.leased.add(session)
                if answered and loaded.answered is None:
                    answer = await formation.decide(Copying(), loaded, SETTINGS)
                    async with self.memory.database.transaction() as unit:
                        await formation.keep(unit, loaded, answer)

        try:
            self.do(die())
        except BusyError:
            assert session in self.model.leased
        except NotFoundError:
            assert not self.model.unformed[session]

    @precondition(lambda self: self.model.facts and "scope" not in self.model.leased)
    @rule()
    def die_consolidating(self) -> None:
        scope_id = self.scope_id

        async def die() -> None:
            async with self.memory.database.transaction() as unit:
                key = await unit.scalar(
                    text("SELECT agent_key FROM memory.agents WHERE agent_id = :a"), {"a": self.agent}
                )
                loaded = await consolidation.load(unit, self.agent, key, scope_id, SETTINGS, datetime.now(UTC), "asked")
            if loaded[1] is not None:
                self.model.leased.add("scope")

        self.do(die())

    @precondition(lambda self: self.model.leased)
    @rule()
    def leases_run_out(self) -> None:
        for table in ("sessions", "scopes"):
            self.sql(
                f"UPDATE memory.{table} t SET lease_until = now() - interval '1 second' FROM memory.agents a"  # noqa: S608
                " WHERE t.agent_key = a.agent_key AND a.agent_id = :agent AND lease_until IS NOT NULL"
            )
        self.model.leased.clear()

    @invariant()
    def memory_is_what_the_model_says(self) -> None:
        if not hasattr(self, "memory"):
            return
        listed = self.do(self.memory.list(agent_id=self.agent, user_id="u", limit=1000))
        assert sorted(o.content for o in listed) == sorted(set(self.model.facts) - self.model.archived)
        assert sorted(o.content for o in listed if o.pending) == sorted(self.model.pending)
        scopes = self.do(self.memory.scopes(agent_id=self.agent, user_id="u"))
        told = [line for scope in scopes for line in (scope.consolidation or "").splitlines()]
        assert sorted(told) == sorted(self.model.told)  # within a version they stand in the order of their times
        assert sum(scope.pending for scope in scopes) == len(self.model.pending)
