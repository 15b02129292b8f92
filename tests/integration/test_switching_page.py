"""docs/switching.md: its examples run."""

from __future__ import annotations

import pytest

from memory_sql.backends import RoutingBackend, memory_service
from memory_sql.memory import Memory
from tests.fakes import Scripted, extracted
from tests.hosts import AGENT, MIA, Legacy, Person, Session, examples


async def test_host_changes_an_import_and_can_turn_back(
    memory: Memory,
    llm: Scripted,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names = examples()
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
