"""The report of an import: as text, and as Markdown that explains itself."""

from __future__ import annotations

import re
from typing import Any

import pytest

from memory_sql.cli.import_report import as_markdown, as_text
from memory_sql.domain.results import ImportReport
from memory_sql.importers.anomalies import ANOMALIES, REASONS

NONE = {"source": 0, "migrated": 0, "merged": 0, "skipped": 0, "rejected": 0}
MARKDOWN = """\
# Import 7

| collection | source | migrated | merged | skipped | rejected |
|---|---:|---:|---:|---:|---:|
| users3 | 1,200 | 0 | 0 | 1,200 | 0 |
| memory_sessions | 4 | 2 | 0 | 1 | 1 |
| all | 1,204 | 2 | 0 | 1,201 | 1 |

## Not imported as documents of their own

| collection | what | documents | why |
|---|---|---|---|
| memory_sessions | rejected | 1 | empty: it has no text |
| memory_sessions | skipped | 1 | known: it is here already |

## Anomalies

| code | documents | what | what the import does |
|---|---|---|---|
| A3 | 1 | no text, or white space alone | a blob: a scope without text; a record: rejected as empty |

## What can't be read

- memory_user.bson, byte 9: it is truncated; what follows it is missing
- memory_sessions.bson, byte 5: it isn't valid BSON

## What to do next

1. Dump again what can't be read, and run the same command: what was imported before is skipped.
2. `memory.import_rejects` lists each rejected document with its file and byte.
3. `memory-sql import verify 7`, with the same source, compares every text; then `memory-sql admin verify`.
4. To go back: `memory-sql import rollback 7 --yes` removes what was imported, and nothing else.
"""


def report(**changed: Any) -> ImportReport:
    return ImportReport(**({"run": 7, "collections": {}, "reasons": {}, "anomalies": {}} | changed))


def test_markdown_has_everything_and_explains_it() -> None:
    full = report(
        collections={
            "users3": NONE | {"source": 1200, "skipped": 1200},
            "memory_sessions": {"source": 4, "migrated": 2, "merged": 0, "skipped": 1, "rejected": 1},
        },
        reasons={"memory_sessions: rejected, empty": 1, "memory_sessions: skipped, known": 1},
        anomalies={"A3": 1},
        cut_off=("memory_user.bson, byte 9: it is truncated",),
        unreadable=("memory_sessions.bson, byte 5: it isn't valid BSON",),
    )
    assert as_markdown(full) == MARKDOWN


def test_dry_run_says_that_nothing_was_written_and_what_comes_next() -> None:
    told = as_markdown(report(run=None, collections={"users3": NONE}))
    assert told.startswith("# What an import would do\n\nNothing was written.\n\n| collection |")
    assert told.endswith(
        "## What to do next\n\n1. Check the rejected documents and the anomalies, then run the command without `--dry-run`.\n"
    )


@pytest.mark.parametrize("code", ANOMALIES)
def test_each_anomaly_is_explained(code: str) -> None:
    told = as_markdown(report(anomalies={code: 2}))
    assert re.search(rf"^\| {code} \| 2( agents| entries of lists)? \| ", told, re.MULTILINE)
    assert f" | {ANOMALIES[code].what} | {ANOMALIES[code].rule} |" in told


@pytest.mark.parametrize("reason", REASONS)
def test_each_reason_is_explained(reason: str) -> None:
    told = as_markdown(report(reasons={f"memory_user: rejected, {reason}": 3}))
    assert f"| memory_user | rejected | 3 | {reason}: {REASONS[reason]} |" in told


def test_vectors_are_to_be_made_anew_where_some_were_left_out() -> None:
    assert "`memory-sql work embed`" in as_markdown(report(anomalies={"re_embed": 1}))
    assert "work embed" not in as_markdown(report())


def test_nothing_from_the_source_breaks_a_table_or_drives_a_terminal() -> None:
    told = as_markdown(report(collections={"a|b": NONE}, cut_off=("x\x1b[2J, byte 0: y",)))
    assert r"| a\|b | 0 |" in told
    assert "\x1b" not in told
    assert all(len(re.findall(r"(?<!\\)\|", row)) == 7 for row in told.splitlines() if row.startswith("| a"))


def test_text_has_a_line_for_each_thing() -> None:
    told = as_text(report(anomalies={"A3": 1}, unreadable=("f, byte 5: x",), unaccounted=("users3",)))
    assert told.startswith("import 7\n")
    assert told.endswith("\ncan't be read: f, byte 5: x\nnot accounted for: users3")
