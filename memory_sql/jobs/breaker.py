"""Holds due work back while the model's provider refuses everybody: a wrong key, an account without credit.

Such a refusal says nothing about the work, and the next piece would only hear the same. After one, nothing is claimed; when
the pause is over one piece is let through, and what it hears decides.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import datetime
from typing import TypeVar

from pydantic import BaseModel

from memory_sql.config import Settings
from memory_sql.errors import ACCOUNT_REFUSED, LanguageModelError, UnavailableError
from memory_sql.llm import Answer, LanguageModel, Request
from memory_sql.llm.retry import pause

T = TypeVar("T", bound=BaseModel | str)

log = logging.getLogger(__name__)


class Breaker:
    """Of one process. `now` is the clock; pauses are those of failed work."""

    def __init__(self, settings: Settings, now: Callable[[], datetime]) -> None:
        self._settings = settings
        self._now = now
        self._refusals = 0
        self._reason = ""
        self._again_at: datetime | None = None

    @property
    def is_open(self) -> bool:
        """Whether nothing may be claimed now."""
        return self._again_at is not None and self._now() < self._again_at

    @property
    def refusal(self) -> str | None:
        """What the provider said, and until when nothing is asked; None: it answers, as far as is known."""
        if self._again_at is None:
            return None
        return f"{self._reason}; nothing else is asked before {self._again_at:%H:%M:%S} UTC"

    def let_through(self) -> None:
        """One piece of work was claimed: where the provider has refused, the next waits for what that one hears."""
        if self._again_at is not None:
            self._hold()

    def watch(self, model: LanguageModel) -> LanguageModel:
        """The model, which tells this breaker what it hears."""
        return _Watched(model, self)

    def answered(self) -> None:
        if self._again_at is not None:
            log.info("the language model answers again")
        self._refusals, self._again_at = 0, None

    def failed(self, error: LanguageModelError) -> None:
        if not isinstance(error, UnavailableError):
            self.answered()  # what can't be used is an answer
        elif error.reason in ACCOUNT_REFUSED:
            is_news = self._again_at is None or self._reason != str(error)
            self._reason = str(error)
            if not self.is_open:  # else another call of the same time has said so
                self._hold()
            if is_news:
                log.warning("the language model refuses: %s", self.refusal)

    def _hold(self) -> None:
        self._again_at = self._now() + pause(self._refusals, self._settings)
        self._refusals += 1


class _Watched:
    def __init__(self, model: LanguageModel, breaker: Breaker) -> None:
        self._model = model
        self._breaker = breaker

    async def generate(self, request: Request[T]) -> Answer[T]:
        try:
            answer = await self._model.generate(request)
        except LanguageModelError as error:
            self._breaker.failed(error)
            raise
        self._breaker.answered()
        return answer
