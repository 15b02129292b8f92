"""How rows are prepared for staging."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any
from zoneinfo import ZoneInfo

from memory_sql.db.staging import STAGED
from memory_sql.importers.drafts import DuplicateDraft, ObservationDraft, ScopeDraft
from memory_sql.importers.preparing import Filling, Staged, duplicate, observation, sha256

AT = datetime(2026, 3, 4, 23, 30, tzinfo=UTC)  # Thursday the 5th in Berlin
ANNA = ScopeDraft("agent", "individual", "anna", "", None, True, None, (), None, None, {})
BERLIN = ZoneInfo("Europe/Berlin")


def _row(content: str, **more: Any) -> ObservationDraft:
    return ObservationDraft("records:1", content, AT, "pending", "absorb", b"source", "unverified", **more)


def test_a_staged_row_has_the_columns_of_the_table() -> None:
    assert ("place", *Staged._fields) == tuple(STAGED)


def test_what_the_text_tells_is_staged_beside_it() -> None:
    staged = observation(
        ANNA,
        Filling(7, is_begun=False, is_told=True),
        _row("Anna broke her leg yesterday, says dr-web.", also=("records:2",)),
        BERLIN,
        str.encode,
    )
    assert (staged.scope_id, staged.users, staged.sensitivity, staged.categories) == (
        7,
        ("anna",),
        "sensitive",
        ("health",),
    )
    assert staged.dates == f"{{[{date(2026, 3, 4)},{date(2026, 3, 4)}]}}"
    assert staged.search_extra == "drx2dweb dr web 2026-03-04"
    assert (staged.ref_hash, staged.also_hashes) == (b"records:1", [b"records:2"])
    assert staged.stored_hash == sha256("Anna broke her leg yesterday, says dr-web.")


def test_a_text_without_dates_or_odd_words_has_nothing_beside() -> None:
    staged = observation(
        ANNA,
        Filling(7, is_begun=False, is_told=True),
        _row("Anna likes tea.", related_users=("bo",)),
        BERLIN,
        str.encode,
    )
    assert (staged.dates, staged.search_extra, staged.users, staged.metadata) == (None, "", ("bo",), "{}")


def test_what_repeats_another_row_is_only_evidence() -> None:
    staged = duplicate(
        ANNA,
        Filling(7, is_begun=False, is_told=True),
        DuplicateDraft("records:2", "records:1", b"source", (), _row("Anna likes tea.")),
        str.encode,
    )
    assert (staged.of_ref, staged.content, staged.users, staged.stored_hash) == (
        "records:1",
        None,
        ("anna",),
        b"source",
    )


def test_rows_are_numbered_unless_the_scope_had_any() -> None:
    new, begun = Filling(7, is_begun=False, is_told=True), Filling(8, is_begun=True, is_told=False)
    assert [new.take("absorbed"), new.take("pending")] == [("absorbed", 1), ("pending", 2)]
    assert begun.take("absorbed") == ("pending", None)
    assert (new.absorbed, begun.absorbed) == (1, 0)
