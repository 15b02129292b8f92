"""Whether hash partitions by agent would make the largest tables cheaper to keep.

    python -m benchmarks partitions

Copies of `messages`, `observations` and `evidence` with all their indexes, plain and in 16 partitions, are filled with the
same rows: those of a town (`benchmarks/town.py`) for each of MEMORY_SQL_BENCH_TOWNS agents, 2 by default. 100 are 10⁷
observations, and take 40 GB and an hour. Printed for both are bytes, reads as the library makes them, and a vacuum after
some agents are gone and after some rows of all are. The ratio is partitioned by plain.
"""

from __future__ import annotations

import os
import re
import statistics
import time
from collections.abc import Iterator

import asyncpg  # type: ignore[import-untyped]

from benchmarks.server import fresh_database, plain_url
from benchmarks.town import fill

TOWNS = int(os.environ.get("MEMORY_SQL_BENCH_TOWNS", "2"))
PARTITIONS, ROUNDS = 16, 2000
GONE_AGENTS = max(1, TOWNS * 3 // 100)
KINDS = ("plain", "hashed")
TABLES = ("messages", "observations", "evidence")
COLUMNS = """
    SELECT attname FROM pg_attribute
    WHERE attrelid = $1::regclass AND attnum > 0 AND NOT attisdropped AND attgenerated = '' AND attname <> 'agent_key'
"""
INDEXES = "SELECT pg_get_indexdef(indexrelid) FROM pg_index WHERE indrelid = $1::regclass ORDER BY indexrelid"
BYTES = """
    SELECT pg_total_relation_size($1::regclass) + coalesce(sum(pg_total_relation_size(relid)), 0)
    FROM pg_partition_tree($1::regclass) WHERE isleaf
"""
READS = {
    "one observation": "SELECT content FROM {observations} WHERE (agent_key, scope_id, seq) = ($1, 1000, $2)",
    "the newest of a scope": "SELECT content FROM {observations} WHERE agent_key = $1 AND scope_id = 1000 AND seq > $2"
    " ORDER BY seq DESC LIMIT 20",
    "its evidence": "SELECT conversation_id FROM {evidence} WHERE (agent_key, scope_id, seq) = ($1, 1000, $2)",
}


async def main() -> None:
    async with fresh_database() as url:
        await fill(url)
        connection = await asyncpg.connect(plain_url(url))
        try:
            await connection.execute(
                "SET maintenance_work_mem = '1GB'; SET synchronous_commit = off; CREATE SCHEMA copies"
            )
            for table in TABLES:
                for kind in KINDS:
                    await _copy(connection, table, kind)
            for table in TABLES:
                sizes = [await connection.fetchval(BYTES, f"copies.{table}_{kind}") for kind in KINDS]
                rows = await connection.fetchval(f"SELECT count(*) FROM copies.{table}_plain")  # noqa: S608 — ours
                print(f"{table}: {rows:,} rows, {sizes[0] / rows:.0f} and {sizes[1] / rows:.0f} bytes each", flush=True)
            await _read(connection)
            await _vacuum(connection, f"after {GONE_AGENTS} of {TOWNS} agents are gone", f"agent_key <= {GONE_AGENTS}")
            await _vacuum(connection, "after one row in twenty is gone", "hashtext({table}::text) % 20 = 0")
        finally:
            await connection.close()


async def _copy(connection: asyncpg.Connection, table: str, kind: str) -> None:
    name, began = f"copies.{table}_{kind}", time.monotonic()
    like = f"CREATE TABLE {name} (LIKE memory.{table} INCLUDING DEFAULTS INCLUDING GENERATED INCLUDING STORAGE)"
    await connection.execute(f"{like} PARTITION BY HASH (agent_key)" if kind == "hashed" else like)
    if kind == "hashed":
        for n in range(PARTITIONS):
            await connection.execute(
                f"CREATE TABLE {name}_{n} PARTITION OF {name} FOR VALUES WITH (MODULUS {PARTITIONS}, REMAINDER {n})"
            )
    columns = ", ".join(row["attname"] for row in await connection.fetch(COLUMNS, f"memory.{table}"))
    for town in range(1, TOWNS + 1):
        await connection.execute(
            f"INSERT INTO {name} (agent_key, {columns}) SELECT {town}, {columns} FROM memory.{table}",  # noqa: S608
            timeout=None,
        )
    filled = time.monotonic()
    for (index,) in await connection.fetch(INDEXES, f"memory.{table}"):
        await connection.execute(re.sub(rf" INDEX \S+ ON memory\.{table} ", f" INDEX ON {name} ", index), timeout=None)
    indexed = time.monotonic()
    await connection.execute(f"VACUUM ANALYZE {name}", timeout=None)
    print(f"{name}: filled in {filled - began:.0f} s, indexed in {indexed - filled:.0f} s", flush=True)


async def _read(connection: asyncpg.Connection) -> None:
    """Each read of one agent after another, by turns on both."""
    for what, statement in READS.items():
        seconds: dict[str, list[float]] = {kind: [] for kind in KINDS}
        prepared = {
            kind: await connection.prepare(statement.format(**{table: f"copies.{table}_{kind}" for table in TABLES}))
            for kind in KINDS
        }
        for agent, seq in _places():
            for kind in KINDS:
                began = time.perf_counter()
                await prepared[kind].fetch(agent, seq)
                seconds[kind].append(time.perf_counter() - began)
        plain, hashed = (1000 * statistics.median(seconds[kind]) for kind in KINDS)
        print(f"{what}: {plain:.3f} and {hashed:.3f} ms, {hashed / plain:.2f} ×", flush=True)


def _places() -> Iterator[tuple[int, int]]:
    return ((GONE_AGENTS + 1 + n % max(1, TOWNS - GONE_AGENTS), 1 + n % 90) for n in range(ROUNDS))


async def _vacuum(connection: asyncpg.Connection, when: str, gone: str) -> None:
    for table in TABLES:
        seconds = list[float]()
        for kind in KINDS:
            name = f"{table}_{kind}"
            where = gone.format(table=f"({name}.agent_key, {name}.ctid)")
            await connection.execute(f"DELETE FROM copies.{name} WHERE {where}; CHECKPOINT", timeout=None)  # noqa: S608
            began = time.monotonic()
            await connection.execute(f"VACUUM copies.{name}", timeout=None)
            seconds.append(time.monotonic() - began)
        print(
            f"{table}, a vacuum {when}: {seconds[0]:.1f} and {seconds[1]:.1f} s, {seconds[1] / seconds[0]:.2f} ×",
            flush=True,
        )
