"""The workflows of `.github`: they can be read, run only what the Makefile has, and publish what was built and tried."""

from __future__ import annotations

import re
import shlex
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
WORKFLOWS = {path.stem: yaml.safe_load(path.read_text("utf-8")) for path in (ROOT / ".github/workflows").glob("*.yml")}
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
PINNED = re.compile(r"[\w.-]+/[\w.-]+@v\d+\.\d+\.\d+")


def jobs() -> list[tuple[str, Any]]:
    return [(f"{name}/{job}", of) for name, one in WORKFLOWS.items() for job, of in one["jobs"].items()]


def steps(job: Any) -> list[Any]:
    found: list[Any] = job["steps"]
    return found


def commands(job: Any) -> list[str]:
    return [line for step in steps(job) for line in step.get("run", "").splitlines()]


def test_both_are_there() -> None:
    assert sorted(WORKFLOWS) == ["ci", "release"]


@pytest.mark.parametrize(("name", "job"), jobs(), ids=[name for name, _ in jobs()])
def test_job_runs_targets_of_the_makefile_and_actions_of_one_version(name: str, job: Any) -> None:
    for command in commands(job):
        program, *words = shlex.split(command)
        assert program == "make"
        assert {word for word in words if "=" not in word} <= TARGETS
    assert [step["uses"] for step in steps(job) if "uses" in step and not PINNED.fullmatch(step["uses"])] == []
    assert all(("run" in step) != ("uses" in step) for step in steps(job))


def test_tests_run_on_what_the_package_and_the_docs_promise() -> None:
    matrix = WORKFLOWS["ci"]["jobs"]["test"]["strategy"]["matrix"]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    promised = [found[1] for line in project["classifiers"] if (found := re.search(r":: (3\.\d+)$", line))]
    assert matrix["python"] == promised
    assert matrix["postgres"] == ["15", "16", "17", "18"]


def test_only_what_was_built_and_tried_is_published_and_by_no_password() -> None:
    build, publish = (WORKFLOWS["release"]["jobs"][name] for name in ("build", "publish"))
    assert any(command.startswith("make dist") for command in commands(build))
    assert (publish["needs"], publish["permissions"]) == ("build", {"id-token": "write"})
    assert publish["environment"]
    assert [step["uses"].partition("@")[0] for step in steps(publish)] == [
        "actions/download-artifact",
        "pypa/gh-action-pypi-publish",
    ]
    assert WORKFLOWS["release"][True] == {"push": {"tags": ["v*"]}}  # YAML reads `on` as true
    assert all("secrets." not in path.read_text("utf-8") for path in (ROOT / ".github/workflows").glob("*.yml"))
    assert "id-token" not in str(build.get("permissions"))
