"""What a model may take for a repetition: nothing of it may be news."""

import pytest

from memory_sql.consolidation.replacing import says_the_same

WHOLE = "The invoices of the whole harbour office in Vienna go to {} each month."
PAINT = "The crew of the red boat at the north pier must {} the hull in winter at all."


@pytest.mark.parametrize(
    ("newer", "older"),
    [
        (WHOLE.format("ben@y.org"), WHOLE.format("anna@x.org")),
        (WHOLE.format("Jonas"), WHOLE.format("Lena")),
        (WHOLE.format("Jon"), WHOLE.format("Mia")),
        (PAINT.format("not paint"), PAINT.format("paint")),
        (PAINT.format("paint"), PAINT.format("never paint")),
        (PAINT.format("scrape"), PAINT.format("paint")),
        ("Mia pays 120 euros.", "Mia pays 130 euros."),
    ],
)
def test_one_word_that_tells_is_news_in_a_long_sentence_too(newer: str, older: str) -> None:
    assert not says_the_same(newer, older)


@pytest.mark.parametrize(
    ("newer", "older"),
    [
        ("Ben is allergic to nuts.", "Ben is allergic to nuts, badly."),
        ("Mia lives in Oslo now.", "Mia lives in the city of Oslo now."),
        (f"So {WHOLE.format('Lena')}", WHOLE.format("Lena")),
        ("Mia does not eat meat.", "Mia, by the way, does not eat any meat."),
    ],
)
def test_what_says_no_more_is_the_same(newer: str, older: str) -> None:
    assert says_the_same(newer, older)
