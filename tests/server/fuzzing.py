"""Schemathesis against a running server."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
CONFIG = Path(__file__).parent / "schemathesis.toml"
CASES = re.compile(r"([\d,]+) generated")


def cases(report: str) -> int:
    """How many requests it has made up."""
    found = CASES.search(report)
    return int(found[1].replace(",", "")) if found else 0


async def fuzzed(url: str, key: str | None, examples: int, *options: str) -> tuple[int, str]:
    """Its exit code, 0 where nothing was found, and what it printed."""
    headers = [] if key is None else ["--header", f"Authorization: Bearer {key}"]
    command = [
        sys.executable, "-m", "schemathesis.cli", "--config-file", str(CONFIG), "run", f"{url}/openapi.json", *headers,
        "--max-examples", str(examples), "--seed", "1", "--no-color", "--warnings", "off", *options,
    ]  # fmt: skip
    environ = {
        **os.environ,
        "SCHEMATHESIS_HOOKS": "tests.server.formats",
        "PYTHONPATH": str(ROOT),
        "PYTHONWARNINGS": "",
    }
    running = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT, env=environ, cwd=ROOT
    )
    out, _ = await running.communicate()
    return running.returncode or 0, out.decode()
