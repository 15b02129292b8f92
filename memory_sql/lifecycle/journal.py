"""What was forgotten, written down outside the database: a backup that is older than a forgetting doesn't know of it.

One JSON object a line, with ids and no text: first what a forgetting deletes, before its commit, then that it was
committed. `memory-sql admin restore-check` does again on a restored database what it doesn't know of.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from memory_sql.db import Session
from memory_sql.db.engine import on_commit
from memory_sql.db.queries.forgettings import database_id
from memory_sql.domain.ids import Value
from memory_sql.errors import ConfigurationError


class Entry(Value):
    """One forgetting: whose and which things went. `messages` maps a conversation to the numbers of its messages.

    `database` is the id of the database in which it was. None: it says nothing of that, and is taken for anybody's.
    `waited`: the forgetting, by its id, that had waited for a hold to end, of which this is the rest.
    """

    id: str
    at: datetime
    agent_id: str
    everything: bool = False
    users: tuple[str, ...] = ()
    scopes: tuple[int, ...] = ()
    observations: tuple[tuple[int, int], ...] = ()
    messages: Mapping[str, tuple[int, ...]] = {}
    database: str | None = None
    waited: str | None = None

    def is_of(self, database: str) -> bool:
        return self.database in (None, database)


async def keep(path: Path | None, unit: Session, entry: Entry, *, joined: bool) -> None:
    """As `write`, of this database; None: no journal is kept."""
    if path is not None:
        write(path, unit, entry.model_copy(update={"database": await database_id(unit)}), joined=joined)


def write(path: Path, unit: Session, entry: Entry, *, joined: bool) -> None:
    """What goes before the commit of this transaction, and after it that it went.

    In a host's transaction (`joined`) both after the commit: the host may still roll back.
    """
    if joined:
        on_commit(unit, partial(_both, path, entry))
        return
    plan(path, entry)
    on_commit(unit, partial(done, path, entry.id))


def _both(path: Path, entry: Entry) -> None:
    plan(path, entry)
    done(path, entry.id)


def plan(path: Path, entry: Entry) -> None:
    """On the disk when this returns. Raises `ConfigurationError` when the file can't be written: nothing is forgotten."""
    _append(path, entry.model_dump(mode="json"))


def done(path: Path, entry_id: str) -> None:
    _append(path, {"id": entry_id, "done": True})


def _append(path: Path, line: Mapping[str, Any]) -> None:
    try:
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise ConfigurationError(f"the journal of forgetting can't be written: {error.strerror}") from error


def entries(path: Path) -> Iterator[tuple[Entry, bool]]:
    """Each forgetting, oldest first, and whether it is known to have been committed.

    A last line that was cut off while it was written belongs to one that wasn't. Raises `ConfigurationError`.
    """
    planned: dict[str, Entry] = {}
    committed: set[str] = set()
    for number, line in enumerate(_lines(path), 1):
        try:
            value = json.loads(line)
            if value.get("done"):
                committed.add(value["id"])
            else:
                entry = Entry.model_validate(value)
                planned[entry.id] = entry
        except (ValueError, ValidationError, AttributeError, KeyError):
            if line.endswith("\n"):
                raise ConfigurationError(f"line {number} of the journal of forgetting can't be read") from None
    for entry in planned.values():
        yield entry, entry.id in committed


def begun(path: Path) -> list[tuple[Entry, bool]]:
    """As `entries`; none where there is no file yet."""
    return list(entries(path)) if path.exists() else []


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8").splitlines(keepends=True)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"the journal of forgetting can't be read: {type(error).__name__}") from error
