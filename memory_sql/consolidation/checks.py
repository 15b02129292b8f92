"""The checks that a new text must pass before it replaces the old one. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from memory_sql.config import Settings
from memory_sql.consolidation.accounting import NONE_SPENT, Account, Refusal, Spent, account, refusal
from memory_sql.consolidation.answers import ConsolidatedText
from memory_sql.consolidation.figures import Restated, Source
from memory_sql.consolidation.grounding import ungrounded_in
from memory_sql.consolidation.keeping import Kept, fits, kept
from memory_sql.consolidation.offline import NOTICE
from memory_sql.consolidation.replacing import Replaced, Shown
from memory_sql.consolidation.task import ConsolidationTask, numbered
from memory_sql.languages.dates import zone_of
from memory_sql.languages.text import clean
from memory_sql.llm.notation import as_written
from memory_sql.privacy.classify import mask


def checked_text(text: str, boundary: str, settings: Settings) -> str:
    """The text as it is stored: secrets masked, and without the delimiter lines, which small models copy."""
    lines = clean(text)[0].splitlines()
    plain = as_written("\n".join(line for line in lines if boundary not in line).strip())
    return plain if settings.secrets == "keep" else mask(plain).text


def refused_as(text: str, task: ConsolidationTask, accounted: Account, settings: Settings) -> Refusal | None:
    """Why the whole answer is refused; None: it isn't."""
    return refusal(text, task.current, accounted, task.max_words, settings.consolidation_min_ratio)


def accounted_for(
    answer: ConsolidatedText, named: Replaced, task: ConsolidationTask, shown: Shown, spent: Spent = NONE_SPENT
) -> Account:
    return account(answer.left_out, named.contradictions, numbered(task.current), shown, task.whose or "", spent)


def kept_of(
    text: str,
    answer: ConsolidatedText,
    task: ConsolidationTask,
    shown: Shown,
    accounted: Account,
    settings: Settings,
) -> Kept:
    """What of the text is kept. What the answer itself leaves out or takes for a repetition doesn't wait for it."""
    restated = [
        Restated(item.figure, [source for named in item.of for source in _named(named, task, shown)], item.was)
        for item in answer.figures
    ]
    zone, sources = zone_of(settings.time_zone), list(_sources(task, shown))

    def problems_of(parts: Sequence[str]) -> list[str | None]:
        found = ungrounded_in(parts, sources, restated, task.now, zone)
        return ["figures" if figures else "links" if links else None for figures, links in found]

    known = [NOTICE, *(item.content for item in (*shown.known, *shown.ended))]
    whose = task.whose or ""
    of_answer = kept(text, task.current, shown.inputs, known, whose, task.max_words, problems_of, accounted.explained)
    done = {item.what for item in answer.left_out} | {item.n for item in answer.same_as}
    done |= {item.older for item in answer.contradictions if item.older}
    dropped = {item.seq for name in done if name.startswith("n") and (item := shown.find(name)) is not None}
    return replace(of_answer, waits=of_answer.waits - dropped)


def nothing_new(kept: Kept, inputs: int, max_words: int) -> Refusal | None:
    """Why what is kept of a text serves for nothing; None: it does."""
    if kept.text and len(kept.waits) < inputs and fits(kept.text, max_words):
        return None
    if not kept.left_out:
        return Refusal(
            "the new text tells none of the new observations, and the answer doesn't say why",
            "It tells none of the new observations: tell them, or name in left_out each that your text doesn't tell,"
            " and as repeated each that it tells in other words.",
        )
    said = ", ".join(f"{count} for {reason}" for reason, count in kept.left_out.items())
    return Refusal(
        f"nothing new is left of the text: sentences left out: {said}",
        "Its sentences have figures or links that stand in nothing that was shown, or say what nobody said: write them as"
        " they stand there, quote in figures the words that say them, or leave them out.",
    )


def _sources(task: ConsolidationTask, shown: Shown) -> Iterator[Source]:
    if task.current:
        yield Source(task.current)
    for shown_as in (shown.inputs, shown.known, shown.ended):
        yield from (Source(item.content, item.observed_at) for item in shown_as)
    yield Source(task.whose or "")


def _named(reference: str, task: ConsolidationTask, shown: Shown) -> Iterator[Source]:
    sentences, n = numbered(task.current), int(reference[1:])
    if reference.startswith("s"):
        yield from (Source(text) for text in sentences[n - 1 : n] if n)
    elif (item := shown.find(reference)) is not None:
        yield Source(item.content, item.observed_at)
