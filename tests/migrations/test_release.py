"""A release: what `make release` changes, what it refuses, and what may not change afterwards."""

from __future__ import annotations

import re
import shutil
from datetime import date
from pathlib import Path

import pytest

import memory_sql
from memory_sql.db import ddl
from migrations import release

DAY = date(2027, 1, 4)
NEXT = memory_sql.__version__.removesuffix(".dev0")
CHANGED = ("memory_sql/__init__.py", "CHANGELOG.md", "migrations/RELEASED")

unreleased = pytest.mark.skipif(not memory_sql.__version__.endswith(".dev0"), reason="this is a release")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A copy of what a release reads."""
    for name in ("memory_sql/__init__.py", "CHANGELOG.md", "docs/upgrading.md"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(release.ROOT / name, tmp_path / name)
    shutil.copytree(release.ROOT / "migrations", tmp_path / "migrations")
    return tmp_path


def texts(root: Path) -> dict[str, str]:
    return {name: (root / name).read_text("utf-8") for name in CHANGED if (root / name).exists()}


def test_no_released_migration_has_changed() -> None:
    assert release.changed() == []


@unreleased
def test_release_sets_the_version_dates_the_changes_and_freezes(root: Path) -> None:
    before = texts(root)
    release.release(NEXT, DAY, root)
    after = texts(root)
    assert f'\n__version__ = "{NEXT}"\n' in after[CHANGED[0]]
    assert f"\n## [{NEXT}] - 2027-01-04\n" in after[CHANGED[1]]
    assert "Unreleased" not in after[CHANGED[1]]
    assert {name for name, _ in release.files(root)} == set(release.released(root))
    for name in CHANGED[:2]:  # one place of each
        assert len(set(before[name].splitlines()) - set(after[name].splitlines())) <= 2


@unreleased
@pytest.mark.parametrize(
    ("file", "said", "instead", "refused"),
    [
        ("memory_sql/__init__.py", f"{NEXT}.dev0", "9.9.9.dev0", "has the version"),
        ("CHANGELOG.md", f"To be {NEXT}.", "To be another.", "no heading Unreleased"),
        ("docs/upgrading.md", f"| {NEXT} |", "| 9.9.9 |", "what .* asks of an operator"),
    ],
)
def test_what_is_missing_is_named_and_nothing_changed(
    root: Path, file: str, said: str, instead: str, refused: str
) -> None:
    (root / file).write_text((root / file).read_text("utf-8").replace(said, instead), "utf-8")
    before = texts(root)
    with pytest.raises(SystemExit, match=refused):
        release.release(NEXT, DAY, root)
    assert texts(root) == before


@pytest.mark.parametrize("version", ["", "1", "0.1.0.dev0", "v0.1.0"])
def test_what_is_no_version_is_refused(root: Path, version: str) -> None:
    with pytest.raises(SystemExit, match="VERSION="):
        release.release(version, DAY, root)


def test_released_file_that_changes_or_goes_is_named(root: Path) -> None:
    release.freeze(root)
    versions = root / "migrations/versions"
    first = Path(ddl.FIRST_SCHEMA).name
    (versions / first / "tables.sql").write_text("-- edited")
    (versions / f"{first}.py").unlink()
    assert sorted(release.changed(root)) == [f"{first}.py", f"{first}/tables.sql"]
    with pytest.raises(SystemExit, match=re.escape(f"{first}/tables.sql")):
        release.freeze(root)


def test_migration_that_is_added_later_changes_no_released_one(root: Path) -> None:
    release.freeze(root)
    (root / "migrations/versions/2027-02-01-0900_second.py").write_text("revision = 'b'")
    assert release.changed(root) == []
    release.freeze(root)
    assert "2027-02-01-0900_second.py" in release.released(root)
