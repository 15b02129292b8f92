"""How alive an observation is: heat, decay and value, and the stage and tier that follow from them. Pure.

`memory.lifecycle`, `memory.next_stage` and `memory.next_tier` say the same in SQL; a test compares the two. B.4 of the
sources has the formulas.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from datetime import datetime, timedelta
from typing import NamedTuple

from memory_sql.domain.observations import Policy, Stage, Tier, Verification

TIERS = ((0.95, 1.0), (0.70, 0.8), (0.40, 0.6))
"""A confidence of at least the first counts as the second: explicit, implied, inferred."""
SPECULATIVE, UNKNOWN = 0.35, 0.5
NEVER = 365.0  # days since what never happened
DAY = timedelta(days=1)


class Life(NamedTuple):
    """What an observation's scores come from. None: not known, never, or nobody said so.

    `confidence` and `importance`: 0 to 1. `uses`: how often a context, digest or search has shown it. `said_at`: when it was
    last said. `feedback`: -1 to 1, the mean.
    """

    confidence: float | None = None
    importance: float | None = None
    uses: int = 0
    last_used_at: datetime | None = None
    said_at: datetime | None = None
    created_at: datetime | None = None
    feedback: float | None = None
    verification: Verification = "unverified"
    category: str | None = None
    status: str = "active"


class Scores(NamedTuple):
    """Each 0 to 1. `heat`: how much it is in use; `decay`: how far it has faded; `value`: whether to keep it at hand."""

    heat: float
    decay: float
    value: float


class Rules(NamedTuple):
    """The thresholds of stages, and the categories that are never archived. `stale` counts at most as much as `archive`."""

    promote: float
    stale: float
    archive: float
    protected: Collection[str]


class TierRules(NamedTuple):
    """The values up to which an observation of so many `days` becomes cold, and from which it is hot."""

    demote: float
    promote: float
    days: float


def scores(life: Life, now: datetime) -> Scores:
    confidence, importance = _normal(life.confidence), UNKNOWN if life.importance is None else life.importance
    used = min(1.0, math.log1p(max(life.uses, 0)) / math.log(21))
    said_at = life.said_at or life.created_at
    recency = _within(1 - _days(life.last_used_at or said_at, now) / 90)
    feedback = ((life.feedback or 0.0) + 1) / 2
    disputed = 0.2 if life.verification == "disputed" else 0.0
    is_archived = life.status == "archived"
    heat = 0.25 * confidence + 0.30 * used + 0.20 * recency + 0.15 * importance + 0.10 * feedback - disputed
    heat = 0.0 if is_archived else _within(heat)
    decay = (
        0.30 * _within(_days(said_at, now) / 180)
        + 0.25 * _within(_days(life.last_used_at, now) / 120)
        + 0.20 * (1 - confidence)
        + 0.10 * (1 - feedback)
        + 0.15 * (1 - heat)
    )
    value = 0.24 * confidence + 0.26 * used + 0.20 * recency + 0.20 * importance + 0.10 * feedback - 0.5 * disputed
    value += 0.08 if life.category == "correction" else 0.0
    value += 0.05 if life.verification == "confirmed" else 0.0
    return Scores(heat, 1.0 if is_archived else _within(decay), _within(value))


def next_stage(
    stage: Stage, scored: Scores, verification: Verification, category: str | None, policy: Policy, rules: Rules
) -> Stage:
    """The stage after this one. What is archived stays so; what is protected never becomes it."""
    if stage == "archived":
        return stage
    if verification == "disputed":
        return "stale"
    if scored.decay >= rules.archive and not (policy == "protected" or category in rules.protected):
        return "archived"
    if scored.decay >= min(rules.stale, rules.archive):
        return "stale"
    if scored.heat >= rules.promote:
        return "active" if verification == "confirmed" else "validated"
    return stage


def next_tier(tier: Tier, value: float, age: float, rules: TierRules, *, is_protected: bool) -> Tier:
    """The tier after this one; `age` in days. Where both would apply it is hot (R182, R183)."""
    if is_protected or value >= rules.promote:
        return "hot"
    if age >= rules.days and value <= rules.demote:
        return "cold"
    return tier


def _normal(confidence: float | None) -> float:
    if confidence is None:
        return UNKNOWN
    return next((worth for least, worth in TIERS if confidence >= least), SPECULATIVE)


def _days(since: datetime | None, now: datetime) -> float:
    return NEVER if since is None else (now - since) / DAY


def _within(share: float) -> float:
    return min(1.0, max(0.0, share))
