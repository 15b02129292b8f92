"""What the start of a process doesn't pay for, and the columns that are therefore written down beside the mapped tables."""

from __future__ import annotations

import subprocess
import sys

import pytest
from sqlalchemy import ColumnElement, Label

from memory_sql.db import observation_rows
from memory_sql.db.models import AgentRow, Base, MessageRow, ObservationRetrievalRow, ObservationRow, RetrievalRow
from memory_sql.db.queries import search
from memory_sql.db.repositories import retrievals
from memory_sql.domain.observations import Observation, Source

FEW_CALL = (
    "agent_framework", "agents", "alembic", "fastapi", "google", "langchain", "langchain_core", "langgraph", "mcp",
    "mcp_types", "openai", "pydantic_ai", "pydantic_settings", "rich", "starlette", "typer", "uvicorn",
)  # fmt: skip
OURS_FEW_CALL = (
    "cli", "consolidation", "db.models", "domain.results", "importers", "integrations", "jobs", "lifecycle", "mcp",
    "propagation", "server", "tools",
)  # fmt: skip


def is_as_mapped(column: ColumnElement[object], row: type[Base]) -> bool:
    own = column.element if isinstance(column, Label) else column
    return repr(own.type) == repr(row.__table__.c[own.name].type)


def test_columns_of_observations_are_those_of_the_table() -> None:
    names = (*observation_rows.PLAIN, *observation_rows.OF_SOURCE)
    assert all(is_as_mapped(column, ObservationRow) for column in (*observation_rows.OWN,))
    stored = {*ObservationRow.__table__.c.keys()} - {"metadata"}
    assert names == (
        *(name for name in Observation.model_fields if name in stored),
        *(name for name in Source.model_fields if name in stored - {"kind"}),
    )


def test_columns_of_messages_are_those_of_the_table() -> None:
    assert all(is_as_mapped(column, MessageRow) for column in search.MESSAGE)


def test_counted_tables_are_those_that_are_mapped() -> None:
    for table, row in (
        (retrievals._agents, AgentRow),
        (retrievals._observation, ObservationRow),
        (retrievals._retrievals, RetrievalRow),
        (retrievals._counted, ObservationRetrievalRow),
    ):
        assert str(row.__table__.fullname) == f"{table.schema}.{table.name}"  # type: ignore[attr-defined]
        assert all(is_as_mapped(column, row) for column in table.c)


@pytest.mark.slow
def test_the_start_imports_nothing_that_few_call() -> None:
    code = "import sys; from memory_sql import Memory; Memory('postgresql://nobody@127.0.0.1:9/nothing'); print(*sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    imported = set(ran.stdout.split())
    assert imported.isdisjoint({*FEW_CALL, *(f"memory_sql.{name}" for name in OURS_FEW_CALL)})
    assert "memory_sql.context.assemble" in imported  # not put off: the first call would be slow
