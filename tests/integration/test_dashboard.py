"""docker/grafana.json: every query of the dashboard runs in an analyst's role, and its panels find their columns."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from memory_sql.config import Settings
from memory_sql.db.roles import Roles, drop, make
from memory_sql.errors import UnavailableError
from memory_sql.memory import Memory
from tests import recycling
from tests.database import connect_once
from tests.factories import message
from tests.fakes import Parrot

BOARD: dict[str, Any] = json.loads((Path(__file__).parents[2] / "docker" / "grafana.json").read_text("utf-8"))
SETTINGS = Settings(formation_min_messages=1, consolidation_threshold=1)
ROLES = Roles.of("board_owner", "board_app", "board_analyst")
EMPTY = {"Propagation"}  # of one user, who shares nothing


def as_sent(sql: str) -> str:
    """With what Grafana puts in for its macros and the variable: of the last 30 days, of all agents."""
    sql = re.sub(r"\$__timeFilter\(([^()]*)\)", r"\1 BETWEEN now() - interval '30 days' AND now()", sql)
    return sql.replace("$agent", "'ada','eve'")


def queries() -> dict[str, dict[str, Any]]:
    return {panel["title"]: target for panel in BOARD["panels"] for target in panel["targets"]}


def test_panels_have_places_of_their_own_and_the_chosen_data_source() -> None:
    assert len({panel["id"] for panel in BOARD["panels"]}) == len(BOARD["panels"]) == len(queries())
    taken = set[tuple[int, int]]()
    for panel in BOARD["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken
        assert max(x for x, _ in cells) < 24
        taken |= cells
        assert panel["datasource"]["uid"] == panel["targets"][0]["datasource"]["uid"] == "${datasource}"
    assert [variable["name"] for variable in BOARD["templating"]["list"]] == ["datasource", "agent"]


@pytest.mark.slow
@pytest.mark.open
@pytest.mark.direct
async def test_every_query_answers_an_analyst_who_may_not_read_what_was_said(database_url: str) -> None:
    model = Parrot()
    async with Memory(database_url, model, SETTINGS) as memory:
        for day, agent in enumerate(("ada", "eve")):
            await memory.add(
                [message("Actually, I keep bees.")], agent_id=agent, user_id="mia", conversation_id=f"c{day}"
            )
        await memory.run_due(agent_id="ada")
        await memory.search("bees", agent_id="ada", user_id="mia")
        await memory.models.set_price("parrot", input_per_million=1, output_per_million=2, currency="EUR")
        model.failing = UnavailableError("connection", "gone")
        await memory.run_due()
    await make(database_url, ROLES, recycling.SCHEMA)
    try:
        async with connect_once(database_url) as connection:
            await connection.execute(text(f"SET LOCAL ROLE {ROLES.analyst}"))
            for title, target in queries().items():
                found = (await connection.exec_driver_sql(as_sent(target["rawSql"]))).mappings().all()
                assert found or title in EMPTY, title
                if target["format"] == "time_series":
                    assert "time" in found[0], title
            (agents,) = (variable["query"] for variable in BOARD["templating"]["list"] if variable["name"] == "agent")
            assert (await connection.exec_driver_sql(agents)).scalars().all() == ["ada", "eve"]
    finally:
        await drop(database_url, ROLES, recycling.SCHEMA)
