"""The wheel, built once, and an environment in which it is installed."""

from __future__ import annotations

import sys
import venv
from importlib.metadata import PathDistribution
from pathlib import Path

import pytest

from tests.acceptance.bare import Bare, closure, link, pip, run

CHECKOUT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    built = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", built, CHECKOUT, cwd=built)
    [file] = built.glob("*.whl")
    return file


@pytest.fixture(scope="session")
def bare(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Bare:
    made = Bare(tmp_path_factory.mktemp("bare"), tmp_path_factory.mktemp("elsewhere"))
    venv.create(made.root, symlinks=True)
    install = ("install", "--no-deps", "--no-index", "--quiet", "--disable-pip-version-check", wheel)
    run(*pip(), "--python", made.root / "bin/python", *install, cwd=made.elsewhere)
    [info] = made.site.glob("memory_sql-*.dist-info")
    for needed in closure(PathDistribution(info).requires or ()):
        link(needed, made.site)
    return made
