"""The reliability suite of benchd-harness: 25 conversations with a trap in each, and one question each.

It asks for an answer in words and looks for one of its own in it. Memory gives no answer, but what the prompt contains: where
nothing may be known, no word of that can be expected, so this also counts how often what shouldn't be there is.
Needs benchmarks/requirements.txt. The observations are those of the rules, without a language model.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from benchd_harness.adapters.base import BaseAdapter
from benchd_harness.benchmarks.reliability import ReliabilityBenchmark
from benchd_harness.scoring.deterministic import score_response

from benchmarks.server import fresh_database
from memory_sql.config import Settings
from memory_sql.sync import Memory

AGENT = "assistant"
SETTINGS = Settings(llm="offline", formation_min_messages=1)


class MemoryAdapter(BaseAdapter):  # type: ignore[misc]  # untyped
    """Each conversation with somebody else."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._person = 0

    @property
    def name(self) -> str:
        return "memory_sql"

    def ingest(self, turns: Sequence[dict[str, Any]]) -> None:
        who = self._who()
        self._memory.add([dict(turn) for turn in turns], conversation_id=f"c{self._person}", **who)
        self._memory.conversations.form(agent_id=AGENT, conversation_id=f"c{self._person}")

    def recall(self, query: str) -> str:
        """What stands in the prompt for that message, in another conversation."""
        return str(self._memory.context(message=query, conversation_id=f"q{self._person}", **self._who()))

    def reset(self) -> None:
        self._person += 1

    def _who(self) -> dict[str, Any]:
        return {"agent_id": AGENT, "user_id": f"u{self._person}"}


def ask_all(url: str) -> None:
    counts: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
    with Memory(url, settings=SETTINGS) as memory:
        adapter = MemoryAdapter(memory)
        for item in ReliabilityBenchmark().load_items():
            adapter.reset()
            adapter.ingest(item.ingest_history)
            shown = adapter.recall(item.recall_query)
            scored = score_response(shown, item.expected_answer, item.scoring_method, item.max_score)
            traps = [trap for trap in item.metadata["trap_keywords"] if trap in shown.lower()]
            of = counts[item.dimension]
            of[0], of[1], of[2] = of[0] + 1, of[1] + scored.scored_correct, of[2] + bool(traps)
            print(f"{item.question_id}  {'found' if scored.scored_correct else '-':<6} {', '.join(traps)}")
    print(f"\n{'':<18}{'questions':>10}{'found':>8}{'traps shown':>13}")
    for dimension, (asked, found, trapped) in counts.items():
        print(f"{dimension:<18}{asked:>10}{found:>8}{trapped:>13}")


async def main() -> None:
    async with fresh_database() as url:
        await asyncio.to_thread(ask_all, url)


if __name__ == "__main__":
    asyncio.run(main())
