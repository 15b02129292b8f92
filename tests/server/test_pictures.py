"""The pictures of the inspector in docs/ show its pages as they are now. If they don't: `make pictures`."""

from __future__ import annotations

import json

import pytest

from docs import pictures

MOST_BYTES = 400_000


@pytest.mark.slow
async def test_pictures_are_of_the_pages_as_they_are(database_url: str) -> None:
    now = pictures.digests(await pictures.pages(database_url))
    assert json.loads(pictures.DIGESTS.read_text("utf-8")) == now, "run `make pictures`, and look at them"


async def test_digest_changes_with_the_page_and_with_how_it_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    name = next(iter(pictures.SHOTS))
    before = pictures.digests({name: "<p>Mia</p>"})
    assert pictures.digests({name: "<p>Mia</p>"}) == before != pictures.digests({name: "<p>Jonas</p>"})
    monkeypatch.setitem(pictures.SHOTS, name, pictures.SHOTS[name]._replace(height=1))
    assert pictures.digests({name: "<p>Mia</p>"}) != before


@pytest.mark.slow
def test_pictures_are_shown_and_small() -> None:
    taken = sorted(pictures.HERE.glob("*.png"))
    assert {picture.stem for picture in taken} == pictures.SHOTS.keys()
    assert sum(picture.stat().st_size for picture in taken) < MOST_BYTES
    text = "".join(
        page.read_text("utf-8") for page in [*pictures.HERE.glob("*.md"), pictures.HERE.parent / "README.md"]
    )
    assert [picture.name for picture in taken if f"]({picture.name})" not in text] == []
