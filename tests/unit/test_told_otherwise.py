"""A sentence of the old text about which nothing is new stays as it was; what is new may change it."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from memory_sql.consolidation.accounting import Spent, account
from memory_sql.consolidation.answers import NamedLeftOut
from memory_sql.consolidation.keeping import Kept, kept
from memory_sql.consolidation.replacing import Shown
from memory_sql.domain.scopes import AbsorbedObservation, Contradiction, PendingObservation
from memory_sql.languages.text import sentences

AROUND = [
    "Rosa cleans the kitchen windows on Thursdays.",
    "The boat was painted green by the crew in May.",
    "Jonas repairs old bicycles in the shed behind the mill.",
    "The choir rehearses in the parish hall every Tuesday evening.",
    "A new roof for the barn will cost about nine thousand euros.",
    "Lena teaches chess to the children of the village school.",
]
AROUND_GERMAN = [
    "Rosa putzt donnerstags die Fenster der Küche.",
    "Das Boot wurde im Mai von der Mannschaft grün gestrichen.",
    "Jonas repariert alte Fahrradteile in der Werkstatt hinter der Mühle.",
    "Der Chor probt jeden Dienstag im Saal der Gemeinde.",
    "Ein neues Dach für die Scheune wird etwa neuntausend Euro kosten.",
    "Lena bringt den Kindern der Dorfschule das Schachspiel bei.",
]
FERRY = "The ferry to the island sails hourly."
NOW = datetime(2026, 11, 23, tzinfo=UTC)


def rewritten(old: str, new: str, said: str = FERRY, max_words: int = 500) -> Kept:
    current, text = (" ".join([*AROUND[:3], one, *AROUND[3:]]) for one in (old, new))
    pending = [PendingObservation(99, said, NOW)]
    return kept(f"{text} {said}", current, pending, [], "crew", max_words, lambda parts: [None] * len(parts))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Mia likes green tea.", "Jon likes green tea."),
        ("Mia is allergic to peanuts.", "Jon is allergic to peanuts."),
        ("Mia does not eat meat.", "Mia eats meat."),
        ("Mia eats meat on Sundays.", "Mia doesn't eat meat on Sundays."),
        ("Mia never drinks coffee after noon.", "Mia drinks coffee after noon."),
        ("The rent is 1,200 euros a month.", "The rent is 1,400 euros a month."),
        ("The rent is 1,200 euros a month.", "The rent is paid each month."),
        ("Mia takes 5 mg of Ramipril each morning.", "Mia takes 50 mg of Ramipril each morning."),
        ("The exam is on 3 March 2027.", "The exam is on 3 May 2027."),
        ("The exam is on 3 March 2027.", "The exam is on 5 March 2027."),
        ("Mia is away from 7 to 11 December.", "Mia is away from 7 to 12 December."),
        ("The meeting is on Monday at 10.", "The meeting is on Monday."),
        ("Mia's doctor is Dr. Kovacs in Graz.", "Mia has a doctor in Graz."),
        ("Mia has two children, Tom and Eva.", "Mia has children."),
        ("Mia lent Jonas 200 euros.", "Jonas lent Mia 200 euros."),
        ("Mia is Jonas's boss.", "Jonas is Mia's boss."),
        ("Mia moved from Graz to Linz.", "Mia moved from Linz to Graz."),
        ("The key hangs behind the red door.", "The key hangs behind the blue door."),
        ("Invoices go to anna@x.org only.", "Invoices go to ben@y.org only."),
        ("Mia hates cilantro.", "Mia loves cilantro."),
        ("Mia isst kein Fleisch.", "Mia isst Fleisch."),
        ("Mia no come carne.", "Mia come carne."),
    ],
)
def test_what_nothing_new_is_about_stays_as_it_was(old: str, new: str) -> None:
    of = rewritten(old, new)
    assert old in of.text
    assert new not in of.text
    assert of.text.endswith(FERRY)
    assert of.put_back == 1


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("The rent is 1,200 euros a month.", "The rent is 1,400 euros a month.", "The rent was raised to 1,400 euros."),
        ("Mia does not eat meat.", "Mia eats meat.", "Mia eats meat again."),
        ("The key hangs behind the red door.", "The key hangs behind the blue door.", "The key has a new place."),
        ("Mia's doctor is Dr. Kovacs.", "Mia's doctor is Dr. Novak.", "Mia goes to Dr. Novak, her new doctor."),
    ],
)
def test_what_something_new_is_about_may_change(old: str, new: str, said: str) -> None:
    assert new in rewritten(old, new, said).text


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Mia does not eat meat.", "Meat isn't eaten by Mia."),
        ("The rent is 1,200 euros a month.", "A month's rent is 1200 euros."),
        ("Mia has two children, Tom and Eva.", "Tom and Eva are the two children of Mia."),
        ("Mia has two children. Mia works in Graz.", "Mia, who has two children, works in Graz."),
        ("The regatta is on 3 May.", "The regatta was on 3 May."),
        ("Tomek bakes with Mia and is away from 7 to 11 December.", "Tomek bakes with Mia."),
    ],
)
def test_what_is_told_in_other_words_is_not_put_back(old: str, new: str) -> None:
    assert new in rewritten(old, new).text
    assert rewritten(old, new).put_back == 0


@pytest.mark.parametrize("limit", [930, 900, 800])
def test_a_text_a_little_above_its_limit_loses_nothing_in_silence(limit: int) -> None:
    """62 sentences, of which the model drops 25 and lists none."""
    said = [f"The sail of boathouse {n + 100} was repaired by crew {n + 300} of the dock in winter." for n in range(62)]
    of = kept(" ".join(said[:37]), " ".join(said), [], [], "crew", limit, lambda parts: [None] * len(parts))
    assert (of.put_back, of.lost) == (25, 0)


@pytest.mark.parametrize("names", ["Jonas Lena Olaf Petra Rosa Anna", "Jon Mia Tom Eva Kim Ada"])
def test_one_contradiction_takes_no_sentence_about_somebody_else(names: str) -> None:
    said = [f"{name} likes strong black coffee with a little milk in the morning." for name in names.split()]
    newer = PendingObservation(9, f"{names.split()[0]} drinks tea now.", NOW)
    shown = Shown([newer], [AbsorbedObservation(1, said[0], NOW)], " ".join(said))
    overtaken = Contradiction(newer=9, older=1, was="strong black coffee", now="tea")
    assert account([], [overtaken], said, shown, "crew", Spent(is_own=False)).explained == {1}


def test_what_tells_the_same_observation_twice_goes_with_it() -> None:
    said = [
        "Jonas likes strong black coffee.",
        "Jonas likes strong black coffee, with milk.",
        "Lena likes black coffee.",
    ]
    shown = Shown(
        [PendingObservation(9, "Jonas drinks tea.", NOW)], [AbsorbedObservation(1, said[0], NOW)], " ".join(said)
    )
    overtaken = Contradiction(newer=9, older=1, was="black coffee", now="tea")
    assert account([], [overtaken], said, shown, "crew", Spent(is_own=False)).explained == {1, 2}


def test_where_several_speak_a_sentence_is_repeated_by_what_says_all_of_it() -> None:
    said = [f"{name} likes strong black coffee with a little milk in the morning." for name in ("Lena", "Tom", "Jonas")]
    newer = PendingObservation(9, f"So {said[2]}", NOW)
    listed = [NamedLeftOut(what=f"s{n}", why="repeated", by="n1") for n in (1, 2, 3)]
    counted = account(listed, [], said, Shown([newer], [], " ".join(said)), "crew", Spent(is_own=False))
    assert counted.replaced == pytest.approx(1 / 3)


NEWS = [
    "Tom is allergic to peanuts and carries a pen.",
    "The gate code is kept in the blue drawer.",
    "Die Fähre zur Insel fährt im Sommer jede Stunde.",
]


@pytest.mark.parametrize(
    ("told", "waits"),
    [
        ([], {1, 2}),
        ([NEWS[0]], {2}),
        (["Tom carries a pen, since he is allergic to peanuts. In the blue drawer lies the code of the gate."], set()),
    ],
)
def test_what_is_new_and_not_told_stays_pending(told: list[str], waits: set[int]) -> None:
    """What is in another language may have been translated."""
    pending = [PendingObservation(n, text, NOW) for n, text in enumerate(NEWS, 1)]
    current = " ".join(AROUND)
    of = kept(" ".join([current, *told]), current, pending, [], "crew", 500, lambda parts: [None] * len(parts))
    assert of.waits == waits


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("Mia is pregnant.", "She is expecting a baby."),
        ("Mia is fluent in Spanish.", "Spain's language comes easily to her."),
        ("Mia is married to somebody.", "She has a husband now."),
    ],
)
def test_what_is_told_in_one_sentence_of_other_words_does_not_wait(said: str, told: str) -> None:
    current = " ".join(AROUND)
    text = f"{current} {told}"
    pending = [PendingObservation(1, said, NOW)]
    of = kept(text, current, pending, [], "Mia", 500, lambda parts: [None] * len(parts))
    assert of.text == text
    assert not of.waits
    of = kept(current, current, pending, [], "Mia", 500, lambda parts: [None] * len(parts))
    assert of.text == current
    assert of.waits == {1}


LONG = (
    "The caravan by the lake belongs to Mia's uncle Herbert. The gas bottle stands under the bench. Neighbours called"
    " Brandt keep the spare key. Its heating needs an hour. Bicycles hang in the shed. The farmer sells eggs on Mondays."
    " Mosquitoes come in August. The shower takes tokens. A bus stops at the chapel twice daily. The pier is slippery."
    " Dogs must be on a lead. The awning tore last winter."
)
RUN_ON = (
    "the caravan by the lake belongs to my uncle Herbert and the gas bottle stands under the bench and neighbours called"
    " Brandt keep the spare key and its heating needs an hour and bicycles hang in the shed and the farmer sells eggs on"
    " Mondays and mosquitoes come in August and the shower takes tokens and a bus stops at the chapel twice daily"
)
GERMAN = (
    "Der Wohnwagen am See gehört dem Onkel Herbert. Die Gasflasche steht unter der Bank. Den Schlüssel haben die Nachbarn"
    " Brandt. Die Heizung braucht eine Stunde. Im Schuppen hängen die Fahrräder. Der Bauer verkauft montags Eier. Im"
    " August kommen die Mücken. Für die Dusche gibt es Münzen. Der Bus hält zweimal täglich an der Kapelle."
)


def spread(text: str) -> list[str]:
    """In sentences, the last first."""
    return sentences(text)[::-1]


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (LONG, sentences(LONG)),
        (LONG, spread(LONG)),
        (LONG, [one for one in spread(LONG) if "slippery" not in one and "lead" not in one]),
        (RUN_ON, spread(LONG)[3:]),
        (GERMAN, spread(GERMAN)),
    ],
)
def test_what_several_sentences_tell_together_does_not_wait(said: str, told: list[str]) -> None:
    current = " ".join(AROUND_GERMAN if said is GERMAN else AROUND)
    pending = [PendingObservation(1, said, NOW)]
    text = " ".join([current, *told])
    of = kept(text, current, pending, [], "Mia", 500, lambda parts: [None] * len(parts))
    assert (of.text, of.waits) == (text, frozenset[int]())
    wrong = f"{text} The rent is 77 euros."
    of = kept(
        wrong, current, pending, [], "Mia", 500, lambda parts: ["figures" if "77" in one else None for one in parts]
    )
    assert (of.text, of.waits) == (text, frozenset[int]())


@pytest.mark.parametrize(
    "told", [[], sentences(LONG)[:1], sentences(LONG)[3:5], ["The lake is near the chapel of the farmer."]]
)
def test_a_little_of_a_long_observation_is_not_all_of_it(told: list[str]) -> None:
    current = " ".join(AROUND)
    pending = [PendingObservation(1, LONG, NOW)]
    of = kept(" ".join([current, *told]), current, pending, [], "Mia", 500, lambda parts: [None] * len(parts))
    assert of.waits == {1}


def test_what_a_sentence_told_that_went_waits_though_others_tell_most_of_it() -> None:
    current = " ".join(AROUND)
    pending = [PendingObservation(1, LONG, NOW)]
    text = f"{current} {LONG}"
    of = kept(
        text, current, pending, [], "Mia", 500, lambda parts: ["figures" if "Brandt" in one else None for one in parts]
    )
    assert "Brandt" not in of.text
    assert of.waits == {1}


def test_a_short_text_may_be_written_anew() -> None:
    pending = [PendingObservation(1, "Tom is allergic to peanuts.", NOW)]
    assert not kept("They meet.", "They met.", pending, [], "crew", 500, lambda parts: [None] * len(parts)).waits


DUTIES = [
    f"{name} works on {day} in the harbour office."
    for name in ("Ben", "Anna", "Mia")
    for day in ("Mondays", "Fridays", "Sundays")
]


@pytest.mark.parametrize("gone", range(9))
def test_a_sentence_without_a_word_of_its_own_is_missed(gone: int) -> None:
    left = [one for n, one in enumerate(DUTIES) if n != gone]
    of = kept(" ".join(left), " ".join(DUTIES), [], [], "crew", 500, lambda parts: [None] * len(parts))
    assert DUTIES[gone] in of.text


def test_a_text_that_was_doubled_loses_nothing() -> None:
    """Nor does it stand twice in a new one."""
    once = " ".join(AROUND)
    of = kept(f"{once} {once}", once, [], [], "crew", 500, lambda parts: [None] * len(parts))
    assert of.text == once
    of = kept(" ".join(AROUND[:2]), f"{once} {once}", [], [], "crew", 500, lambda parts: [None] * len(parts))
    assert all(one in of.text for one in AROUND)
    assert kept(once, f"{once} {once}", [], [], "crew", 500, lambda parts: [None] * len(parts)).text == once
