"""What was said or remembered is deleted in one place, which asks the legal holds; what else deletes says here why it may."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

SQL = Path(__file__).parents[2] / "memory_sql" / "db" / "sql"
PYTHON = Path(__file__).parents[2] / "memory_sql"
REMEMBERED = ("observations", "observation_states", "messages", "evidence", "consolidations", "lineage")
DELETES = re.compile(
    r"\b(?:DELETE FROM|TRUNCATE) memory\.(\w+)|UPDATE memory\.(messages|observations)\b[^;]*?\bcontent = NULL"
)
DOOR = "forgetting/erase.sql"
MAY = {
    ("forgetting/erase_agent.sql", "every table"): "refused while a hold is open (HeldError)",
    ("forgetting/end_retention.sql", "messages"): "passes over what memory.is_held_message says",
    ("forgetting/take_back_evidence.sql", "evidence"): "what was lent: the observation that lent it has it",
    ("forgetting/detach.sql", "lineage"): "of what isn't withdrawn, whose sources stay",
    ("forgetting/detach.sql", "evidence"): "of nobody: that a run derived it",
    ("importing/undo_import.sql", "consolidations"): "texts that aren't live; a hold keeps what they were made of",
    ("importing/undo_import.sql", "messages"): "keys without words, of conversations in which nothing is withdrawn",
}


def deletes() -> Counter[tuple[str, str]]:
    """By file and table, in functions and views; what a statement deletes that is put together is any table."""
    found = Counter[tuple[str, str]]()
    for path in sorted(SQL.rglob("*.sql")):
        text = re.sub(r"--.*", "", path.read_text("utf-8"))
        name = path.relative_to(SQL).as_posix()
        for match in DELETES.finditer(text):
            found[name, match[1] or match[2]] += 1
        found[name, "every table"] += len(re.findall(r"'(?:DELETE FROM|TRUNCATE)[^']*%", text))
    return +found


def test_what_is_remembered_is_deleted_in_one_place() -> None:
    others = {key for key in deletes() if key[1] in (*REMEMBERED, "every table") and key[0] != DOOR}
    assert others == set(MAY)


def test_the_place_is_given_what_is_held() -> None:
    text = (SQL / DOOR).read_text("utf-8")
    assert {f"p_held_{name}" for name in ("seqs", "numbers", "evidence_ids")} <= set(re.findall(r"\bp_held_\w+", text))


def test_nothing_else_deletes() -> None:
    """Neither SQLAlchemy's expressions nor a statement in a string."""
    told = re.compile(r"(?<!def )\b(?:sqlalchemy\.)?delete\((?!\w*\"|')|DELETE FROM memory\.")
    found = {p.relative_to(PYTHON).as_posix() for p in PYTHON.rglob("*.py") if told.search(p.read_text("utf-8"))}
    assert found == {"db/moving.py"}  # what another shard has, row for row
