"""Where the project is published, as the metadata of wheel and sdist say it, and a README that holds there.

An index shows the README alone, without the files beside it. Its links go to the home that `pyproject.toml` names, to the
files of this very version. While none is named there, there are no URLs, and a link becomes its text: the source
distribution has the files.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

PAGES = {"Documentation": "docs/README.md", "Changelog": "CHANGELOG.md"}
_LINK = re.compile(r"\[([^\]]+)\]\((?!\w+:|#)([^)]+)\)")


class Published(MetadataHookInterface):
    """Fills `urls` and `readme`. In its configuration `home` is the repository, `file` how it shows a file of a version."""

    def update(self, metadata: dict[str, Any]) -> None:
        home = str(self.config["home"]).rstrip("/")
        of_file = _address(home, str(self.config["file"]), str(metadata["version"])) if home else None
        text = (Path(self.root) / "README.md").read_text("utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": linked(text, of_file)}
        metadata["urls"] = {} if of_file is None else {"Source": home, **{n: of_file(p) for n, p in PAGES.items()}}


def linked(text: str, of_file: Callable[[str], str] | None) -> str:
    """Each link to a file as one to its address, or as its text."""
    if of_file is None:
        return _LINK.sub(r"\1", text)
    return _LINK.sub(lambda found: f"[{found[1]}]({of_file(found[2])})", text)


def _address(home: str, pattern: str, version: str) -> Callable[[str], str]:
    return lambda path: pattern.format(home=home, version=version, path=path)
