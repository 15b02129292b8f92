"""The operations whose interleavings are tried, the memory in which they begin, and an honest model.

Every statement has a word of its own, "zu…zu".
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from contextlib import suppress
from itertools import product
from typing import Any, TypeVar

from pydantic import BaseModel

from memory_sql.config import Settings
from memory_sql.consolidation.comparing import RecheckTask
from memory_sql.consolidation.task import ConsolidationTask, numbered
from memory_sql.domain.people import RenameKind
from memory_sql.domain.selection import Selection
from memory_sql.errors import GuardError
from memory_sql.llm import Answer, Request
from memory_sql.memory import Memory
from tests.fakes import Parrot

T = TypeVar("T", bound=BaseModel | str)
ADA: dict[str, Any] = {"agent_id": "ada"}
MIA: dict[str, Any] = {**ADA, "user_id": "mia"}
JON: dict[str, Any] = {**ADA, "user_id": "jon"}
LEA: dict[str, Any] = {**ADA, "user_id": "lea"}
SETTINGS = Settings(
    graph=True,
    llm="offline",
    episodes=True,
    formation_min_messages=1,
    formation_cold_minutes=0.0,
    consolidation_threshold=1,
    consolidation_min_ratio=0.0,
    propagation_new_user_days=0.0,
    lease_seconds=600.0,
    retry_first_seconds=0.001,
    retry_longest_seconds=0.001,
    pool_size=2,
)
LONG = " ".join(f"Garden {n} near the quay is looked after by the harbour office." for n in range(1, 31))


class Honest(Parrot):
    """Repeats what it is shown; "Now …, not zu…zu." contradicts what has that word. `short`: so many texts are too short.

    That something contradicts what has the word `OVERLOOKED`, it sees only when it compares pairs.
    """

    def __init__(self) -> None:
        super().__init__()
        self.short = 0
        self.passed: Callable[[str], Awaitable[None]] | None = None

    async def generate(self, request: Request[T]) -> Answer[T]:
        if self.passed is not None:
            await self.passed(f"model: {request.purpose}")
        return await super().generate(request)

    def _reply(self, task: object) -> str:
        if not isinstance(task, RecheckTask):
            return super()._reply(task)
        texts = [(pair.earlier.content, pair.later.content) for pair in task.pairs]
        found = [
            {"pair": n, "is": "contradicts", "was": against, "now": later}
            for n, (earlier, later) in enumerate(texts, 1)
            if (against := _against(later)) and against in earlier
        ]
        return json.dumps({"pairs": found})

    def _tell(self, task: ConsolidationTask) -> str:
        if self.short:
            self.short -= 1
            left_out = [{"what": f"s{n}", "why": "slight"} for n in range(2, 31)]
            kept = numbered(task.current)[:1] + [o.text for o in task.observations]
            return json.dumps({"text": " ".join(kept), "left_out": left_out})
        sentences, contradictions, left_out = numbered(task.current), [], []
        shown = [("n", o) for o in task.observations] + [("k", o) for o in task.known]
        told = {f"s{n}": text for n, text in enumerate(sentences, 1)} | {f"n{o.n}": o.text for o in task.observations}
        for newer in task.observations:
            word = _against(newer.text)
            if word in ("", OVERLOOKED):
                continue
            for place, text in list(told.items()):
                if word in text and text != newer.text:
                    del told[place]
                    left_out.append({"what": place, "why": "overtaken", "by": f"n{newer.n}"})
            contradictions += [
                {"newer": f"n{newer.n}", "older": f"{kind}{o.n}", "was": word}
                for kind, o in shown
                if word in o.text and o is not newer
            ]
        text = " ".join(dict.fromkeys(told.values())) or "Nothing."
        return json.dumps({"text": text, "contradictions": contradictions, "left_out": left_out})


def _against(text: str) -> str:
    """The word that it contradicts, or none."""
    return text.partition(", not ")[2].rstrip(".")


def word(n: int) -> str:
    consonants, vowels = "bdfgklmnprst", "aeiou"
    return f"zu{consonants[n % 12]}{vowels[n // 12 % 5]}{consonants[n // 60 % 12]}{vowels[n * 7 % 5]}zu"


OVERLOOKED = word(8)


def says(n: int, text: str, user: str = "mia") -> dict[str, Any]:
    return {"role": "user", "id": f"m{n}", "user_id": user, "content": text.format(word(n))}


World = dict[str, Any]


async def prepare(memory: Memory) -> World:
    world: World = {}

    async def seen(name: str, text: str, **where: Any) -> None:
        world[name] = (await memory.observe(text, **where)).id

    one = {**MIA, "conversation_id": "one", "group_ids": ["crew"]}
    await memory.add([says(1, "I keep a {}."), says(2, "We row the {}."), says(3, "I sail a {}.", "jon")], **one)
    await memory.add([says(4, "Release {} is deployed to staging.")], **one)
    await memory.add([says(5, "Release {} is deployed to staging.", "lea")], **{**one, "user_id": "lea"})
    await memory.run_due()
    await seen("key", f"The {word(6)} is blue.", **MIA, fact_key="home", tags=["red"])
    await seen("old", f"The {word(7)} is green.", **MIA)
    await seen("new", f"The {word(8)} is grey.", **MIA)
    await seen("bad", f"The {word(9)} is brown.", **MIA, tags=["blue"])
    await seen("shared", f"Release {word(10)} is deployed to staging.", **MIA)
    await seen("crew", f"The {word(11)} is ours.", **MIA, group_id="crew")
    await seen("about", f"Mia has a {word(12)}.", **JON, group_id="crew")
    await seen("twice", f"Release {word(13)} is deployed to staging.", **JON)
    world["agent"] = (await memory.observe(LONG, **MIA, scope_kind="agent")).scope.id
    await seen("lone", f"The {word(14)} is round.", **ADA, user_id="kim")
    for _ in range(4):
        await memory.run_due()
    await memory.observations.supersede(world["old"], world["new"], **MIA)
    await memory.observations.quarantine(world["bad"], **MIA)
    await memory.people.merge(**ADA, user_id="max", into_user_id="jon")
    await memory.run_due()
    await memory.groups.create("club", **ADA)
    await memory.groups.add_member("club", "lea", **ADA)
    # What is due, pending
    await memory.add([says(21, "I bought a {}."), says(22, "We sold the {}.")], **one)
    await seen("pending", f"The {word(25)} is loud.", **MIA)
    await seen("against", f"Now it is the {word(26)}, not {word(1)}.", **MIA)
    await seen("crewpending", f"The {word(28)} is wet.", **JON, group_id="crew")
    world["garden"] = f"o{world['agent'][1:]}-2"  # to come
    await seen("release", f"Release {word(29)} is deployed to staging.", **MIA)
    for user in (MIA, JON, LEA):
        for o in await memory.observations.list(**user, limit=100):
            world.setdefault(f"{o.scope.kind}", o.scope.id)
            world.setdefault(f"{o.scope.kind} {o.scope.owner_id}", o.scope.id)
            for n in (1, 2, 3, 4, 5, 10, 13):
                if word(n) in o.content:
                    world[f"w{n} {o.scope.kind}"] = o.id
    return world


Act = Callable[[Memory, World, Honest], Awaitable[Any]]


def observes(n: int, text: str, **where: Any) -> Act:
    return lambda m, *_: m.observe(text.format(word(n)), **ADA, **where)


def forms(conversation_id: str, **more: Any) -> Act:
    return lambda m, *_: m.conversations.form(**ADA, conversation_id=conversation_id, **more)


def consolidates(scope: str, *, short: int = 0) -> Act:
    """`short`: so many texts leave too much out. The second of them waits for a person."""

    async def act(m: Memory, w: World, model: Honest) -> None:
        model.short = short
        with suppress(GuardError):
            await m.scopes.consolidate(**ADA, scope_id=w[scope])

    return act


async def rechecks(m: Memory, w: World, _: Honest) -> None:
    await m.work.recheck(**ADA, scope_id=w["individual mia"])


async def adds_nina(m: Memory, *_: Any) -> None:
    """A person and a group that nobody knew."""
    said = [says(51, "I hide my {}.", "nina"), says(52, "We hide the {}.", "nina")]
    await m.add(said, **ADA, user_id="nina", conversation_id="four", group_ids=["band"])


async def propagates(m: Memory, w: World, _: Honest) -> None:
    await m.scopes.propagate(**ADA, scope_id=w["individual mia"])


async def decides(m: Memory, *_: Any) -> None:
    """The first review."""
    for review in (await m.work.reviews(**ADA))[:1]:
        await m.work.decide(review.id, **ADA, accept=True)


async def exports(m: Memory, *_: Any) -> None:
    async for _line in m.people.export(**MIA):
        pass


def configures(**settings: Any) -> Act:
    return lambda m, *_: m.configure(**ADA, **settings)


def renames(kind: RenameKind, old: str, new: str) -> Act:
    return lambda m, *_: m.people.rename(**ADA, kind=kind, old=old, new=new)


def forgets(**selected: Any) -> Act:
    return lambda m, w, _: m.forget(Selection(**{k: w.get(v, v) for k, v in selected.items()}), **ADA, wait=False)


SOLD = observes(27, "The {} is sold.", user_id="mia", scope_kind="agent")
# Each in steps: what comes between two of them may be seen by the second one.
OPERATIONS: dict[str, Act | tuple[Act, ...]] = {
    "form": forms("one"),
    "form_again": forms("one", again=True),
    "consolidate": consolidates("individual mia"),
    "consolidate_crew": consolidates("group crew"),
    "propagate": (consolidates("individual mia"), propagates),
    "recheck": (
        observes(55, f"Now it is the {{}}, not {OVERLOOKED}.", user_id="mia"),
        consolidates("individual mia"),
        rechecks,
    ),
    "run_due": lambda m, w, _: m.run_due(),
    "refused": (SOLD, consolidates("agent", short=2)),
    "repaired": (SOLD, consolidates("agent", short=1)),
    "add": lambda m, w, _: m.add(
        [says(41, "I keep a {}."), says(42, "We like {}.")], **MIA, conversation_id="one", group_ids=["crew"]
    ),
    "begun": (lambda m, w, _: m.add([says(31, "I hide my {}.")], **MIA, conversation_id="three"), forms("three")),
    "observe": observes(44, "The {} is tall.", user_id="mia"),
    "observe_key": observes(45, "The {} is red.", user_id="mia", fact_key="home"),
    "observe_same": observes(29, "Release {} is deployed to staging.", user_id="mia"),
    "observe_crew": observes(46, "The {} is ours.", user_id="jon", group_id="crew"),
    "forget_observation": forgets(observation_id="shared"),
    "forget_formed": forgets(observation_id="w1 individual"),
    "forget_pending": forgets(observation_id="release"),
    "forget_garden": forgets(observation_id="garden"),
    "forget_message": forgets(message_id="m21", conversation_id="one"),
    "forget_conversation": forgets(conversation_id="one"),
    "forget_begun": forgets(conversation_id="three"),
    "nina_begins": (adds_nina, forms("four")),
    "nina_observes": observes(53, "A {} is ours.", user_id="nina", group_id="band"),
    "forget_nina": forgets(user_id="nina"),
    "forget_band": forgets(group_id="band"),
    "forget_four": forgets(conversation_id="four"),
    "merge_nina": lambda m, w, _: m.people.merge(**ADA, user_id="nina", into_user_id="lea"),
    "leave_nina": lambda m, w, _: m.groups.remove_member("band", "nina", **ADA),
    "rename_nina": renames("user", "nina", "nora"),
    "rename_band": renames("group", "band", "team"),
    "rename_four": renames("conversation", "four", "five"),
    "quarantine_nina": lambda m, w, _: m.observations.quarantine(Selection(user_id="nina"), **ADA),
    "hold_nina": lambda m, w, _: m.holds.place(**ADA, user_id="nina"),
    "forget_user": forgets(user_id="mia"),
    "forget_jon": forgets(user_id="jon"),
    "forget_about": forgets(user_id="mia", about=True),
    "forget_group": forgets(group_id="crew"),
    "forget_tag": forgets(tag="red"),
    "forget_key": forgets(fact_key="home", user_id="mia"),
    "forget_query": forgets(query="staging"),
    "forget_source": forgets(source="formation", user_id="mia"),
    "forget_agent": forgets(everything=True),
    "forget_wait": lambda m, w, _: m.forget(Selection(user_id="jon"), **ADA),
    "update": lambda m, w, _: m.observations.update(w["key"], **MIA, text=f"The {word(47)} is blue."),
    "update_shared": lambda m, w, _: m.observations.update(w["shared"], **MIA, text=f"Release {word(48)} is off."),
    "supersede": lambda m, w, _: m.observations.supersede(w["key"], w["pending"], **MIA),
    "reinstate": lambda m, w, _: m.observations.reinstate(w["old"], **MIA),
    "resolve": lambda m, w, _: m.observations.resolve(w["new"], "fulfilled", **MIA),
    "confirm": lambda m, w, _: m.observations.confirm(w["about"], **MIA),
    "dispute": lambda m, w, _: m.observations.dispute(w["shared"], **MIA),
    "mark": lambda m, w, _: m.observations.mark(w["shared"], **MIA, private=True),
    "mark_sensitive": lambda m, w, _: m.observations.mark(w["w4 individual"], **MIA, sensitivity="sensitive"),
    "quarantine": lambda m, w, _: m.observations.quarantine(w["shared"], **MIA),
    "quarantine_pending": lambda m, w, _: m.observations.quarantine(w["release"], **MIA),
    "quarantine_user": lambda m, w, _: m.observations.quarantine(Selection(user_id="mia"), **ADA),
    "unquarantine": lambda m, w, _: m.observations.unquarantine(w["bad"], **MIA),
    "undo": lambda m, w, _: m.scopes.undo(**ADA, scope_id=w["individual mia"]),
    "undo_crew": lambda m, w, _: m.scopes.undo(**ADA, scope_id=w["group crew"]),
    "exclude": lambda m, w, _: m.conversations.exclude(**ADA, conversation_id="one"),
    "share": lambda m, w, _: m.conversations.share(**ADA, conversation_id="one", shared=False),
    "share_crew": lambda m, w, _: m.groups.share("crew", "off", **ADA),
    "join": lambda m, w, _: m.groups.add_member("club", "mia", **ADA),
    "leave": lambda m, w, _: m.groups.remove_member("crew", "mia", **ADA),
    "leave_jon": lambda m, w, _: m.groups.remove_member("crew", "jon", **ADA),
    "merge": lambda m, w, _: m.people.merge(**ADA, user_id="mia", into_user_id="lea"),
    "merge_kim": lambda m, w, _: m.people.merge(**ADA, user_id="kim", into_user_id="mia"),
    "unmerge": lambda m, w, _: m.people.unmerge(**ADA, user_id="max"),
    "rename": renames("user", "mia", "ida"),
    "rename_group": renames("group", "crew", "team"),
    "rename_conversation": renames("conversation", "one", "uno"),
    "hold": lambda m, w, _: m.holds.place(**MIA),
    "hold_observation": lambda m, w, _: m.holds.place(**ADA, observation_id=w["shared"]),
    "trim": (configures(retention="budget", store_items=4), lambda m, w, _: m.work.trim(**ADA)),
    "maintain": (configures(message_retention_days=0), lambda m, w, _: m.work.maintain()),
    "decide": (SOLD, consolidates("agent", short=2), decides, decides),
    "decide_claim": (
        lambda m, w, _: m.groups.share("crew", "review", **ADA),
        consolidates("individual mia"),
        propagates,
        decides,
        decides,
        decides,
    ),
    "configure": configures(consolidation_threshold=4, sharing="off"),
    "limit": configures(retention="budget", store_items=2),
    "export": exports,
}
BY_TIME = {
    ("observe_key", "update")
}  # said before the other and stored after it, it is the older value of the fact, as in neither order
LEFT_TO_A_PERSON = {
    *product(("consolidate", "propagate", "run_due", "recheck"), ("hold", "hold_observation", "hold_nina")),
    ("recheck", "decide_claim"),
}  # what is held or decided while the model answers: a person reviews what would have given way, as in neither order
IN_PIECES = {
    ("run_due", "undo"),
    ("run_due", "undo_crew"),
}  # what is formed before an undoing and would be taken into the text after it waits for something new, as in neither order
SCOPE_BY_SCOPE = {
    "trim"
}  # each in a transaction of its own: it may come before the other in one scope, after it in another
