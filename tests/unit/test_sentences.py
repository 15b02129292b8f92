"""Where sentences end."""

import pytest

from memory_sql.languages.text import sentence_ends, sentences


@pytest.mark.parametrize(
    "text",
    [
        "Dr. Kovács v. 3.5 z. B. 12.30 Uhr.",
        "Mrs. Novak asked Prof. Lind.",
        "J. R. Diaz keeps the keys.",
        "Der Bus braucht ca. zehn Minuten.",
        "Л. Толстой is read on Mondays.",
        "1. Back up the disk.",
    ],
)
def test_the_stop_of_an_abbreviation_ends_no_sentence(text: str) -> None:
    assert sentences(text) == [text]
    assert sentence_ends(text) == [len(text)]


@pytest.mark.parametrize(
    "text",
    [
        "Anna is ill. Ben is well.",
        "i like tea. i hate coffee.",
        "She is 42. He is 7. They met.",
        "It runs 5 km. Then it stops.",
        "We use SSH. Nobody uses FTP.",
        "네. 좋아요. 갑니다.",
    ],
)
def test_sentences_that_end_stay_apart(text: str) -> None:
    assert len(sentences(text)) == text.count(".")
