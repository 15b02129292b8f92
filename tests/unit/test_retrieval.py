from memory_sql.retrieval import MAX_TERMS, search_terms


def test_terms_leave_out_what_frames_a_question() -> None:
    assert search_terms("Do you remember what I told you about the harbour master in Marstrand?") == (
        "harbour", "master", "marstrand",
    )  # fmt: skip


def test_terms_keep_identifiers_whole() -> None:
    assert search_terms("C++ on uteke-cloud-dev, a@b.se") == ("c++", "uteke-cloud-dev", "a@b.se")


def test_terms_are_bounded() -> None:
    assert len(search_terms(" ".join(f"w{n}" for n in range(100_000)))) == MAX_TERMS
    assert search_terms("the of and ?!") == ()
    assert search_terms("'; DROP TABLE x; --") == ("drop", "table", "x")
