import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_sql.domain.messages import RetainedMessage
from memory_sql.domain.observations import Observation, Source
from memory_sql.domain.reading import Hit, MessageHit
from memory_sql.domain.scopes import ScopeRef
from memory_sql.languages.data import names as all_names
from memory_sql.languages.data import of_all
from memory_sql.languages.tables import Recall
from memory_sql.retrieval.asking import Asking, read
from memory_sql.retrieval.decide import LIMITS, OVERTAKEN, arranged_messages, decide

HERE = Path(__file__).parent
ORDINARY = (HERE / "ordinary_messages.txt").read_text("utf-8").splitlines()
WITHOUT = (HERE / "messages_without_memory.txt").read_text("utf-8").rstrip("\n").split("\n%\n")


# What a message asks for


@pytest.mark.parametrize("messages", [ORDINARY, WITHOUT], ids=["ordinary", "without memory"])
def test_messages_that_want_none_hardly_ever_ask_for_what_was_said(messages: list[str]) -> None:
    """R119: tasks, small talk, code, advice, the world, pasted text: what would be shown whatever was found."""
    assert len(messages) >= 100
    assert sum(bool(read(message).recalls) for message in messages) <= 0.02 * len(messages)


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        ("Do you remember my dog?", "remember"),
        ("recall my diet", "remember"),
        ("You told me the code once.", "you_told_me"),
        ("What did I say about the gate?", "asked_back"),
        ("We discussed the prices.", "we_discussed"),
        ("Please search your memory for the code.", "your_memory"),
        ("Remember that café I told you about?", "i_told_you"),
        ("What was that tune?", "what_was_that"),
        ("Ich habe ganz vergessen, wie das Lokal hieß.", "remember"),
    ],
)
def test_message_asks_for_what_was_said(message: str, kind: str) -> None:
    assert read(message).recalls == kind


@pytest.mark.parametrize(
    "message",
    [
        "Paint the whole candid photo",
        "Make a shadow puppet, whatever",
        "Thanks! Great work",
        "I think I like it. I do.",
        "Please remember that I like tea.",
        "Always remember to save.",
        "When I was five, we lived by the harbour.",
        "Had a great day at the boathouse",
        "What I like is the boathouse",
        "Will paint the boathouse today",
        "Hat geklappt",
        "Wo ich wohne regnet es",
        "Es un buen día",
        "",
        " \n\t ",
        "?!",
        # What is pasted isn't asked.
        "This fails.\n```\nwhat did I say about the gate?\n```",
        "> do you remember my dog?\n\nWrite an answer to that.",
        'Explain "do you remember" to her.',
        f"```\n{'x = 1' * 1000}\nwhat did I say about the gate?\n```",
    ],
)
def test_message_asks_for_nothing_that_was_said(message: str) -> None:
    assert read(message) == Asking()


def test_ends_of_a_long_message_are_read() -> None:
    assert read(f"{'Ordinary words here. ' * 400} What did I say about the gate?").recalls == "asked_back"
    assert not read(f"{'Ordinary words. ' * 200} What did I say about it? {'Ordinary words. ' * 200}").recalls


@pytest.mark.parametrize(
    ("message", "past"),
    [
        ("Where did I live before Oslo?", True),
        ("What did the gate use to cost, originally?", True),
        ("Wo habe ich früher gewohnt?", True),
        ("Where do I live?", False),
        ("Where did I park?", False),
        ("I lived in Oslo before. Thanks!", False),
    ],
)
def test_former_state_is_asked_for(message: str, past: bool) -> None:
    assert read(message).past is past


RECALL = of_all(Recall)
PHRASES = [
    pytest.param(kind, example, phrase, id=f"{language}: {example}")
    for language, recall in RECALL.items()
    for kind, some in recall.phrases.kinds.items()
    for example, phrase in some.items()
]


@pytest.mark.parametrize("name", RECALL)
def test_every_language_asks_in_many_ways(name: str) -> None:
    assert len(RECALL[name].phrases.kinds) >= 7


@pytest.mark.parametrize(("kind", "example", "phrase"), PHRASES)
def test_every_kind_of_phrase_is_found(kind: str, example: str, phrase: str) -> None:
    """Under its example, which is a sentence that this phrase, and not only another of its kind, finds."""
    assert read(example).recalls == kind
    said = example.lower().replace("’", "'").strip("¿?.! ")
    assert any(re.search(phrase, said[begin.start() :]) for begin in re.finditer(r"\b\w|^", said))


@given(st.text())
def test_any_text_can_be_read(message: str) -> None:
    assert read(message) == read(message)


# What is shown

NOW = datetime(2026, 5, 1, tzinfo=UTC)
MINE = ScopeRef(id="s1", kind="individual", owner_id="mia", name=None)
OURS = ScopeRef(id="s2", kind="group", owner_id="harbor", name=None)


def hit(
    seq: int,
    score: float,
    *,
    scope: ScopeRef = MINE,
    days: int = 0,
    covered: float = 0.5,
    gone: bool = False,
    near: bool = False,
) -> Hit:
    observation = Observation(
        id=f"o{scope.key}-{seq}",
        scope=scope,
        content=f"Something {seq}.",
        observed_at=NOW + timedelta(days=days),
        created_at=NOW,
        source=Source(kind="api"),
        status="superseded" if gone else "active",
        pending=False,
        sensitivity="private",
    )
    return Hit(observation=observation, score=score, strength=score, covered=covered, near=near)


def said(number: int, score: float, *, days: int = 0) -> MessageHit:
    message = RetainedMessage(
        conversation_id="s",
        id=f"m{number}",
        number=number,
        role="user",
        content="x",
        said_at=NOW + timedelta(days=days),
    )
    return MessageHit(message=message, score=score, strength=score, covered=0.5)


def shown(*scores: float, near: bool = True, most: int = 7, covered: float = 0.5) -> list[float]:
    """The scores of what is shown of hits with these."""
    hits = [hit(n, score, covered=covered, near=near) for n, score in enumerate(scores, 1)]
    return [one.score for one in decide(Asking(), hits, [], most, past=True).hits]


def test_lines_are_shown_to_where_the_scores_are_far_below_the_best() -> None:
    assert shown(9, 8, 7.5, 7, 3, 2.9) == [9, 8, 7.5, 7]
    assert shown(9, 3, 2.9, 2.8) == [9, 3, 2.9]  # a few in any case
    assert shown(9, 8, 7, 6, 5, 4.2, 3.6, 3.2) == [9, 8, 7, 6, 5, 4.2, 3.6]  # falls off late
    assert shown(9, 8, 7, 6, most=2) == [9, 8]


def test_each_further_line_matches_better_than_chance_by_a_little_more() -> None:
    assert shown(1.2, 1.15, 1.15) == [1.2, 1.15]
    assert shown(1.3, 1.3, 1.25, 1.25) == [1.3, 1.3, 1.25]
    assert shown(2, 1.9, 1.8, 1.7, 1.6, 1.5, 1.5, 1.5, most=9) == [2, 1.9, 1.8, 1.7, 1.6, 1.5]


@pytest.mark.parametrize(
    ("near", "covered", "least"),
    [(False, 0.5, LIMITS.by_words), (True, 0.5, LIMITS.by_both), (True, 0.0, LIMITS.by_meaning)],
)
def test_what_is_no_stronger_than_chance_is_not_shown(*, near: bool, covered: float, least: float) -> None:
    assert shown(least, least - 0.01, near=near, covered=covered) == [least]
    assert shown(least - 0.01, near=near, covered=covered) == []
    decision = decide(Asking(), [hit(1, least - 0.01, near=near, covered=covered)], [], 7, past=False).decision
    assert (decision.noise, decision.lines, decision.shown) == (least, 0, False)


def test_the_best_of_all_counts_though_it_no_longer_holds() -> None:
    hits = [hit(1, 9, gone=True), hit(2, 4), hit(3, 3.8), hit(4, 3.7), hit(5, 3.5)]
    assert decide(Asking(), hits, [], 7, past=True).decision.lines == 3


def test_nothing_is_shown_of_nothing() -> None:
    recalling = Asking(recalls="remember")
    assert not decide(recalling, [], [], 7, past=False).decision.shown
    assert decide(recalling, [hit(1, 3, gone=True)], [], 7, past=False).hits == []  # of what no longer holds alone


def test_asking_for_what_was_said_is_enough() -> None:
    weak = [hit(n, 0.1, covered=0.0) for n in range(1, 4)]
    assert decide(Asking(recalls="remember"), weak, [], 2, past=True).hits == weak[:2]
    assert decide(Asking(), weak, [], 7, past=False).hits == []


def test_messages_are_shown_by_their_own_scores() -> None:
    decided = decide(Asking(), [hit(1, 0.1, covered=0.0)], [said(1, 4), said(2, 3.9), said(3, 0.7)], 7, past=True)
    assert (decided.decision.shown, decided.decision.strength, decided.hits) == (True, 4, [])
    assert [one.message.number for one in decided.messages] == [1, 2]


def of_all_that_was_found(hits: list[Hit], most: int, *, past: bool) -> list[Hit]:
    return decide(Asking(), hits, [], most, past=past, everything=True).hits


def test_what_was_overtaken_stands_behind_what_holds_if_it_matches_as_well() -> None:
    hits = [
        hit(1, 5),
        hit(2, 4),
        hit(3, 3),
        hit(4, 4.5, gone=True),
        hit(5, 3.5, gone=True),
    ]
    assert [one.observation.id for one in of_all_that_was_found(hits, 2, past=False)] == ["o1-1", "o1-2", "o1-4"]
    assert [one.observation.id for one in of_all_that_was_found(hits, 3, past=False)] == [
        f"o1-{n}" for n in range(1, 6)
    ]
    assert OVERTAKEN == 3


def test_of_one_scope_the_newer_stands_first() -> None:
    """If it matches about as well, and the former state isn't asked for."""
    hits = [hit(1, 5), hit(2, 3, days=9), hit(3, 3, scope=OURS, days=5), hit(4, 1, days=9)]
    assert [one.observation.id for one in of_all_that_was_found(hits, 9, past=False)] == [
        "o1-2",
        "o1-1",
        "o2-3",
        "o1-4",
    ]
    assert [one.observation.id for one in of_all_that_was_found(hits, 9, past=True)] == ["o1-1", "o1-2", "o2-3", "o1-4"]
    rising = [hit(n, score, days=n) for n, score in enumerate((64, 33, 31, 17, 15, 9, 7))]
    assert [one.score for one in of_all_that_was_found(rising, 9, past=False)] == [33, 64, 17, 31, 9, 15, 7]
    messages = [said(1, 5), said(2, 3, days=9), said(3, 1, days=9)]
    assert [one.message.number for one in arranged_messages(messages, past=False)] == [2, 1, 3]
    assert [one.message.number for one in arranged_messages(messages, past=True)] == [1, 2, 3]


def test_lists_of_names_are_lower_case_and_consistent() -> None:
    names = all_names()
    assert names.words_too <= names.given
    assert all(name == name.casefold() for name in names.given | names.familiar)
