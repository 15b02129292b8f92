"""A legacy memory that goes on growing: parts of it are imported, again and again, and imports are rolled back."""

from __future__ import annotations

import asyncio
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bson import ObjectId

from memory_sql.importers.mongo.options import ImportOptions
from tests.legacy.formats import dump
from tests.legacy.homes import at
from tests.prove.concurrent_life.actor import Actor
from tests.prove.concurrent_life.ledger import Utterance
from tests.prove.concurrent_life.world import HOME, OLD, NothingToDoError

KEY = b"k" * 32
BROUGHT = """
    SELECT message_id FROM memory.imported_messages i JOIN memory.messages m USING (agent_key, conversation_id, number)
    WHERE i.import_id = :run
"""
LEFT = """
    SELECT message_id FROM memory.messages m JOIN memory.agents USING (agent_key)
    WHERE agent_id = :agent AND message_id = ANY (:numbers) AND content IS NOT NULL AND withdrawn_by IS NULL
      AND NOT EXISTS (SELECT FROM memory.evidence e
                      WHERE (e.agent_key, e.conversation_id, e.number) = (m.agent_key, m.conversation_id, m.number))
"""
VERIFIED_AT_ONCE = 5
SESSIONS = (8, 9, 10)  # in which nobody says anything here: an import leaves alone what goes on here
GROUPS = {"crew": tuple(str(HOME.key("user", n)) for n in (0, 1))}


@dataclass(eq=False)
class Legacy:
    """A statement of somebody in a session, and what was remembered of it: a directive of theirs, or a fact of a shard."""

    token: str
    person: int
    session: int
    is_fact: bool
    said: Utterance | None = None
    known: Utterance | None = None

    @property
    def message(self) -> ObjectId:
        return HOME.key("message", self.token)

    def documents(self) -> dict[str, dict[str, Any]]:
        user, session = HOME.key("user", self.person), HOME.key("session", self.session)
        words, minutes = f"Release {self.token} is deployed to staging.", float(self.token.partition(".")[2]) / 100
        kind = "fact" if self.is_fact else "directive"
        record = HOME.record(
            kind, self.token, content=words, source_session_id=session, source_message_ids=[self.message],
            related_users=[user], createdAt=at(minutes),
        )  # fmt: skip
        said = HOME.message(
            self.token, session=[session], sender=user, content=words, createdAt=at(minutes - 1), updatedAt=None
        )
        return {"memory_sessions": record, "messages": said}


class Importing(Actor):
    """Only the runs of one client at a time: else nobody could say which of two has stored something."""

    async def import_new(self) -> None:
        made = [
            Legacy(
                self.ledger.token(),
                self.random.randrange(5),
                self.random.choice(SESSIONS),
                self.random.randrange(4) == 0,
            )
            for _ in range(self.random.randrange(1, 6))
        ]
        self.world.legacy += made
        known = self.random.sample(self.world.legacy[: -len(made)], k=min(3, len(self.world.legacy) - len(made)))
        await self.bring([*known, *made])

    async def import_again(self) -> None:
        """Any part of what there is, with or without what was said."""
        if not self.world.legacy:
            raise NothingToDoError
        await self.bring(self.random.sample(self.world.legacy, k=self.random.randrange(1, len(self.world.legacy) + 1)))

    async def import_dry(self) -> None:
        if not self.world.legacy:
            raise NothingToDoError
        await self.run(self.world.legacy, messages=True, dry_run=True)

    async def bring(self, part: list[Legacy]) -> None:
        messages = self.random.randrange(2) == 0
        async with self.world.importing:
            begun = self.begin(part, messages=messages)
            try:
                brought = await self.run(part, messages=messages)
            except BaseException:  # it may have been committed, by whichever run
                for said in begun:
                    said.doubtful = True
                raise
            for said in begun:
                said.run = brought.run
                said.doubtful |= brought.some_goes_on and said.via == "message"
            self.ledger.acknowledge(begun)

    async def run(self, part: list[Legacy], *, messages: bool, dry_run: bool = False) -> Brought:
        with tempfile.TemporaryDirectory() as folder:
            await asyncio.to_thread(write, Path(folder), part)
            options = ImportOptions(groups=GROUPS, messages=messages)
            crashes = self.world.crashes
            report = await self.again_until_it_returns(
                lambda: self.memory.imports.mongo(dump=folder, key=KEY, options=options, dry_run=dry_run)
            )
        if report.unaccounted:
            self.world.found(f"an import has lost count of {report.unaccounted}")
        run = report.run if crashes == self.world.crashes else None  # else a run before may have stored some of it
        return Brought(run, "messages: skipped, goes_on_here" in report.reasons)

    def begin(self, part: list[Legacy], *, messages: bool) -> list[Utterance]:
        """What is there stays; what was rolled back returns; what has been forgotten, or might have been, is left open."""
        begun = list[Utterance]()
        for one in part:
            if one.known is None or one.known.gone:
                one.known = self.uttered(one, "import", one.known)
                begun.append(one.known)
            if messages and (one.said is None or one.said.gone):
                one.said = self.uttered(one, "message", one.said)
                begun.append(one.said)
        return begun

    def uttered(self, one: Legacy, via: Any, before: Utterance | None) -> Utterance:
        """By whatever names they have ever had. Forgotten, or under way to it, it need not come; nor while it is held."""
        users, conversations = (
            self.world.ever[OLD, "user", one.person],
            self.world.ever[OLD, "conversation", one.session],
        )
        said = self.ledger.begin(
            one.token, OLD, via, min(users), shared=one.is_fact and via == "import",
            message=str(one.message) if via == "message" else None,
        )  # fmt: skip
        said.users, said.conversations = set(users), set(conversations)
        said.groups = set(self.world.ever[OLD, "group", 0])  # the crew's, if they are of it
        said.may_stay_unformed = True
        was_doubtful = before is not None and before.doubtful
        said.doubtful |= (
            was_doubtful or bool(self.world.holds) or any(f.touches(said) for f in self.ledger.past if f.agent == OLD)
        )
        return said

    async def rollback(self) -> None:
        """What a hold covers goes when it ends, so it has gone when the life rests."""
        async with self.world.importing:
            runs = [run.run for run in await self.memory.imports.list() if run.state != "rolled_back"]
            if not runs:
                raise NothingToDoError
            run, dry_run = self.random.choice(runs), self.random.randrange(4) == 0
            every = [said for one in self.world.legacy for said in (one.known, one.said) if said]
            said = [one for one in every if one.run == run]
            for one in every:  # it was brought while the database was stopped: by this run, or by one before
                one.doubtful |= one.run is None and not dry_run
            theirs = {
                number for (number,) in await self.sql(BROUGHT, run=run)
            }  # not what a broken-off rollback has left here
            try:
                await self.again_until_it_returns(lambda: self.memory.imports.rollback(run, dry_run=dry_run))
            except BaseException:
                for one in said:
                    one.doubtful = True
                raise
            if not dry_run:
                await self.taken_out(said, theirs)

    async def taken_out(self, said: list[Utterance], theirs: set[str]) -> None:
        """What was said stays where something was made of it here."""
        numbers = [one.message for one in said if one.message in theirs]
        left = await self.sql(LEFT, agent=OLD, numbers=numbers)
        if left:
            self.world.found(f"a rollback has left {left}, of which nothing was made")
        for one in said:
            one.gone |= one.via == "import" and not one.doubtful
            one.doubtful |= one.via == "message"

    async def verify_imports(self) -> None:
        """Some: in half an hour there are a hundred, and each waits for a connection."""
        finished = [one.run for one in await self.memory.imports.list() if one.state == "finished"]
        for run in self.random.sample(finished, min(VERIFIED_AT_ONCE, len(finished))):
            check = await self.memory.imports.verify(run)
            if check.changed_here:
                self.world.found(f"what import {run} brought was changed: {check.changed_here}")


@dataclass
class Brought:
    """`run`: that certainly stored it. `some_goes_on`: what was said in a conversation that goes on here stayed away."""

    run: int | None
    some_goes_on: bool


def write(folder: Path, part: list[Legacy]) -> None:
    """The people and sessions that there are by now, whichever part of the rest it is."""
    collections: dict[str, list[Any]] = {
        "users3": [HOME.agent_document(), *(HOME.person(HOME.key("user", n), f"u{n}") for n in range(5))],
        "memory_agent": [HOME.shard()],
        "sessions": [],
        "memory_sessions": [],
        "messages": [],
    }
    for n in SESSIONS:
        there = [one for one in part if one.session == n]
        if there:
            context = {"last_memory_message_id": there[-1].message, "messages_since_memory_formation": 0}
            users = [HOME.key("user", person) for person in sorted({one.person for one in there})]
            session = HOME.session_document(
                HOME.key("session", n), owner=users[0], users=users,
                messages=[one.message for one in there], memory_context=context,
            )  # fmt: skip
            collections["sessions"].append(session)
    for one in part:
        for name, document in one.documents().items():
            collections[name].append(document)
    dump(folder, collections.items())
