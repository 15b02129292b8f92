"""docker/: what can be told about an image and a composition without an engine."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml

from memory_sql.worker import GIVE_BACK_SECONDS, GRACE_SECONDS

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
    assert {"pyproject.toml", "README.md", "LICENSE", "memory_sql", "migrations", "examples"} <= copied


def test_services_are_an_image_or_a_build_of_this_checkout(services: dict[str, Any]) -> None:
    assert set(services) == {"postgres", "migrate", "worker"}
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


def test_schema_is_upgraded_once_and_only_when_postgres_is_healthy(services: dict[str, Any]) -> None:
    migrate = services["migrate"]
    assert migrate["command"] == ["db", "upgrade"]
    assert migrate["depends_on"] == {"postgres": {"condition": "service_healthy"}}
    assert migrate["restart"] == "no"
    assert "@postgres:5432/memory" in migrate["environment"]["MEMORY_SQL_URL"]


def test_worker_waits_for_the_schema_and_is_given_time_to_end(services: dict[str, Any]) -> None:
    worker, migrate = services["worker"], services["migrate"]
    assert worker["command"] == ["worker"]
    assert worker["depends_on"] == {"migrate": {"condition": "service_completed_successfully"}}
    assert worker["environment"]["MEMORY_SQL_URL"] == migrate["environment"]["MEMORY_SQL_URL"]
    assert worker["image"] == migrate["image"]
    assert int(worker["stop_grace_period"].removesuffix("s")) > GRACE_SECONDS + GIVE_BACK_SECONDS
    assert worker["restart"] == "unless-stopped"
