"""An import from a dump, compared with a bare COPY of the same rows into a table with the same indexes.

    python -m benchmarks.importing [--records 1000000] [--verify]

Times are of one run each. Reading and planning the source is reported apart from storing it. MiB is the most memory that
this process has used so far; the dump is written by another process. `--verify`: also runs `imports.verify` and
`admin.verify` after each.
"""

from __future__ import annotations

import argparse
import asyncio
import io
import multiprocessing
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import asyncpg  # type: ignore[import-untyped]

from benchmarks.server import fresh_database
from memory_sql.domain.results import Progress
from memory_sql.memory import Memory
from tests.legacy.formats import dump
from tests.legacy.generator import Legacy
from tests.prove.legacy_sizes import most_memory

RECORDS = (2_000, 50_000)
KEY = b"k" * 32
COLUMNS = (
    "agent_key, scope_id, seq, content, observed_at, created_at, source_kind, conversation_id, message_ids, related_users, "
    "run_id, legacy_ref, lane, sensitivity, categories, metadata, content_hash, hash_version, language, search_extra, dates"
)


async def main(sizes: Sequence[int] = RECORDS, *, verify: bool = False) -> None:
    print(
        f"{'records':>9}{'planned/s':>11}{'stored/s':>10}{'COPY/s':>9}{'share':>8}{'minutes':>9}{'MiB':>6}{'taken out/s':>13}"
    )
    for records in sizes:
        async with fresh_database() as url:
            with tempfile.TemporaryDirectory() as folder, multiprocessing.get_context("spawn").Pool(1) as other:
                await asyncio.to_thread(other.apply, _write, (folder, records))
                await _measured(url, Path(folder), records, verify=verify)


def _write(folder: str, records: int) -> None:
    dump(Path(folder), Legacy.of_records(records, copies=0).collections())


async def _measured(url: str, folder: Path, records: int, *, verify: bool) -> None:
    async with Memory(url) as memory:
        began = read = time.perf_counter()

        def told(progress: Progress) -> None:
            nonlocal read
            if progress.step == "reading" or not progress.done:
                read = time.perf_counter()

        report = await memory.imports.mongo(dump=folder, key=KEY, progress=told)
        planned, stored, most = read - began, time.perf_counter() - read, most_memory()
        rows, copied = await _copied(url)
        print(
            f"{records:>9,}{records / planned:>11,.0f}{rows / stored:>10,.0f}{rows / copied:>9,.0f}{copied / stored:>8.0%}"
            f"{(planned + stored) / 60:>9.1f}{most / 1024:>6,.0f}",
            end="",
            flush=True,
        )
        if verify:
            differs = await memory.imports.verify(report.run or 0, dump=folder)
            print(f"\n{differs}\n{len(list(await memory.admin.verify()))} violations", flush=True)
        began = time.perf_counter()
        await memory.imports.rollback(report.run or 0)
        print(f"{rows / (time.perf_counter() - began):>13,.0f}")


async def _copied(url: str) -> tuple[int, float]:
    """The number of observations, and how long merely copying them takes."""
    connection = await asyncpg.connect(url.replace("+asyncpg", ""))
    try:
        kept = io.BytesIO()
        await connection.copy_from_query(f"SELECT {COLUMNS} FROM memory.observations", output=kept)  # noqa: S608
        await connection.execute("CREATE TABLE memory.bare (LIKE memory.observations INCLUDING ALL)")
        kept.seek(0)
        names = [name.strip() for name in COLUMNS.split(",")]
        began = time.perf_counter()
        await connection.copy_to_table("bare", schema_name="memory", source=kept, columns=names)
        copied = time.perf_counter() - began
        rows = await connection.fetchval("SELECT count(*) FROM memory.bare")
        await connection.execute("DROP TABLE memory.bare")
        return rows, copied
    finally:
        await connection.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.importing", description=__doc__)
    parser.add_argument("--records", type=int, nargs="+", default=RECORDS)
    parser.add_argument("--verify", action="store_true")
    options = parser.parse_args()
    asyncio.run(main(options.records, verify=options.verify))
