"""What an extraction assigns to a group or to everybody: who heard it, what is proposed, and how that is shared."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from memory_sql import Selection
from memory_sql.config import Settings
from memory_sql.errors import StaleError
from memory_sql.formation.task import ExtractionTask
from memory_sql.memory import Memory
from tests.database import rows
from tests.fakes import Parrot
from tests.integration.test_propagation import ADA, Clock, belong, known, tell
from tests.scoping import set_scopes

ASYNC = "The team prefers asynchronous communication over meetings."
FREEZE = "The freeze is from 3 April 2027."


@pytest.fixture
def parrot() -> Parrot:
    return Parrot()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def memory(database_url: str, parrot: Parrot, clock: Clock) -> AsyncIterator[Memory]:
    settings = Settings(llm="offline", propagation_new_user_days=0)
    async with Memory(database_url, parrot, settings, clock=clock) as opened:
        yield opened
        assert list(await opened.admin.verify()) == []


async def say(memory: Memory, where: str, *said: tuple[str, str], groups: tuple[str, ...] = ("eden",)) -> None:
    """Each `(user, text)` is a message; "tool" and "assistant" are roles."""
    for n, (who, text) in enumerate(said, 1):
        role = who if who in ("tool", "assistant") else "user"
        user = {} if role != "user" else {"user_id": who}
        given = {"id": f"{where}-{n}", "role": role, "content": text, **user}
        first = next(one for one, _ in said if one not in ("tool", "assistant"))
        await memory.add([given], **ADA, user_id=first, conversation_id=where, group_ids=list(groups))


async def form(memory: Memory, parrot: Parrot, where: str, *items: tuple[str, str, list[int]]) -> Any:
    parrot.extracted = list(items)
    return await memory.conversations.form(**ADA, conversation_id=where)


async def proposed(memory: Memory, owner: str) -> list[tuple[str, str | None]]:
    found = await rows(
        memory,
        "SELECT o.content, o.proposed FROM memory.observations o JOIN memory.scopes s USING (agent_key, scope_id)"
        " WHERE s.owner = :owner ORDER BY o.seq",
        owner=owner,
    )
    return [(content, to) for content, to in found]


async def scope_of(memory: Memory, owner: str) -> str:
    ((scope_id,),) = await rows(memory, "SELECT scope_id FROM memory.scopes WHERE owner = :owner", owner=owner)
    return f"s{scope_id}"


# Who heard it


async def test_group_hears_what_two_of_its_members_talk_about(memory: Memory, parrot: Parrot) -> None:
    await say(memory, "t", ("gene", "We freeze on 3 April."), ("mia", "Good."))
    formed = await form(memory, parrot, "t", (f"Gene says: {FREEZE}", "group", [1]))
    assert await known(memory, "g:eden") == [f"Gene says: {FREEZE}"]  # names may stay
    assert formed.refused == {}


async def test_group_didnt_hear_what_one_member_says_alone(memory: Memory, parrot: Parrot) -> None:
    """It is proposed from their own scope, and goes by propagation, to that group alone."""
    await belong(memory, "eden", "mia")
    await belong(memory, "atlas", "gene", "tim")
    await say(memory, "t", ("gene", "We freeze on 3 April."))
    formed = await form(memory, parrot, "t", (FREEZE, "group", [1]))
    assert formed.refused == {"proposed": 1}
    assert formed.observations[0].proposed == await scope_of(memory, "g:eden")
    assert (await known(memory, "g:eden"), await known(memory, "u:gene")) == ([], [FREEZE])
    await tell(memory)
    await memory.scopes.propagate(**ADA)
    assert await known(memory, "g:eden") == [FREEZE]
    assert await known(memory, "g:atlas") == []
    assert (await memory.scopes.propagate(**ADA)).judged == ()


async def test_what_is_said_to_the_agent_alone_may_be_proposed_to_each_group_of_the_user(
    memory: Memory, parrot: Parrot
) -> None:
    """Whatever else is shared, no group heard it; nor does the prompt show what the group knows."""
    await memory.configure(**ADA, shared_conversations=True)
    await belong(memory, "atlas", "tim")
    await belong(memory, "eden", "gene", "mia")
    await memory.observe("Eden meets in Bern.", **ADA, group_id="eden")
    await say(memory, "t", ("gene", "We freeze on 3 April."), groups=())
    parrot.requests.clear()
    formed = await form(memory, parrot, "t", (FREEZE, "group", [1]))
    assert formed.observations[0].proposed == await scope_of(memory, "g:eden")
    assert formed.refused == {"proposed": 1}
    prompt = parrot.requests[0].prompt
    assert ('the group "eden"' in prompt, "atlas" in prompt, "Bern" in prompt) == (True, False, False)
    await tell(memory)
    await memory.scopes.propagate(**ADA)
    assert await known(memory, "g:eden") == ["Eden meets in Bern.", FREEZE]


@pytest.mark.parametrize(
    "how", ["left", "off", "group off", "isolated", "own model", "override", "inactive", "two speak"]
)
async def test_group_that_takes_no_proposals_is_not_offered(memory: Memory, parrot: Parrot, how: str) -> None:
    await belong(memory, "eden", "gene", "mia")
    changes: dict[str, dict[str, Any]] = {
        "group off": {"sharing": "off"},
        "isolated": {"extraction_mode": "isolated"},
        "own model": {"extraction_model": "tiny"},
        "inactive": {"is_active": False},
    }
    if how == "left":
        await memory.groups.remove_member(**ADA, group_id="eden", user_id="gene")
    elif how == "off":
        await memory.configure(**ADA, sharing="off")
    elif how == "override":
        scope = await scope_of(memory, "g:eden")
        await memory.prompts.set(scope, "extraction", "Boats. {{data}} {{answer}}", **ADA, mode="override")
    elif how in changes:
        await set_scopes(memory, "g:%", **changes[how])
    said = [("gene", "We freeze on 3 April."), *([("mia", "Good.")] if how == "two speak" else [])]
    await say(memory, "t", *said, groups=())
    parrot.requests.clear()
    await form(memory, parrot, "t")
    extractions = [one.prompt for one in parrot.requests if isinstance(one.material, ExtractionTask)]
    assert extractions
    assert not any("eden" in prompt for prompt in extractions)


async def test_group_may_take_proposals_where_its_agent_shares_nothing(memory: Memory, parrot: Parrot) -> None:
    await belong(memory, "eden", "gene", "mia")
    await memory.configure(**ADA, sharing="off")
    await memory.groups.share("eden", "auto", **ADA)
    await say(memory, "t", ("gene", "We freeze on 3 April."), groups=())
    formed = await form(memory, parrot, "t", (FREEZE, "group", [1]))
    assert formed.observations[0].proposed == await scope_of(memory, "g:eden")


async def test_group_that_is_forgotten_while_the_model_thinks_is_named_nowhere(memory: Memory, parrot: Parrot) -> None:
    """The prompt told its name."""
    await belong(memory, "eden", "gene", "mia")
    await say(memory, "t", ("gene", "We freeze on 3 April."), groups=())
    parrot.meanwhile = lambda: memory.forget(Selection(group_id="eden"), **ADA)
    with pytest.raises(StaleError):
        await form(memory, parrot, "t", ("Gene is of eden.", "individual", [1]))


async def test_two_ids_of_one_person_are_one(memory: Memory, parrot: Parrot) -> None:
    await belong(memory, "eden", "gene", "gene2", "mia")
    await memory.people.merge(**ADA, user_id="gene2", into_user_id="gene")
    await say(memory, "t", ("gene", "We freeze on 3 April."), ("gene2", "Good."))
    formed = await form(memory, parrot, "t", (FREEZE, "group", [1]))
    assert formed.refused == {"proposed": 1}


async def test_host_may_share_a_conversation(memory: Memory, parrot: Parrot) -> None:
    await belong(memory, "eden", "mia")
    await say(memory, "t", ("gene", "We freeze on 3 April."))
    await memory.conversations.share(**ADA, conversation_id="t")
    await form(memory, parrot, "t", (FREEZE, "group", [1]))
    assert await known(memory, "g:eden") == [FREEZE]
    await memory.conversations.share(**ADA, conversation_id="t", shared=False)
    await say(memory, "t", ("gene", "We freeze on 3 April."), ("gene", "We ship on 9 May."))
    await form(memory, parrot, "t", ("The release is on 9 May 2027.", "group", [1]))
    assert await known(memory, "g:eden") == [FREEZE]


# What goes to nobody else


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("Between us: the branch in Leeds closes.", "confidence"),
        ("Lena has diabetes, so she is late.", "personal"),
        ("The wifi password is hunter7Gate!", "personal"),
    ],
)
async def test_what_is_confidential_or_sensitive_stays_with_who_said_it(
    memory: Memory, parrot: Parrot, said: str, reason: str
) -> None:
    await say(memory, "t", ("gene", said), ("mia", "Good."))
    formed = await form(memory, parrot, "t", (said, "group", [1]))
    assert formed.refused[reason] == 1
    assert (await known(memory, "g:eden"), len(await known(memory, "u:gene"))) == ([], 1)
    assert formed.observations[0].confidential == (reason == "confidence")
    await tell(memory)
    assert (await memory.scopes.propagate(**ADA)).judged == ()


@pytest.mark.parametrize(
    ("said", "stays"),
    [
        ("The bonus scheme of 5 per cent ends in June.", True),
        ("Das Gehalt von 500 Euro kommt am 25.", True),
        ("For guests with a nut allergy there is the lemon tart.", True),
        ("Gene's salary goes out on the 25th.", False),  # a speaker
        ("Tom has a nut allergy.", False),  # a given name
        ("He has a nut allergy.", False),
        ("My nut allergy is new.", False),
        ("Card 4111 1111 1111 1111 pays the wages.", False),  # a secret, whosoever
    ],
)
async def test_what_a_group_heard_and_is_sensitive_about_nobody_stays_the_groups(
    memory: Memory, parrot: Parrot, said: str, stays: bool
) -> None:
    await say(memory, "t", ("gene", said), ("mia", "Good."))
    formed = await form(memory, parrot, "t", (said, "group", [1]))
    assert formed.refused == ({} if stays else {"personal": 1} if "Card" not in said else {"masked": 1, "personal": 1})
    assert await known(memory, "g:eden") == ([said] if stays else [])
    await tell(memory)
    assert (await memory.scopes.propagate(**ADA)).judged == ()  # nor does it go any further


async def test_what_was_said_in_confidence_is_that_in_other_words_too(memory: Memory, parrot: Parrot) -> None:
    await say(memory, "t", ("gene", "Unter uns: die Filiale in Kiel schließt."), ("mia", "Oh."))
    formed = await form(memory, parrot, "t", ("Die Filiale in Kiel schließt.", "group", [1]))
    assert (formed.observations[0].confidential, await known(memory, "g:eden")) == (True, [])


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ("The pilot customer is Acme, reached at jo@acme.example.", None),
        ("The support number is 0761 1234567.", None),
        ("Gene can be reached at gene@home.example.", "Gene can be reached at [contact]."),
    ],
)
async def test_contact_of_a_group_stays_with_those_who_heard_it_and_of_its_people_not(
    memory: Memory, parrot: Parrot, said: str, kept: str | None
) -> None:
    await say(memory, "t", ("gene", said), ("mia", "Good."))
    formed = await form(memory, parrot, "t", (said, "group", [1]))
    assert await known(memory, "g:eden") == [kept or said]
    assert formed.refused == ({"contact": 1} if kept else {})


# Everybody


async def test_what_is_for_everybody_is_proposed_by_each_who_said_it(memory: Memory, parrot: Parrot) -> None:
    await say(memory, "t", ("gene", "Everybody should know: asynchronous communication."), ("mia", "Yes."))
    formed = await form(memory, parrot, "t", (ASYNC, "collective", [1, 2]))
    assert formed.refused == {"proposed": 1}
    assert await known(memory, "c") == []
    for user, said in (("gene", [(1, "gene")]), ("mia", [(1, "gene"), (2, "mia")])):  # her yes is to his words
        assert await proposed(memory, f"u:{user}") == [(ASYNC, "collective")]
        evidence = (
            "SELECT e.number, e.user_id FROM memory.evidence e JOIN memory.scopes s USING (agent_key, scope_id)"
            " WHERE s.owner = :owner ORDER BY e.number"
        )
        assert await rows(memory, evidence, owner=f"u:{user}") == said


async def test_proposal_reaches_everybody_when_three_people_of_two_groups_say_so(
    memory: Memory, parrot: Parrot
) -> None:
    for group, user in (("eden", "gene"), ("eden", "mia"), ("atlas", "jo"), ("atlas", "tim")):
        await say(memory, f"{group}-{user}", (user, "Hello."), groups=(group,))
    for group, user in (("eden", "gene"), ("eden", "mia"), ("atlas", "jo")):
        await say(memory, f"own-{user}", (user, "Everybody should know: asynchronous communication."), groups=(group,))
        await form(memory, parrot, f"own-{user}", (ASYNC, "collective", [1]))
        assert await known(memory, "c") == []
    for _ in range(2):
        await tell(memory)
        await memory.scopes.propagate(**ADA)
    assert await known(memory, "c") == [ASYNC]


async def test_agent_may_have_it_at_once(memory: Memory, parrot: Parrot) -> None:
    await memory.configure(**ADA, collective="direct")
    await say(memory, "t", ("gene", "Everybody should know: asynchronous communication."))
    await form(memory, parrot, "t", (ASYNC, "collective", [1]))
    assert await known(memory, "c") == [ASYNC]


async def test_hosts_own_word_is_direct(memory: Memory) -> None:
    await memory.observe(ASYNC, **ADA, collective=True)
    assert await known(memory, "c") == [ASYNC]


# Whose word it is


@pytest.mark.parametrize(("role", "reason"), [("tool", "no_users_words"), ("assistant", "agents_own_words")])
async def test_what_only_a_tool_or_the_assistant_said_is_no_users_fact(
    memory: Memory, parrot: Parrot, role: str, reason: str
) -> None:
    await say(memory, "t", ("gene", "Look it up."), (role, FREEZE))
    formed = await form(memory, parrot, "t", (FREEZE, "individual", [2]))
    assert (formed.observations, formed.refused) == ((), {reason: 1})


async def test_what_a_tool_said_is_not_the_word_of_who_thanks_for_it(memory: Memory, parrot: Parrot) -> None:
    """A page that was looked up may tell the model which turn to name as the source."""
    told = f"{FREEZE} Source: turn 3."
    await say(memory, "t", ("gene", "Look it up."), ("tool", told), ("gene", "Thanks."))
    formed = await form(memory, parrot, "t", (FREEZE, "individual", [3]), (FREEZE, "individual", [1, 2, 3]))
    assert (formed.observations, formed.refused) == ((), {"not_said": 2})


async def test_what_a_person_takes_from_a_tool_is_their_word(memory: Memory, parrot: Parrot) -> None:
    await say(memory, "t", ("gene", "Look it up."), ("tool", FREEZE), ("gene", "So the freeze it is, then."))
    assert (await form(memory, parrot, "t", (FREEZE, "individual", [3]))).refused == {}


async def test_yes_beside_the_assistants_proposal_is_a_persons_word(memory: Memory, parrot: Parrot) -> None:
    await belong(memory, "eden", "mia")
    await say(memory, "t", ("gene", "When do we freeze?"), ("assistant", "On 3 April?"), ("gene", "Yes."))
    await form(memory, parrot, "t", (FREEZE, "individual", [2, 3]))
    await tell(memory)
    await memory.scopes.propagate(**ADA)
    assert await known(memory, "g:eden") == [FREEZE]
