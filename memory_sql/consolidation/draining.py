"""Whether a text loses, in the versions of a week, what each of them alone may lose.

Each version keeps two fifths of a sentence's words; a few versions later nothing of it is left. So a new text is compared
with that of a week ago too. What was overtaken, or waits for a person, may go; what is still in use counts.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta

from memory_sql.consolidation.accounting import Refusal, size_of
from memory_sql.consolidation.keeping import TOLD, allowed, is_comparable, untold
from memory_sql.db import Session
from memory_sql.db.repositories.overtaking import OvertakingRepository
from memory_sql.db.repositories.scopes import ScopeState
from memory_sql.domain.ids import moved
from memory_sql.domain.scopes import Contradiction
from memory_sql.languages.text import sentences
from memory_sql.languages.wording import pieces, stands_in
from memory_sql.retrieval.related import holding

A_WEEK = timedelta(days=7)
MOST = 1 / 2  # of a text may be lost in a week by being dropped and rewritten; a quarter by being dropped


async def drained(
    session: Session,
    agent_id: str,
    scope: ScopeState,
    texts: tuple[str, str, Sequence[str]],
    contradictions: Sequence[Contradiction],
    max_words: int,
    now: datetime,
) -> Refusal | None:
    """Why the new text must not be stored without a person; None: it may.

    `texts`: that of a week ago, the new one, and sentences of the old one whose loss is explained and bounded elsewhere.
    """
    before, text, explained = texts
    whose = scope.display_name or scope.ref.owner_id or ""
    if not is_comparable(text, before, max_words):
        return None
    lost_before = set(lost(before, sentences(scope.consolidation or ""), whose))
    gone = lost(before, [*sentences(text), *explained], whose)
    new = lost(text, sentences(before), whose)
    room = max(size_of(before) + _size(new) - allowed(max_words)[0], 0)
    most = MOST * size_of(before) + room
    if _size(gone) <= most or lost_before.issuperset(gone):
        return None
    asked = await OvertakingRepository(session).asked_since(scope, moved(now, -A_WEEK))
    asked |= {item.older for item in contradictions if item.older is not None}
    in_use = [part for part in gone if await _is_in_use(session, agent_id, scope, part, asked, now)]
    if _size(in_use) <= most or lost_before.issuperset(in_use):
        return None
    share = _size(in_use) / max(size_of(before), 1)
    return Refusal(f"{share:.0%} of the text of a week ago have no counterpart, and are still in use", "", review=True)


def lost(before: str, told: Sequence[str], whose: str) -> list[str]:
    """The sentences of a text that have no counterpart among these."""
    parts = sentences(before)
    return [parts[n] for n in untold(before, [pieces(part) for part in told], whose, ())]


def _size(parts: Sequence[str]) -> int:
    return size_of(" ".join(parts))


async def _is_in_use(
    session: Session, agent_id: str, scope: ScopeState, part: str, asked: Collection[int], now: datetime
) -> bool:
    """Whether an observation that makes it up is active, and no person is asked about that."""
    found = await holding(session, agent_id, scope, part, now)
    return any(
        row.seq not in asked and (stands_in(row.content, part, TOLD) or stands_in(part, row.content, TOLD))
        for row in found
    )
