"""Kind and importance by the rules of B.4 (`domain/classification.py`). The vectors are computed by hand."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, cast

import pytest

from memory_sql.domain import classification
from memory_sql.domain.classification import Classified, classification_of, importance_of, kind_of
from memory_sql.languages.data import of_all
from memory_sql.languages.tables import Importance, Kinds

PHRASES = [
    pytest.param(example, pattern, id=f"{language} {field}: {example}")
    for table in (Kinds, Importance)
    for language, words in of_all(table).items()
    for field, phrases in cast("Any", words)._asdict().items()
    if isinstance(phrases, Mapping)
    for example, pattern in phrases.items()
]


@pytest.mark.parametrize(("example", "pattern"), PHRASES)
def test_each_pattern_matches_its_example(example: str, pattern: str) -> None:
    assert re.search(pattern, example, re.IGNORECASE)


# Each text, category and tags would come out otherwise if the step before had anything to say, or the step itself nothing.
STEPS: list[tuple[str, str | None, tuple[str, ...], str]] = [
    # 1: a marker of time, whatever the rest says (R216)
    ("Yesterday Ada said that she always wants tea.", "preference", ("policy",), "episode"),
    ("Ada saw a doctor today.", "principle", (), "episode"),
    ("Last Tuesday the team chose Go.", "decision", (), "episode"),
    ("The pump needs oil; it stopped on Friday.", "skill", (), "episode"),
    ("Ada recently took to tea, which she needs.", "preference", (), "episode"),
    ("This afternoon Ada must rest.", None, (), "episode"),
    # 2: the category (R217)
    ("Piet deployed it.", "preference", ("bug",), "note"),
    ("Piet deployed it.", "decision", (), "note"),
    ("Piet deployed it.", "commitment", (), "note"),
    ("Piet deployed it.", "principle", (), "note"),
    ("Piet deployed it.", "relationship", (), "note"),
    ("Piet deployed it.", "skill", (), "note"),
    ("Piet deployed it.", "correction", (), "note"),
    ("Piet deployed it.", "entity", (), "note"),
    ("Ada always wants tea.", "moment", ("policy",), "episode"),
    ("Ada always wants tea.", "event", (), "episode"),
    ("Ada always wants tea.", "incident", (), "episode"),
    # 2, beside B.4: a category that is a kind, and those that C14 adds
    ("Piet deployed it.", "fact", ("policy",), "fact"),
    ("Piet deployed it.", "procedure", (), "procedure"),
    ("Piet deployed it.", "rule", (), "note"),
    ("Piet deployed it.", "reasoning", (), "note"),
    # 3: the tags, those of notes first (R218); a category of the host's own decides nothing
    ("Piet deployed it.", "errand", ("Habit", "bug"), "note"),
    ("Ada always wants tea.", None, ("Deploy",), "episode"),
    ("Ada always wants tea.", None, ("kitchen",), "note"),
    # 4: what happened (R219)
    ("Piet merged what the policy requires.", None, (), "episode"),
    ("Ada mentioned that she wants tea.", None, (), "episode"),
    # 5: what holds (R220)
    ("Ada prefers tea.", None, (), "note"),
    ("The form requires a stamp.", None, (), "note"),
    ("Ada's goal is a marathon.", None, (), "note"),
    # 6: else an episode (R221)
    ("Ada lives in Bergen.", None, (), "episode"),
    ("Ada lives in Bergen.", "errand", (), "episode"),
]


@pytest.mark.parametrize(("text", "category", "tags", "kind"), STEPS)
def test_the_first_step_that_says_something_gives_the_kind(
    text: str, category: str | None, tags: tuple[str, ...], kind: str
) -> None:
    assert kind_of(text, category, tags) == kind


# Words that look like markers and are none: what holds would become what happened once.
NO_MARKERS = [
    "From today Ada wants short answers.",
    "Ada wants today's paper.",
    "Ada wants earlier trains.",
    "Ada needs to get up earlier than Tom.",
    "Ada wants the report in the last week of June.",
    "Ada wants last year's model.",
    "The cache must drop the least recently used entry.",
    "Ada never deploys on Friday.",
    "Every week on Tuesday Ada needs the car.",
    "Ada wants the car on Tuesdays.",
    "Ada wants the room on Friday afternoons.",
    "Ada wants a fixed price.",
    "Ab heute möchte Ada kurze Antworten.",
    "Ada möchte die letzte Woche im Juni frei haben.",
    "Ada braucht dienstags das Auto.",
    "Ada braucht jede Woche am Dienstag das Auto.",
    "À partir d'aujourd'hui Ada veut des réponses courtes.",
    "Ada veut la voiture le mardi.",
    "A partir de hoy Ada quiere respuestas cortas.",
    "Ada necesita el coche los martes.",
    "Vanaf vandaag wil Ada korte antwoorden.",
    "Da oggi Ada vuole risposte brevi.",
    "A partir de hoje a Ada quer respostas curtas.",
    "Från i dag vill Ada ha korta svar.",
    "Od dziś Ada chce krótkich odpowiedzi.",
    "С сегодня Ада хочет коротких ответов.",
]


@pytest.mark.parametrize("text", NO_MARKERS)
def test_what_only_looks_like_a_moment_is_none(text: str) -> None:
    assert kind_of(text) == "note"


# Words that look like those of notes in their own or another language.
NO_NOTES = [
    "Ada saw the police at the harbour.",
    "Ada found a needle in the hay.",
    "Tom scored a goal for the harbour team.",
    "Ada drinkt koffie, want de thee is op.",  # Dutch: because
    "Ada bor i Bergen med sin syster.",
    "Ada wohnt immer noch in Bergen.",
]


@pytest.mark.parametrize("text", NO_NOTES)
def test_what_only_looks_like_a_note_is_none(text: str) -> None:
    assert kind_of(text) == "episode"


OTHER_LANGUAGES = [
    ("Gestern hat Ada angerufen, weil sie Ruhe braucht.", "episode"),
    ("Piet hat die Pumpe im Keller repariert.", "episode"),
    ("Ada isst nie Fisch.", "note"),
    ("Ada a appelé hier parce qu'elle veut la clé.", "episode"),
    ("Piet a réparé la pompe de la cave.", "episode"),
    ("Ada préfère le thé.", "note"),
    ("Ada llamó ayer porque quiere la llave.", "episode"),
    ("Piet reparó la bomba del sótano.", "episode"),
    ("Ada nunca come pescado.", "note"),
    ("Ada is vorige week naar Bergen verhuisd en wil rust.", "episode"),
    ("Ada eet nooit vis.", "note"),
    ("Ada si è trasferita la settimana scorsa e vuole calma.", "episode"),
    ("Ada non mangia mai pesce.", "note"),
    ("A Ada ligou ontem porque quer a chave.", "episode"),
    ("A Ada nunca come peixe.", "note"),
    ("Ada ringde i går för att hon vill ha nyckeln.", "episode"),
    ("Ada äter aldrig fisk.", "note"),
    ("Ada dzwoniła wczoraj, bo chce klucz.", "episode"),
    ("Ada nigdy nie je ryb.", "note"),
    ("Ада звонила вчера, потому что хочет ключ.", "episode"),
    ("Ада никогда не ест рыбу.", "note"),
    ("小王昨天打了电话,她需要钥匙。", "episode"),
    ("小王喜欢喝茶。", "note"),
    ("田中さんは昨日電話した。鍵が必要だ。", "episode"),
    ("田中さんはお茶を好む。", "note"),
    ("민수는 어제 전화했다. 열쇠가 필요하다.", "episode"),
    ("민수는 차를 선호한다.", "note"),
]


@pytest.mark.parametrize(("text", "kind"), OTHER_LANGUAGES)
def test_each_language_has_words_of_its_own(text: str, kind: str) -> None:
    assert kind_of(text) == kind


PLAIN = "Ada lives in Bergen."
LONG = f"{PLAIN} {'ab' * 130}"  # 281 characters

VALUES: list[tuple[str, str | None, tuple[str, ...], float]] = [
    (PLAIN, None, (), 0.5),
    (PLAIN, "fact", (), 0.5),
    ("Hello!", None, (), 0.1),  # trivial, and nothing else counts
    ("Good morning, thank you very much!", "correction", ("important",), 0.1),
    ("Ada is 40.", "correction", (), 0.1),  # ten characters
    ("Ada is 401.", None, (), 0.53),  # eleven: .5 + .03 for the figures
    ("Ada is a nurse of 4", None, (), 0.5),  # one figure
    ("Ada's work is critical.", None, (), 0.7),  # .5 + .2
    ("Ada's work is critical and urgent.", None, (), 0.7),  # once
    ("Tea is important to Ada.", None, (), 0.62),  # .5 + .12
    ("Ada must rest; that is critical.", None, (), 0.82),  # .5 + .2 + .12
    ("Ada is perhaps in Bergen.", None, (), 0.35),  # .5 − .15
    ("Ada must perhaps rest.", None, (), 0.47),  # .5 + .12 − .15
    (PLAIN, "correction", (), 0.65),
    (PLAIN, "principle", (), 0.62),
    (PLAIN, "rule", (), 0.61),
    (PLAIN, "preference", (), 0.6),
    (PLAIN, "commitment", (), 0.6),
    (PLAIN, "procedure", (), 0.6),
    (PLAIN, "reasoning", (), 0.59),
    (PLAIN, "decision", (), 0.58),
    (PLAIN, "relationship", (), 0.55),
    (PLAIN, "skill", (), 0.55),
    (PLAIN, "moment", (), 0.53),
    (PLAIN, "entity", (), 0.52),
    (PLAIN, "errand", (), 0.5),
    (LONG, None, (), 0.58),  # 81 characters beyond 200: .081
    (f"{PLAIN} {'ab' * 200}", None, (), 0.6),  # .221, at most .1
    (f"{PLAIN} {'a' * 179}", None, (), 0.5),  # 200 characters
    (f"{PLAIN} {'a' * 184}", None, (), 0.51),  # 205: .005, which is rounded up
    ("I live in Bergen.", None, (), 0.55),
    ("Ada moved to the US in spring.", None, (), 0.5),  # a country
    ("Mia lives in Bergen.", None, (), 0.5),  # a name, and Italian for "my"
    ("Ada uses version 2 of the map.", None, (), 0.53),
    ("Ada uses version 21 of the map.", None, (), 0.53),  # once
    (PLAIN, None, ("important",), 0.55),
    (PLAIN, None, ("Important", "urgent", "kitchen"), 0.6),
    ("I must always do version 21, which is critical.", "correction", ("critical", "urgent", "important"), 1.0),  # 1.2
    ("Ada isst nie Nüsse, das ist dringend.", None, (), 0.82),
    ("Ada déménagera peut-être à Lyon.", None, (), 0.35),
    ("Es importante para Ada que no llueva.", None, (), 0.62),
    ("小王住在卑尔根。", None, (), 0.5),  # eight characters, as much as twenty letters
    ("谢谢你!", None, (), 0.1),
]


@pytest.mark.parametrize(("text", "category", "tags", "importance"), VALUES)
def test_importance_is_the_sum_of_what_b4_counts(
    text: str, category: str | None, tags: tuple[str, ...], importance: float
) -> None:
    assert importance_of(text, category, tags) == importance


CONSTANTS = """
START TRIVIAL CRITICAL HIGH HEDGED FIRST_PERSON TECHNICAL TAGGED LONG MOST_FOR_LENGTH SHORTEST LONGEST_TRIVIAL
""".split()


def _wrong() -> list[Any]:
    """The first vector that comes out otherwise."""
    steps = (row for row in STEPS if kind_of(*row[:3]) != row[3])
    return [*steps, *(row for row in VALUES if importance_of(*row[:3]) != row[3])][:1]


@pytest.mark.parametrize("name", CONSTANTS)
def test_the_vectors_notice_another_constant(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not _wrong()
    other = 10 if name == "LONGEST_TRIVIAL" else getattr(classification, name) + (1 if name == "SHORTEST" else 10)
    monkeypatch.setattr(classification, name, other)
    assert _wrong()


@pytest.mark.parametrize("category", classification.OF_CATEGORY)
def test_the_vectors_notice_another_boost(category: str, monkeypatch: pytest.MonkeyPatch) -> None:
    changed = {**classification.OF_CATEGORY, category: classification.OF_CATEGORY[category] + 10}
    monkeypatch.setattr(classification, "OF_CATEGORY", changed)
    assert _wrong()


def test_what_the_host_gives_is_kept_and_the_rest_is_by_the_rules() -> None:
    nothing = Classified(None, None, None)
    ask = ("Ada never eats fish.", "preference", (), None)
    assert classification_of(*ask, nothing) == ("note", 0.72, classification.RULES)
    assert classification_of(*ask, Classified("fact", None, None)) == ("fact", 0.72, None)
    assert classification_of(*ask, Classified(None, 0.2, None)) == ("note", 0.2, None)
    assert classification_of(*ask, Classified("fact", 0.2, None)) == ("fact", 0.2, None)
    assert classification_of(PLAIN, None, (), "home", nothing).kind == "fact"  # it states a named fact


def test_a_kind_that_nothing_says_is_not_stored_as_if_something_did() -> None:
    """It would be evicted as an episode, and share the smallest budget of a digest."""
    assert classification_of(PLAIN, None, (), None, Classified(None, None, None)) == (None, 0.5, classification.RULES)


def test_the_tiers_of_confidence_are_those_of_b4() -> None:
    said, implied, guessed = (classification.CONFIDENCE[sure] for sure in ("said", "implied", "guessed"))
    assert said >= 0.95 > implied >= 0.70 > guessed >= 0.40
