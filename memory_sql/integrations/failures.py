"""What the log says of turns that went on without memory: the kind of the error and ids, a line a minute at most."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Mapping
from typing import Literal
from weakref import WeakKeyDictionary

from memory_sql import sync
from memory_sql.domain.ids import Id
from memory_sql.errors import ForkedError, InputError
from memory_sql.memory import Memory

log = logging.getLogger("memory_sql.integrations")

LOG_SECONDS = 60.0

AnyMemory = Memory | sync.Memory
Step = Literal["before", "after", "tool", "forget"]
WHEN: Mapping[Step, str] = {"before": "before", "after": "after", "tool": "in a tool of", "forget": "to take back"}


class Failures:
    """Those of one memory."""

    def __init__(self) -> None:
        self._told_at = -math.inf
        self._untold = 0

    def tell(self, step: Step, who: Mapping[str, Id | None], error: Exception) -> None:
        now = time.monotonic()
        if now - self._told_at < LOG_SECONDS:
            self._untold += 1
            return
        more = f"; {self._untold} more since the last line" if self._untold else ""
        self._told_at, self._untold = now, 0
        log.warning(
            "memory failed %s a turn, which went on without it: %s (agent %s, user %s, conversation %s)%s",
            WHEN[step],
            _said_of(error),
            who.get("agent_id"),
            who.get("user_id"),
            who.get("conversation_id"),
            more,
        )


def _said_of(error: Exception) -> str:
    """The kind; and why, where that is how memory is used: it isn't open, or belongs to another loop."""
    name = type(error).__name__
    return f"{name}: {error}" if type(error) in (InputError, ForkedError) else name


_known: WeakKeyDictionary[AnyMemory, Failures] = WeakKeyDictionary()


def failures_of(memory: AnyMemory) -> Failures:
    return _known.setdefault(memory, Failures())
