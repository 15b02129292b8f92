from memory_sql.consolidation.answers import NamedContradiction, NumberedText
from memory_sql.consolidation.offline import NOTICE
from memory_sql.consolidation.task import ConsolidationTask
from memory_sql.formation.answers import ExtractionAnswer, OfferedScope, Turn
from memory_sql.formation.task import ExtractionTask
from memory_sql.languages.text import count_words
from memory_sql.llm import Request
from memory_sql.llm.offline import NAME, Offline
from tests.factories import MONDAY

MIA = OfferedScope("individual_P1", "individual")
JONAS = OfferedScope("individual_P2", "individual")
TEAM = OfferedScope("group_1", "group")
ALL = OfferedScope("collective", "collective")


def task(
    *said: tuple[str, str], scopes: tuple[OfferedScope, ...] = (MIA, JONAS, TEAM, ALL), items: int = 5
) -> ExtractionTask:
    persons = {"Mia": "P1", "Jonas": "P2"}
    turns = tuple(Turn(n, "user", who, MONDAY, text, persons[who]) for n, (who, text) in enumerate(said, 1))
    return ExtractionTask(turns, scopes, items, 50, MONDAY)


def found(asked: ExtractionTask) -> list[tuple[str | None, str, list[int]]]:
    return [(item.scope, item.content, item.sources) for item in asked.by_rule().extraction.observations]


def test_statements_go_to_whom_they_concern() -> None:
    asked = task(
        ("Mia", "Good morning! I prefer green tea. Can you make a list?"),
        ("Jonas", "We decided to ship in April."),
        ("Jonas", "In general, large exports fail unless they are split."),
        ("Jonas", "I live in Marstrand, keep this to yourself."),
    )
    assert found(asked) == [
        ("individual_P1", "Mia said: I prefer green tea.", [1]),
        ("individual_P2", "Jonas said: I live in Marstrand, keep this to yourself.", [4]),
        ("group_1", "Jonas said: We decided to ship in April.", [2]),
        ("collective", "Jonas said: In general, large exports fail unless they are split.", [3]),
    ]


def test_what_the_assistant_says_and_what_is_known_is_left_out() -> None:
    turns = (
        Turn(1, "assistant", "Ada", MONDAY, "I prefer green tea."),
        Turn(2, "user", "Mia", MONDAY, "I prefer green tea."),
    )
    knows = OfferedScope("individual", "individual", knows=("Mia said: I prefer green tea.",))
    assert ExtractionTask(turns, (knows,), 5, 50, MONDAY).by_rule().root == {"individual": []}


def test_limits_hold() -> None:
    many = " ".join(f"I like the number {n} best." for n in range(9))
    assert len(found(task(("Mia", many), items=2))) == 2
    long = "I like " + "very " * 100 + "much."
    assert count_words(found(task(("Mia", long)))[0][1]) == 50


def merge(current: str | None, *texts: str, words: int = 500) -> str:
    observations = tuple(NumberedText(n, MONDAY, text) for n, text in enumerate(texts, 1))
    return ConsolidationTask("individual", "Mia", current, observations, words, MONDAY).by_rule().text


def test_consolidation_says_that_it_is_offline_once() -> None:
    first = merge(None, "Mia said: I prefer coffee.")
    assert first == f"{NOTICE}\nMia said: I prefer coffee."
    assert merge(first, "Mia said: My boat is blue.").count(NOTICE) == 1


def test_change_replaces_what_it_changes() -> None:
    text = merge(
        None,
        "Mia said: I drink coffee at nine.",
        "Mia said: My boat is blue.",
        "Mia said: I've stopped drinking coffee.",
    )
    assert text.splitlines()[1:] == ["Mia said: My boat is blue.", "Mia said: I've stopped drinking coffee."]


def test_change_names_what_it_contradicts() -> None:
    said = "Mia said: I drink coffee at nine.", "Mia said: My boat is blue.", "Mia said: My boat isn't blue any more."
    observations = tuple(NumberedText(n, MONDAY, text) for n, text in enumerate(said, 1))
    found = ConsolidationTask("individual", "Mia", None, observations, 500, MONDAY).by_rule().contradictions
    assert list(found) == [NamedContradiction(newer="n3", older="n2", was=said[1], now=said[2])]
    again = NumberedText(1, MONDAY, "Mia said: I've stopped drinking coffee.")
    text = ConsolidationTask("individual", "Mia", f"{NOTICE}\n{said[0]}", (again,), 500, MONDAY).by_rule()
    assert [(item.newer, item.older, item.was) for item in text.contradictions] == [("n1", None, said[0])]


def test_oldest_quotes_make_room() -> None:
    text = merge(None, *(f"Mia said: I like the number {n}." for n in range(50)), words=60)
    assert count_words(text) <= 60
    assert text.endswith("49.")


async def test_same_question_same_answer_under_its_own_name() -> None:
    request = task(("Mia", "I prefer green tea.")).request("any")
    first, second = await Offline().generate(request), await Offline().generate(request)
    assert first == second
    assert first.usage.model == NAME
    assert isinstance(first.value, ExtractionAnswer)
    assert isinstance(request, Request)
