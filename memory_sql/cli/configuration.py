"""The command that shows the settings."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from memory_sql.cli import output
from memory_sql.cli.options import AsJson, Data, Url, resolve

if TYPE_CHECKING:
    from memory_sql.config import Settings

HIDDEN = "***"


def settings(url: Url = None, data: Data = None, as_json: AsJson = False) -> None:
    """Prints every setting, resolved, and what it means.

    \b
    memory-sql settings
    MEMORY_SQL_TOP_K=10 memory-sql settings | grep top_k

    The output is a memory-sql.toml; what is not set stands behind a #. A setting comes from the command line, else from
    MEMORY_SQL_… in the environment, else from memory-sql.toml in the working directory (or the file that
    MEMORY_SQL_CONFIG names), else it is the default. Passwords are not shown.
    """
    output.rows(_rows(resolve(url, data)), _toml, as_json, "")


def _rows(settings: Settings) -> Iterator[dict[str, Any]]:
    derived = {"data_dir": str(settings.embedded_data_dir), "llm": settings.llm_name}
    for name, field in type(settings).model_fields.items():
        value = getattr(settings, name)
        secret = hasattr(value, "get_secret_value")
        shown = masked(value.get_secret_value()) if secret else derived.get(name, value)
        yield {"name": name, "value": shown, "is_set": value is not None, "description": field.description}


def masked(url: str) -> str:
    """The URL without its password; nothing of what doesn't look like a URL."""
    if not re.match(r"[\w+.-]+://", url):
        return HIDDEN
    url = re.sub(r"(://[^:@/?]*:).*@", rf"\1{HIDDEN}@", url, flags=re.DOTALL)
    return re.sub(r"(?i)([?&][^=&]*pass[^=&]*=)[^&]*", rf"\1{HIDDEN}", url)


def _toml(row: dict[str, Any]) -> str:
    value = "" if row["value"] is None else json.dumps(row["value"], ensure_ascii=False)
    hidden = isinstance(row["value"], str) and HIDDEN in row["value"]
    line = f"{row['name']} = {value}".rstrip()
    return output.plain(f"# {row['description']}\n{line if row['is_set'] and not hidden else f'# {line}'}\n")
