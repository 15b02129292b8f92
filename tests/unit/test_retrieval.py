import json
import re
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_sql.languages.data import names as all_names
from memory_sql.languages.data import of_all
from memory_sql.languages.tables import Recall
from memory_sql.retrieval.decide import REASONS, Fired, should_retrieve

HERE = Path(__file__).parent
FOR_MEMORY = (HERE / "messages_for_memory.txt").read_text("utf-8").splitlines()
WITHOUT = (HERE / "messages_without_memory.txt").read_text("utf-8").rstrip("\n").split("\n%\n")
ORDINARY = (HERE / "ordinary_messages.txt").read_text("utf-8").splitlines()

KNOWN = "Mia works with Jonas on the harbour booking site."


def fired_share(messages: Iterable[str], context: str = "", names: Iterable[str] = ()) -> float:
    fired = [should_retrieve(message, context, names) is not None for message in messages]
    return sum(fired) / len(fired)


# How often


def test_messages_that_want_memory_fire() -> None:
    """R119."""
    assert len(FOR_MEMORY) == 60
    assert fired_share(FOR_MEMORY) >= 0.95


def test_messages_that_want_none_hardly_ever_fire() -> None:
    """R119: tasks, small talk, code, advice, the world, pasted text; also with memory about people in the prompt."""
    assert len(WITHOUT) == 200
    assert fired_share(WITHOUT) <= 0.02
    assert fired_share(WITHOUT, KNOWN, ["Mia", "Jonas"]) <= 0.02
    assert fired_share(ORDINARY) <= 0.02


@pytest.mark.parametrize("known", ["nothing", "context", "names"])
def test_questions_about_conversations_fire_and_what_is_said_in_them_does_not(known: str, shared: Path) -> None:
    """R119."""
    folder = shared / "data" / "locomo"
    questions = [json.loads(line) for line in (folder / "questions.jsonl").read_text("utf-8").splitlines()]
    asked, said = [], []
    for path in sorted(folder.glob("conv-*.jsonl")):
        turns = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
        speakers = sorted({turn["name"] for turn in turns})
        context, names = " ".join(speakers) if known == "context" else "", speakers if known == "names" else []
        own = [question["question"] for question in questions if question["conv"] == path.stem]
        asked += [should_retrieve(question, context, names) is not None for question in own]
        said += [should_retrieve(turn["content"], context, names) is not None for turn in turns]
    assert sum(asked) / len(asked) >= 0.99
    assert sum(said) / len(said) <= 0.01


# Why


@pytest.mark.parametrize(
    ("message", "reason", "kind"),
    [
        ("Do you remember my dog?", "recall phrase", "remember"),
        ("recall my diet", "recall phrase", "remember"),
        ("You told me the code once.", "recall phrase", "you_told_me"),
        ("What did I say about the gate?", "recall phrase", "asked_back"),
        ("We discussed the prices.", "recall phrase", "we_discussed"),
        ("Please search your memory for the code.", "recall phrase", "your_memory"),
        ("What was her name again?", "recall phrase", "again"),
        ("the café where we met", "recall phrase", "thing_lived"),
        ("Wo haben wir nochmal geparkt?", "question about the past", "own_past"),
        ("Where was the meeting?", "question about the past", "thing_past"),
        ("Thanks. When did the ferry leave?", "question about the past", "thing_past"),
        ("Who did I meet in Oslo?", "question about the past", "own_past"),
        ("What's my dog called?", "question about the user", "own_thing"),
        ("Can you tell me what my goals for this year are?", "question about the user", "own_thing"),
        ("Who is Zorbla?", "question about a name", "name_and_past"),
        ("Wie heißt der Freund von Elin?", "question about a name", "given_name"),
        ("Remember that café I told you about?", "recall phrase", "i_told_you"),
        ("Am I allergic to nuts?", "question about the user", "am_i"),
        ("Does Jonas like herring?", "question about a name", "given_name"),
        ("When did Zorbla arrive?", "question about a name", "name_and_past"),
        ("I will meet Birgitta Holm and Elin tomorrow.", "unknown names", "two_names"),
    ],
)
def test_fires_with_its_reason(message: str, reason: str, kind: str) -> None:
    assert should_retrieve(message, "") == Fired(reason, kind)  # type: ignore[arg-type]
    assert reason in REASONS


@pytest.mark.parametrize(
    "message",
    [
        # What the rule as first written fires on (B.6): parts of words, capitals at the start of a sentence.
        "Show me the whole candid photo",
        "Make a shadow puppet, whatever",
        "Please wash the showroom",
        "Thanks! Great work",
        "I think I like it. I do.",
        "What is the time?",
        "Please remember that I like tea.",
        "Always remember to save.",
        "That was great. What now?",
        "",
        " \n\t ",
        "?!",
        # Who is spoken to isn't spoken of.
        "Hey Mia, what's up?",
        "How was your weekend, Jonas?",
        "Where did you go, Mia?",
        # What is pasted isn't asked.
        "Why does this fail?\n```\nwhat did I say about the gate?\n```",
        "> do you remember my dog?\n\nWrite an answer to that.",
        'What does "do you remember" mean in German?',
        "Translate: Where did Jonas park?",
        "How do I take good notes while reading?",
        "What's the best way to remind my team about deadlines?",
        "What does my doctor mean when she says that?",
        "¿Qué le regalo a mi madre por su cumpleaños?",
        "Suppose Anna has three boats. How many does Anna have after selling one?",
    ],
)
def test_does_not_fire(message: str) -> None:
    assert should_retrieve(message, KNOWN) is None


def test_known_names_need_no_sign_of_the_past() -> None:
    """R083: a name in the scopes or in the prompt is somebody's; a name that is also a word needs its capital."""
    assert should_retrieve("Is Zorbla coming?", "") is None
    assert should_retrieve("Is Zorbla coming?", "Zorbla is a cat.") == Fired("question about a name", "known_name")
    assert should_retrieve("Is Zorbla coming?", "", ["Zorbla Holm"]) == Fired("question about a name", "known_name")
    assert should_retrieve("is there hope?", "", ["Hope"]) is None
    assert should_retrieve("Is the team large?", "", ["Dev Team"]) is None
    assert should_retrieve("What does Paris cost?", "") is None
    assert should_retrieve("What does Paris cost?", "", ["Paris"]) is not None


def test_number_of_unknown_names_can_be_set() -> None:
    """C7."""
    message = "I will meet Birgitta tomorrow."
    assert should_retrieve(message, "", unknown_names=1) == Fired("unknown names", "two_names")
    assert should_retrieve(message, "") is None
    assert should_retrieve("We saw JONAS and Mia's boat.", KNOWN, unknown_names=1) is None


def test_an_unknown_language_falls_back_to_names() -> None:
    assert should_retrieve("Hvar gikk Birgitta?", "") == Fired("question about a name", "given_name")
    assert should_retrieve("田中さんの誕生日はいつですか？", "") is None
    assert should_retrieve("田中さんの誕生日はいつですか？", "", ["田中"]) == Fired(
        "question about a name", "known_name"
    )


def test_only_the_ends_and_the_questions_of_a_long_message_are_judged() -> None:
    told = " ".join(f"Step {n} went well and the result looked fine." for n in range(12))
    assert should_retrieve(f"{told} We discussed the prices. {told}", "") is None
    assert should_retrieve(f"{told} What did I say about the gate? {told}", "") is not None
    assert should_retrieve(f"{'Ordinary words here. ' * 400} What did I say about the gate?", "") is not None
    assert should_retrieve(f"```\n{'x = 1' * 1000}\nwhat did I say about the gate?\n```", "") is None


RECALL = {language: recall for language, recall in of_all(Recall).items() if recall.anywhere.kinds}
PHRASES = [
    pytest.param(kind, example, phrase, id=f"{language}: {example}")
    for language, recall in RECALL.items()
    for phrases in (recall.anywhere, recall.in_request, recall.of_past, recall.of_user)
    for kind, some in phrases.kinds.items()
    for example, phrase in some.items()
]


@pytest.mark.parametrize("name", RECALL)
def test_every_language_asks_in_many_ways(name: str) -> None:
    recall = RECALL[name]
    patterns = (recall.anywhere, recall.in_request, recall.of_past, recall.of_user)
    assert all(pattern.kinds for pattern in patterns)
    assert sum(len(pattern.kinds) for pattern in patterns) >= 13


@pytest.mark.parametrize(("kind", "example", "phrase"), PHRASES)
def test_every_kind_of_phrase_fires(kind: str, example: str, phrase: str) -> None:
    """Under its example, which is a sentence that this phrase, and not only another of its kind, finds."""
    fired = should_retrieve(example, "")
    assert fired is not None
    assert fired.kind == kind
    said = example.lower().replace("’", "'").strip("¿?.! ")
    assert any(re.search(phrase, said[begin.start() :]) for begin in re.finditer(r"\b\w|^", said))


@given(st.text(), st.text(), st.lists(st.text(max_size=10), max_size=3))
def test_any_text_has_an_answer(message: str, context: str, names: list[str]) -> None:
    fired = should_retrieve(message, context, names)
    assert fired == should_retrieve(message, context, names)
    assert fired is None or (fired.reason in REASONS and fired.kind.isidentifier())


def test_lists_of_names_are_lower_case_and_consistent() -> None:
    names = all_names()
    assert names.words_too <= names.given
    assert all(name == name.casefold() for name in names.given | names.familiar)
