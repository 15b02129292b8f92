"""Whether a database is a backup from before a forgetting: its journal says so, which isn't in the backups.

What is marked as done, of this database and unknown to it, was forgotten after the backup was made: it must not be read
from before `memory-sql admin restore-check` has done that again. What was only planned may never have been committed. What a
database has forgotten of which this one is a copy may concern it, if it was restored from it, or not: only a person knows.
So it is with an agent that has moved to another shard since: what is there of it must not be used any more.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from memory_sql.db import Session
from memory_sql.db.installation import Place, journal_read, note_journal_read, placed_here
from memory_sql.db.queries.forgettings import noted, settle_noted, unknown, unknown_moves
from memory_sql.domain.results import JournalStatus
from memory_sql.errors import ConfigurationError, RestoredError
from memory_sql.lifecycle import journal

log = logging.getLogger(__name__)
AT_ONCE = 1000
WAITS = timedelta(days=1)  # so long a forgetting that has begun may still be committed


async def compare(session: Session, path: Path) -> JournalStatus:
    """What the journal says that the database doesn't know; a journal that isn't there yet says nothing.

    Raises `ConfigurationError` where something that was committed can't be read.
    """
    own = await placed_here(session)
    begun = journal.begun(path)
    ours = [(entry, done) for entry, done in begun.entries if own.may_have_been(entry.database, entry.incarnation)]
    forgettings = [(entry.agent_id, entry.forgetting) for entry, _ in ours if entry.moved_to is None]
    absent = await unknown(session, forgettings) if forgettings else frozenset()
    missing = [entry for entry, done in ours if done and entry.forgetting in absent]
    missing += await left_behind(session, own, begun)
    return JournalStatus(
        database=own.database,
        incarnation=own.incarnation,
        missing=tuple(dict.fromkeys(entry.forgetting for entry in missing)),
        planned=tuple(entry.id for entry, done in ours if not done and entry.id in absent),
        others=len(begun.entries) - len(ours),
        cut_off=begun.cut_off,
        copied_from=dict(Counter(str(e.incarnation) for e in missing if e.incarnation not in (None, own.incarnation))),
    )


async def left_behind(session: Session, own: Place, begun: journal.Journal) -> list[journal.Entry]:
    """The moves of agents to other shards that this database doesn't know of, though it has the agent: it is a backup."""
    left = dict[str, journal.Entry]()
    for entry, done in begun.entries:
        if done and entry.moved_to is not None:
            _follow(left, own, entry)
    absent = await _unknown_moves(session, left)
    return [move for move in left.values() if move.id in absent]


def _follow(left: dict[str, journal.Entry], own: Place, move: journal.Entry) -> None:
    """Notes the last move of an agent away from this database; nothing once it has come back."""
    if own.may_have_been(move.database, move.incarnation):
        left[move.agent_id] = move
    elif move.into is not None and own.may_have_been(*move.into):
        left.pop(move.agent_id, None)


async def _unknown_moves(session: Session, left: Mapping[str, journal.Entry]) -> frozenset[str]:
    return await unknown_moves(session, [(agent, move.id) for agent, move in left.items()]) if left else frozenset()


async def refuse_restored(session: Session, path: Path, now: datetime) -> None:
    """Raises `RestoredError` where something is missing. What the journal lacks is written down.

    Read is what has been written since the database was last known to know all. Raises `ConfigurationError` where the journal
    has no place.
    """
    journal.check_place(path)
    seen = await _read_on(session, path, now)
    if seen is None or seen.missing:
        found = await compare(session, path)
        if found.missing:
            raise RestoredError(len(found.missing), found.copied_from)
    await _catch_up(session, path, seen)


async def catch_up(session: Session, path: Path, now: datetime) -> None:
    """Writes what the events know and the journal lacks; it can wait where the file can't be written."""
    await _catch_up(session, path, await _read_on(session, path, now))


async def _catch_up(session: Session, path: Path, seen: Seen | None) -> None:
    lacking = [journal.Entry.model_validate(one) for one in await noted(session, AT_ONCE)]
    try:
        whole = journal.begun(path).entries if seen is None and lacking else ()
        known = {entry.id: done for entry, done in whole} if seen is None else seen.known
        journal.catch_up(path, lacking, known)
    except ConfigurationError as error:
        log.warning("the journal of forgetting lacks something: %s", error)
        return
    await settle_noted(session, [entry.id for entry in lacking])
    if len(lacking) == AT_ONCE:
        return  # the next time goes on
    if seen is not None and seen.end > seen.start and not seen.missing:
        await note_journal_read(session, seen.end, journal.tail_of(path, seen.end) or b"")


@dataclass(slots=True)
class Seen:
    """What stands in the journal from `start` on. `end`: up to where all is settled.

    `known`: of what the events have noted, whether it says that it was committed. `missing`: whether anything is that was.
    """

    start: int
    end: int
    known: dict[str, bool] = field(default_factory=dict)
    missing: bool = False


async def _read_on(session: Session, path: Path, now: datetime) -> Seen | None:
    """None: a line isn't the journal's, or it says that something was committed, but not what."""
    position, tail = await journal_read(session)
    start = position if position and journal.tail_of(path, position) == tail else 0
    seen = await _read_from(session, path, start, now)
    if seen is None and start:  # what was begun before that has been committed since
        seen = await _read_from(session, path, 0, now)
    return seen


async def _read_from(session: Session, path: Path, start: int, now: datetime) -> Seen | None:
    own = await placed_here(session)
    wanted = {str(one["id"]) for one in await noted(session, AT_ONCE)}
    seen, begun, done, ended = Seen(start, start), dict[str, tuple[int, Any]](), list[tuple[str, str]](), set[str]()
    left = dict[str, journal.Entry]()
    before = start
    for after, value in journal.scan(path, start):
        if value is None or (value.get("done") and value["id"] not in begun and value["id"] not in ended):
            return None
        at, before = before, after
        if not value or value["id"] in ended:
            continue
        if value["id"] in wanted:
            seen.known[value["id"]] = bool(value.get("done"))
        if not value.get("done"):
            begun[value["id"]] = (at, value)
            continue
        _, entry = begun.pop(value["id"])
        ended.add(value["id"])
        if entry.get("moved_to") is not None:
            _follow(left, own, journal.Entry.model_validate(entry))
        elif own.may_have_been(entry.get("database"), entry.get("incarnation")):
            done.append((entry["agent_id"], entry.get("repeats") or value["id"]))
        if len(done) >= AT_ONCE:
            seen.missing = seen.missing or bool(await unknown(session, done))
            done.clear()
    seen.missing = seen.missing or bool(done and await unknown(session, done))
    seen.missing = seen.missing or bool(await _unknown_moves(session, left))
    recent = [at for at, entry in begun.values() if str(entry.get("at")) > (now - WAITS).isoformat()]
    seen.end = min([before, *recent])
    return seen
