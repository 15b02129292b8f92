"""One consolidation as a request to a model. Observations are passed as data, between delimiters that nobody can guess."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from memory_sql.consolidation import offline
from memory_sql.consolidation.answers import ConsolidatedText, NumberedText
from memory_sql.domain.prompts import OwnWords
from memory_sql.languages.text import sentences
from memory_sql.llm import Request, prompts
from memory_sql.llm.notation import KINDS, NOTHING_YET, as_data, mark_for, minute_of

SUMMARY = (
    "The text is a running summary of a conversation that goes on: tell in its order what was asked, what came of it and "
    "what is open. What is settled and nothing hangs on any more shrinks to a clause."
)
ENDED = """
What of the current text has ended since it was written, as it was said. Of plans write none as still to come: what was
fulfilled is done, what expired is over. What was overtaken is no longer so: something said later, which the text may tell
already, holds instead. A sentence that you drop for it is listed in left_out as over.
--- {mark} begin ended
{ended}
--- {mark} end ended
"""


@dataclass(frozen=True, slots=True)
class ConsolidationTask:
    """`observations` and `known` are ordered by when they were observed.

    `known`: absorbed observations that the new ones may concern. `ended`: plans of the text that are over since it was
    written, and what each came to. `max_words` limits the text. `words`: the scope's own
    instructions to the model; `told`: how a run refers to them.
    """

    kind: str
    whose: str | None
    current: str | None
    observations: tuple[NumberedText, ...]
    max_words: int
    now: datetime
    words: OwnWords | None = None
    told: str = ""
    known: tuple[NumberedText, ...] = ()
    ended: tuple[tuple[str, NumberedText], ...] = ()

    def request(self, model: str, refused: str | None = None) -> Request[ConsolidatedText]:
        """`refused`: why the first answer was refused, in our words."""
        prompt, own = prompts.load("memory_sql.consolidation", "consolidation"), self.words
        if own is not None:
            prompt = prompt.instructed(own.instructions, self.told)
        current = "\n".join(f"s{n} {as_data(part)}" for n, part in enumerate(numbered(self.current), 1))
        observations, known = _lines("n", self.observations), _lines("k", self.known)
        ended = "\n".join(f"{how} {_said(item)}" for how, item in self.ended)
        boundary = mark_for(current, observations, known, ended)
        again = f"A first version was refused. {refused}" if refused else ""
        instructions, text = prompt.render(
            scope=KINDS[self.kind],
            whose=as_data(self.whose or "everybody"),
            current=current or NOTHING_YET,
            observations=observations,
            known=known or "(none)",
            ended=ENDED.format(mark=boundary, ended=ended) if ended else "",
            max_words=self.max_words,
            boundary=boundary,
            now=minute_of(self.now),
            guidance="\n".join(
                filter(None, (SUMMARY if self.kind == "conversation" else None, own.guidance if own else None, again))
            ),
        )
        return Request("consolidation", model, instructions, text, ConsolidatedText, self, prompt.version, boundary)

    def by_rule(self) -> ConsolidatedText:
        """Answers by rule, without a model."""
        return offline.consolidate(self.current, self.observations, self.max_words)


def numbered(text: str | None) -> list[str]:
    """The sentences of a text, which the prompt numbers from 1."""
    return sentences(text or "")


def _lines(kind: str, items: Sequence[NumberedText]) -> str:
    return "\n".join(f"{kind}{item.n} {_said(item)}" for item in items)


def _said(item: NumberedText) -> str:
    return f"{minute_of(item.observed_at)} {as_data(item.text)}"
