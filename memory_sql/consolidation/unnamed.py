"""What a text said and no longer says, where the model names words of the text and no observation.

The observations that said so would stay in use, and be found before what overtook them. So those give way that make up the
sentence in which these words stand: few, and of the same author; else a person decides.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from memory_sql.consolidation.holding import holds_of
from memory_sql.consolidation.replacing import FEWEST, says_something, with_still
from memory_sql.db import Session
from memory_sql.db.repositories.overtaking import OvertakingRepository
from memory_sql.db.repositories.scopes import ScopeState
from memory_sql.domain.scopes import AbsorbedObservation, Contradiction
from memory_sql.languages.text import sentences
from memory_sql.languages.wording import SAID_AGAIN, stands_in
from memory_sql.retrieval.related import holding

MOST_HELD = 10  # observations that a person is asked about, for one contradiction


async def with_rows(
    session: Session,
    agent_id: str,
    scope: ScopeState,
    contradictions: Sequence[Contradiction],
    newer: Mapping[int, datetime],
    now: datetime,
) -> tuple[Contradiction, ...]:
    """The contradictions, with one for each observation that gives way. `newer`: when each of the new ones was made."""
    found, taken = list[Contradiction](), {item.older for item in contradictions}
    for item in contradictions:
        rows = await _rows(session, agent_id, scope, item, newer.get(item.newer), now) if item.older is None else []
        rows = [row for row in rows if row.seq not in taken]
        if not rows:
            found.append(item if item.older is not None else item.model_copy(update={"still": None}))
            continue
        taken |= {row.seq for row in rows}
        authors = await OvertakingRepository(session).authors(scope, [item.newer, *(row.seq for row in rows)])
        theirs = set().union(*(authors[row.seq] for row in rows))
        held = len(rows) > FEWEST or not theirs <= authors[item.newer]
        found += [item.model_copy(update={"older": row.seq, "held": held} | part) for row, part in _parts(item, rows)]
    return tuple(found)


def _parts(
    item: Contradiction, rows: Sequence[AbsorbedObservation]
) -> Iterator[tuple[AbsorbedObservation, dict[str, Any]]]:
    """Each with what still holds of it: of several only what is in its own words."""
    asks = with_still(item, item.still, rows[0]).asks if len(rows) == 1 else False
    for row in rows[:MOST_HELD]:
        is_its = item.still is not None and (asks or holds_of(item.still, row.content, item.was or ""))
        yield row, {"still": item.still if is_its else None, "asks": asks}


async def _rows(
    session: Session, agent_id: str, scope: ScopeState, item: Contradiction, at: datetime | None, now: datetime
) -> list[AbsorbedObservation]:
    was = item.was or ""
    if at is None or not says_something(was):
        return []
    said = [part for part in sentences(scope.consolidation or "") if stands_in(was, part)]
    found = await holding(session, agent_id, scope, was, now)
    return [row for row in found if (row.observed_at, row.seq) < (at, item.newer) and _made_up(row.content, was, said)]


def _made_up(content: str, was: str, said: Iterable[str]) -> bool:
    """Whether the observation has these words, and the text's sentence says nothing less than it."""
    return stands_in(was, content) and any(stands_in(content, part, SAID_AGAIN) for part in said)
