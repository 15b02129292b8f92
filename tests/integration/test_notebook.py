"""examples/analytics.ipynb: runs as it is, as an analyst who may not read what was said, and each plot shows something."""

from __future__ import annotations

import json
import os
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient
from sqlalchemy import make_url

from memory_sql.config import Settings
from memory_sql.db.roles import Roles, drop, make
from memory_sql.memory import Memory
from tests.database import libpq
from tests.factories import message
from tests.fakes import Parrot
from tests.integration.test_analytics import fill

NOTEBOOK = Path(__file__).parents[2] / "examples" / "analytics.ipynb"
BARS = """
import json
values = [float(value) for bars in axes.containers for value in bars.datavalues if value > 0]
print(json.dumps({"title": axes.get_title(), "values": values, "texts": [text.get_text() for text in axes.texts]}))
"""
TITLES = {
    "Observations by week",
    "Observations that a user's statements support",
    "Observations by category",
    "Messages by the day on which they were stored",
    "Wait in seconds, 90th percentile",
    "Cost of model work",
    "Waiting work",
    "Searches, as shares",
    "Observations that a search found, or never found",
    "Observations judged for a wider scope",
}


def stored() -> Any:
    return nbformat.read(NOTEBOOK, as_version=4)  # type: ignore[no-untyped-call]


async def plots(url: str, other: str) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Of each plot its title, the lengths of its bars, and what is written in it: as it is, and for another agent."""
    notebook = stored()
    drawing = [cell for cell in notebook.cells if "axes = draw(" in cell.source]
    shown = [cell for one in drawing for cell in (one, code(BARS))]
    before = [cell for cell in notebook.cells if cell not in drawing]
    notebook.cells = [*before, *shown, code(f'AGENT = "{other}"'), *(code(cell.source) for cell in shown)]
    await NotebookClient(notebook, timeout=120, kernel_name="python3").async_execute(
        env={**os.environ, "MEMORY_SQL_URL": url}
    )
    printed = [json.loads(cell.outputs[0].text) for cell in notebook.cells if cell.source == BARS]
    pictures = [out for cell in notebook.cells for out in cell.get("outputs", ()) if "image/png" in out.get("data", ())]
    assert len(drawing) == len(TITLES) == 10
    assert len(printed) == len(pictures) == 20
    return printed[:10], printed[10:]


def code(source: str) -> Any:
    return nbformat.v4.new_code_cell(source)  # type: ignore[no-untyped-call]


@pytest.fixture
async def analysts_url(database_url: str) -> AsyncIterator[str]:
    """Of a role that sees nothing of what was said."""
    mine = os.getpid()
    roles = Roles.of(f"notes_owner_{mine}", f"notes_app_{mine}", f"notes_analyst_{mine}")
    await make(database_url, roles)
    url = make_url(libpq(database_url))
    yield url.update_query_dict({"options": f"-c role={roles.analyst}"}).render_as_string(hide_password=False)
    assert await drop(database_url, roles) == []


def test_is_stored_without_what_a_run_leaves_behind() -> None:
    code = [cell for cell in stored().cells if cell.cell_type == "code"]
    assert all(cell.outputs == [] and cell.execution_count is None and cell.metadata == {} for cell in code)
    assert NOTEBOOK.read_text("utf-8").endswith("}\n")


def test_asks_nothing_but_the_views() -> None:
    asked = re.findall(r"\bmemory\.(\w+)", "".join(cell.source for cell in stored().cells if cell.cell_type == "code"))
    assert len(asked) == 10
    assert all(name.startswith("v_") for name in asked)


@pytest.mark.slow
@pytest.mark.open
@pytest.mark.direct
async def test_each_plot_shows_something_or_says_that_there_is_nothing_yet(
    database_url: str, analysts_url: str
) -> None:
    await fill(database_url)
    async with Memory(database_url, Parrot(), Settings()) as memory:
        await memory.add([message("Actually, I keep bees.")], agent_id="ada", user_id="mia", conversation_id="today")
        await memory.conversations.form(agent_id="ada", conversation_id="today")
        await memory.models.set_price("parrot", input_per_million=1, output_per_million=2, currency="EUR")
        await memory.observe("Mia prefers tea.", agent_id="ada", user_id="mia", category="preference")
        assert (await memory.search("demo", agent_id="ada", user_id="mia")).results
        assert not (await memory.search("giraffe", agent_id="ada", user_id="mia")).results
    full, empty = await plots(analysts_url, "nobody")
    shown = {plot["title"]: plot["values"] for plot in full}
    assert shown.keys() == TITLES
    assert all(shown.values()), shown
    assert shown["Cost of model work"] == [pytest.approx(120e-6)]
    assert shown["Waiting work"] == [1]  # the conversation that couldn't be formed
    told = ("Observations by week", "Observations by category", "Observations that a search found, or never found")
    assert len({sum(shown[title]) for title in told}) == 1
    assert len(shown["Observations by category"]) == 2
    assert [plot["texts"] for plot in empty] == [["nothing yet"]] * 10
