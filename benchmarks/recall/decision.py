"""`python -m benchmarks.recall.decision`: how much of what is found is shown, with limits fitted on half of the data.

For each set of limits on a grid: the share of the questions that are `answered` by a text or by lines, of those that no text
answers (`apart`), of the `tasks` whose fact is shown, the median of the tokens of lines on ordinary `turns`, the share of
lines that hold `evidence`, and of what strangers say to other assistants how many messages are shown nothing (`silent`).
The best limits of one conversation are measured on the other; beside them the limits of `memory_sql.retrieval.decide`.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any
from unittest.mock import patch

from benchmarks.recall.metrics import mean
from benchmarks.recall.recorded import INVENTED, Conversations, Question, recorded
from benchmarks.recall.whole_path import APART, Clock, Filled, Way, by_users, filled
from benchmarks.server import server
from memory_sql.context import assemble
from memory_sql.domain.reading import Hit
from memory_sql.languages.text import count_tokens
from memory_sql.memory import Memory
from memory_sql.retrieval.asking import Asking
from memory_sql.retrieval.decide import LIMITS, Limits, decide

STRANGERS = Path(__file__).parents[2] / "tests" / "unit" / "messages_without_memory.txt"
MOST, MOST_TOKENS, LEAST_EVIDENCE = 7, 120, 0.3
NOTHING_ASKED = Asking()


@dataclass(frozen=True, slots=True)
class Case:
    """What is found for a message; `told`: the ids of what stands in the context anyway.

    `question` None: it is an ordinary turn, or a stranger's.
    """

    hits: Sequence[Hit]
    told: Collection[str]
    question: Question | None = None
    is_strangers: bool = False

    def shown(self, limits: Limits) -> list[Hit]:
        return decide(NOTHING_ASKED, self.hits, [], MOST, past=False, told=self.told, limits=limits).hits


@dataclass(frozen=True, slots=True)
class Found:
    cases: Sequence[Case]
    sources: dict[str, frozenset[str]]

    def of(self, hit: Hit) -> frozenset[str]:
        return self.sources.get(hit.observation.id, frozenset())


@contextmanager
def noting(found: list[tuple[Sequence[Hit], Collection[str]]]) -> Iterator[None]:
    """What every context has found, before anything is decided, and what of it stands there anyway."""

    def note(asking: Asking, hits: Sequence[Hit], *given: Any, **named: Any) -> Any:
        found.append((hits, named["told"]))
        return decide(asking, hits, *given, **named)

    with patch.object(assemble, "decide", note):
        yield


async def cases_of(conversations: Conversations, way: Way, ready: Filled, strangers: Iterable[str]) -> Found:
    found, cases, agent = list[tuple[Sequence[Hit], Collection[str]]](), list[Case](), conversations.name
    async with Memory(ready.url, settings=way.settings, clock=Clock(ready.now)) as memory:

        async def case(message: str, user: str, conversation: str | None = None, **more: Any) -> Case:
            found.clear()
            await memory.context(agent_id=agent, message=message, user_id=user, conversation_id=conversation)
            return Case(*(found[-1] if found else ((), ())), **more)

        with noting(found):
            for question in conversations.questions:
                if question.kind not in APART or question.kind == "task":
                    cases.append(await case(question.text, question.asker, question=question))
            users = by_users(conversations)
            for said in users:
                cases.append(await case(said["content"], said["user_id"], said["session_id"]))
            for text in strangers:
                cases.append(await case(text, users[0]["user_id"], is_strangers=True))
    return Found(cases, ready.sources)


@dataclass(frozen=True, slots=True)
class Measured:
    answered: float
    apart: float
    tasks: float
    turns: float
    evidence: float
    silent: float

    @property
    def worth(self) -> tuple[float, ...]:
        """Within the bounds, what is answered; else how far it is out of them."""
        over = max(0.0, self.turns / MOST_TOKENS - 1) + max(0.0, LEAST_EVIDENCE - self.evidence)
        return (-over, self.apart + self.answered + self.tasks)

    def __str__(self) -> str:
        shares = (self.answered, self.apart, self.tasks, self.evidence, self.silent)
        return "".join(f"{share:>10.2f}" for share in shares) + f"{self.turns:>10.0f}"


def measure(found: Sequence[Found], limits: Limits) -> Measured:
    answered, apart, tasks, evidence, silent = (list[bool]() for _ in range(5))
    turns = list[int]()
    for one in found:
        for case in one.cases:
            shown = case.shown(limits)
            question = case.question
            if question is None:
                if case.is_strangers:
                    silent.append(not shown)
                else:
                    turns.append(count_tokens("\n".join(hit.observation.content for hit in shown)))
                continue
            holds = bool(question.evidence) and question.evidence <= frozenset().union(*map(one.of, shown))
            evidence += [bool(one.of(hit) & question.evidence) for hit in shown]
            if question.kind == "task":
                tasks.append(holds)
                continue
            answered.append(holds or question.in_text)
            if not question.in_text:
                apart.append(holds)
    return Measured(mean(answered), mean(apart), mean(tasks), median(turns), mean(evidence or [False]), mean(silent))


def grid(*, by_words: bool) -> Iterator[Limits]:
    noises = (0.5, 0.6, 0.7, 0.8, 0.9, 1.0) if by_words else (0.9, 1.0, 1.1, 1.15, 1.2, 1.3)
    for few, share, more, noise in product((2, 3), (0.3, 0.35, 0.4, 0.5), (0.0, 0.05, 0.1, 0.15), noises):
        yield LIMITS._replace(few=few, share=share, more=more, **{"by_words" if by_words else "by_both": noise})


def report(title: str, found: Sequence[Found], names: Sequence[str], *, by_words: bool) -> str:
    heads = ("answered", "apart", "tasks", "evidence", "silent", "turns")
    rows = [f"{'as it is, both':>28}{measure(found, LIMITS)}"]
    for n, name in enumerate(names):
        rows.append(f"{f'as it is, {name}':>28}{measure([found[n]], LIMITS)}")
        others = [one for m, one in enumerate(found) if m != n]
        best = max(grid(by_words=by_words), key=lambda limits: measure(others, limits).worth)
        rows.append(f"{f'fitted on the other, {name}':>28}{measure([found[n]], best)}  {best}")
    return "\n".join((f"## {title}", " " * 28 + "".join(f"{head:>10}" for head in heads), *rows))


async def run(folder: Path) -> None:
    strangers = STRANGERS.read_text("utf-8").rstrip("\n").split("\n%\n")
    with server() as url:
        for way in (Way("by words", cues=True), Way("by meaning as well", cues=True, vectors=True)):
            found, names = list[Found](), list[str]()
            for n, one in enumerate(recorded(folder)):
                async with filled(one, url, formed=True, embed=way.vectors) as ready:
                    found.append(await cases_of(one, way, ready, strangers[n::2]))
                    names.append(one.name)
            print(report(way.name, found, names, by_words=not way.vectors), end="\n\n")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.recall.decision", description=__doc__)
    parser.add_argument("--data", type=Path, default=INVENTED, help="folder of a pair of conversations")
    asyncio.run(run(parser.parse_args().data))


if __name__ == "__main__":
    main()
