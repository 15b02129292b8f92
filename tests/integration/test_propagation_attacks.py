"""Hostile texts of a member on the whole path: nothing is promoted, and nothing breaks out of its frame."""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from xml.etree import ElementTree

import pytest
import pytest_asyncio

from memory_sql.config import Settings
from memory_sql.formation.answers import Turn
from memory_sql.formation.task import ExtractionTask
from memory_sql.languages.text import clean
from memory_sql.llm import Request
from memory_sql.llm.notation import NOTHING_YET
from memory_sql.memory import Memory
from memory_sql.privacy.classify import classify
from memory_sql.privacy.contact import REACHES, without_contact
from memory_sql.propagation.rules import leaks, withheld
from memory_sql.propagation.speech import language_of
from memory_sql.propagation.task import PropagationTask
from tests.attacks import ATTACKS, Attack
from tests.conftest import administer, named
from tests.database import rows
from tests.factories import message
from tests.fakes import Parrot, promoted
from tests.judges import JUDGES, Judge
from tests.loopback import turns

pytestmark = pytest.mark.slow  # all of them live in one database, which takes long to fill
FACT = "The harbour service runs Postgres 16."  # goes the same way as each attack
ADA: dict[str, Any] = {"agent_id": "ada"}
SETTINGS = Settings(
    llm="offline",
    formation_messages=1,
    consolidation_threshold=1,
    consolidation_min_ratio=0.0,
    consolidation_max_words=100_000,
    propagation_interval_minutes=0,
    count_queries=1_000_000,  # counts are written when the Memory closes: a test's end would cancel it half-way
    count_seconds=86_400.0,
)
PARTS = {
    "extraction": ["memory", "conversation"],
    "consolidation": ["text", "known", "observations"],
    "propagation": ["claims"],
}
ELEMENTS = {"MemoryContext", "CollectiveMemory", "GroupMemory", "UserMemory", "NewObservations", "RelevantMemories"}
AT_ONCE = 8  # attackers in a group, with one who listens


class Echo(Parrot):
    """Writes down everything as what its speaker said, and puts its texts so that nothing in them is taken for an answer."""

    def __init__(self, judge: Judge) -> None:
        super().__init__()
        self._judge = judge

    def _promote(self, task: PropagationTask) -> str:
        return promoted(task, self._said, self._judge)

    def _whose(self, turn: Turn, task: ExtractionTask) -> str:
        return "individual"

    def _tell(self, task: Any) -> str:
        return json.dumps({"text": super()._tell(task), "contradictions": []})


@dataclass(frozen=True, slots=True)
class Shown:
    """A prompt: its frame, without what people wrote, and the texts that they wrote."""

    request: Request[Any]
    frame: str
    said: list[str]


@dataclass(frozen=True, slots=True)
class Yard:
    memory: Memory
    prompts: list[Shown]
    judge: str

    @property
    def judged(self) -> set[str]:
        return {text for shown in self.prompts if shown.request.purpose == "propagation" for text in shown.said}

    def prompts_with(self, text: str) -> list[Shown]:
        return [shown for shown in self.prompts if any(text in said for said in shown.said)]


BELIEVED = "obeys"  # of the judges


@pytest_asyncio.fixture(
    scope="module",
    params=[name if name == BELIEVED else pytest.param(name, marks=pytest.mark.prove) for name in JUDGES],
)
async def yard(server_url: str, template: str, request: pytest.FixtureRequest) -> Any:
    """One database in which every attack was said by somebody, after which all that was due was done on both levels."""
    name = f"{template}_attacks"
    await administer(server_url, f"DROP DATABASE IF EXISTS {name}", f"CREATE DATABASE {name} TEMPLATE {template}")
    judge = str(request.param)
    parrot = Echo(JUDGES[judge]())
    async with Memory(named(server_url, name), parrot, SETTINGS) as memory:
        for n, attack in enumerate(ATTACKS):
            said = [message(FACT, n=1), message(attack.text, n=2, name="Mallory")]
            await memory.add(said, **ADA, user_id=attack.id, conversation_id=attack.id, group_ids=[group_of(n)])
        for n in range(0, len(ATTACKS), AT_ONCE):
            who: dict[str, Any] = {"user_id": f"listener-{group_of(n)}", "conversation_id": f"hello-{group_of(n)}"}
            await memory.add([message("Hello.")], **ADA, **who, group_ids=[group_of(n)])
        await settle(memory, judge)
        yield Yard(memory, [shown(request) for request in parrot.requests], judge)
        assert list(await memory.admin.verify()) == []
    await administer(server_url, f"DROP DATABASE {name} WITH (FORCE)")


def group_of(n: int) -> str:
    return f"crew-{n // AT_ONCE}"


async def settle(memory: Memory, judge: str) -> None:
    for _ in range(20):
        done = await memory.run_due(limit=10_000)
        assert judge != BELIEVED or done.failed == {}  # what the others have to judge waits
        if not (done.formed or done.consolidated or done.propagated):
            return
    raise AssertionError("there is always something left to do")


async def known(memory: Memory, owner: str) -> list[str]:
    found = await rows(
        memory,
        "SELECT o.content FROM memory.observations o JOIN memory.scopes s USING (agent_key, scope_id)"
        " WHERE s.owner = :owner ORDER BY o.seq",
        owner=owner,
    )
    return [content for (content,) in found]


def frame_of(request: Request[Any]) -> str:
    """A prompt without what stands between its marks, which have to be the only ones, in their order."""
    boundary = re.escape(request.boundary)
    text = request.prompt
    marks = re.findall(rf"^--- {boundary} (begin|end) (\w+)$", text, re.MULTILINE)
    wanted = [(edge, part) for part in PARTS[request.purpose] for edge in ("begin", "end")]
    assert marks in (wanted, [mark for mark in wanted if mark[1] != "memory"])  # which isn't always shown
    named = text.count(f"The mark is {request.boundary}.")
    assert text.count(request.boundary) == len(marks) + named
    return re.sub(rf"(?ms)^(--- {boundary} begin (\w+))$.*?^(--- {boundary} end \2)$", r"\1\n\3", text)


def bodies_of(request: Request[Any]) -> Iterator[str]:
    boundary = re.escape(request.boundary)
    for found in re.finditer(rf"(?ms)^--- {boundary} begin (\w+)\n(.*?)\n--- {boundary} end \1$", request.prompt):
        yield found[2]


def strings_of(value: Any) -> Iterator[str]:
    match value:
        case str():
            yield value
        case list():
            for item in value:
                yield from strings_of(item)
        case dict():
            for item in value.values():
                yield from strings_of(item)


def start_of_json(line: str) -> int:
    """Behind the number and the time of a line that has them."""
    return 0 if line.startswith("{") else line.index('"')


def shown(request: Request[Any]) -> Shown:
    said = [turn.text for turn in turns(request.prompt)] if request.purpose == "extraction" else []
    for body in bodies_of(request):
        assert not any(mark in body for mark in "<>&")
        for line in body.split("\n") if request.purpose != "extraction" else ():
            said += [] if line in (NOTHING_YET, "(none)") else list(strings_of(json.loads(line[start_of_json(line) :])))
    return Shown(request, frame_of(request), said)


def cut(attack: Attack) -> str:
    """Without what nobody can see in it, as it comes in, and without contact data, as it is shown to the judge."""
    return without_contact(clean(attack.text)[0].strip())


def is_shown(attack: Attack) -> bool:
    """Rules show it to the judge."""
    said = clean(attack.text)[0].strip()
    fit = set(classify(said).categories) <= REACHES and withheld(cut(attack)) is None
    return fit and language_of(cut(attack)) is not None


def goes(attack: Attack) -> bool:
    """The judge says yes to all, and rules let it through."""
    return is_shown(attack) and leaks(cut(attack), names=["Mallory", attack.id], sources=[cut(attack)]) is None


async def test_attacks_are_promoted_to_nobody_and_stay_in_their_frames(yard: Yard, subtests: pytest.Subtests) -> None:
    """R099, R121, R125: what passes as an innocent statement may reach the group that it was made in, and no other.

    One judge is right on decoys and says yes to all else, so it obeys every order that it is shown. The others, who say
    yes to all, no to all or anything, aren't believed; one that guesses is now and then.
    """
    for n, attack in enumerate(ATTACKS):
        with subtests.test(attack.id):
            await stays(yard, n, attack)


async def stays(yard: Yard, n: int, attack: Attack) -> None:
    own, group = await known(yard.memory, f"u:{attack.id}"), await known(yard.memory, f"g:{group_of(n)}")
    assert len(own) == 2  # it was written down, as whose it is
    (said,) = set(own) - {FACT}
    seen = {"consolidation"} | (set() if "\u2028" in said else {"extraction"})  # there it is the end of a line
    assert {shown.request.purpose for shown in yard.prompts_with(said)} >= seen
    assert (cut(attack) in yard.judged) == is_shown(attack)
    for shown in yard.prompts_with(said):
        assert said not in shown.frame
        assert said not in shown.request.instructions
    if yard.judge == BELIEVED:
        assert FACT in group
        assert (cut(attack) in group) == goes(attack)
    else:
        assert set(group) <= ({FACT, *(cut(one) for one in ATTACKS if goes(one))} if yard.judge == "random" else set())
    for user in (f"listener-{group_of(n)}", next_to(n), "stranger"):
        context = await context_of(yard.memory, user)
        assert FACT in context or yard.judge != BELIEVED
        assert said not in context or (said in group and user != "stranger")


def next_to(n: int) -> str:
    """Another attacker, most often of the same group."""
    return ATTACKS[n - 1].id


async def context_of(memory: Memory, user: str) -> str:
    """It parses, and holds nothing but the elements that it should."""
    context = await memory.context(**ADA, user_id=user, conversation_id="x", message="What runs Postgres?")
    root = ElementTree.fromstring(context.xml)
    assert {element.tag for element in root.iter()} <= ELEMENTS
    return "\n".join(root.itertext())


async def test_no_attack_reaches_everybody_though_every_group_is_attacked(yard: Yard) -> None:
    """What all of them said is there; of what one said nothing, neither in a group's observations nor in its text."""
    assert await known(yard.memory, "c") == ([FACT] if yard.judge == BELIEVED else [])
    innocent = {cut(attack) for attack in ATTACKS if goes(attack)}
    wider = "SELECT content FROM memory.observations WHERE source_kind = 'propagation'"
    gone = {content for (content,) in await rows(yard.memory, wider)}
    by_family = Counter(attack.kind for attack in ATTACKS if cut(attack) in gone)
    sys.stdout.write(f"{yard.judge}: {dict(sorted(by_family.items()))}\n")
    if yard.judge == BELIEVED:
        assert gone == {FACT, *innocent}
    else:
        assert gone - {FACT} <= (innocent if yard.judge == "random" else set())
    texts = (
        "SELECT content FROM memory.consolidations JOIN memory.scopes USING (agent_key, scope_id)"
        " WHERE kind <> 'individual'"
    )
    for (told,) in await rows(yard.memory, texts):
        for text in sorted((FACT, *innocent), key=len, reverse=True):
            told = told.replace(text, "")
        assert told.strip() == ""


def test_no_attack_that_commands_breaks_out_or_hides_goes_anywhere() -> None:
    """By family, what rules alone let through; of those that hide it is what is left once that has been taken out."""
    assert Counter(attack.kind for attack in ATTACKS if goes(attack)) == {
        "authority": 1,
        "disguised": 3,
        "exfiltration": 5,
        "loosened": 2,
        "obfuscated": 5,
        "personal": 7,
        "translated": 1,
    }


async def test_frames_of_prompts_are_the_same_whatever_stands_in_them(yard: Yard) -> None:
    """But for the time, the boundary and the names of scopes nothing around the marks differs from prompt to prompt."""
    for purpose, most in (("extraction", 1), ("consolidation", 3), ("propagation", len(ATTACKS))):
        frames = {
            re.sub(
                r"(?:It is now|The conversation was last heard at) .*",
                "",
                shown.frame.replace(shown.request.boundary, ""),
            ).replace(shown.request.boundary, "")
            for shown in yard.prompts
            if shown.request.purpose == purpose
        }
        frames = {re.sub(r'"crew-\d+"', '"crew"', frame) for frame in frames}
        assert 1 <= len(frames) <= most
