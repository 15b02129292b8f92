"""Whether a database is a backup from before a forgetting: its journal says so, which isn't in the backups.

What is marked as done, of this database and unknown to it, was forgotten after the backup was made: it must not be read
from before `memory-sql admin restore-check` has done that again. What was only planned may never have been committed. What a
database has forgotten of which this one is a copy may concern it, if it was restored from it, or not: only a person knows.
"""

from __future__ import annotations

import logging
from collections import Counter
from pathlib import Path

from memory_sql.db import Session
from memory_sql.db.queries.forgettings import placed_here, unknown
from memory_sql.domain.results import JournalStatus
from memory_sql.errors import ConfigurationError, RestoredError
from memory_sql.lifecycle import journal

log = logging.getLogger(__name__)


async def compare(session: Session, path: Path) -> JournalStatus:
    """What the journal says that the database doesn't know; a journal that isn't there yet says nothing.

    Raises `ConfigurationError` where something that was committed can't be read.
    """
    own = await placed_here(session)
    begun = journal.begun(path)
    ours = [(entry, done) for entry, done in begun.entries if own.may_have_been(entry.database, entry.incarnation)]
    absent = await unknown(session, [(entry.agent_id, entry.id) for entry, _ in ours]) if ours else frozenset()
    missing = [entry for entry, done in ours if done and entry.id in absent]
    return JournalStatus(
        database=own.database,
        incarnation=own.incarnation,
        missing=tuple(entry.id for entry in missing),
        planned=tuple(entry.id for entry, done in ours if not done and entry.id in absent),
        others=len(begun.entries) - len(ours),
        cut_off=begun.cut_off,
        copied_from=dict(Counter(str(e.incarnation) for e in missing if e.incarnation not in (None, own.incarnation))),
    )


async def refuse_restored(session: Session, path: Path) -> None:
    """Raises `RestoredError` where something is missing. What the journal lacks is written down."""
    found = await compare(session, path)
    if found.missing:
        raise RestoredError(len(found.missing), found.copied_from)
    await catch_up(session, path)


async def catch_up(session: Session, path: Path) -> None:
    """Writes what the events know and the journal lacks; it can wait where the file can't be written."""
    try:
        await journal.catch_up(session, path)
    except ConfigurationError as error:
        log.warning("the journal of forgetting lacks something: %s", error)
