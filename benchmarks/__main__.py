"""`make bench`: runs all benchmarks in this folder, or those that are named: `python -m benchmarks hot_paths`."""

from __future__ import annotations

import asyncio
import sys
from importlib import import_module
from itertools import takewhile
from pathlib import Path

HELPERS = {"crowd", "played", "server", "wire"}


def names() -> list[str]:
    return sorted(path.stem for path in Path(__file__).parent.glob("[a-z]*.py") if path.stem not in HELPERS)


def main() -> None:
    named = list(takewhile(lambda word: not word.startswith("-"), sys.argv[1:]))
    for name in named or names():
        print(f"# {name}")
        asyncio.run(import_module(f"benchmarks.{name}").main())


if __name__ == "__main__":
    main()
