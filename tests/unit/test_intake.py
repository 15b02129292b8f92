from pathlib import Path

import pytest

from memory_sql.domain.messages import Message, Role
from memory_sql.formation.intake import signal_in, weigh


def said(text: str, role: Role = "user") -> Message:
    return Message(role=role, content=text)


def signal_of(text: str, role: Role = "user") -> str | None:
    return signal_in(role, text)


@pytest.mark.parametrize(
    ("role", "weight"), [("user", 10.0), ("tool", 5.0), ("function", 5.0), ("assistant", 2.0), ("agent", 2.0)]
)
def test_weight_is_tokens_by_who_said_it(role: Role, weight: float) -> None:
    """R279, R280: characters / 4.5, times 1.0, 0.5 or 0.2."""
    weighed = weigh(said("x" * 45, role))
    assert weighed.weight == weight
    assert weighed.eligible


@pytest.mark.parametrize("role", ["system", "developer"])
def test_instructions_to_the_agent_are_not_read(role: Role) -> None:
    weighed = weigh(said("Please remember that I like tea.", role))
    assert (weighed.weight, weighed.eligible, weighed.signal) == (0.0, False, None)


SIGNALS = (Path(__file__).parent / "messages_with_signals.txt").read_text("utf-8").splitlines()


@pytest.mark.parametrize("text", SIGNALS)
def test_statement_that_asks_to_be_remembered_is_a_signal(text: str) -> None:
    """B.4: what it lists as HIGH, and the same in other languages."""
    assert signal_of(text) is not None
    assert signal_of(text, "assistant") is None


def test_of_what_is_long_both_ends_are_read() -> None:
    pasted = "The log says that nothing happened. " * 1000
    assert signal_of(f"Don't use emojis. Here it is: {pasted}") == "standing instruction"
    assert signal_of(f"{pasted}\nDon't use emojis.") == "standing instruction"
    assert signal_of(f"{pasted} I never eat fish. {pasted}") is None


@pytest.mark.parametrize(
    "text",
    [
        "Can you write a haiku about boats?",
        "I need a table of berths.",
        "I want you to shorten this.",
        "What is the capital of Norway?",
        "Thanks! Great work.",
        "Show me the whole candid photo.",
        "Why did the build fail?",
        "Fyis are not a word.",
        "Make it blue.",
        "",
    ],
)
def test_ordinary_request_is_no_signal(text: str) -> None:
    assert signal_of(text) is None


ORDINARY = [
    line
    for name in ("ordinary_messages", "messages_without_signals")
    for line in (Path(__file__).parent / f"{name}.txt").read_text("utf-8").splitlines()
]


def test_ordinary_messages_set_nothing_off() -> None:
    """A signal costs a model call: of more than two hundred requests, questions and remarks none is one."""
    assert len(ORDINARY) > 200
    assert {text: signal_of(text) for text in ORDINARY if signal_of(text)} == {}


@pytest.mark.parametrize("trigger", ["nightly", "0"])
def test_scheduled_message_is_not_read(trigger: str) -> None:
    weighed = weigh(Message(role="user", content="Actually, I prefer tea.", trigger=trigger))
    assert (weighed.weight, weighed.eligible, weighed.signal) == (0.0, False, None)
