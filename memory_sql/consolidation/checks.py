"""The checks that a new text must pass before it replaces the old one. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from memory_sql.config import Settings
from memory_sql.consolidation.accounting import Refusal, account, refusal
from memory_sql.consolidation.answers import ConsolidatedText
from memory_sql.consolidation.figures import Restated, Source
from memory_sql.consolidation.grounding import ungrounded
from memory_sql.consolidation.replacing import Shown
from memory_sql.consolidation.task import ConsolidationTask, numbered
from memory_sql.languages.dates import zone_of
from memory_sql.languages.text import clean
from memory_sql.llm.notation import as_written
from memory_sql.privacy.classify import mask

MOST_TOLD = 20  # figures named to the model


def checked_text(text: str, boundary: str, settings: Settings) -> str:
    """The text as it is stored: secrets masked, and without the delimiter lines, which small models copy."""
    lines = clean(text)[0].splitlines()
    plain = as_written("\n".join(line for line in lines if boundary not in line).strip())
    return plain if settings.secrets == "keep" else mask(plain).text


def refused_as(
    text: str, answer: ConsolidatedText, task: ConsolidationTask, shown: Shown, settings: Settings
) -> Refusal | None:
    """Why the answer is refused; None: it isn't."""
    sentences = numbered(task.current)
    accounted = account(answer.left_out, answer.contradictions, sentences, shown, task.whose or "")
    least = settings.consolidation_min_ratio
    harm = refusal(text, task.current, accounted, task.max_words, least)
    return harm or _made_up(text, answer, task, shown, settings)


def _made_up(
    text: str, answer: ConsolidatedText, task: ConsolidationTask, shown: Shown, settings: Settings
) -> Refusal | None:
    restated = [
        Restated(item.figure, [source for named in item.of for source in _named(named, task, shown)], item.was)
        for item in answer.figures
    ]
    zone = zone_of(settings.time_zone)
    figures, links = ungrounded(text, list(_sources(task, shown)), restated, task.now, zone)
    if not figures and not links:
        return None
    said = [f"the figures {', '.join(figures[:MOST_TOLD])}"] if figures else []
    said += [f"{links} links or addresses"] if links else []
    return Refusal(
        f"{len(figures)} figures and {links} links of the new text are in none of its sources",
        f"It has {' and '.join(said)} that stand in nothing that was shown: write them as they stand there, quote in"
        " figures the words that say them, or leave them out.",
    )


def _sources(task: ConsolidationTask, shown: Shown) -> Iterator[Source]:
    if task.current:
        yield Source(task.current)
    for shown_as in (shown.inputs, shown.known):
        yield from (Source(item.content, item.observed_at) for item in shown_as)
    yield Source(task.whose or "")


def _named(reference: str, task: ConsolidationTask, shown: Shown) -> Iterator[Source]:
    sentences, n = numbered(task.current), int(reference[1:])
    if reference.startswith("s"):
        yield from (Source(text) for text in sentences[n - 1 : n] if n)
    elif (item := shown.find(reference)) is not None:
        yield Source(item.content, item.observed_at)
