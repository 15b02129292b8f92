"""Asks by pip-audit whether anything in constraints.txt has a known vulnerability: `make check`.

Where the index has no advisories, or can't be reached, that is said, and the check goes on. What can't be mended yet is
named in `ACCEPTED`, with the reason.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

CONSTRAINTS = Path(__file__).resolve().parents[2] / "constraints.txt"
SECONDS = 60.0  # for all of them
PROBE_SECONDS = 20.0
UNKNOWN = "advisories: none can be had here, so vulnerabilities of dependencies weren't looked for"
ACCEPTED: Mapping[str, str] = {}  # by the id of the advisory


def asked(lines: Sequence[str], seconds: float) -> list[dict[str, Any]] | None:
    """What is known of these, `name==version` each; None: nothing of any of them."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write("\n".join(lines))
        file.flush()
        command = [sys.executable, "-m", "pip_audit", "--format", "json", "--progress-spinner", "off", "--timeout", "5"]
        try:
            found = subprocess.run(
                [*command, "--disable-pip", "--no-deps", "--requirement", file.name],
                capture_output=True,
                timeout=seconds,
                check=False,
            )
            answered = json.loads(found.stdout)["dependencies"]
        except (subprocess.TimeoutExpired, ValueError):
            return None
    return known if (known := [one for one in answered if "skip_reason" not in one]) else None


def told(known: Sequence[Mapping[str, Any]]) -> list[str]:
    return [
        f"{one['name']} {one['version']}: {vulnerable['id']}, mended in {', '.join(vulnerable['fix_versions']) or 'none'}"
        for one in known
        for vulnerable in one["vulns"]
        if ACCEPTED.keys().isdisjoint({vulnerable["id"], *vulnerable.get("aliases", ())})
    ]


def main() -> int:
    lines = CONSTRAINTS.read_text("utf-8").splitlines()
    if asked(lines[:1], PROBE_SECONDS) is None or (known := asked(lines, SECONDS)) is None:
        print(UNKNOWN)
        return 0
    if (unasked := len(lines) - len(known)) > 0:
        print(f"advisories: nothing is known of {unasked} of {len(lines)} dependencies")
    wrong = told(known)
    for line in wrong:
        print(f"advisories: {line}")
    return min(len(wrong), 1)


if __name__ == "__main__":
    sys.exit(main())
