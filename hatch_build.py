"""Where the project is published, as the metadata of wheel and sdist say it, and a README that holds there.

An index shows the README alone, without the files beside it. Its links go to the home that `pyproject.toml` names, to the
files of this very version. While none is named there, there are no URLs, a link becomes its text, and a picture is left out:
the source distribution has the files.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

PAGES = {"Documentation": "docs/README.md", "Changelog": "CHANGELOG.md"}
_LINK = re.compile(r"(?<!!)\[([^\]]+)\]\((?!\w+:|#)([^)]+)\)")
_PICTURE = re.compile(r"!\[([^\]]*)\]\((?!\w+:)([^)]+)\)")


class Published(MetadataHookInterface):
    """Fills `urls` and `readme`.

    In its configuration `home` is the repository, `file` how it shows a file of a version, `picture` how it sends one.
    """

    def update(self, metadata: dict[str, Any]) -> None:
        home = str(self.config["home"]).rstrip("/")
        of_file, of_picture = (
            _address(home, str(self.config[name]), str(metadata["version"])) if home else None
            for name in ("file", "picture")
        )
        text = pictured(linked((Path(self.root) / "README.md").read_text("utf-8"), of_file), of_picture)
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
        metadata["urls"] = {} if of_file is None else {"Source": home, **{n: of_file(p) for n, p in PAGES.items()}}


def linked(text: str, of_file: Callable[[str], str] | None) -> str:
    """Each link to a file as one to its address, or as its text."""
    if of_file is None:
        return _LINK.sub(r"\1", text)
    return _LINK.sub(lambda found: f"[{found[1]}]({of_file(found[2])})", text)


def pictured(text: str, of_picture: Callable[[str], str] | None) -> str:
    """Each picture with its address, or without any."""
    if of_picture is None:
        return _PICTURE.sub("", text)
    return _PICTURE.sub(lambda found: f"![{found[1]}]({of_picture(found[2])})", text)


def _address(home: str, pattern: str, version: str) -> Callable[[str], str]:
    return lambda path: pattern.format(home=home, version=version, path=path)
