"""Type checking a host's code against the wheel: mypy and pyright, both strict, without plugins."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.acceptance.bare import Bare

HERE = Path(__file__).parent
SAMPLE = HERE / "host_sample.py"
MISTAKES = HERE / "host_mistakes.txt"  # no .py: what checks this project would complain as well
COMPLAINT = re.compile(r"(host_\w+\.py):(\d+)(?::\d+)?(?: -)?:? error\b.*")

pytestmark = pytest.mark.slow

Complaints = dict[str, dict[int, str]]


def mypy(python: Path, folder: Path) -> list[str]:
    settings = ["--strict", "--config-file", "", "--cache-dir", str(folder / "cache")]
    return ["mypy", *settings, "--python-executable", str(python)]


def pyright(python: Path, folder: Path) -> list[str]:
    (folder / "pyrightconfig.json").write_text('{"typeCheckingMode": "strict"}')
    return ["pyright", "--project", str(folder), "--pythonpath", str(python)]


@pytest.fixture(scope="module", params=[mypy, pyright], ids=["mypy", "pyright"])
def complaints(request: pytest.FixtureRequest, bare: Bare, tmp_path_factory: pytest.TempPathFactory) -> Complaints:
    """The first complaint of each line, by file."""
    checker: Callable[[Path, Path], list[str]] = request.param
    folder = tmp_path_factory.mktemp("host")
    files = [str(shutil.copy(file, folder / f"{file.stem}.py")) for file in (SAMPLE, MISTAKES)]
    command = [sys.executable, "-m", *checker(bare.root / "bin/python", folder), *files]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=300, cwd=folder)
    assert done.returncode == 1, done.stdout + done.stderr
    found: Complaints = {"host_sample.py": {}, "host_mistakes.py": {}}
    for complaint in COMPLAINT.finditer(done.stdout):
        found[complaint[1]].setdefault(int(complaint[2]), complaint[0])
    return found


def test_a_hosts_code_has_no_errors(complaints: Complaints) -> None:
    assert complaints["host_sample.py"] == {}


def test_mistakes_are_errors(complaints: Complaints) -> None:
    lines = MISTAKES.read_text("utf-8").splitlines()
    wrong = {number for number, line in enumerate(lines, 1) if line.endswith("# wrong")}
    assert set(complaints["host_mistakes.py"]) == wrong
