"""docs/switching.md: its examples run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from memory_sql.backends import RoutingBackend, memory_service
from memory_sql.memory import Memory
from tests.fakes import Scripted, extracted
from tests.hosts import AGENT, MIA, Legacy, Person, Session
from tests.legacy.formats import load
from tests.legacy.homes import Home
from tests.legacy.server import stand_in

PAGE = (Path(__file__).parents[2] / "docs" / "switching.md").read_text("utf-8")


@pytest.fixture
def names() -> dict[str, Any]:
    """What the examples define."""
    found: dict[str, Any] = {}
    for code in re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL):
        exec(compile(code, "docs/switching.md", "exec"), found)
    return found


async def test_host_changes_an_import_and_can_turn_back(
    memory: Memory,
    llm: Scripted,
    names: dict[str, Any],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(memory_service, "backend", None)
    await memory.configure(agent_id=AGENT, engine="shadow")
    await names["start"](memory, Legacy("<MemoryContext>Mia keeps bees.</MemoryContext>"))
    session = Session()
    session.say(45)
    llm.then(extracted(("Mia keeps bees.", "individual")))
    assert "bees" in await names["turn"](session, Person(AGENT), Person(MIA))
    routing = memory_service.backend
    assert isinstance(routing, RoutingBackend)
    await names["differences"](routing, AGENT)
    assert capsys.readouterr().out.startswith("1 ")
    assert not routing.counts(AGENT).failed
    exported = await names["turn_back"](memory, AGENT, MIA)
    assert "Mia keeps bees." in [getattr(line, "content", None) for line in exported]
    assert await memory.admin.settings(agent_id=AGENT) == {"engine": "legacy"}


async def test_old_collections_stand_in_for_the_hosts_memory(memory: Memory, names: dict[str, Any]) -> None:
    home = Home(("page",))
    documents = {"users3": [home.person(home.user)], "memory_user": [home.blob()]}
    with stand_in() as url:
        await load(url, "old", documents.items())
        counts = await names["compare"](memory, url, "old", [str(home.session)], str(home.agent), str(home.user))
    assert (counts.contexts, counts.only_legacy, counts.only_sql, counts.failed) == (1, 2, 0, {})
