"""`verify` finds nothing after a busy life, and names the one thing that is wrong if a test breaks it."""

from __future__ import annotations

import asyncio
import json
import os
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from importlib.resources import files
from typing import Any, TypeVar

import pytest
from pydantic import BaseModel
from sqlalchemy import CursorResult, text
from sqlalchemy.ext.asyncio import AsyncSession

from memory_sql.config import Settings
from memory_sql.consolidation.task import ConsolidationTask
from memory_sql.db import verify
from memory_sql.db.models import Base
from memory_sql.db.principals import SERVICE
from memory_sql.domain.ids import parse_scope_id
from memory_sql.domain.observations import Observation
from memory_sql.errors import BusyError, StaleError, UnavailableError
from memory_sql.formation import formation
from memory_sql.formation.task import ExtractionTask
from memory_sql.llm import Answer, Request, Usage
from memory_sql.llm.answers import read
from memory_sql.memory import Memory
from memory_sql.propagation.task import PropagationTask
from tests.conftest import administer, named
from tests.database import rows, statements
from tests.factories import MONDAY, conversation, message
from tests.fakes import extracted, promoted
from tests.forming import loading

T = TypeVar("T", bound=BaseModel | str)

ADA: dict[str, Any] = {"agent_id": "ada"}
MIA: dict[str, Any] = {"agent_id": "ada", "user_id": "mia"}
JONAS: dict[str, Any] = {"agent_id": "ada", "user_id": "jonas"}
SETTINGS = Settings(llm="offline", consolidation_threshold=3, formation_window_messages=4)
SIGNAL = "Actually, I prefer tea."


class Clock:
    now = MONDAY

    def __call__(self) -> datetime:
        return self.now

    def goes_on(self, **how_much: float) -> None:
        self.now += timedelta(**how_much)


class Obliging:
    """Makes an observation of each thing that a user said, and a text of all that it is given; some words upset it."""

    cured = False
    meanwhile: Callable[[], Awaitable[object]] | None = None

    async def generate(self, request: Request[T]) -> Answer[T]:
        if self.meanwhile is not None:
            happen, self.meanwhile = self.meanwhile, None
            await happen()
        raw = self.answer(request.material)
        return Answer(read(raw, request.output), raw, Usage("obliging", 100, 10, 0.01))

    def answer(self, material: object) -> str:
        if isinstance(material, ExtractionTask):
            said = [turn for turn in material.turns if turn.role == "user" and "weather" not in turn.text]
            if self.upset_by(turn.text for turn in said):
                return "nonsense"
            scopes = [scope.alias for scope in material.scopes if scope.kind != "collective"]
            facts = [(turn.text.replace("poison", "tea"), turn.n) for turn in said]
            return extracted(*((fact, scope, [n]) for fact, n in facts for scope in scopes))
        if isinstance(material, PropagationTask):
            return promoted(material)
        assert isinstance(material, ConsolidationTask)
        texts = [item.text for item in material.observations]
        if self.upset_by(texts):
            return ""
        corrections = [item.n for item in material.observations if item.n > 1 and "Correction" in item.text]
        named = [{"newer": n, "older": n - 1, "was": "six", "now": "seven"} for n in corrections]
        return json.dumps({"text": "\n".join(filter(None, [material.current, *texts])), "contradictions": named})

    def upset_by(self, texts: Iterable[str]) -> bool:
        words = "" if self.cured else " ".join(texts)
        if "silence" in words:
            raise UnavailableError("timeout", "no answer")
        return "poison" in words


class Life:
    """What can happen to a memory, in chapters; whoever reads them may look at its state between any two."""

    def __init__(self, url: str) -> None:
        self.llm, self.clock = Obliging(), Clock()
        self.memory = Memory(url, self.llm, SETTINGS, clock=self.clock)
        self.mine: dict[str, Any] = {}
        self.given_up: set[int] = set()

    async def chapters(self) -> AsyncIterator[str]:
        first = (self.talk, self.learn, self.correct, self.contradict, self.fail, self.outlive)
        for chapter in (*first, self.exclude, self.overtake, self.die, self.spread, self.leave):
            async for what in chapter():
                yield f"{chapter.__name__}: {what}"

    async def talk(self) -> AsyncIterator[str]:
        said = [message("Be kind.", n=0, role="system"), *conversation(5), message("What weather!", n=6)]
        for _ in range(2):
            await self.memory.add(said, **MIA, conversation_id="s", group_ids=["harbor"])
            yield "added"
        await self.memory.conversations.form(**ADA, conversation_id="s")
        yield "formed in two windows"
        await self.memory.add([message("What weather!", n=7)], **MIA, conversation_id="s")
        await self.memory.conversations.form(**ADA, conversation_id="s")
        yield "formed nothing"
        await self.memory.add([message("Turn 5 about the boats.", n=8)], **JONAS, conversation_id="s")
        await self.memory.conversations.form(**ADA, conversation_id="s")
        yield "formed what the group knew already"

    async def learn(self) -> AsyncIterator[str]:
        observation = await self.memory.observe("Two.", **MIA)
        self.mine = {**ADA, "scope_id": observation.scope.id}
        await self.memory.observe("Three.", **MIA)
        yield "due"
        await self.set_status(-2, "archived")
        yield "one archived"
        await self.memory.run_due()
        yield "consolidated, one passed over"
        await self.set_status(-2, "active")
        yield "brought back"
        await self.memory.scopes.consolidate(**self.mine)
        yield "absorbed as an extra"
        await self.observe(4, archived=2)
        await self.memory.run_due()
        yield "one passed over for good"

    async def correct(self) -> AsyncIterator[str]:
        for n in range(3):
            await self.memory.scopes.undo(**self.mine)
            yield f"undone {n + 1} times"
        await self.memory.scopes.consolidate(**self.mine)
        yield "told anew"
        await self.observe(1)
        await self.memory.scopes.consolidate(**self.mine)
        await self.set_status(-1, "superseded")
        await self.memory.scopes.undo(**self.mine)
        yield "taken back"
        await self.observe(1)
        self.llm.meanwhile = partial(self.memory.scopes.undo, **self.mine)
        with pytest.raises(StaleError):
            await self.memory.scopes.consolidate(**self.mine)
        yield "overtaken by an undo"
        await self.observe(4, archived=2)
        await self.memory.run_due()
        await self.set_status(-2, "active")
        await self.observe(3, archived=1)
        await self.memory.run_due()
        yield "with an extra, and one passed over"
        await self.observe(3)
        await self.memory.run_due()
        await self.memory.scopes.undo(**self.mine)
        yield "the last one undone"

    async def contradict(self) -> AsyncIterator[str]:
        for said in ("Low tide is at six.", "Correction: it is at seven.", "The tide turns."):
            tides = (await self.memory.observe(said, **ADA, group_id="tides")).scope.key
        await self.memory.run_due()
        yield "one gave way"
        assert (await self.memory.scopes.undo(**ADA, scope_id=f"s{tides}")).reinstated == 1
        yield "and counts again"
        assert (await self.memory.scopes.consolidate(**ADA, scope_id=f"s{tides}")).superseded == 1
        yield "and gave way again"

    async def fail(self) -> AsyncIterator[str]:
        for conversation_id in ("discarded", "retried", "dead"):
            await self.memory.add([message("Actually, I prefer poison.")], **MIA, conversation_id=conversation_id)
        async for _ in self.days():
            yield "nonsense"
        dead = {run.conversation_id: run.run_id for run in await self.memory.work.dead()}
        self.llm.cured = True
        await self.die_forming("discarded", answers=True)
        yield "asked for, and died with the answer"
        await self.memory.work.discard(**ADA, run_id=dead["discarded"])
        yield "discarded"
        await self.memory.work.retry(**ADA, run_id=dead["retried"])
        yield "retried"
        await self.memory.add([message(SIGNAL, n=2)], **MIA, conversation_id="discarded")
        await self.memory.run_due()
        yield "formed after all"
        self.llm.cured = False
        await self.memory.add([message("Actually, I prefer silence.", n=3)], **MIA, conversation_id="discarded")
        async for _ in self.days():
            yield "silence"
        for n in range(3):
            await self.memory.observe(f"poison {n}", **ADA, collective=True)
            harbor = (await self.memory.observe(f"poison {n}", **ADA, group_id="harbor")).scope.key
        async for _ in self.days():
            yield "found and set aside"
        (run_id,) = [run.run_id for run in await self.memory.work.dead() if run.scope_id == f"s{harbor}"]
        self.llm.cured, self.llm.meanwhile = True, partial(self.memory.work.retry, **ADA, run_id=run_id)
        assert (await self.memory.scopes.consolidate(**ADA, scope_id=f"s{harbor}")).absorbed == 3
        self.llm.cured = False
        yield "one brought back while others were read"
        await self.memory.observe("News.", **ADA, group_id="harbor")
        self.given_up = {run.run_id for run in await self.memory.work.dead()}

    async def days(self) -> AsyncIterator[None]:
        for _ in range(4):
            await self.memory.run_due()
            self.clock.goes_on(minutes=20)
            yield

    async def outlive(self) -> AsyncIterator[str]:
        """Somebody asks for work that was given up, and gets it."""
        await self.memory.add([message("Actually, I prefer poison.")], **MIA, conversation_id="outlived")
        for n in range(3):
            await self.memory.observe(f"poison {n}", **ADA, group_id="outlived")
        async for _ in self.days():
            yield "given up"
        runs = [run for run in await self.memory.work.dead() if run.run_id not in self.given_up]
        self.llm.cured = True
        for run in runs:
            if run.conversation_id is not None:
                await self.memory.conversations.form(**ADA, conversation_id=run.conversation_id)
                yield "formed after all"
            if run.scope_id is not None:
                await self.memory.work.retry(**ADA, run_id=run.run_id)
                yield "brought back"
                await self.memory.scopes.consolidate(**ADA, scope_id=run.scope_id)
                yield "consolidated after all"
        self.llm.cured = False
        assert not {run.run_id for run in runs} & {run.run_id for run in await self.memory.work.dead()}

    async def exclude(self) -> AsyncIterator[str]:
        memory = self.memory
        await memory.add([message(SIGNAL)], **MIA, conversation_id="excluded", excluded=True)
        yield "said in confidence"
        await memory.add([message(SIGNAL)], **MIA, conversation_id="lifted")
        await self.die_forming("lifted", answers=True)
        await memory.conversations.exclude(**ADA, conversation_id="lifted")
        await memory.add([message(SIGNAL, n=2)], **MIA, conversation_id="lifted")
        yield "excluded"
        assert await rows(memory, "SELECT count(answer) FROM memory.runs") == [(0,)]
        await memory.conversations.exclude(**ADA, conversation_id="lifted", excluded=False)
        yield "lifted"
        await self.leases_run_out()
        await memory.run_due()
        yield "formed"

    async def overtake(self) -> AsyncIterator[str]:
        """The model gives no answer, and meanwhile it isn't wanted any more."""
        await self.memory.add([message("Actually, I prefer silence.")], **MIA, conversation_id="overtaken")
        self.llm.meanwhile = partial(self.memory.conversations.exclude, **ADA, conversation_id="overtaken")
        await self.memory.run_due()
        yield "excluded while it was formed"
        await self.observe(3)
        await self.memory.run_due()
        for n in range(3):
            await self.memory.observe(f"silence {n}", **MIA)
        self.llm.meanwhile = partial(self.memory.scopes.undo, **self.mine)
        await self.memory.run_due()
        yield "undone while it was consolidated"
        self.llm.cured = True
        await self.memory.scopes.consolidate(**self.mine)
        self.llm.cured = False
        await self.memory.add([message("Actually, I prefer poison.")], **MIA, conversation_id="shunned")
        async for _ in self.days():
            yield "given up"
        (dead,) = [run for run in await self.memory.work.dead() if run.conversation_id == "shunned"]
        await self.memory.conversations.exclude(**ADA, conversation_id="shunned")
        yield "excluded as well"
        await self.memory.work.retry(**ADA, run_id=dead.run_id)
        yield "to be tried again, but excluded"
        await self.memory.conversations.exclude(**ADA, conversation_id="shunned", excluded=False)
        yield "to be tried again"
        await self.memory.conversations.exclude(**ADA, conversation_id="shunned")

    async def die(self) -> AsyncIterator[str]:
        """A process that is killed does nothing more: what it has committed stays as it was."""
        await self.memory.add(conversation(9), **MIA, conversation_id="died")
        for answers in (False, True, True):
            await self.die_forming("died", answers=answers)
            yield "died"
            with pytest.raises(BusyError):
                await self.memory.conversations.form(**ADA, conversation_id="died")
            await self.leases_run_out()
            yield "its lease ran out"
        await self.memory.conversations.form(**ADA, conversation_id="died")
        yield "taken up"

    async def die_forming(self, conversation_id: str, *, answers: bool) -> None:
        async with self.memory.database.transaction(principal=SERVICE) as unit:
            _, loaded = await loading(unit, "ada", conversation_id, SETTINGS, self.clock(), "asked")
        assert loaded is not None
        if answers and loaded.answered is None:
            answered = await formation.decide(self.llm, loaded, SETTINGS)
            async with self.memory.database.transaction(principal=SERVICE) as unit:
                await formation.keep(unit, loaded, answered, SETTINGS)

    async def leases_run_out(self) -> None:
        await rows(self.memory, "UPDATE memory.conversations SET lease_until = now() WHERE lease_until > now()")

    async def spread(self) -> AsyncIterator[str]:
        for group, users in {"east": ("ida", "ole"), "west": ("per", "uma"), "north": ("ida", "per")}.items():
            await self.memory.groups.create(group, **ADA)
            for user in users:
                await self.memory.groups.add_member(group, user, **ADA)
        east = await self.say_in("east", "ida", "The team prefers asynchronous communication over meetings.")
        aside = await self.say_in("east", "ole", "The quay is closed.")
        await self.say_in("east", "ole", "The team prefers asynchronous communication to meetings.")
        west = await self.say_in("west", "per", "The team prefers asynchronous communication.")
        await self.memory.observations.quarantine(aside.id, **ADA, user_id="ole")
        for known in (east, west):
            await self.memory.scopes.consolidate(**ADA, scope_id=known.scope.id)
            yield "known to a group"
        assert len((await self.memory.scopes.propagate(**ADA, scope_id=west.scope.id)).propagated) == 1
        yield "known to everybody"
        own = await self.memory.observe("The project deadline is 24 April 2026.", **ADA, user_id="ida")
        await self.memory.scopes.consolidate(**ADA, scope_id=own.scope.id)
        yield "due to be judged"
        assert (await self.memory.scopes.propagate(**ADA, scope_id=own.scope.id, dry_run=True)).propagated
        yield "shown"
        await self.memory.configure(**ADA, sharing="off")
        await self.memory.scopes.propagate(**ADA, scope_id=own.scope.id)
        yield "switched off"
        await self.memory.configure(**ADA, sharing=None)
        assert [item.target for item in (await self.memory.scopes.propagate(**ADA)).propagated].count("north") == 1
        yield "known to a group"
        await self.memory.scopes.undo(**ADA, scope_id=own.scope.id)
        yield "undone after that"
        await self.memory.scopes.consolidate(**ADA, scope_id=own.scope.id)
        yield "told anew"
        await self.memory.scopes.propagate(**ADA)
        yield "judged once"
        await self.memory.observe("Everybody may use the dock.", **ADA, collective=True)
        yield "said by the host"

    async def say_in(self, group: str, user: str, text: str) -> Observation:
        return await self.memory.observe(text, **ADA, user_id=user, group_id=group)

    async def leave(self) -> AsyncIterator[str]:
        await self.memory.add(conversation(4, first=90), **MIA, conversation_id="died")
        await self.die_forming("died", answers=True)
        yield "died once more"
        await self.memory.add([message()], **MIA, conversation_id="quiet")
        await self.memory.add([message(SIGNAL)], **MIA, conversation_id="signal")
        await self.memory.add(conversation(4), **MIA, conversation_id="waiting")
        yield "left unformed"
        for n in range(3):
            await self.memory.observe(f"Last {n}.", **JONAS)
        yield "left due"

    async def observe(self, count: int, *, archived: int | None = None) -> None:
        """So many things of Mia's; one of them, counted from the last, is archived at once."""
        for _ in range(count):
            self.clock.goes_on(seconds=1)
            await self.memory.observe(f"Now it is {self.clock():%H:%M:%S}.", **MIA)
        if archived:
            await self.set_status(-archived, "archived")

    async def set_status(self, seq: int, status: str) -> None:
        """Of an observation of Mia's, the newest being -1; as a later release will do it, by rule 11."""
        await rows(
            self.memory,
            "INSERT INTO memory.observation_states (agent_key, scope_id, seq, status)"
            " SELECT agent_key, scope_id, CASE WHEN :seq < 0 THEN last_seq + 1 + :seq ELSE :seq END, :status"
            " FROM memory.scopes WHERE scope_id = :scope_id"
            " ON CONFLICT (agent_key, scope_id, seq) DO UPDATE SET status = :status",
            seq=seq,
            status=status,
            scope_id=parse_scope_id(self.mine["scope_id"]),
        )
        await rows(
            self.memory,
            "SELECT memory.refresh_due(agent_key, ARRAY[scope_id], 3, now()) FROM memory.scopes WHERE scope_id = :id",
            id=parse_scope_id(self.mine["scope_id"]),
        )


@pytest.mark.slow
async def test_nothing_to_say_of_a_busy_life(database_url: str) -> None:
    life = Life(database_url)
    async with life.memory as memory:
        assert list(await memory.admin.verify()) == []
        async for chapter in life.chapters():
            assert (chapter, list(await memory.admin.verify())) == (chapter, [])


# One violation at a time, of what this life has left: the statements that plant it, by the invariant that must tell.

KEYS = {
    "empty_run": "(SELECT max(run_id) FROM memory.runs WHERE conversation_id = 's' AND state = 'empty')",
    "run": "(SELECT min(run_id) FROM memory.runs WHERE conversation_id = 's' AND state = 'succeeded')",
    "text": "(SELECT max(run_id) FROM memory.consolidations WHERE live AND to_seq > from_seq + 1)",
    "extras": "(SELECT agent_key, scope_id, unnest(extra_seqs) FROM memory.consolidations WHERE live)",
    "due": "(SELECT scope_id FROM memory.scopes WHERE owner = 'u:jonas')",
    "quiet": "(SELECT scope_id FROM memory.scopes WHERE owner = 'g:harbor')",
    "spread": "INSERT INTO memory.lineage (agent_key, scope_id, seq, source_scope_id, source_seq)"
    " SELECT agent_key, (SELECT scope_id FROM memory.scopes WHERE owner = 'g:harbor'), 1, scope_id, seq"
    " FROM memory.observations"
    " WHERE seq = 1 AND scope_id = (SELECT scope_id FROM memory.scopes WHERE owner = 'u:jonas')",
    "later": "now() + interval '1 hour'",
    "c": "(SELECT scope_id FROM memory.scopes WHERE owner = 'c')",
    "forgetting": "'f'",
    "forgotten": "INSERT INTO memory.events (agent_key, kind, detail, created_at)"
    " SELECT agent_key, 'forget', jsonb_build_object('id', 'f'), created_at"
    " FROM memory.agents WHERE agent_id = 'ada'",
    "hold": "INSERT INTO memory.holds (agent_key, kind, target) SELECT agent_key,",
    "agent": "FROM memory.agents WHERE agent_id = 'ada'",
    "own": "(SELECT scope_id FROM memory.scopes WHERE owner = 'u:ida')",
    "west": "(SELECT scope_id FROM memory.scopes WHERE owner = 'g:west')",
    "set_aside": "INSERT INTO memory.observation_states (agent_key, scope_id, seq, status, follows)",
    "made_of_own": "FROM memory.lineage WHERE source_scope_id = (SELECT scope_id FROM memory.scopes WHERE owner = 'u:ida')",
    "anew": "ON CONFLICT (agent_key, scope_id, seq) DO UPDATE SET status = excluded.status, follows = excluded.follows",
    "evicted": '{"to": "evicted", "why": "speculative"}',
    "dock": "SELECT agent_key, scope_id, seq FROM memory.observations WHERE content LIKE '% dock.'",
}
FORMED_FOR_OTHERS = (  # what somebody said to a group, as if a formation had put it there
    "UPDATE memory.observations o SET source_kind = 'formation', {change} FROM memory.scopes s"
    " WHERE s.agent_key = o.agent_key AND s.scope_id = o.scope_id AND s.kind = 'group' AND o.source_kind = 'observe'"
    " AND NOT EXISTS (SELECT FROM memory.lineage l WHERE l.source_scope_id = o.scope_id AND l.source_seq = o.seq)"
    " AND NOT EXISTS (SELECT FROM memory.lineage l WHERE l.scope_id = o.scope_id AND l.seq = o.seq)"
)
STANDING = """
    UPDATE memory.observations o SET standing = coalesce((
        SELECT t.status FROM memory.observation_states t
        WHERE (t.agent_key, t.scope_id, t.seq) = (o.agent_key, o.scope_id, o.seq)
    ), 'active')
"""
IN_WAITING = "FROM memory.conversations WHERE conversation_id = 'waiting'"
IN_S = "FROM memory.conversations WHERE conversation_id = 's'"
EPISODE = (
    "INSERT INTO memory.episodes (agent_key, conversation_id, opened_at, last_at)"
    " SELECT agent_key, conversation_id, now() - interval '{past}', now() - interval '{last}'"
)
FORMED_IN_S = (
    "INSERT INTO memory.observation_episodes (agent_key, scope_id, seq, episode_id)"
    " SELECT o.agent_key, o.scope_id, o.seq, e.episode_id FROM memory.observations o JOIN memory.episodes e USING (agent_key)"
    " WHERE o.conversation_id = 's' AND o.source_kind = 'formation'"
)
SAID_NOWHERE = (
    "UPDATE memory.evidence SET conversation_id = NULL, number = NULL, run_id = NULL WHERE conversation_id = 's'"
)
SOMETHING = (
    "INSERT INTO memory.observation_episodes (agent_key, scope_id, seq, episode_id)"
    " SELECT agent_key, 0, episode_id, episode_id FROM memory.episodes"
)
TRACED = (
    "INSERT INTO memory.episodes"
    " (agent_key, conversation_id, episode_id, opened_at, last_at, sealed_at, seal_reason, trace_id)"
    " SELECT agent_key, 's', n, now(), now(), now(), 'forced', n - 1 FROM memory.agents, generate_series(1002, 1003) n"
)
PLANTED: dict[str, list[str]] = {
    "episodes_have_observations": [f"{EPISODE.format(past='1 day', last='1 day')} {IN_S}"],
    "episodes_are_of_one_conversation": [
        f"{EPISODE.format(past='20 years', last='-1 day')} {IN_WAITING};{FORMED_IN_S}",
        f"{EPISODE.format(past='20 years', last='19 years')} {IN_S};{FORMED_IN_S}",
    ],
    "what_is_in_an_episode_was_said_there": [
        f"{EPISODE.format(past='20 years', last='-1 day')} {IN_S};{FORMED_IN_S};{SAID_NOWHERE}"
    ],
    "traces_begin_with_their_episode": [f"{TRACED};{SOMETHING}"],
    "standings_are_the_statuses": [
        "UPDATE memory.observations SET standing = 'archived' WHERE standing = 'superseded'",
        "INSERT INTO memory.observation_vectors (agent_key, scope_id, seq, model, bits, standing)"
        " SELECT agent_key, scope_id, seq, 'x:8', B'10101010', 'evicted' FROM memory.observations WHERE standing = 'active'",
    ],
    "messages_are_numbered_without_gaps": [
        "DELETE FROM memory.messages WHERE conversation_id = 's' AND number = 2",
        "UPDATE memory.conversations SET last_number = last_number + 1 WHERE conversation_id = 'waiting'",
    ],
    "formations_cover_each_message_once": [
        "UPDATE memory.runs SET from_number = from_number - 1 WHERE run_id = {empty_run}",
        "UPDATE memory.runs SET from_number = NULL WHERE run_id = {empty_run}",
        "UPDATE memory.runs SET state = 'failed', error_code = 'x', observations = NULL WHERE run_id = {empty_run}",
        "UPDATE memory.conversations SET formed_number = 1 WHERE conversation_id = 'excluded'",
    ],
    "unformed_messages_are_counted": [
        "UPDATE memory.conversations SET unformed_messages = 5 WHERE conversation_id = 'waiting'",
        "UPDATE memory.conversations SET unformed_tokens = unformed_tokens + 1 WHERE conversation_id = 'waiting'",
        "UPDATE memory.messages SET eligible = true WHERE conversation_id = 'excluded'",
        "UPDATE memory.conversations SET unformed_since = unformed_since - interval '1 day'"
        " WHERE conversation_id = 'waiting'",
        "UPDATE memory.conversations SET unformed_since = now() WHERE conversation_id = 's'",
    ],
    "waiting_conversations_are_due": [
        "UPDATE memory.conversations SET due_at = NULL, due_reason = NULL WHERE conversation_id = 'waiting'",
        "UPDATE memory.conversations SET due_at = NULL, due_reason = NULL WHERE conversation_id = 'signal'",
    ],
    "due_conversations_have_work": [
        "UPDATE memory.conversations SET due_at = now(), due_reason = 'retry' WHERE conversation_id = 's'",
        "UPDATE memory.conversations SET due_at = now(), due_reason = 'retry' WHERE conversation_id = 'excluded'",
        "ALTER TABLE memory.conversations DROP CONSTRAINT conversations_dead_run_id_check;"
        "UPDATE memory.conversations SET due_at = now(), due_reason = 'retry'"
        " WHERE conversation_id = 'dead'",
    ],
    "formations_stored_what_they_recorded": [
        "UPDATE memory.runs SET observations = observations + 1 WHERE run_id = {run}",
        "UPDATE memory.observations SET run_id = NULL WHERE run_id = {run} AND seq = 1",
        "UPDATE memory.observations SET run_id = {text} WHERE conversation_id IS NULL AND seq = 9",
    ],
    "said_again_is_what_evidence_says": [
        "UPDATE memory.evidence SET said_at = created_at + interval '1 day' WHERE seq = 2",
        "UPDATE memory.observations SET said_again_at = now() WHERE seq = 2",
        "INSERT INTO memory.observation_states (agent_key, scope_id, seq, said_again_at)"
        " SELECT agent_key, scope_id, seq, observed_at FROM memory.observations WHERE seq = 2 ON CONFLICT"
        " (agent_key, scope_id, seq) DO UPDATE SET said_again_at = excluded.said_again_at",
    ],
    "observations_have_evidence": ["DELETE FROM memory.evidence WHERE seq = 2"],
    "sources_lie_in_what_was_read": [
        "UPDATE memory.evidence SET number = 9 WHERE conversation_id = 's' AND number = 2",
        "UPDATE memory.evidence SET conversation_id = 'died' WHERE conversation_id = 's' AND number = 2",
        "UPDATE memory.observations SET conversation_id = 'died' WHERE run_id = {run}",
    ],
    "vectors_have_their_models_dimensions": [
        "INSERT INTO memory.observation_vectors SELECT agent_key, scope_id, seq, 'm:3', '01' FROM memory.observations"
        " LIMIT 1",
        "INSERT INTO memory.observation_vectors SELECT agent_key, scope_id, seq, 'm', '01' FROM memory.observations"
        " LIMIT 1",
    ],
    "linked_texts_name_it": [
        "INSERT INTO memory.links (agent_key, scope_id, seq, to_seq, kind, label)"
        " SELECT agent_key, scope_id, 2, 1, 'entity', 'nowhere' FROM memory.observations WHERE seq = 2 LIMIT 1",
        "INSERT INTO memory.links (agent_key, scope_id, seq, to_seq, kind, label)"
        " SELECT agent_key, scope_id, 2, 1, 'entity', '' FROM memory.observations WHERE seq = 2 LIMIT 1",
    ],
    "links_are_charged_in_their_past": [
        "INSERT INTO memory.links (agent_key, scope_id, seq, to_seq, kind, label, confidence, charged_until)"
        " SELECT agent_key, scope_id, 1, 2, 'time', '', 0.9, now() - interval '1 hour' FROM memory.observations"
        " WHERE seq = 2 LIMIT 1",
        "INSERT INTO memory.links (agent_key, scope_id, seq, to_seq, kind, label, charged_until)"
        " SELECT agent_key, scope_id, 1, 2, 'time', '', now() FROM memory.observations WHERE seq = 2 LIMIT 1",
    ],
    "search_vectors_match_texts": [
        "ALTER TABLE memory.observations ALTER search DROP EXPRESSION;"
        "UPDATE memory.observations SET search = 'other' WHERE seq = 2",
        "ALTER TABLE memory.messages ALTER search DROP EXPRESSION;"
        "UPDATE memory.messages SET search = 'other' WHERE conversation_id = 's' AND number = 2",
    ],
    "messages_are_their_conversations_users": [
        "UPDATE memory.messages SET owner = 'u:jonas' WHERE conversation_id = 's' AND number = 2",
    ],
    "who_has_written_takes_part": [
        "UPDATE memory.messages SET user_id = 'ole' WHERE conversation_id = 's' AND number = 1",
        "UPDATE memory.conversations SET participants = ARRAY['ole'] WHERE conversation_id = 's'",
    ],
    "texts_stay_until_formed": [
        "UPDATE memory.messages SET content = NULL, speaker = NULL WHERE conversation_id = 'waiting';"
        "UPDATE memory.conversations SET unformed_messages = 0, unformed_tokens = 0, unformed_since = NULL"
        " WHERE conversation_id = 'waiting'",
        "UPDATE memory.messages SET content = NULL, speaker = 'Mia' WHERE conversation_id = 's' AND number = 2",
        "UPDATE memory.messages SET content = NULL, search_extra = 'tea' WHERE conversation_id = 's' AND number = 2",
        "UPDATE memory.conversations SET text_since = NULL WHERE conversation_id = 's'",
        "UPDATE memory.conversations SET text_since = text_since + interval '1 second' WHERE conversation_id = 's'",
    ],
    "hashes_match_texts": [
        "UPDATE memory.observations SET content_hash = '\\x00' WHERE seq = 2",
        "UPDATE memory.observations SET content_hash = NULL WHERE seq = 2",
    ],
    "numbers_stay_in_bounds": [
        "UPDATE memory.scopes SET last_seq = last_seq - 1 WHERE scope_id = {due}",
        "UPDATE memory.scopes SET held_seq = last_seq + 1 WHERE scope_id = {quiet}",
    ],
    "observations_stand_in_one_place": [
        "UPDATE memory.observation_states SET repend = true WHERE (agent_key, scope_id, seq) IN {extras}",
    ],
    "expired_observations_have_their_event": [
        "INSERT INTO memory.observation_states (agent_key, scope_id, seq, status, resolved, resolved_at)"
        " SELECT agent_key, {own}, 1, 'archived', 'expired', created_at {agent}",
        "INSERT INTO memory.observation_states (agent_key, scope_id, seq, status, expires_at)"
        " SELECT agent_key, {own}, 1, 'evicted', created_at {agent}",
    ],
    "resolved_observations_are_out_of_use": [
        "INSERT INTO memory.observation_states (agent_key, scope_id, seq, resolved, resolved_at)"
        " SELECT agent_key, {own}, 1, 'expired', created_at {agent}",
        "ALTER TABLE memory.observation_states DROP CONSTRAINT observation_states_resolved_at_check;"
        " INSERT INTO memory.observation_states (agent_key, scope_id, seq, status, resolved)"
        " SELECT agent_key, {own}, 1, 'evicted', 'expired' {agent}",
    ],
    "nothing_protected_was_expired": [
        "INSERT INTO memory.observation_states (agent_key, scope_id, seq, status, status_at, policy)"
        " SELECT agent_key, {own}, 1, 'evicted', created_at, 'protected' {agent};"
        " INSERT INTO memory.events (agent_key, kind, scope_id, seq, detail, created_at)"
        " SELECT agent_key, 'status', {own}, 1, '{evicted}', created_at {agent}",
    ],
    "nothing_protected_is_cold": [
        "INSERT INTO memory.observation_states (agent_key, scope_id, seq, status_at, policy)"
        " SELECT agent_key, {own}, 1, created_at, 'protected' {agent};"
        " UPDATE memory.observations SET cold = true WHERE scope_id = {own} AND seq = 1",
    ],
    "superseded_lead_to_what_stands": [
        "UPDATE memory.observation_states SET status = 'active' WHERE superseded_by IS NOT NULL",
        "INSERT INTO memory.observation_states (agent_key, scope_id, seq, status)"
        " SELECT agent_key, scope_id, superseded_by, 'archived'"
        " FROM memory.observation_states WHERE superseded_by IS NOT NULL",
        "UPDATE memory.observation_states SET superseded_by = seq WHERE superseded_by IS NOT NULL",
        "UPDATE memory.observation_states SET status = 'superseded', superseded_by = 999"
        " WHERE (agent_key, scope_id, seq) IN {extras}",
        "UPDATE memory.observation_states SET status = 'superseded', superseded_by = seq"
        " WHERE (agent_key, scope_id, seq) IN {extras}",
    ],
    "parts_follow_what_they_are_part_of": [
        "UPDATE memory.observations SET part_of = 1 WHERE seq = 2 AND scope_id = {due}",
    ],
    "what_is_set_aside_is_in_no_text": [
        "UPDATE memory.observation_states SET status = 'quarantined' WHERE (agent_key, scope_id, seq) IN {extras}",
        "UPDATE memory.observation_states SET status = 'given_up' WHERE (agent_key, scope_id, seq) IN {extras}",
        "ALTER TABLE memory.observation_states DROP CONSTRAINT observation_states_withdrawn_by_check;"
        "UPDATE memory.observation_states SET status = 'withdrawn' WHERE (agent_key, scope_id, seq) IN {extras}",
    ],
    "withdrawn_waits_for_a_hold": [
        "UPDATE memory.messages SET withdrawn_by = {forgetting} WHERE conversation_id = 's' AND number = 2",
        "{hold} 'conversation', 's' {agent};"
        "UPDATE memory.messages SET withdrawn_by = {forgetting} WHERE conversation_id = 's' AND number = 2",
        "{forgotten};UPDATE memory.evidence SET withdrawn_by = {forgetting} WHERE conversation_id = 's' AND number = 2",
        "{forgotten};INSERT INTO memory.user_aliases (agent_key, user_id, into_user_id, ended_at, withdrawn_by)"
        " SELECT agent_key, 'visitor', 'mia', now(), {forgetting} {agent}",
        "{forgotten};{hold} 'user', 'jonas' {agent};"
        "INSERT INTO memory.observation_states (agent_key, scope_id, seq, status, withdrawn_by)"
        " SELECT agent_key, {due}, last_seq, 'withdrawn', {forgetting} FROM memory.scopes WHERE scope_id = {due}",
    ],
    "what_is_made_follows_its_sources": [
        "INSERT INTO memory.lineage (agent_key, scope_id, seq, source_scope_id, source_seq)"
        " SELECT x.agent_key, x.scope_id, x.seq, t.scope_id, t.seq FROM ({dock}) x, memory.observation_states t"
        " WHERE t.status = 'quarantined' AND t.scope_id = (SELECT scope_id FROM memory.scopes WHERE owner = 'g:east')",
        "{set_aside} SELECT DISTINCT agent_key, source_scope_id, source_seq, 'superseded', false {made_of_own} {anew}",
        "{set_aside} SELECT DISTINCT agent_key, scope_id, seq, 'quarantined', true {made_of_own} {anew}",
    ],
    "nothing_protected_was_archived_by_a_rule": [
        "INSERT INTO memory.events (agent_key, kind, scope_id, seq, detail)"
        """ SELECT agent_key, 'policy', 1, 1, '{{"from": "durable", "to": "protected"}}' {agent};"""
        "INSERT INTO memory.events (agent_key, kind, scope_id, seq, detail)"
        """ SELECT agent_key, 'status', 1, 1, '{{"from": "active", "to": "archived", "why": "age"}}' {agent}""",
    ],
    "nothing_private_has_spread": [
        "{spread};UPDATE memory.observations SET no_propagate = true WHERE scope_id = {due} AND seq = 1",
        "{spread};UPDATE memory.observations SET confidential = true WHERE scope_id = {due} AND seq = 1",
        "{spread};UPDATE memory.observations SET sensitivity = 'sensitive' WHERE scope_id = {due} AND seq = 1",
        "UPDATE memory.observations SET categories = '{{health}}' WHERE scope_id = {own}",
        "UPDATE memory.observations SET categories = NULL WHERE scope_id = {own}",
    ],
    "what_is_made_lies_one_level_up": [
        "INSERT INTO memory.lineage (agent_key, scope_id, seq, source_scope_id, source_seq)"
        " SELECT agent_key, scope_id, seq, {own}, 1 FROM ({dock}) x",
        "INSERT INTO memory.lineage (agent_key, scope_id, seq, source_scope_id, source_seq)"
        " SELECT agent_key, {due}, 1, scope_id, seq FROM memory.observations WHERE scope_id = {west}",
    ],
    "what_was_propagated_has_sources": [
        "DELETE FROM memory.lineage WHERE source_scope_id = {own}",
        "UPDATE memory.observations SET source_kind = 'import' WHERE scope_id = {own}",
        "UPDATE memory.judged SET seq = 999 WHERE outcome = 'propagated' AND source_scope_id = {own}",
    ],
    "enough_stand_behind_the_collective": [
        "UPDATE memory.evidence SET user_id = 'ida' WHERE scope_id = {west}",
        "DELETE FROM memory.lineage WHERE source_scope_id = {west}",
    ],
    "new_texts_are_due_to_be_propagated": [
        "UPDATE memory.scopes SET propagated_version = 0, propagate_at = NULL WHERE scope_id = {own}",
    ],
    "versions_absorbed_what_they_recorded": [
        "UPDATE memory.runs SET observations = observations - 1 WHERE run_id = {text}",
        "INSERT INTO memory.observation_states (agent_key, scope_id, seq, status, repend)"
        " SELECT agent_key, scope_id, 1, 'archived', true FROM memory.consolidations c"
        " WHERE live AND from_seq = 0 AND to_seq > 0 AND NOT EXISTS ("
        "SELECT FROM memory.observation_states t WHERE t.scope_id = c.scope_id AND t.seq = 1)",
    ],
    "live_versions_follow_one_another": [
        "UPDATE memory.consolidations SET from_seq = from_seq + 1, to_seq = to_seq + 1"
        " WHERE live AND to_seq = from_seq AND run_id IS NULL",
        "UPDATE memory.scopes SET done_seq = last_seq, consolidate = false, due_at = NULL WHERE scope_id = {due};"
        "INSERT INTO memory.observation_states (agent_key, scope_id, seq, repend)"
        " SELECT agent_key, scope_id, seq, true FROM memory.observations WHERE scope_id = {due}",
    ],
    "texts_are_those_of_the_newest_live_version": [
        "UPDATE memory.scopes SET version = version + 1 WHERE owner = 'u:mia'",
    ],
    "versions_only_rise": [
        "ALTER TABLE memory.consolidations DROP CONSTRAINT consolidations_base_check;"
        "UPDATE memory.consolidations SET base = version WHERE version = 2",
        "INSERT INTO memory.consolidations"
        " (agent_key, scope_id, version, base, from_seq, to_seq, live, live_until, content, words, reason)"
        " SELECT agent_key, scope_id, version + 1, 0, 0, 0, false, now(), 'x', 1, 'import'"
        " FROM memory.scopes WHERE owner = 'u:mia'",
    ],
    "versions_come_from_their_run": [
        "UPDATE memory.runs SET to_seq = to_seq + 1 WHERE run_id = {text}",
        "UPDATE memory.consolidations SET run_id = {text} WHERE NOT live AND version = 2",
    ],
    "buffers_keep_to_their_length": [
        "UPDATE memory.scopes SET lanes = 'both', buffer_max = 0 WHERE scope_id = {due};"
        "UPDATE memory.observations SET lane = 'buffer' WHERE scope_id = {due} AND seq = 1",
    ],
    "passed_over_lie_behind": [
        "INSERT INTO memory.observation_states (agent_key, scope_id, seq, repend)"
        " SELECT agent_key, scope_id, last_seq, true FROM memory.scopes WHERE scope_id = {due}",
    ],
    "waiting_scopes_are_due": [
        "UPDATE memory.scopes SET due_at = NULL WHERE scope_id = {due}",
        "UPDATE memory.scopes SET consolidation_threshold = 1 WHERE scope_id = {quiet}",
    ],
    "due_scopes_have_work": [
        "UPDATE memory.scopes SET due_at = now() WHERE scope_id = {quiet}",
        "UPDATE memory.scopes SET consolidation_threshold = 50 WHERE scope_id = {due}",
        "UPDATE memory.scopes SET is_active = false WHERE scope_id = {due}",
        "UPDATE memory.scopes SET consolidate = false WHERE scope_id = {due}",
    ],
    "given_up_work_is_known_as_such": [
        "UPDATE memory.conversations SET dead_run_id = NULL, due_at = now(), due_reason = 'retry'"
        " WHERE conversation_id = 'dead'",
        "UPDATE memory.conversations SET dead_run_id = {empty_run} WHERE conversation_id = 's'",
        "UPDATE memory.runs SET to_seq = to_seq + 1 WHERE state = 'dead' AND scope_id IS NOT NULL",
    ],
    "contradictions_lie_in_what_was_read": [
        'UPDATE memory.consolidations SET contradictions = \'[{{"newer": 9, "older": 1}}]\' WHERE live AND to_seq = 3'
        " AND contradictions <> '[]'",
        'UPDATE memory.consolidations SET contradictions = \'[{{"newer": 2, "older": 2}}]\' WHERE live AND to_seq = 3'
        " AND contradictions <> '[]'",
        'UPDATE memory.consolidations SET repetitions = \'[{{"newer": 2, "older": 9}}]\' WHERE live AND to_seq = 3'
        " AND contradictions <> '[]'",
    ],
    "repeated_evidence_has_its_observation": [
        "UPDATE memory.evidence SET repeated_seq = seq WHERE seq = 1",
        "UPDATE memory.evidence SET repeated_seq = 99999 WHERE seq = 1",
    ],
    "evidence_was_found_by_a_run": ["UPDATE memory.evidence SET run_id = -1 WHERE seq = 1"],
    "what_was_imported_is_there": [
        "INSERT INTO memory.imported SELECT agent_key, -1, 'memory_user:1', 1, NULL, 'a', 'b', 'c' FROM memory.agents",
        "INSERT INTO memory.imported SELECT agent_key, scope_id, 'memory_user:1', 1, 99999, 'a', 'b', 'c'"
        " FROM memory.scopes WHERE scope_id = {due}",
    ],
    "targets_have_one_run": [
        "INSERT INTO memory.runs (agent_key, kind, conversation_id, from_number, to_number, fence, state)"
        " SELECT agent_key, kind, conversation_id, from_number, to_number, 1, 'running'"
        " FROM memory.runs WHERE state = 'answered'",
        "UPDATE memory.runs SET fence = fence + 1 WHERE state = 'answered'",
    ],
    "leases_end_soon": [
        "UPDATE memory.conversations SET lease_until = now() + interval '25 hours' WHERE conversation_id = 's'",
        "UPDATE memory.scopes SET lease_until = now() WHERE scope_id = {due}",
    ],
    "answers_wait_to_be_applied": [
        "UPDATE memory.runs SET answer = 'kept' WHERE run_id = {empty_run}",
        "UPDATE memory.runs SET answer = NULL WHERE state = 'answered'",
        "UPDATE memory.runs SET from_number = from_number - 1 WHERE state = 'answered'",
    ],
    "runs_say_how_they_ended": [
        "ALTER TABLE memory.runs DROP CONSTRAINT runs_finished_at_check;"
        "UPDATE memory.runs SET finished_at = NULL WHERE run_id = {empty_run}",
        "ALTER TABLE memory.runs DROP CONSTRAINT runs_error_code_check;"
        "UPDATE memory.runs SET error_code = 'x' WHERE run_id = {empty_run}",
        "UPDATE memory.runs SET observations = NULL WHERE run_id = {empty_run}",
        "UPDATE memory.runs SET state = 'succeeded' WHERE run_id = {empty_run}",
        "UPDATE memory.runs SET duplicates = 1 WHERE run_id = {empty_run}",
    ],
    "memberships_do_not_overlap": [
        "INSERT INTO memory.members (agent_key, scope_id, user_id, joined_at, left_at)"
        " SELECT agent_key, scope_id, user_id, joined_at - interval '2 hours', joined_at + interval '1 hour'"
        " FROM memory.members WHERE user_id = 'mia'",
        "INSERT INTO memory.members (agent_key, scope_id, user_id)"
        " SELECT agent_key, scope_id, 'mia' FROM memory.scopes WHERE scope_id = {due}",
    ],
    "users_stand_for_others_in_no_circle": [
        "INSERT INTO memory.user_aliases (agent_key, user_id, into_user_id) SELECT agent_key, k.a, k.b FROM memory.agents"
        " CROSS JOIN (VALUES ('mia', 'anon'), ('anon', 'tablet'), ('tablet', 'mia')) k (a, b) WHERE agent_id = 'ada'",
    ],
    "owners_fit_the_kind_of_scope": [
        "ALTER TABLE memory.scopes DROP CONSTRAINT scopes_owner_check;"
        "UPDATE memory.scopes SET owner = 'g:jonas' WHERE owner = 'u:jonas'",
    ],
    "nothing_was_recorded_in_the_future": [
        "UPDATE memory.agents SET created_at = {later}",
        "UPDATE memory.scopes SET last_activity_at = {later}",
        "UPDATE memory.members SET joined_at = {later}",
        "UPDATE memory.conversations SET last_activity_at = {later}",
        "UPDATE memory.runs SET started_at = {later}",
        "UPDATE memory.consolidations SET created_at = {later}",
        "UPDATE memory.observation_states SET status_at = {later}",
        "UPDATE memory.messages SET created_at = {later} WHERE conversation_id = 's'",
        "UPDATE memory.observations SET created_at = {later}",
        "UPDATE memory.evidence SET created_at = {later}",
        "UPDATE memory.runs SET finished_at = started_at - interval '1 hour' WHERE run_id = {empty_run}",
    ],
    "indexes_are_valid": [
        "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'memory.evidence_seq_idx'::regclass"
    ],
    "keys_are_enforced": [
        "ALTER TABLE memory.messages DROP CONSTRAINT messages_agent_key_message_id_conversation_id_key",
        "ALTER TABLE memory.observation_states DROP CONSTRAINT observation_states_pkey",
        "DROP INDEX memory.consolidations_from_seq_key;"
        "CREATE INDEX consolidations_from_seq_key ON memory.consolidations (agent_key, scope_id, from_seq)",
    ],
    "constraints_are_validated": [
        "ALTER TABLE memory.messages ADD CONSTRAINT messages_short_check CHECK (length(content) < 10) NOT VALID"
    ],
    "triggers_are_enabled": [
        "ALTER TABLE memory.observations DISABLE TRIGGER observations_never_change",
        "DROP TRIGGER observations_guard_privacy ON memory.observations",
        "DROP TRIGGER consolidations_never_change ON memory.consolidations",
        "ALTER TABLE memory.evidence DISABLE TRIGGER ALL",
    ],
    "what_was_formed_for_others_may_be_theirs": [
        FORMED_FOR_OTHERS.format(change="categories = ARRAY['health'], subjects = ARRAY['mia']"),
        FORMED_FOR_OTHERS.format(change="categories = ARRAY['credential']"),
        FORMED_FOR_OTHERS.format(change="confidential = true"),
        FORMED_FOR_OTHERS.format(change="proposed = 'collective'"),
        FORMED_FOR_OTHERS.format(change="related_users = ARRAY['nobody']"),
    ],
    "speakers_have_spoken": ["UPDATE memory.scopes SET speakers = ARRAY['nobody'] WHERE owner = 'u:mia' AND name = ''"],
    "walls_stand": [
        "ALTER TABLE memory.evidence DISABLE ROW LEVEL SECURITY",
        "ALTER TABLE memory.evidence FORCE ROW LEVEL SECURITY",
        "DROP POLICY service ON memory.holds",
        "CREATE POLICY everybody ON memory.messages USING (true)",
        "ALTER VIEW memory.v_pending RESET (security_invoker)",
    ],
    "nobody_who_logs_in_deletes": [
        ";".join(f"ALTER TABLE {table} FORCE ROW LEVEL SECURITY" for table in Base.metadata.tables)
        + ";CREATE ROLE memory_sql_intruder LOGIN;GRANT DELETE ON memory.messages TO memory_sql_intruder"
    ],
    "definer_functions_are_closed": [
        "ALTER FUNCTION memory.my_scopes() RESET search_path",
        "ALTER FUNCTION memory.add_messages SECURITY DEFINER;REVOKE EXECUTE ON FUNCTION memory.add_messages FROM PUBLIC",
        "GRANT EXECUTE ON FUNCTION memory.search TO PUBLIC",
    ],
    "the_key_is_the_owners": [
        "CREATE ROLE memory_sql_curious;GRANT SELECT (key) ON memory.installation TO memory_sql_curious",
        "CREATE ROLE memory_sql_curious;GRANT EXECUTE ON FUNCTION memory.keyed_hashes TO memory_sql_curious",
    ],
    "no_prepared_transaction_waits": [
        "CREATE VIEW before.pg_prepared_xacts AS SELECT 'forgotten' AS gid, now() - interval '11 minutes' AS prepared,"
        " current_database() AS database"
    ],
    "no_transaction_idles": [
        "CREATE VIEW before.pg_stat_activity AS SELECT 7 AS pid, current_database() AS datname,"
        " 'memory_sql' AS application_name, 'idle in transaction' AS state, now() - interval '11 seconds' AS state_change"
    ],
    "text_is_sorted_as_it_was_indexed": [
        "UPDATE pg_database SET datcollversion = '1' WHERE datname = current_database();"
        "CREATE FUNCTION before.pg_database_collation_actual_version(oid) RETURNS text LANGUAGE sql AS $$ SELECT '2' $$"
    ],
}


def test_every_invariant_has_a_violation_planted() -> None:
    assert set(PLANTED) == {*verify.invariants(), verify.HASHES}
    assert len(PLANTED) >= 30


@pytest.fixture(scope="module")
async def lived(server_url: str, template: str) -> AsyncIterator[Memory]:
    """After a busy life; whoever changes anything takes that back."""
    name = f"memory_sql_verify_{os.getpid()}"
    url = named(server_url, name)
    await administer(server_url, f"CREATE DATABASE {name} TEMPLATE {template}")
    try:
        life = Life(url)
        async with life.memory as memory:
            async for _ in life.chapters():
                pass
            await rows(memory, "CREATE SCHEMA before")  # what is made in it hides what the catalogue has
        async with Memory(url, Obliging(), SETTINGS) as memory:
            yield memory
    finally:
        await administer(server_url, f"DROP DATABASE {name}")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("invariant", "planted"),
    [
        pytest.param(name, planted, id=f"{name}-{n}")
        for name, several in PLANTED.items()
        for n, planted in enumerate(several, 1)
    ],
)
async def test_violation_is_found_and_named(lived: Memory, invariant: str, planted: str) -> None:
    async with AsyncSession(lived.database.engine) as unit:
        await unit.execute(text("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ"))
        await unit.execute(text("SET LOCAL session_replication_role = replica"))  # no trigger, no foreign key
        await unit.execute(text("SET LOCAL search_path = before, pg_catalog"))
        for statement in planted.split(";"):
            changed = await unit.execute(text(statement.format_map(KEYS)))
            assert isinstance(changed, CursorResult)
            assert changed.rowcount != 0
        if invariant != "standings_are_the_statuses":
            await unit.execute(text(STANDING))  # as the triggers would
        found = [violation async for violation in verify.violations(unit, measures_of(lived))]
    assert {violation.invariant for violation in found} == {invariant}
    assert all(violation.key and violation.detail for violation in found)


def measures_of(memory: Memory) -> verify.Measures:
    """As `Memory.verify` has them."""
    return verify.Measures(memory.now(), SETTINGS.consolidation_threshold, 4)


@pytest.mark.parametrize(("patient", "eager"), [(5, 2), (2, 5)], ids=["waits longer", "waits less"])
async def test_settings_of_another_process_violate_nothing(database_url: str, patient: int, eager: int) -> None:
    """What one process left waiting, or made due, by its own settings is judged by these."""

    def opened(pending: int, **more: Any) -> Memory:
        own = {"consolidation_threshold": pending, "formation_min_messages": pending, **more}
        return Memory(database_url, Obliging(), SETTINGS.model_copy(update=own))

    async with opened(patient, lease_seconds=7200.0) as one, opened(eager, lease_seconds=1.0) as other:
        for n in range(3):
            await one.observe(f"Mia has {n} boats.", **MIA)
            await one.add([message(f"I have {n} boats.", n=n)], **MIA, conversation_id="c")
        leased = await one.work.claim("formation", by=one.now() + timedelta(hours=1))  # for two hours
        assert (leased is not None) == (patient < 3)
        for memory in (one, other):
            assert await memory.admin.verify() == []
        await other.observe("Mia has a cat.", **MIA)
        await other.observe("Mia has a dog.", **MIA)
        for memory in (one, other):
            assert await memory.admin.verify() == []


async def test_scope_that_another_process_keeps_due_is_judged_by_that_one(database_url: str) -> None:
    async with (
        Memory(database_url, Obliging(), SETTINGS.model_copy(update={"consolidation_threshold": 3})) as one,
        Memory(database_url, Obliging(), SETTINGS.model_copy(update={"consolidation_threshold": 1})) as other,
    ):
        first, *_ = [await one.observe(f"Mia has {n} boats.", **MIA) for n in range(3)]
        assert (await one.work.backlog()).due_scopes == 1
        await other.observations.quarantine(first.id, **MIA)
        assert (await one.work.backlog()).due_scopes == 1  # by the other's settings
        assert await one.admin.verify() == await other.admin.verify() == []


@pytest.mark.slow
async def test_violation_says_whose_it_is_and_no_text(database_url: str) -> None:
    async with Memory(database_url, Obliging(), SETTINGS) as memory:
        observation = await memory.observe("Mia is allergic to nuts.", **MIA)
        await rows(memory, "UPDATE memory.scopes SET last_seq = 0")
        await rows(memory, "ALTER TABLE memory.observations DISABLE TRIGGER observations_never_change")
        found = await memory.admin.verify()
    assert [(v.invariant, v.agent_id, v.key) for v in found] == [
        ("numbers_stay_in_bounds", "ada", f"scope {observation.scope.key}"),
        ("triggers_are_enabled", None, "trigger observations_never_change of observations"),
    ]
    assert found[0].detail == "last_seq 0, newest observation 1, done_seq 0, held_seq 0"


@pytest.mark.slow
async def test_many_violations_of_one_kind_are_cut(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verify, "MOST", 3)
    monkeypatch.setattr(verify, "BATCH", 2)
    async with Memory(database_url, Obliging(), SETTINGS) as memory:
        for n in range(10):
            await memory.observe(f"fact {n}", **MIA)
        await rows(memory, "ALTER TABLE memory.observations DISABLE TRIGGER observations_never_change")
        await rows(memory, "UPDATE memory.observations SET content_hash = NULL")
        await rows(memory, "DELETE FROM memory.evidence")
        found = Counter(violation.invariant for violation in await memory.admin.verify())
    assert found == {"observations_have_evidence": 3, "hashes_match_texts": 3, "triggers_are_enabled": 1}


@pytest.mark.slow
async def test_hashes_are_sampled_others_each_day_or_all_computed_again(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verify, "SAMPLE", 3)
    now = datetime(2026, 3, 2, tzinfo=UTC)
    async with Memory(database_url, Obliging(), SETTINGS, clock=lambda: now) as memory:
        for n in range(12):
            await memory.observe(f"fact {n}", **MIA)
        await rows(memory, "ALTER TABLE memory.observations DISABLE TRIGGER observations_never_change")
        await rows(memory, "UPDATE memory.observations SET content_hash = NULL")
        await rows(memory, "ALTER TABLE memory.observations ENABLE TRIGGER observations_never_change")
        await rows(memory, "ANALYZE memory.observations")
        days = []
        for _ in range(4):
            days.append({violation.key for violation in await memory.admin.verify()})
            now += timedelta(days=1)
        assert [len(day) for day in days] == [3, 3, 3, 3]
        assert {violation.key for violation in await memory.admin.verify(hashes=True)} == set.union(*days)
    assert len(set.union(*days)) == 12


@pytest.mark.slow
async def test_hash_of_another_normal_form_is_not_judged(database_url: str) -> None:
    async with Memory(database_url, Obliging(), SETTINGS) as memory:
        await memory.observe("fact", **MIA)
        await rows(memory, "ALTER TABLE memory.observations DISABLE TRIGGER USER")
        await rows(memory, "UPDATE memory.observations SET content_hash = NULL, hash_version = hash_version + 1")
        await rows(memory, "ALTER TABLE memory.observations ENABLE TRIGGER USER")
        assert list(await memory.admin.verify()) == []


@pytest.mark.slow
async def test_open_transaction_that_does_nothing_is_found(database_url: str) -> None:
    async with Memory(database_url, Obliging(), SETTINGS) as memory, memory.database.transaction() as idle:
        (pid,) = (await idle.execute(text("SELECT pg_backend_pid()"))).one()
        assert list(await memory.admin.verify()) == []
        async with memory.database.transaction() as unit:
            strict = replace(measures_of(memory), idle_max=timedelta(0))
            found = [violation async for violation in verify.violations(unit, strict)]
    assert [(violation.invariant, violation.key) for violation in found] == [("no_transaction_idles", f"process {pid}")]


@pytest.mark.slow
async def test_nothing_to_say_while_others_write_and_work(database_url: str) -> None:
    """At any moment, also between any two commits of others."""
    async with Memory(database_url, Obliging(), SETTINGS) as memory:

        async def talk(user: str) -> None:
            who: dict[str, Any] = {"agent_id": "ada", "user_id": user}
            for n in range(12):
                await memory.add(conversation(4, first=4 * n + 1), **who, conversation_id=user, group_ids=["harbor"])
                await memory.observe(f"{user} {n}", **who)

        async def work() -> None:
            told = False
            while not told:
                told = talking.done()
                await memory.run_due()
                await asyncio.sleep(0.01)

        talking = asyncio.gather(*map(talk, ("mia", "jonas", "elin")))
        working = asyncio.gather(work(), work())
        while not working.done():
            assert list(await memory.admin.verify()) == []
        await asyncio.gather(talking, working)
        assert await rows(memory, "SELECT count(DISTINCT scope_id) >= 3 FROM memory.consolidations") == [(True,)]


@pytest.mark.open
async def test_cost_is_one_statement_for_each_invariant_and_two_for_hashes(database_url: str) -> None:
    async with Memory(database_url, Obliging(), SETTINGS) as memory:
        for n in range(20):
            await memory.observe(f"fact {n}", **MIA)
        with statements(memory) as seen:
            await memory.admin.verify()
    assert len(seen) == 1 + len(verify.invariants()) + 2  # the texts, and the hashes of a batch
    assert seen[0] == "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY"


@pytest.mark.slow
def test_files_begin_with_what_must_hold() -> None:
    for name in verify.invariants():
        sql = (files("memory_sql.db") / "sql" / "invariants" / f"{name}.sql").read_text("utf-8")
        assert sql.startswith("-- ")
        assert not sql.rstrip().endswith(";")
        assert max(len(line) for line in sql.splitlines() if not line.startswith("--")) <= 120
