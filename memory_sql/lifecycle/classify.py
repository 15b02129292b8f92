"""Classifies anew what older rules have classified, or no rules yet, in bounded batches, each a transaction of its own.

Kind and importance follow from what is stored of an observation alone, so that they can be computed at any time. What the
host gave isn't touched, nor what is held, quarantined or withdrawn.
"""

from __future__ import annotations

from collections.abc import Sequence

from memory_sql.config import Settings
from memory_sql.db import Session
from memory_sql.db.repositories.classifications import ClassificationRepository, Outdated
from memory_sql.db.repositories.sweeps import Place
from memory_sql.domain.classification import Classified, classification_of

UNKNOWN = Classified(None, None, None)


async def outdated(
    session: Session, agent_id: str | None, after: Place, most: int, settings: Settings
) -> list[Outdated]:
    """The next batch, of one agent or of all. Nothing is locked while they are classified."""
    repository = ClassificationRepository(session)
    return await repository.outdated(agent_id, settings.classification, after, most)


def classified(outdated: Sequence[Outdated]) -> list[Classified]:
    return [classification_of(one.content, one.category, one.tags, one.fact_key, UNKNOWN) for one in outdated]


async def store(session: Session, outdated: Sequence[Outdated], found: Sequence[Classified]) -> int:
    """How many. What somebody has changed meanwhile, or works on, is left for later."""
    return await ClassificationRepository(session).store(outdated, found)
