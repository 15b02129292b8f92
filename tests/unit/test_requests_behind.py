"""Requests to forget behind another clause: the rules of each language find them, and nothing that looks like them."""

from __future__ import annotations

import tomllib
from collections import Counter
from pathlib import Path

import pytest

from memory_sql.languages.requests import requests_in

FILE = Path(__file__).parents[1] / "acceptance" / "requests_behind.toml"
SENTENCES = tomllib.loads(FILE.read_text(encoding="utf-8"))
# Written after the rules, which then found all that ask, and two that don't
LATER_ASKS = [
    "By the way, can you forget my salary?",
    "I changed banks; please delete my account number from memory",
    "We broke up - please forget my anniversary",
    "Cool, and please forget everything I told you about my ex",
    "Thanks a lot and please remove my phone number from your memory!",
    "Ich arbeite da nicht mehr, bitte vergiss meine Durchwahl",
    "Gut, und lösche bitte meine Telefonnummer aus deinem Gedächtnis",
    "Übrigens, könntest du vergessen, dass ich Angst vor Hunden habe?",
    "Merci beaucoup, et peux-tu oublier mon âge ?",
    "C'est noté, supprime mon numéro de téléphone de ta mémoire",
    "Muchas gracias, ¿puedes olvidar mi edad?",
    "Ya no importa, por favor elimina mi número de cuenta de tu memoria",
    "Perfetto, puoi dimenticare la mia età?",
    "Va bene, ti prego, dimentica che ho il diabete",
    "Ótimo, podes esquecer a minha idade?",
    "Fixe, e por favor esquece que eu sou diabética",
    "Leuk, kun je vergeten dat ik ziek ben?",
    "Top, en wis mijn telefoonnummer uit je geheugen",
    "Super, czy możesz zapomnieć, że jestem chora?",
    "No dobrze, usuń mój numer telefonu ze swojej pamięci",
    "Toppen, kan du glömma min ålder?",
    "Bra, och ta bort mitt telefonnummer från ditt minne",
    "Отлично, можешь забыть мой возраст?",
    "Хорошо, и удали мой номер телефона из памяти",
]
LATER_LOOKS = [
    "She begged me, please forget my words.",
    "The song goes la la la, please forget my name, and they sing on",
    "Before you send it to Tom, please delete my signature from the mail",
    "Add to the letter, please forget my late reply",
    "What would you do if I said, can you forget my age?",
    "I forgot my keys, please don't forget my birthday",
    "A friend texted me, please forget my invitation",
    "Dear Tom, please forget my last message",
    "Proofread: Hi team, please forget my earlier note",
    "Er flehte, bitte vergiss meinen Fehler",
    "Schreib Tom, bitte vergiss meine Mail",
    "Lieber Tom, bitte vergiss meine letzte Nachricht",
    "Korrigiere den Satz, bitte vergiss meine Worte",
    "Il m'a suppliée, s'il te plaît oublie mon erreur",
    "Écris à Paul, s'il te plaît oublie mon message",
    "Querido Juan, por favor olvida mi mensaje",
    "Me rogó, por favor olvida mi error",
    "Caro Luca, per favore dimentica il mio messaggio",
    "Mi ha pregato, per favore dimentica il mio errore",
    "Caro João, por favor esquece a minha mensagem",
    "Beste Tom, vergeet alsjeblieft mijn mail",
    "Droga Aniu, zapomnij proszę o mojej wiadomości",
    "Kära Anna, glöm snälla mitt mejl",
    "Дорогая Аня, забудь, пожалуйста, мою просьбу",
    "Он умолял, пожалуйста, забудь мою ошибку",
]


def test_the_set_has_thirty_of_each_three_in_each_of_ten_languages() -> None:
    assert [*SENTENCES] == ["asks", "looks"]
    for cases in SENTENCES.values():
        assert sorted(Counter(one["language"] for one in cases).values()) == [3] * 10
    assert len({one["says"] for cases in SENTENCES.values() for one in cases}) == 60


@pytest.mark.parametrize("case", SENTENCES["asks"], ids=lambda case: case["says"])
def test_what_is_asked_behind_another_clause_is_found(case: dict[str, str]) -> None:
    assert [(one.kind, one.what) for one in requests_in(case["says"])] == [("forget", case["what"])]


@pytest.mark.parametrize("case", SENTENCES["looks"], ids=lambda case: case["says"])
def test_what_looks_like_it_is_none(case: dict[str, str]) -> None:
    assert requests_in(case["says"]) == []


@pytest.mark.parametrize("said", LATER_ASKS)
def test_what_is_asked_in_other_words_is_found(said: str) -> None:
    assert [one.kind for one in requests_in(said)] == ["forget"]


@pytest.mark.parametrize("said", LATER_LOOKS)
def test_what_looks_like_it_in_other_words_is_none(said: str) -> None:
    assert requests_in(said) == []
