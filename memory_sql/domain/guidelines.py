"""What an agent learns from what became of its actions: how often each was carried out, and a cautious next step. Pure.

The formula and its constants are those of Engram's compression guidelines.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple, get_args

from pydantic import Field

from memory_sql.domain.ids import Value

ActionOutcome = Literal["applied", "deferred", "denied", "failed"]
OUTCOMES: tuple[ActionOutcome, ...] = get_args(ActionOutcome)
Sureness = Literal["high", "medium", "low"]
EVENTS = 500  # the newest that count
FEWEST = 5  # with fewer of an action nothing is said of it
LINES = 5
OUTCOME, QUALITY, MOST = 0.12, 0.06, 0.15
HIGH, MEDIUM = 0.09, 0.04


class Tally(NamedTuple):
    """Of one action: how often each outcome, and how often it was well judged or poorly, where that is known."""

    applied: int = 0
    deferred: int = 0
    denied: int = 0
    failed: int = 0
    good: int = 0
    poor: int = 0

    @property
    def events(self) -> int:
        return self.applied + self.deferred + self.denied + self.failed


class LearnedGuidelines(Value):
    """What was learnt for an agent. `lines`: at most five; `observation_id`: the version that says them, None if it is as
    before. `ended`: the version that no longer holds, where there is nothing to say any more.
    `actions` and `outcomes`: how the events are distributed.
    """

    agent_id: str
    lines: tuple[str, ...] = ()
    observation_id: str | None = None
    ended: str | None = None
    events: int = 0
    actions: dict[str, int] = Field(default_factory=dict)
    outcomes: dict[str, int] = Field(default_factory=dict)


def delta(tally: Tally) -> float | None:
    """From -0.15 to 0.15, three decimals: how much more or less an action should be used; None: too few events, hold."""
    n = tally.events
    if n < FEWEST:
        return None
    judged = tally.good + tally.poor
    quality = QUALITY * (tally.good - tally.poor) / judged if judged else 0.0
    found = OUTCOME * (tally.applied - tally.failed) / n + quality
    return round(max(-MOST, min(MOST, found)), 3)


def sureness(found: float) -> Sureness:
    return "high" if abs(found) >= HIGH else "medium" if abs(found) >= MEDIUM else "low"


def lines(tallies: Mapping[str, Tally]) -> tuple[str, ...]:
    """A line for each action of which there is something to say, the surest first; without counts, so that they stay."""
    known = {action: found for action, tally in tallies.items() if (found := delta(tally))}
    surest = sorted(known, key=lambda action: (-abs(known[action]), action))[:LINES]
    return tuple(
        f"{action}: {_advice(known[action], tallies[action])} ({sureness(known[action])})." for action in surest
    )


def _advice(found: float, tally: Tally) -> str:
    if found > 0:
        return "it is mostly carried out; go on as before"
    if tally.failed >= max(tally.denied, tally.deferred):
        return "it often fails; check first what is remembered, and use it less"
    return "it is often not allowed; ask the user first, and use it less"
