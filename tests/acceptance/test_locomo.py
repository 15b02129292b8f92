"""Real conversations through the command line, with the offline rules."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.commands import memory_sql


@pytest.mark.slow
def test_every_file_of_locomo_is_added_once_and_comes_out_as_xml(shared: Path, database_url: str) -> None:
    files = sorted((shared / "data" / "locomo").glob("conv-*.jsonl"))
    assert files
    for file in files:
        here = ("--agent", file.stem, "--url", database_url)
        lines = len(file.read_bytes().splitlines())
        first = memory_sql("add", file, *here, "--user", "u", "--json").value
        assert (first["messages"], first["accepted"], first["formed"]) == (lines, lines, lines)
        assert (first["duplicates"], first["failed"]) == (0, {})
        counts = memory_sql("admin", "stats", *here, "--json").value
        assert (counts["messages"], counts["observations"]) == (lines, first["observations"])
        second = memory_sql("add", file, *here, "--user", "u", "--json").value
        assert (second["accepted"], second["duplicates"], second["formed"]) == (0, lines, 0)
        assert memory_sql("admin", "stats", *here, "--json").value == counts
        root = ElementTree.fromstring(memory_sql("context", *here, "--user", "u").out)
        assert [child.tag for child in root] == ["UserMemory"]
