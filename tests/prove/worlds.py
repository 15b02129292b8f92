"""Small worlds, each ended in several orders, of which none may decide what is left.

A world is a few people, one of them with a second id, two groups, what they say, texts, repetitions, contradictions,
propagated claims and, in some, imports of a legacy memory. Its ending is a set of forgettings, merges and their ends,
leavings, renames, releases of holds, and another import or a rollback. The world is made once and copied, an agent for each
order; one order is run in one transaction of the host, unless it imports. After each step the invariants hold, and at the
end what is in use is the same in all copies, with the model away, after everything has been imported once more, and after
the model has written the texts anew.
"""

from __future__ import annotations

import itertools
import json
import random
import tempfile
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

from bson import ObjectId
from pydantic import BaseModel
from sqlalchemy import text

from memory_sql.config import Settings
from memory_sql.consolidation.replacing import says_the_same
from memory_sql.consolidation.task import ConsolidationTask
from memory_sql.db import Session
from memory_sql.domain.selection import Selection
from memory_sql.errors import InputError, NotFoundError, VersionError
from memory_sql.formation.task import ExtractionTask
from memory_sql.importers.mongo.options import ImportOptions
from memory_sql.llm import Answer, Request, Usage
from memory_sql.llm.answers import read
from memory_sql.memory import Memory
from memory_sql.propagation.task import PropagationTask
from memory_sql.resources.imports import taken_out
from memory_sql.resources.runtime import asked_of
from tests.database import rows, serving
from tests.fakes import by_scope, promoted
from tests.legacy.formats import dump
from tests.legacy.homes import Home, at, key

T = TypeVar("T", bound=BaseModel | str)

PEOPLE = ("ann", "ben", "cid", "dot")
VISITOR = "visitor"  # may stand for one of them
IDS = (*PEOPLE, VISITOR)
KEY = b"k" * 32
GROUPS = ("crew", "yard")
MEMBERS = {"crew": ("ann", "ben", "dot"), "yard": ("ben", "cid", "dot")}
NOUNS, VALUES = ("printer", "freezer"), ("grey", "blue")
WORDINGS = ("The {0} in the hall is {1}.", "{2} in the hall is {1}.")  # the second says the same, and nothing more
SETTINGS = Settings(
    llm="offline",
    episodes=True,
    formation_min_messages=1,
    consolidation_threshold=2,
    consolidation_min_ratio=0.0,
    propagation_new_user_days=0.0,
    shared_conversations=True,
    pool_size=2,
)

OTHERS = {"merge": 1, "confirm": 1, "hold": 2, "leave": 1, "undo": 1, "quarantine": 1}  # by weight

Step = tuple[Any, ...]
Legacy = tuple[str, tuple[str, str, int], bool]
"""Who has said what, and whether the agent keeps it for everybody."""


def id_of(person: str) -> str:
    """As the legacy system gave it."""
    return str(key("world", person)) if person in IDS else person


def fact(noun: str, value: str, wording: int) -> str:
    return WORDINGS[wording].format(noun, value, noun.title())


class Teller:
    """Remembers each sentence, finds what is repeated and what is contradicted, and would share everything."""

    def __init__(self) -> None:
        self.is_away = False

    async def generate(self, request: Request[T]) -> Answer[T]:
        if self.is_away:
            raise ConnectionError("the model is away")
        task = request.material
        if isinstance(task, ExtractionTask):
            raw = self._extract(task)
        elif isinstance(task, PropagationTask):
            raw = promoted(task)
        else:
            assert isinstance(task, ConsolidationTask)
            raw = self._tell(task)
        return Answer(read(raw, request.output), raw, Usage("teller", 1, 1))

    def _extract(self, task: ExtractionTask) -> str:
        """Into the group's list where the turn is for it, else into the speaker's own."""
        offered = {scope.alias: scope.kind for scope in task.scopes}
        groups = [alias for alias, kind in offered.items() if kind == "group"]
        items = []
        for turn in task.turns:
            own = "individual" if "individual" in offered else f"individual_{turn.person}"
            is_own = turn.text.startswith("For me: ")
            place = own if is_own or not groups else groups[0]
            items.append((turn.text.removeprefix("For me: "), place, [turn.n]))
        return by_scope(offered, *items)

    def _tell(self, task: ConsolidationTask) -> str:
        shown = [(f"k{item.n}", item.text) for item in task.known]
        repeated, contradicted = list[dict[str, Any]](), list[dict[str, Any]]()
        for item in task.observations:
            name = f"n{item.n}"
            about = [(other, said) for other, said in shown if _noun(said) == _noun(item.text)]
            same = next((other for other, said in about if says_the_same(item.text, said)), None)
            if same is not None:
                repeated.append({"n": name, "same_as": same})
            else:
                contradicted += [
                    {"newer": name, "older": other, "was": said.rstrip("."), "now": item.text}
                    for other, said in about
                    if _value(said) != _value(item.text)
                ]
            shown.append((name, item.text))
        words = " ".join(filter(None, [task.current, *(item.text for item in task.observations)]))
        return json.dumps({"text": words, "contradictions": contradicted, "same_as": repeated})


def _noun(said: str) -> str:
    return next((noun for noun in NOUNS if noun in said.casefold()), said)


def _value(said: str) -> str:
    return said.rstrip(".").split()[-1]


@dataclass(frozen=True)
class Plan:
    """`legacy`: what there is to be imported."""

    steps: tuple[Step, ...]
    ending: tuple[Step, ...]
    legacy: tuple[Legacy, ...] = ()


def plan_of(seed: int) -> Plan:
    """A random one, in which much is said and little done with it."""
    chance = random.Random(seed)

    theme = (chance.choice(NOUNS), chance.choice(VALUES))
    has_legacy = chance.random() < 0.4

    def pick(*values: Any) -> Any:
        return chance.choice(values)

    def any_fact() -> tuple[str, str, int]:
        noun, value = theme if chance.random() < 0.6 else (pick(*NOUNS), pick(*VALUES))
        return noun, value, pick(0, 1)

    def place() -> str:
        return str(pick("own", "crew", "crew", "yard", "crew's"))

    makes: dict[str, Callable[[], Step]] = {
        "say": lambda: (pick(*IDS), place(), any_fact()),
        "state": lambda: (pick(*IDS, None), place(), any_fact(), pick(True, False)),
        "tell": tuple,
        "spread": tuple,
        "merge": lambda: (pick(*PEOPLE),),
        "confirm": lambda: (chance.randrange(8), pick(*IDS)),
        "hold": lambda: (pick("user", "conversation", "group", "observation"), chance.randrange(8)),
        "leave": lambda: (pick(*IDS), pick(*GROUPS)),
        "undo": lambda: (chance.randrange(8),),
        "quarantine": lambda: (chance.randrange(8),),
        "bring": lambda: (chance.randrange(1, 8), pick(True, False)),
    }
    legacy = tuple((pick(*PEOPLE), any_fact(), pick(True, False, False)) for _ in range(3)) if has_legacy else ()
    ends: tuple[Callable[[], Step], ...] = (
        lambda: ("forget", "user", pick(*IDS)),
        lambda: ("forget", "conversation", chance.randrange(8)),
        lambda: ("forget", "message", chance.randrange(8)),
        lambda: ("forget", "group", pick(*GROUPS)),
        lambda: ("forget", "observation", chance.randrange(8)),
        lambda: ("forget", "tag", "tagged"),
        lambda: ("release",),
        lambda: ("unmerge",),
        lambda: ("leave", pick(*IDS), pick(*GROUPS)),
        lambda: ("merge", pick(*PEOPLE)),
        lambda: ("rename", pick(*PEOPLE)),
        *([lambda: ("bring", 7, pick(True, False)), lambda: ("rollback",)] if legacy else []),
    )

    def some(least: int, most: int, weights: Mapping[str, int]) -> list[Step]:
        names = chance.choices([*weights], [*weights.values()], k=chance.randint(least, most))
        return [(name, *makes[name]()) for name in names]

    says, more = {"say": 4, "state": 1}, {**OTHERS, "spread": 1, "tell": 1}
    steps = [*some(3, 7, says), *some(0, 1, OTHERS), ("tell",)]
    steps += [*some(0, 1, OTHERS), ("spread",), ("tell",), ("spread",)] if pick(True, False) else []
    steps += [*some(0, 4, {**says, **OTHERS}), ("tell",), *some(0, 3, more)]
    if legacy:
        steps.insert(pick(0, 2, len(steps)), ("bring", *makes["bring"]()))
    ending = dict.fromkeys(pick(*ends)() for _ in range(chance.randint(2, 3)))
    kept = (step for step in ending if _is_the_same_in_any_order(step, [*ending], steps, legacy))
    return Plan(tuple(steps), tuple(kept), legacy)


def said_by(
    whose: Collection[str], steps: Sequence[Step], legacy: Sequence[Legacy]
) -> set[tuple[str, tuple[str, str, int]]]:
    """To which group, and in which words; all, of who has confirmed something."""
    if any(name == "confirm" and given[1] in whose for name, *given in steps):
        return {*itertools.product(GROUPS, itertools.product(NOUNS, VALUES, range(len(WORDINGS))))}
    said = [
        (given[1].removesuffix("'s"), given[2])
        for name, *given in steps
        if name in ("say", "state") and given[0] in whose
    ]
    return {*said, *(("crew", fact) for who, fact, _ in legacy if who in whose)}


def _is_the_same_in_any_order(
    step: Step, ending: Sequence[Step], steps: Sequence[Step], legacy: Sequence[Legacy]
) -> bool:
    """Who is meant by somebody who gets another id or name, or for whom one stands, depends on whether they have it yet.

    Nor does it say anything what an import brings that comes before or after a rollback. What was brought without messages
    stays supported by its users alone, whatever brings the messages later. And whether somebody's word elsewhere is a second
    source for what a conversation said depends on who is one person by then.
    """
    kinds = {name for name, *_ in ending}
    others = [other for other in ending if other != step]
    changed = {who for name, *given in others for who in given if name in ("merge", "rename")}
    if kinds & {"merge", "unmerge"}:
        changed |= {into for name, *given in steps for into in given if name == "merge"} | {VISITOR}
    if step[0] == "merge" and any(name == "merge" for name, *_ in steps):
        return False
    if step[0] == "merge" and {step[1], VISITOR} & {
        _nth(IDS, given[1]) for name, *given in steps if name == "hold" and given[0] == "user"
    }:
        return False  # a hold on the one covers what the other has said as well from then on
    if step[0] in ("merge", "unmerge"):
        return sum(name in ("merge", "unmerge") for name, *_ in ending) == 1 and changed.isdisjoint({*step} - {VISITOR})
    if step[:2] in (("forget", "conversation"), ("forget", "message")) and kinds & {"merge", "unmerge"}:
        whose = {into for name, *given in (*steps, *ending) for into in given if name == "merge"}
        shared = said_by({VISITOR}, steps, legacy) & said_by(whose, steps, legacy)
        return all(place not in GROUPS for place, _ in shared)
    if step[0] == "bring":
        return "rollback" not in kinds and all(other[0] != "bring" or step[2] for other in others)
    return changed.isdisjoint(step)


@dataclass
class Clock:
    now: datetime = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)

    def __call__(self) -> datetime:
        self.now += timedelta(seconds=1)
        return self.now


@dataclass
class Maker:
    """Makes a world in one agent."""

    memory: Memory
    agent: str
    legacy: tuple[Legacy, ...] = ()
    did: Counter[str] = field(default_factory=Counter)
    numbers: Any = field(default_factory=lambda: itertools.count(1))

    async def make(self, steps: Sequence[Step]) -> None:
        for group, users in MEMBERS.items():
            await self.memory.groups.create(group, agent_id=self.agent)
            for user in users:
                await self.memory.groups.add_member(group, id_of(user), agent_id=self.agent)
        for name, *given in steps:
            try:
                await getattr(self, name)(*given)
                self.did[name] += 1
            except (NotFoundError, InputError, VersionError):
                self.did[f"no {name}"] += 1

    async def say(self, user: str, place: str, said: tuple[str, str, int], talk: str | None = None) -> None:
        group = place.removesuffix("'s")
        conversation = talk or (f"{user}-own" if place == "own" else f"{group}-talk")
        words = ("For me: " if place == "own" else "") + fact(*said)
        message = {"id": f"m{next(self.numbers)}", "role": "user", "content": words, "user_id": id_of(user)}
        groups = (place,) if place in GROUPS else ()  # the conversation may be a group's that the call doesn't name
        whose: dict[str, Any] = {"agent_id": self.agent, "conversation_id": conversation}
        await self.memory.add([message], user_id=id_of(user), group_ids=groups, **whose)
        await self.memory.conversations.form(**whose)

    async def state(self, user: str | None, place: str, said: tuple[str, str, int], tagged: bool) -> None:
        if user is None and place not in GROUPS:
            raise InputError("nobody's own")
        group = place if place in GROUPS else None
        tags = ("tagged",) if tagged else ()
        whose = None if user is None else id_of(user)
        await self.memory.observe(fact(*said), agent_id=self.agent, user_id=whose, group_id=group, tags=tags)

    async def tell(self) -> None:
        for scope in await scopes_of(self.memory, self.agent):
            await self.memory.scopes.consolidate(agent_id=self.agent, scope_id=scope)

    async def spread(self) -> None:
        await self.memory.scopes.propagate(agent_id=self.agent)

    async def merge(self, into: str) -> None:
        await self.memory.people.merge(agent_id=self.agent, user_id=id_of(VISITOR), into_user_id=id_of(into))

    async def bring(self, which: int, messages: bool) -> None:
        await imported(self.memory, self.agent, [*enumerate(self.legacy)], which, messages=messages)

    async def confirm(self, n: int, user: str) -> None:
        await self.memory.observations.confirm(await self.observation(n), agent_id=self.agent, user_id=id_of(user))

    async def undo(self, n: int) -> None:
        found = await scopes_of(self.memory, self.agent)
        await self.memory.scopes.undo(agent_id=self.agent, scope_id=found[n % len(found)])

    async def quarantine(self, n: int) -> None:
        await self.memory.observations.quarantine(await self.observation(n), agent_id=self.agent)

    async def hold(self, kind: str, n: int) -> None:
        targets: dict[str, Sequence[str]] = {"user": [id_of(one) for one in IDS], "group": GROUPS}
        if kind == "conversation":
            targets[kind] = await conversations_of(self.memory, self.agent)
        target = await self.observation(n) if kind == "observation" else _nth(targets[kind], n)
        named: dict[str, Any] = {f"{kind}_id": target}
        await self.memory.holds.place(agent_id=self.agent, **named)

    async def leave(self, user: str, group: str) -> None:
        await self.memory.groups.remove_member(group, id_of(user), agent_id=self.agent)

    async def observation(self, n: int) -> str:
        return _nth(await observations_of(self.memory, self.agent), n)


async def imported(
    memory: Memory, agent: str, legacy: Sequence[tuple[int, Legacy]], which: int, *, messages: bool
) -> None:
    """The documents whose bits are set, each of which somebody has said in the session of all."""
    part = [(n, *one) for n, one in legacy if which & 1 << n]
    home = Home(("world",))
    session = home.session_document(
        users=[ObjectId(id_of(one)) for one in PEOPLE], agents=[ObjectId(agent)],
        messages=[home.key("message", n) for n, *_ in part],
        memory_context={"last_memory_message_id": home.key("message", 2), "messages_since_memory_formation": 0},
    )  # fmt: skip
    collections: dict[str, list[Any]] = {
        "users3": [home.agent_document(_id=ObjectId(agent)), *(home.person(ObjectId(id_of(one)), one) for one in PEOPLE)],
        "sessions": [session],
        "memory_agent": [home.shard(agent_id=ObjectId(agent))],
        "memory_sessions": [
            home.record(
                "fact" if is_everybodys else "directive", n, agent_id=ObjectId(agent), content=fact(*said),
                source_message_ids=[home.key("message", n)], related_users=[ObjectId(id_of(user))],
            )
            for n, user, said, is_everybodys in part
        ],
        "messages": [
            home.message(n, sender=ObjectId(id_of(user)), content=fact(*said), createdAt=at(n)) for n, user, said, _ in part
        ],
    }  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        dump(Path(folder), collections.items())
        options = ImportOptions(groups={"crew": tuple(id_of(one) for one in MEMBERS["crew"])}, messages=messages)
        report = await memory.imports.mongo(dump=folder, key=KEY, options=options)
    assert report.unaccounted == ()


def _nth(found: Sequence[str], n: int) -> str:
    if not found:
        raise NotFoundError("anything", str(n))
    return found[n % len(found)]


async def _listed(memory: Memory, select: str, agent: str) -> list[str]:
    sql = f"SELECT {select} JOIN memory.agents a USING (agent_key) WHERE a.agent_id = :agent ORDER BY 1"
    return [row[0] for row in await rows(memory, sql, agent=agent)]


async def scopes_of(memory: Memory, agent: str) -> list[str]:
    return [f"s{key}" for key in await _listed(memory, "t.scope_id FROM memory.scopes t", agent)]


async def conversations_of(memory: Memory, agent: str) -> list[str]:
    return await _listed(memory, "t.conversation_id FROM memory.conversations t", agent)


async def observations_of(memory: Memory, agent: str) -> list[str]:
    return await _listed(memory, "format('o%s-%s', t.scope_id, t.seq) FROM memory.observations t", agent)


async def messages_of(memory: Memory, agent: str) -> list[str]:
    return await _listed(memory, "t.conversation_id || ' ' || t.message_id FROM memory.messages t", agent)


async def named(memory: Memory, agent: str, ending: Sequence[Step]) -> list[Step]:
    """The ending with ids in place of numbers."""
    listing = {"conversation": conversations_of, "observation": observations_of, "message": messages_of}
    found = list[Step]()
    for step in ending:
        if step[0] == "forget" and step[1] in listing:
            there = await listing[step[1]](memory, agent)
            if there:
                found.append((*step[:2], there[step[2] % len(there)]))
        else:
            found.append(step)
    return list(dict.fromkeys(found))


COPY = """
DO $do$
DECLARE v_table record; v_from bigint; v_to bigint;
BEGIN
    SELECT agent_key INTO v_from FROM memory.agents WHERE agent_id = '{old}';
    INSERT INTO memory.agents (agent_id, settings, languages, created_at)
    SELECT '{new}', settings, languages, created_at FROM memory.agents WHERE agent_key = v_from
    RETURNING agent_key INTO v_to;
    FOR v_table IN
        SELECT c.oid, c.relname, string_agg(quote_ident(a.attname), ', ') AS others
        FROM pg_class c
        JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = ''
        WHERE c.relnamespace = 'memory'::regnamespace AND c.relkind = 'r' AND c.relname <> 'agents'
          AND a.attname <> 'agent_key'
          AND EXISTS (SELECT FROM pg_attribute k WHERE k.attrelid = c.oid AND k.attname = 'agent_key')
        GROUP BY c.oid, c.relname
    LOOP
        EXECUTE format(
            'INSERT INTO memory.%1$I (agent_key, %2$s) OVERRIDING SYSTEM VALUE'
            ' SELECT $2, %2$s FROM memory.%1$I WHERE agent_key = $1',
            v_table.relname, v_table.others
        ) USING v_from, v_to;
    END LOOP;
END $do$
"""


async def copied(memory: Memory, old: str, new: str) -> None:
    async with memory.database.engine.begin() as connection:
        await connection.execute(text("SET LOCAL session_replication_role = replica"))
        await connection.execute(text(COPY.format(old=old, new=new).replace(":", r"\:")))


@dataclass(frozen=True)
class Ender:
    """Ends a world, step by step; what isn't there any more was taken by a step before."""

    memory: Memory
    agent: str
    legacy: tuple[Legacy, ...] = ()
    unit: Session | None = None

    async def take(self, step: Step) -> None:
        name, *given = step
        with suppress(NotFoundError):
            await getattr(self, name)(*given)

    async def forget(self, what: str, which: str) -> None:
        if what == "message":
            conversation, message = which.split(" ")
            selection = Selection(conversation_id=conversation, message_id=message)
        else:
            named: dict[str, Any] = {"tag" if what == "tag" else f"{what}_id": id_of(which)}
            selection = Selection(**named)
        given: dict[str, Any] = {"wait": False} if self.unit is None else {"session": self.unit}
        await self.memory.forget(selection, agent_id=self.agent, **given)

    @property
    def _given(self) -> dict[str, Any]:
        return {"agent_id": self.agent} if self.unit is None else {"agent_id": self.agent, "session": self.unit}

    async def unmerge(self) -> None:
        await self.memory.people.unmerge(user_id=id_of(VISITOR), **self._given)

    async def merge(self, into: str) -> None:
        await self.memory.people.merge(user_id=id_of(VISITOR), into_user_id=id_of(into), **self._given)

    async def rename(self, user: str) -> None:
        await self.memory.people.rename(kind="user", old=id_of(user), new=f"{user} anew", **self._given)

    async def leave(self, user: str, group: str) -> None:
        await self.memory.groups.remove_member(group, id_of(user), **self._given)

    async def bring(self, which: int, messages: bool) -> None:
        await imported(self.memory, self.agent, [*enumerate(self.legacy)], which, messages=messages)

    async def rollback(self) -> None:
        """Of all that was imported, in this copy alone."""
        known = await rows(
            self.memory,
            "SELECT a.agent_key, i.import_id FROM memory.agents a JOIN memory.imported i USING (agent_key)"
            " WHERE a.agent_id = :agent UNION SELECT a.agent_key, m.import_id FROM memory.agents a"
            " JOIN memory.imported_messages m USING (agent_key) WHERE a.agent_id = :agent ORDER BY 2",
            agent=self.agent,
        )
        for agent_key, run in known:
            asked = asked_of(self.agent, None, None, self.memory.settings, self.memory.now())
            if self.unit is not None:
                await taken_out(self.unit, asked, agent_key, run)
            else:
                async with serving(self.memory) as unit:
                    await taken_out(unit, asked, agent_key, run)

    async def release(self) -> None:
        for hold in await self.memory.holds.list(agent_id=self.agent):
            if hold.released_at is None:
                await self.memory.holds.release(hold.hold_id, **self._given)


STATE = {
    "observations": """
        SELECT s.owner, s.name, o.content, coalesce(t.status, 'active'), x.content,
               CASE WHEN t.withdrawn_by IS NULL THEN o.speaker || array_to_string(o.related_users, ',') END
        FROM memory.observations o
        JOIN memory.scopes s USING (agent_key, scope_id)
        LEFT JOIN memory.observation_states t USING (agent_key, scope_id, seq)
        LEFT JOIN memory.observations x ON t.status = 'superseded'
            AND (x.agent_key, x.scope_id, x.seq) = (t.agent_key, t.scope_id, t.superseded_by)
        WHERE o.agent_key = :key AND x.content IS DISTINCT FROM o.content  -- which says what that says
    """,
    "evidence": """
        SELECT s.owner, s.name, o.content, e.conversation_id, m.content, e.user_id, r.content, e.withdrawn_by IS NULL
        FROM memory.evidence e
        JOIN memory.scopes s USING (agent_key, scope_id)
        JOIN memory.observations o USING (agent_key, scope_id, seq)
        LEFT JOIN memory.messages m ON (m.agent_key, m.conversation_id, m.number) = (e.agent_key, e.conversation_id, e.number)
        LEFT JOIN memory.observations r ON (r.agent_key, r.scope_id, r.seq) = (e.agent_key, e.scope_id, e.repeated_seq)
        WHERE e.agent_key = :key
    """,
    "lineage": """
        SELECT s.owner, s.name, o.content, x.owner, y.content, l.whole FROM memory.lineage l
        JOIN memory.scopes s USING (agent_key, scope_id)
        JOIN memory.observations o USING (agent_key, scope_id, seq)
        LEFT JOIN memory.scopes x ON (x.agent_key, x.scope_id) = (l.agent_key, l.source_scope_id)
        LEFT JOIN memory.observations y ON (y.agent_key, y.scope_id, y.seq) = (l.agent_key, l.source_scope_id, l.source_seq)
        WHERE l.agent_key = :key
    """,
    "messages": """
        SELECT m.conversation_id, m.message_id, m.content, m.speaker, m.withdrawn_by IS NULL
        FROM memory.messages m WHERE m.agent_key = :key AND m.content IS NOT NULL
    """,
    "members": """
        SELECT s.owner, m.user_id, m.left_at IS NULL FROM memory.members m JOIN memory.scopes s USING (agent_key, scope_id)
        WHERE m.agent_key = :key
    """,
    "participants": "SELECT conversation_id, unnest(participants) FROM memory.conversations WHERE agent_key = :key",
    "aliases": "SELECT user_id, into_user_id FROM memory.user_aliases WHERE agent_key = :key AND ended_at IS NULL",
    "texts": """
        SELECT s.owner, s.name, unnest(string_to_array(rtrim(c.content, '.'), '. ')) FROM memory.scopes s
        JOIN memory.consolidations c USING (agent_key, scope_id, version) WHERE s.agent_key = :key
    """,
}


HAPPENED = {
    "lent": "SELECT count(*) FROM memory.evidence WHERE agent_key = :key AND repeated_seq IS NOT NULL",
    "superseded": "SELECT count(*) FROM memory.observation_states WHERE agent_key = :key AND status = 'superseded'",
    "claims of one": "SELECT count(*) FROM memory.lineage WHERE agent_key = :key AND whole",
    "claims of several": "SELECT count(*) FROM memory.lineage WHERE agent_key = :key AND NOT whole",
    "imports": "SELECT count(DISTINCT import_id) FROM memory.imported WHERE agent_key = :key",
    "holds": "SELECT count(*) FROM memory.holds WHERE agent_key = :key",
    "versions": "SELECT count(*) FROM memory.consolidations WHERE agent_key = :key",
}


async def happened(memory: Memory, agent: str) -> Counter[str]:
    ((key,),) = await rows(memory, "SELECT agent_key FROM memory.agents WHERE agent_id = :agent", agent=agent)
    return Counter({name: (await rows(memory, sql, key=key))[0][0] for name, sql in HAPPENED.items()})


async def state_of(memory: Memory, agent: str) -> dict[str, list[str]]:
    ((key,),) = await rows(memory, "SELECT agent_key FROM memory.agents WHERE agent_id = :agent", agent=agent)
    return {name: sorted({str(row) for row in await rows(memory, sql, key=key)}) for name, sql in STATE.items()}


async def judge(memory: Memory, model: Teller, plan: Plan, orders: int = 4) -> Counter[str]:
    """Raises `AssertionError` where the order has decided, or an invariant doesn't hold; what happened in the world."""
    world = str(ObjectId())
    maker = Maker(memory, world, plan.legacy)
    model.is_away = False
    await maker.make(plan.steps)
    maker.did.update(await happened(memory, world))
    ending = await named(memory, world, plan.ending)
    await _verify(memory, [])
    ways = list(itertools.permutations(ending))
    ways = ways[:: max(1, len(ways) // orders)][:orders]
    alone = [str(ObjectId()) for _ in ways]
    in_one = [] if "bring" in {name for name, *_ in ending} else [str(ObjectId())]
    agents, told = [*alone, *in_one], [*ways, *((*ending, "in one transaction") for _ in in_one)]
    for agent in agents:
        await copied(memory, world, agent)
    model.is_away = True
    for n in range(len(ending)):
        for agent, way in zip(alone, ways, strict=True):
            await Ender(memory, agent, plan.legacy).take(way[n])
        await _verify(memory, [(agent, way[: n + 1]) for agent, way in zip(alone, ways, strict=True)])
    for agent in in_one:
        async with memory.database.transaction() as unit:
            for step in ending:
                await Ender(memory, agent, plan.legacy, unit).take(step)
        await _verify(memory, [*ending, "in one transaction"])
    await _compare(memory, agents, told, "with the model away")
    if plan.legacy and "rollback" not in {name for name, *_ in ending}:
        await _import_again(memory, agents, plan)
        await _compare(memory, agents, told, "after another import")
    model.is_away = False
    for agent in agents:
        for scope in await scopes_of(memory, agent):
            await memory.scopes.consolidate(agent_id=agent, scope_id=scope)
    await _verify(memory, [*ending, "with new texts"])
    await _compare(memory, agents, told, "with new texts", but=("evidence",))
    return maker.did


async def _import_again(memory: Memory, agents: Sequence[str], plan: Plan) -> None:
    """What was there and isn't any more doesn't return. What had never come comes, unless they are forgotten whose it was."""
    before = [await state_of(memory, agent) for agent in agents]
    brought = 0
    for name, *given in (*plan.steps, *plan.ending):
        brought |= given[0] if name == "bring" else 0
    if not brought:
        return
    for agent in agents:
        await Ender(memory, agent, plan.legacy).bring(brought, messages=False)
    await _verify(memory, ["another import"])
    for agent, was in zip(agents, before, strict=True):
        now = await state_of(memory, agent)
        assert now == was, (
            f"an import brought back {[(name, {*now[name]} - {*was[name]}) for name in now if now[name] != was[name]]}"
        )


async def _verify(memory: Memory, after: Sequence[Any]) -> None:
    found = list(await memory.admin.verify())
    assert found == [], f"verify: {found[:3]}, after {after}"


async def _compare(
    memory: Memory, agents: Sequence[str], ways: Sequence[Any], when: str, but: Sequence[str] = ()
) -> None:
    first = await state_of(memory, agents[0])
    for agent, way in list(zip(agents, ways, strict=True))[1:]:
        other = await state_of(memory, agent)
        differs = {
            name: (sorted({*first[name]} - {*other[name]}), sorted({*other[name]} - {*first[name]}))
            for name in first
            if name not in but and (name != "texts" or when == "with new texts") and first[name] != other[name]
        }
        assert not differs, f"{when}, after {ways[0]} and after {way}: {differs}"
