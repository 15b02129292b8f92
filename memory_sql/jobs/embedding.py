"""Embedding, as a job: of observations that have no vector. Several may be at it; what one stores the others pass over."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from memory_sql.config import Settings
from memory_sql.db import Session
from memory_sql.db.repositories.vectors import Unembedded
from memory_sql.domain.results import EmbedResult
from memory_sql.llm.embeddings import EmbeddingModel, InTime
from memory_sql.retrieval import vectors


@dataclass(frozen=True, slots=True)
class Wanted:
    """Whose observations: an agent's, or (None) everybody's. There is one model for all, so the process's settings count."""

    agent_id: str | None
    agent_settings: Mapping[str, Any] = field(default_factory=dict)


class Embedding:
    """Of at most `limit` observations. `whole`: of all that have none, not only of the newest. `told` hears how many have."""

    applies_alone = False

    def __init__(
        self,
        asked: InTime,
        model: EmbeddingModel,
        limit: int,
        *,
        whole: bool,
        told: Callable[[int], None] | None = None,
    ) -> None:
        self._asked = asked
        self._model = model
        self._limit = limit
        self._whole = whole
        self._told = told

    async def load(
        self,
        session: Session,
        key: Wanted,
        settings: Settings,
        now: datetime,
        reason: str,
        so_far: Sequence[EmbedResult],
    ) -> tuple[Wanted, Sequence[Unembedded] | None]:
        left = self._limit - _stored(so_far)
        if self._told is not None:
            self._told(_stored(so_far))
        if left <= 0:
            return key, None
        return key, await vectors.load(session, self._model, key.agent_id, left, settings, whole=self._whole) or None

    async def extend(self, session: Session, held: Wanted, lease: timedelta) -> bool:
        """There is no lease."""
        return False

    def decide(self, loaded: Sequence[Unembedded], settings: Settings) -> Awaitable[vectors.Embedded]:
        return vectors.decide(self._asked, self._model, loaded, settings)

    def keep(self, loaded: Sequence[Unembedded], decided: vectors.Embedded, settings: Settings) -> None:
        """Not stored: vectors cost little."""

    def apply(
        self,
        session: Session,
        loaded: Sequence[Unembedded],
        decided: vectors.Embedded,
        settings: Settings,
        now: datetime,
    ) -> Awaitable[EmbedResult]:
        return vectors.apply(session, self._model, decided)

    async def fail(
        self,
        session: Session,
        loaded: Sequence[Unembedded],
        error: BaseException,
        settings: Settings,
        now: datetime,
    ) -> None:
        """Nothing is recorded: what has no vector is found again, and whoever asked sees the error."""

    def result(
        self, loaded: Sequence[Unembedded], decided: vectors.Embedded, applied: EmbedResult
    ) -> tuple[EmbedResult, bool]:
        return applied, _stored([applied]) > 0  # none: others are at the same

    def total(self, held: Wanted, results: Sequence[EmbedResult]) -> EmbedResult:
        return EmbedResult(
            embedded=sum(one.embedded for one in results),
            without_direction=sum(one.without_direction for one in results),
            complete=_stored(results) < self._limit,
        )

    def key(self, held: Wanted) -> Wanted:
        return held


def _stored(results: Sequence[EmbedResult]) -> int:
    return sum(one.embedded + one.without_direction for one in results)
