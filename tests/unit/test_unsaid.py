"""What a person lets in by accepting sentences that nothing says: these, and nothing is lost by it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import UTC, datetime

from memory_sql.consolidation.keeping import Kept, kept
from memory_sql.domain.scopes import PendingObservation

MONDAY = datetime(2026, 11, 23, tzinfo=UTC)
TREES = "Mia planted eleven apple trees along the fence."
ROSA = "Rosa cleans the kitchen windows on Thursdays for sixty euros."
WRONG = "Rosa cleans the kitchen windows on Thursdays for 97 euros."
BOAT = "The boat needs another coat of varnish before summer begins."


def kept_of(parts: list[str], inputs: list[str], bad: Collection[str], current: str = "", max_words: int = 500) -> Kept:
    pending = [PendingObservation(n, text, MONDAY) for n, text in enumerate(inputs, 1)]
    said = [current, *inputs]

    def problems_of(some: Sequence[str]) -> list[str | None]:
        return ["figures" if part.strip() in bad else None for part in some]

    return kept(" ".join(parts), current or None, pending, said, "Mia", max_words, problems_of)


def test_what_stands_is_not_cut_for_what_nothing_says() -> None:
    of = kept_of([WRONG, TREES, BOAT], [TREES, ROSA, BOAT], [WRONG], max_words=18)
    assert (of.text, of.waits) == (f"{TREES} {BOAT}", frozenset({2}))
    assert of.unsaid is None


def test_of_several_that_nothing_says_those_are_let_in_that_fit() -> None:
    wrong = "The boat needs 3 coats of varnish before summer begins."
    of = kept_of([WRONG, TREES, wrong], [TREES, ROSA, BOAT], [WRONG, wrong], max_words=16)
    assert (of.text, of.waits) == (TREES, frozenset({2, 3}))
    assert of.unsaid is not None
    assert (of.unsaid.text, of.unsaid.sentences, of.unsaid.tells) == (f"{WRONG} {TREES}", (WRONG,), frozenset({2}))


def test_what_stands_for_a_sentence_that_does_not_fit_stays() -> None:
    wrong = "The boat needs 3 coats of varnish before summer begins, and nobody knows who is going to buy all of that."
    of = kept_of([WRONG, wrong, TREES], [TREES, ROSA], [WRONG, wrong], BOAT, 26)
    assert of.text == f"{BOAT} {TREES}"
    assert of.unsaid is not None
    assert of.unsaid.text == f"{WRONG} {BOAT} {TREES}"


def test_what_no_sentence_tells_goes_on_waiting() -> None:
    of = kept_of([WRONG, TREES], [TREES, ROSA, BOAT], [WRONG])
    assert of.waits == {2, 3}
    assert of.unsaid is not None
    assert of.unsaid.tells == {2}


def test_what_is_left_of_a_sentence_stays_where_the_whole_has_no_room() -> None:
    whole = [
        f"{name} repairs the {what} of the harbour every {day} together with the {who} from the workshop beside the church."
        for name, what, day, who in (
            ("Rosa", "crane", "Monday", "plumbers"),
            ("Jonas", "slipway", "Tuesday", "painters"),
            ("Elif", "lighthouse", "Friday", "joiners"),
        )
    ]
    left, new = "Elif is at the lighthouse.", f"{TREES} {ROSA}"
    of = kept_of([*whole[:2], left, new], [left, TREES, ROSA], [], " ".join(whole), 58)
    assert of.text == " ".join([*whole[:2], left, new])
    assert 0.3 < of.lost < 0.4


def test_share_that_has_no_room_is_one_of_characters_in_chinese() -> None:
    facts = [
        "米娅每个星期一早上都去河边的市场买新鲜的苹果和梨，然后带到学校去分给所有的孩子们一起吃，大家都非常喜欢她带来的水果。",
        "罗莎住在教堂旁边的一座红色小房子里，她养了两只猫和一只老狗，每天傍晚都会带它们去公园散步，从来没有一天例外。",
        "埃利夫在港口的灯塔工作了十二年，负责修理机器和记录天气，她打算明年夏天退休以后搬到南方的山村里去种葡萄和橄榄。",
        "约纳斯是合唱团的指挥，排练总是在星期四晚上七点开始，地点是老剧院二楼的大厅，迟到的人必须在门外等到第一首歌唱完。",
        "汉娜在山脚下的果园里种了六十棵樱桃树，春天的时候游客很多，她的儿子在旁边开了一家小咖啡馆，只卖自己做的蛋糕和果汁。",
    ]
    new = "新来的邻居叫作弗里达，她开了一家面包店，每天清晨四点起床烤面包。"
    of = kept_of([*facts[:4], new], [new], [], "".join(facts), 20)
    assert 0.1 < of.lost < 0.3
