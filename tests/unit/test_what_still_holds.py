"""What an honest model says still holds of an overtaken observation is taken; what isn't in its words, or denies, isn't."""

import pytest

from memory_sql.consolidation.answers import NamedContradiction
from memory_sql.consolidation.holding import holds_of

# What is known, what was overtaken of it, and what a strong model says of the rest.
HONEST = (
    ("The team meets on Tuesdays at 10:00 in room 4.", "meets on Tuesdays", "The team meets at 10:00 in room 4."),
    ("Mia lives in Lyon and works as a nurse.", "lives in Lyon", "Mia works as a nurse."),
    (
        "Mia drives a red Volvo, doesn't eat meat and has two cats.",
        "drives a red Volvo",
        "Mia doesn't eat meat and has two cats.",
    ),
    ("Jonas wohnt mit Anke in Graz und arbeitet bei Bosch.", "arbeitet bei Bosch", "Jonas wohnt mit Anke in Graz."),
    (
        "Die Chorprobe ist montags um 19:30 in der Aula, ohne Noten.",
        "montags um 19:30",
        "Die Chorprobe ist in der Aula, ohne Noten.",
    ),
    ("Lucía vive en Sevilla y no come gluten.", "vive en Sevilla", "Lucía no come gluten."),
    (
        "Chloé habite à Nantes avec son fils Hugo et paie 780 euros de loyer.",
        "paie 780 euros",
        "Chloé habite à Nantes avec son fils Hugo.",
    ),
    (
        "Команда встречается по вторникам в 10:00 в комнате 4.",
        "по вторникам",
        "Команда встречается в 10:00 в комнате 4.",
    ),
    ("米娅住在里昂，养了两只猫，不喝咖啡。", "住在里昂", "米娅养了两只猫，不喝咖啡。"),
    ("민수는 서울에 살고 매일 녹차를 마신다.", "서울에 살고", "민수는 매일 녹차를 마신다."),
)
WRONG = (
    ("Mia lives in Lyon and works as a nurse.", "lives in Lyon", "Mia works as a doctor."),
    ("Mia lives in Lyon and works as a nurse.", "lives in Lyon", "Ana works as a nurse."),
    ("The team meets on Tuesdays at 10:00 in room 4.", "meets on Tuesdays", "The team meets at 11:00 in room 4."),
    ("The team meets on Tuesdays at 10:00 in room 4.", "meets on Tuesdays", "The team meets on Tuesdays in room 4."),
    ("Mia lives in Lyon and works as a nurse.", "lives in Lyon", "Mia lives in Lyon and works as a nurse."),
    ("Mia lives in Lyon and isn't allergic to nuts.", "lives in Lyon", "Mia is allergic to nuts."),
    ("Mia lives in Lyon and is allergic to nuts.", "lives in Lyon", "Mia is not allergic to nuts."),
    ("Jonas wohnt in Graz und isst kein Fleisch.", "wohnt in Graz", "Jonas isst Fleisch."),
    ("Lucia vive a Roma e non mangia glutine.", "vive a Roma", "Lucia mangia glutine."),
    ("Анна живёт в Риге и не пьёт кофе.", "живёт в Риге", "Анна пьёт кофе."),
    ("米娅住在里昂，不喝咖啡。", "住在里昂", "米娅喝咖啡。"),
    ("米娅住在里昂，养了两只猫。", "住在里昂", "米娅养了三只狗。"),
    ("민수는 서울에 살고 커피를 안 마신다.", "서울에 살고", "민수는 커피를 마신다."),
    ("Mia lives in Lyon.", "lives in Lyon", "It is."),
)


@pytest.mark.parametrize(("older", "was", "still"), HONEST)
def test_what_is_said_in_the_words_of_the_older_one_holds(older: str, was: str, still: str) -> None:
    assert holds_of(still, older, was)


@pytest.mark.parametrize(("older", "was", "still"), WRONG)
def test_what_is_in_other_words_or_denied_or_overtaken_does_not(older: str, was: str, still: str) -> None:
    assert not holds_of(still, older, was)


@pytest.mark.parametrize("value", [None, "", " ", "null", "None", 5, ["Mia"], {}])
def test_nothing_that_still_holds_may_be_written_in_many_ways(value: object) -> None:
    named = {"newer": "n1", "older": "k1", "was": "lives in Lyon", "now": "Oslo", "still": value}
    found = NamedContradiction.model_validate(named)
    assert (found.newer, found.still) == ("n1", None)
