"""`python -m benchmarks.recall.formed --data DIR`: how well search finds observations that a model has formed.

DIR/formed holds `*.obs.jsonl`: `content`, `terms` (search cues), `sources` (ids of messages), `observed_at`, `speaker`
and, unless all belong to one user, `scope` (`individual:ID`, `group:ID`). DIR/questions.jsonl holds `question`,
`evidence` (ids of messages) and `conv`, or `file` and `asker`. Recall at k is the share of the evidence behind the first
k observations, for each weight of the cues; 0 is without cues. Questions without evidence aren't asked. --graph: as well
with links between what names the same, or was said one after the other.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from sqlalchemy import text

from benchmarks.server import analyze, fresh_database, server
from memory_sql.config import Settings
from memory_sql.db.principals import service
from memory_sql.db.queries.search import Sought, search
from memory_sql.domain.query import Weights
from memory_sql.languages.dates import zone_of
from memory_sql.llm.offline import Offline
from memory_sql.memory import Memory
from memory_sql.retrieval.query import parse

DEPTH = 10
SET_TERMS = text(
    "UPDATE memory.observations SET terms = :terms WHERE agent_key = :agent AND scope_id = :scope AND seq = :seq"
)


@dataclass(frozen=True, slots=True)
class Asked:
    agent: str
    user: str
    kind: str
    text: str
    evidence: frozenset[str]


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def questions(folder: Path, agents: Sequence[str]) -> list[Asked]:
    asked = [
        Asked(
            agent=row.get("file") or row["conv"],
            user=row.get("asker") or row["conv"],
            kind=str(row.get("kind") or row["category"]),
            text=row["question"],
            evidence=frozenset(row["evidence"]),
        )
        for row in lines(folder / "questions.jsonl")
    ]
    return [one for one in asked if one.evidence and one.agent in agents]


async def fill(memory: Memory, agent: str, observations: Sequence[Mapping[str, Any]]) -> dict[str, frozenset[str]]:
    """The messages behind each observation, by the observation's id."""
    sources, members = dict[str, frozenset[str]](), dict[str, set[str]]()
    for row in observations:
        kind, _, owner = row.get("scope", f"individual:{agent}").partition(":")
        if kind == "group":
            members.setdefault(owner, set())
        stored = await memory.observe(
            row["content"],
            agent_id=agent,
            **{"group_id" if kind == "group" else "user_id": owner},
            observed_at=datetime.fromisoformat(row["observed_at"]),
            conversation_id=f"{agent}/{row.get('session_id') or row.get('session')}",
            speaker=row["speaker"],
        )
        sources[stored.id] = frozenset(row["sources"]) | sources.get(stored.id, frozenset())
        scope, _, seq = stored.id[1:].partition("-")
        async with memory.database.transaction(principal=service(agent)) as unit:
            key = (
                await unit.execute(text("SELECT agent_key FROM memory.agents WHERE agent_id = :id"), {"id": agent})
            ).scalar()
            named = {"terms": "\n".join(row["terms"]), "agent": key, "scope": int(scope), "seq": int(seq)}
            await unit.execute(SET_TERMS, named)
    return sources


async def measured(
    memory: Memory, sources: Mapping[str, frozenset[str]], asked: Sequence[Asked], weight: float, *, graph: bool
) -> str:
    weights, zone = replace(Weights(), terms=weight, graph=graph), zone_of("UTC")
    found: dict[str, list[tuple[float, float]]] = {}
    for question in asked:
        now = memory.now()
        query = parse(question.text, now, zone, "english")
        principal = {"agent_id": question.agent, "user_id": question.user, "conversation_id": None}
        async with memory.database.transaction(principal=service(question.agent)) as unit:
            found_by = await search(unit, principal, query, Sought(now=now, observations=DEPTH), weights=weights)
        behind = [sources[hit.observation.id] for hit in found_by.hits]
        shares = tuple(
            len(question.evidence & frozenset().union(*behind[:k])) / len(question.evidence) for k in (5, 10)
        )
        found.setdefault(question.kind, []).append((shares[0], shares[1]))
    every = [pair for pairs in found.values() for pair in pairs]
    parts = [("all", every), *sorted(found.items())]
    return "  ".join(
        f"{name} {sum(a for a, _ in pairs) / len(pairs):.3f}/{sum(b for _, b in pairs) / len(pairs):.3f}"
        for name, pairs in parts
    )


async def run(folder: Path, chosen: Sequence[float], *, graph: bool) -> None:
    files = sorted((folder / "formed").glob("*.obs.jsonl"))
    agents = [file.name.partition(".")[0] for file in files]
    asked = questions(folder, agents)
    with server() as url:
        async with fresh_database(url) as own, Memory(own, Offline(), Settings(llm="offline", graph=graph)) as memory:
            sources: dict[str, frozenset[str]] = {}
            for agent, file in zip(agents, files, strict=True):
                rows = lines(file)
                groups = {row["scope"][6:] for row in rows if row.get("scope", "").startswith("group:")}
                for group in groups:
                    await memory.groups.create(group, agent_id=agent)
                    for user in {one.user for one in asked if one.agent == agent}:
                        await memory.groups.add_member(group, user_id=user, agent_id=agent)
                sources |= {**await fill(memory, agent, rows)}
            await analyze(own)
            print(f"{len(sources):,} observations, {len(asked):,} questions; recall@5/@10 by kind")
            for weight in chosen:
                print(f"{weight:.2f}  {await measured(memory, sources, asked, weight, graph=False)}")
                if graph:
                    print(f"{weight:.2f} with links  {await measured(memory, sources, asked, weight, graph=True)}")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.recall.formed", description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder with formed/*.obs.jsonl and questions.jsonl")
    parser.add_argument("--weights", default="0,0.3,0.5,0.6,0.7,0.8,0.9,1", help="of the cues, with commas")
    parser.add_argument("--graph", action="store_true", help="also with links between the observations")
    options = parser.parse_args()
    asyncio.run(run(options.data, [float(one) for one in options.weights.split(",")], graph=options.graph))
    return 0


if __name__ == "__main__":
    sys.exit(main())
