"""What the agent answered to a message that is forgotten may say the same again: its words go with the message's."""

from __future__ import annotations

from typing import Any

import pytest

from memory_sql.domain.selection import Selection
from memory_sql.memory import Memory
from tests.database import rows
from tests.fakes import Scripted, listing

ADA: dict[str, Any] = {"agent_id": "ada"}
MIA: dict[str, Any] = {**ADA, "user_id": "mia"}
SESSION: dict[str, Any] = {**ADA, "conversation_id": "s"}
SEES = ("mia", "I see Dr Zorbulax for chemotherapy.")
NOTED = ("ada", "I'll remember that you see Dr Zorbulax for chemotherapy. What do you like to eat?")
TOFU = ("mia", "Tofu.")
FINE = ("ada", "Tofu it is.")
Said = tuple[str, str]


async def say(memory: Memory, *said: Said) -> None:
    """By the users of these ids, or by the assistant (`ada`) and a tool."""
    roles = {"ada": "assistant", "tool": "tool"}
    messages = [
        {"id": f"m{n}", "content": text, "role": roles.get(who, "user")} | ({} if who in roles else {"user_id": who})
        for n, (who, text) in enumerate(said, 1)
    ]
    await memory.add(messages, **MIA, conversation_id="s")


async def form(memory: Memory, llm: Scripted, *items: Any) -> list[str]:
    llm.then(listing(*items))
    return [one.id for one in (await memory.conversations.form(**SESSION)).observations]


async def left(memory: Memory) -> list[str]:
    """The ids of the messages that have their texts."""
    found = await rows(memory, "SELECT message_id FROM memory.messages WHERE content IS NOT NULL ORDER BY number")
    return [str(message_id) for (message_id,) in found]


async def known(memory: Memory) -> set[str]:
    return {content for (content,) in await rows(memory, "SELECT content FROM memory.observations")}


def message(number: int) -> Selection:
    return Selection(conversation_id="s", message_id=f"m{number}")


@pytest.mark.parametrize(
    ("said", "forgotten", "stay"),
    [
        pytest.param([SEES, NOTED, TOFU, FINE], 1, [3, 4], id="the next answer stays"),
        pytest.param([SEES, NOTED, TOFU, FINE], 3, [1, 2], id="the answer before stays"),
        pytest.param([SEES, NOTED, TOFU, FINE], 2, [1, 3, 4], id="the answer alone"),
        pytest.param([SEES, TOFU, NOTED, TOFU, FINE], 1, [2, 4, 5], id="two messages in a row have one answer"),
        pytest.param([SEES, ("jon", "Oh dear."), NOTED, TOFU], 1, [2, 4], id="somebody else speaks before the answer"),
        pytest.param(
            [SEES, ("tool", "Dr Zorbulax, oncologist"), ("tool", "9 to 5"), NOTED, TOFU], 1, [5], id="tools answer too"
        ),
        pytest.param([("ada", "Hello!"), SEES], 2, [1], id="nothing has been answered"),
    ],
)
async def test_answer_goes_with_its_message(memory: Memory, said: list[Said], forgotten: int, stay: list[int]) -> None:
    await say(memory, *said)
    preview = await memory.forget(message(forgotten), **ADA, dry_run=True)
    assert preview.counts["messages"] == len(said) - len(stay)
    assert (await memory.forget(message(forgotten), **ADA)).counts["messages"] == len(said) - len(stay)
    assert await left(memory) == [f"m{n}" for n in stay]
    assert list(await memory.admin.verify()) == []


async def test_answer_goes_also_where_the_message_has_lost_its_words_before(memory: Memory) -> None:
    await say(memory, SEES, NOTED, TOFU)
    await rows(memory, "UPDATE memory.messages SET content = NULL WHERE number = 1")
    await memory.forget(message(1), **ADA)
    assert await left(memory) == ["m3"]


@pytest.mark.parametrize("how", ["observation", "query", "conversation's user"])
async def test_however_it_is_forgotten(memory: Memory, llm: Scripted, how: str) -> None:
    await say(memory, TOFU, FINE, SEES, NOTED, TOFU, FINE)
    [it] = await form(memory, llm, ("Mia sees Dr Zorbulax for chemotherapy.", "individual", [3]))
    selections: dict[str, Any] = {
        "observation": it,
        "query": Selection(query="Zorbulax"),
        "conversation's user": Selection(user_id="mia"),
    }
    await memory.forget(selections[how], **ADA)
    assert await left(memory) == ([] if how == "conversation's user" else ["m1", "m2", "m5", "m6"])


async def test_answer_to_two_goes_with_either(memory: Memory) -> None:
    await say(memory, SEES, ("jon", "Me too."), NOTED)
    await memory.forget(Selection(user_id="mia"), **ADA)
    assert await left(memory) == ["m2"]


async def test_what_was_made_of_the_answer_and_something_else_stays(memory: Memory, llm: Scripted) -> None:
    """The agent's next question stands in the same turn: else an interview would go with its first answer."""
    await say(memory, SEES, NOTED, TOFU, FINE)
    _, likes = await form(
        memory,
        llm,
        ("Mia sees Dr Zorbulax for chemotherapy.", "individual", [1]),
        ("Mia likes to eat tofu.", "individual", [2, 3]),
    )
    await memory.forget(message(1), **ADA)
    assert await known(memory) == {"Mia likes to eat tofu."}
    assert await left(memory) == ["m3", "m4"]
    told = await memory.observations.sources(likes, **MIA)
    assert [one.content for one in told] == ["Tofu."]
    assert list(await memory.admin.verify()) == []
    await memory.forget(message(2), **ADA)
    assert await known(memory) == set()


async def test_what_has_its_words_from_the_message_goes(memory: Memory, llm: Scripted) -> None:
    await say(memory, SEES, NOTED, ("mia", "Yes, please."), FINE)
    await form(memory, llm, ("Mia wants it remembered that she sees Dr Zorbulax.", "individual", [2, 3]))
    await memory.forget(message(1), **ADA)
    assert await known(memory) == set()
    assert await left(memory) == []  # and what is answered to its other messages


async def test_model_does_not_read_it_later(memory: Memory, llm: Scripted) -> None:
    await say(memory, SEES, NOTED, TOFU, FINE)
    await memory.forget(message(1), **ADA)
    await form(memory, llm, ("Mia likes tofu.", "individual", [1]))
    assert llm.windows == [2]
    assert "Zorbulax" not in llm.requests[0].prompt


async def test_held_answer_is_withdrawn_and_goes_when_the_hold_ends(memory: Memory) -> None:
    await say(memory, SEES, NOTED, TOFU, FINE)
    hold = await memory.holds.place(**ADA, conversation_id="s", reason="court")
    await memory.forget(message(1), **ADA)
    withdrawn = "SELECT message_id FROM memory.messages WHERE withdrawn_by IS NOT NULL ORDER BY number"
    assert await rows(memory, withdrawn) == [("m1",), ("m2",)]
    await memory.holds.release(hold.hold_id, **ADA)
    assert await left(memory) == ["m3", "m4"]


async def test_answer_to_what_is_replaced_stays(memory: Memory) -> None:
    await say(memory, SEES, NOTED)
    new = {"id": "m1", "role": "user", "content": "I see Dr Zorbulax for a check.", "user_id": "mia"}
    await memory.add([new], **MIA, conversation_id="s", replace=True)
    assert await left(memory) == ["m1", "m2"]


@pytest.mark.parametrize("order", ["message user", "user message", "user"])
async def test_nothing_depends_on_the_order(memory: Memory, llm: Scripted, order: str) -> None:
    await say(memory, SEES, NOTED, ("jon", "Tofu for me."), FINE)
    await form(memory, llm, ("Jon likes to eat tofu.", "individual_P2", [2, 3]))
    for one in order.split():
        await memory.forget(Selection(user_id="mia") if one == "user" else message(1), **ADA)
    assert await known(memory) == set()  # it was made of an answer to her
    assert await left(memory) == ["m3", "m4"]
