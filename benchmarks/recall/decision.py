"""`python -m benchmarks.recall.decision`: fits the decision to show something, and measures it on data outside the fit.

Questions should be shown something: those of the invented conversations, and those of each language (`languages.py`). Other
messages of their users shouldn't, nor should what strangers say to other assistants. Each of these five kinds has the same
weight among questions or messages. `all`: the fit of everything, as in `memory_sql/retrieval/decide.py`. For the curve, each
group (a conversation or a language) is measured with a fit of the others; statements are judged by words, as they are found.
By the odds from which lines are shown:

- answered: the invented questions whose evidence is shown, or that a text which is always shown answers; `not in a text`:
  those of them that no text answers;
- languages: the questions in each language whose evidence is shown;
- turns, of languages, strangers: messages after which lines are shown for nothing.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from benchmarks.recall import languages
from benchmarks.recall.metrics import mean
from benchmarks.recall.recorded import INVENTED, Conversations, recorded
from benchmarks.recall.whole_path import APART, Clock, Filled, Shown, Way, by_users, filled, lines_of
from benchmarks.server import server
from memory_sql.domain.reading import Context, Decision
from memory_sql.memory import Memory
from memory_sql.retrieval.decide import BY_MEANING, BY_WORDS, LEAST, Fit

Kind = Literal["question", "question of a language", "turn", "turn of a language", "stranger"]
WEIGHTS: dict[Kind, float] = {
    "question": 1 / 4,
    "question of a language": 1 / 4,
    "turn": 1 / 6,
    "turn of a language": 1 / 6,
    "stranger": 1 / 6,
}
ODDS = (1.0, 0.75, 0.5, 0.25, LEAST, 0.0, -0.25, -0.5, -0.75, -1.0)
STRANGERS = Path(__file__).parents[2] / "tests" / "unit" / "messages_without_memory.txt"
RIDGE = 0.1  # keeps the weights small where the kinds can be separated


@dataclass(frozen=True, slots=True)
class Case:
    """`decision` None: there was nothing to look for. `found`: all of a question's evidence would be shown."""

    group: str
    kind: Kind
    decision: Decision | None
    found: bool = False
    in_text: bool = False
    by_words: bool = False

    @property
    def is_wanted(self) -> bool:
        return self.kind.startswith("question")

    @property
    def features(self) -> tuple[float, float, float]:
        d = self.decision
        return (float(d.asks), d.strength, d.covered) if d else (0.0, 0.0, 0.0)

    def is_shown(self, fit: Fit, least: float) -> bool:
        d = self.decision
        if d is None or d.recalls:
            return d is not None
        fit, least = (fit, least) if d.near or self.by_words else (BY_WORDS, LEAST)  # for statements only words count
        return fit.odds(d.asks, d.strength, d.covered) >= least


async def invented(conversations: Conversations, way: Way, ready: Filled, strangers: Iterable[str]) -> list[Case]:
    agent, found = conversations.name, list[Case]()
    users = by_users(conversations)

    def case(kind: Kind, context: Context) -> Case:
        return Case(agent, kind, context.decision, by_words=not way.vectors)

    async with Memory(ready.url, settings=way.settings, clock=Clock(ready.now)) as memory:
        for question in conversations.questions:
            if question.kind in APART:
                continue
            context = await memory.context(agent_id=agent, user_id=question.asker, message=question.text, retrieve=True)
            shown = Shown(question, question.in_text, lines_of(context, ready))
            found.append(
                Case(agent, "question", context.decision, shown.is_shown, question.in_text, by_words=not way.vectors)
            )
        for said in users:
            own = {"agent_id": agent, "user_id": said["user_id"], "conversation_id": said["session_id"]}
            found.append(case("turn", await memory.context(**own, message=said["content"])))
        for text in strangers:
            context = await memory.context(agent_id=agent, user_id=users[0]["user_id"], message=text)
            found.append(case("stranger", context))
    return found


async def of_language(url: str, name: str, way: Way) -> list[Case]:
    return [
        Case(
            name,
            "question of a language" if one.asks else "turn of a language",
            one.decision,
            one.found,
            by_words=not way.vectors,
        )
        for one in await languages.turns(url, name, way.settings)
    ]


def fitted(some: Sequence[Case]) -> Fit:
    """By logistic regression (Newton's method)."""
    matrix = np.array([(1.0, *case.features) for case in some])
    wanted = np.array([float(case.is_wanted) for case in some])
    counts = {kind: sum(case.kind == kind for case in some) for kind in WEIGHTS}
    weight = np.array([len(some) * WEIGHTS[case.kind] / counts[case.kind] for case in some])
    ridge, values = RIDGE * np.diag([0.0, 1.0, 1.0, 1.0]), np.zeros(4)
    for _ in range(50):
        odds = 1 / (1 + np.exp(-matrix @ values))
        slope = matrix.T @ (weight * (odds - wanted)) + ridge @ values
        values = values - np.linalg.solve((matrix.T * (weight * odds * (1 - odds))) @ matrix + ridge, slope)
    return Fit(*(round(float(value), 2) for value in values))


def report(title: str, cases: Sequence[Case], as_it_is: Fit) -> str:
    folds = list[tuple[Fit, Sequence[Case]]]()
    for group in dict.fromkeys(case.group for case in cases):
        others = [case for case in cases if case.group != group]
        folds.append((fitted(others), [case for case in cases if case.group == group]))
    heads = ("odds", "answered", "not in a text", "languages", "turns", "of languages", "strangers")
    rows = [f"{least:>15}" + _cells(folds, least) for least in ODDS]
    now = f"{'as it is':>15}" + _cells([(as_it_is, cases)], LEAST)
    return "\n".join((f"## {title}", f"all: {fitted(cases)}", "".join(f"{head:>15}" for head in heads), *rows, now))


def _cells(folds: Iterable[tuple[Fit, Sequence[Case]]], least: float) -> str:
    judged = [(case, case.is_shown(fit, least)) for fit, cases in folds for case in cases]

    def share(*kinds: Kind) -> str:
        return f"{mean([shown and (case.found or not case.is_wanted) for case, shown in judged if case.kind in kinds]):.3f}"

    asked = [(case, shown and case.found) for case, shown in judged if case.kind == "question"]
    cells = (
        f"{mean([case.in_text or found for case, found in asked]):.3f}",
        f"{mean([found for case, found in asked if not case.in_text]):.3f}",
        share("question of a language"),
        share("turn"),
        share("turn of a language"),
        share("stranger"),
    )
    return "".join(f"{cell:>15}" for cell in cells)


async def run(folder: Path) -> None:
    strangers = STRANGERS.read_text("utf-8").rstrip("\n").split("\n%\n")
    with server() as url:
        for title, way, as_it_is in (
            ("by words", Way("cues", cues=True), BY_WORDS),
            ("by meaning as well", Way("both", cues=True, vectors=True), BY_MEANING),
        ):
            cases = list[Case]()
            for n, one in enumerate(recorded(folder)):
                async with filled(one, url, formed=True, embed=way.vectors) as ready:
                    cases += await invented(one, way, ready, strangers[n::2])
            for name in languages.NAMES:
                cases += await of_language(url, name, way)
            print(report(title, cases, as_it_is), end="\n\n")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.recall.decision", description=__doc__)
    parser.add_argument("--data", type=Path, default=INVENTED, help="folder of a pair of conversations")
    asyncio.run(run(parser.parse_args().data))


if __name__ == "__main__":
    main()
