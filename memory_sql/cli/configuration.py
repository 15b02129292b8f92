"""The command that shows the settings, and changes an agent's."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from memory_sql.cli import output
from memory_sql.cli.options import AsJson, Data, Url, resolve, run
from memory_sql.errors import InputError

if TYPE_CHECKING:
    from memory_sql.config import Settings
    from memory_sql.memory import Memory

HIDDEN = "***"


def settings(
    agent: Annotated[
        str | None, typer.Option("--agent", metavar="ID", help="The settings as they are for this agent.")
    ] = None,
    given: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Give the agent one of its own; repeatable."),
    ] = None,
    unset: Annotated[
        list[str] | None, typer.Option("--unset", metavar="NAME", help="Take it back from the agent; repeatable.")
    ] = None,
    url: Url = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Prints every setting, resolved, and what it means; changes those that an agent has of its own.

    \b
    memory-sql settings
    MEMORY_SQL_TOP_K=10 memory-sql settings | grep top_k
    memory-sql settings --agent ada --set formation_messages=20 --unset time_zone

    The output is a memory-sql.toml; what is not set stands behind a #. A setting comes from the command line, else from
    MEMORY_SQL_… in the environment, else from memory-sql.toml in the working directory (or the file that
    MEMORY_SQL_CONFIG names), else it is the default. Passwords are not shown. What an agent has of its own is kept in the
    database and goes before all of these.
    """
    if agent is None and (given or unset):
        raise InputError("whose is it? say --agent")
    changes = {**dict(map(_pair, given or ())), **dict.fromkeys(unset or ())}
    own = {} if agent is None else run(url, data, lambda memory: _change(memory, agent, changes))
    output.rows(_rows(resolve(url, data), own), _toml, as_json, "")


async def _change(memory: Memory, agent: str, changes: dict[str, Any]) -> dict[str, Any]:
    """What the agent has of its own afterwards."""
    if changes:
        return await memory.configure(agent_id=agent, **changes)
    return await memory.admin.settings(agent_id=agent)


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (equals and name and value):
        raise InputError("--set takes NAME=VALUE")
    return name, value


def _rows(settings: Settings, own: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    from memory_sql.config import FOREVER
    from memory_sql.config.describe import described

    derived = {"data_dir": str(settings.embedded_data_dir), "llm": settings.llm_name}
    sources = settings.sources()
    for name, field in type(settings).model_fields.items():
        value = own.get(name, getattr(settings, name))
        if name == "message_retention_days" and value is None:
            value = FOREVER
        secret = hasattr(value, "get_secret_value")
        shown = masked(value.get_secret_value()) if secret else derived.get(name, value)
        yield {
            "name": name,
            "value": shown,
            "is_set": value is not None,
            "source": "agent" if name in own else sources[name],
            "description": described(field),
        }


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
    source = "" if row["source"] == "default" else f" (from: {row['source']})"
    return output.plain(f"# {row['description']}{source}\n{line if row['is_set'] and not hidden else f'# {line}'}\n")
