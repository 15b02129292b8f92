"""Installs what is published, alone, on each Python from 3.11 on that there is, and lets it remember something.

    python -m tests.prove.installed dist/*.whl dist/*.tar.gz [--version 0.1.0]

The wheel on every Python, the source distribution on the first. Dependencies come from where pip gets them. Each has a schema
of its own in the database that MEMORY_SQL_TEST_URL names, and takes it away again.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import memory_sql

PYTHONS = ("python3.11", "python3.12", "python3.13", "python3.14")
DROP = "DROP SCHEMA IF EXISTS {} CASCADE"
SAID = "My dog is called Quetzal."
FILES = (
    "py.typed",
    "formation/prompt.md",
    "db/sql/adding/add_messages.sql",
    "languages/german.toml",
    "migrations/env.py",
    "migrations/versions/2026-11-22-1600_first_schema/tables.sql",
    "server/pages",
)
HOLDS = """
import pathlib, sys, memory_sql

place = pathlib.Path(memory_sql.__file__).parent
print(*(name for name in sys.argv[1:] if not (place / name).exists()))
"""
DROPS = """
import asyncio, sys, asyncpg

async def drop():
    connection = await asyncpg.connect(sys.argv[1])
    await connection.execute(sys.argv[2])
    await connection.close()

asyncio.run(drop())
"""


def interpreters() -> list[str]:
    """Those that start: a shim may be there for one that isn't."""
    found = [path for name in PYTHONS if (path := shutil.which(name)) is not None]
    return [
        path for path in found if subprocess.run((path, "-c", ""), check=False, capture_output=True).returncode == 0
    ]


def run(*command: str | Path, cwd: Path, **more: str) -> str:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("MEMORY_SQL_", "PYTHON"))}
    done = subprocess.run(
        command, check=False, capture_output=True, text=True, cwd=cwd, env={**inherited, **more}, timeout=600
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done.stdout


def tried(python: str, package: Path, url: str, version: str) -> str:
    """What it says of its version, after all that is asked of it."""
    with TemporaryDirectory() as folder:
        place = Path(folder)
        run(python, "-m", "venv", place / "venv", cwd=place)
        own, command = place / "venv/bin/python", place / "venv/bin/memory-sql"
        run(own, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", package, cwd=place)
        said = run(command, "--version", cwd=place).strip()
        if said != f"memory-sql {version}":
            raise SystemExit(f"{package.name} says that it is {said}")
        if missing := run(own, "-c", HOLDS, *FILES, cwd=place).strip():
            raise SystemExit(f"{package.name} lacks {missing}")
        remember(own, command, place, url)
    return said


def remember(python: Path, command: Path, place: Path, url: str) -> None:
    schema = f"installed_{os.getpid()}"
    drop = (python, "-c", DROPS, url, DROP.format(schema))
    settings = {"MEMORY_SQL_URL": url, "MEMORY_SQL_SCHEMA": schema, "MEMORY_SQL_LLM": "offline"}
    mia = ("--agent", "ada", "--user", "mia")
    run(*drop, cwd=place)
    try:
        run(command, "db", "upgrade", cwd=place, **settings)
        run(command, "observe", SAID, *mia, cwd=place, **settings)
        if SAID not in run(command, "context", *mia, cwd=place, **settings):
            raise SystemExit("it doesn't remember")
        run(command, "admin", "verify", cwd=place, **settings)
    finally:
        run(*drop, cwd=place)


def main() -> None:
    asked = argparse.ArgumentParser(description="Tries packages on each Python that there is.")
    asked.add_argument("packages", nargs="+", type=Path)
    asked.add_argument("--version", default=memory_sql.__version__)
    given = asked.parse_args()
    url = os.environ.get("MEMORY_SQL_TEST_URL")
    if url is None:
        raise SystemExit("MEMORY_SQL_TEST_URL has to name a database")
    pythons = interpreters() or [sys.executable]
    for package in given.packages:
        for python in pythons if package.suffix == ".whl" else pythons[:1]:
            said = tried(python, package.resolve(), url, given.version)
            sys.stdout.write(f"{package.name} on {Path(python).name}: {said}\n")


if __name__ == "__main__":
    main()
