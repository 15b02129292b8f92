"""A legacy database of any size, written, read and planned: all counts as planted, in little memory.

    python -m tests.prove.legacy_sizes --records 1000000 [--mebibytes 300] [--format "packed dump"]

Prints documents a second and the most memory that the process used. Writing, and counting what was planted, aren't included:
a separate process does that.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import resource
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from memory_sql.importers.drafts import ObservationDraft
from memory_sql.importers.mongo.sources.dump import DumpSource
from memory_sql.importers.mongo.sources.extended_json import ExtendedJsonSource
from memory_sql.importers.mongo.sources.source import Source
from tests.legacy.formats import FORMATS
from tests.legacy.generator import Legacy, Manifest
from tests.legacy.surveying import Surveyed, spooled, surveyed

COPIES = 20


def main() -> int:
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--records", type=int, default=1_000_000)
    asked.add_argument("--mebibytes", type=int, default=300, help="most memory of the process")
    asked.add_argument("--format", choices=list(FORMATS), default="dump")
    options = asked.parse_args()
    with tempfile.TemporaryDirectory() as folder, multiprocessing.get_context("spawn").Pool(1) as other:
        with timed("writing"):
            manifest = other.apply(written, (folder, options.format, options.records))
        source: Source = (DumpSource if "dump" in options.format else ExtendedJsonSource)(Path(folder))
        wrong = asyncio.run(planned(source, manifest))
    peak = most_memory() // 1024
    print(f"{peak} MiB at the most")
    if peak > options.mebibytes:
        wrong.append(f"more memory than {options.mebibytes} MiB")
    print(*wrong, sep="\n")
    return 1 if wrong else 0


def most_memory() -> int:
    """KiB of this program. What the kernel counts for the process is that of whoever started it, too, where that was more."""
    status = Path("/proc/self/status")
    if not status.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    (line,) = (line for line in status.read_text().splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1])


def written(folder: str, form: str, records: int) -> Manifest:
    legacy = Legacy.of_records(records, copies=COPIES)
    FORMATS[form](Path(folder), legacy.collections())
    return legacy.manifest()


async def planned(source: Source, manifest: Manifest) -> list[str]:
    with spooled() as spool:
        begun = time.perf_counter()
        found = await surveyed(source, spool)
        print(f"{sum(found.accounts.source.values()) / (time.perf_counter() - begun):,.0f} documents read a second")
        begun = time.perf_counter()
        rows = sum(isinstance(row, ObservationDraft) for scope in found.scopes() for row in found.plan.rows(scope))
        print(f"{rows / (time.perf_counter() - begun):,.0f} of {rows:,} observations given out a second")
        return list(differing(found, manifest))


def differing(found: Surveyed, manifest: Manifest) -> Iterator[str]:
    accounts = found.accounts
    for name in ("source", "outcomes", "anomalies"):
        if getattr(accounts, name) != getattr(manifest, name):
            yield f"{name} aren't as planted: {getattr(accounts, name) - getattr(manifest, name)} more"
    for collection in accounts.unaccounted():
        yield f"{collection} doesn't add up"


@contextmanager
def timed(what: str) -> Iterator[None]:
    begun = time.perf_counter()
    yield
    print(f"{what}: {time.perf_counter() - begun:.1f} s")


if __name__ == "__main__":
    sys.exit(main())
