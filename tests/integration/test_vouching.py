"""What everybody learns rests on people who have said all of it, and on no words that only the judge put together."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from memory_sql.config import Settings
from memory_sql.llm import Request
from memory_sql.memory import Memory
from memory_sql.propagation.likeness import borrows, supports
from memory_sql.propagation.task import PropagationTask
from tests.factories import MONDAY
from tests.fakes import Scripted, promoted

ADA: dict[str, Any] = {"agent_id": "ada"}
MEMBERS = {"crew": ("eve", "mia", "jonas"), "atlas": ("lena", "tom")}


def told(request: Request[Any]) -> str:
    material: Any = request.material
    return " ".join(item.text for item in material.observations)


def agreed(request: Request[Any]) -> str:
    material: Any = request.material
    return promoted(material)


@pytest.fixture
def settings() -> Settings:
    return Settings(llm="offline", consolidation_threshold=1_000, propagation_new_user_days=0, propagation_min_people=3)


async def learnt(memory: Memory, llm: Scripted, said: dict[str, str]) -> list[str]:
    """What everybody learns of what each has said in their group, once it has been judged twice."""
    scopes = set[str]()
    for group, users in MEMBERS.items():
        await memory.groups.create(group, **ADA)
        for user in users:
            await memory.groups.add_member(group, user, **ADA)
    for n, (user, text) in enumerate(said.items()):
        group = next(name for name, users in MEMBERS.items() if user in users)
        at = MONDAY + timedelta(minutes=n)
        one = await memory.observe(text, **ADA, group_id=group, user_id=user, observed_at=at)
        llm.then(told)
        await memory.scopes.consolidate(**ADA, scope_id=one.scope.id)
        scopes.add(one.scope.id)
    llm.replies = [agreed] * 8
    for _ in range(2):
        for scope in sorted(scopes):
            await memory.scopes.propagate(**ADA, scope_id=scope)
    llm.replies = []
    return sorted(one.content for one in await memory.observations.list(**ADA, user_id="stranger"))


@pytest.mark.parametrize(
    ("long", "short"),
    [
        ("The company pays private taxi rides and the office opens at nine.", "The office opens at nine."),
        ("Die Werkstatt öffnet um neun und die Firma zahlt private Taxis.", "Die Werkstatt öffnet um neun."),
        ("The harbour gate is shut on Sundays since the mayor took bribes.", "The harbour gate is shut on Sundays."),
    ],
)
@pytest.mark.parametrize("first", ["long", "short"])
async def test_nobody_vouches_for_what_they_left_out(
    memory: Memory, llm: Scripted, long: str, short: str, first: str
) -> None:
    users = ("eve", "mia", "lena") if first == "long" else ("mia", "lena", "eve")
    said = {user: long if user == "eve" else short for user in users}
    assert await learnt(memory, llm, said) == [short]


@pytest.mark.parametrize(
    ("other", "claim", "does"),
    [
        ("The office opens at nine.", "The office opens at nine.", True),
        ("The office opens at nine, and lunch is at noon on the terrace.", "The office opens at nine.", True),
        ("The office opens at nine.", "The office opens at nine, and lunch is at noon on the terrace.", False),
        ("Deploys run on Tuesday.", "Our deploys run on Tuesday.", True),
    ],
)
def test_support_goes_one_way(other: str, claim: str, does: bool) -> None:
    assert supports(other, claim) is does


HARBOUR = "The harbour office opens at nine and closes at five on weekdays."
BROTHER = "The brother of the clerk lost his job because of gambling."


@pytest.mark.parametrize(
    ("text", "stored"),
    [
        ("The harbour office opens at nine, closes at five on weekdays, gambling brother lost job.", HARBOUR),
        ("The harbour office opens at nine and closes at five on weekdays, said the clerk.", HARBOUR),
        ("The office at the harbour opens at nine and closes at five.", None),
    ],
)
async def test_judge_adds_no_words_of_another_claim(
    memory: Memory, llm: Scripted, text: str, stored: str | None
) -> None:
    """What it adds isn't taken; what it only says otherwise is."""

    def judge(request: Request[Any]) -> str:
        task = request.material
        assert isinstance(task, PropagationTask)
        answer = json.loads(promoted(task))
        for item in answer["decisions"]:
            if next(claim.text for claim in task.claims if claim.n == item["n"]) == HARBOUR:
                item["text"] = text
        return json.dumps(answer)

    await memory.groups.create("harbour", **ADA)
    for user in ("mia", "jonas"):
        await memory.groups.add_member("harbour", user, **ADA)
    for said in (HARBOUR, BROTHER):
        one = await memory.observe(said, **ADA, user_id="mia")
    llm.then(f"{HARBOUR} {BROTHER}", judge)
    await memory.scopes.consolidate(**ADA, scope_id=one.scope.id)
    await memory.scopes.propagate(**ADA, scope_id=one.scope.id)
    found = [one.content for one in await memory.observations.list(**ADA, user_id="jonas")]
    assert (stored or text) in found
    assert all(content == BROTHER or "brother" not in content for content in found)


def test_what_two_say_may_be_in_the_rewrite() -> None:
    also = ("Office hours begin at nine each morning.", "Each morning the office opens at nine sharp.")
    assert not borrows("The office opens at nine each morning.", "The office opens at nine.", also, [])
    assert borrows("The office opens at nine sharp.", "The office opens at nine.", also, [])
