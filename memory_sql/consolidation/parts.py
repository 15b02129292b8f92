"""What still holds of an observation that a newer one overtakes: an observation of its own from then on."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from memory_sql.config import Settings
from memory_sql.db import Session
from memory_sql.db.repositories.parts import keep
from memory_sql.db.repositories.scopes import ScopeState
from memory_sql.domain.scopes import Contradiction
from memory_sql.languages.dates import zone_of


async def keep_parts(
    session: Session, scope: ScopeState, contradictions: Iterable[Contradiction], settings: Settings, now: datetime
) -> list[int]:
    """The numbers of what is kept, in order; the caller has locked the scope. The text that is written tells it already."""
    zone, kept = zone_of(settings.time_zone), list[int]()
    for item in contradictions:
        if item.older is None or item.still is None or item.held or item.asks:
            continue
        seq = await keep(session, scope, item.older, item.newer, item.still, zone, now)
        kept += [] if seq is None else [seq]
    return kept
