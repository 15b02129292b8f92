"""One consolidation, as it is put to a model. What was observed goes in as JSON, between marks that nobody can guess."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from memory_sql.consolidation import offline
from memory_sql.consolidation.answers import ConsolidatedText, NumberedText
from memory_sql.llm import Request, prompts
from memory_sql.llm.notation import KINDS, NOTHING_YET, as_data, as_lines, minute_of


@dataclass(frozen=True, slots=True)
class ConsolidationTask:
    """`observations` are in the order in which they were observed. `max_words` is for the text."""

    kind: str
    whose: str | None
    current: str | None
    observations: tuple[NumberedText, ...]
    max_words: int
    now: datetime
    guidance: str | None = None

    def request(self, model: str, too_long: int | None = None) -> Request[ConsolidatedText]:
        """`too_long`: how many words the answer had that is asked for again."""
        prompt, boundary = prompts.load("memory_sql.consolidation", "consolidation"), secrets.token_hex(16)
        shorter = f"A first version had {too_long} words: too many. Keep what matters most." if too_long else ""
        instructions, text = prompt.render(
            scope=KINDS[self.kind],
            current=as_data(self.current) if self.current else NOTHING_YET,
            observations=as_lines(
                [{"whose": self.whose or "everybody"}, *(_observation(item) for item in self.observations)]
            ),
            max_words=self.max_words,
            boundary=boundary,
            now=minute_of(self.now),
            guidance="\n".join(filter(None, (self.guidance, shorter))),
        )
        return Request("consolidation", model, instructions, text, ConsolidatedText, self, prompt.version, boundary)

    def by_rule(self) -> ConsolidatedText:
        """The answer without a model."""
        return offline.consolidate(self.current, self.observations, self.max_words)


def _observation(item: NumberedText) -> dict[str, Any]:
    return {"n": item.n, "observed_at": item.observed_at, "text": item.text}
