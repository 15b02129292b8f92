"""Looks for keys and tokens in all files of the repository: `make check`.

By the patterns with which memory itself masks them, as far as they have a provider's mark or a header: nothing else looks
like these. What counts up, repeats itself or says EXAMPLE is made up, as in tests.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from memory_sql.privacy.secrets import FORMS

ROOT = Path(__file__).resolve().parents[2]
KINDS = frozenset({"private key", "key", "token"})
MADE_UP = 6  # characters in a row that count up or are the same
LEAST_OF_A_KEY = 200  # characters of base64 in the shortest private key that is one
_BEARER = re.compile(r"bearer|authorization", re.IGNORECASE)


def found_in(text: str) -> Iterator[tuple[int, str]]:
    """The line and kind of each secret that isn't made up."""
    lowered = text.lower()
    for form in FORMS:
        if form.kind not in KINDS or _BEARER.search(form.pattern) or not any(cue in lowered for cue in form.cues):
            continue
        for match in form.compiled().finditer(text):
            if not is_made_up(form.kind, match["secret"]):
                yield text.count("\n", 0, match.start()) + 1, form.kind


def is_made_up(kind: str, secret: str) -> bool:
    if kind == "private key":
        body = re.sub(r"-----[A-Z0-9 ]+-----|\\n", "", secret)
        return max((len(run) for run in re.findall(r"(?:[A-Za-z0-9+/=]{16,}\s?)+", body)), default=0) < LEAST_OF_A_KEY
    steps = "".join(str(step) if (step := ord(b) - ord(a)) in (0, 1) else " " for a, b in pairwise(secret))
    return "EXAMPLE" in secret or any(mark * (MADE_UP - 1) in steps for mark in "01")


def main() -> int:
    """Says where, but never what: logs are read by more people than the file."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False)
    if listed.returncode:
        print("secrets: not looked for, since this is no clone of the repository")
        return 0
    found = 0
    for name in listed.stdout.decode().split("\0")[:-1]:
        try:
            text = (ROOT / name).read_text("utf-8")
        except (UnicodeDecodeError, FileNotFoundError):  # a picture, or deleted and not committed yet
            continue
        for line, kind in found_in(text):
            print(f"{name}:{line}: looks like a secret ({kind})")
            found += 1
    return min(found, 1)


if __name__ == "__main__":
    sys.exit(main())
