"""What survives: a row for each accident, a column for each system that is installed, and a line on how it came about.

The systems need what `benchmarks/requirements.txt` names, and not all of them can share an environment. With `--beside
FILE` the results are kept in a file, and those of earlier runs, from other environments, are printed beside.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.server import has_extension, server
from benchmarks.survival.scenarios import SCENARIOS, Outcome, Patience, child, judged
from benchmarks.survival.system import Known, Place
from benchmarks.survival.systems import KNOWN

Columns = dict[str, dict[str, Outcome]]  # by system with its versions, then by accident


def titled(known: Known) -> str:
    return f"{known.name} ({known.version()})"


async def main(systems: Sequence[str], accidents: Sequence[str], patience: Patience, beside: Path | None) -> None:
    columns = earlier(beside)
    with server() as there:
        if not await has_extension(there, "vector"):
            print("the others need pgvector, which this server doesn't have")
            return
        for known in map(KNOWN.__getitem__, systems):
            if not known.is_there():
                print(f"{known.name} isn't installed: see benchmarks/requirements.txt")
                continue
            column = columns.setdefault(titled(known), {})
            for name in accidents:
                column[name] = await tried(known, name, there, patience)
                print(f"{known.name}, {name}: {'. '.join(filter(None, column[name]))}", flush=True)
            keep(beside, columns)
    print(f"\n{datetime.now(UTC):%Y-%m-%d}\n\n{table(columns)}")


def earlier(beside: Path | None) -> Columns:
    if beside is None or not beside.exists():
        return {}
    kept = json.loads(beside.read_text())
    return {title: {name: Outcome(*one) for name, one in column.items()} for title, column in kept.items()}


def keep(beside: Path | None, columns: Columns) -> None:
    if beside is not None:
        beside.write_text(json.dumps(columns, indent=1))


async def tried(known: Known, name: str, there: str, patience: Patience) -> Outcome:
    try:
        return await judged(known, SCENARIOS[name], there, patience)
    except Exception as error:
        logging.getLogger(__name__).exception("%s, %s", known.name, name)
        return Outcome("couldn't be run", f"{type(error).__name__}: {str(error).splitlines()[:1]}")


def table(columns: Columns) -> str:
    """In Markdown: the words of each outcome, then the lines on how each came about."""
    rows = [name for name in SCENARIOS if any(name in column for column in columns.values())]
    lines = ["| | " + " | ".join(columns) + " |", "|---" * (len(columns) + 1) + "|"]
    for name in rows:
        lines.append(
            f"| {name} | " + " | ".join(column.get(name, Outcome("–")).words for column in columns.values()) + " |"
        )
    for name in rows:
        lines += ["", f"{name}:"]
        lines += [f"- {title}: {column[name].detail}" for title, column in columns.items() if name in column]
    return "\n".join(lines)


def chosen() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.survival", description=__doc__)
    parser.add_argument("--system", action="append", choices=KNOWN, help="all that are installed, if none is named")
    parser.add_argument("--accident", action="append", choices=SCENARIOS, help="all, if none is named")
    parser.add_argument("--outage", type=float, default=Patience.outage_seconds, help="seconds without a model")
    parser.add_argument("--patience", type=float, default=Patience.afterwards_seconds, help="seconds for later work")
    parser.add_argument(
        "--beside", type=Path, metavar="FILE", help="keeps the results, and shows those of earlier runs"
    )
    parser.add_argument("--child", choices=KNOWN, help=argparse.SUPPRESS)
    parser.add_argument("--place", help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    logging.basicConfig(level=logging.CRITICAL)  # failures are what is asked for
    given = chosen()
    if given.child:
        told = json.loads(given.place)
        asyncio.run(child(KNOWN[given.child], Place(told["url"], Path(told["folder"]), told["model"])))
    else:
        waited = Patience(given.outage, given.patience)
        asyncio.run(main(given.system or list(KNOWN), given.accident or list(SCENARIOS), waited, given.beside))
