"""Whether a message that asks to forget something would take anything else with it, once it has no text."""

from __future__ import annotations

import pytest

from memory_sql.formation.requests import says_more

ADDRESS = ["Mia's old address"]
MORE = {
    "Forget my old address. By the way, the bakery opens at 7.": ADDRESS,
    "Forget my old address, the new one is Elm Street": ADDRESS,
    "Forget my old address - the new one is Elm Street": ADDRESS,
    "Forget my old address and remember the gate code is Swordfish": ADDRESS,
    "Forget my old address and note 55": ADDRESS,
    "Forget my old address. My cat is Bo.": ADDRESS,
    "Can you forget my number and note that I moved to Rome yesterday?": ["Mia's number"],
    "forget what I said about the colour, make it blue": ["the colour"],
    "Забудь мой старый адрес. Ключ лежит под ковриком.": ["старый адрес"],
    "Vergiss meine Adresse, und gib mir ein Rezept für Linsensuppe.": ["Mias Adresse"],
    "请忘记我喜欢绿茶。我的猫叫小白。": ["Mia喜欢绿茶"],
}
NOTHING_MORE = {
    "please forget that I prefer green tea": ["Mia prefers green tea"],
    "Forget my old address. My cat is Bo.": [*ADDRESS, "Mia has a cat called Bo."],
    "Forget my old address, 4 Harbour Street": [*ADDRESS, "Mia lives at 4 Harbour Street."],
    "Please forget my old address. Thanks a lot!": ADDRESS,
    "Forget my old address, thank you very much, have a nice day": ADDRESS,
    "Vergiss bitte meine Adresse. Vielen Dank!": ["Mias Adresse"],
    "Oublie mon adresse, merci beaucoup.": ["l'adresse de Mia"],
    "Forget my old address. How are you today, my friend?": ADDRESS,
    "Drop the thing about green tea, would you.": ["green tea"],
    "Forget that I had an affair with Tom in Paris last year.": ["Mia's affair with Tom"],
    "Cancella dalla tua memoria il mio vecchio numero di cliente.": ["il vecchio numero di cliente di Mia"],
    "请忘记我喜欢绿茶": ["Mia喜欢绿茶"],
}


@pytest.mark.parametrize("said", MORE)
def test_what_is_told_nowhere_else_is_more(said: str) -> None:
    assert says_more(said, MORE[said], frozenset({"mia"}))


@pytest.mark.parametrize("said", NOTHING_MORE)
def test_what_is_asked_or_kept_or_polite_is_no_more(said: str) -> None:
    assert not says_more(said, NOTHING_MORE[said], frozenset({"mia"}))
