"""How much a model may let be overtaken without a person: the rest is held for one, and the older observation stays.

No model can be sure who may speak for whom. So what one person says in a group overtakes a few of what others said in a day,
however many conversations it is said in; and of what a person has decided about a row while it was writing, it didn't know.
Nor did it know what maintenance has set aside meanwhile: nothing gives way to that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime, timedelta

from memory_sql.consolidation.replacing import FEWEST, says_the_same, tells_apart, within_bounds
from memory_sql.db import Session
from memory_sql.db.repositories.overtaking import Authors, OvertakingRepository
from memory_sql.db.repositories.scopes import ScopeState
from memory_sql.db.repositories.states import StateRepository
from memory_sql.domain.ids import moved
from memory_sql.domain.scopes import Contradiction
from memory_sql.languages.wording import pieces

OF_OTHERS = FEWEST  # observations of others that one person's words overtake in a day: as many as in one version
A_DAY = timedelta(days=1)


async def bounded(
    session: Session,
    scope: ScopeState,
    contradictions: Sequence[Contradiction],
    common: Collection[str],
    read_at: datetime,
    run_id: int,
    now: datetime,
) -> Sequence[Contradiction]:
    """The contradictions, some held, without those whose newer observation is out of use. The caller has locked the scope.

    `common`: words that tell none of what was shown from the others. `read_at`, `run_id`: when the model was asked.
    """
    overtaking = OvertakingRepository(session)
    stands = await overtaking.in_use(scope, {item.newer for item in contradictions if item.older is not None})
    contradictions = [item for item in contradictions if item.older is None or item.newer in stands]
    pairs = [(item.newer, item.older) for item in contradictions if item.older is not None and not item.held]
    if pairs:
        newer, older = zip(*pairs, strict=True)
        decided = await overtaking.decided_since(scope, newer, older, read_at, run_id)
        decided |= {seq for seq, is_disputed in stands.items() if is_disputed}
        contradictions = [
            _held(item) if item.older is not None and {item.newer, item.older} & decided else item
            for item in contradictions
        ]
        if scope.kind != "individual":  # where all is its owner's
            before = await overtaking.given_way_since(scope, moved(now, -A_DAY))
            pairs = [(item.newer, seq) for item in contradictions if (seq := item.older) is not None]
            authors = await overtaking.authors(scope, {seq for pair in pairs for seq in pair})
            called = pieces(scope.display_name or scope.ref.owner_id or "")
            contradictions = list(_within_a_day(contradictions, {*common, *called}, before, authors))
    if len(contradictions) <= FEWEST:
        return contradictions
    return within_bounds(contradictions, await StateRepository(session).count_active(scope))


async def standing_behind(
    session: Session, scope: ScopeState, same_as: dict[int, int], contents: Mapping[int, str]
) -> dict[int, int]:
    """Those that may stand behind the older one that `same_as` names: of somebody else's words only what says all of them.

    From then on the older one counts as said by both. Who says a part of it would vouch for the rest, and a long sentence of
    one person would take the place of many of others.
    """
    if scope.kind == "individual" or not same_as:
        return same_as
    authors = await OvertakingRepository(session).authors(scope, {*same_as, *same_as.values()})
    return {
        newer: older
        for newer, older in same_as.items()
        if not _overtakes_others(authors[newer], authors[older]) or says_the_same(contents[older], contents[newer])
    }


def _within_a_day(
    contradictions: Sequence[Contradiction],
    common: Collection[str],
    before: Sequence[tuple[Authors, Authors]],
    authors: Mapping[int, Authors],
) -> Iterator[Contradiction]:
    """Counts for each author, with what gave way before: beyond the bound it is held, and what common words overtake."""
    counts = Counter(by for newer, older in before for by in _overtakes_others(newer, older))
    for item in contradictions:
        by = () if item.held or item.older is None else _overtakes_others(authors[item.newer], authors[item.older])
        if by and (not tells_apart(item.was or "", common) or any(counts[author] >= OF_OTHERS for author in by)):
            yield _held(item)
            continue
        counts.update(by)
        yield item


def _overtakes_others(said: Authors, theirs: Authors) -> Sequence[str | None]:
    """Who said the newer one, where somebody else said the older one or nobody knows who; None: the host."""
    return () if theirs and theirs <= said else sorted(said, key=str) or (None,)


def _held(item: Contradiction) -> Contradiction:
    return item.model_copy(update={"held": True})
