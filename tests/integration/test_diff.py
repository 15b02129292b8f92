"""What changed in a text between two versions."""

from typing import Any

import pytest

from memory_sql.domain.scopes import Diff
from memory_sql.errors import InputError, NotFoundError
from memory_sql.memory import Memory
from tests.database import rows
from tests.fakes import Scripted

MIA: dict[str, Any] = {"agent_id": "ada", "user_id": "mia"}
FIRST, SECOND = "Mia sails. She drinks coffee.", "Mia sails. She drinks tea. She has a boat."


async def told(memory: Memory, llm: Scripted, *versions: tuple[str, int]) -> int:
    """The id of Mia's scope, whose text has had these versions, each made of so many observations."""
    for n, (text, observations) in enumerate(versions):
        for m in range(observations):
            scope_id = (await memory.observe(f"fact {n}-{m}", **MIA)).scope.key
        llm.then(text)
        await memory.scopes.consolidate(agent_id="ada", scope_id=f"s{scope_id}")
    return scope_id


def changes(diff: Diff) -> list[tuple[str, str]]:
    return [(sentence.change, sentence.text) for sentence in diff.sentences]


async def test_last_two_versions_are_compared_by_their_sentences(memory: Memory, llm: Scripted) -> None:
    scope_id = await told(memory, llm, (FIRST, 2), (SECOND, 3))
    diff = await memory.scopes.diff(**MIA, scope_id=f"s{scope_id}")
    assert (diff.scope.key, diff.from_version, diff.to_version) == (scope_id, 1, 2)
    assert changes(diff) == [
        ("kept", "Mia sails."), ("removed", "She drinks coffee."), ("added", "She drinks tea."),
        ("added", "She has a boat."),
    ]  # fmt: skip
    assert diff.absorbed == tuple(f"o{scope_id}-{seq}" for seq in (3, 4, 5))
    assert diff.given_back == ()


async def test_any_two_versions_may_be_compared(memory: Memory, llm: Scripted) -> None:
    scope_id = await told(memory, llm, ("One.", 1), ("One. Two.", 1), ("One. Two. Three.", 1))
    diff = await memory.scopes.diff(**MIA, scope_id=f"s{scope_id}", from_version=1, to_version=3)
    assert changes(diff) == [("kept", "One."), ("added", "Two."), ("added", "Three.")]
    assert diff.absorbed == (f"o{scope_id}-2", f"o{scope_id}-3")
    back = await memory.scopes.diff(**MIA, scope_id=f"s{scope_id}", from_version=3, to_version=1)
    assert changes(back) == [("kept", "One."), ("removed", "Two."), ("removed", "Three.")]
    assert (back.absorbed, back.given_back) == ((), diff.absorbed)
    first = await memory.scopes.diff(**MIA, scope_id=f"s{scope_id}", to_version=1)
    assert (first.from_version, changes(first)) == (0, [("added", "One.")])
    same = await memory.scopes.diff(**MIA, scope_id=f"s{scope_id}", from_version=2, to_version=2)
    assert (changes(same), same.absorbed) == ([("kept", "One."), ("kept", "Two.")], ())


async def test_undo_is_seen_as_what_it_gave_back(memory: Memory, llm: Scripted) -> None:
    scope_id = await told(memory, llm, (FIRST, 1), (SECOND, 2))
    await memory.scopes.undo(agent_id="ada", scope_id=f"s{scope_id}")
    diff = await memory.scopes.diff(**MIA, scope_id=f"s{scope_id}")
    assert (diff.from_version, diff.to_version) == (2, 3)
    assert ("added", "She drinks coffee.") in changes(diff)
    assert (diff.absorbed, diff.given_back) == ((), (f"o{scope_id}-2", f"o{scope_id}-3"))


async def test_what_a_version_passed_over_came_with_the_one_that_read_it(memory: Memory, llm: Scripted) -> None:
    for text in ("one", "two", "three"):
        scope_id = (await memory.observe(text, **MIA)).scope.key
    set_status = (
        "INSERT INTO memory.observation_states (agent_key, scope_id, seq, status)"
        " SELECT agent_key, scope_id, 2, :status FROM memory.scopes"
        " ON CONFLICT (agent_key, scope_id, seq) DO UPDATE SET status = :status"
    )
    await rows(memory, set_status, status="archived")
    llm.then("One, three.", "One, two, three.")
    await memory.scopes.consolidate(agent_id="ada", scope_id=f"s{scope_id}")
    assert (await memory.scopes.diff(**MIA, scope_id=f"s{scope_id}")).absorbed == (f"o{scope_id}-1", f"o{scope_id}-3")
    await rows(memory, set_status, status="active")
    await memory.scopes.consolidate(agent_id="ada", scope_id=f"s{scope_id}")
    assert (await memory.scopes.diff(**MIA, scope_id=f"s{scope_id}")).absorbed == (f"o{scope_id}-2",)
    first = await memory.scopes.diff(**MIA, scope_id=f"s{scope_id}", to_version=1)
    assert first.absorbed == (f"o{scope_id}-1", f"o{scope_id}-3")


async def test_text_that_is_not_there_or_not_ones_own_is_not_found(memory: Memory, llm: Scripted) -> None:
    scope_id = await told(memory, llm, (FIRST, 1))
    (await memory.observe("x", agent_id="ada", user_id="jonas"))
    for who, scope, versions in (
        (MIA, scope_id + 1, {}),
        ({"agent_id": "ada", "user_id": "jonas"}, scope_id, {}),
        (MIA, scope_id, {"to_version": 2}),
        (MIA, scope_id, {"from_version": 7}),
    ):
        with pytest.raises(NotFoundError):
            await memory.scopes.diff(**who, scope_id=f"s{scope}", **versions)
    with pytest.raises(InputError):
        await memory.scopes.diff(**MIA, scope_id=f"s{0}")
