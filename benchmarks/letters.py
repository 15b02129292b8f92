"""Writes memory_sql/propagation/letters.toml: how much three letters speak for a language that has rules for sharing.

    python -m benchmarks.letters PROFILES

PROFILES: the folder of profiles of langdetect (Apache-2.0), how often each three letters stand in a language's Wikipedia.
A weight is the logarithm of how much more often they stand in one language than, on average, in those without rules.
"""

from __future__ import annotations

import json
import math
import sys
import textwrap
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

COVERED = {"english": "en", "german": "de", "french": "fr", "spanish": "es"}
MOST = 3000  # the most common of each language and of the others
LEAST = 1e-5  # what stands nowhere counts as this often
BOUND = 3
UNSEEN = -1  # what isn't written down
OUT = Path(__file__).parents[1] / "memory_sql/propagation/letters.toml"
HEAD = """\
# Written by benchmarks/letters.py from the profiles of langdetect 1.0.9 (Apache-2.0). By language and weight: three letters
# that stand so much more (or less, -) often in it than in languages without rules; _ is the beginning or end of a word.
"""


def shares(profile: Path) -> Mapping[str, float]:
    """How often each three letters stand in words of the language, in lower case."""
    counts = Counter[str]()
    for letters, count in json.loads(profile.read_text("utf-8"))["freq"].items():
        if len(letters) == 3:
            counts[letters.lower()] += count
    return {letters: count / counts.total() for letters, count in counts.items()}


def is_latin(profile: Mapping[str, float]) -> bool:
    return sum(share for letters, share in profile.items() if min(letters.strip()) < "\u0250") > 1 / 2


def weights(own: Mapping[str, float], others: list[Mapping[str, float]]) -> dict[int, list[str]]:
    every = set(own).union(*others)
    mean = {letters: sum(one.get(letters, 0) for one in others) / len(others) for letters in every}
    common = sorted(every, key=lambda letters: (-own.get(letters, 0) - mean[letters], letters))[:MOST]
    by_weight: dict[int, list[str]] = {}
    for letters in sorted(common):
        weight = round(math.log((own.get(letters, 0) + LEAST) / (mean[letters] + LEAST)))
        by_weight.setdefault(max(-BOUND, min(BOUND, weight)), []).append(letters.replace(" ", "_"))
    return by_weight


def main(folder: Path) -> None:
    found = {profile.name: shares(profile) for profile in sorted(folder.iterdir())}
    latin = [one for name, one in found.items() if name not in COVERED.values() and is_latin(one)]
    with OUT.open("w", encoding="utf-8") as out:
        out.write(HEAD)
        for language, code in COVERED.items():
            out.write(f"\n[{language}]\n")
            for weight, letters in sorted(weights(found[code], latin).items()):
                if weight != UNSEEN:
                    out.write(f'{weight} = """\n{textwrap.fill(" ".join(letters), 120)}"""\n')


if __name__ == "__main__":
    main(Path(sys.argv[1]))
