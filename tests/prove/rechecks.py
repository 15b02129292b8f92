"""What rechecks find of the pairs of `tests/rechecked`, planted among each other in scopes of people and groups."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, NamedTuple

from memory_sql.config import Settings
from memory_sql.consolidation.comparing import ComparedPair, RecheckTask
from memory_sql.llm import Answer, Request, Usage
from memory_sql.llm.answers import read
from memory_sql.memory import Memory
from tests.database import rows
from tests.factories import MONDAY
from tests.fakes import Parrot, T
from tests.rechecking import Pair, contradictions, lookalikes

PEOPLE, GROUPS = 20, 4
AGENT: dict[str, Any] = {"agent_id": "ada"}
Judge = Callable[[ComparedPair], dict[str, Any] | None]
Key = tuple[str, str]


class Place(NamedTuple):
    """Whose scope it is, and the pairs that are planted there."""

    owner: dict[str, Any]
    pairs: Sequence[Pair]


def places() -> list[Place]:
    """Ten contradictions and eight pairs that look like it for each person, ten pairs of two people for each group."""
    alike = [pair for pair in lookalikes() if pair.kind != "people"]
    people = [pair for pair in lookalikes() if pair.kind == "people"]
    own = [Place({"user_id": f"u{n}"}, [*contradictions()[n::PEOPLE], *alike[n::PEOPLE]]) for n in range(PEOPLE)]
    return own + [Place({"user_id": "first", "group_id": f"g{n}"}, people[n::GROUPS]) for n in range(GROUPS)]


def by_truth(pairs: Sequence[Pair]) -> Judge:
    """Answers as the set says. What it doesn't have is unrelated."""
    known = {(pair.earlier, pair.later): pair for pair in pairs if pair.was}

    def judge(shown: ComparedPair) -> dict[str, Any] | None:
        pair = known.get((shown.earlier.content, shown.later.content))
        return None if pair is None else {"is": "contradicts", "was": pair.was, "now": pair.later, "still": pair.still}

    return judge


class Comparing(Parrot):
    """Its texts tell everything; of a pair it says what the judge does."""

    def __init__(self, judge: Judge) -> None:
        super().__init__()
        self.judge = judge
        self.asked: list[Key] = []
        self.prompts: list[str] = []

    async def generate(self, request: Request[T]) -> Answer[T]:
        if not isinstance(request.material, RecheckTask):
            return await super().generate(request)
        self.prompts.append(f"{request.instructions}\n\n{request.prompt}")
        self.asked += [(pair.earlier.content, pair.later.content) for pair in request.material.pairs]
        told = [(n, self.judge(pair)) for n, pair in enumerate(request.material.pairs, 1)]
        reply = json.dumps({"pairs": [{"pair": n, **one} for n, one in told if one is not None]})
        return Answer(read(reply, request.output), reply, Usage("comparing", len(request.prompt) // 4, len(reply) // 4))


@dataclass
class Outcome:
    """`asked`: the pairs that the model was shown. `gone`: the texts that gave way; `held`: those that wait for a person."""

    asked: set[Key] = field(default_factory=set)
    gone: Counter[str] = field(default_factory=Counter)
    held: Counter[str] = field(default_factory=Counter)
    calls: int = 0
    tokens: int = 0
    scopes: list[str] = field(default_factory=list)

    def found(self, pairs: Sequence[Pair]) -> list[Pair]:
        return [pair for pair in pairs if self.gone[pair.earlier] or self.held[pair.earlier]]

    def shown(self, pairs: Sequence[Pair]) -> list[Pair]:
        return [pair for pair in pairs if (pair.earlier, pair.later) in self.asked]

    def superseded(self, pairs: Sequence[Pair]) -> list[Pair]:
        return [pair for pair in pairs if self.gone[pair.earlier]]


async def plant(memory: Memory, place: Place) -> str:
    """The earlier ones in one batch, the later ones, of another speaker in a group, in the next; the scope's id."""
    for day, texts in ((0, [p.earlier for p in place.pairs]), (30, [p.later for p in place.pairs])):
        owner = place.owner if day == 0 or "group_id" not in place.owner else {**place.owner, "user_id": "second"}
        for n, text in enumerate(texts):
            stored = await memory.observe(text, **AGENT, **owner, observed_at=MONDAY + timedelta(days=day, minutes=n))
        await memory.scopes.consolidate(**AGENT, scope_id=stored.scope.id)
    return stored.scope.id


async def rechecked(memory: Memory, llm: Comparing, planted: Sequence[Place]) -> Outcome:
    """All that is planted, rechecked until nothing is left to ask."""
    done = Outcome()
    for place in planted:
        scope = await plant(memory, place)
        done.scopes.append(scope)
        await memory.work.recheck(**AGENT, scope_id=scope)
    done.asked, done.calls = set(llm.asked), len(llm.prompts)
    done.tokens = sum(len(prompt) for prompt in llm.prompts) // 4
    found = "SELECT content, status FROM memory.v_observations WHERE status = 'superseded'"
    done.gone = Counter(content for content, _ in await rows(memory, found))
    done.held = Counter(review.instead_of or "" for review in await memory.work.reviews(**AGENT, limit=1000))
    return done


async def undone(memory: Memory, scopes: Sequence[str]) -> int:
    """Takes all rechecks back, and returns how many observations are still superseded."""
    for scope in scopes:
        while True:
            made = "SELECT count(*) FROM memory.consolidations WHERE scope_id = :scope AND live AND reason = 'recheck'"
            if (await rows(memory, made, scope=int(scope[1:]))) == [(0,)]:
                break
            await memory.scopes.undo(**AGENT, scope_id=scope)
    ((left,),) = await rows(memory, "SELECT count(*) FROM memory.v_observations WHERE status = 'superseded'")
    return int(left)


def settings(embedding: str) -> Settings:
    return Settings(llm="offline", embedding=embedding, embedding_query_seconds=60, consolidation_max_words=2000)


def told(done: Outcome) -> Iterator[str]:
    real, alike = contradictions(), lookalikes()
    yield f"asked about {len(done.asked)} pairs in {done.calls} calls of {done.tokens // max(done.calls, 1)} tokens"
    yield f"contradictions shown {len(done.shown(real))}, found {len(done.found(real))} of {len(real)},"
    yield f"  of these superseded {len(done.superseded(real))}, the others wait for a person"
    kinds = defaultdict[str, list[Pair]](list)
    for pair in alike:
        kinds[pair.kind].append(pair)
    for kind, pairs in kinds.items():
        yield f"{kind}: shown {len(done.shown(pairs))} of {len(pairs)}, superseded {len(done.superseded(pairs))}"
    missed = [f"{pair.language}: {pair.earlier}" for pair in real if pair not in done.shown(real)]
    yield from (f"  not shown: {one}" for one in missed)
