"""The site of the pages: its navigation, its links, and that it can be built."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

import memory_sql
from docs import site

ROOT = Path(__file__).parents[2]
HOME = "https://code.example/memory"
FILE = "{home}/blob/v{version}/{path}"


def configuration() -> dict[str, Any]:
    read: dict[str, Any] = yaml.safe_load((ROOT / "mkdocs.yml").read_text("utf-8"))
    return read


def built(config: dict[str, Any], folder: Path) -> subprocess.CompletedProcess[str]:
    (folder / "mkdocs.yml").write_text(yaml.safe_dump(config, sort_keys=False), "utf-8")
    return subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict"],
        cwd=folder,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


def test_navigation_is_the_list_of_pages() -> None:
    sections = re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", (ROOT / "docs/README.md").read_text("utf-8"), re.M | re.S)
    listed = [{title: re.findall(r"^- \[([\w.-]+)\]", text, re.M)} for title, text in sections]
    assert configuration()["nav"] == listed


def test_navigation_has_every_page_once() -> None:
    pages = [page for section in configuration()["nav"] for page in next(iter(section.values()))]
    assert sorted(pages) == sorted(path.name for path in (ROOT / "docs").glob("*.md") if path.name != "README.md")


def test_configuration_needs_nothing_that_only_one_builder_has() -> None:
    assert {"plugins", "hooks", "extra_css", "extra_javascript"} & set(configuration()) == set()
    assert "custom_dir" not in configuration()["theme"]


def test_links_that_leave_the_pages_lead_to_the_files_of_this_version() -> None:
    text = "[a](../examples/tools.py), [b](../CONTRIBUTING.md#tests), [c](tools.md), [d](https://d.example)"
    at = f"{HOME}/blob/v{memory_sql.__version__}"
    assert site.linked(text, f"{HOME}/", FILE) == (
        f"[a]({at}/examples/tools.py), [b]({at}/CONTRIBUTING.md#tests), [c](tools.md), [d](https://d.example)"
    )


def test_without_a_home_links_that_leave_the_pages_are_text() -> None:
    assert site.linked("[a](../examples/tools.py), [c](tools.md)", "", FILE) == "a, [c](tools.md)"


@pytest.mark.slow
def test_site_can_be_built_and_asks_no_other_host(tmp_path: Path) -> None:
    site.copy(tmp_path / "build" / "site")
    done = built(configuration(), tmp_path)
    assert done.returncode == 0, done.stderr
    pages = list((tmp_path / "build" / "html").rglob("*.html"))
    assert len(pages) > 40
    for page in pages:
        assert re.findall(r"""(?:<script|<img|<link rel="stylesheet")[^>]*="https?:""", page.read_text("utf-8")) == []


@pytest.mark.slow
@pytest.mark.parametrize("wrong", ["[a](#nowhere)", "[a](nowhere.md)"])
def test_dead_link_stops_the_build(tmp_path: Path, wrong: str) -> None:
    (tmp_path / "build" / "site").mkdir(parents=True)
    (tmp_path / "build" / "site" / "index.md").write_text(f"# Title\n\n{wrong}\n", "utf-8")
    done = built(configuration() | {"nav": ["index.md"]}, tmp_path)
    assert done.returncode == 1
    assert "nowhere" in done.stderr
