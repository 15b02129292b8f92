"""What `make check` looks for beside the code: each finds what was planted, and nothing else."""

from __future__ import annotations

import json
import random
import string
import subprocess
from typing import Any

import pytest

from tests.checks import advisories, licences, secrets

MARKS = ("ghp_", "sk-proj-", "glpat-", "hf_", "npm_", "AKIA")


def made(mark: str) -> str:
    """What looks like a real one; put together here, so that this file has none."""
    letters = string.ascii_uppercase + string.digits if mark == "AKIA" else string.ascii_letters + string.digits
    draw = random.Random(mark)
    while secrets.is_made_up("key", key := mark + "".join(draw.choices(letters, k=16 if mark == "AKIA" else 36))):
        pass
    return key


@pytest.mark.parametrize("mark", MARKS)
def test_a_key_in_a_file_is_found_by_its_line(mark: str) -> None:
    assert [*secrets.found_in(f"first\nKEY = '{made(mark)}'\n")] == [(2, "key")]


def test_a_private_key_in_a_file_is_found() -> None:
    body = "\n".join("".join(random.Random(n).choices(string.ascii_letters, k=64)) for n in range(8))
    head, foot = (f"-----{word} RSA PRIVATE KEY-----" for word in ("BEGIN", "END"))
    assert [*secrets.found_in(f"{head}\n{body}\n{foot}\n")] == [(1, "private key")]
    assert [*secrets.found_in(f"a file begins with {head}")] == []


@pytest.mark.parametrize("key", ["ghp_" + "abcdefghij" * 4, "AKIAIOSFODNN7" + "EXAMPLE", "hf_" + "0" * 36])
def test_what_is_made_up_is_no_secret(key: str) -> None:
    assert [*secrets.found_in(f"KEY = '{key}'")] == []


@pytest.mark.slow
def test_no_file_of_the_repository_has_a_secret(capsys: pytest.CaptureFixture[str]) -> None:
    assert secrets.main() == 0, capsys.readouterr().out


@pytest.mark.parametrize(
    ("licence", "does"),
    [
        ("MIT", True),
        ("Apache-2.0 OR GPL-3.0-only", True),
        ("Apache-2.0 AND (BSD-2-Clause OR LGPL-3.0-only)", True),
        ("MIT AND GPL-2.0-only", False),
        ("AGPL-3.0-or-later", False),
        ("MPL-2.0 AND (Apache-2.0 OR MIT)", False),
        ("unknown", False),
        ("", False),
    ],
)
def test_licence_has_to_fit_in_all_its_parts(licence: str, does: bool) -> None:
    assert licences.fits(licence) is does


class Found:
    def __init__(self, licence: str, *needs: str, extras: tuple[str, ...] = ()) -> None:
        self.metadata, self.version, self.requires = self, "1", needs
        self._licence, self._extras = licence, list(extras)

    def get_all(self, name: str) -> list[str]:
        return {"License-Expression": [self._licence], "Provides-Extra": self._extras}.get(name, [])


def test_only_what_the_library_brings_has_to_be_permissive() -> None:
    """Named exceptions of developers don't hold for it."""
    installed: dict[str, Any] = {
        "memory-sql": Found(
            "MIT", "Good", 'bad; extra == "plots"', 'hypothesis; extra == "dev"', extras=("plots", "dev")
        ),
        "good": Found("MIT", "hypothesis"),
        "bad": Found("GPL-3.0-only"),
        "hypothesis": Found("MPL-2.0"),
        "stray": Found("Beerware"),
    }
    assert licences.wrong_in(installed) == [
        "bad 1: 'GPL-3.0-only'",
        "hypothesis 1: 'MPL-2.0'",
        "stray 1: 'Beerware' (developers only)",
    ]


def test_all_licences_fit(capsys: pytest.CaptureFixture[str]) -> None:
    assert licences.main() == 0, capsys.readouterr().out


VULNERABLE = {"name": "x", "version": "1", "vulns": [{"id": "PYSEC-1", "aliases": ["CVE-1"], "fix_versions": ["2"]}]}
SAFE = {"name": "y", "version": "1", "vulns": []}
SKIPPED = {"name": "z", "skip_reason": "not found"}


@pytest.mark.parametrize(
    ("answers", "status", "said"),
    [
        ([[SAFE], [SAFE, VULNERABLE]], 1, "x 1: PYSEC-1, mended in 2"),
        ([[SAFE], [SAFE, SKIPPED]], 0, "nothing is known of"),
        ([[SKIPPED]], 0, advisories.UNKNOWN),
        (["", ""], 0, advisories.UNKNOWN),
        ([None], 0, advisories.UNKNOWN),
    ],
)
def test_advisories_that_cannot_be_had_stop_nobody(
    answers: list[Any], status: int, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    answering = iter(answers)

    def run(command: list[str], **_: Any) -> Any:
        found = next(answering)
        if found is None:
            raise subprocess.TimeoutExpired(command, 1)
        told = json.dumps({"dependencies": found}) if isinstance(found, list) else found
        return subprocess.CompletedProcess(command, 0, told.encode())

    monkeypatch.setattr(subprocess, "run", run)
    assert advisories.main() == status
    assert said in capsys.readouterr().out


def test_vulnerability_that_was_accepted_is_not_told_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(advisories, "ACCEPTED", {"CVE-1": "no code of ours reaches it"})
    assert advisories.told([VULNERABLE]) == []
