"""What memory itself told isn't remembered again by its own telling, however it is worded."""

from __future__ import annotations

from typing import Any

import pytest

from memory_sql.memory import Memory
from tests.factories import message
from tests.fakes import Scripted, extracted

MIA: dict[str, Any] = {"agent_id": "ada", "user_id": "mia"}
HERE: dict[str, Any] = {**MIA, "conversation_id": "s"}
SESSION: dict[str, Any] = {"agent_id": "ada", "conversation_id": "s"}


@pytest.mark.parametrize(
    ("known", "asked", "answered", "echo"),
    [
        ("Mia drinks green tea.", "What do I like to drink?", "Green tea.", "The user drinks green tea."),
        ("Mia's sister Lena lives in Graz.", "Where does my sister live?", "In Graz.", "Mia's sister lives in Graz."),
        ("Mia trinkt grünen Tee.", "Was trinke ich gern?", "Grünen Tee.", "Mia trinkt grünen Tee gern."),
        ("米娅喜欢喝绿茶。", "我喜欢喝什么？", "绿茶。", "米娅喜欢绿茶。"),
        ("The code name is Falcon.", "What was the code name again?", "Falcon.", "The code name is Falcon."),
    ],
)
async def test_answer_from_memory_is_not_remembered_again(
    memory: Memory, llm: Scripted, known: str, asked: str, answered: str, echo: str
) -> None:
    await memory.observe(known, **MIA)
    await memory.add([message(asked, n=1), message(answered, n=2, role="assistant")], **HERE)
    llm.then(extracted((echo, "individual", [1, 2])))
    done = await memory.conversations.form(**SESSION)
    assert ([one.content for one in done.observations], done.duplicates) in (([], 0), ([], 1))
    assert done.refused == {"echo": 1}


@pytest.mark.parametrize(
    ("known", "said", "told"),
    [
        ("Mia drinks green tea.", "Green tea for me as always, please.", "Mia always drinks green tea."),
        ("Mia drinks green tea.", "I drink black tea now.", "Mia drinks black tea now."),
        ("Mia's sister Lena lives in Graz.", "Lena lives in Linz.", "Mia's sister Lena lives in Linz."),
        ("Mia likes rain and tea.", "I like rain.", "Mia likes rain."),
    ],
)
async def test_what_a_user_says_again_or_anew_is_kept(
    memory: Memory, llm: Scripted, known: str, said: str, told: str
) -> None:
    await memory.observe(known, **MIA)
    await memory.add([message(said, n=1)], **HERE)
    llm.then(extracted((told, "individual", [1])))
    done = await memory.conversations.form(**SESSION)
    assert [one.content for one in done.observations] == [told]
