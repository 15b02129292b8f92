"""Migrations are tried in the schema of the default name; `tests/integration/test_schema_elsewhere.py` has others."""

from __future__ import annotations

import pytest


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--schema"):
        for item in items:
            if item.path.is_relative_to(__file__.rpartition("/")[0]) and item.path.stem != "test_upgrading":
                item.add_marker(pytest.mark.skip(reason="it is of the default schema"))
