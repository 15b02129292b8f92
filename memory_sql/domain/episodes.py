"""Episodes as values, and what an observation is about. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime
from typing import Literal

from memory_sql.domain.ids import Value
from memory_sql.domain.observations import Observation
from memory_sql.errors import InvalidIdError

SealReason = Literal["max_memories", "topic_shift", "time_gap", "forced"]
MOST_TOPICS = 16  # of an episode (B.4)
MOST_OF_ONE = 6  # of one observation
MOST_TOPIC_CHARACTERS, LEAST_TOPIC_CHARACTERS = 40, 2
MOST_TOPIC_WORDS = 3
_ID = re.compile(r"e([1-9]\d{0,17})")


class Episode(Value):
    """A stretch of a conversation, as its reader may see it.

    `topics`: at most 16, what most of its observations are about first. `observations`: how many of them the reader may see.
    `trace`: the id of the first episode of those that are about the same; `trace_since`: when the first of these began that
    the reader may see, None where this one does. `goal`: the first 100 characters of what the first user said of which
    something is remembered; None once that has lost its text. `members`: its observations, oldest first; only `get` has them.
    """

    id: str
    conversation_id: str
    opened_at: datetime
    last_at: datetime
    sealed_at: datetime | None = None
    seal_reason: SealReason | None = None
    topics: tuple[str, ...] = ()
    observations: int = 0
    trace: str | None = None
    trace_since: datetime | None = None
    goal: str | None = None
    members: tuple[Observation, ...] = ()


def episode_id(key: int) -> str:
    return f"e{key}"


def parse_episode_id(value: str) -> int:
    """The key in `e12`. Raises `InvalidIdError`."""
    found = _ID.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        raise InvalidIdError("episode id", "must look like e12")
    return int(found[1])


def is_episode_id(value: str) -> bool:
    return _ID.fullmatch(value) is not None


def topics_of(said: Iterable[str], tags: Iterable[str], category: str | None) -> tuple[str, ...]:
    """What an observation is about, in lower case: what the model says, then the host's tags.

    Its category stands in where there is neither: nearly everything has one, and it says nothing of what was talked about.
    """
    topics = dict.fromkeys(topic for one in (*said, *tags) if (topic := _as_topic(one)))
    return tuple(topics)[:MOST_OF_ONE] or ((category,) if category else ())


def _as_topic(text: str) -> str | None:
    topic = " ".join(text.split()).casefold().strip(".,;:!?\"'")
    fits = LEAST_TOPIC_CHARACTERS <= len(topic) <= MOST_TOPIC_CHARACTERS
    return topic if fits and len(topic.split()) <= MOST_TOPIC_WORDS else None
