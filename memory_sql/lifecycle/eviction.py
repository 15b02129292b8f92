"""How much a scope keeps of each kind, and what goes when it is more: a plan, and the sweep that carries it out.

What goes is evicted: it isn't found, listed or shown any more, its row and its history stay. A text that has absorbed it
stays as well, until it is rewritten.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from memory_sql.config import BUDGET_KINDS, Settings
from memory_sql.db import Session
from memory_sql.db.locks import share_agent
from memory_sql.db.queries.evictable import Amount, BudgetRepository, Stored
from memory_sql.db.repositories.scopes import ScopeRepository
from memory_sql.db.repositories.states import StateRepository
from memory_sql.domain.results import Trimmed
from memory_sql.privacy import SENSITIVITIES

ORDER = ("episode", "note", "procedure", "fact")  # which kind goes first (B.5 of the sources)
MOST_OBSERVATIONS = 2**31 - 1  # of a scope: they are numbered
UNKNOWN_CONFIDENCE = 0.5  # between what is doubted and what is sure


@dataclass(frozen=True, slots=True)
class Budget:
    """Of some kinds together; None: as much as there is."""

    kinds: Collection[str]
    items: int | None
    characters: int | None

    def excess(self, sized: Iterable[tuple[str, int, int]]) -> tuple[int, int]:
        """By how many items and characters these (kind, items, characters) are more; not more is 0."""
        counted = [(items, characters) for kind, items, characters in sized if kind in self.kinds]
        items, characters = (sum(column) for column in zip((0, 0), *counted, strict=True))
        return (
            0 if self.items is None else max(0, items - self.items),
            0 if self.characters is None else max(0, characters - self.characters),
        )


def budgets_of(settings: Settings) -> list[Budget]:
    """Of each kind by itself, then of all; none where nothing is to go."""
    if settings.retention != "budget":
        return []
    limits = {f"{kind}_": (kind,) for kind in ORDER} | {"": BUDGET_KINDS}
    return [
        Budget(kinds, getattr(settings, f"store_{prefix}items"), getattr(settings, f"store_{prefix}characters"))
        for prefix, kinds in limits.items()
    ]


def over(amounts: Iterable[Amount], settings: Settings) -> list[int]:
    """The scopes that keep more than they may, in order."""
    budgets, sized = budgets_of(settings), defaultdict[int, list[tuple[str, int, int]]](list)
    for amount in amounts:
        sized[amount.scope_id].append((amount.kind, amount.items, amount.characters))
    return sorted(scope_id for scope_id, of in sized.items() if any(any(budget.excess(of)) for budget in budgets))


def plan(stored: Sequence[Stored], settings: Settings) -> tuple[list[Stored], bool]:
    """What goes of a scope, in that order, and whether what is left exceeds a budget all the same: it is protected.

    What a fact was before goes first; then episodes, notes, procedures, facts; of each the least sure, then the oldest. Where
    only characters are too many, the biggest. The same however the observations are ordered.
    """
    budgets, spare, gone = budgets_of(settings), _spare(stored), dict[int, Stored]()
    for budget in budgets:
        for by_size in (False, True):
            left = [one for one in stored if one.seq not in gone]
            gone |= {one.seq: one for one in _too_many(left, budget, spare, by_size=by_size)}
    kept = _sizes(one for one in stored if one.seq not in gone)
    return list(gone.values()), any(any(budget.excess(kept)) for budget in budgets)


def _too_many(left: Sequence[Stored], budget: Budget, spare: Collection[int], *, by_size: bool) -> list[Stored]:
    """As many as there are too many of the budget's items, or until its characters are few enough (`by_size`)."""
    items, characters = budget.excess(_sizes(left))
    going = list[Stored]()
    for one in sorted(left, key=lambda one: _rank(one, spare, by_size=by_size)):
        if (characters if by_size else items) <= 0:
            break
        if one.kind in budget.kinds and not one.is_protected:
            going.append(one)
            items, characters = items - 1, characters - one.characters
    return going


def _sizes(stored: Iterable[Stored]) -> list[tuple[str, int, int]]:
    return [(one.kind, 1, one.characters) for one in stored]


def _rank(one: Stored, spare: Collection[int], *, by_size: bool) -> tuple[object, ...]:
    confidence = UNKNOWN_CONFIDENCE if one.confidence is None else one.confidence
    size = -one.characters if by_size else 0
    return (one.seq not in spare, ORDER.index(one.kind), size, confidence, one.observed_at, one.seq)


def _spare(stored: Iterable[Stored]) -> set[int]:
    """Of several of one fact all but the strictest, surest, newest one, which stands for them."""
    by_fact = defaultdict[str, list[Stored]](list)
    for one in stored:
        if one.fact_key is not None:
            by_fact[one.fact_key].append(one)
    return {one.seq for same in by_fact.values() for one in sorted(same, key=_worth)[:-1]}


def _worth(one: Stored) -> tuple[object, ...]:
    confidence = UNKNOWN_CONFIDENCE if one.confidence is None else one.confidence
    return (SENSITIVITIES.index(one.sensitivity), confidence, one.observed_at, one.seq)


async def scopes_over(session: Session, agent_key: int, settings: Settings) -> list[int]:
    """The agent's scopes that keep more than they may, in order; none where its retention isn't by budget."""
    budgets = budgets_of(settings)
    if not budgets:
        return []
    return over(await BudgetRepository(session, agent_key).amounts(_at_least(budgets)), settings)


def _at_least(budgets: Iterable[Budget]) -> int:
    """A scope that never had more observations exceeds none of these budgets."""
    limits = [(budget.items, budget.characters) for budget in budgets]
    if any(characters is not None for _, characters in limits):
        return 0  # one text may be longer than any
    return min((items for items, _ in limits if items is not None), default=MOST_OBSERVATIONS)


class Plan(NamedTuple):
    """What goes of a scope, in that order. `is_over`: what is left is too much all the same."""

    scope_id: int
    going: Sequence[Stored] = ()
    is_over: bool = False

    def told(self, going: Iterable[Stored], *, dry_run: bool = False) -> Trimmed:
        """That so much of it went."""
        evicted = dict(Counter(one.kind for one in going))
        return Trimmed(
            evicted=evicted,
            scopes=(self.scope_id,) if evicted else (),
            over=(self.scope_id,) if self.is_over else (),
            dry_run=dry_run,
        )


async def planned(session: Session, agent_key: int, scope_id: int, settings: Settings) -> Plan:
    """It reads all of the scope, and locks nothing meanwhile."""
    going, is_over = plan(await _stored(session, agent_key, scope_id, settings), settings)
    return Plan(scope_id, going, is_over)


async def trim(
    session: Session,
    agent_key: int,
    plan: Plan,
    batch: Sequence[Stored],
    settings: Settings,
    now: datetime,
) -> Trimmed:
    """Evicts, under the scope's lock, these of the plan; not what has been said again, protected or gone out of use since."""
    scopes = ScopeRepository(session)
    await share_agent(session, agent_key)  # what is held while this runs is seen, or waits
    locked = await scopes.lock(agent_key, scope_ids=[plan.scope_id])
    if not locked:  # forgotten meanwhile
        return Trimmed()
    there = {*await _stored(session, agent_key, plan.scope_id, settings, [one.seq for one in batch])}
    going = [one for one in batch if one in there]  # as it was planned
    await StateRepository(session).evict(locked[0], [one.seq for one in going], now)
    await scopes.refresh_due(agent_key, [plan.scope_id], settings.consolidation_threshold, now)
    return plan.told(going)


async def _stored(
    session: Session, agent_key: int, scope_id: int, settings: Settings, seqs: Sequence[int] | None = None
) -> list[Stored]:
    """All of the scope, or those."""
    pins = settings.digest_fact_keys, settings.digest_tags
    return await BudgetRepository(session, agent_key).stored(scope_id, *pins, seqs)


def added(first: Trimmed, then: Trimmed) -> Trimmed:
    return Trimmed(
        evicted=dict(Counter(first.evicted) + Counter(then.evicted)),
        scopes=tuple(sorted({*first.scopes, *then.scopes})),
        over=tuple(sorted({*first.over, *then.over})),
        dry_run=then.dry_run,
    )
