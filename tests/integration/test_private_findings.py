"""What the model says of who may know something: it adds to what the lists of words find, and takes nothing from them."""

import json
from typing import Any

import pytest

from memory_sql.memory import Memory
from tests.factories import message
from tests.fakes import Scripted

HERE: dict[str, Any] = {"agent_id": "ada", "user_id": "mia", "conversation_id": "s"}
SESSION: dict[str, Any] = {"agent_id": "ada", "conversation_id": "s"}
TOLD = (  # none of them has a word of the lists
    ("Anke weiß es nicht: ich wechsle die Stelle.", "Mia wechselt die Stelle."),
    ("nobody at work before July: I'm leaving for Oslo", "Mia leaves for Oslo."),
    ("Acum doar noi doi: îmi caut alt serviciu.", "Mia caută alt serviciu."),
)
PERSONAL = (
    "Mia has a torn meniscus.",
    "Mia takes propranolol.",
    "Mia hat es an der Bandscheibe.",
    "Siti sedang hamil.",
    "Neha divorce le rahi hai.",
)


async def found(memory: Memory, llm: Scripted, said: str, *items: tuple[str, str, Any], **more: Any) -> Any:
    """What is formed of a conversation in a group, all of whose members hear it; with the model's word on each."""
    await memory.add([message(said, n=1, user_id="mia"), message("Good.", n=2, user_id="jon")], **HERE, **more)
    findings = [
        {"content": content, "scope": scope, "sources": [1], "about": [], **({} if word is None else {"private": word})}
        for content, scope, word in items
    ]
    llm.then(json.dumps({"observations": findings}))
    return await memory.conversations.form(**SESSION)


def told(formed: Any) -> list[tuple[str, str, bool, str]]:
    return [(str(o.scope), o.content, o.confidential, o.sensitivity) for o in formed.observations]


@pytest.mark.parametrize(("said", "content"), TOLD)
async def test_what_the_model_takes_for_confidence_stays_with_who_said_it(
    memory: Memory, llm: Scripted, said: str, content: str
) -> None:
    formed = await found(memory, llm, said, (content, "group_1", "confidence"), group_ids=["harbor"])
    assert told(formed) == [("individual:mia", content, True, "private")]
    assert formed.refused == {"confidence": 1}


@pytest.mark.parametrize("content", PERSONAL)
async def test_what_the_model_takes_for_personal_is_its_authors_and_goes_no_further(
    memory: Memory, llm: Scripted, content: str
) -> None:
    formed = await found(memory, llm, content, (content, "group_1", "personal"), group_ids=["harbor"])
    assert told(formed) == [("individual:mia", content, False, "sensitive")]
    assert formed.refused == {"personal": 1}
    assert list(await memory.admin.verify()) == []


async def test_of_what_a_group_heard_the_model_may_say_that_it_is_nobodys(memory: Memory, llm: Scripted) -> None:
    goat = "The goat Berta had a false pregnancy in May."
    formed = await found(memory, llm, goat, (goat, "group_1", "no"), group_ids=["farm"])
    assert [str(o.scope) for o in formed.observations] == ["group:farm"]


@pytest.mark.parametrize("content", ["Mia is pregnant.", "mia has diabetes.", "I am pregnant.", "He has diabetes."])
async def test_a_models_no_takes_nothing_from_the_rules(memory: Memory, llm: Scripted, content: str) -> None:
    formed = await found(memory, llm, content, (content, "group_1", "no"), group_ids=["farm"])
    assert [str(o.scope) for o in formed.observations] == ["individual:mia"]
    said = "Between us: the branch in Kiel closes."
    llm.then(
        json.dumps(
            {
                "observations": [
                    {"content": "The branch in Kiel closes.", "scope": "group_1", "sources": [1], "private": "no"}
                ]
            }
        )
    )
    await memory.add([message(said, n=3, user_id="mia")], **HERE)
    formed = await memory.conversations.form(**SESSION)
    assert [o.confidential for o in formed.observations] == [True]


@pytest.mark.parametrize("word", [7, "secret!", ["no"], {}, "", "NO", True, False])
async def test_any_word_of_a_model_can_be_read(memory: Memory, llm: Scripted, word: Any) -> None:
    formed = await found(memory, llm, "The ferry sails at six.", ("The ferry sails at six.", "individual", word))
    assert len(formed.observations) == 1
