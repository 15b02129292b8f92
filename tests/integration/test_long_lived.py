"""A scope that lives for weeks near its limit: each week's honest text is stored as it is, and nobody is asked."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from memory_sql.memory import Memory
from tests.factories import Clock
from tests.fakes import Scripted
from tests.integration.test_reviews import superseded

MIA: dict[str, Any] = {"agent_id": "ada", "user_id": "mia"}
Week = tuple[list[str], str, dict[str, Any]]

ENGLISH: list[Week] = [
    (
        [
            "Mia runs a bakery in Gdansk with her brother Tomek.",
            "She is allergic to hazelnuts and carries an injector.",
            "Her daughter Zosia is nine and plays the cello.",
            "The oven is a Miwe from 2014 and loses heat at the door.",
            "Flour comes from the Kowalski mill every Tuesday.",
            "She prefers short answers in Polish.",
            "On Saturday 28 November the shop closes at noon for an inventory.",
            "She wants to open a second shop in Sopot in spring.",
        ],
        "Mia runs a bakery in Gdansk with her brother Tomek. She is allergic to hazelnuts and carries an injector. Her"
        " daughter Zosia (9) plays the cello. The oven, a Miwe from 2014, loses heat at the door. Flour comes from the"
        " Kowalski mill every Tuesday. She prefers short answers in Polish. On Saturday 28 November the shop closes at noon"
        " for an inventory. She wants to open a second shop in Sopot in spring.",
        {},
    ),
    (
        [
            "The mill delivers on Wednesdays now.",
            "A mechanic replaced the seal of the oven's door, so it keeps its heat.",
            "Tomek will be away from 7 to 11 December.",
        ],
        "Mia runs a bakery in Gdansk with her brother Tomek, who will be away from 7 to 11 December. She is allergic to"
        " hazelnuts and carries an injector. Her daughter Zosia (9) plays the cello. The oven, a Miwe from 2014, keeps its"
        " heat again since a mechanic replaced the seal of its door. Flour comes from the Kowalski mill every Wednesday. She"
        " prefers short answers in Polish. She wants to open a second shop in Sopot in spring.",
        {
            "contradictions": [
                {"newer": "n1", "was": "every Tuesday", "now": "on Wednesdays"},
                {"newer": "n2", "was": "loses heat at the door", "now": "keeps its heat"},
            ],
            "left_out": [{"what": "s7", "why": "over"}],
        },
    ),
    (
        [
            "The bank agreed to a loan of 80,000 zloty for the shop in Sopot.",
            "Zosia broke her left arm and won't play for six weeks.",
        ],
        "Mia runs a bakery in Gdansk with her brother Tomek. She is allergic to hazelnuts and carries an injector. Her"
        " daughter Zosia (9) plays the cello, but broke her left arm and won't play for six weeks. The oven, a Miwe from"
        " 2014, keeps its heat again since a mechanic replaced the seal of its door. Flour comes from the Kowalski mill every"
        " Wednesday. She prefers short answers in Polish. She wants to open a second shop in Sopot in spring; the bank agreed"
        " to a loan of 80,000 zloty for it.",
        {},
    ),
    (
        [
            "The landlord in Sopot let the rooms to somebody else, so there will be no second shop.",
            "The wholesaler Nowak sends butter on Fridays.",
            "Mia takes English lessons on Monday evenings.",
        ],
        "Mia runs a bakery in Gdansk with her brother Tomek. She is allergic to hazelnuts and carries an injector. Her"
        " daughter Zosia (9) plays the cello, but broke her left arm and won't play for six weeks. The oven is a Miwe from"
        " 2014. Flour comes from the Kowalski mill every Wednesday, butter from the wholesaler Nowak on Fridays. There will"
        " be no second shop in Sopot, since the landlord let the rooms to somebody else. She takes English lessons on Monday"
        " evenings and prefers short answers in Polish.",
        {
            "contradictions": [{"newer": "n1", "was": "wants to open a second shop in Sopot", "now": "no second shop"}],
            "left_out": [{"what": "s4", "why": "over"}],
        },
    ),
    (
        [
            "Zosia's arm has healed and she plays again.",
            "Tomek married Ewa on 2 January.",
            "Mia prefers answers in English now, to practise.",
        ],
        "Mia runs a bakery in Gdansk with her brother Tomek, who married Ewa on 2 January. She is allergic to hazelnuts and"
        " carries an injector. Her daughter Zosia (9) plays the cello again, since her arm has healed. The oven is a Miwe"
        " from 2014. Flour comes from the Kowalski mill every Wednesday, butter from the wholesaler Nowak on Fridays. There"
        " will be no second shop in Sopot, since the landlord let the rooms to somebody else. She takes English lessons on"
        " Monday evenings and prefers short answers in English, to practise.",
        {},
    ),
]

CHINESE: list[Week] = [
    (
        [
            "米娅和哥哥一起在成都经营一家面包店。",
            "米娅对榛子过敏，随身带着药。",
            "她的女儿九岁，正在学大提琴。",
            "烤箱是2014年买的，门口漏热。",
            "面粉每个星期二从王家磨坊送来。",
            "她打算春天在重庆开第二家店。",
        ],
        "米娅和哥哥一起在成都经营一家面包店。她对榛子过敏，随身带着药。她的女儿九岁，正在学大提琴。烤箱是2014年买的，门口漏热。"
        "面粉每个星期二从王家磨坊送来。她打算春天在重庆开第二家店。",
        {},
    ),
    (
        ["银行同意给重庆的店贷款八万元。", "米娅星期一晚上学英语。"],
        "米娅和哥哥一起在成都经营一家面包店。她对榛子过敏，随身带着药。她的女儿九岁，正在学大提琴。烤箱是2014年买的，门口漏热。"
        "面粉每个星期二从王家磨坊送来。她打算春天在重庆开第二家店，银行同意贷款八万元。她星期一晚上学英语。",
        {},
    ),
    (
        ["黄油每个星期五从李家批发店送来。", "她的女儿摔伤了左臂，六个星期不能拉琴。"],
        "米娅和哥哥一起在成都经营一家面包店。她对榛子过敏，随身带着药。她的女儿九岁，正在学大提琴，但是摔伤了左臂，六个星期不能拉琴。"
        "烤箱是2014年买的，门口漏热。面粉每个星期二从王家磨坊送来，黄油每个星期五从李家批发店送来。"
        "她打算春天在重庆开第二家店，银行同意贷款八万元。她星期一晚上学英语。",
        {},
    ),
]


@pytest.mark.parametrize("room", [500, 110], ids=["room", "near its limit"])
@pytest.mark.parametrize(("weeks", "gave_way"), [(ENGLISH, [5, 8]), (CHINESE, [])], ids=["English", "Chinese"])
async def test_weekly_texts_are_stored_as_they_are(
    timed: Memory, llm: Scripted, clock: Clock, weeks: list[Week], gave_way: list[int], room: int
) -> None:
    await timed.configure(agent_id="ada", consolidation_max_words=room)
    for said, text, more in weeks:
        for one in said:
            scope = (await timed.observe(one, **MIA, observed_at=clock.now)).scope.id
            clock.goes_on(hours=1)
        llm.then(json.dumps({"text": text, **more}))
        done = await timed.scopes.consolidate(agent_id="ada", scope_id=scope)
        assert (done.content, done.absorbed) == (text, len(said))
        clock.now += timedelta(days=7)
    assert list(await timed.work.reviews(agent_id="ada")) == []
    assert not any(one.pending for one in await timed.observations.list(**MIA))
    assert await superseded(timed) == gave_way
    assert list(await timed.admin.verify()) == []
