"""The rules by which a text asks memory to forget or to correct something, in each language that has some."""

from __future__ import annotations

import pytest

from memory_sql.formation.intake import ASKS_TO_FORGET, signal_in
from memory_sql.languages.data import of_all
from memory_sql.languages.requests import may_ask_to_forget, requests_in
from memory_sql.languages.tables import Requests

EXAMPLES = [
    pytest.param(kind, said, id=f"{language}: {said}")
    for language, requests in of_all(Requests).items()
    for kind, table in (("forget", "forget"), ("forget", "behind"), ("correct", "correct"))
    for said in getattr(requests, table)
]

# Not those that the rules were written with
ASKS = {
    "Could you please forget my phone number?": "my phone number",
    "ok, forget about my diet; what's for lunch": "my diet",
    "Vergiss mein Geburtsdatum.": "mein Geburtsdatum",
    "oublie mon âge": "mon âge",
    "Olvida mi edad, por favor.": "mi edad",
    "Dimentica la mia età.": "la mia età",
    "Esqueça o meu endereço.": "o meu endereço",
    "vergeet mijn leeftijd": "mijn leeftijd",
    "Zapomnij o moim psie.": "moim psie",
    "Glöm min ålder.": "min ålder",
    "Забудь мой возраст.": "мой возраст",
    "Hallo! Vergiss bitte, dass ich rauche.": "ich rauche",
    "Vergiss, dass mein Bruder nicht trinkt.": "mein Bruder nicht trinkt",
    "Vergeet dat ik niet rook.": "ik niet rook",
    "Glöm att jag inte dricker.": "jag inte dricker",
}
ASKS_NOT = [
    "Don't forget that I fly tomorrow.",
    "I forget my keys all the time.",
    "She told me to forget my ex.",
    "Never forget what I said!",
    'He wrote: "Forget my name."',
    "Er schrieb: „Vergiss meinen Namen.“",
    "That's right, I moved.",
    "Das stimmt, ich wohne in Kiel.",
    "Vergiss nicht, was ich gesagt habe.",
    "N'oublie pas que je suis allergique.",
    "No olvides que soy alérgica.",
    "Non dimenticare che sono allergica.",
    "Não esqueças que eu trabalho.",
    "Vergeet niet dat ik morgen vrij ben.",
    "Nie zapomnij, że mam wizytę.",
    "Glöm inte att jag flyger.",
    "Не забудь, что я завтра еду.",
    "Vergiss bitte meinen Termin am Freitag nicht.",
    "Vergiss mein Rad nicht abzuholen!",
    "Vergeet mijn afspraak morgen niet!",
    "Glöm min födelsedag inte!",
    "What happens when I forget my password?",
    "Delete my last line.",
    "",
]


@pytest.mark.parametrize(("kind", "said"), EXAMPLES)
def test_each_example_is_found_by_its_rule(kind: str, said: str) -> None:
    assert [one.kind for one in requests_in(said)] == [kind]
    assert kind == "correct" or may_ask_to_forget(said)


@pytest.mark.parametrize("said", ASKS)
def test_what_stands_behind_the_asking_is_meant(said: str) -> None:
    assert [(one.kind, one.what) for one in requests_in(said)] == [("forget", ASKS[said])]
    assert signal_in("user", said) == ASKS_TO_FORGET
    assert signal_in("assistant", said) is None


@pytest.mark.parametrize("said", ASKS_NOT)
def test_what_only_looks_like_it_is_none(said: str) -> None:
    assert requests_in(said) == []


def test_a_long_text_of_nothing_but_requests_takes_no_time() -> None:
    assert len(requests_in("forget my old address. " * 2_000)) == 2_000
    assert requests_in("please, " * 5_000 + "forget") == []
    assert len(requests_in("so, please forget my old address, " * 2_000)) == 2_000
