"""Files that are meant to lead elsewhere, or never to end."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from memory_sql.errors import SourceError
from memory_sql.importers.mongo.sources import extended_json
from memory_sql.importers.mongo.sources.dump import DumpSource
from memory_sql.importers.mongo.sources.extended_json import ExtendedJsonSource
from memory_sql.importers.mongo.sources.source import Damaged, Part
from tests.unit.test_legacy_sources import GOOD, HOME, everything, listed, written


@pytest.mark.parametrize(
    ("begin", "words"), [(b'{"_id": 2, "content": "', "a line over"), (b'[{"_id": "', "a document over")]
)
async def test_json_without_end_is_cut_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, begin: bytes, words: str
) -> None:
    monkeypatch.setattr(extended_json, "MOST_JSON_BYTES", 1 << 18)
    (tmp_path / "memory_user.json").write_bytes(begin + b"x" * (1 << 20))
    with pytest.raises(SourceError, match=rf"^memory_user\.json, byte \d: {words} 262,144 bytes"):
        await everything(ExtendedJsonSource(tmp_path))
    (damaged,) = await everything(ExtendedJsonSource(tmp_path, keep_going=True))
    assert isinstance(damaged, Damaged)
    assert damaged.ends_part


@pytest.mark.parametrize("name", ["../memory_user.bson", "x/../../memory_user.bson", "/etc/passwd", ".."])
async def test_nothing_outside_of_the_folder_is_opened(tmp_path: Path, name: str) -> None:
    written(tmp_path, "dump", {"memory_user": [HOME.blob()]})
    (tmp_path / "memory_user.bson").write_bytes(b"".join(GOOD))
    source = DumpSource(tmp_path / "eden")
    with pytest.raises(SourceError, match="it isn't in the folder"):
        await listed(source.read(Part("memory_user", name)))


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo])
async def test_a_file_that_becomes_something_else_after_it_was_found_is_refused(tmp_path: Path, make: Any) -> None:
    source = written(tmp_path, "dump", {"memory_user": []})
    (part,) = await source.parts()
    (tmp_path / "eden" / "memory_user.bson").unlink()
    make(tmp_path / "eden" / "memory_user.bson")
    with pytest.raises(SourceError, match=r"^memory_user\.bson, byte 0: it isn't a plain file"):
        await listed(source.read(part))
