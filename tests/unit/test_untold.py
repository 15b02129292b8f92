"""Which sentences of a long text have no counterpart in a new one, and how much is compared to say so."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest

from memory_sql.consolidation.keeping import kept, untold
from memory_sql.domain.scopes import PendingObservation
from memory_sql.languages import wording
from memory_sql.languages.text import sentences
from memory_sql.languages.wording import is_among, pieces
from memory_sql.propagation import speech
from memory_sql.propagation.speech import language_of

LINES = Path(__file__).with_name("ordinary_messages.txt").read_text().splitlines()
SAID = [f"{line.rstrip('.!?')} on day {n}." for n, line in enumerate((line for line in LINES if len(line) > 30), 1)][
    :120
]


class Comparisons:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count, compare = 0, wording._are_forms

        def counted(one: str, other: str) -> bool:
            self.count += 1
            return compare(one, other)

        monkeypatch.setattr(wording, "_are_forms", counted)


def told(new: list[str]) -> list[frozenset[str]]:
    return [pieces(part) for part in new]


def test_what_is_kept_word_for_word_is_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = Comparisons(monkeypatch)
    assert untold(" ".join(SAID), told([*SAID[::-1], "Mia owns a sloop."]), "mia", ()) == []
    assert seen.count == 0


def test_what_is_written_anew_is_compared_with_what_begins_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    old, seen = " ".join(SAID), Comparisons(monkeypatch)
    new = [" ".join(f"{word}s" for word in part.rstrip(".").split()) for part in SAID]
    untold(old, told(new), "mia", ())
    words = [pieces(part) for part in sentences(old)]
    pairs = sum(len(one) * len(other) for one in words for other in told(new))
    assert 0 < seen.count < pairs / 20


def test_a_sentence_without_counterpart_is_found_among_many() -> None:
    gone = "Rosa cleans the kitchen windows on Thursdays."
    text = " ".join([*SAID[:60], gone, *SAID[60:]])
    place = sentences(text).index(gone)
    assert untold(text, told(SAID), "mia", ()) == [place]
    assert untold(text, told(SAID), "mia", {place + 1}) == []
    assert untold(text, told([*SAID, "On Thursday, Rosa cleaned the window of the kitchen."]), "mia", ()) == []


@pytest.mark.parametrize(
    ("one", "other", "are_forms"),
    [
        ("planted", "planting", True),
        ("plans", "plan", True),
        ("tea", "teas", False),  # too short to tell
        ("consolidation", "console", False),  # they part too early
        ("1234", "12345", False),  # figures have no forms
        ("überprüfung", "überprüfungen", True),
    ],
)
def test_forms_of_a_word_begin_alike(one: str, other: str, are_forms: bool) -> None:
    assert is_among(one, {other, "harbour"}) == are_forms
    assert is_among(other, {one, "harbour"}) == are_forms


def test_the_text_beside_many_claims_is_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    texts, judge = list[str](), speech._language_of

    def judged(text: str, expected: str | None = None) -> str | None:
        texts.append(text)
        return judge(text, expected)

    monkeypatch.setattr(speech, "_language_of", judged)
    around = " ".join(SAID[:100])
    assert {language_of(f"Server {n} runs Postgres 18.", around) for n in range(20)} == {"english"}
    assert texts.count(around) == 1


FACTS = [f"{who} {what}." for who, what in zip(
    ("Anna", "Ben", "Cid", "Dot", "Eve", "Finn", "Gus", "Hal", "Ida"),
    ("keeps the spare keys", "waters the ferns", "locks the gate at ten", "feeds the pigeons", "paints the fence",
     "mends the bicycles", "orders the coal", "sweeps the yard", "tunes the piano"),
    strict=True,
)]  # fmt: skip


def test_one_sentence_tells_four_others_and_itself() -> None:
    rumour = f"It is an old rumour that {', that '.join(fact[:-1] for fact in FACTS)}."
    assert len(untold(" ".join(FACTS), told([rumour]), "mia", ())) == len(FACTS) - 4
    assert len(untold(" ".join([*FACTS, rumour]), told([rumour]), "mia", ())) == len(FACTS) - 4
    merged = [f"{', and '.join(fact[:-1] for fact in FACTS[n : n + 3])}." for n in range(0, len(FACTS), 3)]
    assert untold(" ".join(FACTS), told(merged), "mia", ()) == []


PERSON = (
    "Mia works as a nurse at the Kramer clinic in Linz. She lives with her partner Tom and two cats. She is allergic to"
    " peanuts. On Tuesdays she rows with the crew of the red boat. She prefers green tea to coffee in the morning. She reads"
    " crime novels by Tana French."
)


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("She reads crime novels by Tana French.", "She owns 57 crime books, most of them French.", "figures"),
        (
            "She reads crime novels by Tana French.",
            "French crime thrillers delight this avid bookworm constantly.",
            None,
        ),
        ("She lives with her partner Tom and two cats.", "Tom has shared 17 cats with her for years.", "figures"),
    ],
)
def test_a_sentence_stays_where_its_counterpart_is_left_out(old: str, new: str, problem: str | None) -> None:
    def problems_of(parts: Sequence[str]) -> list[str | None]:
        return [problem if part.strip() == new else None for part in parts]

    lamp = PendingObservation(1, "Mia bought a lamp.", datetime(2026, 3, 2, tzinfo=UTC))
    text = f"{PERSON.replace(old, new)} {lamp.content}"
    found = kept(text, PERSON, [lamp], (), "mia", 400, problems_of)
    assert (old in found.text, new in found.text) == (True, False)


THAI = (
    "มีอาทำงานเป็นพยาบาลที่คลินิกในลินซ์", "เธออยู่กับทอมและแมวสองตัว", "แพ้ถั่วลิสงและไม่กินเนื้อสัตว์", "ทุกวันอังคารพายเรือกับทีม",
    "ชอบชาเขียวมากกว่ากาแฟดำ", "อ่านนิยายสืบสวนก่อนนอน", "พี่สาวย้ายไปกราซเมื่อปีก่อน", "กำลังเรียนภาษาสเปนตอนเย็น",
)  # fmt: skip
CHINESE = (
    "米娅在林茨的诊所当护士", "与汤姆和两只猫同住", "对花生过敏也不吃肉", "每周二跟红船队划桨", "早晨喜欢绿茶胜过咖啡",
    "睡前读侦探小说", "姐姐去年搬到格拉茨", "晚上学习西班牙语", "攒钱想买一栋房子", "害怕高处和蜘蛛",
)  # fmt: skip


@pytest.mark.parametrize(
    ("facts", "mark"),
    [
        (THAI, " "),
        (CHINESE, "，"),
        (CHINESE, "；"),
        ([*FACTS, *sentences(PERSON)], "; "),
        ([*FACTS, *sentences(PERSON)], " • "),
    ],
    ids=["thai", "chinese commas", "chinese semicolons", "semicolons", "bullets"],
)
def test_a_text_without_full_stops_cant_lose_half_in_silence(facts: Sequence[str], mark: str) -> None:
    said = [fact.rstrip(".") for fact in facts]
    whole = mark.join(said)
    assert len(sentences(whole)) == 1
    assert untold(whole, told([mark.join(said[: len(said) // 2]), "Mia bought a lamp."]), "mia", ()) == [0]
    assert untold(whole, told([mark.join(said[::-1]), "Mia bought a lamp."]), "mia", ()) == []
    assert untold(whole, told([*said, "Mia bought a lamp."]), "mia", ()) == []
