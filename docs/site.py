"""Copies the pages to `build/site` for a builder of sites; `make site` runs this, and then the builder.

Links that leave `docs/` lead to the files of this version in the home that `pyproject.toml` names. While none is named there,
a link becomes its text. `README.md`, the list of pages, isn't copied: on the site the navigation is that list.
"""

from __future__ import annotations

import posixpath
import re
import shutil
import tomllib
from pathlib import Path

import memory_sql

HERE = Path(__file__).parent
ROOT = HERE.parent
LINK_OUT = re.compile(r"\[([^\]]+)\]\((\.\./[^)]+)\)")


def main() -> None:
    out = ROOT / "build" / "site"
    shutil.rmtree(out, ignore_errors=True)
    copy(out)


def copy(out: Path) -> None:
    out.mkdir(parents=True)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    published = project["tool"]["hatch"]["metadata"]["hooks"]["custom"]
    for path in HERE.iterdir():
        if path.suffix == ".md" and path.name != "README.md":
            text = linked(path.read_text("utf-8"), published["home"], published["file"])
            (out / path.name).write_text(text, "utf-8")
        elif path.suffix in {".svg", ".png"}:
            shutil.copy(path, out)


def linked(text: str, home: str, file: str) -> str:
    """Each link that leaves `docs/` as one to its address, or as its text. `file` is how the home shows a file."""

    def address(found: re.Match[str]) -> str:
        path = posixpath.normpath(posixpath.join("docs", found[2]))
        return f"[{found[1]}]({file.format(home=home.rstrip('/'), version=memory_sql.__version__, path=path)})"

    return LINK_OUT.sub(address if home else r"\1", text)


if __name__ == "__main__":
    main()
