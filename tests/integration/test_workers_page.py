"""docs/workers.md: its examples can be parsed, and those that can run here are run."""

from __future__ import annotations

import asyncio
import configparser
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from procrastinate.exceptions import AlreadyEnqueued
from sqlalchemy import make_url

from memory_sql.config import Settings
from memory_sql.memory import Memory
from memory_sql.worker import GIVE_BACK_SECONDS, GRACE_SECONDS
from tests.commands import commands
from tests.factories import message

PAGE = (Path(__file__).parents[2] / "docs" / "workers.md").read_text("utf-8")
SECONDS = 30.0


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def example(word: str) -> dict[str, Any]:
    """The names that the example with this word makes, as a module."""
    (code,) = [block for block in blocks("python") if word in block]
    names: dict[str, Any] = {"__name__": "harbour"}
    exec(compile(code, "docs/workers.md", "exec"), names)
    return names


@pytest.fixture
def environment(database_url: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """As a deployment would have it: a URL that libpq and we understand, and a model."""
    url = make_url(database_url).set(drivername="postgresql").render_as_string(hide_password=False)
    monkeypatch.setenv("MEMORY_SQL_URL", url)
    monkeypatch.setenv("MEMORY_SQL_LLM", "offline")
    return url


@pytest.fixture
async def memory(environment: str, settings: Settings) -> Any:
    async with Memory(environment, settings=settings) as opened:
        await opened.add([message("Actually, I prefer tea.")], agent_id="ada", user_id="mia", conversation_id="monday")
        yield opened


async def is_formed(memory: Memory) -> None:
    async with asyncio.timeout(SECONDS):
        while True:
            if await memory.observations.list(agent_id="ada", user_id="mia"):
                return
            await asyncio.sleep(0.01)


@pytest.mark.slow
@pytest.mark.open
@pytest.mark.direct
async def test_procrastinate_runs_it_by_its_clock(memory: Memory) -> None:
    app = example("procrastinate")["app"]
    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        worker = asyncio.create_task(app.run_worker_async(install_signal_handlers=False, listen_notify=False))
        await is_formed(memory)
        worker.cancel()
        await asyncio.wait({worker})


@pytest.mark.open
@pytest.mark.direct
async def test_procrastinate_runs_it_when_asked_and_piles_up_nothing(memory: Memory) -> None:
    names = example("procrastinate")
    app, remember = names["app"], names["remember"]
    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        await remember.defer_async(timestamp=0)
        with pytest.raises(AlreadyEnqueued):
            await remember.defer_async(timestamp=1)
        await app.run_worker_async(wait=False, install_signal_handlers=False, listen_notify=False)
        jobs = await app.job_manager.list_jobs_async()
    assert {job.status for job in jobs} == {"succeeded"}  # its clock may have added one
    assert await memory.observations.list(agent_id="ada", user_id="mia")


async def test_application_works_while_it_lives(memory: Memory) -> None:
    async with example("Worker(memory")["remembering"]():
        await is_formed(memory)


async def test_loop_of_ones_own_works(memory: Memory) -> None:
    work = asyncio.create_task(example("while True")["work"]())
    await is_formed(memory)
    work.cancel()
    await asyncio.wait({work})


def test_every_example_can_be_read() -> None:
    for code in blocks("python"):
        compile(code, "docs/workers.md", "exec")
    assert len(blocks("python")) == 4


def test_manifests_leave_a_worker_time_to_end() -> None:
    pods = [
        document["spec"]["template"] if document["kind"] == "Deployment"
        else document["spec"]["jobTemplate"]["spec"]["template"]
        for document in map(yaml.safe_load, blocks("yaml"))
    ]  # fmt: skip
    assert [pod["spec"]["containers"][0]["args"][0] for pod in pods] == ["worker", "worker"]
    for pod in pods:
        assert pod["spec"]["terminationGracePeriodSeconds"] > GRACE_SECONDS + GIVE_BACK_SECONDS


def test_unit_leaves_a_worker_time_to_end() -> None:
    (text,) = blocks("ini")
    unit = configparser.ConfigParser(interpolation=None)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read_string(text)
    assert unit["Service"]["ExecStart"].endswith("memory-sql worker")
    assert float(unit["Service"]["TimeoutStopSec"]) > GRACE_SECONDS + GIVE_BACK_SECONDS


def test_commands_settings_and_links_exist() -> None:
    known = {" ".join(command) for command in commands()}
    named = re.findall(r"memory-sql ([a-z]+(?: [a-z-]+)?)", PAGE)
    assert [one for one in named if one not in known and one.split()[0] not in known] == []
    settings = {f"MEMORY_SQL_{name.upper()}" for name in Settings.model_fields}
    assert set(re.findall(r"MEMORY_SQL_[A-Z_]+", PAGE)) <= settings
    anchors = {
        re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in re.findall(r"^#+ (.+)$", PAGE, re.M)
    }
    assert set(re.findall(r"\]\(#([\w-]+)\)", PAGE)) <= anchors
