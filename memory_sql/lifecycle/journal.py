"""What was forgotten, written down outside the database: a backup that is older than a forgetting doesn't know of it.

One JSON object a line, with ids and no text: first what a forgetting deletes, before its commit, then that it was
committed. `memory-sql admin restore-check` does again on a restored database what it doesn't know of. The events keep what
a line says until the journal is known to have it: a full disk or a crash after the commit only delays it. That an agent has
moved to another shard is in it too: a backup from before has rows of which nobody forgets anything any more.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

from pydantic import ValidationError

from memory_sql.db import Session
from memory_sql.db.commits import on_commit, tells_commit
from memory_sql.db.queries.forgettings import Renamed, note, placed
from memory_sql.domain.ids import Value
from memory_sql.domain.people import ForgottenKind
from memory_sql.errors import ConfigurationError, InputError

log = logging.getLogger(__name__)
TAIL = 4096


class Entry(Value):
    """One forgetting: whose and which things went. `messages` maps a conversation to the numbers of its messages.

    `database` is the id of the database in which it was. None: it says nothing of that, and is taken for anybody's.
    `incarnation` tells it from its copies. None: it is taken for any of them.
    `waited`: the forgetting, by its id, that had waited for a hold to end, of which this is the rest. `refs`: of what was
    imported, HMACs under a key outside the database, in hexadecimal: it doesn't come again. `renamed`: how `users` and
    conversations came by these ids. `named`: the conversation or group that was forgotten as a whole, `(kind, id)`.
    `ended`: messages that lost their texts alone, by conversation. `repeats`: the forgetting, by its id, that another
    database knew, from which the agent has moved to this one.

    With `moved_to` it is no forgetting: the agent has moved from `database` to the shard of this name, which is the database
    and incarnation `into`.
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
    incarnation: str | None = None
    waited: str | None = None
    refs: tuple[str, ...] = ()
    renamed: tuple[Renamed, ...] = ()
    named: tuple[tuple[ForgottenKind, str], ...] = ()
    ended: Mapping[str, tuple[int, ...]] = {}
    repeats: str | None = None
    moved_to: str | None = None
    into: tuple[str, str] | None = None

    @property
    def forgetting(self) -> str:
        """Its id in the events."""
        return self.repeats or self.id


def check_place(path: Path) -> None:
    """Raises `ConfigurationError` where the file can't be, now rather than at the first forgetting.

    Nor would anybody know then that a backup was restored. The file itself may not be there yet.
    """
    if path.is_dir():
        raise ConfigurationError(f"forget_journal: {path} is a directory; name a file in it")
    if not path.absolute().parent.is_dir():
        raise ConfigurationError(f"forget_journal: there is no directory {path.absolute().parent}; create it first")


def check(path: Path | None, unit: Session) -> None:
    """Raises `InputError` where the journal couldn't be written when this transaction commits."""
    if path is not None and not tells_commit(unit):
        raise InputError(
            "forget_journal is written when your transaction commits, which only Django's atomic tells; forget without"
            " session=, or in an AsyncSession with memory_sql.Memory"
        )


async def keep(path: Path | None, unit: Session, entry: Entry, *, joined: bool) -> None:
    """As `write`, of this database; None: no journal is kept. The event keeps it as well, until the journal is known to."""
    if path is not None:
        own, incarnation, renamed = await placed(unit, entry.agent_id, entry.users, [*entry.messages, *entry.ended])
        known = {"database": own, "incarnation": incarnation, "renamed": renamed}
        entry = entry.model_copy(update=known)
        await note(unit, entry.agent_id, entry.id, entry.model_dump(mode="json"))
        write(path, unit, entry, joined=joined)


def write(path: Path, unit: Session, entry: Entry, *, joined: bool) -> None:
    """What goes before the commit of this transaction, and after it that it went.

    In a host's transaction (`joined`) both after the commit: the host may still roll back.
    """
    if not joined:
        plan(path, entry)
    on_commit(unit, partial(_after, path, entry, is_planned=not joined))


def _after(path: Path, entry: Entry, *, is_planned: bool) -> None:
    """It has happened, whatever becomes of the journal: what that lacks is written later (`catch_up`)."""
    try:
        if not is_planned:
            plan(path, entry)
        done(path, entry.id)
    except ConfigurationError as error:
        log.warning("forgetting %s isn't in the journal yet: %s", entry.id, error)


def plan(path: Path, entry: Entry) -> None:
    """On the disk when this returns. Raises `ConfigurationError` when the file can't be written: nothing is forgotten."""
    _append(path, entry.model_dump(mode="json"))


def done(path: Path, entry_id: str) -> None:
    _append(path, _done(entry_id))


def _done(entry_id: str) -> dict[str, Any]:
    return {"id": entry_id, "done": True}


def catch_up(path: Path, entries: Sequence[Entry], known: Mapping[str, bool]) -> None:
    """Writes what the journal lacks of these; `known`: of those that it names, whether it says that they were committed.

    Raises `ConfigurationError` where it can't be written.
    """
    for entry in entries:
        if entry.id not in known:
            plan(path, entry)
        if not known.get(entry.id):
            done(path, entry.id)


def carry(path: Path, agent_id: str, database: str, incarnation: str, move: Entry | None) -> None:
    """Says of the database to which the agent has moved what others have forgotten of it; once, however often it moves.

    And its last `move`, if that isn't there yet. Raises `ConfigurationError` where it can't be read or written.
    """
    its = [entry for entry, is_done in begun(path).entries if is_done and entry.agent_id == agent_id]
    known = {entry.forgetting for entry in its if (entry.database, entry.incarnation) == (database, incarnation)}
    lines = list[Mapping[str, Any]]()
    if move is not None and all(entry.id != move.id for entry in its):
        lines += [move.model_dump(mode="json"), _done(move.id)]
    for entry in its:
        if entry.moved_to is None and entry.database is not None and entry.forgetting not in known:
            known.add(entry.forgetting)
            place = {"id": str(uuid.uuid4()), "database": database, "incarnation": incarnation}
            here = entry.model_copy(update={**place, "repeats": entry.forgetting})
            lines += [here.model_dump(mode="json"), _done(here.id)]
    if lines:
        _append(path, *lines)


def tail_of(path: Path, position: int) -> bytes | None:
    """The hash of what stands before that byte; None: the file doesn't reach it."""
    try:
        with path.open("rb") as file:
            if position > file.seek(0, os.SEEK_END):
                return None
            file.seek(max(0, position - TAIL))
            return hashlib.sha256(file.read(min(position, TAIL))).digest()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _not_read(error) from error


def scan(path: Path, start: int) -> Iterator[tuple[int, Mapping[str, Any] | None]]:
    """Each line from that byte on, and where the next begins. Empty: it was cut off; None: it isn't the journal's.

    A last line that hasn't its end yet is left out: it is being written. Keeps nothing.
    """
    position = start
    try:
        with path.open("rb") as file:
            file.seek(start)
            for line in file:
                if not line.endswith(b"\n"):
                    return
                position += len(line)
                if line.strip():
                    yield position, _value(line)
    except FileNotFoundError:
        return
    except OSError as error:
        raise _not_read(error) from error


def _value(line: bytes) -> Mapping[str, Any] | None:
    try:
        value = json.loads(line)
    except ValueError:
        return {} if line.startswith(b"{") else None
    return value if isinstance(value, dict) and isinstance(value.get("id"), str) else None


def _append(path: Path, *lines: Mapping[str, Any]) -> None:
    try:
        with path.open("a+b") as file:
            file.write(_missing_end(file) + b"".join(json.dumps(line).encode() + b"\n" for line in lines))
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise ConfigurationError(f"the journal of forgetting can't be written: {error.strerror}") from error


def _missing_end(file: BinaryIO) -> bytes:
    """Of a last line that was cut off: by a full disk, or with the process."""
    if file.seek(0, os.SEEK_END) == 0:
        return b""
    file.seek(-1, os.SEEK_END)
    return b"" if file.read(1) == b"\n" else b"\n"


@dataclass(frozen=True, slots=True)
class Journal:
    """Each forgetting, oldest first, and whether it is known to have been committed; and the numbers of lines cut off.

    A line that was cut off while it was written is the plan of a forgetting that wasn't committed, or says that one was
    whose plan stands before it.
    """

    entries: tuple[tuple[Entry, bool], ...] = ()
    cut_off: tuple[int, ...] = ()


def read(path: Path) -> Journal:
    """Raises `ConfigurationError` where there is no file, or a forgetting that was committed can't be read."""
    planned: dict[str, Entry] = {}
    committed: set[str] = set()
    cut_off: list[int] = []
    for number, line in _lines(path):
        try:
            value = json.loads(line)
            if value.get("done"):
                committed.add(value["id"])
            else:
                entry = Entry.model_validate(value)
                planned[entry.id] = entry
        except (ValueError, ValidationError, AttributeError, KeyError):
            if not line.startswith("{"):
                raise _unreadable(number) from None
            cut_off.append(number)
    if cut_off and not committed <= planned.keys():
        raise _unreadable(cut_off[0])
    return Journal(tuple((entry, entry.id in committed) for entry in planned.values()), tuple(cut_off))


def _unreadable(number: int) -> ConfigurationError:
    return ConfigurationError(f"line {number} of the journal of forgetting can't be read")


def begun(path: Path) -> Journal:
    """As `read`; nothing where there is no file yet."""
    return read(path) if path.exists() else Journal()


def _lines(path: Path) -> list[tuple[int, str]]:
    try:
        return [(number, line) for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1) if line]
    except (OSError, UnicodeDecodeError) as error:
        raise _not_read(error) from error


def _not_read(error: Exception) -> ConfigurationError:
    return ConfigurationError(f"the journal of forgetting can't be read: {type(error).__name__}")
