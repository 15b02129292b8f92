"""What is left of a small world doesn't depend on the order in which it is ended, nor on one transaction or several."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Iterable
from typing import Any

import pytest

from memory_sql.domain.selection import Selection
from memory_sql.memory import Memory
from tests.database import rows
from tests.prove.worlds import SETTINGS, Clock, Maker, Plan, Teller, id_of, judge, plan_of
from tests.sizes import few_in_ci, parts_of_today, share

ADA: dict[str, Any] = {"agent_id": "ada"}
ANN, BEN = id_of("ann"), id_of("ben")
GREY, SAME, BLUE = ("printer", "grey", 0), ("printer", "grey", 1), ("freezer", "blue", 0)
FREEZER, FREEZER_AGAIN = ("freezer", "grey", 0), ("freezer", "grey", 1)
WORTH_PROVING = ("lent", "superseded", "claims of one", "claims of several", "holds")
IN_USE = """
    SELECT o.content, array_agg(e.user_id ORDER BY e.evidence_id) FROM memory.observations o
    JOIN memory.evidence e USING (agent_key, scope_id, seq)
    LEFT JOIN memory.observation_states t USING (agent_key, scope_id, seq)
    WHERE memory.in_use(t.status) GROUP BY o.agent_key, o.scope_id, o.seq, o.content ORDER BY 1
"""


@pytest.fixture
def teller() -> Teller:
    return Teller()


@pytest.fixture
async def memory(database_url: str, teller: Teller) -> AsyncIterator[Memory]:
    async with Memory(database_url, teller, SETTINGS, clock=Clock()) as opened:
        yield opened
        assert list(await opened.admin.verify()) == []


async def say(memory: Memory, *said: tuple[str, str, tuple[str, str, int]]) -> None:
    """To the crew, each `(user, conversation, fact)`."""
    made = Maker(memory, "ada")
    for user, talk, fact in said:
        await made.say(user, "crew", fact, talk)


async def tell(memory: Memory) -> None:
    await Maker(memory, "ada").tell()


async def crew(memory: Memory, *said: Iterable[tuple[str, str, tuple[str, str, int]]]) -> None:
    """A text after each part of what is said; ben's is lent to ann's, which says the same."""
    await Maker(memory, "ada").make([])
    for part in said:
        await say(memory, *part)
        await tell(memory)
    assert await rows(memory, "SELECT seq, repeated_seq FROM memory.evidence WHERE user_id = :ben", ben=BEN) == [
        (2, None),
        (1, 2),
    ]


@pytest.mark.slow
async def test_word_that_was_lent_keeps_nobody_elses_text(memory: Memory, teller: Teller) -> None:
    """Whether or not a text falls that lent it: ben's own words stand, and ann's are gone."""
    await crew(memory, [("ann", "t1", GREY), ("ben", "t2", SAME), ("ann", "t1", BLUE)])
    teller.is_away = True
    await memory.forget(Selection(user_id=ANN), **ADA, wait=False)
    assert await rows(memory, IN_USE) == [("Printer in the hall is grey.", [BEN])]


async def test_conversation_goes_with_the_text_of_another_that_lent_to_it(memory: Memory, teller: Teller) -> None:
    await crew(memory, [("ann", "t1", GREY)], [("ben", "t2", SAME), ("ann", "t1", BLUE)])
    teller.is_away = True
    await memory.forget(Selection(conversation_id="t1"), **ADA, wait=False)
    assert await rows(memory, IN_USE) == [("Printer in the hall is grey.", [BEN])]


async def test_leaver_takes_their_text_though_another_lent_to_it(memory: Memory) -> None:
    await crew(memory, [("ann", "t1", GREY), ("ben", "t2", SAME), ("ann", "t1", BLUE)])
    left = await memory.groups.remove_member("crew", ANN, **ADA)
    assert len(left.archived) == 2
    assert await rows(memory, IN_USE) == [("Printer in the hall is grey.", [BEN])]


async def test_text_that_falls_because_of_something_else_takes_back_no_repetition(memory: Memory) -> None:
    """Whatever else is forgotten, before or after, what ben has said stays."""
    await crew(memory, [("ann", "t1", GREY), ("ben", "t2", SAME), ("ann", "t1", BLUE)])
    ((scope, seq),) = await rows(memory, "SELECT scope_id, seq FROM memory.observations WHERE content LIKE '%blue%'")
    await memory.forget(f"o{scope}-{seq}", **ADA, wait=False)
    assert await rows(memory, IN_USE) == [("The printer in the hall is grey.", [ANN, BEN])]
    receipt = await memory.forget(f"o{scope}-1", **ADA, wait=False)
    assert [(kept.observation, kept.reason, kept.users) for kept in receipt.kept] == [(f"o{scope}-2", "again", (BEN,))]
    assert await rows(memory, IN_USE) == [("Printer in the hall is grey.", [BEN])]


WORLDS = {
    "a repetition, and something else of its text": Plan(
        (("say", "ann", "crew", GREY), ("say", "ben", "crew", SAME), ("say", "ann", "crew", BLUE), ("tell",)),
        (("forget", "user", "ann"), ("forget", "observation", 2), ("forget", "user", "ben")),
    ),
    "a repetition, and what it repeats": Plan(
        (("say", "cid", "yard", SAME), ("say", "dot", "yard", GREY), ("say", "dot", "yard", SAME), ("tell",)),
        (("forget", "observation", 0), ("forget", "user", "cid"), ("forget", "observation", 1)),
    ),
    "of two conversations": Plan(
        (
            ("say", "ann", "crew", GREY),
            ("tell",),
            ("say", "ben", "yard", SAME),
            ("say", "ann", "crew", SAME),
            ("tell",),
        ),
        (("forget", "conversation", 0), ("forget", "user", "ann"), ("forget", "message", 2)),
    ),
    "a hold on what was lent to": Plan(
        (("say", "dot", "crew", GREY), ("say", "ben", "crew", SAME), ("tell",), ("hold", "observation", 0)),
        (("forget", "conversation", 0), ("forget", "user", "ben"), ("release",)),
    ),
    "a hold on what lent": Plan(
        (("say", "dot", "crew", GREY), ("say", "ben", "crew", SAME), ("tell",), ("hold", "observation", 1)),
        (("forget", "user", "dot"), ("forget", "user", "ben"), ("release",)),
    ),
    "a hold on who said it first": Plan(
        (("hold", "user", 1), ("say", "ben", "crew", SAME), ("say", "cid", "crew", SAME)),
        (("forget", "user", "ben"), ("forget", "user", "cid"), ("release",)),
    ),
    "a contradiction": Plan(
        (("say", "ann", "crew", GREY), ("tell",), ("say", "ben", "crew", ("printer", "blue", 0)), ("tell",)),
        (("forget", "user", "ann"), ("forget", "user", "ben"), ("forget", "group", "crew")),
    ),
    "a line of who leaves": Plan(
        (
            ("say", "ann", "crew", SAME),
            ("say", "dot", "crew", GREY),
            ("tell",),
            ("say", "ann", "crew", ("printer", "blue", 0)),
            ("say", "dot", "crew", SAME),
            ("tell",),
        ),
        (("forget", "user", "ann"), ("leave", "ann", "crew")),
    ),
    "what two have said who are both gone": Plan(
        (("say", "ann", "crew", GREY), ("say", "dot", "crew", GREY), ("say", "ben", "crew", BLUE), ("tell",)),
        (("forget", "user", "ann"), ("leave", "dot", "crew")),
    ),
    "a claim of two who are both gone": Plan(
        (("state", "ann", "own", GREY, False), ("state", "dot", "own", GREY, False), ("tell",), ("spread",), ("tell",)),
        (("forget", "user", "ann"), ("leave", "dot", "crew"), ("leave", "dot", "yard")),
    ),
    "a text undone of which everybody has learnt": Plan(
        (
            ("say", "dot", "own", ("freezer", "grey", 1)),
            ("say", "dot", "crew", ("freezer", "grey", 0)),
            ("say", "ben", "crew", ("freezer", "grey", 1)),
            ("say", "cid", "crew", ("freezer", "grey", 1)),
            *(("tell",), ("spread",)) * 2,
            *(("undo", 4),) * 2,
        ),
        (("forget", "user", "ben"), ("forget", "conversation", 1)),
    ),
    "the same again after what had overtaken it": Plan(
        (
            ("state", "ben", "crew", FREEZER, True),
            ("say", "cid", "crew", FREEZER_AGAIN),
            ("say", "cid", "crew's", ("freezer", "blue", 0)),
            ("state", "ben", "own", FREEZER_AGAIN, True),
            *(("tell",), ("spread",)) * 2,
            ("state", "cid", "crew", FREEZER, False),
            ("tell",),
        ),
        (("forget", "observation", 1), ("forget", "observation", 6)),
    ),
    "claims": Plan(
        (
            *(("say", user, "own", fact) for user in ("ann", "ben", "cid") for fact in (GREY, FREEZER)),
            ("tell",),
            ("spread",),
            ("tell",),
            ("say", "dot", "crew", FREEZER_AGAIN),
            ("tell",),
            ("spread",),
        ),
        (("forget", "user", "ben"), ("forget", "observation", 0), ("forget", "user", "dot")),
    ),
}


@pytest.mark.open  # a world is copied past the triggers, which only a superuser may
@pytest.mark.slow
@pytest.mark.parametrize("world", WORLDS)
async def test_order_does_not_decide_in(memory: Memory, teller: Teller, world: str) -> None:
    await judge(memory, teller, WORLDS[world], orders=6)


@pytest.mark.open  # a world is copied past the triggers, which only a superuser may
@pytest.mark.slow
@pytest.mark.parametrize("part", few_in_ci(range(10), [5]))
async def test_order_does_not_decide_in_random_worlds(memory: Memory, teller: Teller, part: int) -> None:
    await _judged(memory, teller, range(1000 * part, 1000 * part + share(20)))


@pytest.mark.open  # a world is copied past the triggers, which only a superuser may
@pytest.mark.prove
async def test_order_does_not_decide_in_a_sixteenth_of_ten_thousand_worlds(memory: Memory, teller: Teller) -> None:
    """All of them take ten hours."""
    for part in parts_of_today(16):
        happened = await _judged(memory, teller, range(99_999 + part, 110_000, 16))
        assert min(happened[name] for name in WORTH_PROVING) >= 60


async def _judged(memory: Memory, teller: Teller, seeds: Iterable[int]) -> Counter[str]:
    happened = Counter[str]()
    for seed in seeds:
        try:
            happened += await judge(memory, teller, plan_of(seed))
        except AssertionError as error:
            raise AssertionError(f"world {seed}, {plan_of(seed)}: {error}") from error
        await rows(memory, "TRUNCATE memory.agents CASCADE")
    return happened
