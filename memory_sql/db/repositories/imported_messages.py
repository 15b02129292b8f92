"""The messages imported from another store, and their conversations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import (
    ARRAY,
    LargeBinary,
    Text,
    and_,
    any_,
    cast,
    column,
    exists,
    func,
    insert,
    literal,
    or_,
    select,
    update,
)
from sqlalchemy.ext.asyncio import AsyncSession

from memory_sql.db.models import ConversationRow, ImportedMessageRow, MessageRow, RunRow

ROLLED_BACK = "rolled back "  # begins the id of a message of which only the key is left (memory.undo_import)
_I, _M, _C = ImportedMessageRow, MessageRow, ConversationRow


@dataclass(frozen=True, slots=True)
class Reached:
    """The last message of a conversation, and whose it is. `is_foreign`: it also has messages that weren't imported.

    `began_at`: the time of its first message; None: it has none.
    """

    user_id: str | None = None
    began_at: datetime | None = None
    last_number: int = 0
    formed_number: int = 0
    is_foreign: bool = False


@dataclass(frozen=True, slots=True)
class ImportedMessageRepository:
    _session: AsyncSession
    _agent_key: int

    async def by(self, ref_hashes: Sequence[bytes]) -> dict[bytes, list[int]]:
        """The imports that brought the messages with these hashed references, in any conversation."""
        found = await self._session.execute(
            select(_I.ref_hash, _I.import_id)
            .where(_I.agent_key == self._agent_key, _I.ref_hash == any_(cast(list(ref_hashes), ARRAY(LargeBinary))))
            .distinct()
        )
        by: dict[bytes, list[int]] = {}
        for row in found:
            by.setdefault(row.ref_hash, []).append(row.import_id)
        return by

    async def place(self, conversation_id: str) -> Reached:
        """Locks the conversation, if it exists."""
        said = (
            select(_M.number)
            .outerjoin(
                _I, and_(_I.agent_key == _M.agent_key, _I.conversation_id == _M.conversation_id, _I.number == _M.number)
            )
            .where(
                _M.agent_key == self._agent_key,
                _M.conversation_id == conversation_id,
                _I.number.is_(None),
                _M.content.is_not(None) | ~_M.message_id.startswith(ROLLED_BACK),
            )
        )
        first = (
            select(_M.said_at)
            .where(_M.agent_key == self._agent_key, _M.conversation_id == conversation_id)
            .order_by(_M.number)
            .limit(1)
        )
        found = await self._session.execute(
            select(
                _C.user_id,
                first.scalar_subquery().label("began_at"),
                _C.last_number,
                _C.formed_number,
                or_(exists(said), _C.lease_until.is_not(None)).label("is_foreign"),
            )
            .where(_C.agent_key == self._agent_key, _C.conversation_id == conversation_id)
            .with_for_update(key_share=True)
        )
        row = found.one_or_none()
        return Reached() if row is None else Reached(**row._mapping)

    async def note(self, import_id: int, conversation_id: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """Records that these messages were imported: `message_id`, `source_hash`, `stored_hash`, `ref_hash`."""
        names = ("message_id", "source_hash", "stored_hash", "ref_hash")
        arrays = [
            cast([row[name] for row in rows], ARRAY(Text if name == "message_id" else LargeBinary)) for name in names
        ]
        given = func.unnest(*arrays).table_valued(*(column(name) for name in names)).render_derived("given")
        await self._session.execute(
            insert(_I).from_select(
                ["agent_key", "conversation_id", "number", "import_id", *names[1:]],
                select(
                    _M.agent_key, _M.conversation_id, _M.number, literal(import_id),
                    given.c.source_hash, given.c.stored_hash, given.c.ref_hash,
                )
                .join(given, given.c.message_id == _M.message_id)
                .where(_M.agent_key == self._agent_key, _M.conversation_id == conversation_id),
            )
        )  # fmt: skip

    async def form(self, import_id: int, conversation_id: str, after: int, to_number: int, now: datetime) -> None:
        """Records that the other store has formed the messages after `after` up to `to_number`."""
        await self._session.execute(
            insert(RunRow).values(
                agent_key=self._agent_key, kind="import", conversation_id=conversation_id, from_number=after,
                to_number=to_number, fence=0, state="empty", observations=0, duplicates=0,
                started_at=now, finished_at=now, import_id=import_id,
            )
        )  # fmt: skip

    async def postpone(self, conversation_id: str, due_at: datetime) -> bool:
        """Makes the conversation due no earlier than `due_at`; False: it isn't due at all."""
        postponed = await self._session.scalar(
            update(_C)
            .where(_C.agent_key == self._agent_key, _C.conversation_id == conversation_id, _C.due_at.is_not(None))
            .values(due_at=func.greatest(_C.due_at, due_at))
            .returning(_C.conversation_id)
        )
        return postponed is not None

    async def brought(self, import_id: int) -> list[str]:
        """The conversations that have messages of the import, by id."""
        found = await self._session.scalars(
            select(_I.conversation_id)
            .where(_I.agent_key == self._agent_key, _I.import_id == import_id)
            .distinct()
            .order_by(_I.conversation_id)
        )
        return list(found)

    async def source_hashes(self, conversation_id: str, message_ids: Sequence[str]) -> dict[str, tuple[int, bytes]]:
        """For those of these messages that are stored: the import, and the hash of the text in the source."""
        found = await self._session.execute(
            select(_M.message_id, _I.import_id, _I.source_hash)
            .join(
                _I, and_(_I.agent_key == _M.agent_key, _I.conversation_id == _M.conversation_id, _I.number == _M.number)
            )
            .where(_M.agent_key == self._agent_key, _M.conversation_id == conversation_id)
            .where(_M.message_id == any_(cast(list(message_ids), ARRAY(Text))))
        )
        return {row.message_id: (row.import_id, row.source_hash) for row in found}

    async def changed(self, import_id: int, most: int) -> list[str]:
        """The references of imported messages that still have their text, but not as it was stored."""
        found = await self._session.scalars(
            select("messages:" + _M.message_id)
            .join(
                _I, and_(_I.agent_key == _M.agent_key, _I.conversation_id == _M.conversation_id, _I.number == _M.number)
            )
            .where(_I.agent_key == self._agent_key, _I.import_id == import_id, _M.content.is_not(None))
            .where(func.sha256(func.convert_to(_M.content, "UTF8")) != _I.stored_hash)
            .order_by(_M.conversation_id, _M.number)
            .limit(most)
        )
        return list(found)
