"""Checks whether what an import brought still matches its source and the database."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import islice

from memory_sql.db import Session
from memory_sql.db.engine import Database
from memory_sql.db.principals import service
from memory_sql.db.repositories.agents import agent_key_of
from memory_sql.db.repositories.imported_messages import ImportedMessageRepository
from memory_sql.db.repositories.imports import ImportRepository
from memory_sql.importers.accounts import Accounts
from memory_sql.importers.batches import some_of
from memory_sql.importers.loading import Plan
from memory_sql.importers.origin import Origin
from memory_sql.importers.talking import ref_of

AT_ONCE = 1000


@dataclass(frozen=True, slots=True)
class Differences:
    """References.

    `changed`: their text in the source differs from what was imported. `missing`: they aren't in the database.
    """

    compared: int
    changed: tuple[str, ...]
    missing: tuple[str, ...]


async def compare(database: Database, origin: Origin, import_id: int, now: datetime) -> Differences:
    """Compares each row that the origin yields with what the import recorded. Raises `SourceError`."""
    compared, changed, missing = 0, list[str](), list[str]()
    async with origin.read(Accounts(), now) as (plan, _):
        for agent in plan.agents():
            async with database.transaction(principal=service(agent.agent_id)) as unit:
                key = await agent_key_of(unit, agent.agent_id)
                imports, rows = ImportRepository(unit), _hashes(plan, agent.agent_id)
                while some := dict(islice(rows, AT_ONCE)):
                    known = {} if key is None else await imports.source_hashes(key, list(some))
                    own = {ref: by[import_id] for ref, by in known.items() if import_id in by}
                    compared += len(some)
                    missing += [ref for ref in some if ref not in known]
                    changed += [ref for ref, digests in own.items() if some[ref] not in digests]
                if key is not None:
                    async for lacks, differs, count in _messages(unit, key, plan, agent.agent_id, import_id):
                        compared, missing, changed = compared + count, missing + lacks, changed + differs
    return Differences(compared, tuple(changed), tuple(missing))


async def _messages(
    unit: Session, agent_key: int, plan: Plan, agent_id: str, import_id: int
) -> AsyncIterator[tuple[list[str], list[str], int]]:
    """In chunks: messages that are missing, messages that differ, and how many were compared."""
    messages = ImportedMessageRepository(unit, agent_key)
    for draft in plan.conversations(agent_id):
        for some in some_of(plan.messages(agent_id, draft.conversation_id), AT_ONCE):
            here = await messages.source_hashes(draft.conversation_id, [message.message_id for message in some])
            lacks = [ref_of(message) for message in some if message.message_id not in here]
            yield (
                lacks,
                [
                    ref_of(message)
                    for message in some
                    if here.get(message.message_id, (0, b""))[0] == import_id
                    and here[message.message_id][1] != message.source_hash
                ],
                len(some),
            )


def _hashes(plan: Plan, agent_id: str) -> Iterator[tuple[str, bytes]]:
    for scope in plan.scopes(agent_id):
        for row in plan.rows(scope):
            yield row.legacy_ref, row.source_hash
