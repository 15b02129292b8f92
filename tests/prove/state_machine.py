"""The memory of two users and a group against a model of it in a few lines of Python, through random lives.

Operations: add, form, form again in the same words or in others, observe, contradict, consolidate, undo, archive and
bring back, forget (an observation, a user, a conversation, the group), die while forming or consolidating (with or
without the answer stored), let leases expire. After each step `Memory` must agree with the model: the observations, what
supports each, what waits, the text, and every version that ever existed.
"""

from __future__ import annotations

import asyncio
import itertools
import uuid
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from sqlalchemy import text

from memory_sql.config import Settings
from memory_sql.consolidation import consolidation
from memory_sql.db.repositories.scopes import ScopeRepository
from memory_sql.domain.selection import Selection
from memory_sql.errors import BusyError, InputError, NotFoundError
from memory_sql.formation import formation
from memory_sql.memory import Memory
from tests.database import serving
from tests.forming import loading
from tests.prove.models import Copying

R = TypeVar("R")

BATCH = 2
SETTINGS = Settings(
    graph=True,
    llm="offline",
    formation_window_messages=3,
    observation_max_items=50,
    consolidation_batch=BATCH,
    consolidation_min_ratio=0.0,
    consolidation_max_words=100_000,
    pool_size=1,
)
USERS, SESSIONS = ("mia", "ben"), ("hers", "theirs")  # she speaks in both, he in one
READERS = {"mia": "mia", "ben": "ben", "crew": "eve"}  # of each scope; the group's only member is silent
OWNERS = tuple(READERS)
EVIDENCE = """
    SELECT o.content, e.user_id, e.conversation_id, m.message_id
    FROM memory.evidence e
    JOIN memory.agents a USING (agent_key)
    JOIN memory.observations o USING (agent_key, scope_id, seq)
    LEFT JOIN memory.messages m ON (m.agent_key, m.conversation_id, m.number) = (e.agent_key, e.conversation_id, e.number)
    WHERE a.agent_id = :agent
"""

STRETCHES = """
    SELECT array_agg(m.message_id ORDER BY m.number)
    FROM memory.runs r
    JOIN memory.agents a USING (agent_key)
    JOIN memory.messages m ON (m.agent_key, m.conversation_id) = (r.agent_key, r.conversation_id)
        AND m.number > r.from_number AND m.number <= r.to_number
    WHERE a.agent_id = :agent AND r.conversation_id = :session AND r.kind = 'formation' AND r.state IN ('succeeded', 'empty')
    GROUP BY r.run_id, r.from_number
    ORDER BY r.from_number
"""
GONE = """
    SELECT count(*) FROM memory.messages m
    JOIN memory.agents a USING (agent_key)
    JOIN memory.conversations c USING (agent_key, conversation_id)
    WHERE a.agent_id = :agent AND c.conversation_id = :session AND m.number <= c.formed_number AND m.content IS NULL
"""
GAVE_WAY = """
    SELECT t.seq FROM memory.observation_states t
    JOIN memory.agents a USING (agent_key)
    JOIN memory.observations o ON (o.agent_key, o.scope_id, o.seq) = (t.agent_key, t.scope_id, t.superseded_by)
    WHERE a.agent_id = :agent AND o.content = :fact
"""


@dataclass(frozen=True)
class Source:
    """What stands behind a fact: a message of a user, or somebody's word for a user or the group."""

    user: str | None
    session: str | None = None
    message: str | None = None


@dataclass(eq=False)
class Fact:
    number: int
    text: str
    sources: frozenset[Source]
    is_archived: bool = False
    is_retired: bool = False


@dataclass(eq=False)
class Version:
    """`facts` are all that its text tells, `absorbed` those that it was the first to tell, as far as `upto`.

    `gave_way` are those that a newer one of these contradicts; that holds while the version does.
    """

    number: int
    base: int
    after: int
    upto: int
    absorbed: list[Fact]
    facts: list[Fact]
    gave_way: list[Fact]
    is_live: bool = True


@dataclass
class Scope:
    """One owner's facts, in the order of their numbers, and every version of the text, also those undone."""

    facts: list[Fact] = field(default_factory=list)
    versions: list[Version] = field(default_factory=list)
    version: int = 0
    last_number: int = 0

    def learn(self, text: str, source: Source) -> None:
        self.last_number += 1
        self.facts.append(Fact(self.last_number, text, frozenset({source})))

    @property
    def live(self) -> list[Version]:
        return [version for version in self.versions if version.is_live]

    @property
    def done(self) -> int:
        return max((version.upto for version in self.live), default=0)

    @property
    def told(self) -> list[Fact]:
        return [fact for version in self.live for fact in version.absorbed]

    @property
    def pending(self) -> list[Fact]:
        return [fact for fact in self.active if fact not in self.told]

    @property
    def active(self) -> list[Fact]:
        gave_way = [fact for version in self.live for fact in version.gave_way]
        aside = [fact for fact in self.facts if fact.is_archived or fact.is_retired]
        return [fact for fact in self.facts if fact not in aside and fact not in gave_way]

    def consolidate(self) -> None:
        pending = self.pending
        for n in range(0, len(pending), BATCH):
            self._write(self.version, pending[n : n + BATCH], self.told + pending[n : n + BATCH])

    @property
    def contradictions(self) -> int:
        """How many of what waits the next versions would let give way."""
        pending = self.pending
        return sum(len(_contradicted(pending[n : n + BATCH])) for n in range(0, len(pending), BATCH))

    def takes_extras(self) -> bool:
        """Whether a fact waits that is older than one that is told."""
        return any(fact.number <= self.done for fact in self.pending)

    def can_undo(self) -> bool:
        return any(version.absorbed for version in self.live)

    def undo(self) -> None:
        newest = [version for version in self.live if version.absorbed][-1]
        for version in self.live:
            version.is_live = version.number < newest.number
        self._write(newest.base, [], self._facts_of(newest.base))

    def forget(self, facts: list[Fact], *, whole: bool = False) -> bool:
        """Whether its text held any of the facts: then that text is as it was before, and what is left waits."""
        tainted = list(self.versions) if whole else self._tainted(facts)
        was_told = self._rewind(tainted)
        self.facts = [fact for fact in self.facts if fact not in facts]
        self.versions = [version for version in self.versions if version not in tainted]
        assert not any(fact in version.facts for version in self.versions for fact in facts)
        return was_told

    def retire(self, facts: list[Fact]) -> int:
        """How many of these were active. What had given way to one is active again, and may be one of these itself."""
        count = 0
        while going := [fact for fact in self.active if fact in facts]:
            self._rewind(self._tainted(going))
            for fact in going:
                fact.is_retired = True
            count += len(going)
        return count

    def _rewind(self, tainted: list[Version]) -> bool:
        """Whether there was anything to take back: the text is as it was before the first of these that counts."""
        first = next((version for version in self.live if version in tainted), None)
        if first is not None:
            for version in self.live:
                version.is_live = version.number < first.number
            self._write(first.base, [], self._facts_of(first.base))
        return first is not None

    def _tainted(self, facts: list[Fact]) -> list[Version]:
        """Those that absorbed one or, undone, may have, and those on top of such."""
        tainted: list[Version] = []
        for version in self.versions:
            below = version.base in [other.number for other in tainted]
            if below or any(self._may_hold(version, fact) for fact in facts):
                tainted.append(version)
        return tainted

    @staticmethod
    def _may_hold(version: Version, fact: Fact) -> bool:
        """What an undone version passed over isn't known any more."""
        in_range = version.after < fact.number <= version.upto
        return fact in version.absorbed or (in_range and not version.is_live)

    def _facts_of(self, number: int) -> list[Fact]:
        return next((version.facts for version in self.versions if version.number == number), [])

    def _write(self, base: int, absorbed: list[Fact], facts: list[Fact]) -> None:
        """No text leaves no version behind, but it has taken a number."""
        self.version += 1
        if facts:
            done = self.done
            upto = max([done, *(fact.number for fact in absorbed)])
            self.versions.append(Version(self.version, base, done, upto, absorbed, facts, _contradicted(absorbed)))


@dataclass
class Model:
    """What ought to be."""

    unformed: dict[str, list[Source]] = field(default_factory=lambda: {session: [] for session in SESSIONS})
    scopes: dict[str, Scope] = field(default_factory=lambda: {owner: Scope() for owner in OWNERS})
    leased: set[str] = field(default_factory=set)  # conversations, and owners for their scopes

    def form(self, session: str) -> None:
        for source in self.unformed[session]:
            self.scopes[source.user or ""].learn(f"fact {source.message}", source)
        self.unformed[session].clear()

    def form_again(self, messages: list[str | None], words: Mapping[str, str]) -> int:
        """A stretch, which says the same or something else; how many facts gave way."""
        count = 0
        for owner, scope in self.scopes.items():
            known = {fact: source for fact in scope.facts for source in fact.sources if source.message in messages}
            said = {source: f"fact {source.message}{words.get(source.message or '', '')}" for source in known.values()}
            going = [fact for fact, source in known.items() if fact.text != said[source]]
            gone = scope.retire(going)
            self.leased -= {owner} if gone else set()
            count += gone
            texts = {fact.text for fact in known}
            for source in sorted(said, key=lambda source: messages.index(source.message)):
                if said[source] not in texts:
                    scope.learn(said[source], source)
        return count

    @property
    def facts(self) -> Iterator[Fact]:
        return (fact for scope in self.scopes.values() for fact in scope.facts)


class Life(RuleBasedStateMachine):
    url = ""
    runner: asyncio.Runner
    did: Counter[str]

    @initialize()
    def begin(self) -> None:
        self.agent = uuid.uuid4().hex
        self.model = Model()
        self.names = map(str, itertools.count(1))
        self.llm = Copying()
        self.memory = self.do(Memory(self.url, self.llm, SETTINGS).open())
        for owner in OWNERS:
            self.learn(owner, 1)
        self.sql(
            "INSERT INTO memory.members (agent_key, scope_id, user_id, source)"
            " SELECT agent_key, scope_id, 'eve', 'host' FROM memory.scopes JOIN memory.agents USING (agent_key)"
            " WHERE agent_id = :agent AND owner = 'g:crew'"
        )

    def teardown(self) -> None:
        if hasattr(self, "memory"):
            self.do(self.memory.close())

    def do(self, call: Awaitable[R]) -> R:
        async def awaited() -> R:
            return await call

        return self.runner.run(awaited())

    def sql(self, statement: str, **parameters: Any) -> list[Any]:
        async def run() -> list[Any]:
            async with serving(self.memory) as session:
                ran: Any = await session.execute(text(statement), {"agent": self.agent, **parameters})
                return list(ran) if ran.returns_rows else []

        return self.do(run())

    def scope_id(self, owner: str) -> int:
        (scope,) = self.do(self.memory.scopes.list(agent_id=self.agent, user_id=READERS[owner]))
        return scope.ref.key

    @rule(speakers=st.lists(st.sampled_from(USERS), min_size=1, max_size=5), twice=st.booleans())
    def add(self, speakers: list[str], twice: bool) -> None:
        self.say("theirs" if "ben" in speakers else "hers", speakers, twice)

    def say(self, session: str, speakers: list[str], twice: bool = False) -> None:
        said = [Source(user, session, next(self.names)) for user in speakers]
        messages = [{"role": "user", "content": m.message, "id": m.message, "user_id": m.user} for m in said]
        for _ in range(1 + twice):
            self.do(self.memory.add(messages, agent_id=self.agent, user_id="mia", conversation_id=session))
        self.model.unformed[session] += said

    @rule(session=st.sampled_from(SESSIONS))
    def form(self, session: str) -> None:
        try:
            self.do(self.memory.conversations.form(agent_id=self.agent, conversation_id=session))
        except BusyError:
            assert session in self.model.leased
        except NotFoundError:
            assert not self.model.unformed[session]
        else:
            assert session not in self.model.leased
            self.did["formed"] += len(self.model.unformed[session])
            self.model.form(session)

    @rule(session=st.sampled_from(SESSIONS), in_other_words=st.booleans())
    def form_again(self, session: str, in_other_words: bool) -> None:
        stretches = [messages for (messages,) in self.sql(STRETCHES, session=session)]
        if in_other_words:
            words = f" in words {next(self.names)}"
            self.llm.words |= {message: words for messages in stretches for message in messages}
        try:
            self.do(self.memory.conversations.form(agent_id=self.agent, conversation_id=session, again=True))
        except BusyError:
            assert session in self.model.leased
        except InputError:
            ((gone,),) = self.sql(GONE, session=session)
            assert gone
        except NotFoundError:
            assert not stretches
        else:
            assert session not in self.model.leased
            self.did["stretches formed again"] += len(stretches)
            for messages in stretches:
                self.did["gave way to another formation"] += self.model.form_again(messages, self.llm.words)

    def learn(self, owner: str, count: int, contradicting: bool = False) -> None:
        """The newest may contradict the one before it."""
        scope = self.model.scopes[owner]
        user, group = (None, owner) if owner == "crew" else (owner, None)
        for n in range(count):
            fact = f"fact {next(self.names)}"
            if contradicting and n == count - 1 and scope.pending:
                fact += f", not {scope.pending[-1].text}"
            self.do(self.memory.observe(fact, agent_id=self.agent, user_id=user, group_id=group))
            scope.learn(fact, Source(user))

    @rule(
        owner=st.sampled_from(OWNERS),
        new=st.integers(0, 3),
        contradicting=st.booleans(),
        passing_over=st.integers(0, 2),
    )
    def learn_and_consolidate(self, owner: str, new: int, contradicting: bool, passing_over: int) -> None:
        """`passing_over`: one fact is set aside, and brought back after the version has passed it; 2: and told at once."""
        self.learn(owner, new, contradicting)
        scope = self.model.scopes[owner]
        aside = scope.pending[:1] if passing_over else []
        for fact in aside:
            self.archive_or_bring_back(fact)
        self.consolidate(owner, scope)
        for fact in aside:
            self.archive_or_bring_back(fact)
        if passing_over == 2:
            self.consolidate(owner, scope)

    def consolidate(self, owner: str, scope: Scope) -> None:
        try:
            self.do(self.memory.scopes.consolidate(agent_id=self.agent, scope_id=f"s{self.scope_id(owner)}"))
        except BusyError:
            assert owner in self.model.leased
        else:
            assert owner not in self.model.leased
            self.did["contradicted"] += scope.contradictions
            self.did["versions on top of a text"] += bool(scope.told and scope.pending)
            self.did["versions that took what was passed over"] += scope.takes_extras()
            scope.consolidate()

    @rule(owner=st.sampled_from(OWNERS))
    def undo(self, owner: str) -> None:
        scope = self.model.scopes[owner]
        before = len(scope.active)
        try:
            self.do(self.memory.scopes.undo(agent_id=self.agent, scope_id=f"s{self.scope_id(owner)}"))
        except NotFoundError:
            assert not scope.can_undo()
        else:
            scope.undo()
            self.did["contradictions undone"] += len(scope.active) - before
            self.did["undone"] += 1
            self.did["undone to a text before"] += bool(scope.told)

    @precondition(lambda self: self.archivable())
    @rule(data=st.data())
    def set_aside_or_bring_back(self, data: st.DataObject) -> None:
        """But for what others gave way to, which would have to stand again."""
        fact = data.draw(st.sampled_from(self.archivable()))
        if not self.sql(GAVE_WAY, fact=fact.text):
            self.archive_or_bring_back(fact)

    def archivable(self) -> list[Fact]:
        scopes = self.model.scopes.values()
        return [fact for scope in scopes for fact in scope.facts if fact.is_archived or fact in scope.active]

    def archive_or_bring_back(self, fact: Fact) -> None:
        fact.is_archived = not fact.is_archived
        self.sql(
            "INSERT INTO memory.observation_states (agent_key, scope_id, seq, status)"
            " SELECT agent_key, scope_id, seq, :status FROM memory.observations JOIN memory.agents USING (agent_key)"
            " WHERE agent_id = :agent AND content = :fact"
            " ON CONFLICT (agent_key, scope_id, seq) DO UPDATE SET status = :status",
            fact=fact.text,
            status="archived" if fact.is_archived else "active",
        )
        self.sql(  # belongs to every change of a status (rule 11)
            "SELECT memory.refresh_due(agent_key, array_agg(scope_id), :threshold, now())"
            " FROM memory.scopes JOIN memory.agents USING (agent_key) WHERE agent_id = :agent GROUP BY agent_key",
            threshold=SETTINGS.consolidation_threshold,
        )

    @precondition(lambda self: any(self.model.facts))
    @rule(data=st.data())
    def forget(self, data: st.DataObject) -> None:
        """The words that it was made of go with it."""
        owner = data.draw(st.sampled_from([owner for owner, scope in self.model.scopes.items() if scope.facts]))
        fact = data.draw(st.sampled_from(self.model.scopes[owner].facts))
        ((observation_id,),) = self.sql(
            "SELECT 'o' || scope_id || '-' || seq FROM memory.observations JOIN memory.agents USING (agent_key)"
            " WHERE agent_id = :agent AND content = :fact",
            fact=fact.text,
        )
        self.do(self.memory.forget(observation_id, agent_id=self.agent))
        of_messages = {source for source in fact.sources if source.message}
        self.forgotten(lambda other, _: other is fact or bool(other.sources & of_messages))

    @precondition(lambda self: any(len(scope.facts) > 3 for scope in self.model.scopes.values()))
    @rule(owner=st.sampled_from(OWNERS))
    def forget_owner(self, owner: str) -> None:
        """A user, with all that they said, or the group. Nobody's else."""
        user, group = (None, owner) if owner == "crew" else (owner, None)
        self.do(self.memory.forget(Selection(user_id=user, group_id=group), agent_id=self.agent))
        for unformed in self.model.unformed.values():
            self.did["forgotten before they were formed"] += len([said for said in unformed if said.user == owner])
            unformed[:] = [said for said in unformed if said.user != owner]
        self.did["owners forgotten"] += bool(self.model.scopes[owner].facts)
        self.forgotten(lambda _, whose: whose == owner, whole=owner)

    @precondition(lambda self: any(source.session for fact in self.model.facts for source in fact.sources))
    @rule(session=st.sampled_from(SESSIONS))
    def forget_conversation(self, session: str) -> None:
        self.do(self.memory.forget(Selection(conversation_id=session), agent_id=self.agent))
        self.model.unformed[session].clear()
        goes = [fact for fact in self.model.facts if any(source.session == session for source in fact.sources)]
        self.did["conversations forgotten"] += bool(goes)
        self.forgotten(lambda fact, _: fact in goes)

    def forgotten(self, goes: Callable[[Fact, str], bool], whole: str | None = None) -> None:
        """A text that held any of it is written anew, where nobody else is at it."""
        for owner, scope in self.model.scopes.items():
            facts = [fact for fact in scope.facts if goes(fact, owner)]
            if (facts or owner == whole) and scope.forget(facts, whole=owner == whole):
                self.did["forgotten from a text"] += 1
                if owner not in self.model.leased:
                    scope.consolidate()
        known = {line for fact in self.model.facts for line in fact.text.splitlines()}
        known |= {said.message or "" for unformed in self.model.unformed.values() for said in unformed}
        known |= {source.message or "" for fact in self.model.facts for source in fact.sources}
        for table in ("observations", "messages", "consolidations"):
            found = self.sql(
                f"SELECT content FROM memory.{table} JOIN memory.agents USING (agent_key) WHERE agent_id = :agent"  # noqa: S608
                " AND content IS NOT NULL"
            )
            assert {line for (content,) in found for line in content.splitlines()} <= known

    @rule(session=st.sampled_from(SESSIONS), answered=st.booleans(), twice=st.booleans())
    def die_forming(self, session: str, answered: bool, twice: bool) -> None:
        """The lease is taken, the model may have answered; nothing comes of it until somebody takes over, who may die too."""

        async def die() -> None:
            now = datetime.now(UTC)
            async with serving(self.memory) as unit:
                _, loaded = await loading(unit, self.agent, session, SETTINGS, now, "due")
            if loaded is not None:
                self.model.leased.add(session)
                self.did["taken over with an answer"] += loaded.answered is not None
                if answered and loaded.answered is None:
                    answer = await formation.decide(self.llm, loaded, SETTINGS)
                    async with serving(self.memory) as unit:
                        await formation.keep(unit, loaded, answer, SETTINGS)

        if not self.model.unformed[session]:
            self.say(session, ["mia", "mia"])
        try:
            self.do(die())
            if twice:
                self.leases_run_out()
                self.do(die())
        except BusyError:
            assert session in self.model.leased

    @precondition(lambda self: set(OWNERS) - self.model.leased)
    @rule(data=st.data())
    def die_consolidating(self, data: st.DataObject) -> None:
        owner = data.draw(st.sampled_from([owner for owner in OWNERS if owner not in self.model.leased]))
        scope_id, now = self.scope_id(owner), datetime.now(UTC)

        async def die() -> None:
            async with serving(self.memory) as unit:
                scope = await ScopeRepository(unit).claim_of(
                    self.agent, scope_id, timedelta(seconds=SETTINGS.lease_seconds)
                )
                assert scope is not None
                loaded = await consolidation.load(unit, self.agent, scope, SETTINGS, now, "asked")
            if loaded is not None:
                self.model.leased.add(owner)

        self.do(die())

    @precondition(lambda self: self.model.leased)
    @rule()
    def leases_run_out(self) -> None:
        for table in ("conversations", "scopes"):
            self.sql(
                f"UPDATE memory.{table} t SET lease_until = now() - interval '1 second' FROM memory.agents a"  # noqa: S608
                " WHERE t.agent_key = a.agent_key AND a.agent_id = :agent AND lease_until IS NOT NULL"
            )
        self.model.leased.clear()

    @invariant()
    def memory_is_what_the_model_says(self) -> None:
        if not hasattr(self, "memory"):
            return
        self.did["steps"] += 1
        for owner, ought in self.model.scopes.items():
            who: dict[str, Any] = {"agent_id": self.agent, "user_id": READERS[owner]}
            listed = self.do(self.memory.observations.list(**who, limit=1000))
            assert {o.content for o in listed} == _texts(ought.active)
            assert {o.content for o in listed if o.pending} == _texts(ought.pending)
            scopes = self.do(self.memory.scopes.list(**who))
            told = [line for scope in scopes for line in (scope.consolidation or "").splitlines()]
            assert sorted(told) == sorted(_texts(ought.told))  # within a version they stand in the order of their times
            assert sum(scope.pending for scope in scopes) == len(ought.pending)
            history = self.do(self.memory.scopes.history(**who, limit=1000))
            assert {(v.version, v.base, v.live, frozenset(v.content.splitlines())) for v in history} == {
                (v.number, v.base, v.is_live, frozenset(_texts(v.facts))) for v in ought.versions
            }

    @invariant()
    def everything_has_its_sources(self) -> None:
        if not hasattr(self, "memory"):
            return
        assert {tuple(row) for row in self.sql(EVIDENCE)} == {
            (fact.text, source.user, source.session, source.message)
            for fact in self.model.facts
            for source in fact.sources
        }


def _contradicted(facts: list[Fact]) -> list[Fact]:
    return [older for older in facts if any(newer.text.endswith(f", not {older.text}") for newer in facts)]


def _texts(facts: list[Fact]) -> set[str]:
    return {fact.text for fact in facts}
