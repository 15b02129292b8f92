"""Classifies anew what older rules have classified, or no rules yet, in bounded batches, each a transaction of its own.

Kind and importance follow from what is stored of an observation alone, so that they can be computed at any time. What the
host gave isn't touched, nor what is held, quarantined or withdrawn.
"""

from __future__ import annotations

from memory_sql.config import Settings
from memory_sql.db import Session
from memory_sql.db.repositories.classifications import ClassificationRepository
from memory_sql.domain.classification import Classified, classification_of

UNKNOWN = Classified(None, None, None)


async def renew(session: Session, agent_id: str | None, most: int, settings: Settings) -> int:
    """The next batch, of one agent or of all; returns how many. What somebody works on is left for later."""
    repository = ClassificationRepository(session)
    outdated = await repository.outdated(agent_id, settings.classification, min(most, settings.maintenance_batch))
    if outdated:
        found = [classification_of(one.content, one.category, one.tags, one.fact_key, UNKNOWN) for one in outdated]
        await repository.store(outdated, found)
    return len(outdated)
