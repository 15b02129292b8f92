"""From values to HTML. Every value is escaped; what is remembered can't run or load anything, whatever it contains."""

from __future__ import annotations

from datetime import date, datetime
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from fastapi.responses import HTMLResponse
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from memory_sql import __version__
from memory_sql.domain.layer import ScopeRef
from memory_sql.domain.observations import Observation
from memory_sql.server.pages import wording

FOLDER = Path(__file__).parent
POLICY = (
    "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


@cache
def _environment() -> Environment:
    made = Environment(
        loader=FileSystemLoader(FOLDER / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        auto_reload=False,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "piece": lambda text: quote(str(text), safe=""),
        "day": day,
        "minute": minute,
        "many": wording.many,
        "scope_name": scope_name,
        "state": wording.state,
        "cut": wording.cut,
        "where_from": wording.where_from,
        "begun": wording.begun,
    }
    made.globals |= {"version": __version__, "told": wording.TOLD, "encoded": _encoded}
    return made


def page(name: str, status: int = 200, **values: Any) -> HTMLResponse:
    """The template `name`.html, with the headers that every page has."""
    return HTMLResponse(_environment().get_template(f"{name}.html").render(**values), status, HEADERS)


@cache
def file(name: str) -> bytes:
    return (FOLDER / name).read_bytes()


def day(value: datetime | date | None) -> str:
    """2 March 2026, in UTC."""
    return "" if value is None else f"{value.day} {value:%B %Y}"


def minute(value: datetime | None) -> str:
    """2 March 2026, 10:15, in UTC."""
    return "" if value is None else f"{day(value)}, {value:%H:%M}"


def scope_name(scope: ScopeRef, display_name: str | None = None) -> str:
    """Whose memory the scope is, in words."""
    return wording.scope_name(scope.kind, scope.owner_id, scope.name, display_name)


def position(found: list[Observation], limit: int) -> str | None:
    """Where the next page begins; None: there is none."""
    return found[-1].position if len(found) == limit else None


def _encoded(**values: str | None) -> str:
    """The query of an address; what is None or empty is left out."""
    return urlencode({name: value for name, value in values.items() if value})
