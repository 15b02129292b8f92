"""A bare environment outside the checkout: the built wheel, and what its metadata requires.

pip installs the wheel into a new virtual environment with `--no-deps`. The dependencies that the wheel's metadata names,
without extras, and their own dependencies are linked in from the environment that runs the tests. So nothing is
downloaded, and importing something undeclared fails.
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.metadata import Distribution, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement


def run(*command: str | Path, cwd: Path, code: int = 0) -> str:
    """What it prints, with rules for a model, and nothing in its environment that would lead back to the checkout."""
    ours = ("MEMORY_SQL_", "OPENAI_", "PYTHON", "VIRTUAL_ENV")
    environ = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    environ["MEMORY_SQL_LLM"] = "offline"
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60, cwd=cwd, env=environ)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


@dataclass(frozen=True)
class Bare:
    """A virtual environment with the wheel, and a directory that is empty."""

    root: Path
    elsewhere: Path

    @property
    def site(self) -> Path:
        return Path(sysconfig.get_path("purelib", "venv", {"base": str(self.root), "platbase": str(self.root)}))

    def python(self, script: str, *arguments: str, code: int = 0) -> str:
        return run(self.root / "bin/python", "-c", script, *arguments, cwd=self.elsewhere, code=code)

    def memory_sql(self, *arguments: str | Path, code: int = 0) -> str:
        return run(self.root / "bin/memory-sql", *arguments, cwd=self.elsewhere, code=code)


def pip() -> tuple[str, ...]:
    """Of this environment; where Debian left it out, of the interpreter behind, as the Makefile does."""
    for python in (sys.executable, getattr(sys, "_base_executable", sys.executable)):
        if subprocess.run((python, "-m", "pip", "--version"), check=False, capture_output=True).returncode == 0:
            return (python, "-m", "pip")
    pytest.skip("needs pip in this environment or in the interpreter that it was made with")


def closure(requirements: Iterable[str]) -> list[Distribution]:
    """What these requirements, given without extras, install."""
    found: dict[str, Distribution] = {}
    waiting = list(requirements)
    while waiting:
        wanted = Requirement(waiting.pop())
        if wanted.name not in found and (wanted.marker is None or wanted.marker.evaluate({"extra": ""})):
            found[wanted.name] = distribution(wanted.name)
            waiting += found[wanted.name].requires or ()
    return list(found.values())


def link(installed: Distribution, site: Path) -> None:
    for name in {file.parts[0] for file in installed.files or ()} - {"..", "__pycache__"}:
        if not (site / name).exists():
            (site / name).symlink_to(str(installed.locate_file(name)))
