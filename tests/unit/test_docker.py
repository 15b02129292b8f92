"""docker/: what can be checked of an image and a composition without an engine."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sysconfig
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from sqlalchemy import make_url

from memory_sql.worker import GIVE_BACK_SECONDS, GRACE_SECONDS, TELL_SECONDS

ROOT = Path(__file__).parents[2]
DOCKERFILE = ROOT / "docker" / "Dockerfile"
COMPOSE = ROOT / "docker" / "compose.yaml"


def read_instructions(text: str) -> list[tuple[str, str]]:
    """The instructions of a Dockerfile in order, continued lines joined: ("FROM", "python:3.13-slim AS build")."""
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    joined = "\n".join(lines).replace("\\\n", " ")
    return [
        (word.upper(), rest.strip()) for word, _, rest in (line.strip().partition(" ") for line in joined.splitlines())
    ]


@pytest.fixture(scope="module")
def instructions() -> list[tuple[str, str]]:
    return read_instructions(DOCKERFILE.read_text("utf-8"))


@pytest.fixture(scope="module")
def services() -> dict[str, Any]:
    composition = yaml.safe_load(COMPOSE.read_text("utf-8"))
    assert isinstance(composition["services"], dict)
    return composition["services"]


def stages(instructions: list[tuple[str, str]]) -> list[list[tuple[str, str]]]:
    starts = [number for number, (word, _) in enumerate(instructions) if word == "FROM"]
    return [instructions[start:end] for start, end in zip(starts, [*starts[1:], None], strict=True)]


def pinned(image: str) -> bool:
    name, colon, tag = image.rpartition("/")[2].partition(":")
    return bool(name and colon and tag) and tag != "latest"


def test_instructions_are_joined_over_continued_lines() -> None:
    assert read_instructions("# a\nFROM x:1\nRUN a \\\n    && b\n") == [("FROM", "x:1"), ("RUN", "a      && b")]


@pytest.mark.parametrize(("image", "expected"), [("a/b:pg18", True), ("host:5000/b", False), ("b:latest", False)])
def test_pinned_reads_the_tag_and_not_the_port(image: str, expected: bool) -> None:
    assert pinned(image) is expected


def test_base_images_name_a_version(instructions: list[tuple[str, str]]) -> None:
    assert instructions[0][0] == "FROM"
    for stage in stages(instructions):
        assert pinned(stage[0][1].split()[0])


def test_image_is_built_in_stages_and_the_last_one_runs_as_an_ordinary_user(
    instructions: list[tuple[str, str]],
) -> None:
    last = stages(instructions)[-1]
    users = [rest for word, rest in last if word == "USER"]
    assert len(stages(instructions)) > 1
    assert users
    assert users[-1].split(":")[0] not in {"root", "0"}
    assert last.index(("USER", users[-1])) > max(number for number, (word, _) in enumerate(last) if word == "RUN")


def test_image_starts_the_command_line_without_a_shell(instructions: list[tuple[str, str]]) -> None:
    assert ("ENTRYPOINT", '["memory-sql"]') in stages(instructions)[-1]


def test_nothing_is_fetched_by_add(instructions: list[tuple[str, str]]) -> None:
    assert not [rest for word, rest in instructions if word == "ADD"]


def test_what_is_copied_exists_and_passes_the_ignore_file(instructions: list[tuple[str, str]]) -> None:
    allowed = {
        line.removeprefix("!")
        for line in (DOCKERFILE.parent / "Dockerfile.dockerignore").read_text("utf-8").splitlines()
        if line.startswith("!")
    }
    names = [stage[0][1].split()[-1] for stage in stages(instructions)]
    for word, rest in instructions:
        if word != "COPY":
            continue
        *sources, _ = [part for part in shlex.split(rest) if not part.startswith("--")]
        stage = next((part.removeprefix("--from=") for part in shlex.split(rest) if part.startswith("--from=")), None)
        if stage is not None:
            assert stage in names
            continue
        for source in sources:
            assert (ROOT / source).exists(), source
            assert source in allowed, source


def test_build_stage_copies_all_that_the_wheel_is_made_of(instructions: list[tuple[str, str]]) -> None:
    copied = {part for word, rest in stages(instructions)[0] if word == "COPY" for part in shlex.split(rest)}
    made_of = {"pyproject.toml", "hatch_build.py", "README.md", "LICENSE", "memory_sql", "migrations", "examples"}
    assert made_of <= copied


def test_linter_finds_nothing_in_the_dockerfile() -> None:
    linter = shutil.which("hadolint", path=sysconfig.get_path("scripts"))
    if linter is None:
        pytest.skip("hadolint has no package for this platform")
    linted = subprocess.run([linter, str(DOCKERFILE)], capture_output=True, text=True, check=False)
    assert (linted.returncode, linted.stdout) == (0, "")


def test_image_is_healthy_while_the_worker_writes_its_file(instructions: list[tuple[str, str]], tmp_path: Path) -> None:
    last = stages(instructions)[-1]
    (environment,) = (rest for word, rest in last if word == "ENV")
    (check,) = (rest for word, rest in last if word == "HEALTHCHECK")
    assert "MEMORY_SQL_HEALTH_FILE=/tmp/memory-sql.health" in environment
    command = json.loads(check[check.index("CMD ") + 4 :])
    file = tmp_path / "health"
    told = []
    for age in (None, 5, 300):
        if age is not None:
            file.write_text("{}")
            os.utime(file, (time.time() - age, time.time() - age))
        ran = subprocess.run(command, env={**os.environ, "MEMORY_SQL_HEALTH_FILE": str(file)}, capture_output=True)
        told.append(ran.returncode == 0)
    assert told == [False, True, False]
    assert 2 * TELL_SECONDS < 60


def test_image_brings_the_encoder_metrics_and_the_client_of_the_model(instructions: list[tuple[str, str]]) -> None:
    (installed,) = (rest for word, rest in stages(instructions)[-1] if word == "RUN" and "pip install" in rest)
    extras = re.search(r"\[([\w,]+)\]", installed)
    assert extras is not None
    assert set(extras.group(1).split(",")) == {"openai", "server", "telemetry", "vector"}


def test_services_are_an_image_or_a_build_of_this_checkout(services: dict[str, Any]) -> None:
    assert set(services) == {"postgres", "migrate", "roles", "worker", "serve"}
    for service in services.values():
        if "build" not in service:
            assert pinned(service["image"])
            continue
        context = (COMPOSE.parent / service["build"]["context"]).resolve()
        assert context == ROOT
        assert context / service["build"]["dockerfile"] == DOCKERFILE


def test_postgres_has_a_health_check_and_a_volume_for_its_data(services: dict[str, Any]) -> None:
    postgres = services["postgres"]
    check = postgres["healthcheck"]
    assert postgres["image"] == "postgres:18"
    assert check["test"][:2] == ["CMD", "pg_isready"]
    assert {"interval", "timeout", "retries"} <= set(check)
    assert "postgres:/var/lib/postgresql" in postgres["volumes"]
    assert "postgres" in yaml.safe_load(COMPOSE.read_text("utf-8"))["volumes"]


def test_postgres_is_reachable_from_this_machine_only(services: dict[str, Any]) -> None:
    assert all(port.startswith("127.0.0.1:") for port in services["postgres"]["ports"])


def test_schema_then_roles_are_brought_up_to_date_once_and_wait_for_locks(services: dict[str, Any]) -> None:
    steps = {"migrate": ("upgrade", {"postgres": {"condition": "service_healthy"}})}
    steps["roles"] = ("roles", {"migrate": {"condition": "service_completed_successfully"}})
    for name, (command, after) in steps.items():
        service = services[name]
        assert service["command"] == ["db", command, "--wait", "300"]
        assert service["depends_on"] == after
        assert service["restart"] == "no"
        assert service["healthcheck"] == {"disable": True}
        assert service["environment"]["MEMORY_SQL_URL"] == "postgresql://memory@postgres:5432/memory"


def test_worker_waits_for_the_roles_and_is_given_time_to_end(services: dict[str, Any]) -> None:
    worker, migrate = services["worker"], services["migrate"]
    assert worker["command"][0] == "worker"
    assert worker["depends_on"] == {"roles": {"condition": "service_completed_successfully"}}
    assert worker["image"] == migrate["image"]
    assert int(worker["stop_grace_period"].removesuffix("s")) > GRACE_SECONDS + GIVE_BACK_SECONDS
    assert worker["restart"] == "unless-stopped"
    port = worker["command"][worker["command"].index("--health-port") + 1]
    assert worker["expose"] == [port]


def test_application_is_no_superuser_and_knows_no_superuser_s_password(services: dict[str, Any]) -> None:
    told = {name: yaml.safe_dump(service) for name, service in services.items()}
    assert all("memory_service@" in told[name] for name in ("worker", "serve"))
    assert {name for name in told if "POSTGRES_PASSWORD" in told[name]} == {"postgres", "migrate", "roles"}
    assert {name for name in told if "MEMORY_PASSWORD" in told[name]} == {"postgres", "worker", "serve"}


def test_no_password_stands_in_a_url(services: dict[str, Any]) -> None:
    for service in services.values():
        url = service["environment"].get("MEMORY_SQL_URL", "")
        assert make_url(url).password is None if url else True


def test_any_setting_can_be_passed_through(services: dict[str, Any]) -> None:
    for name in ("migrate", "roles", "worker"):
        assert services[name]["env_file"] == [{"path": "settings.env", "required": False}]
