"""`python -m benchmarks.recall.languages`: what is shown in each language.

`turns/LANGUAGE.jsonl` holds what is remembered about one person (`observation`), and turns of that person. Those with `asks`
have as `evidence` the numbers of the observations that answer them; the others ask for nothing. They were written without
knowledge of the languages' files, and aren't used to change these. `shown`: the questions whose evidence is shown. `tokens`:
of the lines on other turns, on average. `if all`: the questions whose evidence is among what was found.
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
from memory_sql.languages.text import count_tokens
from memory_sql.llm.embeddings import ENCODER
from memory_sql.memory import Memory

TURNS = Path(__file__).with_name("turns")
NAMES = sorted(path.stem for path in TURNS.glob("*.jsonl"))
WITHOUT_STEMMER = ("chinese", "polish")
ADA: dict[str, Any] = {"agent_id": "ada", "user_id": "me"}


@dataclass(frozen=True, slots=True)
class Turn:
    """`shown`: all of its evidence is shown; `found`: it was found."""

    asks: bool
    shown: bool
    found: bool
    tokens: int


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
    tokens = count_tokens("\n".join(line.text for part in shown.parts for line in part.lines))
    return Turn(row["asks"], evidence <= set(shown.sources), evidence <= set(every.sources), tokens)


def line(name: str, some: Sequence[Turn]) -> str:
    asked, said = [one for one in some if one.asks], [one for one in some if not one.asks]
    cells = (mean([one.shown for one in asked]), mean([one.found for one in asked]))
    return f"{name:12}" + "".join(f"{cell:>11.2f}" for cell in cells) + f"{mean([one.tokens for one in said]):>11.0f}"


async def run() -> None:
    ways: list[tuple[str, Literal["off", "local"]]] = [("by words", "off")]
    if find_spec(ENCODER) is not None:
        ways.append(("by meaning as well", "local"))
    with server() as url:
        for title, embedding in ways:
            settings = Settings(llm="offline", embedding=embedding, embedding_query_seconds=60)
            print(f"## {title}\n{'':12}{'shown':>11}{'if all':>11}{'tokens':>11}")
            found = {name: await turns(url, name, settings) for name in NAMES}
            for name, some in found.items():
                print(line(name, some))
            print(line("all", [turn for some in found.values() for turn in some]), end="\n\n")


if __name__ == "__main__":
    asyncio.run(run())
