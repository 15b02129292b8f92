"""Whether a database is a backup from before a forgetting: its journal says so, which isn't in the backups.

What is marked as done, of this database and unknown to it, was forgotten after the backup was made: it must not be read
from before `memory-sql admin restore-check` has done that again. What was only planned may never have been committed.
"""

from __future__ import annotations

from pathlib import Path

from memory_sql.db import Session
from memory_sql.db.queries.forgettings import database_id, unknown
from memory_sql.domain.results import JournalStatus
from memory_sql.errors import RestoredError
from memory_sql.lifecycle import journal


async def compare(session: Session, path: Path) -> JournalStatus:
    """What the journal says that the database doesn't know; a journal that isn't there yet says nothing.

    Raises `ConfigurationError` where something that was committed can't be read.
    """
    own = await database_id(session)
    begun = journal.begun(path)
    ours = [(entry, done) for entry, done in begun.entries if entry.is_of(own)]
    absent = await unknown(session, [(entry.agent_id, entry.id) for entry, _ in ours]) if ours else frozenset()
    return JournalStatus(
        database=own,
        missing=tuple(entry.id for entry, done in ours if done and entry.id in absent),
        planned=tuple(entry.id for entry, done in ours if not done and entry.id in absent),
        others=len(begun.entries) - len(ours),
        cut_off=begun.cut_off,
    )


async def refuse_restored(session: Session, path: Path) -> None:
    """Raises `RestoredError` where something is missing."""
    found = await compare(session, path)
    if found.missing:
        raise RestoredError(len(found.missing))
