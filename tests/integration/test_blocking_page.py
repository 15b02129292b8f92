"""docs/deploying.md: the examples of code that blocks, run as they are written."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.blocking import as_default
from tests.database import libpq, owners_url

PAGE = (Path(__file__).parents[2] / "docs" / "deploying.md").read_text("utf-8")
SECTION = PAGE.partition("\n### In code that blocks\n")[2].partition("\n### ")[0]
BLOCKS = re.findall(r"^```python\n(.*?)^```", SECTION, re.MULTILINE | re.DOTALL)


@pytest.fixture
def page(database_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """The names that the blocks make, as one module."""
    monkeypatch.setenv("MEMORY_SQL_URL", database_url)
    monkeypatch.setenv("DATABASE_URL", libpq(database_url))
    with psycopg.connect(libpq(owners_url(database_url))) as owner:
        owner.execute("CREATE TABLE public.bookings (berth text NOT NULL CHECK (berth <> 'C13'))")
        owner.execute("GRANT ALL ON public.bookings TO PUBLIC")
    names: dict[str, Any] = {"__name__": "deploying_page"}
    with as_default(database_url):
        for block in BLOCKS:
            exec(compile(block, "docs/deploying.md", "exec", dont_inherit=True), names)
        yield names
    names["memory"]().close()


def remembered(page: dict[str, Any]) -> list[str]:
    return [one.content for one in page["memory"]().observations.list(agent_id="ada", user_id="mia")]


def bookings(url: str) -> list[tuple[str]]:
    with psycopg.connect(libpq(owners_url(url))) as owner:
        return owner.execute("SELECT berth FROM public.bookings").fetchall()


def test_the_page_has_both_examples() -> None:
    assert len(BLOCKS) == 2


@pytest.mark.direct
def test_in_django_both_are_stored_or_neither(page: dict[str, Any], database_url: str) -> None:
    page["book"]("C4", "mia")
    with pytest.raises(Exception, match="user_id"):
        page["book"]("C5", "")
    assert remembered(page) == ["Booked berth C4."]
    assert bookings(database_url) == [("C4",)]


@pytest.mark.direct
def test_in_flask_both_are_stored_or_neither(page: dict[str, Any], database_url: str) -> None:
    with page["app"].test_client() as client:
        assert client.post("/berths/C4", headers={"X-User": "mia"}).json == {"berth": "C4"}
        assert client.post("/berths/C5", headers={"X-User": "a\u200bb"}).status_code == 500
        assert client.post("/berths/C13", headers={"X-User": "mia"}).status_code == 500
    assert remembered(page) == ["Booked berth C4."]
    assert bookings(database_url) == [("C4",)]
