"""The statements that only one of two contexts makes."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_sql.backends.differences import ContextDifference, hashes, statements_of

LEGACY = (Path(__file__).parent / "legacy_context.xml").read_text("utf-8")
BETWEEN = ContextDifference.between
words = st.lists(st.sampled_from(["Boats are free.", "The gate opens at seven.", "Answer in short.", "C# & C++"]))


def test_statements_are_sentences_and_lines_without_what_stands_around_them() -> None:
    assert list(statements_of(LEGACY)) == [
        "exports are split",
        "pdf & csv",
        "show prices in kronor",
        "the harbour opens at seven",
        "boats <20 m> are free",
        "mia is a harbour master",
        "answer in short",
        "they spoke of the gate",
        "they spoke of the ferry",
    ]


@pytest.mark.parametrize(
    "other",
    [
        "<UserMemory>\nBoats are free.\n</UserMemory>",
        "Boats are free",
        "- boats  are FREE. (age: 12 days ago)",
        "- Boats are free. (today)",
        "- Boats are free (Friday 2026-11-20, disputed)",
        "VERSION: 12\nBoats are free.\n\n-- Total word count: 3",
        "## Consolidated user memory:\n-- User Memory for mia --\n---\nBoats are free.\n1. Boats are free.",
        '<MemoryShard name="a &amp; b" truncated="true">Boats are free.',
    ],
)
def test_same_statement_is_the_same_however_it_is_written(other: str) -> None:
    assert BETWEEN("<MemoryContext>Boats are free.</MemoryContext>", other).is_none


def test_text_that_isnt_well_formed_is_compared_all_the_same() -> None:
    assert BETWEEN(
        "Boats <20 m> & ships <b>are</b> free.", "Boats &lt;20 m&gt; &amp; ships &lt;b&gt;are&lt;/b&gt; free."
    ).is_none


def test_difference_names_both_sides_in_order() -> None:
    found = BETWEEN("One. Two. Three.", "Four. Two. Five.")
    assert found == ContextDifference(common=1, only_legacy=("one", "three"), only_sql=("four", "five"))
    assert found.rate == pytest.approx(4 / 5)
    assert not found.is_none


def test_nothing_said_is_no_difference() -> None:
    assert BETWEEN("<MemoryContext/>", "").rate == 0.0
    assert BETWEEN("<MemoryContext/>", "").is_none


@given(words, words)
def test_rate_is_a_share_and_the_same_from_both_sides(one: list[str], other: list[str]) -> None:
    found, turned = BETWEEN("\n".join(one), "\n".join(other)), BETWEEN("\n".join(other), "\n".join(one))
    assert found.common == turned.common == len({*one} & {*other})
    assert 0.0 <= found.rate == turned.rate <= 1.0
    assert found.is_none == ({*one} == {*other})


def test_hashes_tell_equal_statements_and_no_word() -> None:
    assert hashes(["boats are free"]) == hashes(["boats are free"]) != hashes(["boats"])
    assert "boats" not in hashes(["boats are free"])
    assert hashes(str(n) for n in range(12)).endswith(" and 2 more")
    assert hashes([]) == "none"
