"""The reference pages agree with the code."""

from __future__ import annotations

import re

import pytest

from docs.generate import HERE, pages
from memory_sql import Settings
from memory_sql.config.describe import described

PAGES = pages()


@pytest.mark.parametrize("name", PAGES)
def test_page_is_what_is_generated(name: str) -> None:
    assert (HERE / name).read_text("utf-8") == PAGES[name], f"docs/{name} is out of date: run make docs"


@pytest.mark.parametrize("name", PAGES)
def test_page_has_no_empty_section_and_no_number_of_a_requirement(name: str) -> None:
    assert not re.findall(r"^(#+ .*)\n+(?=##? |\Z)", PAGES[name].replace("## Types\n", ""), re.M)
    assert not re.findall(r"\bR\d{3}\b", PAGES[name])


def test_every_setting_says_its_type_and_default_and_no_requirement() -> None:
    for name, field in Settings.model_fields.items():
        assert re.search(r"\S{3,}.* \(.+; default: .+\)$", described(field)), name
        assert not re.search(r"\bR\d|\bC\d|\bB\.\d", described(field)), name
