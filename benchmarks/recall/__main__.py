"""`python -m benchmarks.recall --data DIR`: which of the systems find the turns that answer the questions.

Our own searches run first, then the others, one after the other, on one server. `--ablate all` (or names of weights,
separated by commas) removes one part of our ranking at a time.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.recall.ablation import Ablated, AblationError, ablate, check
from benchmarks.recall.data import DataError, Dataset, read
from benchmarks.recall.report import Report, as_json, markdown, picture, text
from benchmarks.recall.run import Measured, measure
from benchmarks.recall.systems import OWN, SYSTEMS
from benchmarks.server import has_extension, server


class LackingError(Exception):
    """The server lacks something that a system needs."""


def _names(value: str) -> list[str]:
    return [name.strip() for name in value.split(",") if name.strip()]


def _systems(value: str) -> list[str]:
    names = _names(value)
    unknown = set(names) - set(SYSTEMS)
    if unknown or not names:
        raise argparse.ArgumentTypeError(f"choose of {', '.join(SYSTEMS)}")
    return names


def _positive(value: str) -> int:
    if not value.isdecimal() or int(value) < 1:
        raise argparse.ArgumentTypeError("a number from 1 on")
    return int(value)


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.recall", description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder with conv-*.jsonl and questions.jsonl")
    parser.add_argument("--system", type=_systems, default=list(SYSTEMS), help=f"of {','.join(SYSTEMS)}")
    parser.add_argument("--limit", type=_positive, help="ask only so many questions, evenly spread")
    parser.add_argument("--ablate", type=_names, default=[], help="'all' or names of weights: what each is worth")
    parser.add_argument("--json", type=Path, help="write everything that was measured to this file")
    parser.add_argument("--plot", type=Path, help="write recall@5 to this file, as SVG")
    parser.add_argument("--markdown", action="store_true", help="print the tables as Markdown")
    options = parser.parse_args(given)
    if options.ablate and not set(OWN).intersection(options.system):
        parser.error(f"--ablate takes out parts of our own ranking: --system needs one of {', '.join(OWN)}")
    return options


async def run(options: argparse.Namespace, dataset: Dataset) -> Report:
    measured: list[Measured] = []
    ablated: list[Ablated] = []
    missing: dict[str, str] = {}
    if options.ablate:
        check(options.ablate)
    with server() as url:
        for name in options.system:
            try:
                measured += await _measure(name, dataset, url)
            except ModuleNotFoundError as error:
                missing[name] = f"not installed: {error.name}"
            except LackingError as error:
                missing[name] = str(error)
        answered = {run.system for run in measured if not run.answers.is_empty}
        for name in (name for name in OWN if name in answered and options.ablate):
            ablated += await ablate(name, options.ablate, dataset, url)
    return Report(dataset, measured, missing, ablated)


async def _measure(name: str, dataset: Dataset, url: str) -> list[Measured]:
    """In each form. Raises `LackingError`, `ModuleNotFoundError`."""
    system, measured = SYSTEMS[name], []
    if system.extension and not await has_extension(url, system.extension):
        raise LackingError(f"no extension: {system.extension}")
    for form in system.forms:
        measured.append(await measure(name, system, form, dataset, url))
        print(f"{name}, {form}: done", file=sys.stderr)
    return measured


def main() -> int:
    options = arguments()
    try:
        dataset = read(options.data, options.limit)
        report = asyncio.run(run(options, dataset))
    except (DataError, AblationError) as error:
        print(error, file=sys.stderr)
        return 1
    print(f"{len(dataset.turns):,} turns, {len(dataset.questions):,} questions with evidence\n")
    print(markdown(report) if options.markdown else text(report))
    if options.json:
        options.json.write_text(json.dumps(as_json(report), indent=2) + "\n", "utf-8")
    if options.plot:
        options.plot.write_text(picture(report), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
