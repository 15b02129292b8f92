"""Alembic, from an installed package as from a checkout. Imported only by commands that need it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TextIO

from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory

from memory_sql.db.engine import VERSION_TABLE
from memory_sql.db.tables import SCHEMA

LOCK_KEY = 0x6D656D6F7279  # "memory"; two upgrades at once take turns
_PACKAGE = Path(__file__).parents[1]


def scripts() -> Path:
    """The migrations: inside the package when installed from a wheel, beside it in a checkout."""
    shipped = _PACKAGE / "migrations"
    return shipped if shipped.is_dir() else _PACKAGE.parent / "migrations"


def alembic_config(url: str | None = None, output: TextIO | None = None) -> Config:
    config = Config(stdout=output) if output is not None else Config()
    config.set_main_option("script_location", str(scripts()).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    config.attributes["url"] = url
    return config


def upgrade(url: str, revision: str = "head") -> None:
    command.upgrade(alembic_config(url), revision)


def downgrade(url: str, revision: str) -> None:
    command.downgrade(alembic_config(url), revision)


def head() -> str:
    """The newest revision that this release brings."""
    revision = ScriptDirectory.from_config(alembic_config()).get_current_head()
    assert revision is not None  # the package ships at least one
    return revision


def is_ours(name: str | None, type_: str, parent_names: Any) -> bool:
    """For `include_name`: keeps other schemas of the database, and the version table, out of autogenerate."""
    if type_ == "schema":
        return name == SCHEMA
    return not (type_ == "table" and name == VERSION_TABLE)
