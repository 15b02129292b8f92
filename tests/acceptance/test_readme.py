"""The README's example, as a reader would run it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

README = Path(__file__).parents[2] / "README.md"


@pytest.mark.slow
def test_example_runs_twice_and_prints_the_context(database_url: str, tmp_path: Path) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", README.read_text("utf-8"), re.DOTALL)
    assert len(example.strip().splitlines()) <= 20
    (tmp_path / "example.py").write_text(example, "utf-8")
    outputs = [
        subprocess.run(
            [sys.executable, "-W", "error", "example.py"],
            cwd=tmp_path,
            env={**os.environ, "MEMORY_SQL_URL": database_url},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for _ in range(2)
    ]
    assert "I prefer green tea" in outputs[0]
    assert outputs[0].startswith("<MemoryContext>")
    assert outputs[0].count("green tea") == outputs[1].count("green tea")
