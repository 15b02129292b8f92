"""What forming and consolidating conversations would cost, before any model is asked. Pure.

The prompts are made as in real work, and their tokens counted as everywhere (characters / 4.5). What can't be known is taken
from the two invented conversations of the benchmark, of which a strong model formed 407 observations: one for each 67
characters that people said, and 63 tokens of answer for each. The texts are taken to be as long as they may be.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from memory_sql.config import Settings
from memory_sql.consolidation.answers import NumberedText
from memory_sql.consolidation.task import ConsolidationTask
from memory_sql.domain.messages import Message
from memory_sql.domain.results import Estimate
from memory_sql.formation.answers import OfferedScope, Turn
from memory_sql.formation.task import ExtractionTask
from memory_sql.languages.text import count_tokens
from memory_sql.llm import Request

CHARACTERS_EACH, TOKENS_EACH = 67, 63  # said by people, and of an answer, for each observation
WORD = 6  # characters with the space behind
KNOWN = 20  # older observations that a consolidation shows


def estimate(talks: Sequence[Sequence[Message]], settings: Settings, now: datetime) -> list[Estimate]:
    """Of formation and of consolidation; propagation depends on what is shared, and isn't included."""
    windows = [window for talk in talks for window in _windows(talk, settings)]
    sent = sum(_tokens(_extraction(window, settings, now)) for window in windows)
    said = sum(len(message.content) for talk in talks for message in talk if message.role == "user")
    found = round(said / CHARACTERS_EACH)
    formation = Estimate(
        step="formation",
        model=settings.fast_model,
        calls=len(windows),
        input_tokens=sent,
        output_tokens=found * TOKENS_EACH,
        observations=found,
    )
    times = -(-found // settings.consolidation_threshold)
    text = "word " * settings.consolidation_max_words
    consolidation = Estimate(
        step="consolidation",
        model=settings.slow_model,
        calls=times,
        input_tokens=times * _tokens(_consolidation(text, settings, now)),
        output_tokens=times * count_tokens("x" * WORD * settings.consolidation_max_words),
        observations=found,
    )
    return [formation, consolidation]


def _windows(talk: Sequence[Message], settings: Settings) -> Iterator[list[Message]]:
    """As a formation reads it: whole messages, at least one."""
    window, characters = list[Message](), 0
    for message in talk:
        full = len(window) == settings.formation_window_messages
        if window and (full or characters + len(message.content) > settings.formation_window_characters):
            yield window
            window, characters = [], 0
        window.append(message)
        characters += len(message.content)
    if window:
        yield window


def _extraction(window: Sequence[Message], settings: Settings, now: datetime) -> Request[Any]:
    turns = tuple(Turn(n, message.role, message.role, now, message.content) for n, message in enumerate(window, 1))
    scopes = OfferedScope("individual", "individual", handle="P1, the user,"), OfferedScope("collective", "collective")
    task = ExtractionTask(turns, scopes, settings.observation_max_items, settings.observation_max_words, now)
    return task.request(settings.fast_model)


def _consolidation(text: str, settings: Settings, now: datetime) -> Request[Any]:
    each = "x" * CHARACTERS_EACH
    new = tuple(NumberedText(n, now, each) for n in range(1, settings.consolidation_threshold + 1))
    known = tuple(NumberedText(n, now, each) for n in range(1, KNOWN + 1))
    task = ConsolidationTask("individual", None, text, new, settings.consolidation_max_words, now, known=known)
    return task.request(settings.slow_model)


def _tokens(request: Request[Any]) -> int:
    return count_tokens(request.instructions) + count_tokens(request.prompt)
