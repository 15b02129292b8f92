"""The numbers written as words in a text."""

import pytest

from memory_sql.languages.counting import spelled


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("two fryers", 2),
        ("twenty-one tables", 21),
        ("a hundred and twenty eggs", 120),
        ("one thousand five hundred napkins", 1500),
        ("two thousand three hundred and forty-seven", 2347),
        ("three million", 3_000_000),
        ("a dozen boxes", 12),
        ("vierundzwanzig Stunden", 24),
        ("dreihundertfünfzig Ziegel", 350),
        ("Zweitausendfünfhundert Euro", 2500),
        ("tausendneunhundertachtzig", 1980),
        ("vingt heures trente", 30),
        ("vingt et un invités", 21),
        ("quatre-vingt-dix-sept pages", 97),
        ("mille neuf cent quatre-vingts", 1980),
        ("soixante-douze voix", 72),
        ("mil quinientas unidades", 1500),
        ("doscientas treinta y cinco", 235),
        ("veintiuna mesas", 21),
        ("vijfentwintig leden", 25),
        ("honderdtwintig euro", 120),
        ("tweeëntwintig shirts", 22),
    ],
)
def test_number_is_put_together_from_its_words(text: str, number: int) -> None:
    assert number in spelled(text)


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("two, three or five of them", {2, 3, 5}),
        ("twenty guests and thirty chairs", {20, 30}),
        ("Einsatz, Achtung, Zweifel, Elfmeter", set()),
        ("Often the tenant attends.", set()),
    ],
)
def test_what_is_no_number_and_what_are_several_stay_apart(text: str, numbers: set[int]) -> None:
    assert spelled(text) == numbers
