"""Makes a release of what is checked out: `make release VERSION=0.1.0`. Commits and tags nothing.

It dates the changelog, sets the version, and freezes the migrations that aren't yet: `RELEASED` lists their files with
their sums, and from then on tests fail when one differs.
"""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, date, datetime
from pathlib import Path

ROOT = Path(__file__).parents[1]
VERSION = re.compile(r"\d+\.\d+\.\d+")
_SET = re.compile(r'^__version__ = "(.+)"$', re.MULTILINE)
_PLANNED = re.compile(r"^## \[Unreleased\]\n\nTo be (.+)\.\n", re.MULTILINE)


def released(root: Path = ROOT) -> dict[str, str]:
    """The sum of each file of a released migration, by its path below `versions`."""
    sums = root / "migrations/RELEASED"
    lines = sums.read_text("utf-8").splitlines() if sums.exists() else []
    return {name: digest for digest, _, name in (line.partition("  ") for line in lines)}


def files(root: Path = ROOT) -> Iterator[tuple[str, str]]:
    """Of each file of a migration its path below `versions`, and its sum."""
    versions = root / "migrations/versions"
    for path in sorted(versions.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            yield path.relative_to(versions).as_posix(), hashlib.sha256(path.read_bytes()).hexdigest()


def changed(root: Path = ROOT) -> list[str]:
    """Files of released migrations that are no longer as they were."""
    now = dict(files(root))
    return [name for name, digest in released(root).items() if now.get(name) != digest]


def freeze(root: Path = ROOT) -> None:
    """Refuses if a released file has changed; otherwise all that there are count as released."""
    if changed(root):
        raise SystemExit(f"released migrations have changed: {', '.join(changed(root))}")
    lines = (f"{digest}  {name}\n" for name, digest in files(root))
    (root / "migrations/RELEASED").write_text("".join(lines), "utf-8")


def release(version: str, day: date, root: Path = ROOT) -> None:
    """Changes three files, or nothing: everything is checked before."""
    if not VERSION.fullmatch(version):
        raise SystemExit("say which version: make release VERSION=0.1.0")
    package, changelog, notes = (
        root / name for name in ("memory_sql/__init__.py", "CHANGELOG.md", "docs/upgrading.md")
    )
    code, changes = package.read_text("utf-8"), changelog.read_text("utf-8")
    if _SET.findall(code) != [f"{version}.dev0"]:
        raise SystemExit(f"{package.name} has the version {_SET.findall(code)}, not {version}.dev0")
    if _PLANNED.findall(changes) != [version]:
        raise SystemExit(f"{changelog.name} has no heading Unreleased with the line `To be {version}.`")
    if f"\n| {version} |" not in notes.read_text("utf-8"):
        raise SystemExit(f"the notes of docs/{notes.name} don't say what {version} asks of an operator")
    freeze(root)
    package.write_text(_SET.sub(f'__version__ = "{version}"', code), "utf-8")
    changelog.write_text(_PLANNED.sub(f"## [{version}] - {day}\n", changes), "utf-8")


def unsaved(root: Path = ROOT) -> str:
    asked = ("git", "status", "--porcelain")
    return subprocess.run(asked, cwd=root, check=True, capture_output=True, text=True).stdout


if __name__ == "__main__":
    if unsaved():
        raise SystemExit(f"commit this first:\n{unsaved()}")
    release("".join(sys.argv[1:]), datetime.now(UTC).date())
    sys.stdout.write("now commit, tag, and push the tag: CONTRIBUTING.md, Releases\n")
