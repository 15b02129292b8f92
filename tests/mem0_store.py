"""A table as mem0's pgvector store makes it, without the column of vectors, which needs an extension and isn't read.

`WRITTEN` are rows as mem0ai 2.2.1 wrote them: its `Memory` over its own `PGVector`, with a model that answered what stands in
`data`. It was called with `add` (with and without `infer`, users, agents, runs, metadata, a last day) and with `update`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any
from uuid import UUID

from tests.recycling import connect

TABLE = 'CREATE TABLE IF NOT EXISTS "{}" (id uuid PRIMARY KEY, payload {})'
INSERT = 'INSERT INTO "{}" VALUES ($1, $2)'


def _row(
    key: str, data: str, hashed: str, at: str, updated: str | None = None, **more: Any
) -> tuple[str, dict[str, Any]]:
    day = "2026-11-28T07:42:36."
    times = {"created_at": f"{day}{at}+00:00", "updated_at": f"{day}{updated or at}+00:00"}
    return key, {"data": data, "hash": hashed, **more, **times, "text_lemmatized": data}


WRITTEN = dict([
    _row("ebb505bd-f924-4809-9a8e-0b90919ccfed", "Alice prefers green tea to coffee.",
         "7148745fda442ad95b1175dc2c4a8bf8", "749504", user_id="alice", category="home", attributed_to="user"),
    _row("a139fb61-468a-4c94-8019-d47b9cddafe9", "Alice moved to Lisbon.",
         "2276fab47b170048fd79f52260545a23", "749537", user_id="alice", category="home", attributed_to="user"),
    _row("c552d7a6-058a-4374-8b73-ac7cb75d99a7", "Bob wants aisle seats.",
         "a60b3503629c5253486ae852c069b835", "811075", run_id="trip-1", user_id="bob", agent_id="travel",
         attributed_to="user"),
    _row("1ae4c7a0-8fbc-4f1c-b026-9e46b9287e9c", "Ship on Fridays.",
         "6433e5f95da0cd8ead7c44cac88ca877", "848591", role="user", user_id="bob", actor_id="bob",
         expiration_date="2099-01-01"),
    _row("14a3c4d5-d99c-45a4-ae95-f9962bc11b61", "I will.",
         "c7440de6768198355a00ab7fa39680ef", "853322", role="assistant", user_id="bob", expiration_date="2099-01-01"),
    _row("1198630f-2855-454c-9266-befcb77846b7", "The agent books refundable fares.",
         "f672d6f64e1c540e75091b7ea777fa7f", "872345", agent_id="travel", attributed_to="assistant"),
    _row("49561840-1aa7-49b1-85eb-270a77c6e1e0", "run note",
         "498113d14530535184e3be2dd11238d2", "889063", role="user", run_id="trip-2"),
    _row("f57de1a9-7a5d-427c-9cd7-0442910882e6", "Was updated.",
         "b29a713501e0f9b9e18920ea981bcb80", "903194", "918543", role="user", user_id="alice", category="work"),
])  # fmt: skip


def numbered(number: int) -> str:
    return str(UUID(int=number))


def payload(data: Any = "Likes tea.", /, *, user_id: Any = "alice", **more: Any) -> dict[str, Any]:
    """Like what mem0 writes; None leaves a key out."""
    fields = {"data": data, "user_id": user_id, "created_at": "2026-03-02T09:00:00+00:00", **more}
    return {name: value for name, value in fields.items() if value is not None}


async def write(
    url: str, rows: Mapping[str, Any] | Iterable[Any], *, collection: str = "mem0", kind: str = "jsonb"
) -> None:
    """Makes the table, if it isn't there, and adds the rows; those without ids are numbered from 1."""
    by_id = rows if isinstance(rows, Mapping) else {numbered(n): row for n, row in enumerate(rows, start=1)}
    connection = await connect(url)
    try:
        await connection.execute(TABLE.format(collection, kind))
        texts = [(key, None if row is None else json.dumps(row)) for key, row in by_id.items()]
        await connection.executemany(INSERT.format(collection), texts)
    finally:
        await connection.close()
