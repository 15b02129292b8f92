"""`make bench`: runs all benchmarks in this folder, or those that are named: `python -m benchmarks hot_paths`.

Some take options when they are run by themselves: `python -m benchmarks.scale --help`.
"""

from __future__ import annotations

import asyncio
import sys
from importlib import import_module
from pathlib import Path

HELPERS = {"aged", "crowd", "played", "server", "town", "traps", "wire"}  # traps needs requirements.txt


def names() -> list[str]:
    return sorted(path.stem for path in Path(__file__).parent.glob("[a-z]*.py") if path.stem not in HELPERS)


def main() -> None:
    unknown = [name for name in sys.argv[1:] if name not in names()]
    if unknown:
        sys.exit(f"no such benchmark: {', '.join(unknown)}; there are {', '.join(names())}")
    for name in sys.argv[1:] or names():
        print(f"# {name}")
        asyncio.run(import_module(f"benchmarks.{name}").main())


if __name__ == "__main__":
    main()
