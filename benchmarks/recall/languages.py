"""`python -m benchmarks.recall.languages`: the decision to show something, in each language, with and without its phrases.

`turns/LANGUAGE.jsonl` holds what is remembered about one person (`observation`), and turns of that person. Those with `asks`
have as `evidence` the numbers of the observations that answer them; the others ask for nothing. They were written without
knowledge of the languages' files, and aren't used to change these. `shown`: the questions whose evidence is shown.
`disturbed`: the other turns after which lines are shown. `marks`: as if the language had no phrases, so that only a question
mark identifies a question. `if always`: the questions whose evidence would be shown if something were always shown.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

from benchmarks.recall.metrics import mean
from benchmarks.server import fresh_database, server
from memory_sql.config import Settings
from memory_sql.domain.reading import Decision
from memory_sql.llm.embeddings import ENCODER
from memory_sql.memory import Memory
from memory_sql.retrieval.asking import read
from memory_sql.retrieval.decide import BY_MEANING, BY_WORDS, LEAST, Fit

TURNS = Path(__file__).with_name("turns")
NAMES = sorted(path.stem for path in TURNS.glob("*.jsonl"))
WITHOUT_STEMMER = ("chinese", "polish")
ADA: dict[str, Any] = {"agent_id": "ada", "user_id": "me"}


@dataclass(frozen=True, slots=True)
class Turn:
    """`found`: all of its evidence is among what would be shown. `marked`: it has a question mark."""

    asks: bool
    marked: bool
    found: bool
    shown: bool
    decision: Decision | None

    def is_shown_by_marks(self, fit: Fit) -> bool:
        d = self.decision
        return d is not None and fit.odds(self.marked, d.strength, d.covered) >= LEAST


async def turns(url: str, name: str, settings: Settings) -> list[Turn]:
    rows = [json.loads(line) for line in (TURNS / f"{name}.jsonl").read_text("utf-8").splitlines()]
    async with fresh_database(url) as own, Memory(own, settings=settings) as memory:
        await memory.configure(agent_id="ada", pending_max=0, language="simple" if name in WITHOUT_STEMMER else name)
        ids = [(await memory.observe(row["observation"], **ADA)).id for row in rows if "observation" in row]
        if settings.embedding == "local":
            await memory.work.embed()
        return [await _turn(memory, row, ids) for row in rows if "turn" in row]


async def _turn(memory: Memory, row: dict[str, Any], ids: Sequence[str]) -> Turn:
    shown = await memory.context(**ADA, message=row["turn"])
    every = await memory.context(**ADA, message=row["turn"], retrieve=True)
    evidence = {ids[number] for number in row.get("evidence", ())}
    marked = read(row["turn"], phrases=False).asks
    return Turn(row["asks"], marked, evidence <= set(every.sources), shown.fired, every.decision)


def line(name: str, some: Sequence[Turn], fit: Fit) -> str:
    asked, said = [one for one in some if one.asks], [one for one in some if not one.asks]
    cells = (
        mean([one.shown and one.found for one in asked]),
        mean([one.shown for one in said]),
        mean([one.is_shown_by_marks(fit) and one.found for one in asked]),
        mean([one.is_shown_by_marks(fit) for one in said]),
        mean([one.found for one in asked]),
    )
    return f"{name:12}" + "".join(f"{cell:>11.2f}" for cell in cells)


async def run() -> None:
    ways: list[tuple[str, Literal["off", "local"], Fit]] = [("by words", "off", BY_WORDS)]
    if find_spec(ENCODER) is not None:
        ways.append(("by meaning as well", "local", BY_MEANING))
    with server() as url:
        for title, embedding, fit in ways:
            settings = Settings(llm="offline", embedding=embedding, embedding_query_seconds=60)
            print(f"## {title}\n{'':12}{'shown':>11}{'disturbed':>11}{'marks':>11}{'disturbed':>11}{'if always':>11}")
            found = {name: await turns(url, name, settings) for name in NAMES}
            for name, some in found.items():
                print(line(name, some, fit))
            print(line("all", [turn for some in found.values() for turn in some], fit), end="\n\n")


if __name__ == "__main__":
    asyncio.run(run())
