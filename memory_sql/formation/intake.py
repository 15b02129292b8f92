"""What a message weighs, and which messages ask to be remembered at once. Pure decisions; the thresholds are settings.

Counting is done where it can't be raced: in `memory.add_messages`, under the conversation's row lock.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

from memory_sql.config import Secrets
from memory_sql.domain.messages import Message
from memory_sql.errors import InvalidMessageError
from memory_sql.languages.anchors import Anchored, letters_in
from memory_sql.languages.data import of_all, table
from memory_sql.languages.requests import requests_in
from memory_sql.languages.tables import FunctionWords, Signals, ToldBy, Words
from memory_sql.languages.text import CHARACTERS_PER_TOKEN
from memory_sql.privacy.classify import mask

ROLE_WEIGHT = {"user": 1.0, "tool": 0.5, "function": 0.5, "assistant": 0.2, "agent": 0.2}  # R280
END = 1000  # characters of each end of a long message in which signals are looked for
SHORT, SMALL_WORDS = 60, 2  # what has more characters is in a language of which it has so many small words
ASKS_TO_FORGET, ASKS_TO_CORRECT = "request to forget", "request to correct"
SKIPPED_ROLES = frozenset({"system", "developer"})  # instructions to the agent are not something that was said


class Screened(NamedTuple):
    """Messages with their secrets masked, and the kinds of these, by the position (from 0) of the message."""

    messages: tuple[Message, ...]
    found: dict[int, tuple[str, ...]]


def screen(messages: Sequence[Message]) -> Screened:
    """What was masked is named in `cleaned`: the text isn't as it came."""
    safe, found = [], {}
    for position, message in enumerate(messages):
        text, name = mask(message.content), mask(message.name or "")
        kinds = text.found + name.found
        if kinds:
            found[position] = kinds
            changed = {"content": text.text, "name": name.text or None, "cleaned": (*message.cleaned, "secret")}
            message = message.model_copy(update=changed)
        safe.append(message)
    return Screened(tuple(safe), found)


def refuse(screened: Screened, secrets: Secrets, places: Sequence[int]) -> None:
    """Raises `InvalidMessageError` for the first message with a secret, by its place, where the setting says so."""
    if secrets == "refuse" and screened.found:
        position, kinds = next(iter(screened.found.items()))
        raise InvalidMessageError(places[position], f"contains a secret: {', '.join(dict.fromkeys(kinds))}")


class Weighed(NamedTuple):
    """A message with what the trigger needs to know. Weight is in tokens; skipped messages weigh nothing.

    Skipped are instructions to the agent, and what was scheduled: nobody said it.
    """

    message: Message
    weight: float
    eligible: bool
    signal: str | None


def weigh(message: Message) -> Weighed:
    if message.role in SKIPPED_ROLES or message.trigger is not None:
        return Weighed(message, 0.0, eligible=False, signal=None)
    weight = ROLE_WEIGHT[message.role] * len(message.content) / CHARACTERS_PER_TOKEN
    return Weighed(message, round(weight, 2), eligible=True, signal=signal_in(message.role, message.content))


def signal_in(role: str, content: str) -> str | None:
    """The name of the first signal in what a user said; nobody else can set one off (R145, R147).

    What they ask memory to forget comes first: it is heard at once, and tells nothing to be remembered.
    """
    if role != "user":
        return None
    said = _said(content)
    asked = {one.kind for one in requests_in(said)}
    if "forget" in asked:
        return ASKS_TO_FORGET
    return _statement_in(said) or (ASKS_TO_CORRECT if asked else None)


def _statement_in(said: str) -> str | None:
    text = said.replace("’", "'")
    lower = text.lower()
    words = letters_in(lower)
    for one in _signals():
        if len(text) <= SHORT or len(one.words & words) >= SMALL_WORDS:
            for _, name, pattern in sorted(one.patterns.worth_trying(lower, words)):
                if _compiled(pattern).search(text):
                    return name
    return None


def _said(text: str) -> str:
    """What is long was pasted: what somebody says of it stands before or behind."""
    return text if len(text) <= 2 * END else f"{text[:END]}\n{text[-END:]}"


class _Spoken(NamedTuple):
    """A language's signals, and its small words, by which a text is known to be in it."""

    words: Words
    patterns: Anchored[tuple[int, str, str]]  # which of the kinds it is of, that kind's name, the pattern


@cache
def _signals() -> tuple[_Spoken, ...]:
    """Statements that correct, decide or introduce (B.4), of each language. A signal costs a model call."""
    return tuple(
        _Spoken(
            table(language, FunctionWords).common | table(language, ToldBy).words,
            Anchored(
                ((place, kind.replace("_", " "), pattern), pattern)
                for place, kind in enumerate(Signals._fields)
                for pattern in getattr(signals, kind).values()
            ),
        )
        for language, signals in of_all(Signals).items()
    )


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE)
