import pytest

from memory_sql.retrieval import should_retrieve, unknown_names

KNOWN = "Mia works with Jonas on the harbour booking site."


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ("Do you remember my dog?", "recall phrase"),
        ("recall my diet", "recall phrase"),
        ("You told me the code once.", "recall phrase"),
        ("What did I say about the gate?", "recall phrase"),
        ("We discussed the prices.", "recall phrase"),
        ("Where was the meeting?", "question about the past"),
        ("Thanks. When did the ferry leave?", "question about the past"),
        ("I will meet Birgitta Holm and Elin tomorrow.", "unknown names"),
    ],
)
def test_fires_with_its_reason(message: str, reason: str) -> None:
    fired = should_retrieve(message, KNOWN)
    assert fired is not None
    assert fired.reason == reason


@pytest.mark.parametrize(
    "message",
    [
        # What the rule as first written fires on (B.6): parts of words, capitals at the start of a sentence.
        "Show me the whole candid photo",
        "Make a shadow puppet, whatever",
        "Please wash the showroom",
        "Thanks! Great work",
        "I think I like it. I do.",
        "Can Mia and Jonas see it?",
        "What is the time?",
        "Please remember that I like tea.",
        "Always remember to save.",
        "That was great. What now?",
        "",
    ],
)
def test_does_not_fire(message: str) -> None:
    assert should_retrieve(message, KNOWN) is None


def test_names_are_compared_without_case_punctuation_or_possessive() -> None:
    assert unknown_names("We saw JONAS and Mia's boat.", KNOWN) == frozenset()
    assert unknown_names("We saw Åse and O'Brien.", KNOWN) == {"åse", "brien"}
